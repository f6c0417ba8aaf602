#include "lease/lib_connection.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEAT_MS = 100 };

struct lib_call *lib_call_start(struct lease_connection *connection,
                                const struct lib_method *method, struct bytes message,
                                void *context, uint64_t deadline_ms) {
    struct lib_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        abort();
    }
    call->connection = connection;
    call->method = method;
    call->context = context;
    call->deadline_ms = deadline_ms;
    call->grpc_status = -1;
    call->half_closed = !method->is_stream;
    lib_call_frame(call, message);
    list_append(&connection->waiting, &call->link);
    connection->is_dirty = true;
    return call;
}

void lib_call_send(struct lib_call *call, struct bytes message) {
    lib_call_frame(call, message);
    call->connection->is_dirty = true;
    if (call->connection->socket != NULL && call->stream_id != 0) {
        lib_http2_resume(lib_socket_http2(call->connection->socket), call);
    }
}

static void leave_socket(struct lib_call *call) {
    call->connection->is_dirty = true;
    if (call->connection->socket != NULL && call->stream_id != 0) {
        lib_http2_forget(lib_socket_http2(call->connection->socket), call);
    }
}

void lib_call_cancel(struct lib_call *call) {
    if (call == NULL) {
        return;
    }
    leave_socket(call);
    if (call == call->connection->current_call) {
        call->is_canceled = true; /* its messages are being taken */
    } else {
        lib_call_free(call);
    }
}

static void end(struct lib_call *call, enum lib_code code, const char *text) {
    leave_socket(call);
    list_remove(&call->link);
    struct lease_connection *connection = call->connection;
    struct lib_call *outer = connection->current_call;
    connection->current_call = call;
    call->method->on_end(call, code, text);
    connection->current_call = outer;
    lib_call_free(call);
    lib_changed(connection);
}

static void wait_again(struct lib_call *call, uint64_t not_before_ms) {
    leave_socket(call);
    lib_call_rewind(call);
    call->not_before_ms = not_before_ms;
    list_remove(&call->link);
    list_append(&call->connection->waiting, &call->link);
    call->connection->is_dirty = true;
}

/* The server ended it. */
static void closed(struct lib_call *call) {
    struct lease_connection *connection = call->connection;
    const char *text = NULL;
    enum lib_code code = lib_call_code(call, &text);
    /* Then nothing was done, whatever it is. */
    bool is_kept = call->method->is_repeatable || call->method->keeps_message;
    if (code == LIB_CODE_UNAUTHENTICATED && !call->method->is_early &&
        !call->was_authenticated_again && is_kept && lib_ready_authenticate_again(connection)) {
        call->was_authenticated_again = true;
        wait_again(call, 0);
        return;
    }
    bool is_crowded = code == LIB_CODE_RESOURCE_EXHAUSTED && call->method->is_farewell;
    if ((code == LIB_CODE_UNAVAILABLE || is_crowded) && call->method->is_repeatable &&
        !call->method->is_early) {
        snprintf(connection->last_failure, sizeof connection->last_failure, "%s", text);
        wait_again(call, clock_boottime_ms() + REPEAT_MS);
    } else {
        end(call, code, text);
    }
    if (code == LIB_CODE_UNAVAILABLE && connection->n_endpoints > 1 && connection->socket != NULL) {
        /* This server has no quorum, or stops; another may know better. */
        lib_socket_fail(connection->socket, "the server has no quorum, or is stopping");
    }
}

static struct lib_call *find_news(struct lease_connection *connection) {
    for (struct list *node = connection->open.next; node != &connection->open; node = node->next) {
        struct lib_call *call = list_entry(node, struct lib_call, link);
        if (call->has_news) {
            return call;
        }
    }
    return NULL;
}

void lib_calls_take(struct lease_connection *connection) {
    assert(connection->current_call == NULL);
    struct lib_call *call;
    /* From the first again each time: callbacks start and end other calls. */
    while ((call = find_news(connection)) != NULL) {
        call->has_news = false;
        connection->current_call = call;
        bool is_well = lib_call_take_messages(call);
        connection->current_call = NULL;
        if (call->is_canceled) {
            lib_call_free(call);
        } else if (!is_well) {
            end(call, LIB_CODE_INTERNAL, call->text);
        } else if (call->is_closed) {
            closed(call);
        }
    }
}

void lib_calls_open(struct lease_connection *connection, uint64_t now_ms) {
    struct list *next;
    for (struct list *node = connection->waiting.next; node != &connection->waiting; node = next) {
        next = node->next;
        struct lib_call *call = list_entry(node, struct lib_call, link);
        bool is_time = connection->stage == LIB_STAGE_READY || call->method->is_early;
        if (!is_time || call->not_before_ms > now_ms ||
            !lib_http2_has_room(lib_socket_http2(connection->socket))) {
            continue;
        }
        const char *token = call->method->is_early ? NULL : connection->token;
        if (!lib_http2_open(lib_socket_http2(connection->socket), call, token)) {
            lib_socket_fail(connection->socket, "no call can be opened");
            return;
        }
        call->opened_ms = now_ms;
        list_remove(&call->link);
        list_append(&connection->open, &call->link);
    }
}

void lib_calls_session_over(struct lease_connection *connection, int64_t session_id) {
    uint64_t deadline_ms = clock_boottime_ms() + connection->request_timeout_ms;
    struct list *lists[] = {&connection->waiting, &connection->open};
    for (size_t i = 0; i < 2; i++) {
        for (struct list *node = lists[i]->next; node != lists[i]; node = node->next) {
            struct lib_call *call = list_entry(node, struct lib_call, link);
            if (call->session_id == session_id && call->deadline_ms == 0) {
                call->deadline_ms = deadline_ms;
            }
        }
    }
}

/* Connected, but not ready: the login or the first question got no answer. */
static bool is_silent(const struct lease_connection *connection) {
    return connection->stage == LIB_STAGE_AUTHENTICATING || connection->stage == LIB_STAGE_PROBING;
}

static void expire(struct lib_call *call) {
    char text[LIB_TEXT_SIZE_MAX];
    const struct lease_connection *connection = call->connection;
    if (call->opened_ms == 0 || call->stream_id == 0) {
        if (connection->last_failure[0] != '\0') {
            snprintf(text, sizeof text, "no server can be reached: %.400s",
                     connection->last_failure);
        } else {
            snprintf(text, sizeof text, "%s",
                     is_silent(connection)
                         ? "the server is connected and does not answer; a majority of the "
                           "members may not be running"
                         : "no server can be reached: none answered in time");
        }
        end(call, LIB_CODE_UNAVAILABLE, text);
        return;
    }
    if (connection->n_endpoints > 1 && connection->socket != NULL) {
        /* It may be cut off from the others. */
        lib_socket_fail(connection->socket, "the server did not answer in time");
    }
    end(call, LIB_CODE_DEADLINE_EXCEEDED, "the server did not answer in time");
}

static struct lib_call *find_expired(struct list *calls, uint64_t now_ms) {
    for (struct list *node = calls->next; node != calls; node = node->next) {
        struct lib_call *call = list_entry(node, struct lib_call, link);
        if (call->deadline_ms != 0 && call->deadline_ms <= now_ms) {
            return call;
        }
    }
    return NULL;
}

void lib_calls_expire(struct lease_connection *connection, uint64_t now_ms) {
    struct lib_call *call;
    while ((call = find_expired(&connection->waiting, now_ms)) != NULL ||
           (call = find_expired(&connection->open, now_ms)) != NULL) {
        expire(call);
    }
}

void lib_calls_lost(struct lease_connection *connection, const char *reason) {
    struct list lost;
    list_init(&lost);
    list_append_all(&lost, &connection->open);
    while (!list_is_empty(&lost)) {
        struct lib_call *call = list_entry(lost.next, struct lib_call, link);
        if (call->method->is_repeatable && !call->method->is_early) {
            wait_again(call, 0);
        } else {
            end(call, LIB_CODE_UNAVAILABLE, reason);
        }
    }
}

void lib_calls_refuse(struct lease_connection *connection, enum lib_code code, const char *reason) {
    struct list refused;
    list_init(&refused);
    list_append_all(&refused, &connection->waiting);
    while (!list_is_empty(&refused)) {
        end(list_entry(refused.next, struct lib_call, link), code, reason);
    }
}

uint64_t lib_calls_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *lists[] = {&connection->waiting, &connection->open};
    for (size_t i = 0; i < 2; i++) {
        for (const struct list *node = lists[i]->next; node != lists[i]; node = node->next) {
            const struct lib_call *call = list_entry(node, struct lib_call, link);
            if (call->deadline_ms != 0 && call->deadline_ms < wake_ms) {
                wake_ms = call->deadline_ms;
            }
            if (i == 0 && connection->stage == LIB_STAGE_READY && call->not_before_ms != 0 &&
                call->not_before_ms < wake_ms) {
                wake_ms = call->not_before_ms;
            }
        }
    }
    return wake_ms;
}
