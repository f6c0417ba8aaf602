#include "net/raw_session.h"

#include "base/log.h"
#include "tls/tls_identity.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_CAPACITY_MAX = 4096, /* of the output buffer of a connection that has nothing to send */
    PAUSED_INPUT_MAX = 256 * 1024, /* read before the pause reached the socket */
    /* Of unfinished messages a connection may have this part of what is left below the bound of
     * all: those that hold much reach it before those that hold little. */
    PARTIAL_SHARES = 4
};

struct raw_connection {
    struct protocol_host *host;
    const struct raw_protocol *protocol;
    void *context;
    void *data;
    uint64_t idle_limit_ms;
    struct buffer in; /* an unfinished message, or what came during a pause */
    struct buffer out;
    size_t out_taken;
    size_t n_requests; /* being served */
    enum session_state state;
    bool is_paused;
    bool is_resumed;     /* what was kept during a pause is still to be given */
    bool wants_writable; /* the door waits for on_writable */
    bool is_draining;    /* the server stops */
    bool is_closed;      /* on_close has been called, or is being called */
    bool is_logged_in;   /* the door has set the caller */
    alignas(8) uint8_t caller[NET_CALLER_SIZE_MAX];
};

static void wake(struct raw_connection *connection) {
    connection->host->wake(connection->host);
}

static bool is_over(const struct raw_connection *connection) {
    return connection->is_closed || connection->state >= SESSION_ENDING;
}

static size_t queued_bytes(const struct raw_connection *connection) {
    return connection->out.size - connection->out_taken;
}

/* --- input --------------------------------------------------------------------------------- */

static void drop_input(struct raw_connection *connection) {
    connection->host->shared->partial_bytes -= connection->in.size;
    buffer_clear(&connection->in);
}

static bool is_within_share(const struct raw_connection *connection) {
    size_t others = connection->host->shared->partial_bytes - connection->in.size;
    size_t left = others < NET_PARTIAL_BYTES_MAX ? NET_PARTIAL_BYTES_MAX - others : 0;
    return connection->in.size <= left / PARTIAL_SHARES;
}

static void keep_input(struct raw_connection *connection, struct bytes rest) {
    struct net_shared *shared = connection->host->shared;
    shared->partial_bytes += rest.size;
    buffer_append(&connection->in, rest.data, rest.size);
    size_t most =
        connection->protocol->partial_max + (connection->is_paused ? PAUSED_INPUT_MAX : 0);
    if (connection->in.size > most) {
        raw_connection_refuse(connection, "a message is too large");
    } else if (!is_within_share(connection)) {
        raw_connection_refuse(connection, "too many bytes of unfinished messages");
    }
    if (is_over(connection)) {
        drop_input(connection); /* at once: closing may take a moment, and others need the room */
    }
}

/* Gives bytes to the door; returns what it did not use. */
static struct bytes give(struct raw_connection *connection, struct bytes bytes) {
    size_t used = connection->protocol->on_bytes(connection, bytes);
    assert(used <= bytes.size);
    if (used > 0 && connection->state == SESSION_OPENING) {
        connection->state = SESSION_OPEN;
    }
    return bytes_of(bytes.data + used, bytes.size - used);
}

/* What was kept comes again. */
static void give_kept(struct raw_connection *connection) {
    struct bytes rest = give(connection, bytes_of(connection->in.data, connection->in.size));
    if (is_over(connection) || rest.size == 0) {
        drop_input(connection);
        return;
    }
    connection->host->shared->partial_bytes -= connection->in.size - rest.size;
    memmove(connection->in.data, rest.data, rest.size);
    connection->in.size = rest.size;
    if (!connection->is_paused && rest.size > connection->protocol->partial_max) {
        raw_connection_refuse(connection, "a message is too large");
    }
}

static void on_bytes(void *session, struct bytes bytes) {
    struct raw_connection *connection = session;
    if (is_over(connection)) {
        return;
    }
    if (connection->is_paused || connection->in.size > 0) {
        keep_input(connection, bytes);
        if (!connection->is_paused && !is_over(connection)) {
            give_kept(connection);
        }
        return;
    }
    struct bytes rest = give(connection, bytes);
    if (!is_over(connection) && rest.size > 0) {
        keep_input(connection, rest);
    }
}

static bool wants_input(const void *session) {
    return !((const struct raw_connection *)session)->is_paused;
}

static bool has_kept_input(const void *session) {
    const struct raw_connection *connection = session;
    return connection->is_resumed && !connection->is_paused && connection->in.size > 0;
}

/* What it has asked is still answered. */
static void end_input(void *session) {
    drop_input(session);
}

/* --- output -------------------------------------------------------------------------------- */

static void produce(void *session, size_t size_max, struct buffer *out) {
    struct raw_connection *connection = session;
    size_t left = queued_bytes(connection);
    size_t size = left < size_max ? left : size_max;
    if (size == 0) {
        return; /* there may be no buffer to point into */
    }
    buffer_append(out, connection->out.data + connection->out_taken, size);
    connection->out_taken += size;
    connection->host->answer_bytes += size;
    connection->host->shared->stats.queued_bytes -= size;
    if (size == left) {
        connection->out.size = 0;
        connection->out_taken = 0;
        if (connection->out.capacity > IDLE_CAPACITY_MAX) {
            buffer_clear(&connection->out);
        }
    }
}

static size_t unsent_bytes(const struct raw_connection *connection) {
    return queued_bytes(connection) + connection->host->unsent_bytes;
}

void raw_connection_send(struct raw_connection *connection, struct bytes bytes) {
    if (is_over(connection) || bytes.size == 0) {
        return;
    }
    struct net_shared *shared = connection->host->shared;
    if (unsent_bytes(connection) + bytes.size > shared->limits.connection_queue_abort) {
        raw_connection_abort(connection, "the peer lets its answers gather");
        return;
    }
    if (connection->out_taken > 0 && connection->out_taken >= queued_bytes(connection)) {
        memmove(connection->out.data, connection->out.data + connection->out_taken,
                queued_bytes(connection));
        connection->out.size -= connection->out_taken;
        connection->out_taken = 0;
    }
    buffer_append(&connection->out, bytes.data, bytes.size);
    shared->stats.queued_bytes += bytes.size;
    wake(connection);
}

size_t raw_connection_unsent_bytes(const struct raw_connection *connection) {
    return unsent_bytes(connection);
}

size_t raw_connection_queued_by_all(const struct raw_connection *connection) {
    return net_shared_answer_bytes(connection->host->shared);
}

void raw_connection_want_room(struct raw_connection *connection) {
    connection->host->shared->is_room_wanted = true;
}

bool raw_connection_is_writable(struct raw_connection *connection) {
    if (is_over(connection)) {
        return false;
    }
    if (unsent_bytes(connection) <= connection->host->shared->limits.stream_queue_high) {
        return true;
    }
    connection->wants_writable = true;
    return false;
}

/* --- what must not run inside other calls -------------------------------------------------- */

static void settle(void *session) {
    struct raw_connection *connection = session;
    if (connection->is_resumed && !connection->is_paused) {
        connection->is_resumed = false;
        if (!is_over(connection) && connection->in.size > 0) {
            give_kept(connection);
        }
    }
    if (connection->wants_writable && !is_over(connection) &&
        unsent_bytes(connection) <= connection->host->shared->limits.stream_queue_high / 2) {
        connection->wants_writable = false;
        if (connection->protocol->on_writable != NULL) {
            connection->protocol->on_writable(connection);
        }
    }
    if (connection->is_draining && connection->n_requests == 0 && !is_over(connection)) {
        connection->state = SESSION_ENDING;
    }
}

/* --- what the connection asks -------------------------------------------------------------- */

static enum session_state state(const void *session) {
    return ((const struct raw_connection *)session)->state;
}

static size_t session_queued_bytes(const void *session) {
    return queued_bytes(session);
}

static bool is_idle(const void *session) {
    const struct raw_connection *connection = session;
    return connection->n_requests == 0 && connection->in.size == 0 && queued_bytes(connection) == 0;
}

static bool is_serving(const void *session) {
    return ((const struct raw_connection *)session)->n_requests > 0;
}

static uint64_t idle_limit_ms(const void *session) {
    return ((const struct raw_connection *)session)->idle_limit_ms;
}

static void drain(void *session) {
    struct raw_connection *connection = session;
    connection->is_draining = true;
    if (!is_over(connection) && connection->protocol->on_drain != NULL) {
        connection->protocol->on_drain(connection);
    }
    wake(connection);
}

/* --- life ---------------------------------------------------------------------------------- */

static void release(struct raw_connection *connection) {
    connection->host->shared->stats.queued_bytes -= queued_bytes(connection);
    connection->host->shared->stats.calls -= connection->n_requests;
    drop_input(connection);
    buffer_clear(&connection->out);
    free(connection);
}

static void *open_session(struct protocol_host *host) {
    assert(host->raw != NULL);
    struct raw_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return NULL;
    }
    connection->host = host;
    connection->protocol = host->raw->protocol;
    connection->context = host->raw->context;
    connection->idle_limit_ms = host->raw->protocol->idle_limit_ms;
    buffer_init(&connection->in);
    buffer_init(&connection->out);
    if (connection->protocol->on_open != NULL && !connection->protocol->on_open(connection)) {
        release(connection);
        return NULL;
    }
    return connection;
}

static void close_session(void *session) {
    struct raw_connection *connection = session;
    connection->is_closed = true;
    connection->protocol->on_close(connection);
    release(connection);
}

const struct protocol raw_session_protocol = {
    .name = "raw",
    .sniff = NULL,
    .open = open_session,
    .on_bytes = on_bytes,
    .produce = produce,
    .settle = settle,
    .state = state,
    .queued_bytes = session_queued_bytes,
    .is_idle = is_idle,
    .is_serving = is_serving,
    .wants_input = wants_input,
    .has_kept_input = has_kept_input,
    .idle_limit_ms = idle_limit_ms,
    .end_input = end_input,
    .ping = NULL,
    .drain = drain,
    .close = close_session,
};

/* --- what a door asks ---------------------------------------------------------------------- */

void *raw_connection_context(const struct raw_connection *connection) {
    return connection->context;
}

void raw_connection_set_data(struct raw_connection *connection, void *data) {
    connection->data = data;
}

void *raw_connection_data(const struct raw_connection *connection) {
    return connection->data;
}

const struct tls_identity *raw_connection_identity(const struct raw_connection *connection) {
    return net_connection_identity(connection->host);
}

bool raw_connection_certificate_name(const struct raw_connection *connection, char *out_name,
                                     size_t size) {
    const struct tls_identity *identity = raw_connection_identity(connection);
    const char *name = identity == NULL ? NULL : tls_identity_name(identity, TLS_NAME_COMMON, 0);
    if (name == NULL || strlen(name) >= size) {
        return false;
    }
    memcpy(out_name, name, strlen(name) + 1);
    return true;
}

void raw_connection_address(const struct raw_connection *connection,
                            char out_text[NET_ADDRESS_SIZE]) {
    net_connection_address(connection->host, out_text);
}

const struct caller *raw_connection_caller(struct raw_connection *connection) {
    const struct net_shared *shared = connection->host->shared;
    const struct tls_identity *identity = net_connection_identity(connection->host);
    if (!connection->is_logged_in && identity != NULL && shared->authenticator != NULL) {
        memset(connection->caller, 0, sizeof connection->caller);
        shared->authenticator->certificate(shared->authenticator_context, identity,
                                           connection->caller);
    }
    return (const struct caller *)(const void *)connection->caller;
}

void raw_connection_set_caller(struct raw_connection *connection, const void *caller,
                               size_t caller_size) {
    assert(caller_size <= sizeof connection->caller);
    memset(connection->caller, 0, sizeof connection->caller);
    memcpy(connection->caller, caller, caller_size);
    connection->is_logged_in = true;
}

void raw_connection_pause(struct raw_connection *connection) {
    connection->is_paused = true;
    /* Its request waits for the door, not for the peer. */
    if (connection->state == SESSION_OPENING) {
        connection->state = SESSION_OPEN;
    }
    wake(connection);
}

void raw_connection_resume(struct raw_connection *connection) {
    if (connection->is_paused) {
        connection->is_paused = false;
        connection->is_resumed = true;
        wake(connection);
    }
}

void raw_connection_begin_request(struct raw_connection *connection) {
    connection->n_requests++;
    connection->host->shared->stats.calls++;
    connection->host->shared->stats.calls_total++;
}

void raw_connection_end_request(struct raw_connection *connection) {
    assert(connection->n_requests > 0);
    connection->n_requests--;
    connection->host->shared->stats.calls--;
    wake(connection);
}

void raw_connection_set_idle_limit(struct raw_connection *connection, uint64_t limit_ms) {
    connection->idle_limit_ms = limit_ms;
}

void raw_connection_close(struct raw_connection *connection) {
    if (!is_over(connection)) {
        connection->state = SESSION_ENDING;
        wake(connection);
    }
}

void raw_connection_abort(struct raw_connection *connection, const char *reason) {
    if (!connection->is_closed && connection->state != SESSION_FAILED) {
        log_warning("connection closed", LOG_TEXT("reason", reason),
                    LOG_TEXT("protocol", connection->protocol->name),
                    LOG_NUMBER("queued_bytes", unsent_bytes(connection)));
        connection->state = SESSION_FAILED;
        wake(connection);
    }
}

void raw_connection_refuse(struct raw_connection *connection, const char *reason) {
    if (!is_over(connection)) {
        connection->host->shared->stats.protocol_errors++;
        log_debug("connection closed", LOG_TEXT("reason", reason),
                  LOG_TEXT("protocol", connection->protocol->name));
        raw_connection_close(connection);
    }
}
