/* Rules that run when a lease ends: in the same revision, whatever ends it. */
#include "core/rule.h"

#include "core/rule_hook_key.h"
#include "core/rule_scope.h"
#include "rule_fixture.h"

#include <cmocka.h>

/* A holder and two that wait, by leases 1, 2 and 3. */
static void queue_up(struct fixture *fixture) {
    rule_fixture_init(fixture);
    assert_true(lock(fixture, "a", 1, 1000).is_held);
    assert_false(lock(fixture, "a", 2, 1000).is_held);
    assert_false(lock(fixture, "a", 3, 1000).is_held);
}

static void expect_handed_over(struct fixture *fixture, int64_t to, int64_t revision_before) {
    assert_int_equal(holder_of(fixture, "a"), to);
    assert_int_equal(revision(fixture), revision_before + 1);
    const struct record *holder = find_trial(fixture, "holder/a");
    /* A new acquisition has a new token. */
    assert_int_equal(holder->create_revision, revision(fixture));
    assert_int_equal(holder->version, 1);
}

static void an_expired_lease_hands_its_lock_over(void **state) {
    struct fixture fixture;
    queue_up(&fixture);
    int64_t before = revision(&fixture);
    const int64_t ids[] = {1};
    assert_int_equal(expire(&fixture, 1, ids, 1).expire.n_ended, 1);
    expect_handed_over(&fixture, 2, before);
    fixture_clear(&fixture);
}

static void a_lease_that_a_rule_ends_hands_its_lock_over(void **state) {
    struct fixture fixture;
    queue_up(&fixture);
    int64_t before = revision(&fixture);
    assert_int_equal(end_by_rule(&fixture, 1), STATUS_OK);
    expect_handed_over(&fixture, 2, before);
    before = revision(&fixture);
    assert_int_equal(end_by_rule(&fixture, 2), STATUS_OK);
    expect_handed_over(&fixture, 3, before);
    assert_int_equal(end_by_rule(&fixture, 3), STATUS_OK);
    assert_int_equal(holder_of(&fixture, "a"), 0);
    assert_int_equal(count_space(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
    fixture_clear(&fixture);
}

static void who_waits_no_more_is_passed_over(void **state) {
    struct fixture fixture;
    queue_up(&fixture);
    const int64_t ids[] = {1, 2};
    assert_int_equal(expire(&fixture, 1, ids, 2).expire.n_ended, 2);
    assert_int_equal(holder_of(&fixture, "a"), 3);
    fixture_clear(&fixture);
}

static void unlocking_hands_over_and_cancels_the_hook(void **state) {
    struct fixture fixture;
    queue_up(&fixture);
    int64_t before = revision(&fixture);
    assert_int_equal(unlock(&fixture, "a", 1), STATUS_OK);
    expect_handed_over(&fixture, 2, before);
    assert_int_equal(count_space(&fixture, KEY_SPACE_LEASE_HOOKS), 1);
    assert_int_equal(unlock(&fixture, "a", 1), STATUS_KEY_NOT_FOUND);
    fixture_clear(&fixture);
}

static void etcd_does_not_see_hooks(void **state) {
    struct fixture fixture;
    queue_up(&fixture);
    assert_int_equal(count_space(&fixture, KEY_SPACE_ETCD), 0);
    assert_int_equal(count_space(&fixture, KEY_SPACE_LEASE_HOOKS), 1);
    fixture_clear(&fixture);
}

static void hooks_survive_a_snapshot(void **state) {
    struct fixture a;
    struct fixture b;
    queue_up(&a);
    rule_fixture_init(&b);
    struct buffer snapshot;
    snapshot_of(&a, &snapshot);
    assert_int_equal(state_machine_restore(b.machine, bytes_of(snapshot.data, snapshot.size)),
                     STATUS_OK);
    buffer_clear(&snapshot);
    int64_t before = revision(&b);
    const int64_t ids[] = {1};
    assert_int_equal(expire(&b, 1, ids, 1).expire.n_ended, 1);
    expect_handed_over(&b, 2, before);
    assert_int_equal(expire(&a, 1, ids, 1).expire.n_ended, 1);
    struct buffer other;
    snapshot_of(&a, &snapshot);
    snapshot_of(&b, &other);
    assert_int_equal(snapshot.size, other.size);
    assert_memory_equal(snapshot.data, other.data, other.size);
    buffer_clear(&snapshot);
    buffer_clear(&other);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void a_snapshot_with_the_hook_of_an_unknown_rule_is_refused(void **state) {
    struct fixture a;
    struct fixture b;
    queue_up(&a);
    fixture_init(&b); /* knows no rule of the trial's */
    assert_int_equal(put(&b, "k", "v", 0).status, STATUS_OK);
    struct buffer snapshot;
    snapshot_of(&a, &snapshot);
    assert_int_equal(state_machine_restore(b.machine, bytes_of(snapshot.data, snapshot.size)),
                     STATUS_UNSUPPORTED);
    /* Nothing was changed. */
    assert_non_null(find(&b, "k"));
    assert_int_equal(count_space(&b, KEY_SPACE_LEASE_HOOKS), 0);
    buffer_clear(&snapshot);
    fixture_clear(&a);
    fixture_clear(&b);
}

static bool note_event(void *data, const struct watch_batch *batch) {
    size_t *n_batches = data;
    for (size_t i = 1; i < batch->n_events; i++) {
        assert_int_equal(batch->events[i]->mod_revision, batch->events[0]->mod_revision);
    }
    (*n_batches)++;
    return true;
}

static void a_watch_sees_a_handover_as_one_revision(void **state) {
    static const struct watcher_callbacks callbacks = {.deliver = note_event};
    struct fixture fixture;
    queue_up(&fixture);
    struct watch_hub *hub = state_machine_watches(fixture.machine);
    size_t n_batches = 0;
    watch_hub_publish(hub);
    watch_hub_add(hub, &(struct watcher_options){.space = TRIAL_SPACE,
                                                 .key = bytes_from_text("holder/a"),
                                                 .callbacks = &callbacks,
                                                 .data = &n_batches});
    const int64_t ids[] = {1};
    expire(&fixture, 1, ids, 1);
    watch_hub_publish(hub);
    assert_int_equal(n_batches, 1);
    fixture_clear(&fixture);
}

static void grant_of_trial(struct fixture *fixture, int64_t id, int64_t parent_id) {
    struct lease_facts facts = {
        .id = id, .ttl_ms = 1000, .parent_id = parent_id, .owner = TRIAL_SPACE};
    assert_int_equal(lease_table_grant(state_machine_leases(fixture->machine), &facts, 0),
                     STATUS_OK);
}

/* A waiter of the same family is about to end as well: it is not given the lock. */
static void a_family_that_ends_hands_its_locks_to_others(void **state) {
    for (unsigned by_rule = 0; by_rule < 2; by_rule++) {
        struct fixture fixture;
        rule_fixture_init(&fixture);
        grant_of_trial(&fixture, 10, 0);
        grant_of_trial(&fixture, 11, 10);
        grant_of_trial(&fixture, 12, 10);
        assert_true(lock(&fixture, "a", 11, 1000).is_held);
        assert_false(lock(&fixture, "a", 12, 1000).is_held);
        assert_false(lock(&fixture, "a", 3, 1000).is_held);
        const int64_t ids[] = {10};
        if (by_rule) {
            int64_t before = revision(&fixture);
            assert_int_equal(end_by_rule(&fixture, 10), STATUS_OK);
            assert_int_equal(revision(&fixture), before + 1);
        } else {
            expire(&fixture, 1, ids, 1);
        }
        assert_int_equal(holder_of(&fixture, "a"), 3);
        assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 1);
        fixture_clear(&fixture);
    }
}

/* Everybody waits while a command is applied, so a large family ends in several: children first,
 * and what is left has no time any more. */
static void a_large_family_ends_in_parts(void **state) {
    enum { FAMILY = 60000, PART_MAX = RULE_SCOPE_WORK_MUCH / KEY_WORK_A_DELETE + 1 };
    struct fixture fixture;
    rule_fixture_init(&fixture);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    size_t others = lease_table_count(leases);
    for (int64_t i = 1; i <= FAMILY; i++) {
        grant_of_trial(&fixture, 1000 + i, i == 1 ? 0 : 1001);
    }
    const int64_t root[] = {1001};
    unsigned n_parts = 0;
    for (size_t left = FAMILY; left > 0; n_parts++) {
        expire(&fixture, 1, root, 1);
        size_t now_left = lease_table_count(leases) - others;
        assert_true(now_left < left);
        assert_true(left - now_left <= PART_MAX);
        left = now_left;
        struct lease_facts facts = {0};
        assert_int_equal(lease_table_find(leases, 1001, &facts), left > 0);
        assert_int_equal(facts.ttl_ms, left > 0 ? 1 : 0);
    }
    assert_int_equal(n_parts, (FAMILY + PART_MAX - 1) / PART_MAX);
    fixture_clear(&fixture);
}

/* In one revision, which cannot be left half done. */
static void a_rule_ends_no_family_that_is_too_large(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    for (int64_t i = 0; i <= LEASE_FAMILY_MAX; i++) {
        grant_of_trial(&fixture, 1000 + i, i == 0 ? 0 : 1000);
    }
    size_t before = lease_table_count(leases);
    assert_int_equal(end_by_rule(&fixture, 1000), STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(lease_table_count(leases), before);
    assert_int_equal(end_by_rule(&fixture, 1001), STATUS_OK);
    assert_int_equal(end_by_rule(&fixture, 1000), STATUS_OK);
    fixture_clear(&fixture);
}

/* Asks for a rule when a lease ends, as a run would. */
static void hook(struct fixture *fixture, int64_t lease_id, uint32_t number,
                 struct buffer *request) {
    struct rule_hook_key key;
    struct record *record;
    struct key_store *keys = state_machine_keys(fixture->machine);
    rule_hook_key_init(&key, lease_id, number, bytes_of(request->data, request->size));
    key_store_begin(keys);
    record =
        key_store_put(keys, KEY_SPACE_LEASE_HOOKS, key.bytes, bytes_of(NULL, 0), lease_id, NULL);
    assert_int_equal(lease_table_attach(state_machine_leases(fixture->machine), record), STATUS_OK);
    key_store_end(keys);
    buffer_clear(request);
}

/* The family that is being ended goes with one that a hook ends. */
static void a_hook_may_end_what_the_ending_family_descends_from(void **state) {
    struct fixture fixture;
    struct buffer request;
    rule_fixture_init(&fixture);
    grant_of_trial(&fixture, 10, 0);
    grant_of_trial(&fixture, 11, 10);
    grant_of_trial(&fixture, 12, 11);
    grant_of_trial(&fixture, 13, 11);
    assert_true(lock(&fixture, "a", 13, 1000).is_held);
    assert_false(lock(&fixture, "a", 3, 1000).is_held);
    buffer_init(&request);
    trial_request_end(&request, 10);
    hook(&fixture, 12, TRIAL_END, &request);
    const int64_t ids[] = {11};
    assert_int_equal(expire(&fixture, 1, ids, 1).expire.n_ended, 1);
    assert_int_equal(holder_of(&fixture, "a"), 3);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 1);
    assert_int_equal(count_space(&fixture, KEY_SPACE_LEASE_HOOKS), 1);
    fixture_clear(&fixture);
}

/* The id of a lease is free when its hooks run, whatever has ended it. */
static void a_hook_may_grant_the_ended_id_anew(void **state) {
    for (unsigned by_rule = 0; by_rule < 2; by_rule++) {
        struct fixture fixture;
        struct buffer request;
        rule_fixture_init(&fixture);
        grant_of_trial(&fixture, 10, 0);
        buffer_init(&request);
        trial_request_lock(&request, "a", 10, 1000);
        hook(&fixture, 10, TRIAL_LOCK, &request);
        const int64_t ids[] = {10};
        if (by_rule) {
            assert_int_equal(end_by_rule(&fixture, 10), STATUS_OK);
        } else {
            assert_int_equal(expire(&fixture, 1, ids, 1).expire.n_ended, 1);
        }
        assert_int_equal(holder_of(&fixture, "a"), 10);
        fixture_clear(&fixture);
    }
}

static void a_hook_that_fails_does_not_keep_the_lease(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    /* Each hook grants a lease with the same hook and ends it, until the depth is too great. */
    assert_int_equal(run_bad(&fixture, TRIAL_ENDS_FOREVER, 0).status, STATUS_OK);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 0);
    assert_int_equal(count_space(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
    /* The command's own, and of each hook but the last. */
    assert_int_equal(count_space(&fixture, TRIAL_SPACE), RULE_HOOK_DEPTH_MAX);
    fixture_clear(&fixture);
}

static void a_lease_has_so_many_hooks_and_no_more(void **state) {
    struct fixture fixture;
    rule_fixture_init(&fixture);
    for (unsigned i = 0; i < RULE_HOOKS_OF_LEASE_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        assert_true(lock(&fixture, name, 1, 1000).is_held);
    }
    struct buffer request;
    buffer_init(&request);
    trial_request_lock(&request, "another", 1, 1000);
    assert_int_equal(run_rule(&fixture, TRIAL_LOCK, &request).status, STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(holder_of(&fixture, "another"), 0);
    assert_int_equal(end_by_rule(&fixture, 1), STATUS_OK);
    /* -1 is the last id there is. */
    assert_true(lock(&fixture, "last", -1, 1000).is_held);
    assert_false(lock(&fixture, "last", 2, 1000).is_held);
    assert_int_equal(end_by_rule(&fixture, -1), STATUS_OK);
    assert_int_equal(holder_of(&fixture, "last"), 2);
    fixture_clear(&fixture);
}

static void put_many(struct fixture *fixture, size_t n) {
    struct key_store *keys = state_machine_keys(fixture->machine);
    key_store_begin(keys);
    for (size_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "many/%08zu", i);
        key_store_put(keys, TRIAL_SPACE, bytes_from_text(key), bytes_of(NULL, 0), 0, NULL);
    }
    key_store_end(keys);
}

/* What is left is for the leader to propose again. */
static void an_expiry_stops_when_its_hooks_have_done_much(void **state) {
    enum { N_LEASES = 8, LOOKS = 900 };
    struct fixture fixture;
    int64_t ids[N_LEASES];
    size_t n_ended = 0;
    rule_fixture_init(&fixture);
    put_many(&fixture, 2 * LOOKS);
    for (size_t i = 0; i < N_LEASES; i++) {
        ids[i] = (int64_t)i + 1;
        grant_of_trial(&fixture, ids[i], 0);
        for (size_t j = 0; j < RULE_HOOKS_OF_LEASE_MAX; j++) {
            struct buffer request;
            buffer_init(&request);
            trial_request_bad(&request, TRIAL_LOOKS_AT, LOOKS + j);
            hook(&fixture, ids[i], TRIAL_BAD, &request);
        }
    }
    while (n_ended < N_LEASES) {
        struct outcome outcome = expire(&fixture, 1, ids + n_ended, N_LEASES - n_ended);
        assert_true(outcome.expire.n_ended > 0);
        /* Those of one lease are not torn apart. */
        assert_true(outcome.work > RULE_HOOKS_OF_LEASE_MAX * LOOKS);
        assert_true(outcome.work < RULE_SCOPE_WORK_MUCH + 2 * RULE_HOOKS_OF_LEASE_MAX * LOOKS);
        n_ended += outcome.expire.n_ended;
    }
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 0);
    assert_int_equal(count_space(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expired_lease_hands_its_lock_over),
        cmocka_unit_test(a_lease_that_a_rule_ends_hands_its_lock_over),
        cmocka_unit_test(who_waits_no_more_is_passed_over),
        cmocka_unit_test(unlocking_hands_over_and_cancels_the_hook),
        cmocka_unit_test(etcd_does_not_see_hooks),
        cmocka_unit_test(hooks_survive_a_snapshot),
        cmocka_unit_test(a_snapshot_with_the_hook_of_an_unknown_rule_is_refused),
        cmocka_unit_test(a_watch_sees_a_handover_as_one_revision),
        cmocka_unit_test(a_family_that_ends_hands_its_locks_to_others),
        cmocka_unit_test(a_large_family_ends_in_parts),
        cmocka_unit_test(a_rule_ends_no_family_that_is_too_large),
        cmocka_unit_test(a_hook_may_end_what_the_ending_family_descends_from),
        cmocka_unit_test(a_hook_may_grant_the_ended_id_anew),
        cmocka_unit_test(a_hook_that_fails_does_not_keep_the_lease),
        cmocka_unit_test(a_lease_has_so_many_hooks_and_no_more),
        cmocka_unit_test(an_expiry_stops_when_its_hooks_have_done_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
