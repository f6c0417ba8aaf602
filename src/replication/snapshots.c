/* Snapshots of the state: when one is due, what it is made from, what replaces the state when one
 * arrives, and those that clients ask for. The log is bounded by bytes. */
#include "core/snapshot_sink.h"
#include "raft/snapshot_store.h"
#include "replication/service_internal.h"

#include <stdlib.h>

enum {
    LOG_BYTES_MAX_DEFAULT = 64 * 1024 * 1024,
    LOG_BYTES_MAX_CEILING = 256 * 1024 * 1024,
    /* What an entry costs on disk beside its bytes. */
    ENTRY_OVERHEAD = 48,
    /* A small entry may write much, as one that changes a byte of a large value, and is applied
     * again by a start: when that is more than so many times its size, that part of it counts. */
    WRITES_MUCH = 4,
    /* Entries kept behind a snapshot. Alone, nobody needs them; in company they spare a follower
     * that was away for a moment the whole snapshot. */
    TRAILING_ENTRIES_ALONE = 16,
    TRAILING_ENTRIES_MAX = 4096,
    TRAILING_BYTES = 8 * 1024 * 1024
};

/* --- Our own. --- */

/* A large state is worth a longer log: with as much log as state, however much is written, about a
 * byte of snapshot is written for each byte of log. More log would be cheaper still, and take room
 * that a small disk does not have: log, two snapshots and the next one lie there at once. */
static size_t log_bytes_max(const struct service *service) {
    size_t max =
        service->options.log_bytes_max > 0 ? service->options.log_bytes_max : LOG_BYTES_MAX_DEFAULT;
    if (max < service->snapshots.last_size) {
        max = service->snapshots.last_size;
    }
    return max < LOG_BYTES_MAX_CEILING ? max : LOG_BYTES_MAX_CEILING;
}

static uint64_t trailing_entries(const struct service *service) {
    if (cluster_is_alone(service) || service->snapshots.log_entries == 0) {
        return TRAILING_ENTRIES_ALONE;
    }
    size_t average = service->snapshots.log_bytes / service->snapshots.log_entries;
    size_t n = TRAILING_BYTES / (average > 0 ? average : 1);
    if (n > TRAILING_ENTRIES_MAX) {
        n = TRAILING_ENTRIES_MAX;
    }
    return n < TRAILING_ENTRIES_ALONE ? TRAILING_ENTRIES_ALONE : n;
}

void snapshots_added(struct service *service, const struct snapshots_addition *added) {
    size_t log_bytes = added->log_bytes + ENTRY_OVERHEAD;
    service->snapshots.log_work += added->work;
    if (added->written_bytes > WRITES_MUCH * log_bytes) {
        /* Alone, a start frees history as it applies; a member in company does so later. */
        service->snapshots.log_work +=
            added->written_bytes / (cluster_is_alone(service) ? WRITES_MUCH : 1);
    }
    service->snapshots.log_bytes += log_bytes;
    service->snapshots.log_entries++;
}

static void take(struct service *service) {
    struct snapshots *snapshots = &service->snapshots;
    snapshots->view = snapshot_view_open(service->machine);
    if (!raft_node_take_snapshot(service->node, trailing_entries(service))) {
        snapshot_view_close(snapshots->view);
        snapshots->view = NULL;
        return;
    }
    snapshots->log_bytes_at_view = snapshots->log_bytes;
    snapshots->log_work_at_view = snapshots->log_work;
    snapshots->log_entries_at_view = snapshots->log_entries;
}

struct serialisation {
    struct snapshot_writer *writer;
    int error;
};

static void write_piece(void *data, struct bytes piece) {
    struct serialisation *serialisation = data;
    if (serialisation->error == 0) {
        serialisation->error = snapshot_writer_append(serialisation->writer, piece);
    }
}

int snapshots_serialise(void *data, struct snapshot_writer *writer) {
    struct service *service = data;
    struct serialisation serialisation = {.writer = writer};
    struct snapshot_sink sink = {.write = write_piece, .data = &serialisation};
    snapshot_view_stream(service->snapshots.view, &sink);
    return serialisation.error;
}

void snapshots_ended(void *data, uint64_t size) {
    struct service *service = data;
    struct snapshots *snapshots = &service->snapshots;
    snapshot_view_close(snapshots->view);
    snapshots->view = NULL;
    /* What compaction could not free while the view was open. */
    service->background.is_reclaiming = true;
    if (size > 0) {
        snapshots->last_size = size;
        service->counters.snapshots++;
        snapshots->log_bytes -= snapshots->log_bytes_at_view;
        snapshots->log_work -= snapshots->log_work_at_view;
        snapshots->log_entries -= snapshots->log_entries_at_view;
    }
    snapshots->log_bytes_at_view = 0;
    snapshots->log_work_at_view = 0;
    snapshots->log_entries_at_view = 0;
}

/* --- The leader's. --- */

bool snapshots_are_read(const struct service *service) {
    return service->snapshots.view != NULL || scans_are_open(service);
}

/* With certificates or a secret only a member can have sent it, and members write no other. Else
 * the whole of it is tried on a state of its own. */
bool snapshots_check_received(void *data, struct bytes payload) {
    const struct service *service = data;
    if (members_are_proven(service)) {
        return true;
    }
    struct state_machine *scratch = state_machine_create(&(struct state_machine_options){
        .rules = service->options.rules,
        .cluster_version_known = service->options.cluster_version_known});
    enum status status = state_machine_restore(scratch, payload);
    state_machine_destroy(scratch);
    return status == STATUS_OK;
}

bool snapshots_can_restore(void *data) {
    return !snapshots_are_read(data);
}

enum status snapshots_restore(void *data, struct bytes payload) {
    struct service *service = data;
    enum status status = state_machine_restore(service->machine, payload);
    if (status == STATUS_OK) {
        service->snapshots.last_size = payload.size;
        service->snapshots.log_bytes = 0;
        service->snapshots.log_work = 0;
        service->snapshots.log_entries = 0;
        proposals_state_replaced(service);
    }
    return status;
}

void snapshots_poll(struct service *service) {
    if (service->closing || service->failed) {
        return;
    }
    /* Work counts as bytes do: a start that has a snapshot does not do it again. History that is
     * freed goes first, since nothing is freed while a view is open: one snapshot after the other
     * would let it grow without bound. The log may be twice as long for it, not more. */
    size_t parts = apply_can_reclaim(service) ? 2 : 1;
    if (service->snapshots.view == NULL &&
        service->snapshots.log_bytes + service->snapshots.log_work >
            parts * log_bytes_max(service)) {
        take(service);
    }
}
