/* What a request writes beyond its own bytes, and what waits until history is freed. */
#include "replication_fixture.h"

/* A start applies again what is in the log. */
static void a_small_change_of_a_large_value_counts_by_what_it_writes(void **state) {
    enum { VALUE_SIZE = 1000 * 1000, PART = 4 };
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    char *value = malloc(VALUE_SIZE + 1);
    assert_non_null(value);
    memset(value, 'x', VALUE_SIZE);
    value[VALUE_SIZE] = '\0';
    struct command put = put_command("k", value, 0);
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    size_t before = node.service->snapshots.log_work;
    assert_true(before < VALUE_SIZE / PART); /* its bytes are in the log */
    struct command again = {.type = COMMAND_PUT,
                            .put = {.key = bytes_from_text("k"), .ignore_value = true}};
    assert_int_equal(run(&node, &again).status, STATUS_OK);
    assert_true(node.service->snapshots.log_work >= before + VALUE_SIZE / PART);
    free(value);
    node_close(&node);
    node_remove_dir(&node);
}

/* As while a compaction is on its way that does not come to an end. */
static void press_history(struct node *node) {
    struct command put = put_command("pressed", "some value", 0);
    assert_int_equal(run(node, &put).status, STATUS_OK);
    assert_int_equal(run(node, &put).status, STATUS_OK);
    node->service->options.compacts_history = true;
    node->service->quota.history_bytes_max = 0;
    node->service->quota.is_compacting = true;
    assert_int_equal(service_history_pressure(node->service), HISTORY_PRESSURE_HIGH);
}

static void what_one_request_keeps_does_not_keep_others_out(void **state) {
    enum { VALUE_SIZE = 1000 * 1000, KEYS = 6, MOST_US = 200 * 1000 };
    static const char *const names[KEYS] = {"a", "b", "c", "d", "e", "f"};
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    char *value = malloc(VALUE_SIZE + 1);
    assert_non_null(value);
    memset(value, 'x', VALUE_SIZE);
    value[VALUE_SIZE] = '\0';
    struct operation keeping[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        struct command put = put_command(names[i], value, 0);
        assert_int_equal(run(&node, &put).status, STATUS_OK);
        keeping[i] = (struct operation){
            .type = OPERATION_PUT, .put = {.key = bytes_from_text(names[i]), .ignore_value = true}};
    }
    struct command txn = {.type = COMMAND_TXN, .txn = {.n_success = 1, .success = keeping}};
    size_t one = quota_work_of_kept(node.service, &txn);
    assert_true(one > 0);
    assert_true(one < PROPOSALS_WORK_MAX / 2);
    /* What another branch brings does not hide it. */
    struct operation bringing = {
        .type = OPERATION_PUT,
        .put = {.key = bytes_from_text("longer than those"), .value = bytes_of(value, VALUE_SIZE)}};
    txn.txn.n_failure = 1;
    txn.txn.failure = &bringing;
    assert_int_equal(quota_work_of_kept(node.service, &txn), one);
    txn.txn.n_success = KEYS;
    assert_int_equal(quota_work_of_kept(node.service, &txn), PROPOSALS_WORK_MAX / 2);
    press_history(&node);
    assert_int_equal(quota_check(node.service, &txn), STATUS_OK);
    assert_int_equal(quota_check(node.service, &txn), STATUS_TOO_MANY_REQUESTS);
    assert_true(node.service->quota.kept_until_us <= clock_boottime_ms() * 1000 + MOST_US);
    free(value);
    node_close(&node);
    node_remove_dir(&node);
}

/* Nothing is freed until then, so a second one would find the first still there. */
static void a_request_that_keeps_much_waits_for_the_end_of_a_snapshot(void **state) {
    enum { LARGE = 1000 * 1000, SMALL = 1000 };
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    static char value[LARGE + 1];
    memset(value, 'x', LARGE);
    struct command put_large = put_command("large", value, 0);
    struct command put_small = put_command("small", value + LARGE - SMALL, 0);
    assert_int_equal(run(&node, &put_large).status, STATUS_OK);
    assert_int_equal(run(&node, &put_small).status, STATUS_OK);
    struct command large = {.type = COMMAND_PUT,
                            .put = {.key = bytes_from_text("large"), .ignore_value = true}};
    struct command small = {.type = COMMAND_PUT,
                            .put = {.key = bytes_from_text("small"), .ignore_value = true}};
    press_history(&node);
    node.service->options.log_bytes_max = 1000;
    node.service->snapshots.log_bytes = LARGE;
    snapshots_poll(node.service);
    assert_true(snapshots_are_read(node.service));
    assert_int_equal(quota_check(node.service, &large), STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(quota_check(node.service, &small), STATUS_OK);
    while (snapshots_are_read(node.service)) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    assert_int_equal(service_history_pressure(node.service), HISTORY_PRESSURE_HIGH);
    assert_int_equal(quota_check(node.service, &large), STATUS_OK);
    node.service->quota.is_compacting = false;
    node_close(&node);
    node_remove_dir(&node);
}

/* More than one batch of leases with long keys is due, and history is not freed. */
static void leases_with_long_keys_are_not_in_the_way_of_others(void **state) {
    enum { LEASES = EXPIRY_BATCH_MAX + 100, KEY_SIZE = 1100, FIRST = 1000, OTHER = 7 };
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    press_history(&node);
    static struct waiter waiters[LEASES];
    for (int i = 0; i < LEASES; i++) {
        struct command grant = grant_command(FIRST + i, 3600 * 1000);
        submit(&node, &waiters[i], &grant);
    }
    wait_for(&node, &waiters[LEASES - 1].done);
    char key[KEY_SIZE + 1];
    for (int i = 0; i < LEASES; i++) {
        snprintf(key, sizeof key, "%0*d", KEY_SIZE, i);
        struct command put = put_command(key, "", FIRST + i);
        submit(&node, &waiters[i], &put);
    }
    wait_for(&node, &waiters[LEASES - 1].done);
    struct lease_table *leases = state_machine_leases(node.service->machine);
    assert_int_equal(lease_table_long_keys(leases, FIRST), KEY_SIZE + 1);
    struct command other = grant_command(OTHER, 300);
    assert_int_equal(run(&node, &other).status, STATUS_OK);
    uint64_t began_ms = clock_boottime_ms();
    for (int i = 0; i < LEASES; i++) {
        lease_table_set_ttl(leases, FIRST + i, 200, expiry_now_ms(node.service));
    }
    struct lease_facts facts;
    while (lease_table_find(leases, OTHER, &facts) && clock_boottime_ms() < began_ms + 5000) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    assert_false(lease_table_find(leases, OTHER, &facts));
    assert_true(clock_boottime_ms() < began_ms + 1300);
    while (lease_table_count(leases) > 0 && clock_boottime_ms() < began_ms + 10000) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    assert_int_equal(lease_table_count(leases), 0);
    assert_int_equal(service_history_pressure(node.service), HISTORY_PRESSURE_HIGH);
    /* At their pace: 2.3 MB at 16 KiB in a millisecond. */
    assert_true(clock_boottime_ms() >= began_ms + 200 + 100);
    node.service->quota.is_compacting = false;
    node_close(&node);
    node_remove_dir(&node);
}

enum { OLDEST = 1000000, NEWER = 1000, N_NEWER = 40, LONG_KEY_SIZE = 100 * 1000 };

/* The oldest one has the highest id. */
static void grant_with_long_keys(struct node *node) {
    static char key[LONG_KEY_SIZE + 1];
    for (int i = 0; i <= N_NEWER; i++) {
        int64_t id = i < N_NEWER ? NEWER + i : OLDEST;
        struct command grant = grant_command(id, 3600 * 1000);
        assert_int_equal(run(node, &grant).status, STATUS_OK);
        snprintf(key, sizeof key, "%0*d", LONG_KEY_SIZE, i);
        struct command put = put_command(key, "", id);
        assert_int_equal(run(node, &put).status, STATUS_OK);
    }
    press_history(node);
}

static void let_them_end(struct node *node, int64_t oldest_ms, int64_t newer_ms) {
    struct lease_table *leases = state_machine_leases(node->service->machine);
    uint64_t now_ms = expiry_now_ms(node->service);
    lease_table_set_ttl(leases, OLDEST, oldest_ms, now_ms);
    for (int i = 0; i < N_NEWER; i++) {
        lease_table_set_ttl(leases, NEWER + i, newer_ms, now_ms);
    }
}

static void the_oldest_ends_first(struct node *node) {
    struct lease_table *leases = state_machine_leases(node->service->machine);
    struct lease_facts facts;
    uint64_t end_ms = clock_boottime_ms() + 10000;
    while (lease_table_find(leases, OLDEST, &facts) && clock_boottime_ms() < end_ms) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
    assert_int_equal(lease_table_count(leases), N_NEWER);
    while (lease_table_count(leases) > 0 && clock_boottime_ms() < end_ms) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
    assert_int_equal(lease_table_count(leases), 0);
    node->service->quota.is_compacting = false;
}

static void the_lease_that_is_due_for_longest_ends_first(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    grant_with_long_keys(&node);
    let_them_end(&node, 50, 100);
    node.service->expiry.pause_until_ms = expiry_now_ms(node.service) + 200;
    the_oldest_ends_first(&node);
    node_close(&node);
    node_remove_dir(&node);
}

/* It waits behind many others when it is met first. */
static void leases_that_are_due_later_do_not_overtake_the_oldest(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    grant_with_long_keys(&node);
    let_them_end(&node, 50, 300);
    uint64_t now_us = expiry_now_ms(node.service) * 1000;
    node.service->expiry.long_until_us = now_us + 200 * 1000;
    node.service->expiry.put_off_us = now_us + 1500 * 1000;
    the_oldest_ends_first(&node);
    node_close(&node);
    node_remove_dir(&node);
}

/* However much has ended just before. */
static void leases_that_wait_end_soon_after_the_pressure(void **state) {
    enum { PRESSED_MS = 200, SOON_MS = 10 * 1000, TAKES_MS = 60 * 1000 };
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    grant_with_long_keys(&node);
    let_them_end(&node, 1, 1);
    uint64_t began_ms = clock_boottime_ms();
    node.service->expiry.long_until_us = (expiry_now_ms(node.service) + TAKES_MS) * 1000;
    while (clock_boottime_ms() < began_ms + PRESSED_MS) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    struct lease_table *leases = state_machine_leases(node.service->machine);
    assert_int_equal(lease_table_count(leases), N_NEWER + 1);
    node.service->options.compacts_history = false;
    while (lease_table_count(leases) > 0 && clock_boottime_ms() < began_ms + SOON_MS) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    assert_int_equal(lease_table_count(leases), 0);
    node.service->quota.is_compacting = false;
    node_close(&node);
    node_remove_dir(&node);
}

/* Nothing is freed meanwhile. */
static void long_keys_end_more_slowly_while_the_state_is_read(void **state) {
    enum { ENDS = 8, LEAST_MS = (ENDS - 2) * LONG_KEY_SIZE / (4 * 1024) };
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    grant_with_long_keys(&node);
    struct lease_table *leases = state_machine_leases(node.service->machine);
    node.service->snapshots.view = snapshot_view_open(node.service->machine);
    assert_true(snapshots_are_read(node.service));
    uint64_t began_ms = clock_boottime_ms();
    let_them_end(&node, 1, 1);
    while (lease_table_count(leases) > N_NEWER + 1 - ENDS) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    assert_true(clock_boottime_ms() >= began_ms + LEAST_MS);
    snapshot_view_close(node.service->snapshots.view);
    node.service->snapshots.view = NULL;
    node.service->quota.is_compacting = false;
    node_close(&node);
    node_remove_dir(&node);
}

/* Nothing is freed while the view of a snapshot is open. */
static void history_is_freed_before_the_next_snapshot(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct command put = put_command("k", "some value", 0);
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    node.service->options.log_bytes_max = 1000;
    node.service->snapshots.log_work = 0;
    node.service->snapshots.log_bytes = 1001;
    node.service->background.is_reclaiming = true;
    snapshots_poll(node.service);
    assert_false(raft_node_is_taking_snapshot(node.service->node));
    node.service->snapshots.log_bytes = 2001;
    snapshots_poll(node.service);
    assert_true(raft_node_is_taking_snapshot(node.service->node));
    node_close(&node);
    node_remove_dir(&node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_change_of_a_large_value_counts_by_what_it_writes),
        cmocka_unit_test(what_one_request_keeps_does_not_keep_others_out),
        cmocka_unit_test(a_request_that_keeps_much_waits_for_the_end_of_a_snapshot),
        cmocka_unit_test(leases_with_long_keys_are_not_in_the_way_of_others),
        cmocka_unit_test(the_lease_that_is_due_for_longest_ends_first),
        cmocka_unit_test(leases_that_are_due_later_do_not_overtake_the_oldest),
        cmocka_unit_test(leases_that_wait_end_soon_after_the_pressure),
        cmocka_unit_test(long_keys_end_more_slowly_while_the_state_is_read),
        cmocka_unit_test(history_is_freed_before_the_next_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
