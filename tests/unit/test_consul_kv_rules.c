/* Keys and transactions of the Consul API. */
#include "consul_fixture.h"

static struct fixture fixture;

static int set_up(void **state) {
    (void)state;
    consul_fixture_init(&fixture);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_clear(&fixture);
    return 0;
}

static void a_write_of_what_is_there_changes_no_index(void **state) {
    (void)state;
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "1")), 0);
    int64_t before = revision_of(&fixture);
    assert_int_equal(consul_index(&fixture, "a"), before);
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "1")), 0);
    assert_int_equal(revision_of(&fixture), before);
    struct consul_op flagged = consul_set_of("a", "1");
    flagged.flags = 7;
    assert_int_equal(consul_do(&fixture, flagged), 0);
    assert_int_equal(consul_index(&fixture, "a"), before + 1);
    assert_int_equal(consul_look(&fixture, "a").entry.create_index, before);
}

static void cas_of_0_creates_and_of_an_index_changes(void **state) {
    (void)state;
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_CAS, "a", 1)), CONSUL_FAILED_STALE);
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_CAS, "a", 0)), 0);
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_CAS, "a", 0)), CONSUL_FAILED_STALE);
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "x")), 0);
    int64_t index = consul_index(&fixture, "a");
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_CAS, "a", index - 1)),
                     CONSUL_FAILED_STALE);
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_CAS, "a", index)), 0);
    assert_true(consul_index(&fixture, "a") > index);
}

static void an_acquisition_makes_a_cas_stale(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 0, false);
    struct consul_op op = consul_lock_of(&fixture, CONSUL_LOCK, "a", 'a');
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "held")), 0);
    int64_t index = consul_index(&fixture, "a");
    assert_int_equal(consul_do(&fixture, op), 0); /* the same value */
    assert_true(consul_index(&fixture, "a") > index);
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_CAS, "a", index)),
                     CONSUL_FAILED_STALE);
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_DELETE_CAS, "a", index)),
                     CONSUL_FAILED_STALE);
}

static void delete_cas_of_a_key_that_is_not_there_does_nothing(void **state) {
    (void)state;
    int64_t before = revision_of(&fixture);
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_DELETE_CAS, "a", 9)), 0);
    assert_int_equal(revision_of(&fixture), before);
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "1")), 0);
    int64_t index = consul_index(&fixture, "a");
    assert_int_equal(consul_do(&fixture, consul_index_of(CONSUL_DELETE_CAS, "a", index)), 0);
    assert_false(consul_has(&fixture, "a"));
}

static void check_index_lets_a_transaction_pass_or_not(void **state) {
    (void)state;
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "1")), 0);
    int64_t index = consul_index(&fixture, "a");
    struct consul_op ops[] = {consul_index_of(CONSUL_CHECK_INDEX, "a", index),
                              consul_set_of("b", "1")};
    assert_false(consul_ask(&fixture, ops, 2).is_failed);
    assert_true(consul_has(&fixture, "b"));
    ops[0].index++;
    ops[1] = consul_set_of("c", "1");
    struct consul_results results = consul_ask(&fixture, ops, 2);
    assert_true(results.is_failed);
    assert_int_equal(results.n, 1);
    assert_int_equal(results.results[0].op, 0);
    assert_int_equal(results.results[0].failure, CONSUL_FAILED_INDEX);
    assert_int_equal(results.results[0].entry.modify_index, index);
    assert_false(consul_has(&fixture, "c"));
    ops[0] = consul_index_of(CONSUL_CHECK_INDEX, "none", 0);
    assert_int_equal(consul_ask(&fixture, ops, 2).results[0].failure, CONSUL_FAILED_MISSING);
}

static void a_transaction_is_all_or_nothing(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 0, false);
    assert_int_equal(consul_do(&fixture, consul_set_of("kept", "1")), 0);
    int64_t before = revision_of(&fixture);
    const struct consul_op ops[] = {consul_set_of("x", "1"),
                                    consul_op_of(CONSUL_DELETE, "kept"),
                                    consul_lock_of(&fixture, CONSUL_LOCK, "l", 'a'),
                                    consul_op_of(CONSUL_GET, "missing"),
                                    consul_index_of(CONSUL_CAS, "kept", 0),
                                    consul_op_of(CONSUL_CHECK_NOT_EXISTS, "x")};
    struct consul_results results = consul_ask(&fixture, ops, 6);
    /* Every operation that fails is told; the CAS sees that "kept" was deleted. */
    assert_true(results.is_failed);
    assert_int_equal(results.n, 2);
    assert_int_equal(results.results[0].op, 3);
    assert_int_equal(results.results[0].failure, CONSUL_FAILED_MISSING);
    assert_int_equal(results.results[1].op, 5);
    assert_int_equal(results.results[1].failure, CONSUL_FAILED_EXISTS);
    assert_int_equal(revision_of(&fixture), before);
    assert_false(consul_has(&fixture, "x"));
    assert_true(consul_has(&fixture, "kept"));
    assert_int_equal(consul_count_held(&fixture), 0);
}

static void a_transaction_is_one_revision_and_sees_itself(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 0, false);
    int64_t before = revision_of(&fixture);
    const struct consul_op ops[] = {consul_set_of("t/1", "1"),
                                    consul_set_of("t/2", "2"),
                                    consul_lock_of(&fixture, CONSUL_LOCK, "t/2", 'a'),
                                    consul_lock_of(&fixture, CONSUL_CHECK_SESSION, "t/2", 'a'),
                                    consul_op_of(CONSUL_DELETE, "t/1"),
                                    consul_op_of(CONSUL_GET_TREE, "t/")};
    struct consul_results results = consul_ask(&fixture, ops, 6);
    assert_false(results.is_failed);
    assert_int_equal(revision_of(&fixture), before + 1);
    const struct consul_result *last = &results.results[results.n - 1];
    assert_int_equal(results.n, 5);
    assert_int_equal(last->op, 5);
    assert_true(bytes_equal(last->entry.key, bytes_from_text("t/2")));
    assert_true(bytes_equal(last->entry.value.value, bytes_from_text("held")));
    assert_int_equal(last->entry.modify_index, before + 1);
    assert_int_equal(consul_holder(&fixture, "t/2"), 'a');
    assert_false(consul_has(&fixture, "t/1"));
}

static void a_tree_is_deleted_with_its_locks(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 1000, false);
    assert_int_equal(consul_lock(&fixture, "t/1", 'a'), 0);
    assert_int_equal(consul_do(&fixture, consul_set_of("t/2", "2")), 0);
    assert_int_equal(consul_do(&fixture, consul_set_of("t2", "2")), 0);
    assert_int_equal(consul_do(&fixture, consul_op_of(CONSUL_DELETE_TREE, "t/")), 0);
    assert_false(consul_has(&fixture, "t/1"));
    assert_false(consul_has(&fixture, "t/2"));
    assert_true(consul_has(&fixture, "t2"));
    assert_int_equal(consul_count_held(&fixture), 0);
    assert_int_equal(consul_do(&fixture, consul_op_of(CONSUL_DELETE_TREE, "")), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_CONSUL), 0);
}

static void the_index_grows_over_deletions(void **state) {
    (void)state;
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "1")), 0);
    int64_t index = consul_index(&fixture, "a");
    assert_int_equal(consul_do(&fixture, consul_op_of(CONSUL_DELETE, "a")), 0);
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "1")), 0);
    assert_true(consul_index(&fixture, "a") > index);
    assert_true(consul_look(&fixture, "a").entry.create_index > index);
}

static void a_key_that_a_transaction_deletes_and_writes_is_a_new_one(void **state) {
    (void)state;
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "1")), 0);
    assert_int_equal(consul_do(&fixture, consul_set_of("a", "2")), 0);
    const struct consul_op ops[] = {consul_op_of(CONSUL_DELETE, "a"), consul_set_of("a", "2")};
    struct consul_results results = consul_ask(&fixture, ops, 2);
    assert_false(results.is_failed);
    int64_t index = revision_of(&fixture);
    assert_int_equal(results.results[0].entry.create_index, index);
    assert_int_equal(results.results[0].entry.modify_index, index);
    assert_int_equal(consul_look(&fixture, "a").entry.create_index, index);
    assert_int_equal(consul_look(&fixture, "a").entry.modify_index, index);
}

static void malformed_requests_are_refused(void **state) {
    (void)state;
    struct consul_op op = consul_lock_of(&fixture, CONSUL_LOCK, "a", 'a');
    struct buffer request;
    op.session = bytes_from_text("no uuid");
    buffer_init(&request);
    consul_ops_encode(&request, &op, 1);
    assert_int_equal(registry_run(&fixture, CONSUL_RULE_KV, &request).status, STATUS_MALFORMED);
    op = consul_set_of("", "x");
    buffer_init(&request);
    consul_ops_encode(&request, &op, 1);
    assert_int_equal(registry_run(&fixture, CONSUL_RULE_KV, &request).status, STATUS_MALFORMED);
    op = consul_set_of("a", "x");
    buffer_init(&request);
    consul_ops_encode(&request, &op, 1);
    buffer_put_u8(&request, 0);
    assert_int_equal(registry_run(&fixture, CONSUL_RULE_KV, &request).status, STATUS_MALFORMED);
    buffer_init(&request);
    consul_ops_encode(&request, &op, 0);
    assert_int_equal(registry_run(&fixture, CONSUL_RULE_KV, &request).status, STATUS_MALFORMED);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_write_of_what_is_there_changes_no_index),
        TEST(cas_of_0_creates_and_of_an_index_changes),
        TEST(an_acquisition_makes_a_cas_stale),
        TEST(delete_cas_of_a_key_that_is_not_there_does_nothing),
        TEST(check_index_lets_a_transaction_pass_or_not),
        TEST(a_transaction_is_all_or_nothing),
        TEST(a_transaction_is_one_revision_and_sees_itself),
        TEST(a_tree_is_deleted_with_its_locks),
        TEST(the_index_grows_over_deletions),
        TEST(a_key_that_a_transaction_deletes_and_writes_is_a_new_one),
        TEST(malformed_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
