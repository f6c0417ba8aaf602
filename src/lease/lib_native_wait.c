/* Acquiring in the words of leased.v1: one call whose stream tells the place in the queue, then the
 * token. */
#include "base/clock.h"
#include "lease/lib_message.h"
#include "lease/lib_read.h"
#include "lease/lib_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AcquireRequest and AcquireResponse */
enum {
    REQUEST_SESSION_ID = 1,
    REQUEST_WANTS = 3,
    REQUEST_WAIT_MS = 4,
    REQUEST_VALUE = 5,
    REQUEST_HOLD_LIMIT_MS = 6,
    REQUEST_ID = 7,
    REQUEST_QUEUE_LIMIT = 8,
    RESPONSE_ACQUISITION = 2,
    RESPONSE_POSITION = 4,
    RESPONSE_HOLDERS = 5,
    RESPONSE_HOLDER_REMAINING_MS = 6,
    RESPONSE_HOLD_REMAINING_MS = 7
};

static void put_want(struct buffer *message, const struct lease_want *want, struct buffer *room) {
    lib_put_text(room, 1, want->resource);
    lib_put_int(room, 2, want->mode);
    lib_put_text(room, 3, want->pool);
    if (want->pool != NULL) {
        lib_put_int(room, 4, want->slots == 0 ? 1 : want->slots);
    }
    lib_put_message(message, REQUEST_WANTS, room);
}

/* What is left of the wait, without the grace that is ours. */
static int64_t wait_ms(const struct lease_wait *wait, uint64_t now_ms) {
    if (!wait->waits) {
        return LEASE_NO_WAIT;
    }
    if (wait->deadline_ms == 0) {
        return LEASE_WAIT_FOREVER;
    }
    return wait->deadline_ms > now_ms + LIB_WAIT_GRACE_MS
               ? (int64_t)(wait->deadline_ms - now_ms) - LIB_WAIT_GRACE_MS
               : 1;
}

static void encode(const struct lease_wait *wait, uint64_t now_ms, struct buffer *message) {
    struct buffer room;
    buffer_init(&room);
    lib_put_int(message, REQUEST_SESSION_ID, wait->session->id);
    for (size_t i = 0; i < wait->n_wants; i++) {
        put_want(message, &wait->wants[i], &room);
    }
    lib_put_int(message, REQUEST_WAIT_MS, wait_ms(wait, now_ms));
    lib_put_text(message, REQUEST_VALUE, wait->value);
    lib_put_int(message, REQUEST_HOLD_LIMIT_MS, wait->hold_limit_ms);
    lib_put_text(message, REQUEST_ID, wait->request_id);
    lib_put_int(message, REQUEST_QUEUE_LIMIT, wait->queue_limit);
    buffer_clear(&room);
}

struct response {
    struct lease_acquisition acquisition;
    struct lease_progress progress;
    int64_t hold_remaining_ms; /* of its hold limit, counted from the request; 0: not told */
};

static bool decode(struct arena *arena, struct bytes message, struct response *out) {
    struct pb_reader reader;
    bool is_well = true;
    *out = (struct response){.progress.holder_remaining_ms = -1};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == RESPONSE_ACQUISITION) {
            is_well &= lib_read_acquisition(arena, pb_reader_bytes(&reader), &out->acquisition);
        } else if (reader.field == RESPONSE_POSITION) {
            uint64_t position = pb_reader_uint64(&reader);
            out->progress.position = position > UINT32_MAX ? UINT32_MAX : (uint32_t)position;
        } else if (reader.field == RESPONSE_HOLDER_REMAINING_MS) {
            out->progress.holder_remaining_ms = pb_reader_int64(&reader);
        } else if (reader.field == RESPONSE_HOLD_REMAINING_MS) {
            out->hold_remaining_ms = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed && out->acquisition.id != 0 &&
           lib_read_acquisitions(arena, message, RESPONSE_HOLDERS, &out->progress.holders,
                                 &out->progress.n_holders);
}

static void stop_call(struct lease_wait *wait) {
    lib_call_cancel(wait->call);
    wait->call = NULL;
}

/* After the last answer: the stream ends by itself. To reset it might look like leaving the queue.
 */
static void ignore_message(struct lib_call *call, struct bytes message) {
    (void)call;
    (void)message;
}

static void ignore_end(struct lib_call *call, enum lib_code code, const char *text) {
    (void)call;
    (void)code;
    (void)text;
}

static void let_end(struct lease_wait *wait) {
    static const struct lib_method method = {
        .path = "/leased.v1.Resources/Acquire",
        .on_message = ignore_message,
        .on_end = ignore_end,
    };
    wait->call->method = &method;
    wait->call->context = NULL;
    wait->call = NULL;
}

static void learn_place(struct lease_wait *wait, const struct lease_acquisition *acquisition) {
    wait->acquisition_id = acquisition->id;
    wait->is_answered = true;
    wait->may_have_place = false;
}

static bool has_limit(const struct lease_acquisition *acquisition) {
    return acquisition->hold_limit_ms > 0 && acquisition->hold_limit_ms <= LIB_KEEPER_TTL_MS_MAX;
}

/* The same request again finds the place of the first one. */
static void ask_for_limit(struct lease_wait *wait) {
    if (wait->asks_for_limit) {
        lib_wait_again(wait); /* no leader knew it just now */
        return;
    }
    wait->asks_for_limit = true;
    lib_native_wait_begin(wait);
}

/* What is left of a hold limit counts from the request, as a renewal does. The answer at the end of
 * a wait may have been on its way for any time: then only a request of now can tell. */
static void succeed(struct lease_wait *wait, struct arena *arena, const struct response *response) {
    uint64_t limit_ms = UINT64_MAX;
    learn_place(wait, &response->acquisition);
    let_end(wait);
    if (has_limit(&response->acquisition)) {
        int64_t left_ms = response->hold_remaining_ms;
        if (left_ms <= 0) {
            ask_for_limit(wait);
            return;
        }
        limit_ms = wait->asked_ms + (uint64_t)(left_ms - left_ms / LIB_KEEPER_DRIFT_PARTS);
    }
    lib_wait_succeed(wait, arena, &response->acquisition, (struct lib_etcd_place){0}, limit_ms);
}

static void on_message(struct lib_call *call, struct bytes message) {
    struct lease_wait *wait = call->context;
    struct arena arena;
    struct response response;
    arena_init(&arena);
    if (!decode(&arena, message, &response)) {
        lib_native_wait_leave(wait);
        lib_wait_fail(wait, LEASE_PROTOCOL, "the server's answer is malformed");
    } else if (response.acquisition.stage == LEASE_STAGE_ACQUIRED) {
        succeed(wait, &arena, &response);
    } else {
        learn_place(wait, &response.acquisition);
        lib_wait_tell(wait, &response.progress);
    }
    arena_clear(&arena);
}

/* The server said that there is no place, or never was one. */
static bool is_out(enum lib_code code) {
    return code == LIB_CODE_ABORTED || code == LIB_CODE_NOT_FOUND;
}

static void on_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_wait *wait = call->context;
    bool had_place = wait->acquisition_id != 0 || wait->may_have_place;
    wait->call = NULL;
    wait->may_have_place |= call->opened_ms != 0 && !wait->is_answered;
    enum lease_status status = lib_code_status(code);
    switch (code) {
    case LIB_CODE_UNAVAILABLE:
        lib_wait_again(wait);
        return;
    case LIB_CODE_UNAUTHENTICATED:
        if (!wait->was_authenticated_again && lib_ready_authenticate_again(wait->connection)) {
            wait->was_authenticated_again = true;
            lib_wait_again(wait);
            return;
        }
        break;
    case LIB_CODE_OK:
        status = LEASE_PROTOCOL;
        text = "the server ended the call without an answer";
        break;
    case LIB_CODE_ABORTED:
        status = wait->waits ? LEASE_TIMEOUT : LEASE_BUSY;
        break;
    case LIB_CODE_NOT_FOUND:
        status = strstr(text, "session") != NULL ? LEASE_LOST : LEASE_NOT_FOUND;
        break;
    default:
        break;
    }
    if (had_place && !is_out(code)) {
        lib_native_wait_leave(wait);
    }
    lib_wait_fail(wait, status, text);
}

void lib_native_wait_begin(struct lease_wait *wait) {
    static const struct lib_method method = {
        .path = "/leased.v1.Resources/Acquire",
        .keeps_message = true, /* for orphan_method */
        .on_message = on_message,
        .on_end = on_end,
    };
    struct buffer message;
    uint64_t now_ms = clock_boottime_ms();
    buffer_init(&message);
    encode(wait, now_ms, &message);
    wait->asked_ms = now_ms;
    wait->is_answered = false;
    wait->call =
        lib_call_start(wait->connection, &method, bytes_of(message.data, message.size), wait, 0);
    buffer_clear(&message);
}

/* ---- leaving ---- */

static void encode_release(int64_t acquisition_id, int64_t session_id,
                           struct lib_request *out_request) {
    *out_request =
        (struct lib_request){.path = "/leased.v1.Resources/Release", .is_repeatable = true};
    lib_put_int(&out_request->message, 1, acquisition_id);
    lib_put_int(&out_request->message, 2, session_id);
}

void lib_native_encode_release(const struct lease_hold *hold, struct lib_request *out_request) {
    encode_release(hold->acquisition.id, hold->acquisition.session_id, out_request);
}

static void give_back(struct lease_connection *connection, int64_t acquisition_id,
                      int64_t session_id) {
    struct lib_request request;
    encode_release(acquisition_id, session_id, &request);
    lib_farewell(connection, &request, session_id);
}

/* A call that nobody waits for any more, and whose first answer has not come: what it acquired is
 * given back as soon as its id is known. */
static void on_orphan_message(struct lib_call *call, struct bytes message) {
    struct arena arena;
    struct response response;
    arena_init(&arena);
    if (decode(&arena, message, &response)) {
        give_back(call->connection, response.acquisition.id, response.acquisition.session_id);
    }
    arena_clear(&arena);
    call->connection->n_farewells--;
    lib_call_cancel(call);
}

static void on_orphan_end(struct lib_call *call, enum lib_code code, const char *text) {
    (void)code;
    (void)text;
    call->connection->n_farewells--;
}

/* It finds the place of the call that was lost, if there is one, and is tried again when its
 * connection is lost: the server may have carried it out without being able to say so. */
static const struct lib_method orphan_method = {
    .path = "/leased.v1.Resources/Acquire",
    .is_repeatable = true,
    .on_message = on_orphan_message,
    .on_end = on_orphan_end,
};

static void make_orphan(struct lease_wait *wait) {
    struct lib_call *call = wait->call;
    call->method = &orphan_method;
    call->context = NULL;
    call->session_id = wait->session != NULL ? wait->session->id : 0;
    call->deadline_ms = lib_farewell_deadline_ms(wait->connection, call->session_id);
    wait->connection->n_farewells++;
    wait->call = NULL;
}

/* Where a call was repeated, its place may be another one than that which is known: the first may
 * have ended meanwhile. */
void lib_native_wait_leave(struct lease_wait *wait) {
    struct lib_call *call = wait->call;
    if (wait->acquisition_id != 0 && wait->session != NULL) {
        give_back(wait->connection, wait->acquisition_id, wait->session->id);
    }
    if (call == NULL && wait->may_have_place && wait->session != NULL &&
        lib_session_is_alive(wait->session)) {
        lib_native_wait_begin(wait);
        call = wait->call;
    }
    bool is_under_way = call != NULL && !call->is_closed && call != wait->connection->current_call;
    if (is_under_way && !wait->is_answered && (call->stream_id != 0 || wait->may_have_place)) {
        make_orphan(wait);
    } else {
        stop_call(wait);
    }
}
