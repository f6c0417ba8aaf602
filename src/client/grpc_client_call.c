/*
 * Calls on one connection (gRPC over HTTP/2, PROTOCOL-HTTP2.md): request headers, length-prefixed
 * messages both ways, status from the trailers, deadlines. Call objects are recycled with their
 * buffers, so that a busy connection allocates nothing of its own for a call.
 */
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ----------------------------------------------------------------------------------
 */

static void trim(struct buffer *buffer) {
    buffer->size = 0;
    if (buffer->capacity > GRPC_CLIENT_KEPT_BUFFER_SIZE_MAX) {
        buffer_clear(buffer);
    }
}

static struct grpc_client_call *take_call(struct grpc_client *client) {
    struct list *node = list_pop_first(&client->idle_calls);
    struct grpc_client_call *call;
    if (node != NULL) {
        call = list_entry(node, struct grpc_client_call, link);
    } else {
        call = malloc(sizeof *call);
        if (call == NULL) {
            abort();
        }
        list_init(&call->link);
        list_init(&call->send_link);
        list_init(&call->deadline_link);
        call->client = client;
        buffer_init(&call->out);
        buffer_init(&call->in);
    }
    call->deadline_ms = 0;
    call->stream_id = 0;
    call->http_status = 0;
    call->grpc_status = -1;
    call->is_grpc = false;
    call->half_closed = false;
    call->end_sent = false;
    call->ended = false;
    call->unacknowledged = 0;
    call->message_whole = false;
    call->out_sent = 0;
    call->text[0] = 0;
    list_append(&client->calls, &call->link);
    client->n_calls++;
    return call;
}

void grpc_client_recycle_calls(struct grpc_client *client) {
    struct list *node;
    while ((node = list_pop_first(&client->dead_calls)) != NULL) {
        struct grpc_client_call *call = list_entry(node, struct grpc_client_call, link);
        trim(&call->out);
        trim(&call->in);
        list_append(&client->idle_calls, &call->link);
    }
}

static void free_list(struct list *list) {
    struct list *node;
    while ((node = list_pop_first(list)) != NULL) {
        struct grpc_client_call *call = list_entry(node, struct grpc_client_call, link);
        buffer_clear(&call->out);
        buffer_clear(&call->in);
        free(call);
    }
}

void grpc_client_free_calls(struct grpc_client *client) {
    free_list(&client->calls);
    free_list(&client->dead_calls);
    free_list(&client->idle_calls);
}

/* The object stays as it is until the iteration is over. */
static void bury(struct grpc_client_call *call) {
    struct grpc_client *client = call->client;
    call->ended = true;
    list_remove(&call->deadline_link);
    list_remove(&call->link);
    list_append(&client->dead_calls, &call->link);
    assert(client->n_calls > 0);
    client->n_calls--;
    grpc_client_touch(client);
}

void grpc_client_call_end(struct grpc_client_call *call, enum grpc_code code, const char *text) {
    assert(!call->ended);
    bury(call);
    struct bytes message = {0};
    if (code == GRPC_OK && call->method->unary) {
        message = bytes_of(call->in.data + GRPC_FRAME_PREFIX_SIZE,
                           call->in.size - GRPC_FRAME_PREFIX_SIZE);
    }
    if (!call->client->destroyed) {
        call->method->on_end(call, code, text, message);
    }
}

void grpc_client_end_calls(struct grpc_client *client, enum grpc_code code, const char *text) {
    while (!list_is_empty(&client->calls) && !client->destroyed) {
        struct grpc_client_call *call =
            list_entry(client->calls.next, struct grpc_client_call, link);
        grpc_client_session_drop(call, true);
        grpc_client_call_end(call, code, text);
    }
}

/* Gives the stream up and reports why to the owner. */
static void break_call(struct grpc_client_call *call, enum grpc_code code, const char *text) {
    grpc_client_session_drop(call, false);
    grpc_client_call_end(call, code, text);
}

/* ---- deadlines --------------------------------------------------------------------------------
 */

static uint64_t now_ms(void) {
    return uv_hrtime() / 1000000;
}

static void on_deadline(uv_timer_t *timer);

static void set_deadline_timer(struct grpc_client *client, uint64_t due_ms, uint64_t delay_ms) {
    client->deadline_timer_ms = due_ms;
    uv_update_time(client->loop);
    uv_timer_start(&client->deadline_timer, on_deadline, delay_ms, 0);
}

static void on_deadline(uv_timer_t *timer) {
    struct grpc_client *client = timer->data;
    uint64_t now = now_ms();
    while (!client->destroyed && !list_is_empty(&client->deadlines)) {
        struct grpc_client_call *call =
            list_entry(client->deadlines.next, struct grpc_client_call, deadline_link);
        if (call->deadline_ms > now) {
            set_deadline_timer(client, call->deadline_ms, call->deadline_ms - now);
            return;
        }
        break_call(call, GRPC_DEADLINE_EXCEEDED,
                   client->state == GRPC_CLIENT_CONNECTING ? "no answer in time: still connecting"
                                                           : "no answer in time");
    }
}

/* Most calls of a connection have the same timeout, so the right place is nearly always the end. */
static void add_deadline(struct grpc_client_call *call, uint32_t timeout_ms) {
    struct grpc_client *client = call->client;
    call->deadline_ms = now_ms() + timeout_ms;
    struct list *after = client->deadlines.previous;
    while (after != &client->deadlines &&
           list_entry(after, struct grpc_client_call, deadline_link)->deadline_ms >
               call->deadline_ms) {
        after = after->previous;
    }
    /* Appending to the list that begins at the successor inserts before it. */
    list_append(after->next, &call->deadline_link);
    /* A timer that is due sooner only fires early, and is then set anew. */
    if (!uv_is_active((uv_handle_t *)&client->deadline_timer) ||
        client->deadline_timer_ms > call->deadline_ms) {
        set_deadline_timer(client, call->deadline_ms, timeout_ms);
    }
}

/* ---- sending ----------------------------------------------------------------------------------
 */

struct grpc_client_call *grpc_client_open(struct grpc_client *client,
                                          const struct grpc_client_method *method,
                                          uint32_t timeout_ms) {
    const struct grpc_client_session *session = &client->session;
    if (client->state == GRPC_CLIENT_CLOSED || session->goaway_last_id >= 0) {
        return NULL;
    }
    /* Calls that wait for their stream need an id too. */
    if ((size_t)(HTTP2_STREAM_ID_MAX - session->next_stream_id) / 2 <= client->n_calls) {
        return NULL;
    }
    struct grpc_client_call *call = take_call(client);
    call->method = method;
    call->timeout_ms = timeout_ms;
    grpc_client_session_queue(call);
    if (timeout_ms > 0) {
        add_deadline(call, timeout_ms);
    }
    return call;
}

void *grpc_client_call_room(struct grpc_client_call *call) {
    return call->room;
}

struct grpc_client *grpc_client_call_client(const struct grpc_client_call *call) {
    return call->client;
}

uint8_t *grpc_client_call_reserve(struct grpc_client_call *call, size_t size) {
    assert(!call->half_closed);
    return buffer_reserve(&call->out, GRPC_FRAME_PREFIX_SIZE + size) + GRPC_FRAME_PREFIX_SIZE;
}

void grpc_client_call_commit(struct grpc_client_call *call, size_t size) {
    assert(size <= UINT32_MAX);
    uint8_t *prefix = call->out.data + call->out.size;
    prefix[0] = 0; /* not compressed */
    prefix[1] = (uint8_t)(size >> 24);
    prefix[2] = (uint8_t)(size >> 16);
    prefix[3] = (uint8_t)(size >> 8);
    prefix[4] = (uint8_t)size;
    call->out.size += GRPC_FRAME_PREFIX_SIZE + size;
    assert(call->out.size <= call->out.capacity);
    grpc_client_session_queue(call);
}

void grpc_client_call_half_close(struct grpc_client_call *call) {
    call->half_closed = true;
    grpc_client_session_queue(call);
}

void grpc_client_call_cancel(struct grpc_client_call *call) {
    if (!call->ended) {
        grpc_client_session_drop(call, call->client->state == GRPC_CLIENT_CLOSED);
        bury(call);
    }
}

/* ---- receiving --------------------------------------------------------------------------------
 */

static size_t message_size(const uint8_t *prefix) {
    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

/* NULL: the prefix is acceptable. */
static const char *prefix_error(const struct grpc_client_call *call, const uint8_t *prefix) {
    if (call->message_whole) {
        return "the server sent a second answer";
    }
    if (prefix[0] != 0) {
        return "the server compressed its answer without being asked to";
    }
    if (message_size(prefix) > GRPC_CLIENT_MESSAGE_SIZE_MAX) {
        return "the answer is too large";
    }
    return NULL;
}

static bool is_over(const struct grpc_client_call *call) {
    return call->ended || call->client->destroyed;
}

/* Adds to the message in `in` as much as belongs to it; hands it on when it is whole. */
static const char *gather(struct grpc_client_call *call, struct bytes *rest) {
    size_t goal = GRPC_FRAME_PREFIX_SIZE;
    if (call->in.size >= GRPC_FRAME_PREFIX_SIZE) {
        goal += message_size(call->in.data);
    }
    size_t missing = goal - call->in.size;
    size_t size = missing < rest->size ? missing : rest->size;
    buffer_append(&call->in, rest->data, size);
    rest->data += size;
    rest->size -= size;
    if (call->in.size == GRPC_FRAME_PREFIX_SIZE && goal == GRPC_FRAME_PREFIX_SIZE) {
        const char *error = prefix_error(call, call->in.data);
        if (error != NULL) {
            return error;
        }
        goal += message_size(call->in.data);
    }
    if (call->in.size == goal && goal >= GRPC_FRAME_PREFIX_SIZE) {
        if (call->method->unary) {
            call->message_whole = true;
        } else {
            call->method->on_message(call, bytes_of(call->in.data + GRPC_FRAME_PREFIX_SIZE,
                                                    goal - GRPC_FRAME_PREFIX_SIZE));
            trim(&call->in);
        }
    }
    return NULL;
}

static const char *take_data(struct grpc_client_call *call, struct bytes rest) {
    while (rest.size > 0 && !is_over(call)) {
        const char *error = NULL;
        if (call->message_whole) {
            return prefix_error(call, rest.data);
        }
        if (call->method->unary || call->in.size > 0 || rest.size < GRPC_FRAME_PREFIX_SIZE) {
            error = gather(call, &rest);
        } else {
            /* A message of a stream that is whole in what came is handed on without a copy. */
            error = prefix_error(call, rest.data);
            size_t size = message_size(rest.data);
            if (error == NULL && rest.size - GRPC_FRAME_PREFIX_SIZE < size) {
                error = gather(call, &rest);
            } else if (error == NULL) {
                struct bytes message = bytes_of(rest.data + GRPC_FRAME_PREFIX_SIZE, size);
                rest.data += GRPC_FRAME_PREFIX_SIZE + size;
                rest.size -= GRPC_FRAME_PREFIX_SIZE + size;
                call->method->on_message(call, message);
            }
        }
        if (error != NULL) {
            return error;
        }
    }
    return NULL;
}

void grpc_client_call_on_data(struct grpc_client_call *call, struct bytes data) {
    /* A body that is not gRPC (an error page) says no more than its HTTP status. */
    if (!call->is_grpc) {
        return;
    }
    const char *error = take_data(call, data);
    if (error != NULL) {
        break_call(call, GRPC_INTERNAL, error);
    }
}

void grpc_client_call_on_headers(struct grpc_client_call *call,
                                 const struct header_codec_answer *answer) {
    if (answer->http_status != 0) {
        call->http_status = answer->http_status;
        call->is_grpc = answer->is_grpc;
    }
    if (answer->grpc_status >= 0) {
        call->grpc_status = answer->grpc_status;
    }
    if (answer->text[0] != 0) {
        memcpy(call->text, answer->text, sizeof call->text);
    }
}

/* PROTOCOL-HTTP2.md and its table for HTTP statuses that replace a gRPC status. */
static enum grpc_code code_of_http_status(int http_status) {
    switch (http_status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

/* The same document's table for streams that were reset. */
static enum grpc_code code_of_reset(uint32_t error_code) {
    switch (error_code) {
    case HTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case HTTP2_CANCEL:
        return GRPC_CANCELLED;
    case HTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case HTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

void grpc_client_call_on_close(struct grpc_client_call *call, uint32_t error_code) {
    char *text = call->text;
    size_t room = sizeof call->text;
    if (call->grpc_status < 0 && call->http_status != 0 && !call->is_grpc) {
        snprintf(text, room, "HTTP status %d instead of a gRPC answer", call->http_status);
        grpc_client_call_end(call, code_of_http_status(call->http_status), text);
    } else if (call->grpc_status < 0 && error_code != HTTP2_NO_ERROR) {
        snprintf(text, room, "the server reset the call: %s", nghttp2_http2_strerror(error_code));
        grpc_client_call_end(call, code_of_reset(error_code), text);
    } else if (call->grpc_status < 0) {
        grpc_client_call_end(call, GRPC_UNKNOWN, "the answer ended without a status");
    } else if (call->grpc_status == GRPC_OK && call->method->unary && !call->message_whole) {
        grpc_client_call_end(call, GRPC_INTERNAL, "the answer ended without a message");
    } else if (call->grpc_status == GRPC_OK && !call->method->unary && call->in.size > 0) {
        grpc_client_call_end(call, GRPC_INTERNAL, "the stream ended inside a message");
    } else {
        grpc_client_call_end(call, (enum grpc_code)call->grpc_status, text);
    }
}
