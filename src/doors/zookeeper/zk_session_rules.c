#include "doors/zookeeper/zk_session_rules.h"

#include "core/cluster_version.h"
#include "core/key_work.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_rules.h"
#include "doors/zookeeper/zk_tree_rules.h"

static bool find_session(struct rule_run *run, int64_t id, struct zk_session *out_session) {
    uint8_t memory[ZK_SESSION_KEY_SIZE];
    const struct record *record = rule_get(run, KEY_SPACE_ZOOKEEPER, zk_key_session(memory, id));
    return record != NULL && zk_session_decode(record_value(record), out_session);
}

enum zk_error zk_session_check(struct rule_run *run, const struct zk_asker *asker,
                               struct zk_session *out_session) {
    if (!find_session(run, asker->session_id, out_session)) {
        return ZK_SESSION_EXPIRED;
    }
    return out_session->connection == asker->connection ? ZK_OK : ZK_SESSION_MOVED;
}

static bool put_session(struct rule_run *run, int64_t id, const struct zk_session *session) {
    uint8_t memory[ZK_SESSION_KEY_SIZE];
    struct buffer value;
    buffer_init(&value);
    zk_session_encode(&value, session);
    int64_t revision = rule_put(run, KEY_SPACE_ZOOKEEPER, zk_key_session(memory, id),
                                bytes_of(value.data, value.size), id);
    buffer_clear(&value);
    return revision != 0;
}

/* --- The nodes of a fresh server. --- */

static void put_built_in(struct rule_run *run, const char *path, struct bytes acl) {
    struct arena *arena = rule_arena(run);
    struct buffer value;
    buffer_init(&value);
    const struct zk_node node = {
        .flags = ZK_NODE_BUILT_IN, .mzxid = rule_revision(run), .acl = acl};
    zk_node_encode(&value, &node);
    (void)rule_put(run, KEY_SPACE_ZOOKEEPER, zk_key_node(arena, bytes_from_text(path)),
                   bytes_of(value.data, value.size), 0);
    buffer_clear(&value);
}

static void put_first_nodes(struct rule_run *run) {
    struct arena *arena = rule_arena(run);
    if (rule_get(run, KEY_SPACE_ZOOKEEPER, zk_key_node(arena, bytes_of("/", 1))) != NULL) {
        return;
    }
    const struct zk_acl_entry read_only = {
        .permissions = ZK_PERMISSION_READ,
        .id = {.scheme = bytes_from_text("world"), .id = bytes_from_text("anyone")}};
    struct buffer acl;
    buffer_init(&acl);
    zk_acl_append(&acl, &read_only);
    put_built_in(run, "/", bytes_of(NULL, 0));
    put_built_in(run, "/zookeeper", bytes_of(NULL, 0));
    put_built_in(run, "/zookeeper/quota", bytes_of(NULL, 0));
    put_built_in(run, "/zookeeper/config", bytes_of(acl.data, acl.size));
    buffer_clear(&acl);
}

/* --- Connecting. --- */

static bool is_same_password(const struct zk_session *a, const struct zk_session *b) {
    unsigned difference = 0;
    for (size_t i = 0; i < ZK_PASSWORD_HASH_SIZE; i++) {
        difference |= (unsigned)(a->password_hash[i] ^ b->password_hash[i]);
    }
    return difference == 0;
}

/* 0: no such session, or another password. */
static enum status take_over(struct rule_run *run, const struct zk_connect_request *request,
                             int64_t *out_id) {
    struct zk_session session;
    *out_id = 0;
    if (!find_session(run, request->session_id, &session) ||
        !is_same_password(&session, &request->session)) {
        return STATUS_OK;
    }
    enum status status = rule_lease_set_ttl(run, request->session_id, request->session.timeout_ms);
    if (status == STATUS_OK && put_session(run, request->session_id, &request->session)) {
        *out_id = request->session_id;
    }
    return status;
}

static enum status begin(struct rule_run *run, const struct zk_connect_request *request,
                         int64_t *out_id) {
    const struct rule_lease lease = {.ttl_ms = request->session.timeout_ms};
    enum status status = rule_lease_grant(run, &lease, out_id);
    if (status == STATUS_OK) {
        status = rule_on_lease_end(run, *out_id, ZK_RULE_SESSION_ENDED, bytes_of(NULL, 0));
    }
    if (status == STATUS_OK) {
        put_first_nodes(run);
        (void)put_session(run, *out_id, &request->session);
    }
    return status;
}

static enum status connect_session(struct rule_run *run, struct bytes bytes,
                                   struct buffer *answer) {
    struct zk_connect_request request;
    int64_t id = 0;
    if (!zk_connect_decode(bytes, &request) || request.session.timeout_ms < 1) {
        return STATUS_INVALID;
    }
    enum status status =
        request.session_id != 0 ? take_over(run, &request, &id) : begin(run, &request, &id);
    buffer_put_zigzag(answer, id);
    return status;
}

/* --- Ending. --- */

static enum status close_session(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    struct reader reader;
    struct zk_asker asker;
    struct zk_session session;
    reader_init(&reader, bytes);
    zk_asker_decode(&reader, rule_arena(run), &asker);
    if (reader.failed || reader_left(&reader) > 0) {
        return STATUS_INVALID;
    }
    rule_act_for_server(run);
    enum zk_error error = zk_session_check(run, &asker, &session);
    buffer_put_zigzag(answer, error);
    return error != ZK_OK ? STATUS_OK : rule_lease_end(run, asker.session_id, LEASE_END_REVOKED);
}

static size_t estimate_close(const struct key_store *keys, const struct lease_table *leases,
                             struct bytes request) {
    struct reader reader;
    (void)keys;
    reader_init(&reader, request);
    int64_t session_id = reader_get_zigzag(&reader);
    return reader.failed ? 0 : 2 * KEY_WORK_A_DELETE * lease_table_key_count(leases, session_id);
}

struct lost {
    struct rule_run *run;
    struct zk_tree tree;
    struct bytes parent; /* of the last one: siblings follow each other */
    size_t n_parents;
};

/* What a parent may cost: its record, a lease and its hook. Where a session had nodes under more
 * parents than a run may change, the others get no new pzxid, and lose nothing else: children are
 * counted where they are. */
enum { CHANGES_A_PARENT = 3 };

static bool lose(void *context, const struct record *record) {
    struct lost *lost = context;
    struct bytes path;
    if (!zk_key_path(record_key(record), ZK_KEY_NODE, &path)) {
        return true;
    }
    struct bytes parent = zk_path_parent(path);
    if (bytes_equal(parent, lost->parent)) {
        return true;
    }
    lost->parent = parent;
    if (++lost->n_parents * CHANGES_A_PARENT > rule_changes_left(lost->run)) {
        return false;
    }
    zk_tree_lost_child(&lost->tree, zk_tree_find(&lost->tree, parent));
    return true;
}

static enum status session_ended(struct rule_run *run, struct bytes request,
                                 struct buffer *answer) {
    struct lost lost = {.run = run};
    (void)request;
    (void)answer;
    zk_tree_init(&lost.tree, run);
    rule_visit_ended_keys(run, lose, &lost);
    return zk_tree_flush(&lost.tree);
}

/* --- Time that has passed for a node. --- */

static enum status timer(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    struct reader reader;
    struct zk_tree tree;
    (void)answer;
    reader_init(&reader, bytes);
    int64_t czxid = reader_get_zigzag(&reader);
    struct bytes path = reader_get_bytes(&reader);
    if (reader.failed || reader_left(&reader) > 0 || !zk_path_is_valid(path, false) ||
        zk_path_is_root(path)) {
        return STATUS_INVALID;
    }
    rule_act_for_server(run);
    zk_tree_init(&tree, run);
    struct zk_tree_node *node = zk_tree_find(&tree, path);
    struct zk_tree_node *parent = zk_tree_find(&tree, zk_path_parent(path));
    if (!node->exists || node->node.czxid != czxid || !parent->exists) {
        return STATUS_OK;
    }
    struct lease_facts ended = {0};
    enum lease_end reason;
    (void)rule_ended_lease(run, &ended, &reason);
    bool is_ttl = ended.id != 0 && ended.id == node->node.ttl_lease;
    bool is_sweep = ended.id != 0 && ended.id == node->children.sweep_lease;
    if (!is_ttl && !is_sweep) {
        return STATUS_OK;
    }
    if (zk_tree_n_children(&tree, node) == 0) {
        node->node.ttl_lease = is_ttl ? 0 : node->node.ttl_lease;
        zk_tree_delete(&tree, node, parent);
    } else if (is_ttl) {
        node->node.ttl_lease = 0; /* it goes when its children have gone */
        node->is_changed = true;
    }
    return zk_tree_flush(&tree);
}

const struct rule zk_rule_connect = {.number = ZK_RULE_CONNECT,
                                     .name = "zookeeper_connect",
                                     .since_version = CLUSTER_VERSION_RULES,
                                     .spaces = {KEY_SPACE_ZOOKEEPER},
                                     .run = connect_session};
const struct rule zk_rule_close = {.number = ZK_RULE_CLOSE,
                                   .name = "zookeeper_close",
                                   .since_version = CLUSTER_VERSION_RULES,
                                   .spaces = {KEY_SPACE_ZOOKEEPER},
                                   .run = close_session,
                                   .runs_when_full = true,
                                   .estimate = estimate_close};
const struct rule zk_rule_session_ended = {.number = ZK_RULE_SESSION_ENDED,
                                           .name = "zookeeper_session_ended",
                                           .since_version = CLUSTER_VERSION_RULES,
                                           .spaces = {KEY_SPACE_ZOOKEEPER},
                                           .run = session_ended};
const struct rule zk_rule_timer = {.number = ZK_RULE_TIMER,
                                   .name = "zookeeper_timer",
                                   .since_version = CLUSTER_VERSION_RULES,
                                   .spaces = {KEY_SPACE_ZOOKEEPER},
                                   .run = timer};
