#include "replication/join.h"

#include "base/buffer.h"
#include "base/list.h"
#include "replication/peer_dial.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* From the welcome to the whole answer. */
    ANSWER_TIMEOUT_MS = 2000,
    JOIN_READ_SIZE = 4096
};

struct question {
    uv_loop_t *loop;
    struct arena *arena;
    struct join_answer *answer;
    uv_stream_t *stream;
    uv_timer_t timer;
    struct buffer received;
    char bytes[JOIN_READ_SIZE];
};

uint64_t join_token_hash(const char *token) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = token; *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    }
    return hash == 0 ? 1 : hash;
}

static void stream_closed(uv_handle_t *handle) {
    free(handle);
}

static void question_end(struct question *question) {
    if (question->stream != NULL) {
        uv_close((uv_handle_t *)question->stream, stream_closed);
        question->stream = NULL;
        uv_close((uv_handle_t *)&question->timer, NULL);
    }
}

static void timed_out(uv_timer_t *timer) {
    question_end(timer->data);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    struct question *question = handle->data;
    (void)suggested;
    *out_buffer = uv_buf_init(question->bytes, sizeof question->bytes);
}

static void answer_set(struct question *question, const struct peer_frame *frame) {
    *question->answer = (struct join_answer){.is_there = true,
                                             .cluster_id = frame->members.cluster_id,
                                             .token_hash = frame->members.token_hash,
                                             .is_removed = frame->members.is_removed,
                                             .n = frame->members.n,
                                             .members = frame->members.members};
}

static void answer_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct question *question = stream->data;
    if (size < 0) {
        question_end(question);
        return;
    }
    buffer_append(&question->received, buffer->base, (size_t)size);
    /* Decoded from a copy: the members point into it. */
    struct bytes copy =
        bytes_of(arena_copy(question->arena, question->received.data, question->received.size),
                 question->received.size);
    struct peer_frame frame;
    enum status status = peer_frame_decode(&copy, question->arena, &frame);
    if (status == STATUS_PENDING) {
        return;
    }
    if (status == STATUS_OK && frame.type == PEER_MEMBERS) {
        answer_set(question, &frame);
    }
    question_end(question);
}

static void dialled(void *data, uv_stream_t *stream, const char *reason) {
    struct question *question = data;
    (void)reason;
    if (stream == NULL) {
        return;
    }
    question->stream = stream;
    stream->data = question;
    uv_timer_init(question->loop, &question->timer);
    question->timer.data = question;
    uv_timer_start(&question->timer, timed_out, ANSWER_TIMEOUT_MS, 0);
    if (uv_read_start(stream, give_room, answer_read) != 0) {
        question_end(question);
    }
}

void join_ask(uv_loop_t *loop, struct peer_tls_context *tls, const char *const *addresses, size_t n,
              uint64_t id, struct arena *arena, struct join_answer *out_answers) {
    struct question *questions = calloc(n > 0 ? n : 1, sizeof *questions);
    if (questions == NULL) {
        abort();
    }
    memset(out_answers, 0, n * sizeof *out_answers);
    for (size_t i = 0; i < n; i++) {
        questions[i] = (struct question){.loop = loop, .arena = arena, .answer = &out_answers[i]};
        buffer_init(&questions[i].received);
        struct peer_hello hello = {.from_id = id, .purpose = PEER_TO_ASK};
        (void)peer_dial_start(loop, tls, addresses[i], &hello, dialled, &questions[i]);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < n; i++) {
        buffer_clear(&questions[i].received);
    }
    free(questions);
}
