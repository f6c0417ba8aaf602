/* Requests of a connection on their way, answered in order. */
#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_events.h"
#include "doors/zookeeper/zk_rules.h"
#include "doors/zookeeper/zk_stats.h"

#include <stdlib.h>

enum request_state {
    REQUEST_WAITING,
    REQUEST_UNDER_WAY, /* belongs to the service */
    REQUEST_READY,     /* a read that may be done as soon as it is the first */
    REQUEST_DONE       /* a change whose answer waits for those before it */
};

struct request {
    struct list link;                 /* in the connection's requests */
    struct zk_connection *connection; /* NULL: it is gone */
    union {
        struct service_request change;
        struct service_read read;
    };
    enum request_state state;
    bool is_change;
    int32_t xid;
    int32_t type;
    int32_t error;
    int64_t zxid;
    uint64_t begun_ms;
    uint64_t renewal;     /* that is done before it is answered */
    struct buffer result; /* of REQUEST_DONE */
    size_t body_size;
    uint8_t body[];
};

static void go_on(struct zk_connection *connection);

/* --- The end of a request. --- */

static void finish(struct request *request) {
    struct zk_connection *connection = request->connection;
    list_remove(&request->link);
    zk_stats_answered(connection, request->begun_ms);
    connection->n_requests--;
    raw_connection_end_request(connection->raw);
    buffer_clear(&request->result);
    free(request);
}

static void reply(struct zk_connection *connection, const struct request *request,
                  struct bytes body) {
    zk_connection_reply(connection, request->xid, request->zxid, request->error,
                        request->error == ZK_OK ? body : bytes_of(NULL, 0));
    if (request->type == ZK_OP_CLOSE_SESSION) {
        raw_connection_close(connection->raw);
    } else if (request->error == ZK_SESSION_EXPIRED || request->error == ZK_SESSION_MOVED) {
        zk_connection_drop(connection, "the session has ended or moved");
    }
}

/* --- Reads. --- */

/* Answers a read from the state as it is now. */
static void answer_read(struct zk_connection *connection, int32_t xid, int32_t type,
                        struct bytes body) {
    struct zk_door *door = connection->door;
    struct buffer *out = &door->scratch;
    zk_events_catch_up(door);
    out->size = 0;
    enum zk_error error = zk_read_answer(connection, type, body, out);
    zk_connection_reply(connection, xid, zk_connection_zxid(connection), error,
                        error == ZK_OK ? bytes_of(out->data, out->size) : bytes_of(NULL, 0));
    arena_reset(&door->arena);
}

static enum zk_error error_of(enum status status) {
    switch (status) {
    case STATUS_PERMISSION_DENIED:
    case STATUS_USER_EMPTY:
    case STATUS_AUTH_TOKEN_INVALID:
        return ZK_NO_AUTH;
    case STATUS_INVALID:
    case STATUS_REQUEST_TOO_LARGE:
    case STATUS_TOO_MANY_KEYS:
        return ZK_BAD_ARGUMENTS;
    case STATUS_NO_SPACE:
        return ZK_QUOTA_EXCEEDED;
    case STATUS_TOO_MANY_REQUESTS:
        return ZK_THROTTLED;
    case STATUS_UNSUPPORTED:
        return ZK_UNIMPLEMENTED;
    default:
        return ZK_OK; /* nobody knows what has become of it: the connection is lost */
    }
}

/* False: the connection is lost, so that the client asks elsewhere. */
static bool refuse(struct zk_connection *connection, int32_t xid, enum status status) {
    enum zk_error error = error_of(status);
    if (error == ZK_OK) {
        zk_connection_drop(connection, status_text(status));
        return false;
    }
    zk_connection_reply(connection, xid, zk_connection_zxid(connection), error, bytes_of(NULL, 0));
    return true;
}

static size_t range_of(int32_t type, struct bytes body, struct key_range *out_range) {
    struct bytes path = zk_read_path(type, body);
    *out_range = (struct key_range){.space = KEY_SPACE_ZOOKEEPER, .key = path};
    return path.size > 0 ? 1 : 0;
}

/* The usual case: nothing is before it, and this member may answer from memory. False: it has to
 * wait. */
static bool read_at_once(struct zk_connection *connection, int32_t xid, int32_t type,
                         struct bytes body) {
    struct key_range range;
    size_t n = range_of(type, body, &range);
    enum status status = service_read_now(connection->door->service,
                                          raw_connection_caller(connection->raw), &range, n);
    if (status == STATUS_PENDING) {
        return false;
    }
    if (status == STATUS_OK) {
        answer_read(connection, xid, type, body);
        zk_stats_answered(connection, service_now_ms(connection->door->service));
    } else {
        (void)refuse(connection, xid, status);
    }
    return true;
}

static void read_ready(struct service_read *read, enum status status) {
    struct request *request = list_entry(read, struct request, read);
    struct zk_connection *connection = request->connection;
    if (connection == NULL) {
        free(request);
        return;
    }
    request->state = REQUEST_READY;
    if (status == STATUS_AUTH_OLD_REVISION) {
        request->state = REQUEST_WAITING; /* asked again, with the new rights */
        connection->n_waiting++;
    } else if (status != STATUS_OK && error_of(status) == ZK_OK) {
        zk_connection_drop(connection, status_text(status));
        return;
    } else {
        request->error = error_of(status);
    }
    go_on(connection);
}

static void start_read(struct request *request) {
    struct zk_connection *connection = request->connection;
    struct key_range range;
    struct bytes body = bytes_of(request->body, request->body_size);
    size_t n = range_of(request->type, body, &range);
    request->read.ready = read_ready;
    request->state = REQUEST_UNDER_WAY;
    connection->n_waiting--;
    enum status status =
        service_read(connection->door->service, raw_connection_caller(connection->raw),
                     &request->read, &range, n);
    if (status == STATUS_PENDING) {
        return;
    }
    request->state = REQUEST_READY;
    request->error = error_of(status);
    if (status != STATUS_OK && request->error == ZK_OK) {
        zk_connection_drop(connection, status_text(status));
    }
}

/* --- Changes. --- */

static void keep_answer(struct request *request, const struct outcome *outcome) {
    request->zxid = outcome->revision;
    if (outcome->status != STATUS_OK) {
        request->error = error_of(outcome->status);
        request->zxid = zk_connection_zxid(request->connection);
        return;
    }
    struct buffer *result = &request->connection->door->scratch;
    result->size = 0;
    if (request->type == ZK_OP_CLOSE_SESSION) {
        struct reader reader;
        reader_init(&reader, outcome->rule.answer);
        request->error = (int32_t)reader_get_zigzag(&reader);
        return;
    }
    request->error = zk_change_answer(request->type, bytes_of(request->body, request->body_size),
                                      outcome->rule.answer, result);
}

/* The client counts its session from when it asked: it is answered when the session has been
 * renewed since. */
static bool is_renewed(const struct request *request) {
    return request->renewal <= request->connection->renewals_done;
}

static void change_done(struct service_request *service_request, const struct outcome *outcome) {
    struct request *request = list_entry(service_request, struct request, change);
    struct zk_connection *connection = request->connection;
    if (connection == NULL) {
        free(request);
        return;
    }
    if (outcome->status != STATUS_OK && error_of(outcome->status) == ZK_OK) {
        request->state = REQUEST_DONE;
        zk_connection_drop(connection, status_text(outcome->status));
        return;
    }
    zk_events_catch_up(connection->door);
    keep_answer(request, outcome);
    struct buffer *result = &connection->door->scratch;
    if (connection->requests.next == &request->link && is_renewed(request)) {
        reply(connection, request, bytes_of(result->data, result->size));
        finish(request);
    } else {
        request->state = REQUEST_DONE;
        buffer_append(&request->result, result->data, result->size);
    }
    go_on(connection);
}

static uint32_t rule_of(int32_t type) {
    return type == ZK_OP_CLOSE_SESSION ? ZK_RULE_CLOSE
           : type == ZK_OP_DELETE      ? ZK_RULE_DELETE
                                       : ZK_RULE_CHANGE;
}

static void submit(struct request *request) {
    struct zk_connection *connection = request->connection;
    struct zk_door *door = connection->door;
    struct bytes body = bytes_of(request->body, request->body_size);
    struct buffer *out = &door->scratch;
    bool is_close = request->type == ZK_OP_CLOSE_SESSION;
    out->size = 0;
    buffer_put_zigzag(out, connection->session_id);
    buffer_put_u64(out, connection->number);
    buffer_append(out, connection->ids.data, connection->ids.size);
    enum zk_error error = is_close ? ZK_OK : zk_change_encode(connection, request->type, body, out);
    arena_reset(&door->arena);
    connection->n_waiting--;
    if (error != ZK_OK) {
        request->state = REQUEST_DONE;
        request->error = error;
        request->zxid = zk_connection_zxid(connection);
        return;
    }
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = rule_of(request->type), .request = bytes_of(out->data, out->size)}};
    if (is_close) {
        connection->state = ZK_CLOSING;
    }
    request->state = REQUEST_UNDER_WAY;
    request->change.done = change_done;
    /* Whoever has the session may end it, also one who has shown no password yet. */
    service_submit(door->service,
                   is_close ? &caller_server : raw_connection_caller(connection->raw),
                   &request->change, &command);
}

/* --- The queue. --- */

static void answer_first(struct zk_connection *connection) {
    while (!list_is_empty(&connection->requests)) {
        struct request *request = list_entry(connection->requests.next, struct request, link);
        struct bytes body = bytes_of(request->body, request->body_size);
        if (!is_renewed(request)) {
            return;
        }
        if (request->state == REQUEST_READY && request->error == ZK_OK) {
            answer_read(connection, request->xid, request->type, body);
        } else if (request->state == REQUEST_READY || request->state == REQUEST_DONE) {
            request->zxid = request->zxid == 0 ? zk_connection_zxid(connection) : request->zxid;
            reply(connection, request, bytes_of(request->result.data, request->result.size));
        } else {
            return;
        }
        finish(request);
    }
}

/* Starts what may be started: changes up to the first read, reads up to the first change. */
static void start_waiting(struct zk_connection *connection) {
    bool has_change = false;
    bool has_read = false;
    struct list *next;
    for (struct list *node = connection->requests.next;
         node != &connection->requests && connection->n_waiting > 0; node = next) {
        struct request *request = list_entry(node, struct request, link);
        next = node->next;
        has_change |= request->is_change && request->state != REQUEST_DONE;
        has_read |= !request->is_change;
        if (has_change && has_read) {
            return;
        }
        if (request->state != REQUEST_WAITING) {
            continue;
        }
        if (request->is_change) {
            submit(request);
        } else {
            start_read(request);
        }
    }
}

static void go_on(struct zk_connection *connection) {
    answer_first(connection);
    while (connection->n_waiting > 0 && connection->session_id != 0) {
        size_t before = connection->n_waiting;
        start_waiting(connection);
        answer_first(connection);
        if (connection->n_waiting == before) {
            break;
        }
    }
    zk_connection_flow(connection);
}

void zk_requests_renewed(struct zk_connection *connection) {
    if (connection->raw != NULL && connection->n_requests > 0) {
        go_on(connection);
    }
}

void zk_requests_take(struct zk_connection *connection, int32_t xid, int32_t type,
                      struct bytes body, uint64_t renewal) {
    bool is_change = zk_change_is(type);
    bool is_renewed_now = renewal <= connection->renewals_done;
    if (!is_renewed_now && !connection->is_renewing) {
        zk_connection_drop(connection, "the session cannot be renewed");
        return;
    }
    if (!is_change && is_renewed_now && list_is_empty(&connection->requests) &&
        read_at_once(connection, xid, type, body)) {
        return;
    }
    struct request *request = malloc(sizeof *request + body.size);
    if (request == NULL) {
        zk_connection_drop(connection, "out of memory");
        return;
    }
    *request = (struct request){.connection = connection,
                                .is_change = is_change,
                                .xid = xid,
                                .type = type,
                                .begun_ms = service_now_ms(connection->door->service),
                                .renewal = type == ZK_OP_CLOSE_SESSION ? 0 : renewal,
                                .body_size = body.size};
    memcpy(request->body, body.data, body.size);
    list_append(&connection->requests, &request->link);
    connection->n_requests++;
    connection->n_waiting++;
    raw_connection_begin_request(connection->raw);
    go_on(connection);
}

void zk_requests_drop(struct zk_connection *connection) {
    struct list *node;
    while ((node = list_pop_first(&connection->requests)) != NULL) {
        struct request *request = list_entry(node, struct request, link);
        request->connection = NULL;
        buffer_clear(&request->result);
        if (request->state != REQUEST_UNDER_WAY) {
            free(request);
        }
    }
    connection->n_requests = 0;
    connection->n_waiting = 0;
}
