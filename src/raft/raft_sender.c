#include "raft/raft_sender.h"

#include "raft/entry_stream.h"
#include "raft/snapshot_transfer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct member {
    uint64_t id;
    struct entry_stream stream;
    struct snapshot_transfer transfer;
};

struct raft_sender {
    struct raft_sender_calls calls;
    void *data;
    struct member **members;
    size_t n_members;
    size_t capacity;
    uint64_t now_ms; /* the latest that was told */
};

struct raft_sender *raft_sender_create(const struct raft_sender_calls *calls, void *data) {
    struct raft_sender *sender = calloc(1, sizeof *sender);
    if (sender == NULL) {
        abort();
    }
    sender->calls = *calls;
    sender->data = data;
    return sender;
}

static void destroy_member(struct member *member) {
    entry_stream_clear(&member->stream);
    snapshot_transfer_clear(&member->transfer);
    free(member);
}

void raft_sender_destroy(struct raft_sender *sender) {
    if (sender == NULL) {
        return;
    }
    for (size_t i = 0; i < sender->n_members; i++) {
        destroy_member(sender->members[i]);
    }
    free(sender->members);
    free(sender);
}

/* --- Members. --- */

static struct member *find(const struct raft_sender *sender, uint64_t id) {
    for (size_t i = 0; i < sender->n_members; i++) {
        if (sender->members[i]->id == id) {
            return sender->members[i];
        }
    }
    return NULL;
}

static struct member *find_or_add(struct raft_sender *sender, uint64_t id) {
    struct member *member = find(sender, id);
    if (member != NULL) {
        return member;
    }
    if (sender->n_members == sender->capacity) {
        sender->capacity = sender->capacity == 0 ? 8 : sender->capacity * 2;
        sender->members = realloc(sender->members, sender->capacity * sizeof(struct member *));
        if (sender->members == NULL) {
            abort();
        }
    }
    member = malloc(sizeof *member);
    if (member == NULL) {
        abort();
    }
    member->id = id;
    entry_stream_init(&member->stream, &sender->calls, sender->data, id);
    snapshot_transfer_init(&member->transfer, &sender->calls, sender->data, id);
    sender->members[sender->n_members++] = member;
    return member;
}

/* A member for whom nothing is under way needs no memory; it may have been removed for good. */
static void forget_if_idle(struct raft_sender *sender, struct member *member) {
    if (member->stream.is_open || member->stream.is_reading || member->transfer.is_reading ||
        member->transfer.state != TRANSFER_IDLE) {
        return;
    }
    for (size_t i = 0; i < sender->n_members; i++) {
        if (sender->members[i] == member) {
            sender->members[i] = sender->members[--sender->n_members];
            break;
        }
    }
    destroy_member(member);
}

/* --- Events. --- */

/* Callers read the clock at different moments of an iteration; time does not go back here. */
static uint64_t advance_time(struct raft_sender *sender, uint64_t now_ms) {
    if (now_ms > sender->now_ms) {
        sender->now_ms = now_ms;
    }
    return sender->now_ms;
}

void raft_sender_post(struct raft_sender *sender, uint64_t to_id,
                      const struct raft_message_view *message, uint64_t now_ms) {
    now_ms = advance_time(sender, now_ms);
    if (message->kind == MESSAGE_SNAPSHOT) {
        snapshot_transfer_post(&find_or_add(sender, to_id)->transfer, &message->snapshot, now_ms);
        return;
    }
    if (message->kind == MESSAGE_APPEND && message->append.n_entries > 0) {
        entry_stream_post(&find_or_add(sender, to_id)->stream, &message->append, now_ms);
        return;
    }
    struct member *member = find(sender, to_id);
    if (message->kind == MESSAGE_APPEND && member != NULL) {
        entry_stream_note(&member->stream, &message->append, now_ms);
    }
    (void)sender->calls.send(sender->data, to_id, message);
}

void raft_sender_pump(struct raft_sender *sender, uint64_t now_ms) {
    now_ms = advance_time(sender, now_ms);
    for (size_t i = 0; i < sender->n_members; i++) {
        entry_stream_pump(&sender->members[i]->stream, now_ms);
        snapshot_transfer_pump(&sender->members[i]->transfer, now_ms);
    }
}

void raft_sender_read_done(struct raft_sender *sender, uint64_t to_id, struct log_item **items,
                           size_t n) {
    struct member *member = find(sender, to_id);
    assert(member != NULL);
    entry_stream_read_done(&member->stream, items, n, sender->now_ms);
}

void raft_sender_snapshot_read(struct raft_sender *sender, uint64_t to_id,
                               const struct snapshot_meta *meta, uint64_t offset,
                               struct bytes chunk) {
    struct member *member = find(sender, to_id);
    assert(member != NULL);
    snapshot_transfer_read_done(&member->transfer, meta, offset, chunk, sender->now_ms);
}

void raft_sender_on_result(struct raft_sender *sender, uint64_t from_id,
                           const struct message_snapshot_result *result, uint64_t now_ms) {
    now_ms = advance_time(sender, now_ms);
    struct member *member = find(sender, from_id);
    if (member != NULL) {
        snapshot_transfer_on_result(&member->transfer, result, now_ms);
    }
}

bool raft_sender_admit_rejection(struct raft_sender *sender, uint64_t from_id,
                                 const struct message_append_result *result, uint64_t now_ms) {
    now_ms = advance_time(sender, now_ms);
    struct member *member = find(sender, from_id);
    if (member == NULL) {
        return true;
    }
    /* Both look at it: an accepted one moves the stream and may end the transfer. */
    bool is_admitted_by_stream = entry_stream_admit(&member->stream, result, now_ms);
    bool is_admitted_by_transfer = snapshot_transfer_admit(&member->transfer, result);
    return is_admitted_by_stream && is_admitted_by_transfer;
}

void raft_sender_link_lost(struct raft_sender *sender, uint64_t id) {
    struct member *member = find(sender, id);
    if (member != NULL) {
        entry_stream_stop(&member->stream);
        snapshot_transfer_link_lost(&member->transfer);
        forget_if_idle(sender, member);
    }
}

void raft_sender_stop_all(struct raft_sender *sender) {
    for (size_t i = 0; i < sender->n_members; i++) {
        entry_stream_stop(&sender->members[i]->stream);
        snapshot_transfer_stop(&sender->members[i]->transfer);
    }
}

uint64_t raft_sender_needed_from(const struct raft_sender *sender) {
    uint64_t from = UINT64_MAX;
    for (size_t i = 0; i < sender->n_members; i++) {
        const struct member *member = sender->members[i];
        uint64_t has = UINT64_MAX;
        if (member->transfer.state != TRANSFER_IDLE) {
            has = member->transfer.index;
        } else if (entry_stream_is_live(&member->stream)) {
            has = member->stream.acknowledged;
        }
        from = has < from ? has : from;
    }
    return from;
}

bool raft_sender_is_transferring(const struct raft_sender *sender) {
    for (size_t i = 0; i < sender->n_members; i++) {
        if (snapshot_transfer_is_reading_file(&sender->members[i]->transfer)) {
            return true;
        }
    }
    return false;
}

bool raft_sender_is_transferring_to(const struct raft_sender *sender, uint64_t id) {
    const struct member *member = find(sender, id);
    return member != NULL && member->transfer.state != TRANSFER_IDLE;
}
