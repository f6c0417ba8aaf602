/* Sessions of the Consul API: locks, their ends, lock-delays, and the checks they are bound to. */
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

/* --- Locks. --- */

static void a_lock_has_one_holder(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 1000, false);
    (void)consul_begin(&fixture, 'b', 1000, false);
    assert_int_equal(consul_lock(&fixture, "k", 'a'), 0);
    int64_t index = consul_index(&fixture, "k");
    assert_int_equal(consul_lock(&fixture, "k", 'b'), CONSUL_FAILED_HELD);
    assert_int_equal(consul_unlock(&fixture, "k", 'b'), CONSUL_FAILED_NOT_HELD);
    assert_int_equal(consul_holder(&fixture, "k"), 'a');
    assert_int_equal(consul_look(&fixture, "k").entry.lock.lock_index, 1);
    /* Once more is no other acquisition. */
    assert_int_equal(consul_lock(&fixture, "k", 'a'), 0);
    assert_int_equal(consul_index(&fixture, "k"), index);
    assert_int_equal(consul_look(&fixture, "k").entry.lock.lock_index, 1);
    /* Whoever does not hold it may write it all the same. */
    assert_int_equal(consul_do(&fixture, consul_set_of("k", "other")), 0);
    assert_int_equal(consul_holder(&fixture, "k"), 'a');
}

static void a_release_begins_no_lock_delay(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 1000, false);
    (void)consul_begin(&fixture, 'b', 1000, false);
    assert_int_equal(consul_lock(&fixture, "k", 'a'), 0);
    int64_t index = consul_index(&fixture, "k");
    assert_int_equal(consul_unlock(&fixture, "k", 'a'), 0);
    assert_true(consul_index(&fixture, "k") > index);
    assert_int_equal(consul_count_held(&fixture), 0);
    assert_int_equal(consul_lock(&fixture, "k", 'b'), 0);
    assert_int_equal(consul_look(&fixture, "k").entry.lock.lock_index, 2);
    /* And the end of the first begins none either. */
    assert_int_equal(consul_destroy(&fixture, 'a', false), STATUS_OK);
    assert_int_equal(consul_holder(&fixture, "k"), 'b');
    assert_int_equal(consul_delay_of(&fixture, "k"), 0);
}

static void a_lock_needs_a_session(void **state) {
    (void)state;
    assert_int_equal(consul_lock(&fixture, "k", 'a'), CONSUL_FAILED_NO_SESSION);
    assert_false(consul_has(&fixture, "k"));
    assert_int_equal(consul_unlock(&fixture, "k", 'a'), CONSUL_FAILED_NOT_HELD);
}

static void a_session_holds_only_so_many_locks(void **state) {
    (void)state;
    char key[16];
    (void)consul_begin(&fixture, 'a', 1000, false);
    registry_is_quick = true;
    for (int i = 0; i < CONSUL_SESSION_LOCKS_MAX; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(consul_lock(&fixture, key, 'a'), 0);
        if (i % 100 == 0) {
            arena_reset(&fixture.arena);
        }
    }
    registry_is_quick = false;
    assert_int_equal(consul_lock(&fixture, "more", 'a'), CONSUL_FAILED_TOO_MANY_LOCKS);
    /* As many as there may be go in one revision. */
    int64_t before = revision_of(&fixture);
    assert_int_equal(consul_destroy(&fixture, 'a', false), STATUS_OK);
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_int_equal(consul_count_held(&fixture), 0);
    (void)consul_begin(&fixture, 'b', 0, false);
    assert_int_equal(consul_lock(&fixture, "k1999", 'b'), CONSUL_FAILED_DELAYED);
}

/* --- The end of a session. --- */

static void a_session_that_has_ended_holds_no_key(void **state) {
    (void)state;
    int64_t lease_id = consul_begin(&fixture, 'a', 0, false);
    (void)consul_begin(&fixture, 'b', 0, false);
    assert_int_equal(consul_lock(&fixture, "k1", 'a'), 0);
    assert_int_equal(consul_lock(&fixture, "k2", 'a'), 0);
    int64_t before = revision_of(&fixture);
    time_is_up(&fixture, lease_id);
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_false(consul_has_session(&fixture, 'a'));
    assert_int_equal(consul_holder(&fixture, "k1"), '-');
    assert_int_equal(consul_holder(&fixture, "k2"), '-');
    assert_int_equal(consul_index(&fixture, "k1"), before + 1);
    assert_int_equal(consul_index(&fixture, "k2"), before + 1);
    assert_int_equal(consul_count_held(&fixture), 0);
    assert_int_equal(consul_unlock(&fixture, "k1", 'a'), CONSUL_FAILED_NOT_HELD);
    assert_int_equal(consul_lock(&fixture, "k1", 'a'), CONSUL_FAILED_NO_SESSION);
    assert_int_equal(consul_lock(&fixture, "k1", 'b'), 0);
    /* Without a lock-delay nothing but the session of b is left. */
    assert_int_equal(count_leases(&fixture), 1);
}

static void a_session_that_deletes_takes_its_keys_with_it(void **state) {
    (void)state;
    int64_t lease_id = consul_begin(&fixture, 'a', 0, true);
    assert_int_equal(consul_do(&fixture, consul_set_of("old", "1")), 0);
    assert_int_equal(consul_lock(&fixture, "old", 'a'), 0);
    assert_int_equal(consul_lock(&fixture, "new", 'a'), 0);
    assert_int_equal(consul_lock(&fixture, "released", 'a'), 0);
    assert_int_equal(consul_unlock(&fixture, "released", 'a'), 0);
    /* Written by another meanwhile: it goes all the same. */
    assert_int_equal(consul_do(&fixture, consul_set_of("new", "other")), 0);
    int64_t before = revision_of(&fixture);
    time_is_up(&fixture, lease_id);
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_false(consul_has(&fixture, "old"));
    assert_false(consul_has(&fixture, "new"));
    assert_true(consul_has(&fixture, "released"));
    assert_int_equal(count_leases(&fixture), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
}

static void destroying_a_session_that_is_not_there_is_no_error(void **state) {
    (void)state;
    int64_t before = revision_of(&fixture);
    assert_int_equal(consul_destroy(&fixture, 'a', false), STATUS_OK);
    assert_int_equal(revision_of(&fixture), before);
}

static void an_id_is_used_once_at_a_time(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 0, false);
    assert_int_equal(consul_create(&fixture, consul_session_with(&fixture, 'a', 0, false)),
                     STATUS_LEASE_EXISTS);
    assert_int_equal(consul_destroy(&fixture, 'a', false), STATUS_OK);
    (void)consul_begin(&fixture, 'a', 0, false);
}

/* --- Lock-delay. --- */

static void a_lock_delay_keeps_others_out(void **state) {
    (void)state;
    int64_t lease_id = consul_begin(&fixture, 'a', 1500, false);
    (void)consul_begin(&fixture, 'b', 0, false);
    assert_int_equal(consul_lock(&fixture, "k", 'a'), 0);
    time_is_up(&fixture, lease_id);
    int64_t delay_id = consul_delay_of(&fixture, "k");
    struct lease_facts facts;
    assert_true(lease_table_find(state_machine_leases(fixture.machine), delay_id, &facts));
    assert_int_equal(facts.ttl_ms, 1500);
    assert_int_equal(consul_lock(&fixture, "k", 'b'), CONSUL_FAILED_DELAYED);
    /* It does not keep anybody from writing. */
    assert_int_equal(consul_do(&fixture, consul_set_of("k", "other")), 0);
    assert_int_equal(consul_lock(&fixture, "k", 'b'), CONSUL_FAILED_DELAYED);
    assert_int_equal(consul_lock(&fixture, "other", 'b'), 0);
    time_is_up(&fixture, delay_id);
    assert_int_equal(consul_lock(&fixture, "k", 'b'), 0);
}

static void one_lock_delay_is_for_all_keys_of_a_session(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 1500, false);
    assert_int_equal(consul_lock(&fixture, "k1", 'a'), 0);
    assert_int_equal(consul_lock(&fixture, "k2", 'a'), 0);
    assert_int_equal(consul_destroy(&fixture, 'a', false), STATUS_OK);
    assert_int_equal(count_leases(&fixture), 1);
    assert_int_equal(consul_delay_of(&fixture, "k1"), consul_delay_of(&fixture, "k2"));
    assert_int_not_equal(consul_delay_of(&fixture, "k1"), 0);
}

static void a_lock_delay_outlives_its_key(void **state) {
    (void)state;
    (void)consul_begin(&fixture, 'a', 1500, true);
    (void)consul_begin(&fixture, 'b', 0, false);
    (void)consul_begin(&fixture, 'c', 1500, false);
    assert_int_equal(consul_lock(&fixture, "gone", 'a'), 0);
    assert_int_equal(consul_lock(&fixture, "kept", 'c'), 0);
    assert_int_equal(consul_destroy(&fixture, 'a', false), STATUS_OK);
    assert_int_equal(consul_destroy(&fixture, 'c', false), STATUS_OK);
    assert_int_equal(consul_do(&fixture, consul_op_of(CONSUL_DELETE, "kept")), 0);
    assert_false(consul_has(&fixture, "gone"));
    assert_false(consul_has(&fixture, "kept"));
    assert_int_equal(consul_lock(&fixture, "gone", 'b'), CONSUL_FAILED_DELAYED);
    assert_int_equal(consul_lock(&fixture, "kept", 'b'), CONSUL_FAILED_DELAYED);
    /* Made anew, they are delayed still; and what is left of the lock goes with the delay. */
    assert_int_equal(consul_do(&fixture, consul_set_of("gone", "x")), 0);
    assert_int_equal(consul_lock(&fixture, "gone", 'b'), CONSUL_FAILED_DELAYED);
    time_is_up(&fixture, consul_delay_of(&fixture, "gone"));
    time_is_up(&fixture, consul_delay_of(&fixture, "kept"));
    assert_int_equal(count_all(&fixture, KEY_SPACE_CONSUL), 1);
    assert_int_equal(consul_lock(&fixture, "gone", 'b'), 0);
    assert_int_equal(consul_lock(&fixture, "kept", 'b'), 0);
}

static void whoever_held_it_need_not_wait(void **state) {
    (void)state;
    int64_t lease_id = consul_begin(&fixture, 'a', 1500, false);
    (void)consul_begin(&fixture, 'b', 0, false);
    assert_int_equal(consul_lock(&fixture, "k", 'a'), 0);
    time_is_up(&fixture, lease_id);
    assert_int_equal(consul_lock_as_heir(&fixture, "k", 'b', 'c'), CONSUL_FAILED_DELAYED);
    assert_int_equal(consul_lock_as_heir(&fixture, "k", 'b', 'a'), 0);
    /* The delay is over by that, and a release begins none. */
    assert_int_equal(consul_unlock(&fixture, "k", 'b'), 0);
    (void)consul_begin(&fixture, 'c', 0, false);
    assert_int_equal(consul_lock(&fixture, "k", 'c'), 0);
}

/* --- Checks. --- */

static enum status begin_bound(char letter) {
    const struct consul_check_name name = {.service = bytes_from_text("web"),
                                           .id = bytes_from_text("w1"),
                                           .check = bytes_from_text("c")};
    struct consul_session session = consul_session_with(&fixture, letter, 0, false);
    struct bytes node_check = bytes_from_text(CONSUL_NODE_CHECK);
    struct buffer encoded;
    buffer_init(&encoded);
    consul_check_name_encode(&encoded, &name);
    struct bytes service_check = bytes_of(encoded.data, encoded.size);
    session.node_checks = &node_check;
    session.n_node_checks = 1;
    session.service_checks = &service_check;
    session.n_service_checks = 1;
    enum status status = consul_create(&fixture, session);
    buffer_clear(&encoded);
    return status;
}

static int64_t ttl_lease_of_check(void) {
    struct registry_entry entry;
    assert_true(look(&fixture, "web", "w1", &entry));
    assert_int_equal(entry.n_checks, 1);
    return entry.checks[0].ttl_lease_id;
}

static void a_session_needs_checks_that_pass(void **state) {
    (void)state;
    const struct registry_check check = registry_test_check("c", REGISTRY_CHECK_TTL);
    assert_int_equal(begin_bound('a'), STATUS_KEY_NOT_FOUND);
    registered_with(&fixture, "web", "w1", &check, 1);
    assert_int_equal(report(&fixture, "web", "w1", "c", REGISTRY_CRITICAL, "ill"), STATUS_OK);
    assert_int_equal(begin_bound('a'), STATUS_FENCED);
    assert_false(consul_has_session(&fixture, 'a'));
    assert_int_equal(report(&fixture, "web", "w1", "c", REGISTRY_WARNING, "hm"), STATUS_OK);
    assert_int_equal(begin_bound('a'), STATUS_OK);
    struct consul_session session = consul_session_with(&fixture, 'b', 0, false);
    struct bytes unknown = bytes_from_text("unknown");
    session.node_checks = &unknown;
    session.n_node_checks = 1;
    assert_int_equal(consul_create(&fixture, session), STATUS_KEY_NOT_FOUND);
}

static void silence_of_a_ttl_check_ends_the_session_bound_to_it(void **state) {
    (void)state;
    const struct registry_check check = registry_test_check("c", REGISTRY_CHECK_TTL);
    registered_with(&fixture, "web", "w1", &check, 1);
    assert_int_equal(report(&fixture, "web", "w1", "c", REGISTRY_PASSING, "ok"), STATUS_OK);
    assert_int_equal(begin_bound('a'), STATUS_OK);
    assert_int_equal(consul_lock(&fixture, "k", 'a'), 0);
    /* While the check passes, the session is not ended for it. */
    assert_int_equal(consul_destroy(&fixture, 'a', true), STATUS_OK);
    assert_int_equal(consul_holder(&fixture, "k"), 'a');
    time_is_up(&fixture, ttl_lease_of_check());
    assert_int_equal(consul_destroy(&fixture, 'a', true), STATUS_OK);
    assert_false(consul_has_session(&fixture, 'a'));
    assert_int_equal(consul_holder(&fixture, "k"), '-');
    assert_int_equal(count_in(&fixture, consul_bound_range()), 0);
}

static void a_check_that_is_gone_ends_the_session_bound_to_it(void **state) {
    (void)state;
    const struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    registered_with(&fixture, "web", "w1", &check, 1);
    assert_int_equal(report(&fixture, "web", "w1", "c", REGISTRY_PASSING, "ok"), STATUS_OK);
    assert_int_equal(begin_bound('a'), STATUS_OK);
    assert_int_equal(deregister(&fixture, "web", "w1", 0, 0), STATUS_OK);
    assert_int_equal(consul_destroy(&fixture, 'a', true), STATUS_OK);
    assert_false(consul_has_session(&fixture, 'a'));
}

static void sessions_that_are_no_sessions_are_refused(void **state) {
    (void)state;
    struct consul_session session = consul_session_with(&fixture, 'a', 0, false);
    session.ttl_ms = CONSUL_TTL_MS_MIN - 1;
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.ttl_ms = CONSUL_TTL_MS_MAX + 1;
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.ttl_ms = 0;
    session.lock_delay_ms = CONSUL_LOCK_DELAY_MS_MAX + 1;
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.lock_delay_ms = 0;
    session.id = bytes_from_text("a");
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.id = consul_id(&fixture, 'a');
    session.lifetime_ms = 1000; /* of what has no TTL */
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.ttl_ms = 2000;
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.lifetime_ms = -1;
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.lifetime_ms = CONSUL_TTL_MULTIPLIER_MAX * session.ttl_ms + 1;
    assert_int_equal(consul_create(&fixture, session), STATUS_INVALID);
    session.lifetime_ms = CONSUL_TTL_MULTIPLIER_MAX * session.ttl_ms;
    assert_int_equal(consul_create(&fixture, session), STATUS_OK);
}

static void a_session_may_live_longer_than_its_ttl(void **state) {
    (void)state;
    struct consul_session session = consul_session_with(&fixture, 'a', 0, false);
    struct lease_facts facts;
    session.lifetime_ms = 2 * session.ttl_ms;
    assert_int_equal(consul_create(&fixture, session), STATUS_OK);
    assert_true(consul_keys_session(store_of(&fixture), &fixture.arena, session.id, &session));
    assert_int_equal(session.ttl_ms, 10000); /* which is shown */
    assert_true(lease_table_find(state_machine_leases(fixture.machine), session.lease_id, &facts));
    assert_int_equal(facts.ttl_ms, 20000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_lock_has_one_holder),
        TEST(a_session_may_live_longer_than_its_ttl),
        TEST(a_release_begins_no_lock_delay),
        TEST(a_lock_needs_a_session),
        TEST(a_session_holds_only_so_many_locks),
        TEST(a_session_that_has_ended_holds_no_key),
        TEST(a_session_that_deletes_takes_its_keys_with_it),
        TEST(destroying_a_session_that_is_not_there_is_no_error),
        TEST(an_id_is_used_once_at_a_time),
        TEST(a_lock_delay_keeps_others_out),
        TEST(one_lock_delay_is_for_all_keys_of_a_session),
        TEST(a_lock_delay_outlives_its_key),
        TEST(whoever_held_it_need_not_wait),
        TEST(a_session_needs_checks_that_pass),
        TEST(silence_of_a_ttl_check_ends_the_session_bound_to_it),
        TEST(a_check_that_is_gone_ends_the_session_bound_to_it),
        TEST(sessions_that_are_no_sessions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
