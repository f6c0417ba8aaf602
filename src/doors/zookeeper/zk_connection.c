/* Frames in, frames out. */
#include "doors/zookeeper/zk_connection.h"

#include "base/log.h"
#include "doors/zookeeper/zk_delays.h"
#include "doors/zookeeper/zk_events.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_tellings.h"

#include <stdlib.h>

enum {
    LENGTH_SIZE = 4,
    HEADER_SIZE = 8,        /* of a request: xid and type */
    REPLY_HEADER_SIZE = 16, /* xid, zxid, error */
    BUFFER_KEPT = 256 * 1024
};

/* --- What the first bytes tell. --- */

/* A length that fits a ConnectRequest, then protocol version 0; or a word, alone on its line. */
static enum sniff_result sniff(struct bytes first) {
    static const uint8_t zeros[3] = {0};
    if (first.size < LENGTH_SIZE) {
        return first.size == 0 || first.data[0] == 0 ||
                       (first.data[0] >= 'a' && first.data[0] <= 'z')
                   ? SNIFF_MORE
                   : SNIFF_NO;
    }
    if (zk_words_is(bytes_of(first.data, LENGTH_SIZE))) {
        return first.size == LENGTH_SIZE || first.data[4] == '\n' || first.data[4] == '\r'
                   ? SNIFF_YES
                   : SNIFF_NO;
    }
    if (memcmp(first.data, zeros, sizeof zeros) != 0 || first.data[3] < 28 || first.data[3] > 64) {
        return SNIFF_NO;
    }
    for (size_t i = LENGTH_SIZE; i < 2 * LENGTH_SIZE && i < first.size; i++) {
        if (first.data[i] != 0) {
            return SNIFF_NO;
        }
    }
    return first.size < 2 * LENGTH_SIZE ? SNIFF_MORE : SNIFF_YES;
}

/* --- Life. --- */

static bool on_open(struct raw_connection *raw) {
    struct zk_door *door = raw_connection_context(raw);
    struct zk_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return false;
    }
    connection->door = door;
    connection->raw = raw;
    connection->number = door->next_number++;
    connection->opened_ms = service_now_ms(door->service);
    list_init(&connection->requests);
    list_init(&connection->tellings);
    zk_watcher_init(&connection->watcher);
    buffer_init(&connection->ids);
    list_append(&door->connections, &connection->in_door);
    door->n_connections++;
    door->counters.connections++;
    raw_connection_set_data(raw, connection);
    zk_events_begin(door);
    return true;
}

void zk_connection_free_if_over(struct zk_connection *connection) {
    if (connection->raw == NULL && !connection->is_renewing && !connection->is_connecting) {
        free(connection);
    }
}

static void leave_session(struct zk_connection *connection) {
    if (connection->session_id != 0) {
        zk_hash_remove(&connection->door->sessions, &connection->in_sessions);
        connection->session_id = 0;
    }
}

static void on_close(struct raw_connection *raw) {
    struct zk_connection *connection = raw_connection_data(raw);
    struct zk_door *door = connection->door;
    connection->raw = NULL;
    leave_session(connection);
    zk_access_cancel(connection);
    zk_delays_remove(connection);
    zk_tellings_drop(connection);
    zk_requests_drop(connection);
    zk_watcher_clear(&door->watches, &connection->watcher);
    buffer_clear(&connection->ids);
    list_remove(&connection->in_door);
    door->n_connections--;
    if (door->n_connections == 0) {
        zk_events_end(door); /* when the door closes the service is gone already */
    }
    zk_connection_free_if_over(connection);
}

void zk_connection_drop(struct zk_connection *connection, const char *reason) {
    if (connection->raw == NULL) {
        return;
    }
    log_debug("connection closed", LOG_TEXT("reason", reason), LOG_TEXT("protocol", "zookeeper"));
    leave_session(connection);
    zk_tellings_drop(connection);
    zk_watcher_clear(&connection->door->watches, &connection->watcher);
    raw_connection_close(connection->raw);
    connection->state = ZK_DROPPED;
}

struct zk_connection *zk_connection_of_session(const struct zk_door *door, int64_t session_id) {
    uint64_t hash = keyed_hash_number(&door->key, (uint64_t)session_id);
    for (struct zk_hash_node *node = zk_hash_first(&door->sessions, hash); node != NULL;
         node = node->next) {
        struct zk_connection *connection = list_entry(node, struct zk_connection, in_sessions);
        if (connection->session_id == session_id) {
            return connection;
        }
    }
    return NULL;
}

struct zk_connection *zk_connection_of_watcher(struct zk_watcher *watcher) {
    return list_entry(watcher, struct zk_connection, watcher);
}

int64_t zk_connection_zxid(const struct zk_connection *connection) {
    return key_store_revision(state_view_keys(service_view(connection->door->service)));
}

/* --- Output. --- */

struct buffer *zk_door_buffer(struct buffer *buffer) {
    if (buffer->capacity > BUFFER_KEPT && buffer->size <= BUFFER_KEPT) {
        buffer_clear(buffer);
        buffer_init(buffer);
    }
    buffer->size = 0;
    return buffer;
}

void zk_connection_reply(struct zk_connection *connection, int32_t xid, int64_t zxid, int32_t error,
                         struct bytes body) {
    if (connection->raw == NULL || connection->state == ZK_DROPPED) {
        return;
    }
    struct buffer *out = zk_door_buffer(&connection->door->reply);
    zk_jute_put_int(out, (int32_t)(REPLY_HEADER_SIZE + body.size));
    zk_jute_put_int(out, xid);
    zk_jute_put_long(out, zk_tellings_zxid(connection, zxid));
    zk_jute_put_int(out, error);
    buffer_append(out, body.data, body.size);
    raw_connection_send(connection->raw, bytes_of(out->data, out->size));
    connection->sent++;
    connection->door->counters.sent++;
}

/* --- Input. --- */

void zk_connection_flow(struct zk_connection *connection) {
    if (connection->raw == NULL) {
        return;
    }
    bool must_wait = connection->state == ZK_CONNECTING || connection->login != NULL ||
                     connection->n_requests >= ZK_REQUESTS_MAX ||
                     !raw_connection_is_writable(connection->raw);
    if (must_wait && !connection->is_paused) {
        connection->is_paused = true;
        raw_connection_pause(connection->raw);
    } else if (!must_wait && connection->is_paused &&
               connection->n_requests <= ZK_REQUESTS_MAX / 2) {
        connection->is_paused = false;
        raw_connection_resume(connection->raw);
    }
}

static void take_request(struct zk_connection *connection, struct bytes frame) {
    struct reader reader;
    reader_init(&reader, frame);
    int32_t xid = zk_jute_get_int(&reader);
    int32_t type = zk_jute_get_int(&reader);
    if (reader.failed) {
        raw_connection_refuse(connection->raw, "a request without a header");
        return;
    }
    struct bytes body = bytes_of(frame.data + HEADER_SIZE, frame.size - HEADER_SIZE);
    connection->received++;
    connection->door->counters.received++;
    connection->last_type = type;
    uint64_t renewal = zk_connect_touch(connection, type == ZK_OP_PING);
    if (type == ZK_OP_PING || connection->session_id == 0) {
        return;
    }
    if (type == ZK_OP_AUTH) {
        zk_access_auth(connection, xid, body);
    } else {
        zk_requests_take(connection, xid, type, body, renewal);
    }
}

static void take_frame(struct zk_connection *connection, struct bytes frame) {
    if (connection->state == ZK_NEW) {
        zk_connect(connection, frame);
    } else if (connection->state == ZK_CONNECTED) {
        take_request(connection, frame);
    }
    zk_connection_flow(connection);
}

/* The size of the next frame; 0: it has not come, or is refused. */
static size_t next_frame(struct zk_connection *connection, struct bytes bytes) {
    struct reader reader;
    if (bytes.size < LENGTH_SIZE) {
        return 0;
    }
    reader_init(&reader, bytes);
    int32_t size = zk_jute_get_int(&reader);
    if (size < 0 || size > ZK_FRAME_SIZE_MAX) {
        raw_connection_refuse(connection->raw, "a frame is too large");
        return 0;
    }
    return bytes.size - LENGTH_SIZE < (size_t)size ? 0 : LENGTH_SIZE + (size_t)size;
}

static size_t on_bytes(struct raw_connection *raw, struct bytes bytes) {
    struct zk_connection *connection = raw_connection_data(raw);
    size_t used = 0;
    if (connection->state == ZK_NEW && bytes.size >= LENGTH_SIZE &&
        zk_words_is(bytes_of(bytes.data, LENGTH_SIZE))) {
        zk_words_answer(connection, bytes_of(bytes.data, LENGTH_SIZE));
        raw_connection_close(raw);
        return bytes.size;
    }
    while (!connection->is_paused) {
        size_t size = next_frame(connection, bytes_of(bytes.data + used, bytes.size - used));
        if (size == 0) {
            break;
        }
        take_frame(connection, bytes_of(bytes.data + used + LENGTH_SIZE, size - LENGTH_SIZE));
        used += size;
    }
    return used;
}

static void on_writable(struct raw_connection *raw) {
    struct zk_connection *connection = raw_connection_data(raw);
    zk_requests_go_on(connection);
    zk_connection_flow(connection);
}

const struct raw_protocol zk_protocol = {.name = "zookeeper",
                                         .sniff = sniff,
                                         .partial_max = LENGTH_SIZE + ZK_FRAME_SIZE_MAX,
                                         .idle_limit_ms = RAW_NO_IDLE_LIMIT,
                                         .on_open = on_open,
                                         .on_bytes = on_bytes,
                                         .on_writable = on_writable,
                                         .on_close = on_close};
