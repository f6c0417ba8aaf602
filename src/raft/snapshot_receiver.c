#include "raft/snapshot_receiver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Chunks, and beginnings and ends of transfers that replace each other. */
enum { CALLS_MAX = 2 * RECEIVER_CHUNKS_MAX };

enum receiver_state { RECEIVER_IDLE, RECEIVER_RECEIVING, RECEIVER_FINISHING, RECEIVER_INSTALLING };

enum file_call_kind { CALL_BEGIN, CALL_APPEND, CALL_FINISH, CALL_ABORT };

struct file_call {
    enum file_call_kind kind;
    size_t size;         /* of an append */
    uint64_t generation; /* of the transfer */
};

struct snapshot_receiver {
    struct snapshot_receiver_calls calls;
    void *data;
    uint64_t size_max;
    enum receiver_state state;
    bool is_failed;
    uint64_t generation; /* counts transfers, so that what ends late is known as another's */
    uint64_t from_id;
    uint64_t term;
    struct snapshot_meta meta;
    uint64_t accepted; /* bytes handed to the file */
    uint64_t written;
    uint64_t heard_ms;
    struct file_call queue[CALLS_MAX]; /* a ring of those that have not ended */
    size_t first_call;
    size_t n_calls;
    size_t n_appends;
};

struct snapshot_receiver *snapshot_receiver_create(const struct snapshot_receiver_calls *calls,
                                                   void *data, uint64_t size_max) {
    struct snapshot_receiver *receiver = calloc(1, sizeof *receiver);
    if (receiver == NULL) {
        abort();
    }
    receiver->calls = *calls;
    receiver->data = data;
    receiver->size_max = size_max;
    return receiver;
}

void snapshot_receiver_destroy(struct snapshot_receiver *receiver) {
    free(receiver);
}

bool snapshot_receiver_is_installing(const struct snapshot_receiver *receiver) {
    return receiver->state == RECEIVER_INSTALLING;
}

uint64_t snapshot_receiver_from_id(const struct snapshot_receiver *receiver) {
    return receiver->state == RECEIVER_IDLE ? 0 : receiver->from_id;
}

size_t snapshot_receiver_count_calls(const struct snapshot_receiver *receiver) {
    return receiver->n_calls;
}

/* --- The file. --- */

static void push_call(struct snapshot_receiver *receiver, enum file_call_kind kind, size_t size) {
    assert(receiver->n_calls < CALLS_MAX);
    size_t place = (receiver->first_call + receiver->n_calls++) % CALLS_MAX;
    receiver->queue[place] =
        (struct file_call){.kind = kind, .size = size, .generation = receiver->generation};
    receiver->n_appends += kind == CALL_APPEND;
}

static struct file_call pop_call(struct snapshot_receiver *receiver) {
    assert(receiver->n_calls > 0);
    struct file_call call = receiver->queue[receiver->first_call];
    receiver->first_call = (receiver->first_call + 1) % CALLS_MAX;
    receiver->n_calls--;
    receiver->n_appends -= call.kind == CALL_APPEND;
    return call;
}

/* For two more, and for the abort that may become necessary at any time. */
static bool has_room_for_calls(const struct snapshot_receiver *receiver) {
    return receiver->n_calls + 3 <= CALLS_MAX;
}

static void drop_transfer(struct snapshot_receiver *receiver) {
    receiver->state = RECEIVER_IDLE;
    push_call(receiver, CALL_ABORT, 0);
    receiver->calls.abort(receiver->data);
}

/* --- Answers. --- */

static void answer(struct snapshot_receiver *receiver, uint64_t to_id, uint64_t term,
                   uint64_t index, uint64_t received) {
    struct message_snapshot_result result = {.term = term, .index = index, .received = received};
    receiver->calls.send(receiver->data, to_id, &result);
}

/* When a chunk is being written its end answers, and can say more. */
static void answer_how_far(struct snapshot_receiver *receiver, uint64_t to_id) {
    if (receiver->written == receiver->accepted) {
        answer(receiver, to_id, receiver->term, receiver->meta.index, receiver->written);
    }
}

/* --- What arrives. --- */

static bool is_of_transfer(const struct snapshot_receiver *receiver, uint64_t from_id,
                           const struct snapshot_meta *meta) {
    return receiver->state != RECEIVER_IDLE && receiver->from_id == from_id &&
           receiver->meta.index == meta->index && receiver->meta.term == meta->term &&
           receiver->meta.size == meta->size;
}

/* Callers read the clock at different moments of an iteration. */
static bool is_silent_for(const struct snapshot_receiver *receiver, uint64_t now_ms, uint64_t ms) {
    return now_ms >= receiver->heard_ms && now_ms - receiver->heard_ms >= ms;
}

static bool may_replace(const struct snapshot_receiver *receiver,
                        const struct message_snapshot *message, uint64_t now_ms) {
    if (receiver->state == RECEIVER_IDLE) {
        return true;
    }
    if (receiver->state != RECEIVER_RECEIVING) {
        return false;
    }
    if (is_silent_for(receiver, now_ms, RECEIVER_SILENT_MS)) {
        return true;
    }
    if (message->term != receiver->term) {
        return message->term > receiver->term;
    }
    if (message->meta->term != receiver->meta.term) {
        return message->meta->term > receiver->meta.term;
    }
    return message->meta->index > receiver->meta.index;
}

static void begin(struct snapshot_receiver *receiver, uint64_t from_id,
                  const struct message_snapshot *message) {
    if (receiver->state == RECEIVER_RECEIVING) {
        drop_transfer(receiver);
    }
    receiver->generation++;
    receiver->state = RECEIVER_RECEIVING;
    receiver->from_id = from_id;
    receiver->term = message->term;
    receiver->meta = *message->meta;
    receiver->accepted = 0;
    receiver->written = 0;
    push_call(receiver, CALL_BEGIN, 0);
    receiver->calls.begin(receiver->data, &receiver->meta);
}

/* Begins a transfer if this message can; a status other than STATUS_PENDING: it does not. */
static enum status try_begin(struct snapshot_receiver *receiver, uint64_t from_id,
                             const struct message_snapshot *message, uint64_t now_ms) {
    const struct snapshot_meta *meta = message->meta;
    if (!may_replace(receiver, message, now_ms)) {
        answer_how_far(receiver, from_id);
        return STATUS_OK;
    }
    if (meta->size > receiver->size_max) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    if (!receiver->calls.is_wanted(receiver->data, meta)) {
        answer(receiver, from_id, message->term, meta->index, meta->size);
        return STATUS_OK;
    }
    if (message->offset > 0) {
        /* The configuration comes with the first chunk alone. */
        answer(receiver, from_id, message->term, meta->index, 0);
        return STATUS_OK;
    }
    if (!has_room_for_calls(receiver)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    begin(receiver, from_id, message);
    return STATUS_PENDING;
}

static bool continues(const struct snapshot_receiver *receiver,
                      const struct message_snapshot *message) {
    uint64_t left = receiver->meta.size - receiver->accepted;
    uint64_t expected = left < SNAPSHOT_CHUNK_SIZE ? left : SNAPSHOT_CHUNK_SIZE;
    return receiver->state == RECEIVER_RECEIVING && message->offset == receiver->accepted &&
           message->chunk.size == expected;
}

static void append(struct snapshot_receiver *receiver, struct bytes chunk) {
    uint8_t *copy = malloc(chunk.size);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, chunk.data, chunk.size);
    receiver->accepted += chunk.size;
    push_call(receiver, CALL_APPEND, chunk.size);
    receiver->calls.append(receiver->data, copy, chunk.size);
    if (receiver->accepted == receiver->meta.size) {
        receiver->state = RECEIVER_FINISHING;
        push_call(receiver, CALL_FINISH, 0);
        receiver->calls.finish(receiver->data);
    }
}

enum status snapshot_receiver_receive(struct snapshot_receiver *receiver, uint64_t from_id,
                                      const struct message_snapshot *message, uint64_t now_ms) {
    if (receiver->is_failed || receiver->state == RECEIVER_INSTALLING) {
        return STATUS_OK;
    }
    if (!is_of_transfer(receiver, from_id, message->meta)) {
        enum status status = try_begin(receiver, from_id, message, now_ms);
        if (status != STATUS_PENDING) {
            return status;
        }
    }
    receiver->heard_ms = now_ms;
    if (message->term > receiver->term) {
        receiver->term = message->term;
    }
    if (!continues(receiver, message)) {
        answer_how_far(receiver, from_id);
        return STATUS_OK;
    }
    if (receiver->n_appends >= RECEIVER_CHUNKS_MAX || !has_room_for_calls(receiver)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    append(receiver, message->chunk);
    return STATUS_OK;
}

/* --- What ends. --- */

static void complete(struct snapshot_receiver *receiver) {
    receiver->state = RECEIVER_INSTALLING;
    bool is_taken = receiver->calls.complete(receiver->data, receiver->from_id, receiver->term,
                                             &receiver->meta);
    if (!is_taken) {
        assert(receiver->state == RECEIVER_INSTALLING);
        drop_transfer(receiver);
    }
}

void snapshot_receiver_written(struct snapshot_receiver *receiver, enum status status) {
    struct file_call call = pop_call(receiver);
    if (receiver->is_failed) {
        return;
    }
    if (status != STATUS_OK) {
        receiver->is_failed = true;
        receiver->state = RECEIVER_IDLE;
        return;
    }
    if (receiver->state == RECEIVER_IDLE || call.generation != receiver->generation) {
        return;
    }
    switch (call.kind) {
    case CALL_APPEND:
        receiver->written += call.size;
        answer(receiver, receiver->from_id, receiver->term, receiver->meta.index,
               receiver->written);
        break;
    case CALL_FINISH:
        complete(receiver);
        break;
    case CALL_BEGIN:
    case CALL_ABORT:
        break;
    }
}

void snapshot_receiver_installed(struct snapshot_receiver *receiver) {
    assert(receiver->state == RECEIVER_INSTALLING);
    receiver->state = RECEIVER_IDLE;
}

void snapshot_receiver_cancel(struct snapshot_receiver *receiver) {
    if (receiver->state == RECEIVER_RECEIVING || receiver->state == RECEIVER_FINISHING) {
        drop_transfer(receiver);
    }
}

void snapshot_receiver_poll(struct snapshot_receiver *receiver, uint64_t now_ms) {
    if (receiver->state == RECEIVER_RECEIVING &&
        is_silent_for(receiver, now_ms, RECEIVER_ABANDON_MS)) {
        drop_transfer(receiver);
    }
}
