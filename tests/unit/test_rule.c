/* Rules: one revision, all or nothing, nothing beyond their bounds and spaces. */
#include "core/rule.h"

#include "core/rule_acquire.h"
#include "rule_fixture.h"

#include <cmocka.h>

static void a_counter_counts_from_one(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    assert_int_equal(count(&fixture, "a"), 1);
    assert_int_equal(count(&fixture, "a"), 2);
    assert_int_equal(count(&fixture, "b"), 1);
    const struct record *record = find_trial(&fixture, "count/a");
    assert_non_null(record);
    assert_int_equal(record->version, 2);
    assert_int_equal(record_value(record).data[7], 2);
    fixture_clear(&fixture);
}

/* Everything is as it was, to the byte. */
static void expect_refused(struct fixture *fixture, enum trial_fault fault, uint64_t n,
                           enum status status) {
    struct buffer before;
    struct buffer after;
    snapshot_of(fixture, &before);
    struct outcome outcome = run_bad(fixture, fault, n);
    assert_int_equal(outcome.status, status);
    assert_int_equal(outcome.rule.answer.size, 0);
    snapshot_of(fixture, &after);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    buffer_clear(&before);
    buffer_clear(&after);
}

static void a_rule_that_fails_half_way_changes_nothing(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    count(&fixture, "a");
    expect_refused(&fixture, TRIAL_FAILS_HALF_WAY, 0, STATUS_KEY_NOT_FOUND);
    expect_refused(&fixture, TRIAL_FAILS_AFTER_PUTS, 100, STATUS_KEY_NOT_FOUND);
    fixture_clear(&fixture);
}

static void put_many(struct fixture *fixture, size_t n) {
    struct key_store *keys = state_machine_keys(fixture->machine);
    key_store_begin(keys);
    for (size_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "many/%08zu", i);
        key_store_put(keys, TRIAL_SPACE, bytes_from_text(key), bytes_from_text("v"), 0, NULL);
    }
    key_store_end(keys);
}

/* Whoever takes the ids that come next keeps nobody from being granted a lease. */
static void a_row_of_leases_is_in_nobodys_way(void **state) {
    enum { N = 2 * RULE_RECORDS_MAX };
    struct fixture fixture;
    rule_fixture_init(&fixture);
    int64_t id = lock(&fixture, "a", 0, 1000).lease_id;
    struct lease_table *leases = state_machine_leases(fixture.machine);
    for (int64_t i = 1; i <= N; i++) {
        /* As each grant counts, the next that is chosen is so many further. */
        struct lease_facts facts = {.id = id + N + i, .ttl_ms = 1000, .owner = KEY_SPACE_ETCD};
        assert_int_equal(lease_table_grant(leases, &facts, 0), STATUS_OK);
    }
    assert_true(lock(&fixture, "b", 0, 1000).is_held);
    fixture_clear(&fixture);
}

static void a_rule_that_exceeds_a_bound_is_refused(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    put_many(&fixture, RULE_RECORDS_MAX + 1);
    const enum status too_large = STATUS_REQUEST_TOO_LARGE;
    expect_refused(&fixture, TRIAL_LOOKS_AT, RULE_RECORDS_MAX, too_large);
    expect_refused(&fixture, TRIAL_CHANGES, RULE_CHANGES_MAX + 1, too_large);
    expect_refused(&fixture, TRIAL_WRITES, RULE_BYTES_MAX, too_large);
    expect_refused(&fixture, TRIAL_ANSWERS, RULE_ANSWER_SIZE_MAX + 1, too_large);
    /* And none that stays within them. */
    assert_int_equal(run_bad(&fixture, TRIAL_LOOKS_AT, RULE_RECORDS_MAX - 1).status, STATUS_OK);
    assert_int_equal(run_bad(&fixture, TRIAL_CHANGES, RULE_CHANGES_MAX).status, STATUS_OK);
    assert_int_equal(run_bad(&fixture, TRIAL_WRITES, RULE_BYTES_MAX - 5).status, STATUS_OK);
    struct outcome outcome = run_bad(&fixture, TRIAL_ANSWERS, RULE_ANSWER_SIZE_MAX);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.rule.answer.size, RULE_ANSWER_SIZE_MAX);
    fixture_clear(&fixture);
}

static void a_rule_that_breaks_the_interface_is_refused(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    count(&fixture, "a");
    put(&fixture, "k", "etcd's", 0);
    assert_int_equal(grant(&fixture, 7, 1000).status, STATUS_OK);
    expect_refused(&fixture, TRIAL_LEAVES_ITS_SPACE, 0, STATUS_INVALID);
    expect_refused(&fixture, TRIAL_READS_OTHERS, 0, STATUS_INVALID);
    expect_refused(&fixture, TRIAL_PUTS_WHILE_VISITING, 0, STATUS_INVALID);
    expect_refused(&fixture, TRIAL_ATTACHES_TO_NOTHING, 99, STATUS_LEASE_NOT_FOUND);
    /* The lease of another space is none. */
    expect_refused(&fixture, TRIAL_ATTACHES_TO_NOTHING, 7, STATUS_LEASE_NOT_FOUND);
    assert_int_equal(end_by_rule(&fixture, 7), STATUS_LEASE_NOT_FOUND);
    fixture_clear(&fixture);
}

static void a_rule_waits_for_the_version_of_the_cluster(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    state_machine_destroy(fixture.machine);
    fixture.machine = state_machine_create(&(struct state_machine_options){.rules = &trial_rules});
    struct buffer request;
    buffer_init(&request);
    trial_request_name(&request, "a");
    assert_int_equal(run_rule(&fixture, TRIAL_COUNT, &request).status, STATUS_UNSUPPORTED);
    assert_int_equal(count_space(&fixture, TRIAL_SPACE), 0);
    fixture_clear(&fixture);

    rule_fixture_init(&fixture);
    trial_request_name(&request, "a");
    assert_int_equal(run_rule(&fixture, TRIAL_LATER, &request).status, STATUS_UNSUPPORTED);
    fixture_clear(&fixture);
}

static void what_a_newer_release_proposed_is_not_known(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    struct command command = {.type = COMMAND_RULE, .rule = {.number = TRIAL_COUNT}};
    assert_true(state_machine_knows(fixture.machine, &command));
    command.rule.number = 1;
    assert_false(state_machine_knows(fixture.machine, &command));
    command = (struct command){.type = COMMAND_CLUSTER_VERSION,
                               .cluster_version = {.version = CLUSTER_VERSION_KNOWN + 1}};
    assert_false(state_machine_knows(fixture.machine, &command));
    fixture_clear(&fixture);
}

static void all_changes_of_a_rule_are_one_revision(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    int64_t before = revision(&fixture);
    lock(&fixture, "a", 5, 1000);
    assert_int_equal(revision(&fixture), before + 1);
    lock(&fixture, "a", 6, 1000); /* the queue: a counter and a place */
    assert_int_equal(revision(&fixture), before + 2);
    fixture_clear(&fixture);
}

static void chosen_ids_differ_and_tokens_grow(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    struct trial_locked first = lock(&fixture, "a", 0, 1000);
    assert_int_not_equal(first.lease_id, 0);
    struct trial_locked second = lock(&fixture, "b", 0, 1000);
    assert_int_not_equal(second.lease_id, first.lease_id);
    assert_true(second.token > first.token);
    assert_int_equal(find_trial(&fixture, "holder/b")->create_revision, second.token);
    fixture_clear(&fixture);
}

static void a_full_state_refuses_rules_that_add_to_it(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    struct trial_locked locked = lock(&fixture, "a", 0, 1000);
    alarm_change(&fixture, true, 1, ALARM_NO_SPACE);
    expect_refused(&fixture, TRIAL_CHANGES, 1, STATUS_NO_SPACE);
    /* Letting go makes room. */
    assert_int_equal(unlock(&fixture, "a", locked.lease_id), STATUS_OK);
    assert_int_equal(end_by_rule(&fixture, locked.lease_id), STATUS_OK);
    fixture_clear(&fixture);
}

static void a_malformed_request_changes_nothing(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    struct buffer request;
    buffer_init(&request);
    trial_request_name(&request, "a");
    buffer_put_u8(&request, 1);
    assert_int_equal(run_rule(&fixture, TRIAL_COUNT, &request).status, STATUS_MALFORMED);
    assert_int_equal(run_rule(&fixture, TRIAL_COUNT, &request).status, STATUS_MALFORMED);
    assert_int_equal(count_space(&fixture, TRIAL_SPACE), 0);
    fixture_clear(&fixture);
}

static void command_check_knows_the_bounds_of_a_rule(void **state) {
    struct command command = {.type = COMMAND_RULE};
    assert_int_equal(command_check(&command), STATUS_INVALID);
    command.rule.number = TRIAL_COUNT;
    assert_int_equal(command_check(&command), STATUS_OK);
    command.rule.request = bytes_of("", RULE_REQUEST_SIZE_MAX + 1);
    assert_int_equal(command_check(&command), STATUS_REQUEST_TOO_LARGE);
}

static void leases_of_rules_run_out_on_the_leader(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    fixture.context.now_ms = 1000;
    lease_table_lead(leases, 1000);
    struct trial_locked locked = lock(&fixture, "a", 0, 500);
    int64_t remaining_ms;
    assert_int_equal(lease_table_remaining(leases, locked.lease_id, 1200, &remaining_ms),
                     STATUS_OK);
    assert_int_equal(remaining_ms, 301);
    fixture_clear(&fixture);
}

/* --- Grant and acquire. --- */

static struct outcome acquire(struct fixture *fixture, const char *key, int64_t lease_id) {
    struct buffer request;
    buffer_init(&request);
    buffer_put_bytes(&request, bytes_from_text(key));
    buffer_put_bytes(&request, bytes_from_text("me"));
    buffer_put_zigzag(&request, lease_id);
    buffer_put_varint(&request, 1000);
    return run_rule(fixture, RULE_NATIVE_ACQUIRE, &request);
}

static void granting_and_acquiring_is_one_entry(void **state) {
    struct fixture fixture;
    struct trial_locked first;
    struct trial_locked second;
    rule_fixture_init(&fixture);
    struct outcome outcome = acquire(&fixture, "k", 0);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(trial_answer_locked(outcome.rule.answer, &first)); /* the same encoding */
    assert_true(first.is_held);
    assert_int_equal(first.token, revision(&fixture));
    assert_int_equal(keys_of(&fixture, first.lease_id), 1);
    /* Another one learns whose it is, and no lease is left behind. */
    outcome = acquire(&fixture, "k", 0);
    assert_true(trial_answer_locked(outcome.rule.answer, &second));
    assert_false(second.is_held);
    assert_int_equal(second.token, first.token);
    assert_int_equal(second.lease_id, first.lease_id);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 1);
    /* The holder may ask again. */
    outcome = acquire(&fixture, "k", first.lease_id);
    assert_true(trial_answer_locked(outcome.rule.answer, &second));
    assert_true(second.is_held);
    assert_int_equal(second.token, first.token);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_counts_from_one),
        cmocka_unit_test(a_rule_that_fails_half_way_changes_nothing),
        cmocka_unit_test(a_row_of_leases_is_in_nobodys_way),
        cmocka_unit_test(a_rule_that_exceeds_a_bound_is_refused),
        cmocka_unit_test(a_rule_that_breaks_the_interface_is_refused),
        cmocka_unit_test(a_rule_waits_for_the_version_of_the_cluster),
        cmocka_unit_test(what_a_newer_release_proposed_is_not_known),
        cmocka_unit_test(all_changes_of_a_rule_are_one_revision),
        cmocka_unit_test(chosen_ids_differ_and_tokens_grow),
        cmocka_unit_test(a_full_state_refuses_rules_that_add_to_it),
        cmocka_unit_test(a_malformed_request_changes_nothing),
        cmocka_unit_test(command_check_knows_the_bounds_of_a_rule),
        cmocka_unit_test(leases_of_rules_run_out_on_the_leader),
        cmocka_unit_test(granting_and_acquiring_is_one_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
