/* libraft keeps its log in memory until a snapshot cuts it, and counts entries, not bytes. Here
 * bytes are counted, and libraft is told to take a snapshot when they are too many. */
#include "base/clock.h"
#include "replication/service_internal.h"

#include <limits.h>

enum {
    LOG_BYTES_MAX_DEFAULT = 16 * 1024 * 1024,
    LOG_BYTES_MAX_CEILING = 256 * 1024 * 1024,
    /* What an entry costs in memory beside its bytes. */
    ENTRY_OVERHEAD = 96,
    /* Entries kept behind a snapshot. 0 would mean something else to raft_uv. */
    TRAILING_ENTRIES = 16
};

/* A large state is worth a longer log: writing it out again and again costs more. */
static size_t log_bytes_max(const struct service *service) {
    size_t max = service->options.log_bytes_max > 0 ? service->options.log_bytes_max
                                                    : LOG_BYTES_MAX_DEFAULT;
    size_t half_snapshot = service->snapshot_bytes / 2;
    if (max < half_snapshot) {
        max = half_snapshot;
    }
    return max < LOG_BYTES_MAX_CEILING ? max : LOG_BYTES_MAX_CEILING;
}

static void log_size_set_threshold(struct service *service) {
    bool is_due = service->log_bytes > log_bytes_max(service);
    raft_set_snapshot_threshold(&service->raft, is_due ? 1 : UINT_MAX);
    raft_set_snapshot_trailing(&service->raft, TRAILING_ENTRIES);
}

void log_size_added(struct service *service, size_t bytes) {
    service->log_bytes += bytes + ENTRY_OVERHEAD;
    log_size_set_threshold(service);
}

void log_size_view_opened(struct service *service) {
    service->log_bytes_at_view = service->log_bytes;
    service->snapshot_begun_ms = clock_boottime_ms();
}

void log_size_stored(struct service *service) {
    service->log_bytes -= service->log_bytes_at_view;
    service->log_bytes_at_view = 0;
    log_size_set_threshold(service);
}
