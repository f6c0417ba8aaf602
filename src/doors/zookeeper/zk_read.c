/* Reads, answered from the state as it is, and watches that begin with them. */
#include "core/key_work.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_node_read.h"

/* Of an answer, before the last of its parts. Clients take 1 MiB (jute.maxbuffer) unless they are
 * told otherwise, and one node may be named again and again. */
enum { MULTI_READ_SIZE_MAX = 4 * 1024 * 1024 };

/* --- What is asked for. --- */

struct bytes zk_read_path(int32_t type, struct bytes body) {
    struct reader reader;
    struct bytes none = {0};
    reader_init(&reader, body);
    switch (type) {
    case ZK_OP_EXISTS:
    case ZK_OP_GET_DATA:
    case ZK_OP_GET_ACL:
    case ZK_OP_GET_CHILDREN:
    case ZK_OP_GET_CHILDREN2:
    case ZK_OP_SYNC:
    case ZK_OP_GET_ALL_CHILDREN_NUMBER:
    case ZK_OP_ADD_WATCH:
        break;
    default:
        return none; /* or several: zk_read_answer() asks for each */
    }
    struct bytes path = zk_jute_get_bytes(&reader, NULL);
    return zk_path_is_valid(path, false) ? path : none;
}

/* The node whose statistics are asked for, and the path that these are about. Its length is shown
 * by everything that shows a stat. Empty: something else is asked for. */
static struct bytes quota_path(int32_t type, struct bytes body, struct bytes *out_stats_path) {
    struct reader reader;
    reader_init(&reader, body);
    if (type != ZK_OP_EXISTS && type != ZK_OP_GET_DATA && type != ZK_OP_GET_ACL &&
        type != ZK_OP_GET_CHILDREN2) {
        return bytes_of(NULL, 0);
    }
    *out_stats_path = zk_jute_get_bytes(&reader, NULL);
    return zk_quota_path(*out_stats_path);
}

bool zk_read_is_long(int32_t type, struct bytes body) {
    struct bytes path;
    return type == ZK_OP_MULTI_READ || type == ZK_OP_GET_ALL_CHILDREN_NUMBER ||
           type == ZK_OP_GET_EPHEMERALS || type == ZK_OP_SET_WATCHES ||
           type == ZK_OP_SET_WATCHES2 || quota_path(type, body, &path).size > 0;
}

/* Names below a path, until they are much. */
static bool add_name_size(void *context, const struct record *record) {
    size_t *left = context;
    struct bytes path;
    size_t size = zk_key_path(record_key(record), ZK_KEY_NODE, &path) ? zk_path_name(path).size : 0;
    *left -= size < *left ? size : *left;
    return *left > 0;
}

static bool are_names_more(const struct key_store *keys, struct bytes begin, struct bytes end,
                           size_t size) {
    enum { NAME_SIZE = 16 }; /* as it is sent, and it may be longer */
    size_t left = size;
    if (key_store_count(keys, KEY_SPACE_ZOOKEEPER, begin, end) > size / NAME_SIZE) {
        return true;
    }
    key_store_visit(keys, KEY_SPACE_ZOOKEEPER, begin, end, add_name_size, &left);
    return left == 0;
}

bool zk_read_is_more(struct zk_door *door, int32_t type, struct bytes body, size_t size) {
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct bytes path = zk_read_path(type, body);
    bool is_more = false;
    if (path.size == 0) {
        /* Not known before. */
        bool is_many = type == ZK_OP_MULTI_READ || type == ZK_OP_GET_EPHEMERALS;
        return is_many && size < MULTI_READ_SIZE_MAX;
    }
    if (type == ZK_OP_GET_DATA || type == ZK_OP_GET_ACL) {
        const struct record *record =
            key_store_find(keys, KEY_SPACE_ZOOKEEPER, zk_key_node(&door->arena, path));
        is_more = record != NULL && record_value(record).size > size;
    } else if (type == ZK_OP_GET_CHILDREN || type == ZK_OP_GET_CHILDREN2) {
        struct bytes begin;
        struct bytes end;
        zk_key_children_range(&door->arena, path, &begin, &end);
        is_more = are_names_more(keys, begin, end, size);
    }
    arena_reset(&door->arena);
    return is_more;
}

/* --- One node. --- */

struct question {
    struct zk_connection *connection;
    struct bytes path;
    bool is_watch;
    const struct zk_quota_count *quota; /* done, if the path is one of statistics */
    struct buffer *out;
};

/* Where several paths are asked for in one request. */
static bool may_read(struct zk_connection *connection, struct bytes path) {
    const struct key_range range = {.space = KEY_SPACE_ZOOKEEPER, .key = path};
    return connection->raw != NULL &&
           service_read_local(connection->door->service, raw_connection_caller(connection->raw),
                              &range, 1) == STATUS_OK;
}

static enum zk_error watch(const struct question *question, unsigned kind) {
    struct zk_connection *connection = question->connection;
    if (question->is_watch &&
        !zk_watches_add(&connection->door->watches, &connection->watcher, question->path, kind)) {
        return ZK_THROTTLED;
    }
    return ZK_OK;
}

/* Statistics are shown as they were counted, whatever was written there. */
static bool find(const struct question *question, struct zk_shown_node *out_node) {
    struct zk_door *door = question->connection->door;
    if (!zk_node_find(door, question->path, out_node)) {
        return false;
    }
    if (question->quota != NULL && question->quota->is_done) {
        out_node->node.flags &= (uint8_t)~ZK_NODE_NULL_DATA;
        out_node->node.data = zk_quota_text(question->quota, &door->arena);
    }
    return true;
}

static enum zk_error exists(const struct question *question) {
    struct zk_shown_node node;
    enum zk_error error = watch(question, ZK_WATCH_DATA);
    if (error != ZK_OK) {
        return error;
    }
    if (!find(question, &node)) {
        return ZK_NO_NODE;
    }
    zk_node_write_stat(&node, question->out);
    return ZK_OK;
}

static enum zk_error find_readable(const struct question *question, int permissions,
                                   struct zk_shown_node *out_node) {
    if (!find(question, out_node)) {
        return ZK_NO_NODE;
    }
    return zk_node_allows(question->connection, out_node, permissions) ? ZK_OK : ZK_NO_AUTH;
}

static enum zk_error get_data(const struct question *question) {
    struct zk_shown_node node;
    enum zk_error error = find_readable(question, ZK_PERMISSION_READ, &node);
    if (error == ZK_OK) {
        error = watch(question, ZK_WATCH_DATA);
    }
    if (error != ZK_OK) {
        return error;
    }
    if (node.node.flags & ZK_NODE_NULL_DATA) {
        zk_jute_put_int(question->out, -1);
    } else {
        zk_jute_put_bytes(question->out, node.node.data);
    }
    zk_node_write_stat(&node, question->out);
    return ZK_OK;
}

static void put_acl_entry(struct buffer *out, const struct zk_acl_entry *entry) {
    zk_jute_put_int(out, entry->permissions);
    zk_jute_put_bytes(out, entry->id.scheme);
    zk_jute_put_bytes(out, entry->id.id);
}

/* Who may not change the list sees no digests, as with ZooKeeper. */
static void hide_digest(struct zk_acl_entry *entry, struct arena *arena) {
    const uint8_t *colon =
        entry->id.id.size > 0 ? memchr(entry->id.id.data, ':', entry->id.id.size) : NULL;
    if (!bytes_equal(entry->id.scheme, bytes_from_text("digest")) || colon == NULL) {
        return;
    }
    size_t size = (size_t)(colon - entry->id.id.data) + 1;
    uint8_t *text = arena_alloc(arena, size + 1);
    memcpy(text, entry->id.id.data, size);
    text[size] = 'x';
    entry->id.id = bytes_of(text, size + 1);
}

static enum zk_error get_acl(const struct question *question) {
    static const struct zk_acl_entry open = {
        .permissions = ZK_PERMISSION_ALL,
        .id = {.scheme = {(const uint8_t *)"world", 5}, .id = {(const uint8_t *)"anyone", 6}}};
    struct zk_shown_node node;
    struct zk_acl_entry entry;
    struct reader reader;
    enum zk_error error = find_readable(question, ZK_PERMISSION_READ | ZK_PERMISSION_ADMIN, &node);
    if (error != ZK_OK) {
        return error;
    }
    bool is_admin = zk_node_allows(question->connection, &node, ZK_PERMISSION_ADMIN);
    size_t count_at = question->out->size;
    int32_t n = 0;
    zk_jute_put_int(question->out, 0);
    reader_init(&reader, node.node.acl);
    while (zk_acl_next(&reader, &entry)) {
        if (!is_admin) {
            hide_digest(&entry, &question->connection->door->arena);
        }
        put_acl_entry(question->out, &entry);
        n++;
    }
    if (n == 0) {
        put_acl_entry(question->out, &open);
        n = 1;
    }
    zk_jute_store_int(question->out->data + count_at, n);
    zk_node_write_stat(&node, question->out);
    return ZK_OK;
}

/* --- Children. --- */

/* Of an answer with names: what one transaction may answer. Clients take 1 MiB unless they are told
 * otherwise. */
enum { NAMES_SIZE_MAX = KEY_WORK_TXN_MAX * KEY_WORK_COPIED_BYTES };

static bool put_name(void *context, const struct record *record) {
    struct buffer *out = context;
    struct bytes path;
    if (zk_key_path(record_key(record), ZK_KEY_NODE, &path)) {
        zk_jute_put_bytes(out, zk_path_name(path));
    }
    return out->size <= NAMES_SIZE_MAX;
}

static enum zk_error get_children(const struct question *question, bool with_stat) {
    struct zk_door *door = question->connection->door;
    struct zk_shown_node node;
    struct bytes begin;
    struct bytes end;
    enum zk_error error = find_readable(question, ZK_PERMISSION_READ, &node);
    if (error == ZK_OK && !service_allow_work(door->service, (size_t)node.n_children)) {
        error = ZK_THROTTLED;
    }
    if (error != ZK_OK) {
        return error;
    }
    zk_jute_put_int(question->out, (int32_t)node.n_children);
    zk_key_children_range(&door->arena, question->path, &begin, &end);
    key_store_visit(state_view_keys(service_view(door->service)), KEY_SPACE_ZOOKEEPER, begin, end,
                    put_name, question->out);
    error =
        question->out->size > NAMES_SIZE_MAX ? ZK_BAD_ARGUMENTS : watch(question, ZK_WATCH_CHILD);
    if (error != ZK_OK) {
        return error;
    }
    if (with_stat) {
        zk_node_write_stat(&node, question->out);
    }
    return ZK_OK;
}

/* Nodes below a path, one depth after the other, until one has none. */
static enum zk_error count_below(const struct question *question) {
    struct zk_door *door = question->connection->door;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct zk_shown_node node;
    enum zk_error error = find_readable(question, ZK_PERMISSION_READ, &node);
    if (error != ZK_OK) {
        return error;
    }
    struct bytes begin;
    struct bytes end;
    zk_key_children_range(&door->arena, question->path, &begin, &end);
    uint8_t *from = arena_copy(&door->arena, begin.data, begin.size);
    uint8_t *to = arena_copy(&door->arena, end.data, end.size);
    int64_t total = 0;
    for (unsigned depth = (unsigned)from[1] << 8 | from[2]; depth <= UINT16_MAX; depth++) {
        from[1] = to[1] = (uint8_t)(depth >> 8);
        from[2] = to[2] = (uint8_t)depth;
        size_t n = key_store_count(keys, KEY_SPACE_ZOOKEEPER, bytes_of(from, begin.size),
                                   bytes_of(to, end.size));
        if (n == 0) {
            break;
        }
        total += (int64_t)n;
    }
    zk_jute_put_int(question->out, (int32_t)total);
    return ZK_OK;
}

static enum zk_error get_ephemerals(struct zk_connection *connection, struct bytes prefix,
                                    struct buffer *out) {
    const struct lease_table *leases = state_view_leases(service_view(connection->door->service));
    size_t count_at = out->size;
    int32_t n = 0;
    struct bytes path;
    zk_jute_put_int(out, 0);
    if (!service_allow_work(connection->door->service,
                            lease_table_key_count(leases, connection->session_id))) {
        return ZK_THROTTLED;
    }
    for (const struct record *record = lease_table_first_key(leases, connection->session_id);
         record != NULL && out->size <= NAMES_SIZE_MAX; record = record->lease_next) {
        if (key_space_equal(record_space(record), KEY_SPACE_ZOOKEEPER) &&
            zk_key_path(record_key(record), ZK_KEY_NODE, &path) && path.size >= prefix.size &&
            memcmp(path.data, prefix.data, prefix.size) == 0) {
            zk_jute_put_bytes(out, path);
            n++;
        }
    }
    zk_jute_store_int(out->data + count_at, n);
    return out->size > NAMES_SIZE_MAX ? ZK_BAD_ARGUMENTS : ZK_OK;
}

/* --- Statistics of quotas. --- */

enum {
    QUOTA_NODES_OF_A_PART = 1024,           /* a millisecond at most */
    QUOTA_NODES_OF_A_MULTI_READ = 16 * 1024 /* which is answered in one go */
};

/* Counts a part. False: nothing is left to be counted. */
static bool count_quota(struct zk_door *door, int32_t type, struct bytes body,
                        struct zk_quota_count *count) {
    struct bytes stats_path;
    struct bytes path = quota_path(type, body, &stats_path);
    struct zk_shown_node node;
    if (path.size == 0 || !zk_node_find(door, stats_path, &node)) {
        return false;
    }
    zk_quota_count_part(count, state_view_keys(service_view(door->service)), &door->arena, path,
                        QUOTA_NODES_OF_A_PART);
    return !count->is_done;
}

/* --- Several at once, and who asks. --- */

/* Statistics are counted at once, or not at all. */
static enum zk_error count_quota_now(const struct question *question, struct zk_quota_count *count,
                                     size_t *nodes_left) {
    struct zk_door *door = question->connection->door;
    struct bytes path = zk_quota_path(question->path);
    struct zk_shown_node node;
    if (path.size == 0 || !zk_node_find(door, question->path, &node)) {
        return ZK_OK;
    }
    if (*nodes_left > 0) {
        zk_quota_count_part(count, state_view_keys(service_view(door->service)), &door->arena, path,
                            *nodes_left);
        size_t n = 1 + (size_t)count->count;
        *nodes_left -= n < *nodes_left ? n : *nodes_left;
    }
    return count->is_done ? ZK_OK : ZK_THROTTLED;
}

static enum zk_error get_data_among_others(struct question *question, size_t *nodes_left) {
    struct zk_quota_count count = {0};
    enum zk_error error = count_quota_now(question, &count, nodes_left);
    question->quota = &count;
    if (error == ZK_OK) {
        error = get_data(question);
    }
    zk_quota_count_clear(&count);
    return error;
}

static enum zk_error multi_read(struct zk_connection *connection, struct reader *reader,
                                struct buffer *out) {
    size_t quota_nodes_left = QUOTA_NODES_OF_A_MULTI_READ;
    for (size_t n = 0;; n++) {
        int32_t type = zk_jute_get_int(reader);
        bool is_done = zk_jute_get_bool(reader);
        (void)zk_jute_get_int(reader);
        if (reader->failed || n > ZK_OPERATIONS_MAX) {
            return ZK_MARSHALLING_ERROR;
        }
        if (is_done) {
            break;
        }
        if (out->size > MULTI_READ_SIZE_MAX) {
            return ZK_BAD_ARGUMENTS;
        }
        struct question question = {.connection = connection, .out = out};
        question.path = zk_jute_get_bytes(reader, NULL);
        (void)zk_jute_get_bool(reader); /* the original sets no watches here either */
        size_t begin = out->size;
        zk_jute_put_int(out, type);
        zk_jute_put_bool(out, false);
        zk_jute_put_int(out, ZK_OK);
        enum zk_error error = ZK_BAD_ARGUMENTS;
        if (reader->failed || (type != ZK_OP_GET_DATA && type != ZK_OP_GET_CHILDREN)) {
            return ZK_MARSHALLING_ERROR;
        }
        if (zk_path_is_valid(question.path, false)) {
            error = !may_read(connection, question.path) ? ZK_NO_AUTH
                    : type == ZK_OP_GET_DATA ? get_data_among_others(&question, &quota_nodes_left)
                                             : get_children(&question, false);
        }
        if (error != ZK_OK) {
            out->size = begin;
            zk_jute_put_int(out, -1);
            zk_jute_put_bool(out, false);
            zk_jute_put_int(out, error);
            zk_jute_put_int(out, error);
        }
    }
    zk_jute_put_int(out, -1);
    zk_jute_put_bool(out, true);
    zk_jute_put_int(out, -1);
    return ZK_OK;
}

static enum zk_error who_am_i(struct zk_connection *connection, struct buffer *out) {
    const struct zk_id *ids;
    size_t n = zk_access_ids(connection, &connection->door->arena, &ids);
    zk_jute_put_int(out, (int32_t)n);
    for (size_t i = 0; i < n; i++) {
        struct bytes user = ids[i].id;
        const uint8_t *colon = user.size > 0 ? memchr(user.data, ':', user.size) : NULL;
        if (bytes_equal(ids[i].scheme, bytes_from_text("digest")) && colon != NULL) {
            user.size = (size_t)(colon - user.data);
        }
        zk_jute_put_bytes(out, ids[i].scheme);
        zk_jute_put_bytes(out, user);
    }
    return ZK_OK;
}

/* --- All of them. --- */

static enum zk_error read_one(struct zk_connection *connection, int32_t type, struct reader *reader,
                              const struct zk_quota_count *quota, struct buffer *out) {
    struct question question = {.connection = connection, .quota = quota, .out = out};
    question.path = zk_jute_get_bytes(reader, NULL);
    if (type == ZK_OP_EXISTS || type == ZK_OP_GET_DATA || type == ZK_OP_GET_CHILDREN ||
        type == ZK_OP_GET_CHILDREN2) {
        question.is_watch = zk_jute_get_bool(reader);
    }
    if (reader->failed) {
        return ZK_MARSHALLING_ERROR;
    }
    if (type == ZK_OP_SYNC) {
        zk_jute_put_bytes(out, question.path);
        return ZK_OK;
    }
    if (type == ZK_OP_GET_EPHEMERALS) {
        return get_ephemerals(connection, question.path, out);
    }
    if (!zk_path_is_valid(question.path, false)) {
        return ZK_BAD_ARGUMENTS;
    }
    switch (type) {
    case ZK_OP_EXISTS:
        return exists(&question);
    case ZK_OP_GET_DATA:
        return get_data(&question);
    case ZK_OP_GET_ACL:
        return get_acl(&question);
    case ZK_OP_GET_CHILDREN:
    case ZK_OP_GET_CHILDREN2:
        return get_children(&question, type == ZK_OP_GET_CHILDREN2);
    default:
        return count_below(&question);
    }
}

bool zk_read_prepare(struct zk_connection *connection, int32_t type, struct bytes body,
                     struct zk_read_progress *progress) {
    if (type == ZK_OP_SET_WATCHES || type == ZK_OP_SET_WATCHES2) {
        if (progress->watches.is_done) {
            return false; /* and all that was missed has been told */
        }
        zk_watch_set(connection, type, body, &progress->watches);
        return true;
    }
    return count_quota(connection->door, type, body, &progress->quota);
}

enum zk_error zk_read_answer(struct zk_connection *connection, int32_t type, struct bytes body,
                             const struct zk_read_progress *progress, struct buffer *out) {
    struct reader reader;
    reader_init(&reader, body);
    switch (type) {
    case ZK_OP_EXISTS:
    case ZK_OP_GET_DATA:
    case ZK_OP_GET_ACL:
    case ZK_OP_GET_CHILDREN:
    case ZK_OP_GET_CHILDREN2:
    case ZK_OP_SYNC:
    case ZK_OP_GET_EPHEMERALS:
    case ZK_OP_GET_ALL_CHILDREN_NUMBER:
        return read_one(connection, type, &reader, &progress->quota, out);
    case ZK_OP_MULTI_READ:
        return multi_read(connection, &reader, out);
    case ZK_OP_SET_WATCHES:
    case ZK_OP_SET_WATCHES2:
        connection->is_setting_watches = false;
        return progress->watches.error;
    case ZK_OP_WHO_AM_I:
        return who_am_i(connection, out);
    case ZK_OP_ADD_WATCH:
        return zk_watch_add(connection, body, out);
    case ZK_OP_REMOVE_WATCHES:
        return zk_watch_remove(connection, body, false);
    case ZK_OP_CHECK_WATCHES:
        return zk_watch_remove(connection, body, true);
    case ZK_OP_RECONFIG:
        return ZK_RECONFIG_DISABLED; /* members are changed by leased's own means */
    default:
        return ZK_UNIMPLEMENTED; /* sasl, and what nobody knows */
    }
}
