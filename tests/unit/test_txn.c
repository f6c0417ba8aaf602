#include "core/txn.h"
#include "core/txn_estimate.h"

#include "state_machine_fixture.h"

#include <stdlib.h>
#include <time.h>

/* --- Helpers: operations and compares written shortly. --- */

static struct operation op_put(const char *key, const char *value, int64_t lease_id) {
    return (struct operation){.type = OPERATION_PUT,
                              .put = {.key = bytes_from_text(key),
                                      .value = bytes_from_text(value),
                                      .lease_id = lease_id,
                                      .want_previous = true}};
}

static struct operation op_del(const char *key, const char *range_end) {
    return (struct operation){.type = OPERATION_DELETE,
                              .delete = {.key = bytes_from_text(key),
                                         .range_end = bytes_from_text(range_end),
                                         .want_previous = true}};
}

static struct operation op_get(const char *key, const char *range_end, int64_t at) {
    return (struct operation){.type = OPERATION_RANGE,
                              .range = {.key = bytes_from_text(key),
                                        .range_end = bytes_from_text(range_end),
                                        .revision = at}};
}

static struct operation op_txn(struct compare *compares, size_t n_compares,
                               struct operation *success, size_t n_success,
                               struct operation *failure, size_t n_failure) {
    return (struct operation){.type = OPERATION_TXN,
                              .txn = {.n_compares = n_compares,
                                      .compares = compares,
                                      .n_success = n_success,
                                      .success = success,
                                      .n_failure = n_failure,
                                      .failure = failure}};
}

static struct compare number_is(const char *key, enum compare_target target,
                                enum compare_result result, int64_t number) {
    return (struct compare){
        .key = bytes_from_text(key), .target = target, .result = result, .number = number};
}

static struct compare value_is(const char *key, enum compare_result result, const char *value) {
    return (struct compare){.key = bytes_from_text(key),
                            .target = COMPARE_VALUE,
                            .result = result,
                            .value = bytes_from_text(value)};
}

static struct outcome run(struct fixture *fixture, struct compare *compares, size_t n_compares,
                          struct operation *success, size_t n_success, struct operation *failure,
                          size_t n_failure) {
    struct command command = {.type = COMMAND_TXN};
    command.txn = op_txn(compares, n_compares, success, n_success, failure, n_failure).txn;
    return fixture_apply(fixture, &command);
}

static bool holds(struct fixture *fixture, struct compare compare) {
    struct outcome outcome = run(fixture, &compare, 1, NULL, 0, NULL, 0);
    assert_int_equal(outcome.status, STATUS_OK);
    return outcome.txn.succeeded;
}

/* --- Compares. --- */

static void numbers_compare_in_all_four_ways(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 7, 1000);
    put(&fixture, "other", "", 0);
    put(&fixture, "k", "1", 0);
    put(&fixture, "k", "2", 7); /* created at 3, changed at 4, version 2, lease 7 */
    const struct {
        enum compare_target target;
        int64_t number;
    } facts[] = {{COMPARE_CREATE, 3}, {COMPARE_MOD, 4}, {COMPARE_VERSION, 2}, {COMPARE_LEASE, 7}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        enum compare_target target = facts[i].target;
        int64_t number = facts[i].number;
        assert_true(holds(&fixture, number_is("k", target, COMPARE_EQUAL, number)));
        assert_false(holds(&fixture, number_is("k", target, COMPARE_EQUAL, number + 1)));
        assert_true(holds(&fixture, number_is("k", target, COMPARE_NOT_EQUAL, number + 1)));
        assert_false(holds(&fixture, number_is("k", target, COMPARE_NOT_EQUAL, number)));
        assert_true(holds(&fixture, number_is("k", target, COMPARE_GREATER, number - 1)));
        assert_false(holds(&fixture, number_is("k", target, COMPARE_GREATER, number)));
        assert_true(holds(&fixture, number_is("k", target, COMPARE_LESS, number + 1)));
        assert_false(holds(&fixture, number_is("k", target, COMPARE_LESS, number)));
        assert_true(holds(&fixture, number_is("k", target, COMPARE_GREATER, INT64_MIN)));
        assert_true(holds(&fixture, number_is("k", target, COMPARE_LESS, INT64_MAX)));
    }
    assert_int_equal(revision(&fixture), 4);
    fixture_clear(&fixture);
}

static void values_compare_as_bytes(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "k", "mm", 0);
    assert_true(holds(&fixture, value_is("k", COMPARE_EQUAL, "mm")));
    assert_false(holds(&fixture, value_is("k", COMPARE_EQUAL, "m")));
    assert_true(holds(&fixture, value_is("k", COMPARE_GREATER, "m")));
    assert_true(holds(&fixture, value_is("k", COMPARE_LESS, "mn")));
    assert_true(holds(&fixture, value_is("k", COMPARE_LESS, "\xff")));
    assert_true(holds(&fixture, value_is("k", COMPARE_NOT_EQUAL, "")));
    fixture_clear(&fixture);
}

static void a_missing_key_compares_as_zero_but_has_no_value(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "gone", "", 0);
    del(&fixture, "gone", "");
    const char *const missing[] = {"never", "gone"};
    for (size_t i = 0; i < 2; i++) {
        const char *key = missing[i];
        assert_true(holds(&fixture, number_is(key, COMPARE_CREATE, COMPARE_EQUAL, 0)));
        assert_true(holds(&fixture, number_is(key, COMPARE_VERSION, COMPARE_LESS, 1)));
        assert_true(holds(&fixture, number_is(key, COMPARE_MOD, COMPARE_EQUAL, 0)));
        assert_true(holds(&fixture, number_is(key, COMPARE_LEASE, COMPARE_GREATER, -1)));
        assert_false(holds(&fixture, value_is(key, COMPARE_EQUAL, "")));
        assert_false(holds(&fixture, value_is(key, COMPARE_NOT_EQUAL, "x")));
    }
    fixture_clear(&fixture);
}

static void a_range_compares_by_all_of_its_keys(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "a", "x", 0);
    put(&fixture, "b", "x", 0);
    put(&fixture, "c", "y", 0);
    struct compare compare = value_is("a", COMPARE_EQUAL, "x");
    compare.range_end = bytes_from_text("c");
    assert_true(holds(&fixture, compare));
    compare.range_end = bytes_from_text("d");
    assert_false(holds(&fixture, compare));
    compare.range_end = bytes_of("\0", 1);
    assert_false(holds(&fixture, compare));
    /* An empty range is a missing key. */
    compare = number_is("x", COMPARE_VERSION, COMPARE_EQUAL, 0);
    compare.range_end = bytes_from_text("z");
    assert_true(holds(&fixture, compare));
    compare.target = COMPARE_VALUE;
    assert_false(holds(&fixture, compare));
    fixture_clear(&fixture);
}

static void put_numbered(struct fixture *fixture, unsigned n) {
    struct key_store *keys = state_machine_keys(fixture->machine);
    key_store_begin(keys);
    for (unsigned i = 0; i < n; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%06u", i);
        key_store_put(keys, KEY_SPACE_ETCD, bytes_from_text(key), bytes_from_text("v"), 0, NULL);
    }
    key_store_end(keys);
}

static struct txn_target target_of(struct fixture *fixture) {
    return (struct txn_target){.keys = state_machine_keys(fixture->machine),
                               .leases = state_machine_leases(fixture->machine),
                               .space = KEY_SPACE_ETCD};
}

/* Such a transaction would be carried out again at every start. */
static void comparing_everything_many_times_takes_no_memory(void **state) {
    enum { KEYS = 10000, COMPARES = 128 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEYS);
    const struct txn_target target = target_of(&fixture);
    struct compare compares[COMPARES];
    for (size_t i = 0; i < COMPARES; i++) {
        compares[i] = number_is("a", COMPARE_VERSION, COMPARE_GREATER, 0);
        compares[i].range_end = bytes_from_text("z");
    }
    struct txn_request request = {.n_compares = COMPARES, .compares = compares};
    struct txn_outcome outcome;
    arena_reset(&fixture.arena);
    arena_alloc(&fixture.arena, 1);
    const struct arena before = fixture.arena;
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome), STATUS_OK);
    assert_true(outcome.succeeded);
    assert_ptr_equal(fixture.arena.blocks, before.blocks);
    fixture_clear(&fixture);
}

static void ranges_that_would_gather_too_much_fail_the_whole(void **state) {
    enum { KEYS = 20000, RANGES = 1000 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEYS);
    struct key_store *keys = state_machine_keys(fixture.machine);
    const struct txn_target target = target_of(&fixture);
    static struct operation operations[RANGES + 1];
    operations[0] = (struct operation){.type = OPERATION_PUT,
                                       .put = {.key = bytes_from_text("x"), .value = {0}}};
    for (size_t i = 1; i <= RANGES; i++) {
        operations[i] = (struct operation){
            .type = OPERATION_RANGE,
            .range = {.key = bytes_from_text("k"), .range_end = bytes_from_text("l")}};
    }
    struct txn_request request = {.n_success = RANGES + 1, .success = operations};
    struct txn_outcome outcome;
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome),
                     STATUS_REQUEST_TOO_LARGE);
    assert_null(key_store_find(keys, KEY_SPACE_ETCD, bytes_from_text("x")));
    request.n_success = 3;
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome), STATUS_OK);
    assert_int_equal(outcome.outcomes[2].range.n_records, KEYS);
    /* What is gone now but was there then counts as well. */
    int64_t revision = key_store_revision(keys);
    struct delete_request delete = {.key = bytes_from_text("k"), .range_end = bytes_from_text("l")};
    struct delete_outcome deleted;
    assert_int_equal(txn_delete(&target, &delete, &fixture.arena, &deleted), STATUS_OK);
    request.n_success = RANGES + 1;
    for (size_t i = 1; i <= RANGES; i++) {
        operations[i].range.revision = revision;
    }
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome),
                     STATUS_REQUEST_TOO_LARGE);
    fixture_clear(&fixture);
}

/* In clusters that count it. */
static void a_transaction_that_is_too_much_work_is_refused(void **state) {
    enum { KEYS = 20000, COMPARES = 100 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEYS);
    struct txn_target target = target_of(&fixture);
    size_t work = 0;
    target.is_counted = true;
    target.work = &work;
    struct compare compares[COMPARES];
    for (size_t i = 0; i < COMPARES; i++) {
        compares[i] = number_is("a", COMPARE_VERSION, COMPARE_GREATER, 0);
        compares[i].range_end = bytes_from_text("z");
    }
    struct operation put = {.type = OPERATION_PUT, .put = {.key = bytes_from_text("x")}};
    struct txn_request request = {
        .n_compares = COMPARES, .compares = compares, .n_success = 1, .success = &put};
    struct txn_outcome outcome;
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome),
                     STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(work, KEY_WORK_TXN_MAX);
    assert_null(key_store_find(target.keys, KEY_SPACE_ETCD, bytes_from_text("x")));
    assert_int_equal(txn_estimate(target.keys, KEY_SPACE_ETCD, &request), KEY_WORK_TXN_MAX);
    request.n_compares = 3;
    work = 0;
    assert_int_equal(txn_estimate(target.keys, KEY_SPACE_ETCD, &request), 3 * KEYS);
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome), STATUS_OK);
    assert_int_equal(work, 3 * KEYS);
    assert_non_null(key_store_find(target.keys, KEY_SPACE_ETCD, bytes_from_text("x")));
    fixture_clear(&fixture);
}

/* All that one request deletes is one revision, and everybody waits for it. */
static void more_keys_than_one_request_may_delete_are_left(void **state) {
    enum { EXTRA = 10 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEY_DELETES_MAX + EXTRA);
    struct txn_target target = target_of(&fixture);
    size_t work = 0;
    target.is_counted = true;
    target.work = &work;
    int64_t before = revision(&fixture);
    const struct delete_request all = {.key = bytes_from_text("k"),
                                       .range_end = bytes_from_text("l")};
    struct delete_outcome deleted;
    assert_int_equal(txn_delete(&target, &all, &fixture.arena, &deleted), STATUS_TOO_MANY_KEYS);
    /* In two operations, one of them nested, neither of which is too much. */
    struct operation nested = op_del("k0000", "k000000");
    struct operation operations[] = {op_del("k000000", "k200000"),
                                     op_txn(NULL, 0, &nested, 1, NULL, 0)};
    nested = op_del("k200000", "l");
    nested.delete.want_previous = operations[0].delete.want_previous = false;
    const struct txn_request request = {.n_success = 2, .success = operations};
    struct txn_outcome outcome;
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome), STATUS_TOO_MANY_KEYS);
    assert_int_equal(revision(&fixture), before);
    assert_int_equal(work, 0);
    /* A refusal is little work; what is allowed is much, and is told before and after. */
    assert_int_equal(delete_estimate(target.keys, KEY_SPACE_ETCD, &all), 0);
    assert_int_equal(txn_estimate(target.keys, KEY_SPACE_ETCD, &request), 0);
    const struct delete_request some = {.key = bytes_from_text("k"),
                                        .range_end = bytes_from_text("k200000")};
    assert_int_equal(delete_estimate(target.keys, KEY_SPACE_ETCD, &some),
                     200000 * KEY_WORK_A_DELETE);
    assert_int_equal(txn_delete(&target, &some, &fixture.arena, &deleted), STATUS_OK);
    assert_int_equal(deleted.deleted, 200000);
    assert_int_equal(work, 200000 * KEY_WORK_A_DELETE);
    assert_int_equal(txn_delete(&target, &all, &fixture.arena, &deleted), STATUS_OK);
    assert_int_equal(deleted.deleted, KEY_DELETES_MAX + EXTRA - 200000);
    /* A cluster of version 2 does as release 0.2 does. */
    put_numbered(&fixture, KEY_DELETES_MAX + EXTRA);
    target.is_counted = false;
    assert_int_equal(txn_delete(&target, &all, &fixture.arena, &deleted), STATUS_OK);
    fixture_clear(&fixture);
}

static void a_lease_has_only_so_many_keys(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 7, 60000);
    struct txn_target target = target_of(&fixture);
    size_t work = 0;
    target.is_counted = true;
    target.work = &work;
    struct put_outcome put_done;
    char key[16] = "";
    struct put_request request = {.value = bytes_from_text("v"), .lease_id = 7};
    for (unsigned i = 0; i < LEASE_KEYS_MAX; i++) {
        request.key = bytes_of(key, (size_t)snprintf(key, sizeof key, "k%06u", i));
        assert_int_equal(txn_put(&target, &request, &put_done), STATUS_OK);
    }
    assert_int_equal(lease_table_key_count(target.leases, 7), LEASE_KEYS_MAX);
    request.key = bytes_from_text("one too many");
    assert_int_equal(txn_put(&target, &request, &put_done), STATUS_TOO_MANY_KEYS);
    struct operation operation = op_put("one too many", "v", 7);
    const struct txn_request txn = {.n_success = 1, .success = &operation};
    struct txn_outcome outcome;
    assert_int_equal(txn_run(&target, &txn, &fixture.arena, &outcome), STATUS_TOO_MANY_KEYS);
    /* What is attached may be written again, and what goes makes room. */
    request.key = bytes_from_text("k000003");
    assert_int_equal(txn_put(&target, &request, &put_done), STATUS_OK);
    assert_int_equal(del(&fixture, "k000004", "").delete.deleted, 1);
    assert_int_equal(txn_run(&target, &txn, &fixture.arena, &outcome), STATUS_OK);
    assert_int_equal(lease_table_key_count(target.leases, 7), LEASE_KEYS_MAX);
    lease_table_validate(target.leases);
    /* A cluster of version 2 does as release 0.2 does, and all that came of it ends. */
    target.is_counted = false;
    request.key = bytes_from_text("two too many");
    assert_int_equal(txn_put(&target, &request, &put_done), STATUS_OK);
    assert_int_equal(revoke(&fixture, 7).status, STATUS_OK);
    assert_int_equal(
        key_store_count(target.keys, KEY_SPACE_ETCD, bytes_from_text("a"), bytes_from_text("z")),
        0);
    fixture_clear(&fixture);
}

static void long_keys_of_a_lease_are_bounded(void **state) {
    enum { SIZE = 1024 * 1024, KEYS = LEASE_LONG_KEYS_MAX / SIZE };
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 7, 60000);
    struct txn_target target = target_of(&fixture);
    size_t work = 0;
    target.is_counted = true;
    target.work = &work;
    struct put_outcome put_done;
    /* With the byte of their space they are as long as said. */
    char *key = calloc(1, SIZE - 1);
    assert_non_null(key);
    struct put_request request = {.key = bytes_of(key, SIZE - 1), .lease_id = 7};
    for (int i = 0; i < KEYS; i++) {
        key[0] = (char)('a' + i);
        assert_int_equal(txn_put(&target, &request, &put_done), STATUS_OK);
    }
    assert_int_equal(lease_table_long_keys(target.leases, 7), LEASE_LONG_KEYS_MAX);
    assert_int_equal(lease_table_end_work(target.leases, 7),
                     (1 + KEYS) * KEY_WORK_A_DELETE + LEASE_LONG_KEYS_MAX / KEY_WORK_COPIED_BYTES);
    /* What is attached may be written again, and short keys have room. */
    assert_int_equal(txn_put(&target, &request, &put_done), STATUS_OK);
    key[0] = (char)('a' + KEYS);
    assert_int_equal(txn_put(&target, &request, &put_done), STATUS_TOO_MANY_KEYS);
    request.key.size = KEY_WORK_LONG_KEY - 1; /* long, with that byte */
    assert_int_equal(txn_put(&target, &request, &put_done), STATUS_TOO_MANY_KEYS);
    request.key.size = KEY_WORK_LONG_KEY - 2;
    assert_int_equal(txn_put(&target, &request, &put_done), STATUS_OK);
    lease_table_validate(target.leases);
    assert_int_equal(revoke(&fixture, 7).status, STATUS_OK);
    lease_table_validate(target.leases);
    free(key);
    fixture_clear(&fixture);
}

static void what_is_answered_counts_more_than_what_is_looked_at(void **state) {
    enum { KEYS = 1000 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEYS);
    struct key_store *keys = state_machine_keys(fixture.machine);
    struct operation range = op_get("k", "l", 0);
    const struct txn_request request = {.n_success = 1, .success = &range};
    size_t gathered = txn_estimate(keys, KEY_SPACE_ETCD, &request);
    range.range.order = SORT_DESCENDING;
    range.range.target = SORT_BY_VALUE;
    size_t sorted = txn_estimate(keys, KEY_SPACE_ETCD, &request);
    range.range.count_only = true;
    assert_int_equal(txn_estimate(keys, KEY_SPACE_ETCD, &request), 0); /* the tree knows */
    assert_true(gathered >= 2 * KEYS);
    assert_true(sorted > gathered);
    fixture_clear(&fixture);
}

/* A count at an old revision costs what was written since, not what the range has. */
static void counting_at_an_old_revision_is_cheap(void **state) {
    enum { KEYS = 20000, CHANGES = 10 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEYS);
    struct key_store *keys = state_machine_keys(fixture.machine);
    int64_t revision = key_store_revision(keys);
    for (unsigned i = 0; i < CHANGES; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%06u", i);
        assert_int_equal(del(&fixture, key, "").delete.deleted, 1);
        put(&fixture, "knew", "v", 0);
    }
    const struct range_request request = {.key = bytes_from_text("k"),
                                          .range_end = bytes_from_text("l"),
                                          .revision = revision,
                                          .limit = 5};
    struct key_work spent = {.left = KEY_WORK_TXN_MAX};
    struct range_outcome outcome;
    assert_int_equal(
        key_store_range(keys, KEY_SPACE_ETCD, &request, &spent, &fixture.arena, &outcome),
        STATUS_OK);
    assert_int_equal(outcome.count, KEYS);
    assert_int_equal(outcome.n_records, 5);
    assert_true(outcome.more);
    assert_true(KEY_WORK_TXN_MAX - spent.left < 1000);
    fixture_clear(&fixture);
}

/* What is named by its revision is read before the transaction changes anything, when it is found
 * out what that costs: afterwards it would be a walk over all that was ever deleted. */
static void a_named_revision_is_read_once(void **state) {
    enum { KEYS = 100000, RANGES = 100 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEYS);
    struct txn_target target = target_of(&fixture);
    size_t work = 0;
    target.is_counted = true;
    target.work = &work;
    assert_int_equal(del(&fixture, "k", "l").delete.deleted, KEYS);
    put(&fixture, "k1", "before", 0);
    int64_t now = revision(&fixture);
    struct operation operations[RANGES + 1] = {op_put("k1", "after", 0)};
    for (size_t i = 1; i <= RANGES; i++) {
        operations[i] = op_get("k", "l", now);
        operations[i].range.count_only = i % 2 == 0;
    }
    const struct txn_request request = {.n_success = RANGES + 1, .success = operations};
    struct txn_outcome outcome;
    clock_t begin = clock();
    assert_int_equal(txn_run(&target, &request, &fixture.arena, &outcome), STATUS_OK);
    clock_t spent = clock() - begin;
    for (size_t i = 1; i <= RANGES; i++) {
        const struct range_outcome *range = &outcome.outcomes[i].range;
        assert_int_equal(outcome.outcomes[i].revision, now + 1);
        assert_int_equal(range->count, 1);
        assert_int_equal(range->n_records, i % 2);
        if (range->n_records > 0) {
            assert_true(bytes_equal(record_value(range->records[0]), bytes_from_text("before")));
        }
    }
    assert_true(spent < CLOCKS_PER_SEC / 20);
    fixture_clear(&fixture);
}

static void all_compares_must_hold(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "a", "x", 0);
    struct compare compares[] = {value_is("a", COMPARE_EQUAL, "x"),
                                 number_is("b", COMPARE_VERSION, COMPARE_EQUAL, 0)};
    assert_true(run(&fixture, compares, 2, NULL, 0, NULL, 0).txn.succeeded);
    put(&fixture, "b", "", 0);
    assert_false(run(&fixture, compares, 2, NULL, 0, NULL, 0).txn.succeeded);
    assert_true(run(&fixture, NULL, 0, NULL, 0, NULL, 0).txn.succeeded);
    fixture_clear(&fixture);
}

/* --- Changes. --- */

static void all_changes_share_one_revision(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "d1", "", 0);
    put(&fixture, "d2", "", 0);
    struct operation success[] = {op_put("b", "1", 0), op_put("a", "2", 0), op_del("d1", "d3"),
                                  op_get("a", "", 0)};
    struct outcome outcome = run(&fixture, NULL, 0, success, 4, NULL, 0);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.revision, 4);
    assert_changes(&fixture, 4, "b a -d1 -d2");
    assert_int_equal(outcome.txn.n_outcomes, 4);
    assert_int_equal(outcome.txn.outcomes[2].delete.deleted, 2);
    assert_int_equal(outcome.txn.outcomes[2].delete.n_previous, 2);
    assert_value(outcome.txn.outcomes[3].range.records[0], "2");
    assert_int_equal(outcome.txn.outcomes[3].range.records[0]->mod_revision, 4);
    fixture_clear(&fixture);
}

static void the_failing_branch_runs_when_a_compare_does_not_hold(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct compare never = number_is("k", COMPARE_VERSION, COMPARE_GREATER, 0);
    struct operation success[] = {op_put("yes", "", 0)};
    struct operation failure[] = {op_put("no", "", 0), op_get("no", "", 0)};
    struct outcome outcome = run(&fixture, &never, 1, success, 1, failure, 2);
    assert_false(outcome.txn.succeeded);
    assert_int_equal(outcome.txn.n_outcomes, 2);
    assert_null(find(&fixture, "yes"));
    assert_non_null(find(&fixture, "no"));
    fixture_clear(&fixture);
}

static void a_txn_that_changes_nothing_takes_no_revision(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "a", "", 0);
    struct operation success[] = {op_get("a", "", 0), op_del("nothing", "")};
    struct outcome outcome = run(&fixture, NULL, 0, success, 2, NULL, 0);
    assert_int_equal(outcome.revision, 2);
    assert_int_equal(outcome.txn.outcomes[0].revision, 2);
    assert_int_equal(outcome.txn.outcomes[1].revision, 2);
    assert_int_equal(outcome.txn.outcomes[1].delete.deleted, 0);
    fixture_clear(&fixture);
}

/* As in etcd: an operation tells the new revision from the first change on. */
static void each_operation_tells_the_revision_it_ran_at(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "a", "", 0);
    struct operation success[] = {op_get("a", "", 0), op_del("none", ""), op_put("b", "", 0),
                                  op_get("a", "", 0), op_del("none", "")};
    struct outcome outcome = run(&fixture, NULL, 0, success, 5, NULL, 0);
    const int64_t expected[] = {2, 2, 3, 3, 3};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(outcome.txn.outcomes[i].revision, expected[i]);
    }
    fixture_clear(&fixture);
}

static void nested_compares_see_the_state_before_the_transaction(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct compare fresh = number_is("a", COMPARE_VERSION, COMPARE_EQUAL, 0);
    struct operation inner_success[] = {op_put("fresh", "", 0)};
    struct operation inner_failure[] = {op_put("stale", "", 0)};
    struct operation success[] = {op_put("a", "", 0),
                                  op_txn(&fresh, 1, inner_success, 1, inner_failure, 1),
                                  op_txn(NULL, 0, NULL, 0, NULL, 0)};
    struct outcome outcome = run(&fixture, NULL, 0, success, 3, NULL, 0);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(outcome.txn.outcomes[1].txn.succeeded);
    assert_int_equal(outcome.txn.outcomes[1].txn.n_outcomes, 1);
    assert_true(outcome.txn.outcomes[2].txn.succeeded);
    assert_int_equal(outcome.txn.outcomes[2].txn.n_outcomes, 0);
    assert_changes(&fixture, 2, "a fresh");
    fixture_clear(&fixture);
}

static void a_range_inside_sees_the_changes_before_it(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "a", "old", 0);
    struct operation success[] = {op_get("a", "z", 0), op_put("a", "new", 0), op_put("b", "", 0),
                                  op_get("a", "z", 0), op_get("a", "z", 2)};
    struct outcome outcome = run(&fixture, NULL, 0, success, 5, NULL, 0);
    assert_int_equal(outcome.txn.outcomes[0].range.count, 1);
    assert_value(outcome.txn.outcomes[0].range.records[0], "old");
    assert_int_equal(outcome.txn.outcomes[3].range.count, 2);
    assert_value(outcome.txn.outcomes[3].range.records[0], "new");
    assert_int_equal(outcome.txn.outcomes[4].range.count, 1);
    assert_value(outcome.txn.outcomes[4].range.records[0], "old");
    fixture_clear(&fixture);
}

/* --- What fails, fails before the first change. --- */

static void assert_fails_whole(struct operation last, enum status expected) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    for (unsigned i = 0; i < 5; i++) {
        put(&fixture, "a", "", 1);
    }
    compact(&fixture, 4);
    struct operation nested[] = {op_put("n", "", 0), last};
    struct operation success[] = {op_put("a", "x", 0), op_del("b", "c"),
                                  op_txn(NULL, 0, nested, 2, NULL, 0)};
    struct outcome outcome = run(&fixture, NULL, 0, success, 3, NULL, 0);
    assert_int_equal(outcome.status, expected);
    assert_int_equal(outcome.revision, 6);
    assert_int_equal(revision(&fixture), 6);
    assert_value(find(&fixture, "a"), "");
    assert_int_equal(keys_of(&fixture, 1), 1);
    assert_null(find(&fixture, "n"));
    fixture_clear(&fixture);
}

static void a_put_with_a_missing_lease_fails_the_whole(void **state) {
    assert_fails_whole(op_put("z", "", 99), STATUS_LEASE_NOT_FOUND);
}

static void a_range_at_a_compacted_or_future_revision_fails_the_whole(void **state) {
    assert_fails_whole(op_get("a", "", 3), STATUS_REVISION_COMPACTED);
    assert_fails_whole(op_get("a", "", 7), STATUS_REVISION_FUTURE);
    assert_fails_whole(op_get("a", "", INT64_MAX), STATUS_REVISION_FUTURE);
}

static void keeping_what_is_not_there_fails_the_whole(void **state) {
    struct operation keep = op_put("none", "", 0);
    keep.put.ignore_value = true;
    assert_fails_whole(keep, STATUS_KEY_NOT_FOUND);
    keep.put.ignore_value = false;
    keep.put.ignore_lease = true;
    assert_fails_whole(keep, STATUS_KEY_NOT_FOUND);
}

static void what_would_fail_in_a_branch_not_taken_does_not_matter(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct operation failure[] = {op_put("z", "", 99), op_get("a", "", 1000)};
    struct operation success[] = {op_put("a", "", 0)};
    assert_int_equal(run(&fixture, NULL, 0, success, 1, failure, 2).status, STATUS_OK);
    fixture_clear(&fixture);
}

/* --- Single puts. --- */

static void a_put_may_keep_the_value_or_the_lease(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    grant(&fixture, 2, 1000);
    put(&fixture, "k", "v", 1);
    put_with(&fixture, (struct put_request){
                           .key = bytes_from_text("k"), .lease_id = 2, .ignore_value = true});
    assert_value(find(&fixture, "k"), "v");
    assert_int_equal(keys_of(&fixture, 1), 0);
    assert_int_equal(keys_of(&fixture, 2), 1);
    put_with(&fixture, (struct put_request){.key = bytes_from_text("k"),
                                            .value = bytes_from_text("w"),
                                            .ignore_lease = true});
    assert_value(find(&fixture, "k"), "w");
    assert_int_equal(find(&fixture, "k")->lease_id, 2);
    assert_int_equal(keys_of(&fixture, 2), 1);
    put_with(&fixture, (struct put_request){.key = bytes_from_text("k"),
                                            .ignore_lease = true,
                                            .ignore_value = true});
    assert_value(find(&fixture, "k"), "w");
    assert_int_equal(find(&fixture, "k")->version, 4);
    assert_int_equal(keys_of(&fixture, 2), 1);
    fixture_clear(&fixture);
}

/* etcd looks for the lease first when a put stands alone, and for the key first in a
 * transaction. */
static void a_put_that_lacks_both_key_and_lease_tells_what_etcd_tells(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct put_request lacking = {
        .key = bytes_from_text("none"), .lease_id = 99, .ignore_value = true};
    assert_int_equal(put_with(&fixture, lacking).status, STATUS_LEASE_NOT_FOUND);
    struct operation success[] = {{.type = OPERATION_PUT, .put = lacking}};
    assert_int_equal(run(&fixture, NULL, 0, success, 1, NULL, 0).status, STATUS_KEY_NOT_FOUND);
    fixture_clear(&fixture);
}

static bool is_read_only(struct operation operation) {
    return txn_is_read_only(&operation.txn);
}

static void a_txn_of_ranges_is_read_only(void **state) {
    struct operation get = op_get("a", "", 0);
    struct operation write = op_put("a", "", 0);
    struct operation inner_get = op_txn(NULL, 0, &get, 1, NULL, 0);
    struct operation inner_write = op_txn(NULL, 0, NULL, 0, &write, 1);
    struct txn_request empty = {0};
    assert_true(txn_is_read_only(&empty));
    assert_true(is_read_only(op_txn(NULL, 0, &get, 1, &get, 1)));
    assert_true(is_read_only(op_txn(NULL, 0, &inner_get, 1, NULL, 0)));
    assert_false(is_read_only(op_txn(NULL, 0, &get, 1, &write, 1)));
    assert_false(is_read_only(op_txn(NULL, 0, &inner_write, 1, NULL, 0)));
    struct operation delete = op_del("a", "");
    assert_false(is_read_only(op_txn(NULL, 0, &delete, 1, NULL, 0)));
}

static void assert_same_ranges(const struct txn_outcome *one, const struct txn_outcome *other) {
    assert_int_equal(one->succeeded, other->succeeded);
    assert_int_equal(one->n_outcomes, other->n_outcomes);
    for (size_t i = 0; i < one->n_outcomes; i++) {
        const struct operation_outcome *a = &one->outcomes[i];
        const struct operation_outcome *b = &other->outcomes[i];
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->revision, b->revision);
        if (a->type == OPERATION_TXN) {
            assert_same_ranges(&a->txn, &b->txn);
            continue;
        }
        assert_int_equal(a->range.count, b->range.count);
        assert_int_equal(a->range.n_records, b->range.n_records);
        for (size_t j = 0; j < a->range.n_records; j++) {
            assert_ptr_equal(a->range.records[j], b->range.records[j]);
        }
    }
}

/* As the store does while the view is open, and as it did when the store has gone on. */
static void a_view_is_read_as_its_store(void **state) {
    (void)state;
    enum { KEYS = 1000 };
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, KEYS);
    put(&fixture, "k000500", "changed", 0);
    struct compare compares[] = {number_is("k", COMPARE_VERSION, COMPARE_GREATER, 0),
                                 value_is("k000500", COMPARE_EQUAL, "changed"),
                                 number_is("missing", COMPARE_CREATE, COMPARE_EQUAL, 0)};
    compares[0].range_end = bytes_from_text("l");
    struct operation inner[] = {op_get("k000500", "", 0), op_get("k", "l", 0)};
    inner[1].range.order = SORT_DESCENDING;
    inner[1].range.target = SORT_BY_VALUE;
    inner[1].range.limit = 3;
    struct operation operations[] = {op_get("k", "l", 0), op_get("missing", "", 0),
                                     op_txn(compares, 2, inner, 2, inner, 1)};
    struct key_store *keys = state_machine_keys(fixture.machine);
    for (size_t n_compares = 0; n_compares <= 3; n_compares++) {
        for (size_t n = 0; n <= 3; n++) {
            const struct txn_request request = {.n_compares = n_compares,
                                                .compares = compares,
                                                .n_success = n,
                                                .success = operations,
                                                .n_failure = n > 0,
                                                .failure = inner};
            struct txn_outcome before;
            struct txn_outcome after;
            struct key_view *view = key_view_open(keys);
            assert_int_equal(txn_read(keys, KEY_SPACE_ETCD, &request, &fixture.arena, &before),
                             STATUS_OK);
            put(&fixture, "k000500", "changed", 0);
            put(&fixture, "k0005", "new", 0);
            del(&fixture, "k000700", "");
            struct arena arena;
            arena_init(&arena);
            assert_int_equal(txn_read_view(view, KEY_SPACE_ETCD, &request, &arena, &after),
                             STATUS_OK);
            assert_same_ranges(&before, &after);
            arena_clear(&arena);
            key_view_close(view);
        }
    }
    fixture_clear(&fixture);
}

static void a_view_refuses_what_its_store_refuses(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    put_numbered(&fixture, 1000);
    struct key_store *keys = state_machine_keys(fixture.machine);
    assert_int_equal(key_store_compact(keys, key_store_revision(keys)), STATUS_OK);
    struct key_view *view = key_view_open(keys);
    enum { MANY = KEY_WORK_TXN_MAX / 1000 + 1 };
    static struct operation many[MANY];
    for (size_t i = 0; i < MANY; i++) {
        many[i] = op_get("k", "l", 0);
    }
    struct operation old = op_get("k", "l", 1);
    struct operation future = op_get("k", "l", 100);
    const struct {
        struct operation *operations;
        size_t n;
        enum status status;
    } cases[] = {{many, MANY, STATUS_REQUEST_TOO_LARGE},
                 {&old, 1, STATUS_REVISION_COMPACTED},
                 {&future, 1, STATUS_REVISION_FUTURE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct txn_request request = {.success = cases[i].operations,
                                            .n_success = cases[i].n};
        struct txn_outcome outcome;
        assert_int_equal(txn_read(keys, KEY_SPACE_ETCD, &request, &fixture.arena, &outcome),
                         cases[i].status);
        assert_int_equal(txn_read_view(view, KEY_SPACE_ETCD, &request, &fixture.arena, &outcome),
                         cases[i].status);
    }
    key_view_close(view);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_is_read_as_its_store),
        cmocka_unit_test(a_view_refuses_what_its_store_refuses),
        cmocka_unit_test(numbers_compare_in_all_four_ways),
        cmocka_unit_test(values_compare_as_bytes),
        cmocka_unit_test(a_missing_key_compares_as_zero_but_has_no_value),
        cmocka_unit_test(a_range_compares_by_all_of_its_keys),
        cmocka_unit_test(comparing_everything_many_times_takes_no_memory),
        cmocka_unit_test(ranges_that_would_gather_too_much_fail_the_whole),
        cmocka_unit_test(a_transaction_that_is_too_much_work_is_refused),
        cmocka_unit_test(what_is_answered_counts_more_than_what_is_looked_at),
        cmocka_unit_test(more_keys_than_one_request_may_delete_are_left),
        cmocka_unit_test(a_lease_has_only_so_many_keys),
        cmocka_unit_test(long_keys_of_a_lease_are_bounded),
        cmocka_unit_test(counting_at_an_old_revision_is_cheap),
        cmocka_unit_test(a_named_revision_is_read_once),
        cmocka_unit_test(all_compares_must_hold),
        cmocka_unit_test(all_changes_share_one_revision),
        cmocka_unit_test(the_failing_branch_runs_when_a_compare_does_not_hold),
        cmocka_unit_test(a_txn_that_changes_nothing_takes_no_revision),
        cmocka_unit_test(each_operation_tells_the_revision_it_ran_at),
        cmocka_unit_test(nested_compares_see_the_state_before_the_transaction),
        cmocka_unit_test(a_range_inside_sees_the_changes_before_it),
        cmocka_unit_test(a_put_with_a_missing_lease_fails_the_whole),
        cmocka_unit_test(a_range_at_a_compacted_or_future_revision_fails_the_whole),
        cmocka_unit_test(keeping_what_is_not_there_fails_the_whole),
        cmocka_unit_test(what_would_fail_in_a_branch_not_taken_does_not_matter),
        cmocka_unit_test(a_put_may_keep_the_value_or_the_lease),
        cmocka_unit_test(a_put_that_lacks_both_key_and_lease_tells_what_etcd_tells),
        cmocka_unit_test(a_txn_of_ranges_is_read_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
