#include "raft/snapshot_transfer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* At most, as the codec writes it: all but configuration and chunk. */
enum { SNAPSHOT_OVERHEAD = 96 };

void snapshot_transfer_init(struct snapshot_transfer *transfer,
                            const struct raft_sender_calls *calls, void *data, uint64_t to_id) {
    *transfer = (struct snapshot_transfer){.calls = calls, .data = data, .to_id = to_id};
}

void snapshot_transfer_clear(struct snapshot_transfer *transfer) {
    free(transfer->meta);
    transfer->meta = NULL;
}

void snapshot_transfer_stop(struct snapshot_transfer *transfer) {
    snapshot_transfer_clear(transfer);
    transfer->state = TRANSFER_IDLE;
    transfer->is_read_stale = transfer->is_reading;
}

static void begin(struct snapshot_transfer *transfer, const struct message_snapshot *snapshot,
                  uint64_t now_ms) {
    snapshot_transfer_stop(transfer);
    transfer->state = TRANSFER_OPENING;
    transfer->term = snapshot->term;
    transfer->index = snapshot->meta->index;
    transfer->snapshot_term = snapshot->meta->term;
    transfer->received = 0;
    transfer->offset = 0;
    transfer->is_link_new = true;
    transfer->progress_ms = now_ms;
    transfer->probe_ms = now_ms;
}

void snapshot_transfer_post(struct snapshot_transfer *transfer,
                            const struct message_snapshot *snapshot, uint64_t now_ms) {
    bool is_same =
        snapshot->meta->index == transfer->index && snapshot->meta->term == transfer->snapshot_term;
    bool makes_progress = now_ms - transfer->progress_ms < TRANSFER_PROBE_MS;
    if (transfer->state == TRANSFER_IDLE || (!is_same && !makes_progress)) {
        begin(transfer, snapshot, now_ms);
    }
    transfer->term = snapshot->term;
    snapshot_transfer_pump(transfer, now_ms);
}

/* --- Sending. --- */

static bool has_room(const struct snapshot_transfer *transfer, size_t bytes) {
    return transfer->calls->room(transfer->data, transfer->to_id) >= bytes + SNAPSHOT_OVERHEAD;
}

static bool send_chunk(struct snapshot_transfer *transfer, uint64_t offset, struct bytes chunk) {
    struct raft_message_view message = {
        .kind = MESSAGE_SNAPSHOT,
        .snapshot = {
            .term = transfer->term, .meta = transfer->meta, .offset = offset, .chunk = chunk}};
    return transfer->calls->send(transfer->data, transfer->to_id, &message);
}

static size_t chunk_size_at(const struct snapshot_transfer *transfer, uint64_t offset) {
    uint64_t left = transfer->meta->size - offset;
    return left < SNAPSHOT_CHUNK_SIZE ? (size_t)left : SNAPSHOT_CHUNK_SIZE;
}

static void request_read(struct snapshot_transfer *transfer) {
    if (transfer->is_reading) {
        return;
    }
    transfer->is_reading = true;
    transfer->is_read_stale = false;
    transfer->calls->read_snapshot(transfer->data, transfer->to_id, transfer->index,
                                   transfer->snapshot_term, transfer->offset);
}

static void probe(struct snapshot_transfer *transfer, uint64_t now_ms) {
    if (has_room(transfer, transfer->meta->configuration_size) &&
        send_chunk(transfer, 0, bytes_of(NULL, 0))) {
        transfer->state = TRANSFER_PROBING;
        transfer->probe_ms = now_ms;
    }
}

static void stream(struct snapshot_transfer *transfer, uint64_t now_ms) {
    if (transfer->is_reading || transfer->offset == transfer->meta->size ||
        transfer->offset - transfer->received >= TRANSFER_WINDOW) {
        return;
    }
    if (!has_room(transfer,
                  chunk_size_at(transfer, transfer->offset) + transfer->meta->configuration_size)) {
        /* The link is slow, the member is not silent. */
        transfer->progress_ms = now_ms;
        transfer->probe_ms = now_ms;
        return;
    }
    request_read(transfer);
}

static void check_time(struct snapshot_transfer *transfer, uint64_t now_ms) {
    uint64_t silent_ms = now_ms - transfer->progress_ms;
    uint64_t silent_ms_max =
        transfer->state == TRANSFER_INSTALLING ? TRANSFER_INSTALL_MS : TRANSFER_GIVE_UP_MS;
    if (silent_ms >= silent_ms_max) {
        snapshot_transfer_stop(transfer);
    } else if ((transfer->state == TRANSFER_PROBING || transfer->state == TRANSFER_STREAMING) &&
               now_ms - transfer->probe_ms >= TRANSFER_PROBE_MS) {
        transfer->state = TRANSFER_PROBE_DUE;
    }
}

void snapshot_transfer_pump(struct snapshot_transfer *transfer, uint64_t now_ms) {
    if (transfer->state == TRANSFER_IDLE) {
        return;
    }
    check_time(transfer, now_ms);
    switch (transfer->state) {
    case TRANSFER_OPENING:
        request_read(transfer);
        break;
    case TRANSFER_PROBE_DUE:
        probe(transfer, now_ms);
        break;
    case TRANSFER_STREAMING:
        stream(transfer, now_ms);
        break;
    case TRANSFER_IDLE:
    case TRANSFER_PROBING:
    case TRANSFER_INSTALLING:
        break;
    }
}

/* --- Events. --- */

static void open_with(struct snapshot_transfer *transfer, const struct snapshot_meta *meta) {
    transfer->meta = malloc(sizeof *meta);
    if (transfer->meta == NULL) {
        abort();
    }
    *transfer->meta = *meta;
    transfer->state = TRANSFER_PROBE_DUE;
}

void snapshot_transfer_read_done(struct snapshot_transfer *transfer,
                                 const struct snapshot_meta *meta, uint64_t offset,
                                 struct bytes chunk, uint64_t now_ms) {
    assert(transfer->is_reading);
    transfer->is_reading = false;
    bool is_wanted = transfer->state != TRANSFER_IDLE && !transfer->is_read_stale;
    if (is_wanted && (chunk.size == 0 || meta->index != transfer->index ||
                      meta->term != transfer->snapshot_term)) {
        snapshot_transfer_stop(transfer);
        return;
    }
    if (is_wanted && transfer->state == TRANSFER_OPENING) {
        open_with(transfer, meta);
    } else if (is_wanted && transfer->state == TRANSFER_STREAMING && offset == transfer->offset) {
        assert(chunk.size == chunk_size_at(transfer, offset));
        if (!send_chunk(transfer, offset, chunk)) {
            return; /* The link is down; the chunk is read again behind the next probe. */
        }
        transfer->offset += chunk.size;
    }
    snapshot_transfer_pump(transfer, now_ms);
}

/* What the member can have: whole chunks of this snapshot. */
static bool is_possible(const struct snapshot_transfer *transfer,
                        const struct message_snapshot_result *result) {
    return transfer->meta != NULL && result->index == transfer->index &&
           result->received <= transfer->meta->size &&
           (result->received % SNAPSHOT_CHUNK_SIZE == 0 ||
            result->received == transfer->meta->size);
}

void snapshot_transfer_on_result(struct snapshot_transfer *transfer,
                                 const struct message_snapshot_result *result, uint64_t now_ms) {
    if ((transfer->state != TRANSFER_PROBING && transfer->state != TRANSFER_STREAMING &&
         transfer->state != TRANSFER_PROBE_DUE) ||
        !is_possible(transfer, result)) {
        return;
    }
    bool is_more = result->received > transfer->received;
    if (is_more) {
        transfer->progress_ms = now_ms;
        transfer->probe_ms = now_ms;
    }
    if (result->received == transfer->meta->size) {
        transfer->state = TRANSFER_INSTALLING;
        transfer->progress_ms = now_ms;
        return;
    }
    if (transfer->state == TRANSFER_PROBE_DUE) {
        /* From before the link was lost, or late: the probe asks again. */
        return;
    }
    if (transfer->state == TRANSFER_PROBING && (transfer->is_link_new || !is_more)) {
        /* What was sent beyond it is lost. */
        transfer->offset = result->received;
    } else if (result->received < transfer->received) {
        transfer->state = TRANSFER_PROBE_DUE;
        transfer->is_link_new = true;
        snapshot_transfer_pump(transfer, now_ms);
        return;
    }
    transfer->received = result->received;
    if (transfer->offset < transfer->received) {
        transfer->offset = transfer->received;
    }
    transfer->is_link_new = false;
    transfer->state = TRANSFER_STREAMING;
    snapshot_transfer_pump(transfer, now_ms);
}

bool snapshot_transfer_admit(struct snapshot_transfer *transfer,
                             const struct message_append_result *result) {
    if (transfer->state == TRANSFER_IDLE || result->term > transfer->term) {
        return true;
    }
    if (result->rejected == 0) {
        if (result->last_index >= transfer->index) {
            snapshot_transfer_stop(transfer);
        }
        return true;
    }
    return false;
}

void snapshot_transfer_link_lost(struct snapshot_transfer *transfer) {
    switch (transfer->state) {
    case TRANSFER_PROBE_DUE:
    case TRANSFER_PROBING:
    case TRANSFER_STREAMING:
        transfer->state = TRANSFER_PROBE_DUE;
        transfer->is_link_new = true;
        break;
    case TRANSFER_INSTALLING:
        /* Perhaps it was restarted, and has nothing. */
        snapshot_transfer_stop(transfer);
        break;
    case TRANSFER_IDLE:
    case TRANSFER_OPENING:
        break;
    }
}

bool snapshot_transfer_is_reading_file(const struct snapshot_transfer *transfer) {
    return transfer->state != TRANSFER_IDLE && transfer->state != TRANSFER_INSTALLING;
}
