/* How a session begins, is taken over, and lives on. */
#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_events.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_rules.h"

#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdlib.h>

/* Belongs to the service until it is done. */
struct connecting {
    struct service_request request;
    struct zk_connection *connection; /* kept until this is done */
    bool is_new;
    int32_t timeout_ms;
    int64_t last_zxid;
    uint8_t password[ZK_PASSWORD_SIZE];
};

bool zk_connect_has_session(const struct zk_connection *connection) {
    const struct key_store *keys = state_view_keys(service_view(connection->door->service));
    uint8_t memory[ZK_SESSION_KEY_SIZE];
    struct zk_session session;
    const struct record *record =
        key_store_find(keys, KEY_SPACE_ZOOKEEPER, zk_key_session(memory, connection->session_id));
    return record != NULL && zk_session_decode(record_value(record), &session) &&
           session.connection == connection->number;
}

/* --- The answer. --- */

static void send_response(struct zk_connection *connection, int32_t timeout_ms, int64_t session_id,
                          const uint8_t password[ZK_PASSWORD_SIZE]) {
    struct buffer *out = zk_door_buffer(&connection->door->reply);
    zk_jute_put_int(out, connection->is_old_client ? 36 : 37);
    zk_jute_put_int(out, 0);
    zk_jute_put_int(out, timeout_ms);
    zk_jute_put_long(out, session_id);
    zk_jute_put_bytes(out, bytes_of(password, ZK_PASSWORD_SIZE));
    if (!connection->is_old_client) {
        zk_jute_put_bool(out, false); /* never read-only */
    }
    raw_connection_send(connection->raw, bytes_of(out->data, out->size));
    connection->sent++;
    connection->door->counters.sent++;
}

static void begin_session(struct zk_connection *connection, const struct connecting *connecting,
                          int64_t session_id) {
    struct zk_door *door = connection->door;
    connection->state = ZK_CONNECTED;
    connection->session_id = session_id;
    connection->timeout_ms = connecting->timeout_ms;
    zk_hash_add(&door->sessions, &connection->in_sessions,
                keyed_hash_number(&door->key, (uint64_t)session_id));
    door->counters.sessions_opened += connecting->is_new;
    door->counters.sessions_resumed += !connecting->is_new;
    zk_access_begin(connection);
    send_response(connection, connecting->timeout_ms, session_id, connecting->password);
}

static void refuse_session(struct zk_connection *connection) {
    static const uint8_t no_password[ZK_PASSWORD_SIZE] = {0};
    connection->door->counters.sessions_refused++;
    send_response(connection, 0, 0, no_password);
    raw_connection_close(connection->raw);
}

/* Its former connection is told by the session's record, which may be late. */
static void leave_to(struct zk_connection *connection, int64_t session_id) {
    struct zk_door *door = connection->door;
    struct zk_connection *former =
        session_id != 0 ? zk_connection_of_session(door, session_id) : NULL;
    if (former != NULL && former != connection) {
        door->counters.sessions_moved++;
        zk_connection_drop(former, "the session was taken over by another connection");
    }
}

static void connected(struct service_request *request, const struct outcome *outcome) {
    struct connecting *connecting = (struct connecting *)request;
    struct zk_connection *connection = connecting->connection;
    if (connection->raw == NULL) {
        goto free_request; /* a new session ends with its time */
    }
    raw_connection_end_request(connection->raw);
    struct reader reader;
    reader_init(&reader, outcome->status == STATUS_OK ? outcome->rule.answer : bytes_of(NULL, 0));
    int64_t session_id = outcome->status == STATUS_OK ? reader_get_zigzag(&reader) : 0;
    (void)zk_events_catch_up(connection->door);
    leave_to(connection, session_id);
    if (outcome->status != STATUS_OK) {
        zk_connection_drop(connection, status_text(outcome->status));
    } else if (connecting->last_zxid > outcome->revision) {
        zk_connection_drop(connection, "the client has seen a later state");
    } else if (session_id == 0) {
        refuse_session(connection);
    } else {
        begin_session(connection, connecting, session_id);
        zk_connection_flow(connection);
    }
free_request:
    connection->is_connecting = false;
    zk_connection_free_if_over(connection);
    OPENSSL_cleanse(connecting->password, sizeof connecting->password);
    free(connecting);
}

/* --- The request. --- */

static int32_t clamp(const struct zk_door *door, int32_t timeout_ms) {
    const union door_value *values = door->environment->values;
    int64_t least = values[ZK_FLAG_TIMEOUT_MIN].duration_ms;
    int64_t most = values[ZK_FLAG_TIMEOUT_MAX].duration_ms;
    int64_t wanted = timeout_ms < least ? least : timeout_ms;
    wanted = wanted > most ? most : wanted;
    return wanted > INT32_MAX ? INT32_MAX : (int32_t)wanted;
}

static void submit(struct zk_connection *connection, struct connecting *connecting,
                   int64_t session_id) {
    struct zk_door *door = connection->door;
    struct service_info info;
    service_info(door->service, &info);
    struct zk_connect_request connect = {.session_id = session_id,
                                         .session = {.timeout_ms = connecting->timeout_ms,
                                                     .connection = connection->number,
                                                     .member_id = info.member_id}};
    /* The password itself is kept nowhere but at the client. */
    SHA256(connecting->password, ZK_PASSWORD_SIZE, connect.session.password_hash);
    zk_connect_encode(zk_door_buffer(&door->scratch), &connect);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = ZK_RULE_CONNECT,
                 .request = bytes_of(door->scratch.data, door->scratch.size)}};
    connecting->request.done = connected;
    raw_connection_begin_request(connection->raw);
    connection->is_connecting = true;
    service_submit(door->service, &caller_server, &connecting->request, &command);
}

void zk_connect(struct zk_connection *connection, struct bytes frame) {
    struct reader reader;
    struct connecting *connecting = calloc(1, sizeof *connecting);
    reader_init(&reader, frame);
    int32_t version = zk_jute_get_int(&reader);
    int64_t last_zxid = zk_jute_get_long(&reader);
    int32_t timeout_ms = zk_jute_get_int(&reader);
    int64_t session_id = zk_jute_get_long(&reader);
    struct bytes password = zk_jute_get_bytes(&reader, NULL);
    connection->is_old_client = reader_left(&reader) == 0;
    if (connecting == NULL || reader.failed || version != 0 || reader_left(&reader) > 1) {
        free(connecting);
        raw_connection_refuse(connection->raw, "not a request to connect");
        return;
    }
    connecting->connection = connection;
    connecting->is_new = session_id == 0;
    connecting->timeout_ms = clamp(connection->door, timeout_ms);
    connecting->last_zxid = last_zxid;
    if (connecting->is_new) {
        if (RAND_bytes(connecting->password, ZK_PASSWORD_SIZE) != 1) {
            abort();
        }
    } else if (password.size == ZK_PASSWORD_SIZE) {
        memcpy(connecting->password, password.data, ZK_PASSWORD_SIZE);
    }
    connection->state = ZK_CONNECTING;
    submit(connection, connecting, session_id);
}

/* --- Renewals. --- */

static void renew(struct zk_connection *connection);

static void answer_pings(struct zk_connection *connection) {
    for (; connection->pings_now > 0; connection->pings_now--) {
        zk_connection_reply(connection, ZK_XID_PING, zk_connection_zxid(connection), ZK_OK,
                            bytes_of(NULL, 0));
    }
}

/* A ping is answered when the session has been renewed after it came: the client counts from when
 * it sent the ping. Without a leader it is not answered, and the client looks for another member.
 */
static void renewed(struct zk_connection *connection, enum status status) {
    if (status == STATUS_OK) {
        connection->renewals_done = connection->renewals_begun;
        if (connection->pings_now > 0) {
            (void)zk_events_catch_up(connection->door);
        }
        answer_pings(connection);
    } else if (connection->state != ZK_CLOSING &&
               (status == STATUS_LEASE_NOT_FOUND || connection->n_requests > 0)) {
        zk_connection_drop(connection, status_text(status));
    }
    connection->pings_now = 0;
}

static void renewal_done(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct zk_connection *connection = list_entry(renewal, struct zk_connection, renewal);
    (void)ttl_ms;
    connection->is_renewing = false;
    if (connection->raw == NULL) {
        zk_connection_free_if_over(connection);
        return;
    }
    renewed(connection, status);
    if (connection->is_touched_later) {
        connection->is_touched_later = false;
        connection->pings_now = connection->pings_later;
        connection->pings_later = 0;
        renew(connection);
    }
    zk_requests_renewed(connection);
}

static void renew(struct zk_connection *connection) {
    int64_t ttl_ms;
    if (connection->session_id == 0) {
        return;
    }
    connection->renewal.id = connection->session_id;
    connection->renewal.owner = KEY_SPACE_ZOOKEEPER;
    connection->renewal.shows_keys = false;
    connection->renewal.done = renewal_done;
    connection->renewals_begun++;
    connection->is_renewing = true;
    enum status status =
        service_renew(connection->door->service, &caller_server, &connection->renewal, &ttl_ms);
    if (status != STATUS_PENDING) {
        connection->is_renewing = false;
        renewed(connection, status);
    }
}

uint64_t zk_connect_touch(struct zk_connection *connection, bool is_ping) {
    uint64_t iteration = service_iteration(connection->door->service);
    if (connection->is_renewing) {
        connection->is_touched_later = true;
        connection->pings_later += is_ping;
        return connection->renewals_begun + 1;
    }
    if (!is_ping && iteration == connection->renewed_iteration &&
        connection->renewals_done == connection->renewals_begun) {
        return connection->renewals_begun;
    }
    connection->renewed_iteration = iteration;
    connection->pings_now += is_ping;
    renew(connection);
    return connection->renewals_begun;
}
