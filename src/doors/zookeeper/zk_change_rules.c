/* Operations on nodes, in the order of ZooKeeper's own checks. Pure. */
#include "core/cluster_version.h"
#include "core/key_store.h"
#include "core/key_work.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_request_model.h"
#include "doors/zookeeper/zk_rules.h"
#include "doors/zookeeper/zk_session_rules.h"
#include "doors/zookeeper/zk_tree_rules.h"

struct change {
    struct rule_run *run;
    struct zk_asker asker;
    struct zk_tree tree;
};

static bool allows(const struct change *change, const struct zk_tree_node *node, int permissions) {
    return zk_acl_allows(node->node.acl, permissions, change->asker.ids, change->asker.n_ids);
}

static enum zk_error check_version(int32_t version, int32_t wanted) {
    return wanted != -1 && wanted != version ? ZK_BAD_VERSION : ZK_OK;
}

static void write_stat(struct change *change, struct zk_tree_node *node, struct buffer *result) {
    zk_stat_write(result, &node->node, &node->children, zk_tree_n_children(&change->tree, node));
}

/* --- The operations. Results are appended only with ZK_OK. --- */

static enum zk_error create(struct change *change, const struct zk_operation *operation,
                            struct buffer *result) {
    struct bytes path = operation->path;
    if (zk_path_is_root(path) && !(operation->create_flags & ZK_CREATE_SEQUENCE)) {
        return ZK_NODE_EXISTS;
    }
    /* "/a/" in front of a number names a child of "/a". */
    size_t size = path.size;
    while (path.data[size - 1] != '/') {
        size--;
    }
    struct zk_tree_node *parent =
        zk_tree_find(&change->tree, bytes_of(path.data, size == 1 ? 1 : size - 1));
    if (!parent->exists) {
        return ZK_NO_NODE;
    }
    if (!allows(change, parent, ZK_PERMISSION_CREATE)) {
        return ZK_NO_AUTH;
    }
    if (operation->create_flags & ZK_CREATE_SEQUENCE) {
        path = zk_path_add_sequence(rule_arena(change->run), path,
                                    (int32_t)(uint32_t)parent->children.creates);
    }
    struct zk_tree_node *node = zk_tree_find(&change->tree, path);
    if (node->exists) {
        return ZK_NODE_EXISTS;
    }
    if (parent->node.owner != 0) {
        return ZK_NO_CHILDREN_FOR_EPHEMERALS;
    }
    unsigned flags = operation->create_flags;
    struct zk_node content = {.acl = operation->acl, .data = operation->data};
    content.flags = (uint8_t)((flags & ZK_CREATE_CONTAINER ? ZK_NODE_CONTAINER : 0) |
                              (flags & ZK_CREATE_TTL ? ZK_NODE_TTL : 0) |
                              (operation->is_null ? ZK_NODE_NULL_DATA : 0));
    content.ttl_ms = operation->ttl_ms;
    content.owner = flags & ZK_CREATE_EPHEMERAL ? change->asker.session_id : 0;
    zk_tree_create(&change->tree, node, parent, &content);
    zk_jute_put_bytes(result, path);
    if (flags & ZK_CREATE_STAT) {
        write_stat(change, node, result);
    }
    return ZK_OK;
}

static enum zk_error delete_node(struct change *change, const struct zk_operation *operation) {
    if (zk_path_is_root(operation->path)) {
        return ZK_BAD_ARGUMENTS;
    }
    struct zk_tree_node *parent = zk_tree_find(&change->tree, zk_path_parent(operation->path));
    struct zk_tree_node *node = zk_tree_find(&change->tree, operation->path);
    if (!parent->exists) {
        return ZK_NO_NODE;
    }
    if (node->exists && node->node.flags & ZK_NODE_BUILT_IN) {
        return ZK_BAD_ARGUMENTS;
    }
    if (!allows(change, parent, ZK_PERMISSION_DELETE)) {
        return ZK_NO_AUTH;
    }
    if (!node->exists) {
        return ZK_NO_NODE;
    }
    enum zk_error error = check_version(node->node.version, operation->version);
    if (error != ZK_OK) {
        return error;
    }
    if (zk_tree_n_children(&change->tree, node) > 0) {
        return ZK_NOT_EMPTY;
    }
    zk_tree_delete(&change->tree, node, parent);
    return ZK_OK;
}

static enum zk_error set_data(struct change *change, const struct zk_operation *operation,
                              struct buffer *result) {
    struct zk_tree_node *node = zk_tree_find(&change->tree, operation->path);
    if (!node->exists) {
        return ZK_NO_NODE;
    }
    if (!allows(change, node, ZK_PERMISSION_WRITE)) {
        return ZK_NO_AUTH;
    }
    enum zk_error error = check_version(node->node.version, operation->version);
    if (error != ZK_OK) {
        return error;
    }
    node->node.version = (int32_t)((uint32_t)node->node.version + 1);
    node->node.mzxid = rule_revision(change->run);
    node->node.mtime_ms = rule_wall_ms(change->run);
    node->node.data = operation->data;
    node->node.flags = (uint8_t)((node->node.flags & ~ZK_NODE_NULL_DATA) |
                                 (operation->is_null ? ZK_NODE_NULL_DATA : 0));
    node->rearms_ttl = node->node.flags & ZK_NODE_TTL;
    zk_tree_changed(&change->tree, node);
    write_stat(change, node, result);
    return ZK_OK;
}

static enum zk_error set_acl(struct change *change, const struct zk_operation *operation,
                             struct buffer *result) {
    struct zk_tree_node *node = zk_tree_find(&change->tree, operation->path);
    if (!node->exists) {
        return ZK_NO_NODE;
    }
    if (!allows(change, node, ZK_PERMISSION_ADMIN)) {
        return ZK_NO_AUTH;
    }
    enum zk_error error = check_version(node->node.aversion, operation->version);
    if (error != ZK_OK) {
        return error;
    }
    node->node.aversion = (int32_t)((uint32_t)node->node.aversion + 1);
    node->node.acl = operation->acl;
    zk_tree_changed(&change->tree, node);
    write_stat(change, node, result);
    return ZK_OK;
}

static enum zk_error check(struct change *change, const struct zk_operation *operation) {
    struct zk_tree_node *node = zk_tree_find(&change->tree, operation->path);
    if (!node->exists) {
        return ZK_NO_NODE;
    }
    if (!allows(change, node, ZK_PERMISSION_READ)) {
        return ZK_NO_AUTH;
    }
    return check_version(node->node.version, operation->version);
}

static enum zk_error carry_out(struct change *change, const struct zk_operation *operation,
                               struct buffer *result) {
    switch (operation->kind) {
    case ZK_OPERATION_CREATE:
        return create(change, operation, result);
    case ZK_OPERATION_DELETE:
        return delete_node(change, operation);
    case ZK_OPERATION_SET_DATA:
        return set_data(change, operation, result);
    case ZK_OPERATION_SET_ACL:
        return set_acl(change, operation, result);
    case ZK_OPERATION_CHECK:
        return check(change, operation);
    case ZK_OPERATION_ERROR:
        break;
    }
    return (enum zk_error)operation->error;
}

/* --- The rule. --- */

/* The right to a path counts first; what else is looked at is the server's own business. */
static bool may_change(struct rule_run *run, const struct zk_operation *operations, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct key_range range = {.space = KEY_SPACE_ZOOKEEPER, .key = operations[i].path};
        bool is_check = operations[i].kind == ZK_OPERATION_CHECK;
        if (operations[i].kind != ZK_OPERATION_ERROR &&
            !rule_may(run, is_check ? RIGHT_READ : RIGHT_WRITE, &range)) {
            return false;
        }
    }
    return true;
}

static void answer_failure(struct buffer *answer, size_t failed_at, enum zk_error error, size_t n) {
    answer->size = 0;
    for (size_t i = 0; i < n; i++) {
        buffer_put_zigzag(answer, i < failed_at    ? ZK_OK
                                  : i == failed_at ? error
                                                   : ZK_RUNTIME_INCONSISTENCY);
        buffer_put_bytes(answer, bytes_of(NULL, 0));
    }
}

static enum status run_operations(struct change *change, const struct zk_operation *operations,
                                  size_t n, struct buffer *answer) {
    struct buffer result;
    buffer_init(&result);
    for (size_t i = 0; i < n; i++) {
        result.size = 0;
        enum zk_error error = carry_out(change, &operations[i], &result);
        if (error != ZK_OK) {
            buffer_clear(&result);
            answer_failure(answer, i, error, n);
            return STATUS_OK; /* nothing was flushed */
        }
        buffer_put_zigzag(answer, ZK_OK);
        buffer_put_bytes(answer, bytes_of(result.data, result.size));
    }
    buffer_clear(&result);
    return zk_tree_flush(&change->tree);
}

static enum status change(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    struct change change = {.run = run};
    struct arena *arena = rule_arena(run);
    reader_init(&reader, request);
    zk_asker_decode(&reader, arena, &change.asker);
    size_t n_max =
        reader_left(&reader) < ZK_OPERATIONS_MAX ? reader_left(&reader) : ZK_OPERATIONS_MAX;
    struct zk_operation *operations = arena_calloc(arena, n_max, sizeof *operations);
    size_t n = 0;
    while (!reader.failed && n < n_max && reader_left(&reader) > 0) {
        zk_operation_decode(&reader, &operations[n++]);
    }
    if (reader.failed || reader_left(&reader) > 0) {
        return STATUS_INVALID;
    }
    if (!may_change(run, operations, n)) {
        return STATUS_PERMISSION_DENIED;
    }
    rule_act_for_server(run);
    struct zk_session session;
    enum zk_error error = zk_session_check(run, &change.asker, &session);
    if (error != ZK_OK) {
        answer_failure(answer, 0, error, 1);
        return STATUS_OK;
    }
    zk_tree_init(&change.tree, run);
    return run_operations(&change, operations, n, answer);
}

static bool are_deletions(struct bytes request, struct arena *arena) {
    struct reader reader;
    struct zk_asker asker;
    struct zk_operation operation;
    reader_init(&reader, request);
    zk_asker_decode(&reader, arena, &asker);
    while (!reader.failed && reader_left(&reader) > 0) {
        zk_operation_decode(&reader, &operation);
        reader.failed |= operation.kind != ZK_OPERATION_DELETE;
    }
    return !reader.failed;
}

static enum status delete_alone(struct rule_run *run, struct bytes request, struct buffer *answer) {
    return are_deletions(request, rule_arena(run)) ? change(run, request, answer) : STATUS_INVALID;
}

/* What an operation may cost: a node and its parent are found, counted and written. The operations
 * of a request that is small are not worth the look, unless they write anew what is there: a unit
 * is a few bytes of it. */
enum {
    WORK_OF_OPERATION = 4 * KEY_WORK_A_VERSION,
    WORK_OF_ID = 4, /* that access lists are searched for */
    SMALL_REQUEST = 2048,
    WORK_BYTES = 4
};

/* A new access list is written with all the data of the node. */
static size_t work_of_rewrite(const struct key_store *keys, const struct zk_operation *operation,
                              struct arena *arena) {
    if (operation->kind != ZK_OPERATION_SET_ACL) {
        return 0;
    }
    const struct record *record =
        key_store_find(keys, KEY_SPACE_ZOOKEEPER, zk_key_node(arena, operation->path));
    return record == NULL ? 0 : record->value_size / WORK_BYTES;
}

/* Gives the number of its identities. */
static size_t skip_asker(struct reader *reader) {
    size_t n_ids = 0;
    (void)reader_get_zigzag(reader);
    (void)reader_get_u64(reader);
    for (uint64_t n = reader_get_varint(reader); n > 0 && !reader->failed; n--) {
        (void)reader_get_bytes(reader);
        (void)reader_get_bytes(reader);
        n_ids++;
    }
    return n_ids;
}

static size_t estimate(const struct key_store *keys, const struct lease_table *leases,
                       struct bytes request) {
    struct arena arena;
    struct reader reader;
    struct zk_operation operation;
    size_t each = request.size <= SMALL_REQUEST ? 0 : WORK_OF_OPERATION;
    size_t work = each;
    (void)leases;
    arena_init(&arena);
    reader_init(&reader, request);
    size_t n_ids = skip_asker(&reader);
    each += each > 0 ? WORK_OF_ID * n_ids : 0;
    while (!reader.failed && reader_left(&reader) > 0) {
        zk_operation_decode(&reader, &operation);
        work += each + (reader.failed ? 0 : work_of_rewrite(keys, &operation, &arena));
    }
    arena_clear(&arena);
    return work;
}

const struct rule zk_rule_delete = {.number = ZK_RULE_DELETE,
                                    .name = "zookeeper_delete",
                                    .since_version = CLUSTER_VERSION_RULES,
                                    .spaces = {KEY_SPACE_ZOOKEEPER},
                                    .run = delete_alone,
                                    .runs_when_full = true};

const struct rule *const zk_rules[ZK_N_RULES] = {
    &zk_rule_connect,       &zk_rule_close, &zk_rule_change,
    &zk_rule_session_ended, &zk_rule_timer, &zk_rule_delete,
};

const struct rule zk_rule_change = {.number = ZK_RULE_CHANGE,
                                    .name = "zookeeper_change",
                                    .since_version = CLUSTER_VERSION_RULES,
                                    .spaces = {KEY_SPACE_ZOOKEEPER},
                                    .run = change,
                                    .estimate = estimate};
