/* Bounds of the product that a minute of simulated life would never reach, made small by wrappers
 * (-Wl,--wrap): segments of the log, what raft keeps in memory and behind a snapshot. */
#include "bounds_sim.h"

#include "raft/log_store.h"
#include "raft/raft_engine.h"
#include "raft/raft_node.h"
#include "world.h"

static struct {
    uint64_t segment_size;
    size_t recent_bytes_max;
    uint64_t trailing_max;
} bounds;

void bounds_sim_init(void) {
    bounds.segment_size = random_chance(800) ? random_between(2, 64) * 1024 : 1024 * 1024;
    bounds.recent_bytes_max = random_chance(600) ? random_between(0, 8) * 1024 : 8 * 1024 * 1024;
    bounds.trailing_max = random_chance(700) ? random_between(0, 100) : UINT64_MAX;
}

enum status __real_log_store_open(const struct raft_files *files,
                                  const struct log_store_options *options,
                                  struct log_store **out_store, char *out_error, size_t error_size);
enum status __wrap_log_store_open(const struct raft_files *files,
                                  const struct log_store_options *options,
                                  struct log_store **out_store, char *out_error, size_t error_size);
enum status __wrap_log_store_open(const struct raft_files *files,
                                  const struct log_store_options *options,
                                  struct log_store **out_store, char *out_error,
                                  size_t error_size) {
    struct log_store_options small = *options;
    small.segment_size = bounds.segment_size;
    return __real_log_store_open(files, &small, out_store, out_error, error_size);
}

struct raft_engine *__real_raft_engine_create(const struct raft_engine_options *options,
                                              const struct raft_engine_calls *calls, void *data);
struct raft_engine *__wrap_raft_engine_create(const struct raft_engine_options *options,
                                              const struct raft_engine_calls *calls, void *data);
struct raft_engine *__wrap_raft_engine_create(const struct raft_engine_options *options,
                                              const struct raft_engine_calls *calls, void *data) {
    struct raft_engine_options small = *options;
    small.recent_bytes_max = bounds.recent_bytes_max;
    return __real_raft_engine_create(&small, calls, data);
}

bool __real_raft_node_take_snapshot(struct raft_node *node, uint64_t trailing);
bool __wrap_raft_node_take_snapshot(struct raft_node *node, uint64_t trailing);
bool __wrap_raft_node_take_snapshot(struct raft_node *node, uint64_t trailing) {
    return __real_raft_node_take_snapshot(
        node, trailing < bounds.trailing_max ? trailing : bounds.trailing_max);
}
