/* Keys and transactions of the Consul API. */
#include "consul_fixture.h"
#include "core/key_work.h"

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

/* "-": the end. */
static void check_order(const struct consul_results *results, const char *const *keys) {
    size_t n = 0;
    for (; strcmp(keys[n], "-") != 0; n++) {
        assert_true(n < results->n);
        assert_true(bytes_equal(results->results[n].entry.key, bytes_from_text(keys[n])));
    }
    assert_int_equal(results->n, n);
}

/* Those that the transaction has asked for already and those that a tree adds are in one order. */
static void trees_are_in_order_whatever_was_asked_for_before(void **state) {
    (void)state;
    const char *const names[] = {"t/m", "t/a", "t/z", "t/q", "s", "u", "t/mm", "t/c"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(consul_do(&fixture, consul_set_of(names[i], "1")), 0);
    }
    const struct consul_op ops[] = {
        consul_op_of(CONSUL_GET, "u"),      consul_op_of(CONSUL_GET, "t/q"),
        consul_set_of("t/b", "new"),        consul_op_of(CONSUL_GET_TREE, "t/m"),
        consul_op_of(CONSUL_DELETE, "t/z"), consul_op_of(CONSUL_GET_TREE, "t/"),
        consul_op_of(CONSUL_GET_TREE, "x"), consul_op_of(CONSUL_GET_TREE, "")};
    struct consul_results results = consul_ask(&fixture, ops, sizeof ops / sizeof ops[0]);
    assert_false(results.is_failed);
    const char *const order[] = {"u",   "t/q", "t/b",  "t/m", "t/mm", "t/a", "t/b",
                                 "t/c", "t/m", "t/mm", "t/q", "s",    "t/a", "t/b",
                                 "t/c", "t/m", "t/mm", "t/q", "u",    "-"};
    check_order(&results, order);
    assert_int_equal(consul_do(&fixture, consul_op_of(CONSUL_DELETE_TREE, "t/")), 0);
    assert_false(consul_has(&fixture, "t/b"));
    assert_true(consul_has(&fixture, "s"));
    assert_true(consul_has(&fixture, "u"));
}

static enum status ask_status(const struct consul_op *ops, size_t n) {
    struct buffer request;
    buffer_init(&request);
    consul_ops_encode(&request, ops, n);
    return registry_run(&fixture, CONSUL_RULE_KV, &request).status;
}

static void an_answer_that_is_too_large_is_refused_unless_something_fails(void **state) {
    (void)state;
    static uint8_t value[CONSUL_VALUE_SIZE_MAX];
    struct consul_op ops[8];
    ops[0] = consul_op_of(CONSUL_SET, "t/1");
    ops[0].value = bytes_of(value, sizeof value);
    assert_int_equal(consul_do(&fixture, ops[0]), 0);
    int64_t before = revision_of(&fixture);
    for (size_t i = 0; i < 6; i++) {
        ops[i] = consul_op_of(CONSUL_GET_TREE, "t/");
    }
    ops[6] = consul_set_of("x", "1");
    assert_int_equal(ask_status(ops, 1), STATUS_OK);
    assert_int_equal(ask_status(ops, 7), STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(revision_of(&fixture), before);
    ops[7] = consul_op_of(CONSUL_GET, "missing");
    struct consul_results results = consul_ask(&fixture, ops, 8);
    assert_true(results.is_failed);
    assert_int_equal(results.n, 1);
    assert_int_equal(results.results[0].op, 7);
    assert_int_equal(results.results[0].failure, CONSUL_FAILED_MISSING);
}

/* Each takes three records: one of the walk, its lock and its value. */
static void a_tree_of_as_many_keys_as_may_be_looked_at(void **state) {
    (void)state;
    enum { N = (RULE_RECORDS_MAX - 1) / 3, OPS = CONSUL_TXN_OPS_MAX };
    char names[OPS][16];
    struct consul_op ops[OPS];
    registry_is_quick = true;
    for (int first = 0; first < N; first += OPS) {
        size_t n = N - first < OPS ? (size_t)(N - first) : OPS;
        for (size_t i = 0; i < n; i++) {
            snprintf(names[i], sizeof names[i], "%05d", first + (int)i);
            ops[i] = consul_set_of(names[i], "");
        }
        assert_int_equal(ask_status(ops, n), STATUS_OK);
    }
    struct consul_op tree = consul_op_of(CONSUL_GET_TREE, "");
    struct consul_results results = consul_ask(&fixture, &tree, 1);
    assert_int_equal(results.n, N);
    assert_int_equal(consul_do(&fixture, consul_set_of("x", "")), 0);
    assert_int_equal(ask_status(&tree, 1), STATUS_REQUEST_TOO_LARGE);
    registry_is_quick = false;
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

static size_t work_of(const struct consul_op *ops, size_t n) {
    struct buffer request;
    buffer_init(&request);
    consul_ops_encode(&request, ops, n);
    return registry_work_of(&fixture, CONSUL_RULE_KV, &request);
}

static size_t work_of_destroying(char letter) {
    struct buffer request;
    buffer_init(&request);
    consul_session_destroy_encode(
        &request, &(struct consul_session_destroy){.id = consul_id(&fixture, letter)});
    return registry_work_of(&fixture, CONSUL_RULE_SESSION_DESTROY, &request);
}

/* What is under a name decides, not the request; a step of a transaction counts as its rule. */
static void a_tree_is_as_much_work_as_it_has_keys(void **state) {
    enum { KEYS = 200, MUCH = 1024 };
    const struct consul_op set = consul_set_of("t/0", "v");
    const struct consul_op trees[] = {consul_op_of(CONSUL_DELETE_TREE, "t/"),
                                      consul_op_of(CONSUL_GET_TREE, "t/")};
    char key[16];
    struct buffer request;
    assert_true(work_of(trees, 2) < MUCH);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "t/%zu", i);
        assert_int_equal(consul_do(&fixture, consul_set_of(key, "v")), 0);
    }
    assert_true(work_of(&set, 1) < MUCH);
    size_t one = work_of(trees, 1);
    assert_true(one > 16 * KEYS);
    assert_int_equal(work_of(trees, 2), 2 * one);
    buffer_init(&request);
    consul_txn_encode(&request, trees, 2, NULL, 0);
    assert_int_equal(registry_work_of(&fixture, CONSUL_RULE_TXN, &request), 2 * one);
}

static void a_session_is_as_much_work_as_it_holds_keys(void **state) {
    char key[16];
    assert_int_equal(work_of_destroying('a'), 0);
    consul_begin(&fixture, 'a', 0, false);
    size_t before = work_of_destroying('a');
    for (size_t i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "k%zu", i);
        assert_int_equal(consul_lock(&fixture, key, 'a'), 0);
    }
    assert_true(work_of_destroying('a') >= before + 20 * KEY_WORK_A_DELETE);
}

/* Nothing is deleted of a tree of more keys than one run may change. */
static void a_tree_of_more_keys_than_may_be_deleted(void **state) {
    enum { KEYS = RULE_CHANGES_MAX + 1 };
    const struct consul_op tree = consul_op_of(CONSUL_DELETE_TREE, "t/");
    char key[16];
    struct buffer request;
    registry_is_quick = true;
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "t/%zu", i);
        assert_int_equal(consul_do(&fixture, consul_set_of(key, "v")), 0);
    }
    buffer_init(&request);
    consul_ops_encode(&request, &tree, 1);
    assert_int_equal(registry_run(&fixture, CONSUL_RULE_KV, &request).status,
                     STATUS_REQUEST_TOO_LARGE);
    registry_is_quick = false;
    assert_true(consul_has(&fixture, "t/0"));
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
        TEST(trees_are_in_order_whatever_was_asked_for_before),
        TEST(an_answer_that_is_too_large_is_refused_unless_something_fails),
        TEST(a_tree_of_as_many_keys_as_may_be_looked_at),
        TEST(the_index_grows_over_deletions),
        TEST(a_key_that_a_transaction_deletes_and_writes_is_a_new_one),
        TEST(a_tree_is_as_much_work_as_it_has_keys),
        TEST(a_session_is_as_much_work_as_it_holds_keys),
        TEST(a_tree_of_more_keys_than_may_be_deleted),
        TEST(malformed_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
