/* Requests about watches alone: set again after a reconnect, added, removed, looked for. */
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_node_read.h"
#include "doors/zookeeper/zk_tellings.h"

/* --- After a reconnect. --- */

enum list_kind { LIST_DATA, LIST_EXIST, LIST_CHILD, LIST_PERSISTENT, LIST_RECURSIVE, N_LISTS };

/* Of setWatches: a millisecond or so. */
enum { PATHS_OF_A_PART = 256 };

/* Tells what was missed since the client last heard of us, or watches on. */
static enum zk_error set_again(struct zk_connection *connection, enum list_kind list,
                               struct bytes path, int64_t since) {
    static const uint8_t kinds[N_LISTS] = {ZK_WATCH_DATA, ZK_WATCH_DATA, ZK_WATCH_CHILD,
                                           ZK_WATCH_PERSISTENT, ZK_WATCH_RECURSIVE};
    struct zk_shown_node node;
    bool is_lasting = list == LIST_PERSISTENT || list == LIST_RECURSIVE;
    bool is_found = zk_node_find(connection->door, path, &node);
    bool is_missed = false;
    if (list == LIST_EXIST) {
        is_missed = is_found;
        if (is_found) {
            zk_tellings_tell(connection, ZK_EVENT_CREATED, path);
        }
    } else if (!is_found && !is_lasting) {
        is_missed = true;
        zk_tellings_tell(connection, ZK_EVENT_DELETED, path);
    } else if (is_found && list == LIST_DATA) {
        is_missed = node.node.mzxid > since;
        if (is_missed) {
            zk_tellings_tell(connection, ZK_EVENT_DATA_CHANGED, path);
        }
    } else if (is_found) {
        is_missed = zk_node_missed(connection, path, kinds[list], since) != 0;
    }
    if (is_missed && !is_lasting) {
        return ZK_OK;
    }
    return zk_watches_add(&connection->door->watches, &connection->watcher, path, kinds[list])
               ? ZK_OK
               : ZK_THROTTLED;
}

/* Whether leased's own rights allow it; a recursive watch needs those to all below the path. */
static bool may_watch(struct zk_connection *connection, struct bytes path, bool is_recursive) {
    struct arena *arena = &connection->door->arena;
    size_t size = zk_path_is_root(path) ? 1 : path.size + 1;
    uint8_t *from = arena_alloc(arena, path.size + 1);
    uint8_t *to = arena_alloc(arena, path.size + 1);
    memcpy(from, path.data, path.size);
    memcpy(to, path.data, path.size);
    from[size - 1] = '/';
    to[size - 1] = '/' + 1;
    const struct key_range ranges[] = {{.space = KEY_SPACE_ZOOKEEPER, .key = path},
                                       {.space = KEY_SPACE_ZOOKEEPER,
                                        .key = bytes_of(from, size),
                                        .range_end = bytes_of(to, size)}};
    return service_read_local(connection->door->service, raw_connection_caller(connection->raw),
                              ranges, is_recursive ? 2 : 1) == STATUS_OK;
}

/* The next list, or the end of the last one. */
static enum zk_error next_list(struct reader *reader, int32_t type,
                               struct zk_watch_progress *progress) {
    unsigned n_lists = type == ZK_OP_SET_WATCHES ? LIST_CHILD + 1 : N_LISTS;
    if (++progress->list > n_lists) {
        progress->is_done = true;
        return ZK_OK;
    }
    progress->left = zk_jute_get_count(reader, 4);
    return reader->failed ? ZK_MARSHALLING_ERROR : ZK_OK;
}

static enum zk_error set_next(struct zk_connection *connection, struct reader *reader,
                              unsigned list, int64_t since) {
    struct bytes path = zk_jute_get_bytes(reader, NULL);
    if (reader->failed) {
        return ZK_MARSHALLING_ERROR;
    }
    if (!zk_path_is_valid(path, false) || !may_watch(connection, path, list == LIST_RECURSIVE)) {
        return ZK_OK;
    }
    return set_again(connection, (enum list_kind)list, path, since);
}

void zk_watch_set(struct zk_connection *connection, int32_t type, struct bytes body,
                  struct zk_watch_progress *progress) {
    struct reader reader;
    reader_init(&reader, body);
    int64_t since = zk_jute_get_long(&reader);
    enum zk_error error = reader.failed ? ZK_MARSHALLING_ERROR : ZK_OK;
    if (progress->position > 0) {
        reader.position = progress->position;
    } else {
        zk_tellings_since(connection, since);
        connection->is_setting_watches = true;
    }
    for (size_t n = 0; n < PATHS_OF_A_PART && error == ZK_OK && !progress->is_done; n++) {
        if (progress->left == 0) {
            error = next_list(&reader, type, progress);
        } else {
            progress->left--;
            error = set_next(connection, &reader, progress->list - 1, since);
        }
    }
    progress->position = reader.position;
    progress->is_done = progress->is_done || error != ZK_OK;
    progress->error = error;
}

/* --- Added and removed. --- */

enum zk_error zk_watch_add(struct zk_connection *connection, struct bytes body,
                           struct buffer *out) {
    struct reader reader;
    reader_init(&reader, body);
    struct bytes path = zk_jute_get_bytes(&reader, NULL);
    int32_t mode = zk_jute_get_int(&reader);
    if (reader.failed || mode < 0 || mode > 1) {
        return ZK_MARSHALLING_ERROR;
    }
    if (!zk_path_is_valid(path, false)) {
        return ZK_BAD_ARGUMENTS;
    }
    if (!may_watch(connection, path, mode == 1)) {
        return ZK_NO_AUTH;
    }
    if (!zk_watches_add(&connection->door->watches, &connection->watcher, path,
                        mode == 0 ? ZK_WATCH_PERSISTENT : ZK_WATCH_RECURSIVE)) {
        return ZK_THROTTLED;
    }
    zk_jute_put_int(out, ZK_OK);
    return ZK_OK;
}

/* 1 children, 2 data, 3 any; later versions also know 4 persistent and 5 recursive. */
static unsigned kinds_of(int32_t type) {
    static const uint8_t kinds[] = {0,
                                    ZK_WATCH_CHILD | ZK_WATCH_PERSISTENT,
                                    ZK_WATCH_DATA | ZK_WATCH_PERSISTENT,
                                    ZK_WATCH_ALL,
                                    ZK_WATCH_PERSISTENT,
                                    ZK_WATCH_RECURSIVE};
    return type < 1 || type > 5 ? 0 : kinds[type];
}

enum zk_error zk_watch_remove(struct zk_connection *connection, struct bytes body, bool is_check) {
    struct zk_watches *watches = &connection->door->watches;
    struct reader reader;
    reader_init(&reader, body);
    struct bytes path = zk_jute_get_bytes(&reader, NULL);
    unsigned kinds = kinds_of(zk_jute_get_int(&reader));
    if (reader.failed || kinds == 0) {
        return ZK_MARSHALLING_ERROR;
    }
    if ((zk_watches_kinds(watches, &connection->watcher, path) & kinds) == 0) {
        return ZK_NO_WATCHER;
    }
    if (!is_check) {
        zk_watches_remove(watches, &connection->watcher, path, kinds);
    }
    return ZK_OK;
}
