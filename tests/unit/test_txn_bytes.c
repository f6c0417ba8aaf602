/* What transactions, puts and deletions of large values are in work. */
#include "core/txn.h"
#include "core/txn_estimate.h"

#include "state_machine_fixture.h"

enum { SIZE = 1000 * 1000, COPY = SIZE / KEY_WORK_COPIED_BYTES };

static uint8_t value[SIZE];

struct counted {
    struct fixture fixture;
    struct txn_target target;
    size_t work;
};

static void put_large(struct counted *counted, const char *key, size_t size) {
    struct key_store *keys = counted->target.keys;
    key_store_begin(keys);
    key_store_put(keys, KEY_SPACE_ETCD, bytes_from_text(key), bytes_of(value, size), 0, NULL);
    key_store_end(keys);
}

static void counted_init(struct counted *counted) {
    fixture_init(&counted->fixture);
    counted->work = 0;
    counted->target = (struct txn_target){.keys = state_machine_keys(counted->fixture.machine),
                                          .leases = state_machine_leases(counted->fixture.machine),
                                          .space = KEY_SPACE_ETCD,
                                          .is_counted = true,
                                          .work = &counted->work};
}

static enum status run(struct counted *counted, struct operation *operations, size_t n) {
    const struct txn_request request = {.n_success = n, .success = operations};
    struct txn_outcome outcome;
    counted->work = 0;
    return txn_run(&counted->target, &request, &counted->fixture.arena, &outcome);
}

static size_t estimate(const struct counted *counted, struct operation *operations, size_t n) {
    const struct txn_request request = {.n_success = n, .success = operations};
    return txn_estimate(counted->target.keys, KEY_SPACE_ETCD, &request);
}

static bool exists(const struct counted *counted, const char *key) {
    return key_store_find(counted->target.keys, KEY_SPACE_ETCD, bytes_from_text(key)) != NULL;
}

enum { GETS = 40, GETS_ALLOWED = 33 };

static void gets_of(struct operation operations[GETS + 1], const char *key) {
    operations[0] = (struct operation){.type = OPERATION_PUT, .put = {.key = bytes_from_text("x")}};
    for (size_t i = 1; i <= GETS; i++) {
        operations[i] =
            (struct operation){.type = OPERATION_RANGE, .range = {.key = bytes_from_text(key)}};
    }
}

static void an_answer_that_is_too_large_is_refused_before_anything_changes(void **state) {
    struct counted counted;
    counted_init(&counted);
    put_large(&counted, "k", SIZE);
    struct operation operations[GETS + 1];
    gets_of(operations, "k");
    assert_int_equal(run(&counted, operations, GETS + 1), STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(counted.work, KEY_WORK_TXN_MAX);
    assert_false(exists(&counted, "x"));
    assert_true(estimate(&counted, operations, GETS + 1) >= KEY_WORK_TXN_MAX);
    assert_int_equal(run(&counted, operations, GETS_ALLOWED + 1), STATUS_OK);
    assert_true(counted.work >= GETS_ALLOWED * COPY);
    assert_true(exists(&counted, "x"));
    /* What is not shown does not count. */
    for (size_t i = 1; i <= GETS; i++) {
        operations[i].range.keys_only = true;
    }
    assert_true(estimate(&counted, operations, GETS + 1) < COPY);
    assert_int_equal(run(&counted, operations, GETS + 1), STATUS_OK);
    assert_true(counted.work < COPY);
    /* A cluster of version 2 does as release 0.2 does. */
    gets_of(operations, "k");
    counted.target.is_counted = false;
    assert_int_equal(run(&counted, operations, GETS + 1), STATUS_OK);
    assert_int_equal(counted.work, 0);
    fixture_clear(&counted.fixture);
}

static void what_a_transaction_writes_counts_where_it_shows_it(void **state) {
    struct counted counted;
    counted_init(&counted);
    struct operation operations[GETS + 1];
    gets_of(operations, "x");
    operations[0].put.value = bytes_of(value, SIZE);
    assert_int_equal(run(&counted, operations, GETS + 1), STATUS_REQUEST_TOO_LARGE);
    assert_false(exists(&counted, "x"));
    for (size_t i = 1; i <= GETS; i++) {
        operations[i].range.range_end = bytes_from_text("x1");
    }
    assert_int_equal(run(&counted, operations, GETS + 1), STATUS_REQUEST_TOO_LARGE);
    for (size_t i = 1; i <= GETS; i++) {
        operations[i].range.key = bytes_from_text("x0");
    }
    assert_int_equal(run(&counted, operations, GETS + 1), STATUS_OK);
    fixture_clear(&counted.fixture);
}

static void a_value_that_is_kept_and_a_record_that_is_answered_count(void **state) {
    struct counted counted;
    counted_init(&counted);
    put_large(&counted, "k", SIZE);
    struct put_request put = {.key = bytes_from_text("k"), .ignore_value = true};
    struct put_outcome outcome;
    assert_int_equal(txn_put(&counted.target, &put, &outcome), STATUS_OK);
    assert_int_equal(counted.work, COPY);
    assert_true(put_estimate(counted.target.keys, KEY_SPACE_ETCD, &put) >= COPY);
    struct operation operation = {.type = OPERATION_PUT, .put = put};
    assert_true(estimate(&counted, &operation, 1) >= COPY);
    assert_int_equal(run(&counted, &operation, 1), STATUS_OK);
    assert_int_equal(counted.work, COPY);
    put = (struct put_request){.key = bytes_from_text("k"), .want_previous = true};
    counted.work = 0;
    assert_true(put_estimate(counted.target.keys, KEY_SPACE_ETCD, &put) >= COPY);
    assert_int_equal(txn_put(&counted.target, &put, &outcome), STATUS_OK);
    assert_int_equal(counted.work, COPY);
    /* What it brings along is counted as bytes. */
    put = (struct put_request){.key = bytes_from_text("k"), .value = bytes_of(value, SIZE)};
    counted.work = 0;
    assert_int_equal(put_estimate(counted.target.keys, KEY_SPACE_ETCD, &put), 0);
    assert_int_equal(txn_put(&counted.target, &put, &outcome), STATUS_OK);
    assert_int_equal(counted.work, 0);
    fixture_clear(&counted.fixture);
}

static void previous_values_of_a_deletion_count(void **state) {
    struct counted counted;
    counted_init(&counted);
    for (unsigned i = 0; i < GETS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%02u", i);
        put_large(&counted, key, SIZE);
    }
    struct delete_request all = {
        .key = bytes_from_text("k"), .range_end = bytes_from_text("l"), .want_previous = true};
    struct delete_outcome outcome;
    struct operation operation = {.type = OPERATION_DELETE, .delete = all};
    assert_true(delete_estimate(counted.target.keys, KEY_SPACE_ETCD, &all) >= KEY_WORK_TXN_MAX);
    assert_int_equal(txn_delete(&counted.target, &all, &counted.fixture.arena, &outcome),
                     STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(run(&counted, &operation, 1), STATUS_REQUEST_TOO_LARGE);
    assert_true(exists(&counted, "k00"));
    all.want_previous = false;
    assert_int_equal(txn_delete(&counted.target, &all, &counted.fixture.arena, &outcome),
                     STATUS_OK);
    assert_int_equal(outcome.deleted, GETS);
    fixture_clear(&counted.fixture);
}

static void long_keys_that_are_deleted_count(void **state) {
    struct counted counted;
    counted_init(&counted);
    static char key[SIZE];
    memset(key, 'k', sizeof key - 1);
    for (unsigned i = 0; i < GETS; i++) {
        snprintf(key + SIZE - 8, 8, "%07u", i);
        put_large(&counted, key, 1);
    }
    const struct delete_request all = {.key = bytes_from_text("k"),
                                       .range_end = bytes_from_text("l")};
    struct delete_outcome outcome;
    assert_true(delete_estimate(counted.target.keys, KEY_SPACE_ETCD, &all) >= KEY_WORK_TXN_MAX);
    assert_int_equal(txn_delete(&counted.target, &all, &counted.fixture.arena, &outcome),
                     STATUS_REQUEST_TOO_LARGE);
    struct operation operation = {.type = OPERATION_DELETE, .delete = all};
    assert_int_equal(run(&counted, &operation, 1), STATUS_REQUEST_TOO_LARGE);
    counted.target.is_counted = false;
    assert_int_equal(txn_delete(&counted.target, &all, &counted.fixture.arena, &outcome),
                     STATUS_OK);
    assert_int_equal(outcome.deleted, GETS);
    fixture_clear(&counted.fixture);
}

/* Whoever lets the estimate look at many records first cannot hide them behind those. */
static void long_keys_count_behind_many_that_were_looked_at(void **state) {
    enum { TINY = 8 * 1024, LONG_SIZE = 100 * 1000 };
    struct counted counted;
    counted_init(&counted);
    char key[16];
    for (int i = 0; i < TINY; i++) {
        snprintf(key, sizeof key, "/tiny/%05d", i);
        put_large(&counted, key, 1);
    }
    static char long_key[LONG_SIZE + 1];
    memset(long_key, 'z', LONG_SIZE);
    put_large(&counted, long_key, 0);
    put_large(&counted, "zz", 0);
    struct operation operations[] = {
        {.type = OPERATION_RANGE,
         .range = {.key = bytes_from_text("/tiny/"),
                   .range_end = bytes_from_text("/tiny0"),
                   .limit = 1,
                   .order = SORT_ASCENDING,
                   .target = SORT_BY_VALUE}},
        {.type = OPERATION_DELETE,
         .delete = {.key = bytes_from_text("z"), .range_end = bytes_from_text("{")}},
    };
    const struct txn_request request = {.n_success = 2, .success = operations};
    const size_t least = LONG_SIZE / KEY_WORK_COPIED_BYTES * KEY_WORK_COPIED_BYTES;
    assert_true(txn_long_keys(counted.target.keys, KEY_SPACE_ETCD, &request) >= least);
    /* Where no key is long, many that are deleted are not taken for it. */
    assert_int_equal(run(&counted, &operations[1], 1), STATUS_OK);
    assert_int_equal(key_store_long_keys(counted.target.keys), 0);
    operations[1].delete = (struct delete_request){.key = bytes_from_text("/tiny/"),
                                                   .range_end = bytes_from_text("/tiny0")};
    assert_int_equal(txn_long_keys(counted.target.keys, KEY_SPACE_ETCD, &request), 0);
    key_store_validate(counted.target.keys);
    fixture_clear(&counted.fixture);
}

static void values_that_are_sorted_or_compared_count_by_their_size(void **state) {
    enum { KEYS = 16, RANGES = 20 };
    struct counted counted;
    counted_init(&counted);
    for (unsigned i = 0; i < KEYS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%02u", i);
        put_large(&counted, key, SIZE);
    }
    struct operation operations[RANGES];
    for (size_t i = 0; i < RANGES; i++) {
        operations[i] = (struct operation){.type = OPERATION_RANGE,
                                           .range = {.key = bytes_from_text("k"),
                                                     .range_end = bytes_from_text("l"),
                                                     .order = SORT_ASCENDING,
                                                     .target = SORT_BY_VALUE,
                                                     .keys_only = true}};
    }
    assert_int_equal(run(&counted, operations, RANGES), STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(estimate(&counted, operations, RANGES) >= KEY_WORK_TXN_MAX, true);
    assert_int_equal(run(&counted, operations, 1), STATUS_OK);
    size_t sorted = KEYS * (SIZE / KEY_WORK_COMPARED_BYTES) * 4;
    assert_in_range(counted.work, sorted, sorted + 1000);
    assert_true(estimate(&counted, operations, 1) >= sorted);
    operations[0].range.target = SORT_BY_MOD;
    assert_int_equal(run(&counted, operations, 1), STATUS_OK);
    assert_true(counted.work < 1000);
    struct compare compares[RANGES];
    for (size_t i = 0; i < RANGES; i++) {
        compares[i] = (struct compare){.key = bytes_from_text("k"),
                                       .range_end = bytes_from_text("l"),
                                       .target = COMPARE_VALUE,
                                       .value = bytes_of(value, SIZE)};
    }
    struct txn_request request = {.n_compares = RANGES, .compares = compares};
    struct txn_outcome outcome;
    assert_int_equal(txn_run(&counted.target, &request, &counted.fixture.arena, &outcome),
                     STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(txn_estimate(counted.target.keys, KEY_SPACE_ETCD, &request), KEY_WORK_TXN_MAX);
    request.n_compares = 1;
    counted.work = 0;
    assert_int_equal(txn_run(&counted.target, &request, &counted.fixture.arena, &outcome),
                     STATUS_OK);
    assert_true(outcome.succeeded);
    assert_in_range(counted.work, KEYS * (SIZE / KEY_WORK_COMPARED_BYTES),
                    KEYS * (SIZE / KEY_WORK_COMPARED_BYTES) + KEYS);
    fixture_clear(&counted.fixture);
}

/* Mutex.Lock() of etcd's client: one of the branches is carried out, and both show the first of all
 * who wait. */
static void a_lock_that_many_wait_for_counts_by_those_who_wait(void **state) {
    enum { WAITERS = 8000, LARGE = 40 };
    struct counted counted;
    char key[16];
    (void)state;
    counted_init(&counted);
    for (unsigned i = 0; i < LARGE; i++) {
        snprintf(key, sizeof key, "large%02u", i);
        put_large(&counted, key, SIZE);
    }
    for (unsigned i = 0; i < WAITERS; i++) {
        snprintf(key, sizeof key, "lock/%04u", i);
        put_large(&counted, key, 0);
    }
    struct bytes own = bytes_from_text("lock/own");
    struct compare is_new = {.key = own, .target = COMPARE_CREATE};
    const struct operation first = {.type = OPERATION_RANGE,
                                    .range = {.key = bytes_from_text("lock/"),
                                              .range_end = bytes_from_text("lock0"),
                                              .limit = 1,
                                              .order = SORT_ASCENDING,
                                              .target = SORT_BY_CREATE}};
    struct operation success[] = {{.type = OPERATION_PUT, .put = {.key = own}}, first};
    struct operation failure[] = {{.type = OPERATION_RANGE, .range = {.key = own}}, first};
    const struct txn_request request = {.n_compares = 1,
                                        .compares = &is_new,
                                        .n_success = 2,
                                        .success = success,
                                        .n_failure = 2,
                                        .failure = failure};
    assert_in_range(txn_estimate(counted.target.keys, KEY_SPACE_ETCD, &request), WAITERS,
                    5 * WAITERS + 100);
    fixture_clear(&counted.fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_is_too_large_is_refused_before_anything_changes),
        cmocka_unit_test(what_a_transaction_writes_counts_where_it_shows_it),
        cmocka_unit_test(a_value_that_is_kept_and_a_record_that_is_answered_count),
        cmocka_unit_test(previous_values_of_a_deletion_count),
        cmocka_unit_test(long_keys_that_are_deleted_count),
        cmocka_unit_test(long_keys_count_behind_many_that_were_looked_at),
        cmocka_unit_test(values_that_are_sorted_or_compared_count_by_their_size),
        cmocka_unit_test(a_lock_that_many_wait_for_counts_by_those_who_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
