#include "doors/zookeeper/zk_events.h"

#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_delays.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_tellings.h"

/* Who may not read a node is not told of it either. */
static bool may_read(struct zk_connection *connection, struct bytes acl) {
    enum { ACL_BYTES_OF_WORK = 1024 };
    struct zk_door *door = connection->door;
    const struct zk_id *ids;
    if (acl.size == 0) {
        return true;
    }
    size_t n = zk_access_ids(connection, &door->arena, &ids);
    bool is_allowed = zk_acl_allows(acl, ZK_PERMISSION_READ, ids, n);
    /* For each that is told: all of them together would be much. */
    arena_reset(&door->arena);
    door->told_work += acl.size / ACL_BYTES_OF_WORK;
    return is_allowed;
}

bool zk_events_may_be_told(struct zk_connection *connection, struct bytes path) {
    const struct auth *auth = state_view_auth(service_view(connection->door->service));
    const struct key_range range = {.space = KEY_SPACE_ZOOKEEPER, .key = path};
    if (!auth_is_enabled(auth)) {
        return true;
    }
    const struct caller *caller = raw_connection_caller(connection->raw);
    return auth_check_user(auth, caller) == STATUS_OK &&
           auth_check_range(auth, caller, RIGHT_READ, &range) == STATUS_OK;
}

static void tell(void *context, struct zk_watcher *watcher, struct bytes path,
                 enum zk_event_type type) {
    struct zk_door *door = context;
    struct zk_connection *connection = zk_connection_of_watcher(watcher);
    door->told_work++;
    if (zk_events_may_be_told(connection, path) && may_read(connection, door->event_acl)) {
        zk_tellings_tell(connection, type, path);
    }
}

static void fire(struct zk_door *door, struct bytes path, enum zk_event_type type,
                 struct bytes acl) {
    door->event_acl = acl;
    zk_tellings_begin(door);
    zk_watches_fire(&door->watches, path, type, tell, door);
    zk_tellings_end(door);
}

/* --- One change. --- */

static struct bytes acl_of(const struct record *record) {
    struct zk_node node;
    return record != NULL && zk_node_decode(record, &node) ? node.acl : bytes_of(NULL, 0);
}

static void tell_parent(struct zk_door *door, const struct key_store *keys, struct bytes path) {
    struct bytes parent = zk_path_parent(path);
    const struct record *record =
        key_store_find(keys, KEY_SPACE_ZOOKEEPER, zk_key_node(&door->arena, parent));
    fire(door, parent, ZK_EVENT_CHILDREN_CHANGED, acl_of(record));
}

static void node_changed(struct zk_door *door, const struct key_store *keys,
                         const struct record *record, struct bytes path) {
    struct zk_node node;
    if (door->watches.watches.n == 0) {
        return;
    }
    if (record_is_tombstone(record)) {
        fire(door, path, ZK_EVENT_DELETED, acl_of(key_store_previous(keys, record)));
        tell_parent(door, keys, path);
    } else if (record->version == 1) {
        fire(door, path, ZK_EVENT_CREATED, acl_of(record));
        tell_parent(door, keys, path);
    } else if (zk_node_decode(record, &node) && node.mzxid == record->mod_revision) {
        /* A change of the access list alone is no event. */
        fire(door, path, ZK_EVENT_DATA_CHANGED, node.acl);
    }
}

static void session_changed(struct zk_door *door, const struct record *record, int64_t id) {
    struct zk_connection *connection = zk_connection_of_session(door, id);
    struct zk_session session;
    if (connection == NULL || connection->state == ZK_CLOSING) {
        return;
    }
    if (record_is_tombstone(record)) {
        door->counters.sessions_expired++;
        zk_connection_drop(connection, "the session has ended");
    } else if (zk_session_decode(record_value(record), &session) &&
               session.connection != connection->number && !zk_connect_has_session(connection)) {
        /* A record of before this connection took the session over may be told late. */
        door->counters.sessions_moved++;
        zk_connection_drop(connection, "the session was taken over by another connection");
    }
}

static void changed(struct zk_door *door, const struct key_store *keys,
                    const struct record *record) {
    struct bytes path;
    int64_t id;
    if (zk_key_path(record_key(record), ZK_KEY_NODE, &path)) {
        node_changed(door, keys, record, path);
    } else if (zk_key_session_id(record_key(record), &id)) {
        session_changed(door, record, id);
    }
}

/* --- All of them. --- */

static bool is_of_zookeeper(const struct record *record) {
    return key_space_equal(record_space(record), KEY_SPACE_ZOOKEEPER);
}

/* Looking for those who watch takes long where paths are long. A record that nobody may watch is
 * only passed over. */
static size_t work_of(const struct zk_door *door, const struct record *record, uint64_t position) {
    enum { WORK_OF_RECORD = 4, BYTES_OF_WORK = 128, PASSED_OVER_OF_WORK = 32 };
    if (!is_of_zookeeper(record) || door->watches.watches.n == 0) {
        return position % PASSED_OVER_OF_WORK == 0 ? 1 : 0;
    }
    return WORK_OF_RECORD + record_key(record).size / BYTES_OF_WORK;
}

/* False: there is more than one iteration may tell. */
static bool tell_changes(struct zk_door *door, const struct key_store *keys, bool is_urgent) {
    uint64_t end = key_store_history_end(keys);
    uint64_t at = key_store_history_seek(keys, door->seen_revision + 1) + door->told_records;
    for (; at < end && !zk_tellings_are_much_work(door, is_urgent); at++) {
        const struct record *record = key_store_history_at(keys, at);
        if (record == NULL) {
            continue;
        }
        door->seen_revision = record->mod_revision - 1;
        door->told_work += work_of(door, record, at);
        if (is_of_zookeeper(record)) {
            changed(door, keys, record);
        }
    }
    arena_reset(&door->arena);
    door->told_records = at - key_store_history_seek(keys, door->seen_revision + 1);
    return at >= end;
}

static bool catch_up(struct zk_door *door, bool is_urgent) {
    const struct key_store *keys = state_view_keys(service_view(door->service));
    int64_t revision = key_store_revision(keys);
    int64_t since = door->seen_revision;
    if (list_is_empty(&door->connections)) {
        return true; /* the first one begins with what is there by then */
    }
    if (revision != since && since != 0) {
        if (key_store_compacted_revision(keys) > since + 1 || revision < since) {
            zk_tellings_compare_all(door, since);
        } else if (!tell_changes(door, keys, is_urgent)) {
            door->is_late = true;
            zk_delays_wake(door);
            return false;
        }
    }
    door->seen_revision = revision;
    door->told_records = 0;
    door->is_late = false;
    return true;
}

bool zk_events_catch_up(struct zk_door *door) {
    return catch_up(door, false);
}

bool zk_events_catch_up_urgently(struct zk_door *door) {
    return catch_up(door, true);
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    (void)batch;
    (void)zk_events_catch_up(list_entry(watch, struct zk_door, changes));
    return true;
}

static void compacted(struct service_watch *watch, int64_t revision) {
    struct zk_door *door = list_entry(watch, struct zk_door, changes);
    (void)revision;
    door->is_watching = false;
    (void)zk_events_catch_up(door);
    zk_events_begin(door);
}

static void revoked(struct service_watch *watch, enum status status) {
    (void)status;
    list_entry(watch, struct zk_door, changes)->is_watching = false;
}

void zk_events_begin(struct zk_door *door) {
    if (door->is_watching) {
        return;
    }
    const struct service_watch_options options = {.range = {.space = KEY_SPACE_ZOOKEEPER,
                                                            .key = bytes_of("", 1),
                                                            .range_end = bytes_of("", 1)}};
    door->changes.deliver = deliver;
    door->changes.compacted = compacted;
    door->changes.revoked = revoked;
    door->is_watching =
        service_watch(door->service, &caller_server, &door->changes, &options) == STATUS_OK;
    (void)zk_events_catch_up(door);
}

void zk_events_end(struct zk_door *door) {
    if (door->is_watching) {
        service_unwatch(door->service, &door->changes);
        door->is_watching = false;
    }
    door->seen_revision = 0; /* nobody is there to miss anything */
    door->told_records = 0;
    door->is_late = false;
}
