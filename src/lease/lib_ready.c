/* Makes a connection ready: a socket to one endpoint after the other, a token for a password, and
 * which protocol the server speaks. */
#include "lease/lib_connection.h"

#include "base/clock.h"
#include "lease/lib_message.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MS_MIN = 50,
    RETRY_MS_MAX = 1000,
    TOKEN_SIZE_MAX = 8 * 1024,
    AUTHENTICATE_NAME = 1, /* etcdserverpb.AuthenticateRequest */
    AUTHENTICATE_PASSWORD = 2,
    AUTHENTICATED_TOKEN = 2 /* etcdserverpb.AuthenticateResponse */
};

static void advance(struct lease_connection *connection);

/* ---- authentication ---- */

static void on_token(struct lib_call *call, struct bytes message) {
    struct lease_connection *connection = call->connection;
    struct pb_reader reader;
    struct bytes token = {0};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == AUTHENTICATED_TOKEN) {
            token = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    bool is_text = token.size > 0 && token.size <= TOKEN_SIZE_MAX;
    for (size_t i = 0; i < token.size && is_text; i++) {
        is_text = token.data[i] > 0x20 && token.data[i] < 0x7f; /* it becomes a header */
    }
    if (!reader.failed && is_text) {
        free(connection->token);
        connection->token = strndup((const char *)token.data, token.size);
    }
}

static void on_authenticated(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_connection *connection = call->connection;
    if (connection->stage != LIB_STAGE_AUTHENTICATING) {
        return;
    }
    bool is_off = code == LIB_CODE_FAILED_PRECONDITION && strstr(text, "not enabled") != NULL;
    if ((code == LIB_CODE_OK && connection->token != NULL) || is_off) {
        connection->is_authenticated = true;
        advance(connection);
        return;
    }
    char reason[LIB_TEXT_SIZE_MAX];
    snprintf(reason, sizeof reason, "user %.128s: %.300s", connection->user, text);
    lib_socket_fail(connection->socket, reason);
    if (code != LIB_CODE_UNAVAILABLE && code != LIB_CODE_DEADLINE_EXCEEDED) {
        lib_calls_refuse(connection, LIB_CODE_UNAUTHENTICATED, reason);
    }
}

static void authenticate(struct lease_connection *connection, uint64_t deadline_ms) {
    static const struct lib_method method = {
        .path = "/etcdserverpb.Auth/Authenticate",
        .is_early = true,
        .on_message = on_token,
        .on_end = on_authenticated,
    };
    struct buffer message;
    buffer_init(&message);
    lib_put_text(&message, AUTHENTICATE_NAME, connection->user);
    lib_put_text(&message, AUTHENTICATE_PASSWORD, connection->password);
    free(connection->token);
    connection->token = NULL;
    connection->stage = LIB_STAGE_AUTHENTICATING;
    (void)lib_call_start(connection, &method, bytes_of(message.data, message.size), NULL,
                         deadline_ms);
    memset(message.data, 0, message.size);
    buffer_clear(&message);
}

bool lib_ready_authenticate_again(struct lease_connection *connection) {
    if (connection->user == NULL) {
        return false;
    }
    connection->is_authenticated = false;
    if (connection->stage == LIB_STAGE_READY) {
        advance(connection);
    }
    return true;
}

/* ---- which protocol ---- */

static void ignore_message(struct lib_call *call, struct bytes message) {
    (void)call;
    (void)message;
}

/* Whatever is said of a session that cannot exist, the service is known; else it is UNIMPLEMENTED.
 */
static void on_probed(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_connection *connection = call->connection;
    if (connection->stage != LIB_STAGE_PROBING) {
        return;
    }
    if (code == LIB_CODE_UNAVAILABLE || code == LIB_CODE_DEADLINE_EXCEEDED ||
        code == LIB_CODE_INTERNAL) {
        lib_socket_fail(connection->socket, text);
        return;
    }
    connection->protocol =
        code == LIB_CODE_UNIMPLEMENTED ? LEASE_PROTOCOL_ETCD : LEASE_PROTOCOL_NATIVE;
    advance(connection);
}

static void probe(struct lease_connection *connection, uint64_t deadline_ms) {
    static const struct lib_method method = {
        .path = "/leased.v1.Sessions/Get",
        .is_early = true,
        .on_message = ignore_message,
        .on_end = on_probed,
    };
    connection->stage = LIB_STAGE_PROBING;
    (void)lib_call_start(connection, &method, bytes_of(NULL, 0), NULL, deadline_ms);
}

/* ---- steps ---- */

static void advance(struct lease_connection *connection) {
    uint64_t deadline_ms = clock_boottime_ms() + connection->request_timeout_ms;
    if (connection->user != NULL && !connection->is_authenticated) {
        authenticate(connection, deadline_ms);
    } else if (connection->protocol == LEASE_PROTOCOL_ANY) {
        probe(connection, deadline_ms);
    } else {
        connection->stage = LIB_STAGE_READY;
        connection->n_failures = 0;
        connection->last_failure[0] = '\0';
        lib_changed(connection);
    }
}

static void begin(struct lease_connection *connection, uint64_t now_ms) {
    const struct endpoint *endpoint = &connection->endpoints[connection->endpoint_index];
    bool is_tls = endpoint->security == ENDPOINT_TLS ||
                  (endpoint->security == ENDPOINT_EITHER && connection->tls_without_scheme);
    connection->stage = LIB_STAGE_CONNECTING;
    connection->connect_deadline_ms = now_ms + connection->connect_timeout_ms;
    connection->socket = lib_socket_create(endpoint, is_tls ? connection->tls : NULL,
                                           connection->epoll_fd, &connection->socket);
}

/* Each endpoint is tried at once; when none answered, after a pause that grows. */
static uint64_t pause_ms(const struct lease_connection *connection) {
    size_t n_rounds = connection->n_failures / connection->n_endpoints;
    if (connection->n_failures % connection->n_endpoints != 0 || n_rounds == 0) {
        return 0;
    }
    uint64_t pause = RETRY_MS_MIN << (n_rounds < 6 ? n_rounds - 1 : 5);
    return pause < RETRY_MS_MAX ? pause : RETRY_MS_MAX;
}

void lib_ready_drop(struct lease_connection *connection, const char *reason) {
    char text[LIB_TEXT_SIZE_MAX];
    snprintf(text, sizeof text, "%s", reason); /* it may be the socket's own */
    lib_socket_destroy(connection->socket);
    connection->socket = NULL;
    connection->stage = LIB_STAGE_NONE;
    connection->endpoint_index = (connection->endpoint_index + 1) % connection->n_endpoints;
    connection->n_failures++;
    connection->retry_ms = clock_boottime_ms() + pause_ms(connection);
    memcpy(connection->last_failure, text, sizeof text);
    lib_calls_lost(connection, text);
    lib_changed(connection);
}

void lib_ready_abandon(struct lease_connection *connection) {
    lib_socket_destroy(connection->socket);
    connection->socket = NULL;
    connection->stage = LIB_STAGE_NONE;
    while (!list_is_empty(&connection->open) || !list_is_empty(&connection->waiting)) {
        lib_calls_lost(connection, "the connection is closed");
        lib_calls_refuse(connection, LIB_CODE_CANCELLED, "the connection is closed");
    }
}

static bool is_wanted(const struct lease_connection *connection) {
    return !list_is_empty(&connection->waiting);
}

/* It takes no new calls, and none is open, or another one is wanted. */
static bool is_over(const struct lease_connection *connection) {
    return connection->stage == LIB_STAGE_READY &&
           lib_http2_is_leaving(lib_socket_http2(connection->socket)) &&
           (list_is_empty(&connection->open) || !list_is_empty(&connection->waiting));
}

void lib_ready_step(struct lease_connection *connection, uint64_t now_ms) {
    if (connection->socket == NULL && is_wanted(connection) && now_ms >= connection->retry_ms) {
        begin(connection, now_ms);
    }
    if (connection->socket == NULL) {
        return;
    }
    enum lib_socket_state state = lib_socket_state(connection->socket);
    if (connection->stage == LIB_STAGE_CONNECTING) {
        if (state == LIB_SOCKET_OPEN) {
            advance(connection);
        } else if (state == LIB_SOCKET_MAKING && now_ms >= connection->connect_deadline_ms) {
            lib_socket_fail(connection->socket, "no connection within the time allowed");
        }
    }
    if (lib_socket_state(connection->socket) == LIB_SOCKET_OPEN) {
        lib_calls_open(connection, now_ms);
        lib_socket_write(connection->socket);
    } else if (lib_socket_state(connection->socket) == LIB_SOCKET_MAKING) {
        lib_socket_write(connection->socket); /* the handshake */
    }
    if (lib_socket_state(connection->socket) == LIB_SOCKET_FAILED) {
        lib_ready_drop(connection, lib_socket_reason(connection->socket));
    } else if (is_over(connection)) {
        lib_ready_drop(connection, "the server is stopping");
    }
}

uint64_t lib_ready_wake_ms(const struct lease_connection *connection) {
    if (connection->stage == LIB_STAGE_CONNECTING) {
        return connection->connect_deadline_ms;
    }
    return connection->socket == NULL && is_wanted(connection) ? connection->retry_ms : UINT64_MAX;
}
