/* Large messages of a leader on their way to a member, between libraft and raft_uv.
 *
 * Until a member answers, libraft sends it all that it may lack with every heartbeat, again and
 * again: what is still on its way is repeated as a heartbeat alone. And heartbeats that leave
 * before a snapshot does are rejected by a member that lacks everything; libraft takes each
 * rejection for the loss of the snapshot, reads all of it from the disk once more and sends it
 * again: these rejections are dropped. */
#include "base/list.h"
#include "replication/raft_guard.h"

#include <stdlib.h>

/* Entries of fewer bytes may be repeated. */
enum { BULK_BYTES_MIN = 256 * 1024 };

struct raft_bulk_sent {
    struct raft_io_send own;
    struct raft_guard *guard;
    struct raft_bulk_sent *next;
    raft_id to_id;
    bool is_snapshot;
    raft_index prev_index; /* of entries */
    struct raft_io_send *request;
    raft_io_send_cb done;
};

struct raft_bulk_loaded {
    struct raft_io_snapshot_get own;
    struct raft_guard *guard;
    struct raft_io_snapshot_get *request;
    raft_io_snapshot_get_cb done;
};

static bool is_sending_snapshot(const struct raft_guard *guard, raft_id to_id) {
    for (const struct raft_bulk_sent *sent = guard->bulk; sent != NULL; sent = sent->next) {
        if (sent->is_snapshot && sent->to_id == to_id) {
            return true;
        }
    }
    return false;
}

static bool is_sending_entries(const struct raft_guard *guard, raft_id to_id,
                               raft_index prev_index) {
    for (const struct raft_bulk_sent *sent = guard->bulk; sent != NULL; sent = sent->next) {
        if (!sent->is_snapshot && sent->to_id == to_id && sent->prev_index == prev_index) {
            return true;
        }
    }
    return false;
}

/* While a snapshot is read nobody knows for whom: a rejection of somebody else's that is dropped
 * meanwhile comes again with the next heartbeat. One that tells of a newer term is never dropped.
 */
bool raft_bulk_admit(struct raft_guard *guard, const struct raft_message *message) {
    const struct raft *raft = guard->io.data;
    bool is_of_newer_term =
        raft != NULL && message->append_entries_result.term > raft_current_term(raft);
    if (message->append_entries_result.rejected == 0 || is_of_newer_term ||
        (guard->n_snapshots_loading == 0 && !is_sending_snapshot(guard, message->server_id))) {
        return true;
    }
    guard->rejections_dropped++;
    return false;
}

static void sent(struct raft_io_send *own, int status) {
    struct raft_bulk_sent *bulk = list_entry(own, struct raft_bulk_sent, own);
    struct raft_bulk_sent **place = &bulk->guard->bulk;
    while (*place != bulk) {
        place = &(*place)->next;
    }
    *place = bulk->next;
    struct raft_io_send *request = bulk->request;
    raft_io_send_cb done = bulk->done;
    free(bulk);
    done(request, status);
}

static int send_watched(struct raft_guard *guard, struct raft_io_send *request,
                        const struct raft_message *message, raft_io_send_cb done) {
    struct raft_bulk_sent *bulk = malloc(sizeof *bulk);
    if (bulk == NULL) {
        return RAFT_NOMEM;
    }
    *bulk = (struct raft_bulk_sent){.guard = guard,
                                    .next = guard->bulk,
                                    .to_id = message->server_id,
                                    .is_snapshot = message->type == RAFT_INSTALL_SNAPSHOT,
                                    .request = request,
                                    .done = done};
    if (!bulk->is_snapshot) {
        bulk->prev_index = message->append_entries.prev_log_index;
    }
    int rv = guard->send(&guard->io, &bulk->own, message, sent);
    if (rv != 0) {
        free(bulk);
        return rv;
    }
    guard->bulk = bulk;
    return 0;
}

int raft_bulk_send_snapshot(struct raft_guard *guard, struct raft_io_send *request,
                            const struct raft_message *message, raft_io_send_cb done) {
    /* One is on its way; libraft frees the second. */
    if (is_sending_snapshot(guard, message->server_id)) {
        return RAFT_NOCONNECTION;
    }
    return send_watched(guard, request, message, done);
}

static bool is_bulk(const struct raft_append_entries *append) {
    size_t bytes = 0;
    for (unsigned i = 0; i < append->n_entries && bytes < BULK_BYTES_MIN; i++) {
        bytes += append->entries[i].buf.len;
    }
    return bytes >= BULK_BYTES_MIN;
}

int raft_bulk_send_entries(struct raft_guard *guard, struct raft_io_send *request,
                           const struct raft_message *message, raft_io_send_cb done) {
    const struct raft_append_entries *append = &message->append_entries;
    if (!is_bulk(append)) {
        return guard->send(&guard->io, request, message, done);
    }
    if (!is_sending_entries(guard, message->server_id, append->prev_log_index)) {
        return send_watched(guard, request, message, done);
    }
    struct raft_message heartbeat = *message;
    heartbeat.append_entries.entries = NULL;
    heartbeat.append_entries.n_entries = 0;
    guard->repeats_emptied++;
    return guard->send(&guard->io, request, &heartbeat, done);
}

static void loaded(struct raft_io_snapshot_get *own, struct raft_snapshot *snapshot, int status) {
    struct raft_bulk_loaded *load = list_entry(own, struct raft_bulk_loaded, own);
    struct raft_guard *guard = load->guard;
    struct raft_io_snapshot_get *request = load->request;
    raft_io_snapshot_get_cb done = load->done;
    free(load);
    done(request, snapshot, status);
    guard->n_snapshots_loading--;
}

int raft_bulk_get(struct raft_io *io, struct raft_io_snapshot_get *request,
                  raft_io_snapshot_get_cb done) {
    struct raft_guard *guard = list_entry(io, struct raft_guard, io);
    struct raft_bulk_loaded *load = malloc(sizeof *load);
    if (load == NULL) {
        return RAFT_NOMEM;
    }
    *load = (struct raft_bulk_loaded){.guard = guard, .request = request, .done = done};
    int rv = guard->snapshot_get(io, &load->own, loaded);
    if (rv != 0) {
        free(load);
        return rv;
    }
    guard->n_snapshots_loading++;
    return 0;
}
