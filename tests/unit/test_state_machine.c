#include "core/state_machine.h"

#include "state_machine_fixture.h"

/* --- Leases and keys together. --- */

static void a_grant_changes_no_revision(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct outcome outcome = grant(&fixture, -5, 60000);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.revision, 1);
    assert_int_equal(outcome.grant.id, -5);
    assert_int_equal(outcome.grant.ttl_ms, 60000);
    assert_int_equal(grant(&fixture, -5, 1).status, STATUS_LEASE_EXISTS);
    assert_int_equal(revoke(&fixture, -5).revision, 1);
    assert_int_equal(revoke(&fixture, -5).status, STATUS_LEASE_NOT_FOUND);
    fixture_clear(&fixture);
}

static void revoking_removes_every_key_in_one_revision_in_key_order(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    put(&fixture, "z", "", 1);
    put(&fixture, "free", "", 0);
    put(&fixture, "m", "", 1);
    put(&fixture, "a", "", 1);
    put(&fixture, "mm", "", 1);
    struct outcome outcome = revoke(&fixture, 1);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.revision, 7);
    assert_changes(&fixture, 7, "-a -m -mm -z");
    assert_non_null(find(&fixture, "free"));
    assert_null(find(&fixture, "m"));
    assert_false(has_lease(&fixture, 1));
    fixture_clear(&fixture);
}

static void a_put_moves_a_key_between_leases(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    grant(&fixture, 2, 1000);
    put(&fixture, "k", "v", 1);
    assert_int_equal(keys_of(&fixture, 1), 1);
    struct outcome outcome = put(&fixture, "k", "w", 2);
    assert_value(outcome.put.previous, "v");
    assert_int_equal(outcome.put.previous->lease_id, 1);
    assert_int_equal(keys_of(&fixture, 1), 0);
    assert_int_equal(keys_of(&fixture, 2), 1);
    revoke(&fixture, 1);
    assert_non_null(find(&fixture, "k"));
    assert_int_equal(revision(&fixture), 3);
    revoke(&fixture, 2);
    assert_null(find(&fixture, "k"));
    fixture_clear(&fixture);
}

static void a_put_without_a_lease_detaches_the_key(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    put(&fixture, "k", "", 1);
    put(&fixture, "k", "", 1);
    assert_int_equal(keys_of(&fixture, 1), 1);
    put(&fixture, "k", "", 0);
    assert_int_equal(keys_of(&fixture, 1), 0);
    revoke(&fixture, 1);
    assert_int_equal(find(&fixture, "k")->version, 3);
    fixture_clear(&fixture);
}

static void a_deleted_key_is_attached_no_more(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    put(&fixture, "a", "", 1);
    put(&fixture, "b", "", 1);
    struct outcome outcome = del(&fixture, "a", "");
    assert_int_equal(outcome.delete.deleted, 1);
    assert_int_equal(outcome.delete.n_previous, 1);
    assert_int_equal(keys_of(&fixture, 1), 1);
    revoke(&fixture, 1);
    assert_changes(&fixture, 5, "-b");
    fixture_clear(&fixture);
}

static void a_put_to_a_missing_lease_changes_nothing(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "k", "old", 0);
    struct outcome outcome = put(&fixture, "k", "new", 77);
    assert_int_equal(outcome.status, STATUS_LEASE_NOT_FOUND);
    assert_int_equal(outcome.revision, 2);
    assert_value(find(&fixture, "k"), "old");
    fixture_clear(&fixture);
}

static void a_key_created_again_gets_a_larger_create_revision(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "lock", "", 0);
    int64_t token = find(&fixture, "lock")->create_revision;
    del(&fixture, "lock", "");
    put(&fixture, "lock", "", 0);
    assert_true(find(&fixture, "lock")->create_revision > token);
    assert_int_equal(find(&fixture, "lock")->version, 1);
    fixture_clear(&fixture);
}

static void a_delete_of_nothing_takes_no_revision(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct outcome outcome = del(&fixture, "a", "z");
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.delete.deleted, 0);
    assert_int_equal(outcome.revision, 1);
    fixture_clear(&fixture);
}

/* --- Expiry. --- */

static void expiring_ends_leases_each_with_its_keys(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    grant(&fixture, 2, 1000);
    grant(&fixture, 3, 1000);
    put(&fixture, "b", "", 1);
    put(&fixture, "a", "", 1);
    put(&fixture, "c", "", 3);
    struct outcome outcome = expire(&fixture, 1, (const int64_t[]){1, 2, 3}, 3);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.expire.n_ended, 3);
    assert_int_equal(outcome.revision, 6); /* the second lease had no keys */
    assert_changes(&fixture, 5, "-a -b");
    assert_changes(&fixture, 6, "-c");
    fixture_clear(&fixture);
}

static void an_expiry_of_another_term_changes_nothing(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    put(&fixture, "k", "", 1);
    fixture.context.term = 5;
    for (uint64_t term = 0; term < 10; term++) {
        if (term != 5) {
            struct outcome outcome = expire(&fixture, term, (const int64_t[]){1}, 1);
            assert_int_equal(outcome.expire.n_ended, 0);
            assert_int_equal(outcome.revision, 2);
        }
    }
    assert_true(has_lease(&fixture, 1));
    assert_int_equal(keys_of(&fixture, 1), 1);
    assert_int_equal(expire(&fixture, 5, (const int64_t[]){1}, 1).expire.n_ended, 1);
    fixture_clear(&fixture);
}

/* The leader took the lease for expiry while commands for it were on their way before. */
static void an_expiry_ends_only_the_lease_it_was_meant_for(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    const int64_t ids[] = {5, 6};
    grant(&fixture, 5, 1000);
    grant(&fixture, 6, 1000);
    const uint32_t epochs[] = {epoch_of(&fixture, 5), epoch_of(&fixture, 6)};
    revoke(&fixture, 5);
    grant(&fixture, 5, 60000);
    put(&fixture, "k", "v", 5);
    struct command longer = {.type = COMMAND_LEASE_SET_TTL, .set_ttl = {.id = 6, .ttl_ms = 60000}};
    fixture_apply(&fixture, &longer);
    assert_int_equal(expire_epochs(&fixture, fixture.context.term, ids, epochs, 2).expire.n_ended,
                     0);
    assert_non_null(find(&fixture, "k"));
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 2);
    fixture_clear(&fixture);
}

static void ids_that_are_gone_already_do_not_count(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 2, 1000);
    struct outcome outcome = expire(&fixture, 1, (const int64_t[]){1, 2, 3}, 3);
    assert_int_equal(outcome.expire.n_ended, 1);
    outcome = expire(&fixture, 1, (const int64_t[]){1, 2, 3}, 3);
    assert_int_equal(outcome.expire.n_ended, 0);
    assert_int_equal(expire(&fixture, 1, NULL, 0).expire.n_ended, 0);
    fixture_clear(&fixture);
}

static void each_end_is_listed_with_its_reason(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    fixture.context.wall_ms = 1234;
    grant(&fixture, 1, 1000);
    grant_child(&fixture, 2, 2000, 1);
    grant(&fixture, 3, 3000);
    expire(&fixture, 1, (const int64_t[]){1}, 1);
    fixture.context.wall_ms = 5678;
    revoke(&fixture, 3);
    struct lease_ended ended[4];
    assert_int_equal(lease_table_ended(state_machine_leases(fixture.machine), ended, 4), 3);
    const struct lease_ended expected[] = {{3, 3000, 5678, LEASE_END_REVOKED},
                                           {1, 1000, 1234, LEASE_END_EXPIRED},
                                           {2, 2000, 1234, LEASE_END_PARENT}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ended[i].id, expected[i].id);
        assert_int_equal(ended[i].ttl_ms, expected[i].ttl_ms);
        assert_int_equal(ended[i].wall_ms, expected[i].wall_ms);
        assert_int_equal(ended[i].reason, expected[i].reason);
    }
    fixture_clear(&fixture);
}

/* --- Parents. --- */

static void the_end_of_a_parent_ends_its_children_deepest_first(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    assert_int_equal(grant_child(&fixture, 10, 1000, 99).status, STATUS_LEASE_NOT_FOUND);
    grant(&fixture, 50, 1000);
    grant_child(&fixture, 40, 1000, 50);
    grant_child(&fixture, 30, 1000, 50);
    grant_child(&fixture, 60, 1000, 40);
    grant(&fixture, 7, 1000);
    put(&fixture, "root", "", 50);
    put(&fixture, "k40", "", 40);
    put(&fixture, "k60", "", 60);
    put(&fixture, "k30", "", 30);
    put(&fixture, "other", "", 7);
    struct outcome outcome = revoke(&fixture, 50);
    assert_int_equal(outcome.revision, 10);
    assert_changes(&fixture, 7, "-k30");
    assert_changes(&fixture, 8, "-k60");
    assert_changes(&fixture, 9, "-k40");
    assert_changes(&fixture, 10, "-root");
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 1);
    fixture_clear(&fixture);
}

static void the_end_of_a_child_leaves_its_parent(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    grant_child(&fixture, 2, 1000, 1);
    grant_child(&fixture, 3, 1000, 1);
    assert_int_equal(revoke(&fixture, 2).status, STATUS_OK);
    assert_true(has_lease(&fixture, 1));
    assert_true(has_lease(&fixture, 3));
    assert_int_equal(expire(&fixture, 1, (const int64_t[]){1, 3}, 2).expire.n_ended, 1);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 0);
    fixture_clear(&fixture);
}

/* Whatever the shape, the work grows with the number of leases, and no stack with their depth. */
static void large_families_end_together(void **state) {
    enum { FAMILY = 100000 };
    for (unsigned deep = 0; deep < 2; deep++) {
        struct fixture fixture;
        fixture_init(&fixture);
        struct lease_table *leases = state_machine_leases(fixture.machine);
        for (int64_t i = 1; i <= FAMILY; i++) {
            struct lease_facts facts = {.id = i,
                                        .owner = KEY_SPACE_ETCD,
                                        .ttl_ms = 1000,
                                        .parent_id = i == 1 ? 0
                                                     : deep ? i - 1
                                                            : 1};
            assert_int_equal(lease_table_grant(leases, &facts, 0), STATUS_OK);
        }
        assert_int_equal(revoke(&fixture, 1).status, STATUS_OK);
        assert_int_equal(lease_table_count(leases), 0);
        fixture_clear(&fixture);
    }
}

/* --- Checkpoints and TTLs. --- */

static int64_t checkpoint_of(struct fixture *fixture, int64_t id) {
    struct lease_facts facts;
    assert_true(lease_table_find(state_machine_leases(fixture->machine), id, &facts));
    return facts.checkpoint_ms;
}

static void a_checkpoint_counts_in_its_own_term_only(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    grant(&fixture, 1, 1000);
    fixture.context.term = 2;
    checkpoint(&fixture, 1, 1, 400);
    assert_int_equal(checkpoint_of(&fixture, 1), 0);
    checkpoint(&fixture, 2, 1, 400);
    assert_int_equal(checkpoint_of(&fixture, 1), 400);
    checkpoint(&fixture, 2, 1, 0);
    assert_int_equal(checkpoint_of(&fixture, 1), 0);
    assert_int_equal(checkpoint(&fixture, 2, 77, 5).status, STATUS_OK);
    fixture_clear(&fixture);
}

static void a_new_leader_counts_from_the_checkpoint(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    int64_t left;
    grant(&fixture, 1, 1000);
    grant(&fixture, 2, 1000);
    fixture.context.now_ms = 5000;
    checkpoint(&fixture, 1, 1, 400);
    lease_table_lead(leases, 5000);
    /* Deadlines are rounded up by a millisecond: never early. */
    assert_int_equal(lease_table_remaining(leases, 1, 5001, &left), STATUS_OK);
    assert_int_equal(left, 400);
    assert_int_equal(lease_table_remaining(leases, 2, 5001, &left), STATUS_OK);
    assert_int_equal(left, 1000);
    fixture_clear(&fixture);
}

static void setting_a_ttl_clears_the_checkpoint_and_counts_anew(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    lease_table_lead(leases, 0);
    grant(&fixture, 1, 1000);
    checkpoint(&fixture, 1, 1, 400);
    fixture.context.now_ms = 900;
    struct command command = {.type = COMMAND_LEASE_SET_TTL, .set_ttl = {.id = 1, .ttl_ms = 2000}};
    assert_int_equal(fixture_apply(&fixture, &command).status, STATUS_OK);
    assert_int_equal(checkpoint_of(&fixture, 1), 0);
    int64_t left;
    assert_int_equal(lease_table_remaining(leases, 1, 900, &left), STATUS_OK);
    assert_int_equal(left, 2000);
    command.set_ttl.id = 5;
    assert_int_equal(fixture_apply(&fixture, &command).status, STATUS_LEASE_NOT_FOUND);
    fixture_clear(&fixture);
}

/* --- Compaction, alarms, barrier. --- */

static void compaction_tells_what_etcd_tells(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    assert_int_equal(compact(&fixture, 2).status, STATUS_REVISION_FUTURE);
    put(&fixture, "k", "1", 0);
    put(&fixture, "k", "2", 0);
    assert_int_equal(compact(&fixture, 4).status, STATUS_REVISION_FUTURE);
    struct outcome outcome = compact(&fixture, 3);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.revision, 3);
    assert_int_equal(compact(&fixture, 3).status, STATUS_REVISION_COMPACTED);
    assert_int_equal(compact(&fixture, 2).status, STATUS_REVISION_COMPACTED);
    assert_int_equal(compact(&fixture, INT64_MIN).status, STATUS_REVISION_COMPACTED);
    assert_int_equal(compact(&fixture, INT64_MAX).status, STATUS_REVISION_FUTURE);
    fixture_clear(&fixture);
}

static void alarms_are_kept_once_each_and_in_order(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    alarm_change(&fixture, true, 9, ALARM_NO_SPACE);
    alarm_change(&fixture, true, UINT64_MAX, ALARM_CORRUPT);
    alarm_change(&fixture, true, 2, ALARM_CORRUPT);
    alarm_change(&fixture, true, 2, ALARM_NO_SPACE);
    alarm_change(&fixture, true, 9, ALARM_NO_SPACE);
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    assert_int_equal(state_machine_alarms(fixture.machine, alarms), 4);
    const struct alarm_entry expected[] = {
        {2, ALARM_NO_SPACE}, {2, ALARM_CORRUPT}, {9, ALARM_NO_SPACE}, {UINT64_MAX, ALARM_CORRUPT}};
    for (size_t i = 0; i < 4; i++) {
        assert_true(alarms[i].member_id == expected[i].member_id);
        assert_int_equal(alarms[i].alarm, expected[i].alarm);
    }
    alarm_change(&fixture, false, 2, ALARM_CORRUPT);
    alarm_change(&fixture, false, 2, ALARM_CORRUPT);
    alarm_change(&fixture, false, 3, ALARM_CORRUPT);
    assert_int_equal(state_machine_alarms(fixture.machine, alarms), 3);
    assert_int_equal(alarms[1].member_id, 9);
    fixture_clear(&fixture);
}

static void alarms_are_limited(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    for (uint64_t i = 0; i < STATE_MACHINE_ALARMS_MAX; i++) {
        assert_int_equal(alarm_change(&fixture, true, 1000 - i, ALARM_NO_SPACE).status, STATUS_OK);
    }
    assert_int_equal(alarm_change(&fixture, true, 1, ALARM_NO_SPACE).status,
                     STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(alarm_change(&fixture, true, 1000, ALARM_NO_SPACE).status, STATUS_OK);
    assert_int_equal(alarm_change(&fixture, false, 1000, ALARM_NO_SPACE).status, STATUS_OK);
    assert_int_equal(alarm_change(&fixture, true, 1, ALARM_NO_SPACE).status, STATUS_OK);
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    assert_int_equal(state_machine_alarms(fixture.machine, alarms), STATE_MACHINE_ALARMS_MAX);
    assert_int_equal(alarms[0].member_id, 1);
    fixture_clear(&fixture);
}

static void a_barrier_changes_nothing(void **state) {
    struct fixture fixture;
    fixture_init(&fixture);
    put(&fixture, "k", "", 0);
    struct command command = {.type = COMMAND_BARRIER};
    struct outcome outcome = fixture_apply(&fixture, &command);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.revision, 2);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_changes_no_revision),
        cmocka_unit_test(revoking_removes_every_key_in_one_revision_in_key_order),
        cmocka_unit_test(a_put_moves_a_key_between_leases),
        cmocka_unit_test(a_put_without_a_lease_detaches_the_key),
        cmocka_unit_test(a_deleted_key_is_attached_no_more),
        cmocka_unit_test(a_put_to_a_missing_lease_changes_nothing),
        cmocka_unit_test(a_key_created_again_gets_a_larger_create_revision),
        cmocka_unit_test(a_delete_of_nothing_takes_no_revision),
        cmocka_unit_test(expiring_ends_leases_each_with_its_keys),
        cmocka_unit_test(an_expiry_of_another_term_changes_nothing),
        cmocka_unit_test(an_expiry_ends_only_the_lease_it_was_meant_for),
        cmocka_unit_test(ids_that_are_gone_already_do_not_count),
        cmocka_unit_test(each_end_is_listed_with_its_reason),
        cmocka_unit_test(the_end_of_a_parent_ends_its_children_deepest_first),
        cmocka_unit_test(the_end_of_a_child_leaves_its_parent),
        cmocka_unit_test(large_families_end_together),
        cmocka_unit_test(a_checkpoint_counts_in_its_own_term_only),
        cmocka_unit_test(a_new_leader_counts_from_the_checkpoint),
        cmocka_unit_test(setting_a_ttl_clears_the_checkpoint_and_counts_anew),
        cmocka_unit_test(compaction_tells_what_etcd_tells),
        cmocka_unit_test(alarms_are_kept_once_each_and_in_order),
        cmocka_unit_test(alarms_are_limited),
        cmocka_unit_test(a_barrier_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
