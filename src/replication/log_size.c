/* libraft keeps its log in memory until a snapshot cuts it, and counts entries, not bytes. Here
 * bytes are counted, and libraft is told to take a snapshot when they are too many. */
#include "base/clock.h"
#include "replication/service_internal.h"

#include <limits.h>

enum {
    LOG_BYTES_MAX_DEFAULT = 64 * 1024 * 1024,
    LOG_BYTES_MAX_CEILING = 256 * 1024 * 1024,
    /* What an entry costs in memory beside its bytes. */
    ENTRY_OVERHEAD = 96,
    /* Entries kept behind a snapshot. 0 would mean something else to raft_uv. Alone, nobody needs
     * them; in company they spare a follower that was away for a moment the whole snapshot. */
    TRAILING_ENTRIES_ALONE = 16,
    TRAILING_ENTRIES_MAX = 4096,
    TRAILING_BYTES = 8 * 1024 * 1024
};

/* A large state is worth a longer log: with as much log as state, however much is written, about a
 * byte of snapshot is written for each byte of log. More log would be cheaper still, and take room
 * that a small disk does not have: log, two snapshots and the next one lie there at once. */
static size_t log_bytes_max(const struct service *service) {
    size_t max =
        service->options.log_bytes_max > 0 ? service->options.log_bytes_max : LOG_BYTES_MAX_DEFAULT;
    if (max < service->snapshot_bytes) {
        max = service->snapshot_bytes;
    }
    return max < LOG_BYTES_MAX_CEILING ? max : LOG_BYTES_MAX_CEILING;
}

static unsigned trailing_entries(const struct service *service) {
    if (cluster_is_alone(service) || service->log_entries == 0) {
        return TRAILING_ENTRIES_ALONE;
    }
    size_t average = service->log_bytes / service->log_entries;
    size_t n = TRAILING_BYTES / (average > 0 ? average : 1);
    if (n > TRAILING_ENTRIES_MAX) {
        n = TRAILING_ENTRIES_MAX;
    }
    return n < TRAILING_ENTRIES_ALONE ? TRAILING_ENTRIES_ALONE : (unsigned)n;
}

static void log_size_set_threshold(struct service *service) {
    /* Among several changes of the configuration that are applied in one step, libraft would write
     * an old one into the snapshot. */
    bool is_due = service->log_bytes > log_bytes_max(service) &&
                  service->raft.configuration_uncommitted_index == 0;
    raft_set_snapshot_threshold(&service->raft, is_due ? 1 : UINT_MAX);
    raft_set_snapshot_trailing(&service->raft, trailing_entries(service));
}

void log_size_added(struct service *service, size_t bytes) {
    service->log_bytes += bytes + ENTRY_OVERHEAD;
    service->log_entries++;
    log_size_set_threshold(service);
}

void log_size_view_opened(struct service *service) {
    service->log_bytes_at_view = service->log_bytes;
    service->log_entries_at_view = service->log_entries;
    service->snapshot_begun_ms = clock_boottime_ms();
}

void log_size_stored(struct service *service) {
    service->log_bytes -= service->log_bytes_at_view;
    service->log_bytes_at_view = 0;
    service->log_entries -= service->log_entries_at_view;
    service->log_entries_at_view = 0;
    log_size_set_threshold(service);
}
