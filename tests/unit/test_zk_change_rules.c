#include "zk_fixture.h"

static struct fixture fixture;
static struct zk_asker ann;

static int begin(void **state) {
    zk_fixture_init(&fixture);
    ann = zk_session_of(&fixture, 1);
    assert_int_not_equal(ann.session_id, 0);
    return 0;
}

static int end(void **state) {
    fixture_clear(&fixture);
    return 0;
}

/* --- Sessions. --- */

static void a_session_needs_its_password(void **state) {
    assert_int_equal(zk_connect_as(&fixture, ann.session_id, 2, 8), 0);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/a", 0)), ZK_OK); /* not disturbed */
    assert_int_equal(zk_connect_as(&fixture, ann.session_id + 1, 2, 7), 0);
    assert_int_equal(zk_connect_as(&fixture, ann.session_id, 2, 7), ann.session_id);
}

static void a_session_that_moved_is_not_of_the_old_connection(void **state) {
    assert_int_equal(zk_connect_as(&fixture, ann.session_id, 2, 7), ann.session_id);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/a", 0)), ZK_SESSION_MOVED);
    assert_int_equal(zk_end(&fixture, &ann), ZK_SESSION_MOVED);
    ann.connection = 2;
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/a", 0)), ZK_OK);
}

static void ephemerals_go_with_the_session_in_one_revision(void **state) {
    struct zk_asker bob = zk_session_of(&fixture, 5);
    struct zk_seen seen;
    assert_int_equal(zk_do(&fixture, &bob, zk_create_of("/p", 0)), ZK_OK);
    assert_int_equal(zk_do(&fixture, &bob, zk_create_of("/q", 0)), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/p/1", ZK_CREATE_EPHEMERAL)), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/p/2", ZK_CREATE_EPHEMERAL)), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/q/1", ZK_CREATE_EPHEMERAL)), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/q/1/x", 0)),
                     ZK_NO_CHILDREN_FOR_EPHEMERALS);
    int64_t before = key_store_revision(state_machine_keys(fixture.machine));
    assert_int_equal(expire(&fixture, 1, &ann.session_id, 1).expire.n_ended, 1);
    assert_int_equal(key_store_revision(state_machine_keys(fixture.machine)), before + 1);
    assert_false(zk_has(&fixture, "/p/1") || zk_has(&fixture, "/p/2") || zk_has(&fixture, "/q/1"));
    assert_true(zk_look(&fixture, "/p", &seen));
    assert_int_equal(seen.children.pzxid, before + 1);
    assert_int_equal(seen.children.creates, 2);
    assert_true(zk_look(&fixture, "/q", &seen));
    assert_int_equal(seen.children.pzxid, before + 1);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/a", 0)), ZK_SESSION_EXPIRED);
    assert_int_equal(zk_do(&fixture, &bob, zk_delete_of("/p")), ZK_OK);
}

static void a_closed_session_takes_its_nodes_with_it(void **state) {
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/e", ZK_CREATE_EPHEMERAL)), ZK_OK);
    assert_int_equal(zk_end(&fixture, &ann), ZK_OK);
    assert_false(zk_has(&fixture, "/e"));
    assert_int_equal(zk_end(&fixture, &ann), ZK_SESSION_EXPIRED);
}

/* --- Nodes. --- */

static void a_sequence_counts_what_was_created(void **state) {
    struct zk_operation operation = zk_create_of("/s-", ZK_CREATE_SEQUENCE);
    struct zk_results results = zk_ask(&fixture, &ann, &operation, 1);
    assert_int_equal(results.errors[0], ZK_OK);
    assert_memory_equal(results.results[0].data + 4, "/s-0000000000", 13);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/s-0000000000")), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/plain", 0)), ZK_OK);
    results = zk_ask(&fixture, &ann, &operation, 1);
    assert_memory_equal(results.results[0].data + 4, "/s-0000000002", 13);
}

static void a_node_made_again_has_a_greater_czxid(void **state) {
    struct zk_seen first;
    struct zk_seen second;
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/a", 0)), ZK_OK);
    assert_true(zk_look(&fixture, "/a", &first));
    const struct zk_operation both[] = {zk_delete_of("/a"), zk_create_of("/a", 0)};
    assert_int_equal(zk_ask(&fixture, &ann, both, 2).errors[1], ZK_OK);
    assert_true(zk_look(&fixture, "/a", &second));
    assert_true(second.node.czxid > first.node.czxid);
}

static void a_multi_that_fails_changes_nothing(void **state) {
    const struct zk_operation operations[] = {zk_create_of("/a", 0), zk_create_of("/a/b", 0),
                                              zk_delete_of("/none"), zk_create_of("/c", 0)};
    int64_t before = key_store_revision(state_machine_keys(fixture.machine));
    struct zk_results results = zk_ask(&fixture, &ann, operations, 4);
    assert_int_equal(results.n, 4);
    assert_int_equal(results.errors[0], ZK_OK);
    assert_int_equal(results.errors[1], ZK_OK);
    assert_int_equal(results.errors[2], ZK_NO_NODE);
    assert_int_equal(results.errors[3], ZK_RUNTIME_INCONSISTENCY);
    assert_int_equal(results.revision, before);
    assert_false(zk_has(&fixture, "/a"));
}

static void a_multi_sees_its_own_changes(void **state) {
    const struct zk_operation operations[] = {zk_create_of("/a", 0),   zk_create_of("/a/b", 0),
                                              zk_create_of("/a/c", 0), zk_delete_of("/a/b"),
                                              zk_delete_of("/a/c"),    zk_delete_of("/a"),
                                              zk_create_of("/a", 0)};
    struct zk_results results = zk_ask(&fixture, &ann, operations, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(results.errors[i], ZK_OK);
    }
    struct zk_seen seen;
    assert_true(zk_look(&fixture, "/a", &seen));
    assert_int_equal(seen.children.creates, 0);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/")), ZK_BAD_ARGUMENTS);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/zookeeper")), ZK_BAD_ARGUMENTS);
}

static void an_access_list_counts_in_apply(void **state) {
    const struct zk_id digest = {bytes_from_text("digest"), bytes_from_text("ann:x")};
    const struct zk_acl_entry entry = {.permissions = ZK_PERMISSION_ALL, .id = digest};
    struct buffer acl;
    buffer_init(&acl);
    zk_acl_append(&acl, &entry);
    struct zk_operation create = zk_create_of("/a", 0);
    create.acl = bytes_of(acl.data, acl.size);
    assert_int_equal(zk_do(&fixture, &ann, create), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/a/b", 0)), ZK_NO_AUTH);
    ann.ids = &digest;
    ann.n_ids = 1;
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/a/b", 0)), ZK_OK);
    buffer_clear(&acl);
}

/* --- Time. --- */

/* The lease of the hook whose time has passed. */
static void let_pass(int64_t lease_id) {
    assert_int_not_equal(lease_id, 0);
    assert_int_equal(expire(&fixture, 1, &lease_id, 1).expire.n_ended, 1);
}

static void an_emptied_container_goes_when_its_time_has_passed(void **state) {
    struct zk_seen seen;
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/c", ZK_CREATE_CONTAINER)), ZK_OK);
    assert_true(zk_look(&fixture, "/c", &seen));
    assert_int_equal(seen.children.sweep_lease, 0); /* it never had children */
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/c/1", ZK_CREATE_EPHEMERAL)), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/c/1")), ZK_OK);
    assert_true(zk_look(&fixture, "/c", &seen));
    int64_t lease = seen.children.sweep_lease;
    /* Not when it has children again. */
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/c/2", ZK_CREATE_EPHEMERAL)), ZK_OK);
    let_pass(lease);
    assert_true(zk_has(&fixture, "/c"));
    assert_int_equal(zk_end(&fixture, &ann), ZK_OK);
    assert_true(zk_look(&fixture, "/c", &seen));
    assert_int_not_equal(seen.children.sweep_lease, lease);
    let_pass(seen.children.sweep_lease);
    assert_false(zk_has(&fixture, "/c"));
}

static void a_node_with_a_ttl_stays_for_its_children(void **state) {
    struct zk_seen seen;
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/t", ZK_CREATE_TTL)), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/t/1", 0)), ZK_OK);
    assert_true(zk_look(&fixture, "/t", &seen));
    assert_int_equal(seen.node.ttl_ms, 500);
    let_pass(seen.node.ttl_lease);
    assert_true(zk_has(&fixture, "/t"));
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/t/1")), ZK_OK);
    assert_true(zk_look(&fixture, "/t", &seen));
    let_pass(seen.children.sweep_lease);
    assert_false(zk_has(&fixture, "/t"));
}

static void a_deleted_node_leaves_no_timer(void **state) {
    size_t before = lease_table_count(state_machine_leases(fixture.machine));
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/t", ZK_CREATE_TTL)), ZK_OK);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), before + 1);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/t")), ZK_OK);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), before);
}

/* --- Work. --- */

static size_t work_of(struct zk_operation operation) {
    struct buffer request;
    buffer_init(&request);
    zk_asker_encode(&request, &ann);
    zk_operation_encode(&request, &operation);
    size_t work = zk_rule_change.estimate(state_machine_keys(fixture.machine),
                                          state_machine_leases(fixture.machine),
                                          bytes_of(request.data, request.size));
    buffer_clear(&request);
    return work;
}

/* Of the same ends, the same sizes, other schemes, and more identities than a connection may have.
 */
static void an_access_list_is_searched_for_each_identity(void **state) {
    enum { N = 3 * ZK_IDENTITIES_MAX };
    char texts[N][24];
    struct zk_id ids[N];
    struct buffer acl;
    for (size_t i = 0; i < N; i++) {
        const char *format = i % 3 == 0 ? "u%03zu:same-end" : i % 3 == 1 ? "u:end-%07zu" : "%zu";
        snprintf(texts[i], sizeof texts[i], format, (i * 37) % N);
        ids[i] = (struct zk_id){.scheme = bytes_from_text(i % 5 == 0 ? "x509" : "digest"),
                                .id = bytes_from_text(texts[i])};
    }
    for (size_t i = 0; i < N; i++) {
        struct zk_acl_entry entry = {.permissions = ZK_PERMISSION_READ, .id = ids[i]};
        buffer_init(&acl);
        zk_acl_append(&acl, &entry);
        struct bytes list = bytes_of(acl.data, acl.size);
        assert_true(zk_acl_allows(list, ZK_PERMISSION_READ, ids, N));
        assert_true(zk_acl_allows(list, ZK_PERMISSION_READ, &ids[i], 1));
        assert_false(zk_acl_allows(list, ZK_PERMISSION_WRITE, ids, N));
        assert_false(zk_acl_allows(list, ZK_PERMISSION_READ, ids, i));
        assert_false(zk_acl_allows(list, ZK_PERMISSION_READ, ids + i + 1, N - i - 1));
        acl.size = 0;
        entry.id.scheme = bytes_from_text(i % 5 == 0 ? "digest" : "x509");
        zk_acl_append(&acl, &entry);
        assert_false(zk_acl_allows(bytes_of(acl.data, acl.size), ZK_PERMISSION_READ, ids, N));
        buffer_clear(&acl);
    }
}

static void an_access_list_costs_what_the_node_has(void **state) {
    enum { SIZE = 100 * 1000 };
    static uint8_t data[SIZE];
    struct zk_operation create = zk_create_of("/large", 0);
    create.data = bytes_of(data, sizeof data);
    assert_int_equal(zk_do(&fixture, &ann, create), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of("/small", 0)), ZK_OK);
    struct zk_operation set_acl = {
        .kind = ZK_OPERATION_SET_ACL, .version = -1, .path = bytes_from_text("/large")};
    assert_true(work_of(set_acl) >= SIZE / 4);
    set_acl.path = bytes_from_text("/small");
    assert_true(work_of(set_acl) < 64);
    set_acl.path = bytes_from_text("/none");
    assert_int_equal(work_of(set_acl), 0);
    assert_int_equal(work_of(zk_create_of("/other", 0)), 0);
    assert_true(work_of(create) > 0);
}

/* --- Bytes that nobody sent. --- */

static void every_cut_request_is_refused(void **state) {
    const struct zk_operation operation = zk_create_of("/a", ZK_CREATE_TTL);
    struct buffer whole;
    buffer_init(&whole);
    zk_asker_encode(&whole, &ann);
    size_t least = whole.size;
    zk_operation_encode(&whole, &operation);
    for (size_t size = least + 1; size < whole.size; size++) {
        struct buffer request;
        buffer_init(&request);
        buffer_append(&request, whole.data, size);
        assert_int_equal(zk_run(&fixture, ZK_RULE_CHANGE, &request).status, STATUS_INVALID);
    }
    struct buffer request;
    buffer_init(&request);
    buffer_append(&request, whole.data, whole.size);
    /* A creation is no deletion. */
    assert_int_equal(zk_run(&fixture, ZK_RULE_DELETE, &request).status, STATUS_INVALID);
    assert_false(zk_has(&fixture, "/a"));
    buffer_clear(&whole);
}

static void paths_are_checked(void **state) {
    static const char *const good[] = {"/", "/a", "/a/b", "/a.b/..c", "/\xc3\xa4", "/a b"};
    static const char *const bad[] = {"",   "a",     "/a/",    "//",   "/a//b",
                                      "/.", "/a/..", "/a\x01", "/\xff"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(zk_path_is_valid(bytes_from_text(good[i]), false));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(zk_path_is_valid(bytes_from_text(bad[i]), false));
    }
    assert_true(zk_path_is_valid(bytes_from_text("/a/"), true));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_session_needs_its_password, begin, end),
        cmocka_unit_test_setup_teardown(a_session_that_moved_is_not_of_the_old_connection, begin,
                                        end),
        cmocka_unit_test_setup_teardown(ephemerals_go_with_the_session_in_one_revision, begin, end),
        cmocka_unit_test_setup_teardown(a_closed_session_takes_its_nodes_with_it, begin, end),
        cmocka_unit_test_setup_teardown(a_sequence_counts_what_was_created, begin, end),
        cmocka_unit_test_setup_teardown(a_node_made_again_has_a_greater_czxid, begin, end),
        cmocka_unit_test_setup_teardown(a_multi_that_fails_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_multi_sees_its_own_changes, begin, end),
        cmocka_unit_test_setup_teardown(an_access_list_counts_in_apply, begin, end),
        cmocka_unit_test_setup_teardown(an_emptied_container_goes_when_its_time_has_passed, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_node_with_a_ttl_stays_for_its_children, begin, end),
        cmocka_unit_test_setup_teardown(a_deleted_node_leaves_no_timer, begin, end),
        cmocka_unit_test(an_access_list_is_searched_for_each_identity),
        cmocka_unit_test_setup_teardown(an_access_list_costs_what_the_node_has, begin, end),
        cmocka_unit_test_setup_teardown(every_cut_request_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(paths_are_checked, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
