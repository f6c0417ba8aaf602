/* Requests of a connection on their way, answered in order. */
#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_delays.h"
#include "doors/zookeeper/zk_events.h"
#include "doors/zookeeper/zk_rules.h"
#include "doors/zookeeper/zk_stats.h"
#include "doors/zookeeper/zk_tellings.h"

#include <stdlib.h>

enum {
    READS_PASSED_MAX = 64, /* between two changes that are on their way at once */
    PASSED_SIZE_MAX = 16 * 1024,
    /* Of answers that cannot wait, which are few and small unless nodes have grown meanwhile. */
    UNSENT_MAX = 32 * 1024 * 1024,
    UNSENT_CROWDED_MAX = 512 * 1024, /* the same while much is queued */
    /* What waits for all clients of the server; above the first an answer has a share of what is
     * left, or is small. */
    QUEUED_LITTLE = 32 * 1024 * 1024,
    QUEUED_MAX = 128 * 1024 * 1024,
    SHARES = 4,
    ANSWER_SMALL = 128 * 1024
};

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
    uint64_t renewal;   /* that is done before it is answered */
    uint64_t iteration; /* in which the rights of a read were asked for */
    size_t refused;     /* the room that was too little for a read; 0: none was */
    struct zk_read_progress progress;
    struct buffer result; /* of REQUEST_DONE */
    size_t size_begun;    /* of a change that is under way, and what it writes anew: zk_delays.h */
    size_t rewritten;
    size_t body_size;
    uint8_t body[];
};

static void go_on(struct zk_connection *connection);

static bool is_active_read(const struct request *request) {
    return !request->is_change &&
           (request->state == REQUEST_UNDER_WAY || request->state == REQUEST_READY);
}

/* --- The end of a request. --- */

static void finish(struct request *request) {
    struct zk_connection *connection = request->connection;
    list_remove(&request->link);
    connection->n_active_reads -= is_active_read(request);
    zk_stats_answered(connection, request->begun_ms);
    connection->n_requests--;
    connection->door->n_requests--;
    raw_connection_end_request(connection->raw);
    buffer_clear(&request->result);
    zk_quota_count_clear(&request->progress.quota);
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

/* Answers a read from the state as it is now, of which the connection has been told all. False: a
 * part of it was done. */
static bool answer_read(struct zk_connection *connection, int32_t xid, int32_t type,
                        struct bytes body, struct zk_read_progress *progress) {
    struct zk_door *door = connection->door;
    zk_delays_begin(door);
    struct buffer *out = zk_door_buffer(&door->scratch);
    bool is_answered = !zk_read_prepare(connection, type, body, progress);
    if (is_answered) {
        enum zk_error error = zk_read_answer(connection, type, body, progress, out);
        zk_connection_reply(connection, xid, zk_connection_zxid(connection), error,
                            error == ZK_OK ? bytes_of(out->data, out->size) : bytes_of(NULL, 0));
    }
    arena_reset(&door->arena);
    zk_delays_end(door);
    return is_answered;
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

static bool is_crowded(const struct zk_connection *connection) {
    return raw_connection_queued_by_all(connection->raw) > ZK_QUEUED_MUCH;
}

/* What one answer may take; SIZE_MAX: whatever it is. */
static size_t share_of_room(const struct zk_connection *connection) {
    size_t queued = raw_connection_queued_by_all(connection->raw);
    size_t share = queued < QUEUED_MAX ? (QUEUED_MAX - queued) / SHARES : 0;
    return queued <= QUEUED_LITTLE ? SIZE_MAX : share > ANSWER_SMALL ? share : ANSWER_SMALL;
}

/* One client holds back itself. Thousands that each ask for much, and take nothing, are held back
 * here. `refused`: the share that was too small, 0 at first; looking again is for a larger one. */
static bool has_room(struct zk_connection *connection, int32_t type, struct bytes body,
                     size_t *refused) {
    size_t share = share_of_room(connection);
    if (share == SIZE_MAX) {
        return true;
    }
    if (share / 2 < *refused) {
        return false;
    }
    zk_delays_begin(connection->door);
    bool is_more = zk_read_is_more(connection->door, type, body, share);
    zk_delays_end(connection->door);
    *refused = is_more ? share : 0;
    return !is_more;
}

/* The usual case: nothing is before it, and this member may answer from memory. False: it has to
 * wait. */
static bool read_at_once(struct zk_connection *connection, int32_t xid, int32_t type,
                         struct bytes body) {
    struct key_range range;
    struct zk_read_progress progress = {0};
    size_t refused = 0;
    size_t n = range_of(type, body, &range);
    if (zk_read_is_long(type, body) || zk_delays_is_slice_over(connection->door) ||
        !has_room(connection, type, body, &refused)) {
        return false;
    }
    enum status status = service_read_now(connection->door->service,
                                          raw_connection_caller(connection->raw), &range, n);
    if (!zk_events_catch_up(connection->door) || status == STATUS_PENDING ||
        zk_tellings_are_awaited(connection)) {
        return false;
    }
    if (status == STATUS_OK) {
        (void)answer_read(connection, xid, type, body, &progress);
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
    request->iteration = service_iteration(connection->door->service);
    if (status == STATUS_AUTH_OLD_REVISION) {
        request->state = REQUEST_WAITING; /* asked again, with the new rights */
        connection->n_active_reads--;
        connection->n_waiting_reads++;
    } else if (status != STATUS_OK && error_of(status) == ZK_OK) {
        zk_connection_drop(connection, status_text(status));
        return;
    } else {
        request->error = error_of(status);
    }
    go_on(connection);
}

/* All changes before it are done. */
static void start_read(struct request *request) {
    struct zk_connection *connection = request->connection;
    struct key_range range;
    struct bytes body = bytes_of(request->body, request->body_size);
    size_t n = range_of(request->type, body, &range);
    const struct caller *caller = raw_connection_caller(connection->raw);
    enum status status = service_read_now(connection->door->service, caller, &range, n);
    if (status == STATUS_PENDING && connection->n_changes_under_way > 0) {
        zk_connection_drop(connection, "this member cannot answer from memory any more");
        return;
    }
    connection->n_waiting_reads--;
    connection->n_active_reads++;
    request->read.ready = read_ready;
    request->state = REQUEST_UNDER_WAY;
    if (status == STATUS_PENDING) {
        status = service_read(connection->door->service, caller, &request->read, &range, n);
    }
    if (status == STATUS_PENDING) {
        return;
    }
    request->state = REQUEST_READY;
    request->iteration = service_iteration(connection->door->service);
    request->error = error_of(status);
    if (status != STATUS_OK && request->error == ZK_OK) {
        zk_connection_drop(connection, status_text(status));
    }
}

/* --- Changes. --- */

static void keep_answer(struct request *request, const struct outcome *outcome) {
    struct buffer *result = zk_door_buffer(&request->connection->door->scratch);
    request->zxid = outcome->revision;
    if (outcome->status != STATUS_OK) {
        request->error = error_of(outcome->status);
        request->zxid = zk_connection_zxid(request->connection);
        return;
    }
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

static void end_delaying(struct zk_door *door, struct request *request) {
    zk_delays_change_ended(door, request->size_begun, request->rewritten);
    request->size_begun = 0;
    request->rewritten = 0;
}

/* What is behind a change that may be lost must not be done. Those that were handed on are behind
 * it in the same log, or on the same link. */
static void withdraw_changes(struct zk_connection *connection) {
    for (struct list *node = connection->requests.next; node != &connection->requests;
         node = node->next) {
        struct request *request = list_entry(node, struct request, link);
        if (request->is_change && request->state == REQUEST_UNDER_WAY &&
            service_withdraw(connection->door->service, &request->change)) {
            request->state = REQUEST_DONE;
            end_delaying(connection->door, request);
            connection->n_changes_under_way--;
        }
    }
}

static void change_done(struct service_request *service_request, const struct outcome *outcome) {
    struct request *request = list_entry(service_request, struct request, change);
    struct zk_connection *connection = request->connection;
    if (connection == NULL) {
        free(request);
        return;
    }
    end_delaying(connection->door, request);
    connection->n_changes_under_way--;
    if (outcome->status != STATUS_OK && error_of(outcome->status) == ZK_OK) {
        request->state = REQUEST_DONE;
        withdraw_changes(connection);
        zk_connection_drop(connection, status_text(outcome->status));
        return;
    }
    bool is_told = zk_events_catch_up(connection->door) || connection->watcher.n_watches == 0;
    keep_answer(request, outcome);
    struct buffer *result = &connection->door->scratch;
    if (connection->requests.next == &request->link && is_renewed(request) && is_told &&
        !zk_tellings_are_awaited(connection)) {
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

static void submit(struct request *request, size_t rewritten) {
    struct zk_connection *connection = request->connection;
    struct zk_door *door = connection->door;
    struct bytes body = bytes_of(request->body, request->body_size);
    struct buffer *out = zk_door_buffer(&door->scratch);
    bool is_close = request->type == ZK_OP_CLOSE_SESSION;
    buffer_put_zigzag(out, connection->session_id);
    buffer_put_u64(out, connection->number);
    buffer_append(out, connection->ids.data, connection->ids.size);
    enum zk_error error = is_close ? ZK_OK : zk_change_encode(connection, request->type, body, out);
    arena_reset(&door->arena);
    connection->n_waiting_changes--;
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
    request->size_begun = request->body_size;
    request->rewritten = rewritten;
    zk_delays_change_begun(door, request->size_begun, rewritten);
    connection->n_changes_under_way++;
    request->change.done = change_done;
    /* Whoever has the session may end it, also one who has shown no password yet. */
    service_submit(door->service,
                   is_close ? &caller_server : raw_connection_caller(connection->raw),
                   &request->change, &command);
}

/* --- The queue. --- */

/* Whether a read may be answered later. A change that is on its way is behind it, and would be seen
 * by then. */
static bool may_wait(const struct zk_connection *connection) {
    return connection->n_changes_under_way == 0;
}

/* In a later iteration the caller may have lost its rights, and the server may be stopping. */
static enum status may_still_read(const struct request *request) {
    struct zk_connection *connection = request->connection;
    struct service *service = connection->door->service;
    struct key_range range;
    if (request->iteration == service_iteration(service)) {
        return STATUS_OK;
    }
    size_t n = range_of(request->type, bytes_of(request->body, request->body_size), &range);
    return service_read_local(service, raw_connection_caller(connection->raw), &range, n);
}

/* Events go before an answer that shows their change. They do not wait where a read cannot. */
static bool is_all_told(struct zk_connection *connection, bool is_read) {
    bool has_reads = connection->n_waiting_reads + connection->n_active_reads > 0;
    bool is_urgent = has_reads && !may_wait(connection);
    /* A read may begin a watch, which is not told of what was before. */
    bool must_know = is_read || connection->watcher.n_watches > 0;
    bool is_caught_up = is_urgent && must_know ? zk_events_catch_up_urgently(connection->door)
                                               : zk_events_catch_up(connection->door);
    if (!is_caught_up && must_know) {
        if (is_urgent) {
            zk_connection_drop(connection, "too many events before answers that cannot wait");
        } else {
            zk_delays_add(connection);
        }
        return false;
    }
    return zk_tellings_go_on(connection, is_urgent);
}

/* False: the rest of it, or all, comes later. */
static bool answer_ready(struct request *request) {
    struct zk_connection *connection = request->connection;
    struct bytes body = bytes_of(request->body, request->body_size);
    do {
        if (!is_all_told(connection, true)) {
            return false;
        }
        if (connection->state == ZK_DROPPED ||
            (may_wait(connection) && !raw_connection_is_writable(connection->raw))) {
            return false;
        }
        size_t unsent_max = is_crowded(connection) ? UNSENT_CROWDED_MAX : UNSENT_MAX;
        if (!may_wait(connection) && raw_connection_unsent_bytes(connection->raw) > unsent_max) {
            zk_connection_drop(connection, "too many answers that cannot wait");
            return false;
        }
        if (may_wait(connection) && zk_delays_is_slice_over(connection->door)) {
            zk_delays_add(connection);
            return false;
        }
        if (may_wait(connection) && !has_room(connection, request->type, body, &request->refused)) {
            zk_delays_wait_for_room(connection);
            return false;
        }
        enum status status = may_still_read(request);
        if (status != STATUS_OK) {
            connection->is_setting_watches = false;
            return refuse(connection, request->xid, status);
        }
    } while (!answer_read(connection, request->xid, request->type, body, &request->progress));
    return true;
}

static void answer_first(struct zk_connection *connection) {
    while (!list_is_empty(&connection->requests)) {
        struct request *request = list_entry(connection->requests.next, struct request, link);
        if (!is_renewed(request)) {
            return;
        }
        if (request->state == REQUEST_READY && request->error == ZK_OK) {
            if (!answer_ready(request)) {
                return;
            }
        } else if (request->state == REQUEST_READY || request->state == REQUEST_DONE) {
            if (!is_all_told(connection, false)) {
                return;
            }
            request->zxid = request->zxid == 0 ? zk_connection_zxid(connection) : request->zxid;
            reply(connection, request, bytes_of(request->result.data, request->result.size));
        } else {
            return;
        }
        finish(request);
    }
}

/* Reads whose changes before them are done. */
static void start_reads(struct zk_connection *connection) {
    struct list *next;
    for (struct list *node = connection->requests.next;
         node != &connection->requests && connection->n_waiting_reads > 0; node = next) {
        struct request *request = list_entry(node, struct request, link);
        next = node->next;
        if (request->is_change && request->state != REQUEST_DONE) {
            return;
        }
        if (request->state == REQUEST_WAITING && !request->is_change) {
            start_read(request);
            if (connection->state == ZK_DROPPED) {
                return;
            }
        }
    }
}

/* A change may be on its way while reads before it wait for the changes before them: each is
 * answered in the moment in which those are done, before the next one is applied. This takes a
 * member that answers from memory, a session that was renewed since, and no events that wait. */
static bool may_pass_reads(const struct zk_connection *connection) {
    return connection->n_active_reads == 0 && !zk_tellings_are_awaited(connection) &&
           connection->read_renewal <= connection->renewals_done &&
           service_read_now(connection->door->service, raw_connection_caller(connection->raw), NULL,
                            0) == STATUS_OK;
}

/* Reads that a change has passed are answered in one go. So it does not pass many of them, nor
 * those that take long or have large answers. */
static bool may_pass_reads_before(struct zk_connection *connection, const struct list *change) {
    size_t n = 0;
    for (const struct list *node = change->previous; node != &connection->requests;
         node = node->previous) {
        const struct request *request = list_entry(node, struct request, link);
        if (request->is_change) {
            return true;
        }
        struct bytes body = bytes_of(request->body, request->body_size);
        if (++n > READS_PASSED_MAX || zk_read_is_long(request->type, body) ||
            zk_read_is_more(connection->door, request->type, body, PASSED_SIZE_MAX)) {
            return false;
        }
    }
    return true;
}

/* The first change that waits: all changes behind it do. */
static struct list *first_waiting_change(struct zk_connection *connection) {
    struct list *node = &connection->requests;
    for (size_t n = connection->n_waiting_changes; n > 0;) {
        node = node->previous;
        n -= list_entry(node, struct request, link)->is_change;
    }
    return node;
}

static bool has_read_before(struct zk_connection *connection, const struct list *until) {
    for (struct list *node = connection->requests.next; node != until; node = node->next) {
        if (!list_entry(node, struct request, link)->is_change) {
            return true;
        }
    }
    return false;
}

static void start_changes(struct zk_connection *connection) {
    if (connection->n_waiting_changes == 0) {
        return;
    }
    if (connection->door->is_late || connection->door->is_late_to_send) {
        zk_delays_add(connection); /* until those who watch know of the changes before it */
        return;
    }
    struct list *node = first_waiting_change(connection);
    bool has_reads = connection->n_waiting_reads + connection->n_active_reads > 0;
    if (has_reads && !may_pass_reads(connection)) {
        if (has_read_before(connection, node)) {
            return;
        }
        has_reads = false;
    }
    struct list *next;
    for (; node != &connection->requests; node = next) {
        struct request *request = list_entry(node, struct request, link);
        next = node->next;
        bool is_close = request->type == ZK_OP_CLOSE_SESSION;
        if (!request->is_change ? !may_pass_reads(connection) : is_close && has_reads) {
            return;
        }
        if (request->is_change) {
            if (has_reads && !may_pass_reads_before(connection, node)) {
                return;
            }
            size_t rewritten = zk_change_rewritten(connection->door, request->type,
                                                   bytes_of(request->body, request->body_size));
            if (!is_close && !zk_delays_admit_change(connection, request->body_size, rewritten)) {
                return;
            }
            submit(request, rewritten);
        }
    }
}

/* What waits for time or for the client does not wait for the first request as well. */
static void tell_meanwhile(struct zk_connection *connection) {
    if (!connection->is_delayed && connection->state != ZK_DROPPED &&
        zk_tellings_are_awaited(connection)) {
        (void)zk_tellings_go_on(connection, false);
    }
}

static void go_on(struct zk_connection *connection) {
    for (;;) {
        answer_first(connection);
        size_t before = connection->n_waiting_changes + connection->n_waiting_reads;
        if (before == 0 || connection->session_id == 0) {
            break;
        }
        start_reads(connection);
        if (connection->state != ZK_DROPPED) {
            start_changes(connection);
        }
        if (connection->n_waiting_changes + connection->n_waiting_reads == before) {
            break;
        }
    }
    tell_meanwhile(connection);
    zk_connection_flow(connection);
}

void zk_requests_go_on(struct zk_connection *connection) {
    if (connection->raw == NULL) {
        return;
    }
    if (connection->n_requests > 0) {
        go_on(connection);
    } else {
        (void)zk_tellings_go_on(connection, false);
    }
}

void zk_requests_renewed(struct zk_connection *connection) {
    zk_requests_go_on(connection);
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
    connection->door->n_requests++;
    if (is_change) {
        connection->n_waiting_changes++;
    } else {
        connection->n_waiting_reads++;
        connection->read_renewal = request->renewal;
    }
    raw_connection_begin_request(connection->raw);
    go_on(connection);
}

void zk_requests_drop(struct zk_connection *connection) {
    struct list *node;
    withdraw_changes(connection);
    while ((node = list_pop_first(&connection->requests)) != NULL) {
        struct request *request = list_entry(node, struct request, link);
        request->connection = NULL;
        end_delaying(connection->door, request);
        buffer_clear(&request->result);
        zk_quota_count_clear(&request->progress.quota);
        if (request->state != REQUEST_UNDER_WAY) {
            free(request);
        }
    }
    connection->door->n_requests -= connection->n_requests;
    connection->n_requests = 0;
    connection->n_waiting_changes = 0;
    connection->n_waiting_reads = 0;
    connection->n_active_reads = 0;
    connection->n_changes_under_way = 0;
}
