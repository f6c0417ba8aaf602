#include "doors/zookeeper/zk_tellings.h"

#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_delays.h"
#include "doors/zookeeper/zk_events.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_node_read.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Told in one iteration of the loop, each event with what sending it takes. */
    TOLD_BYTES_MAX = 4 * 1024 * 1024,
    /* And to one client, before it is the turn of the next. */
    TURN_BYTES_MAX = 64 * 1024,
    SENDING_BYTES = 128,
    TOLD_WORK_MAX = 30 * 1000,
    /* Before answers that cannot wait. */
    URGENT_WORK_MAX = 100 * 1000,
    /* Queued for all connections: above it a client gets one event after the other. */
    QUEUED_MUCH = 32 * 1024 * 1024,
    WAITING_BYTES_MAX = 64 * 1024 * 1024, /* of all events that wait */
    /* Of a client whose answers cannot wait. */
    URGENT_UNSENT_MAX = 4 * 1024 * 1024,
    URGENT_UNSENT_CROWDED_MAX = 512 * 1024, /* the same while much is queued */
    WATCHES_OF_A_PART = 64,
    /* Of a watch that is compared with its node, and how many bytes of its path are as much. */
    WORK_OF_WATCH = 4,
    BYTES_OF_WORK = 128
};

/* One event, for all who are told of it later. */
struct zk_event {
    struct list in_door;  /* the oldest first */
    struct list tellings; /* struct telling by in_event */
    size_t size;
    uint8_t frame[];
};

/* That a connection is told of it. */
struct telling {
    struct list in_connection;
    struct list in_event;
    struct zk_connection *connection;
    struct zk_event *event;
};

void zk_tellings_open(struct zk_door *door) {
    list_init(&door->events);
}

void zk_tellings_close(const struct zk_door *door) {
    assert(list_is_empty(&door->events));
    assert(door->event_bytes == 0);
}

bool zk_tellings_are_awaited(const struct zk_connection *connection) {
    return !list_is_empty(&connection->tellings) || !list_is_empty(&connection->watcher.unseen);
}

/* A client that has to ask again says how much it has seen. */
static bool shows_old_zxid(const struct zk_connection *connection) {
    return connection->is_setting_watches || zk_tellings_are_awaited(connection);
}

int64_t zk_tellings_zxid(const struct zk_connection *connection, int64_t zxid) {
    const struct zk_door *door = connection->door;
    if (door->is_late && connection->watcher.n_watches > 0 && door->seen_revision < zxid) {
        zxid = door->seen_revision;
    }
    return shows_old_zxid(connection) && connection->told_zxid < zxid ? connection->told_zxid
                                                                      : zxid;
}

void zk_tellings_since(struct zk_connection *connection, int64_t since) {
    since = since < 0 ? 0 : since;
    if (!shows_old_zxid(connection) || since < connection->told_zxid) {
        connection->told_zxid = since;
    }
}

/* --- What waits. --- */

static void forget(struct zk_door *door, struct zk_event *event) {
    if (list_is_empty(&event->tellings) && event != door->event_now) {
        list_remove(&event->in_door);
        door->event_bytes -= sizeof *event + event->size;
        free(event);
    }
}

static void end_telling(struct telling *telling) {
    struct zk_door *door = telling->connection->door;
    struct zk_event *event = telling->event;
    list_remove(&telling->in_connection);
    list_remove(&telling->in_event);
    telling->connection->telling_bytes -= sizeof *telling + event->size;
    door->event_bytes -= sizeof *telling;
    free(telling);
    forget(door, event);
}

void zk_tellings_drop(struct zk_connection *connection) {
    while (!list_is_empty(&connection->tellings)) {
        end_telling(list_entry(connection->tellings.next, struct telling, in_connection));
    }
}

/* The table of watches may be in use: its watches go with the connection. */
static void give_up(struct zk_connection *connection, const char *reason) {
    zk_tellings_drop(connection);
    connection->is_behind = true;
    raw_connection_abort(connection->raw, reason);
}

static struct zk_connection *furthest_behind(struct zk_door *door) {
    struct zk_connection *furthest = NULL;
    for (struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        struct zk_connection *connection = list_entry(node, struct zk_connection, in_door);
        if (connection->telling_bytes > (furthest == NULL ? 0 : furthest->telling_bytes)) {
            furthest = connection;
        }
    }
    return furthest;
}

/* Each of those that are behind as far goes as well, since an event stays for the last of them. */
static void make_room(struct zk_door *door) {
    if (door->event_bytes <= WAITING_BYTES_MAX) {
        return;
    }
    struct zk_connection *furthest = furthest_behind(door);
    size_t bytes = furthest == NULL ? 0 : furthest->telling_bytes / 2;
    for (struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        struct zk_connection *connection = list_entry(node, struct zk_connection, in_door);
        if (connection->telling_bytes > bytes) {
            give_up(connection, "the peer lets its events gather");
        }
    }
}

static void write_frame(struct buffer *out, enum zk_event_type type, struct bytes path) {
    enum { SYNC_CONNECTED = 3, HEADER_SIZE = 16, EVENT_SIZE = 12 };
    zk_jute_put_int(out, (int32_t)(HEADER_SIZE + EVENT_SIZE + path.size));
    zk_jute_put_int(out, ZK_XID_EVENT);
    zk_jute_put_long(out, -1);
    zk_jute_put_int(out, ZK_OK);
    zk_jute_put_int(out, type);
    zk_jute_put_int(out, SYNC_CONNECTED);
    zk_jute_put_bytes(out, path);
}

static struct zk_event *create_event(struct zk_door *door, enum zk_event_type type,
                                     struct bytes path) {
    struct buffer *out = zk_door_buffer(&door->reply);
    write_frame(out, type, path);
    struct zk_event *event = malloc(sizeof *event + out->size);
    if (event == NULL) {
        return NULL;
    }
    list_init(&event->tellings);
    event->size = out->size;
    memcpy(event->frame, out->data, out->size);
    list_append(&door->events, &event->in_door);
    door->event_bytes += sizeof *event + event->size;
    return event;
}

static void tell_later(struct zk_connection *connection, enum zk_event_type type,
                       struct bytes path) {
    struct zk_door *door = connection->door;
    struct zk_event *event = door->event_now;
    struct telling *telling = malloc(sizeof *telling);
    event = event == NULL && telling != NULL ? create_event(door, type, path) : event;
    if (event == NULL || telling == NULL) {
        free(telling);
        give_up(connection, "out of memory");
        return;
    }
    if (door->is_telling_many) {
        door->event_now = event;
    }
    if (!shows_old_zxid(connection)) {
        connection->told_zxid = door->seen_revision;
    }
    *telling = (struct telling){.connection = connection, .event = event};
    list_append(&connection->tellings, &telling->in_connection);
    list_append(&event->tellings, &telling->in_event);
    connection->telling_bytes += sizeof *telling + event->size;
    door->event_bytes += sizeof *telling;
    make_room(door);
}

void zk_tellings_begin(struct zk_door *door) {
    door->is_telling_many = true;
}

void zk_tellings_end(struct zk_door *door) {
    struct zk_event *event = door->event_now;
    door->is_telling_many = false;
    door->event_now = NULL;
    if (event != NULL) {
        forget(door, event);
        make_room(door);
    }
}

/* --- What is told. --- */

static void look_at_iteration(struct zk_door *door) {
    uint64_t iteration = service_iteration(door->service);
    if (door->told_iteration != iteration) {
        door->told_iteration = iteration;
        door->told_bytes = 0;
        door->told_work = 0;
    }
}

bool zk_tellings_are_many(struct zk_door *door) {
    look_at_iteration(door);
    return door->told_bytes >= TOLD_BYTES_MAX;
}

bool zk_tellings_are_much_work(struct zk_door *door, bool is_urgent) {
    size_t most = is_urgent ? URGENT_WORK_MAX : TOLD_WORK_MAX;
    look_at_iteration(door);
    return door->told_work >= most;
}

enum readiness { READY, WRITABLE_LATER, TIME_LATER };

static enum readiness readiness_of(struct zk_connection *connection) {
    if (!raw_connection_is_writable(connection->raw)) {
        return WRITABLE_LATER;
    }
    bool is_crowded = raw_connection_queued_by_all(connection->raw) > QUEUED_MUCH &&
                      raw_connection_unsent_bytes(connection->raw) > 0;
    return is_crowded || zk_tellings_are_many(connection->door) ? TIME_LATER : READY;
}

static void send_event(struct zk_connection *connection, struct bytes frame) {
    raw_connection_send(connection->raw, frame);
    connection->sent++;
    connection->door->counters.sent++;
    connection->door->counters.events++;
    connection->door->told_bytes += frame.size + SENDING_BYTES;
}

void zk_tellings_tell(struct zk_connection *connection, enum zk_event_type type,
                      struct bytes path) {
    struct zk_door *door = connection->door;
    if (connection->raw == NULL || connection->state == ZK_DROPPED || connection->is_behind) {
        return;
    }
    enum readiness readiness =
        list_is_empty(&connection->tellings) ? readiness_of(connection) : WRITABLE_LATER;
    if (readiness == READY) {
        struct buffer *out = zk_door_buffer(&door->reply);
        write_frame(out, type, path);
        send_event(connection, bytes_of(out->data, out->size));
        return;
    }
    tell_later(connection, type, path);
    if (readiness == TIME_LATER) {
        zk_delays_add(connection);
    }
}

static bool is_urgent_too_much(const struct zk_connection *connection) {
    bool is_crowded = raw_connection_queued_by_all(connection->raw) > ZK_QUEUED_MUCH;
    return raw_connection_unsent_bytes(connection->raw) >
           (is_crowded ? URGENT_UNSENT_CROWDED_MAX : URGENT_UNSENT_MAX);
}

static bool send_waiting(struct zk_connection *connection, bool is_urgent) {
    size_t sent = 0;
    while (!list_is_empty(&connection->tellings)) {
        enum readiness readiness = is_urgent                ? READY
                                   : sent >= TURN_BYTES_MAX ? TIME_LATER
                                                            : readiness_of(connection);
        if (readiness != READY) {
            if (readiness == TIME_LATER) {
                zk_delays_add(connection);
            }
            return false;
        }
        if (is_urgent && is_urgent_too_much(connection)) {
            give_up(connection, "too many events before answers that cannot wait");
            return false;
        }
        struct telling *telling =
            list_entry(connection->tellings.next, struct telling, in_connection);
        sent += telling->event->size;
        send_event(connection, bytes_of(telling->event->frame, telling->event->size));
        end_telling(telling);
    }
    return true;
}

/* --- What watches have missed. --- */

static void begin_to_compare(struct zk_connection *connection, int64_t since) {
    struct zk_watcher *watcher = &connection->watcher;
    if (connection->state == ZK_CONNECTED && !zk_connect_has_session(connection)) {
        zk_connection_drop(connection, "the session has ended");
        return;
    }
    if (watcher->n_watches == 0) {
        return;
    }
    /* Some may be there from the last time, and have missed more. */
    if (list_is_empty(&watcher->unseen) || since < connection->compared_since) {
        connection->compared_since = since;
    }
    zk_tellings_since(connection, since);
    list_append_all(&watcher->unseen, &watcher->watches);
    zk_delays_add(connection);
}

void zk_tellings_compare_all(struct zk_door *door, int64_t since) {
    struct list *next;
    for (struct list *node = door->connections.next; node != &door->connections; node = next) {
        next = node->next;
        begin_to_compare(list_entry(node, struct zk_connection, in_door), since);
    }
}

static void compare_one(struct zk_connection *connection) {
    struct zk_door *door = connection->door;
    struct zk_watcher *watcher = &connection->watcher;
    struct list *node = list_pop_first(&watcher->unseen);
    struct zk_watch *watch = list_entry(node, struct zk_watch, in_watcher);
    list_append(&watcher->watches, node);
    door->told_work += WORK_OF_WATCH + watch->path->size / BYTES_OF_WORK;
    struct bytes path =
        bytes_of(arena_copy(&door->arena, watch->path->path, watch->path->size), watch->path->size);
    if (zk_events_may_be_told(connection, path)) {
        unsigned once = zk_node_missed(connection, path, watch->kinds, connection->compared_since);
        zk_watches_remove(&door->watches, watcher, path, once);
    }
    arena_reset(&door->arena);
}

static void compare_some(struct zk_connection *connection) {
    zk_delays_begin(connection->door);
    for (size_t n = 0; n < WATCHES_OF_A_PART && !list_is_empty(&connection->watcher.unseen); n++) {
        compare_one(connection);
    }
    zk_delays_end(connection->door);
}

bool zk_tellings_go_on(struct zk_connection *connection, bool is_urgent) {
    while (zk_tellings_are_awaited(connection)) {
        if (connection->state == ZK_DROPPED || !send_waiting(connection, is_urgent)) {
            return false;
        }
        if (!is_urgent && zk_delays_is_slice_over(connection->door)) {
            zk_delays_add(connection);
            return false;
        }
        if (is_urgent && !list_is_empty(&connection->watcher.unseen) &&
            zk_tellings_are_much_work(connection->door, true)) {
            give_up(connection, "too many watches before answers that cannot wait");
            return false;
        }
        compare_some(connection);
    }
    return true;
}
