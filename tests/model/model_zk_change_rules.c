/*
 * The rules of the ZooKeeper API against a naive tree: random operations, alone and several at
 * once, sessions that end in every way, time that passes for containers and nodes with a TTL. Now
 * and then a replica is restored from a snapshot; from then on both must have the same bytes.
 */
#include "../storage/thorough.h"
#include "../unit/zk_fixture.h"
#include "model_random.h"

enum {
    N_STEPS = THOROUGH(40000),
    N_SESSIONS = 4,
    N_NAMES = 3,
    NODES_MAX = N_NAMES + N_NAMES * N_NAMES + N_NAMES * N_NAMES * N_NAMES,
    OPERATIONS_MAX = 4,
    PATH_SIZE = 16
};

/* --- The naive tree: every possible path, whether it exists or not. --- */

struct node {
    char path[PATH_SIZE];
    bool exists;
    bool is_container;
    bool is_ttl;
    bool ttl_is_over;
    int owner; /* a session's place, or -1 */
    int32_t version;
    int64_t creates;
};

struct tree {
    struct node nodes[NODES_MAX];
};

static struct tree reference;
static struct zk_asker sessions[N_SESSIONS];
static uint64_t next_connection = 1;

static struct fixture main_replica;
static struct fixture other_replica;
static bool has_other;

static void make_paths(void) {
    size_t n = 0;
    for (int a = 0; a < N_NAMES; a++) {
        snprintf(reference.nodes[n++].path, PATH_SIZE, "/%c", 'a' + a);
        for (int b = 0; b < N_NAMES; b++) {
            snprintf(reference.nodes[n++].path, PATH_SIZE, "/%c/%c", 'a' + a, 'a' + b);
            for (int c = 0; c < N_NAMES; c++) {
                snprintf(reference.nodes[n++].path, PATH_SIZE, "/%c/%c/%c", 'a' + a, 'a' + b,
                         'a' + c);
            }
        }
    }
    assert_int_equal(n, NODES_MAX);
}

/* NULL: the root. */
static struct node *parent_of(struct tree *tree, const struct node *node) {
    size_t size = strlen(node->path) - 2;
    for (size_t i = 0; size > 0 && i < NODES_MAX; i++) {
        if (strlen(tree->nodes[i].path) == size &&
            strncmp(tree->nodes[i].path, node->path, size) == 0) {
            return &tree->nodes[i];
        }
    }
    return NULL;
}

static size_t count_children(struct tree *tree, const struct node *parent) {
    size_t n = 0;
    for (size_t i = 0; i < NODES_MAX; i++) {
        n += tree->nodes[i].exists && parent_of(tree, &tree->nodes[i]) == parent;
    }
    return n;
}

/* --- What an operation should do. --- */

static enum zk_error expect_create(struct tree *tree, size_t at, unsigned flags, int session) {
    struct node *node = &tree->nodes[at];
    struct node *parent = parent_of(tree, node);
    if (parent != NULL && !parent->exists) {
        return ZK_NO_NODE;
    }
    if (node->exists) {
        return ZK_NODE_EXISTS;
    }
    if (parent != NULL && parent->owner >= 0) {
        return ZK_NO_CHILDREN_FOR_EPHEMERALS;
    }
    node->exists = true;
    node->is_container = flags & ZK_CREATE_CONTAINER;
    node->is_ttl = flags & ZK_CREATE_TTL;
    node->ttl_is_over = false;
    node->owner = flags & ZK_CREATE_EPHEMERAL ? session : -1;
    node->version = 0;
    node->creates = 0;
    if (parent != NULL) {
        parent->creates++;
    }
    return ZK_OK;
}

static enum zk_error expect(struct tree *tree, const struct zk_operation *operation, size_t at,
                            int session) {
    struct node *node = &tree->nodes[at];
    if (operation->kind == ZK_OPERATION_CREATE) {
        return expect_create(tree, at, operation->create_flags, session);
    }
    const struct node *parent = parent_of(tree, node);
    if (!node->exists || (parent != NULL && !parent->exists)) {
        return ZK_NO_NODE;
    }
    if (operation->version != -1 && operation->version != node->version) {
        return ZK_BAD_VERSION;
    }
    if (operation->kind == ZK_OPERATION_SET_DATA) {
        node->version++;
        node->ttl_is_over = false;
    } else if (operation->kind == ZK_OPERATION_DELETE) {
        if (count_children(tree, node) > 0) {
            return ZK_NOT_EMPTY;
        }
        node->exists = false;
    }
    return ZK_OK;
}

/* --- Both replicas. --- */

static struct zk_results ask(const struct zk_asker *asker, const struct zk_operation *operations,
                             size_t n) {
    struct zk_results results = zk_ask(&main_replica, asker, operations, n);
    if (has_other) {
        struct zk_results others = zk_ask(&other_replica, asker, operations, n);
        assert_int_equal(results.revision, others.revision);
        assert_int_equal(results.n, others.n);
    }
    return results;
}

static void expire_on_both(int64_t lease_id) {
    (void)expire(&main_replica, 1, &lease_id, 1);
    if (has_other) {
        (void)expire(&other_replica, 1, &lease_id, 1);
    }
}

static int64_t connect_on_both(int64_t session_id, uint64_t connection) {
    int64_t id = zk_connect_as(&main_replica, session_id, connection, 7);
    if (has_other) {
        assert_int_equal(zk_connect_as(&other_replica, session_id, connection, 7), id);
    }
    return id;
}

static void take_snapshot(struct fixture *fixture, struct buffer *out) {
    struct snapshot_view *view = snapshot_view_open(fixture->machine);
    buffer_init(out);
    snapshot_view_write(view, out);
    snapshot_view_close(view);
}

/* Every structure is validated after every command: what is old must go. */
static void compact_all(struct fixture *fixture) {
    struct key_store *keys = state_machine_keys(fixture->machine);
    const struct command command = {.type = COMMAND_COMPACT,
                                    .compact = {.revision = key_store_revision(keys)}};
    (void)fixture_apply(fixture, &command);
    while (key_store_reclaim(keys, 1000)) {
    }
    arena_reset(&fixture->arena);
}

static void compare_replicas(void) {
    struct buffer ours;
    struct buffer theirs;
    take_snapshot(&main_replica, &ours);
    if (has_other) {
        take_snapshot(&other_replica, &theirs);
        assert_int_equal(ours.size, theirs.size);
        assert_memory_equal(ours.data, theirs.data, ours.size);
        buffer_clear(&theirs);
        fixture_clear(&other_replica);
    }
    zk_fixture_init(&other_replica);
    assert_int_equal(state_machine_restore(other_replica.machine, bytes_of(ours.data, ours.size)),
                     STATUS_OK);
    buffer_clear(&ours);
    has_other = true;
    compact_all(&main_replica);
    compact_all(&other_replica);
}

/* --- Steps. --- */

static void random_operation(struct zk_operation *out, size_t *out_at) {
    static const uint8_t flags[] = {0, 0, ZK_CREATE_EPHEMERAL, ZK_CREATE_CONTAINER, ZK_CREATE_TTL};
    *out_at = random_below(NODES_MAX);
    const char *path = reference.nodes[*out_at].path;
    switch (random_below(5)) {
    case 0:
    case 1:
        *out = zk_create_of(path, flags[random_below(sizeof flags)]);
        break;
    case 2:
        *out = zk_delete_of(path);
        break;
    case 3:
        *out = (struct zk_operation){.kind = ZK_OPERATION_SET_DATA, .path = bytes_from_text(path)};
        break;
    default:
        *out = (struct zk_operation){.kind = ZK_OPERATION_CHECK, .path = bytes_from_text(path)};
    }
    out->version = random_one_in(3) ? (int32_t)random_below(3) : -1;
}

static void step_operations(void) {
    struct zk_operation operations[OPERATIONS_MAX];
    size_t at[OPERATIONS_MAX];
    enum zk_error expected[OPERATIONS_MAX];
    size_t n = random_one_in(2) ? 1 : 1 + random_below(OPERATIONS_MAX);
    int session = (int)random_below(N_SESSIONS);
    struct tree after = reference;
    size_t failed = n;
    for (size_t i = 0; i < n; i++) {
        random_operation(&operations[i], &at[i]);
        expected[i] =
            failed < i ? ZK_RUNTIME_INCONSISTENCY : expect(&after, &operations[i], at[i], session);
        failed = failed == n && expected[i] != ZK_OK ? i : failed;
    }
    struct zk_results results = ask(&sessions[session], operations, n);
    assert_int_equal(results.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(results.errors[i], expected[i]);
    }
    if (failed == n) {
        reference = after;
    }
}

static void step_session(void) {
    int session = (int)random_below(N_SESSIONS);
    struct zk_asker *asker = &sessions[session];
    if (random_one_in(2)) { /* it moves */
        asker->connection = next_connection++;
        assert_int_equal(connect_on_both(asker->session_id, asker->connection), asker->session_id);
        return;
    }
    if (random_one_in(2)) {
        expire_on_both(asker->session_id);
    } else {
        assert_int_equal(zk_end(&main_replica, asker), ZK_OK);
        assert_true(!has_other || zk_end(&other_replica, asker) == ZK_OK);
    }
    for (size_t i = 0; i < NODES_MAX; i++) {
        struct node *node = &reference.nodes[i];
        node->exists = node->exists && node->owner != session;
    }
    asker->connection = next_connection++;
    asker->session_id = connect_on_both(0, asker->connection);
}

/* Time passes for a node: for its TTL, or since it was emptied. */
static void step_time(void) {
    struct node *node = &reference.nodes[random_below(NODES_MAX)];
    struct zk_seen seen;
    if (!node->exists) {
        return;
    }
    assert_true(zk_look(&main_replica, node->path, &seen));
    bool is_empty = count_children(&reference, node) == 0;
    bool is_ttl = seen.node.ttl_lease != 0;
    int64_t lease = is_ttl ? seen.node.ttl_lease : seen.children.sweep_lease;
    if (lease == 0 || epoch_of(&main_replica, lease) == 0) {
        return;
    }
    expire_on_both(lease);
    node->ttl_is_over |= is_ttl;
    node->exists = !is_empty;
}

static void compare_tree(void) {
    size_t n = 0;
    for (size_t i = 0; i < NODES_MAX; i++) {
        const struct node *node = &reference.nodes[i];
        struct zk_seen seen;
        assert_int_equal(zk_look(&main_replica, node->path, &seen), node->exists);
        if (!node->exists) {
            continue;
        }
        n++;
        assert_int_equal(seen.node.version, node->version);
        assert_int_equal(seen.children.creates, node->creates);
        assert_int_equal(seen.n_children, count_children(&reference, node));
        assert_int_equal(seen.node.owner, node->owner >= 0 ? sessions[node->owner].session_id : 0);
        assert_int_equal(seen.node.flags & ZK_NODE_TTL && seen.node.ttl_lease == 0,
                         node->is_ttl && node->ttl_is_over);
        /* What should go when it is empty, and is, has a lease that will see to it. */
        bool waits = node->creates > 0 && seen.n_children == 0 &&
                     (node->is_container || (node->is_ttl && node->ttl_is_over));
        assert_true(!waits || epoch_of(&main_replica, seen.children.sweep_lease) != 0);
    }
}

static void steps(void **state) {
    (void)state;
    make_paths();
    zk_fixture_init(&main_replica);
    for (size_t i = 0; i < N_SESSIONS; i++) {
        sessions[i].connection = next_connection++;
        sessions[i].session_id = connect_on_both(0, sessions[i].connection);
    }
    for (size_t i = 0; i < N_STEPS; i++) {
        uint64_t kind = random_below(20);
        if (kind == 0) {
            step_session();
        } else if (kind <= 2) {
            step_time();
        } else {
            step_operations();
        }
        if (i % 16 == 0) {
            compare_tree();
        }
        if (i % 200 == 0) {
            compare_replicas();
        }
    }
    fixture_clear(&main_replica);
    fixture_clear(&other_replica);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps)};
    random_seed(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
