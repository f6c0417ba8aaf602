/* Sessions, resources and their queues by the native rules. */
#include "native_fixture.h"

static void an_exclusive_resource_has_one_holder(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    int64_t first = session(&fixture, "first");
    int64_t second = session(&fixture, "second");
    struct native_acquired a = acquire(&fixture, first, exclusive("lock"));
    struct native_acquired b = acquire(&fixture, second, exclusive("lock"));
    assert_int_equal(a.result, NATIVE_RESULT_ACQUIRED);
    assert_int_equal(b.result, NATIVE_RESULT_QUEUED);
    assert_int_equal(b.n_before, 0);
    assert_int_equal(b.acquisition.id, revision(&fixture));
    assert_int_equal(a.acquisition.token, a.acquisition.id);
    const struct record *holder =
        key_store_find(state_machine_keys(fixture.machine), KEY_SPACE_NATIVE,
                       native_key_holder(&fixture.arena, bytes_from_text("lock"), NATIVE_EXCLUSIVE,
                                         a.acquisition.id));
    assert_non_null(holder);
    assert_int_equal(holder->create_revision, a.acquisition.token);
    assert_int_equal(holder->lease_id, first);
    assert_int_equal(count_in(&fixture, native_holders(&fixture.arena, bytes_from_text("lock"))),
                     1);
    fixture_clear(&fixture);
}

static void a_release_hands_over_in_its_revision(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("lock"));
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), exclusive("lock"));
    struct native_acquired c = acquire(&fixture, session(&fixture, "c"), exclusive("lock"));
    struct native_released released = release(&fixture, &a);
    assert_true(released.is_released);
    assert_true(released.was_acquired);
    assert_int_equal(token_of(&fixture, &a), -1);
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    assert_int_equal(token_of(&fixture, &c), 0);
    /* Again: it has nothing any more, and must not free what another has. */
    released = release(&fixture, &a);
    assert_false(released.is_released);
    assert_int_equal(token_of(&fixture, &c), 0);
    assert_true(release(&fixture, &b).is_released);
    assert_int_equal(token_of(&fixture, &c), revision(&fixture));
    fixture_clear(&fixture);
}

static void only_its_own_session_releases(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("lock"));
    struct native_acquired stale = a;
    stale.session_id = session(&fixture, "b");
    assert_false(release(&fixture, &stale).is_released);
    assert_true(token_of(&fixture, &a) > 0);
    fixture_clear(&fixture);
}

static void every_end_of_a_session_hands_over(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    int64_t ids[4];
    struct native_acquired acquired[4];
    for (size_t i = 0; i < 4; i++) {
        char owner[8];
        snprintf(owner, sizeof owner, "o%zu", i);
        ids[i] = session(&fixture, owner);
        acquired[i] = acquire(&fixture, ids[i], exclusive("lock"));
    }
    assert_int_equal(end_session(&fixture, ids[0]), STATUS_OK);
    assert_int_equal(token_of(&fixture, &acquired[1]), revision(&fixture));
    struct ended_search end = newest_end(&fixture);
    assert_int_equal(end.found.reason, NATIVE_END_SESSION_ENDED);
    assert_int_equal(end.found.session_id, ids[0]);
    assert_int_equal(end.found.acquisition.id, acquired[0].acquisition.id);
    assert_int_equal(end.found.revision, revision(&fixture));
    assert_true(native_ended_is_about(&end.found, false, bytes_from_text("lock")));
    assert_int_equal(expire(&fixture, 1, &ids[1], 1).status, STATUS_OK);
    assert_int_equal(token_of(&fixture, &acquired[2]), revision(&fixture));
    assert_int_equal(newest_end(&fixture).found.reason, NATIVE_END_EXPIRED);
    /* One that waits and ends is passed over. */
    assert_int_equal(expire(&fixture, 1, &ids[3], 1).status, STATUS_OK);
    assert_true(release(&fixture, &acquired[2]).is_released);
    assert_int_equal(newest_end(&fixture).found.reason, NATIVE_END_RELEASED);
    assert_int_equal(
        count_in(&fixture, native_name_range(&fixture.arena, false, bytes_from_text("lock"))), 0);
    assert_int_equal(end_session(&fixture, ids[2]), STATUS_OK);
    assert_int_equal(newest_end(&fixture).n, 5);
    assert_false(newest_end(&fixture).found.has_acquisition);
    assert_int_equal(count_all(&fixture, KEY_SPACE_NATIVE), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
    /* Five ends and their count. */
    assert_int_equal(count_all(&fixture, KEY_SPACE_NATIVE_RECORDS), 6);
    fixture_clear(&fixture);
}

static void shared_holders_do_not_overtake_an_exclusive_waiter(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), shared("db"));
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), shared("db"));
    struct native_acquired c = acquire(&fixture, session(&fixture, "c"), exclusive("db"));
    struct native_acquired d = acquire(&fixture, session(&fixture, "d"), shared("db"));
    struct native_acquired e = acquire(&fixture, session(&fixture, "e"), shared("db"));
    assert_int_equal(a.result, NATIVE_RESULT_ACQUIRED);
    assert_int_equal(b.result, NATIVE_RESULT_ACQUIRED);
    assert_int_equal(c.result, NATIVE_RESULT_QUEUED);
    assert_int_equal(d.result, NATIVE_RESULT_QUEUED);
    assert_int_equal(e.n_before, 2);
    release(&fixture, &a);
    assert_int_equal(token_of(&fixture, &c), 0);
    release(&fixture, &b);
    assert_int_equal(token_of(&fixture, &c), revision(&fixture));
    assert_int_equal(token_of(&fixture, &d), 0);
    release(&fixture, &c);
    assert_int_equal(token_of(&fixture, &d), revision(&fixture));
    assert_int_equal(token_of(&fixture, &e), revision(&fixture));
    fixture_clear(&fixture);
}

static void an_exclusive_waiter_that_leaves_lets_shared_ones_pass(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), shared("db"));
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), exclusive("db"));
    struct native_acquired c = acquire(&fixture, session(&fixture, "c"), shared("db"));
    assert_int_equal(token_of(&fixture, &c), 0);
    struct native_released released = release(&fixture, &b);
    assert_true(released.is_released);
    assert_false(released.was_acquired);
    assert_int_equal(newest_end(&fixture).found.reason, NATIVE_END_LEFT_QUEUE);
    assert_int_equal(token_of(&fixture, &c), revision(&fixture));
    assert_true(token_of(&fixture, &a) > 0);
    fixture_clear(&fixture);
}

static void several_things_are_granted_at_once_or_not_at_all(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("x"));
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), exclusive("y"));
    struct native_acquire both = {.session_id = session(&fixture, "c"),
                                  .n_wants = 2,
                                  .wants = {exclusive("y"), exclusive("x")},
                                  .waits = true};
    struct native_acquired c = acquire_all(&fixture, &both);
    struct native_acquired d = acquire(&fixture, session(&fixture, "d"), exclusive("x"));
    assert_int_equal(c.result, NATIVE_RESULT_QUEUED);
    release(&fixture, &a);
    /* It waits for y, and its place in the queue of x counts. */
    assert_int_equal(token_of(&fixture, &c), 0);
    assert_int_equal(token_of(&fixture, &d), 0);
    release(&fixture, &b);
    assert_int_equal(token_of(&fixture, &c), revision(&fixture));
    release(&fixture, &c);
    assert_int_equal(token_of(&fixture, &d), revision(&fixture));
    /* One that leaves lets those behind it pass, in every queue. */
    struct native_acquired e = acquire(&fixture, session(&fixture, "e"), exclusive("y"));
    both.session_id = session(&fixture, "f");
    struct native_acquired f = acquire_all(&fixture, &both);
    struct native_acquired g = acquire(&fixture, session(&fixture, "g"), exclusive("x"));
    release(&fixture, &d);
    assert_int_equal(token_of(&fixture, &g), 0);
    release(&fixture, &f);
    assert_int_equal(token_of(&fixture, &g), revision(&fixture));
    assert_true(token_of(&fixture, &e) > 0);
    fixture_clear(&fixture);
}

static void who_does_not_wait_changes_nothing(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("lock"));
    int64_t before = revision(&fixture);
    struct native_acquire request = {
        .session = session_of("b"), .n_wants = 1, .wants = {exclusive("lock")}};
    struct native_acquired b = acquire_all(&fixture, &request);
    assert_int_equal(b.result, NATIVE_RESULT_REFUSED);
    assert_int_equal(revision(&fixture), before);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 1);
    /* The same when too many wait. */
    request.waits = true;
    request.queue_limit = 1;
    assert_int_equal(acquire_all(&fixture, &request).result, NATIVE_RESULT_QUEUED);
    before = revision(&fixture);
    b = acquire_all(&fixture, &request);
    assert_int_equal(b.result, NATIVE_RESULT_REFUSED);
    assert_int_equal(b.n_before, 1);
    assert_int_equal(revision(&fixture), before);
    assert_true(token_of(&fixture, &a) > 0);
    fixture_clear(&fixture);
}

static void a_session_begins_with_its_first_acquisition(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    int64_t before = revision(&fixture);
    struct native_acquire request = {
        .session = session_of("a"), .n_wants = 1, .wants = {exclusive("lock")}};
    struct native_acquired a = acquire_all(&fixture, &request);
    assert_int_equal(a.result, NATIVE_RESULT_ACQUIRED);
    assert_int_equal(revision(&fixture), before + 1);
    assert_true(has_lease(&fixture, a.session_id));
    assert_int_equal(a.acquisition.session_id, a.session_id);
    /* It ends with it, if that is asked for. */
    const struct native_release request_to_end = {
        .acquisition_id = a.acquisition.id, .session_id = a.session_id, .end_session = true};
    assert_true(release_with(&fixture, &request_to_end).is_released);
    assert_false(has_lease(&fixture, a.session_id));
    assert_int_equal(count_all(&fixture, KEY_SPACE_NATIVE), 0);
    fixture_clear(&fixture);
}

static void a_repeated_request_finds_its_place(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("lock"));
    int64_t id = session(&fixture, "b");
    struct native_acquired b = acquire(&fixture, id, exclusive("lock"));
    struct native_acquired c = acquire(&fixture, session(&fixture, "c"), exclusive("lock"));
    struct native_acquired again = acquire(&fixture, id, exclusive("lock"));
    assert_true(again.is_repeated);
    assert_int_equal(again.acquisition.id, b.acquisition.id);
    assert_int_equal(again.acquisition.call, 2);
    assert_int_equal(again.n_before, 0);
    /* The first call goes away: the second one keeps the place. */
    struct native_release gone = {.acquisition_id = b.acquisition.id, .session_id = id, .call = 1};
    assert_false(release_with(&fixture, &gone).is_released);
    assert_int_equal(token_of(&fixture, &b), 0);
    gone.call = 2;
    assert_true(release_with(&fixture, &gone).is_released);
    release(&fixture, &a);
    assert_true(token_of(&fixture, &c) > 0);
    /* Another request id is another place; the same one with other wants is a mistake. */
    struct native_acquire named = wanting(id, exclusive("lock"));
    named.request_id = bytes_from_text("r1");
    struct native_acquired d = acquire_all(&fixture, &named);
    named.request_id = bytes_from_text("r2");
    assert_true(acquire_all(&fixture, &named).acquisition.id > d.acquisition.id);
    named.wants[0] = exclusive("other");
    struct native_acquired ignored;
    assert_int_equal(try_acquire(&fixture, &named, &ignored), STATUS_INVALID);
    fixture_clear(&fixture);
}

/* Which of the calls were told is not known: what they have stays until it is given back by name.
 */
static void what_a_shared_call_was_told_of_is_not_taken_back(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("lock"));
    int64_t id = session(&fixture, "b");
    struct native_acquired b = acquire(&fixture, id, exclusive("lock"));
    assert_int_equal(acquire(&fixture, id, exclusive("lock")).acquisition.call, 2);
    struct native_acquired c = acquire(&fixture, session(&fixture, "c"), exclusive("lock"));
    release(&fixture, &a);
    assert_true(token_of(&fixture, &b) > 0);
    /* The first call was answered; the second one, on a member that is behind, gives up. */
    struct native_release gone = {.acquisition_id = b.acquisition.id, .session_id = id, .call = 2};
    assert_false(release_with(&fixture, &gone).is_released);
    assert_true(token_of(&fixture, &b) > 0);
    assert_int_equal(token_of(&fixture, &c), 0);
    gone.call = 0;
    assert_true(release_with(&fixture, &gone).is_released);
    assert_true(token_of(&fixture, &c) > 0);
    fixture_clear(&fixture);
}

static void a_hold_limit_ends_a_hold_and_nothing_else(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    int64_t id = session(&fixture, "a");
    struct native_acquire limited = wanting(id, exclusive("lock"));
    limited.hold_limit_ms = 5000;
    struct native_acquired a = acquire_all(&fixture, &limited);
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), exclusive("lock"));
    struct native_acquired kept = acquire(&fixture, id, exclusive("kept"));
    struct native_acquisition held;
    struct lease_facts facts;
    assert_true(look(&fixture, a.acquisition.id, &held));
    assert_true(
        lease_table_find(state_machine_leases(fixture.machine), held.hold_lease_id, &facts));
    assert_int_equal(facts.ttl_ms, 5000);
    assert_int_equal(facts.parent_id, id);
    assert_int_equal(expire(&fixture, 1, &held.hold_lease_id, 1).status, STATUS_OK);
    assert_int_equal(token_of(&fixture, &a), -1);
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    assert_true(token_of(&fixture, &kept) > 0);
    assert_int_equal(newest_end(&fixture).found.reason, NATIVE_END_HOLD_LIMIT);
    assert_true(has_lease(&fixture, id));
    /* A release takes the limit along. */
    release(&fixture, &b);
    a = acquire_all(&fixture, &limited);
    assert_true(look(&fixture, a.acquisition.id, &held));
    assert_true(release(&fixture, &a).is_released);
    assert_false(has_lease(&fixture, held.hold_lease_id));
    /* So does the end of the session, once. */
    a = acquire_all(&fixture, &limited);
    b = acquire(&fixture, session(&fixture, "c"), exclusive("lock"));
    assert_int_equal(end_session(&fixture, id), STATUS_OK);
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    assert_int_equal(newest_end(&fixture).found.reason, NATIVE_END_SESSION_ENDED);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 2);
    fixture_clear(&fixture);
}

static void the_end_of_a_parent_ends_its_sessions(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    int64_t parent = session(&fixture, "parent");
    struct native_session_create create = session_of("child");
    create.parent_id = parent;
    int64_t child = 0;
    assert_int_equal(try_session(&fixture, &create, &child), STATUS_OK);
    struct native_acquired a = acquire(&fixture, child, exclusive("lock"));
    struct native_acquired b = acquire(&fixture, parent, exclusive("lock"));
    struct native_acquired c = acquire(&fixture, session(&fixture, "c"), exclusive("lock"));
    assert_int_equal(expire(&fixture, 1, &parent, 1).status, STATUS_OK);
    assert_int_equal(token_of(&fixture, &a), -1);
    assert_int_equal(token_of(&fixture, &b), -1);
    assert_true(token_of(&fixture, &c) > 0);
    /* Not too deep. */
    int64_t at = 0;
    for (int i = 0; i <= NATIVE_SESSION_DEPTH_MAX; i++) {
        create = session_of("deep");
        create.parent_id = at;
        assert_int_equal(try_session(&fixture, &create, &at), STATUS_OK);
    }
    create.parent_id = at;
    assert_int_equal(try_session(&fixture, &create, &at), STATUS_INVALID);
    create.parent_id = 12345;
    assert_int_equal(try_session(&fixture, &create, &at), STATUS_LEASE_NOT_FOUND);
    fixture_clear(&fixture);
}

static void a_value_is_proclaimed_and_the_token_stays(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("leader"));
    struct native_proclaim request = {.acquisition_id = a.acquisition.id,
                                      .session_id = a.session_id,
                                      .value = bytes_from_text("10.0.0.1:80")};
    struct buffer buffer;
    bool is_done = false;
    buffer_init(&buffer);
    native_proclaim_encode(&buffer, &request);
    struct outcome outcome = native_run(&fixture, NATIVE_RULE_PROCLAIM, &buffer);
    assert_true(native_proclaimed_decode(outcome.rule.answer, &is_done));
    assert_true(is_done);
    struct native_acquisition held;
    assert_true(look(&fixture, a.acquisition.id, &held));
    assert_true(bytes_equal(held.value, request.value));
    assert_int_equal(held.token, a.acquisition.token);
    const struct record *holder =
        key_store_find(state_machine_keys(fixture.machine), KEY_SPACE_NATIVE,
                       native_key_holder(&fixture.arena, bytes_from_text("leader"),
                                         NATIVE_EXCLUSIVE, a.acquisition.id));
    assert_int_equal(holder->create_revision, held.token);
    assert_int_equal(holder->mod_revision, revision(&fixture));
    request.session_id = session(&fixture, "b");
    buffer_init(&buffer);
    native_proclaim_encode(&buffer, &request);
    outcome = native_run(&fixture, NATIVE_RULE_PROCLAIM, &buffer);
    assert_true(native_proclaimed_decode(outcome.rule.answer, &is_done));
    assert_false(is_done);
    fixture_clear(&fixture);
}

/* --- Transfer. --- */

static enum status transfer(struct fixture *fixture, const struct native_acquired *from,
                            int64_t to_session_id, const char *to_owner,
                            struct native_transferred *out_transferred) {
    const struct native_transfer request = {.acquisition_id = from->acquisition.id,
                                            .session_id = from->session_id,
                                            .to_session_id = to_session_id,
                                            .to_owner = bytes_from_text(to_owner)};
    struct buffer buffer;
    buffer_init(&buffer);
    native_transfer_encode(&buffer, &request);
    struct outcome outcome = native_run(fixture, NATIVE_RULE_TRANSFER, &buffer);
    if (outcome.status == STATUS_OK) {
        assert_true(
            native_transferred_decode(outcome.rule.answer, &fixture->arena, out_transferred));
    }
    return outcome.status;
}

static void a_transfer_goes_to_whom_it_names(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_transferred done;
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("lock"));
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), exclusive("lock"));
    struct native_acquired c = acquire(&fixture, session(&fixture, "c"), exclusive("lock"));
    /* To one that waits, before those that came earlier. */
    assert_int_equal(transfer(&fixture, &a, 0, "nobody", &done), STATUS_LEASE_NOT_FOUND);
    assert_int_equal(transfer(&fixture, &a, 0, "c", &done), STATUS_OK);
    assert_int_equal(done.acquisition.id, c.acquisition.id);
    assert_int_equal(token_of(&fixture, &c), revision(&fixture));
    assert_int_equal(token_of(&fixture, &a), -1);
    assert_int_equal(token_of(&fixture, &b), 0);
    assert_int_equal(newest_end(&fixture).found.reason, NATIVE_END_TRANSFERRED);
    /* The old one has nothing to hand over any more, and one that waits has nothing yet. */
    assert_int_equal(transfer(&fixture, &a, 0, "b", &done), STATUS_KEY_NOT_FOUND);
    assert_int_equal(transfer(&fixture, &b, c.session_id, "", &done), STATUS_KEY_NOT_FOUND);
    assert_int_equal(transfer(&fixture, &c, 12345, "", &done), STATUS_LEASE_NOT_FOUND);
    assert_int_equal(transfer(&fixture, &c, c.session_id, "", &done), STATUS_INVALID);
    /* To a session that does not wait. */
    int64_t d = session(&fixture, "d");
    assert_int_equal(transfer(&fixture, &c, d, "", &done), STATUS_OK);
    assert_int_equal(done.acquisition.session_id, d);
    assert_int_equal(done.acquisition.token, revision(&fixture));
    assert_int_equal(token_of(&fixture, &b), 0);
    struct native_acquired new = {.session_id = d, .acquisition = done.acquisition};
    assert_true(release(&fixture, &new).is_released);
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    fixture_clear(&fixture);
}

static void slots_are_transferred_with_their_names(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_transferred done;
    assert_int_equal(set_pool(&fixture, "gpus", "0123", NULL, 0, 7000), STATUS_OK);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), slots("gpus", 1));
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), slots("gpus", 2));
    int64_t c = session(&fixture, "c");
    assert_int_equal(transfer(&fixture, &b, c, "", &done), STATUS_OK);
    struct native_acquired new = {.session_id = c, .acquisition = done.acquisition};
    assert_string_equal(slots_of(&fixture, &new), "12");
    assert_int_equal(done.acquisition.hold_limit_ms, 7000);
    assert_string_equal(slots_of(&fixture, &a), "0");
    assert_int_equal(
        count_in(&fixture, native_taken_slots(&fixture.arena, bytes_from_text("gpus"))), 3);
    assert_true(release(&fixture, &new).is_released);
    assert_int_equal(
        count_in(&fixture, native_taken_slots(&fixture.arena, bytes_from_text("gpus"))), 1);
    fixture_clear(&fixture);
}

/* --- Fences. --- */

static struct native_fence_checked check_fence(struct fixture *fixture, const char *resource,
                                               int64_t token) {
    const struct native_fence_check check = {.resource = bytes_from_text(resource), .token = token};
    struct native_fence_checked checked = {0};
    struct buffer buffer;
    buffer_init(&buffer);
    native_fence_check_encode(&buffer, &check);
    struct outcome outcome = native_run(fixture, NATIVE_RULE_FENCE_CHECK, &buffer);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(native_fence_checked_decode(outcome.rule.answer, &checked));
    return checked;
}

static void a_fence_refuses_what_is_lower_than_it_has_seen(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_true(check_fence(&fixture, "file", 7).is_accepted);
    assert_true(check_fence(&fixture, "file", 7).is_accepted);
    assert_true(check_fence(&fixture, "file", 1000).is_accepted);
    int64_t before = revision(&fixture);
    struct native_fence_checked stale = check_fence(&fixture, "file", 999);
    assert_false(stale.is_accepted);
    assert_int_equal(stale.highest, 1000);
    assert_int_equal(revision(&fixture), before);
    assert_true(check_fence(&fixture, "other", 1).is_accepted);
    /* As etcd's transactions see it. */
    assert_value(find(&fixture, "leased/fences/file"), "00000000000000001000");
    /* What is no token is not taken for one. */
    put(&fixture, "leased/fences/file", "x", 0);
    struct buffer buffer;
    buffer_init(&buffer);
    native_fence_check_encode(
        &buffer, &(struct native_fence_check){.resource = bytes_from_text("file"), .token = 5000});
    assert_int_equal(native_run(&fixture, NATIVE_RULE_FENCE_CHECK, &buffer).status, STATUS_CORRUPT);
    fixture_clear(&fixture);
}

/* --- Bounds. --- */

/* A thousand shared waiters behind one exclusive holder: more than its end may grant. */
static void what_an_end_cannot_finish_is_settled_later(void **state) {
    enum { WAITERS = 1000 };
    static struct native_acquired waiters[WAITERS];
    struct fixture fixture;
    native_fixture_init(&fixture);
    native_is_quick = true;
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("db"));
    for (size_t i = 0; i < WAITERS; i++) {
        waiters[i] = acquire(&fixture, session(&fixture, "w"), shared("db"));
        assert_int_equal(waiters[i].n_before, i);
        arena_reset(&fixture.arena);
    }
    struct native_acquired last = acquire(&fixture, session(&fixture, "z"), exclusive("db"));
    assert_int_equal(end_session(&fixture, a.session_id), STATUS_OK);
    assert_int_equal(n_unsettled(&fixture), 1);
    /* In order: those that are granted are the first ones. */
    size_t n = 0;
    while (n < WAITERS && token_of(&fixture, &waiters[n]) > 0) {
        n++;
    }
    assert_true(n > 50);
    assert_true(n < WAITERS);
    for (size_t i = n; i < WAITERS; i++) {
        assert_int_equal(token_of(&fixture, &waiters[i]), 0);
    }
    assert_true(settle(&fixture) < 10);
    assert_int_equal(n_unsettled(&fixture), 0);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_true(token_of(&fixture, &waiters[i]) > 0);
    }
    assert_int_equal(token_of(&fixture, &last), 0);
    native_is_quick = false;
    fixture_clear(&fixture);
}

/* A session with as many resources as it may have ends, and somebody waits for each of them. */
static void a_full_session_hands_over_all_that_it_has(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    native_is_quick = true;
    int64_t holder = session(&fixture, "holder");
    int64_t waiter = session(&fixture, "waiter");
    size_t n = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        char name[64];
        snprintf(name, sizeof name, "a resource with a rather long name, number %zu", n);
        struct native_acquire request = wanting(holder, exclusive(name));
        struct native_acquired ignored;
        status = try_acquire(&fixture, &request, &ignored);
        if (status == STATUS_OK) {
            request = wanting(waiter, exclusive(name));
            assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_OK);
            n++;
        }
        arena_reset(&fixture.arena);
    }
    assert_int_equal(status, STATUS_TOO_MANY_KEYS);
    assert_true(n > 1000);
    assert_int_equal(keys_of(&fixture, waiter), keys_of(&fixture, holder));
    assert_int_equal(end_session(&fixture, holder), STATUS_OK);
    assert_true(n_unsettled(&fixture) > 0);
    (void)settle(&fixture);
    size_t n_held = 0;
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "a resource with a rather long name, number %zu", i);
        n_held += count_in(&fixture, native_holders(&fixture.arena, bytes_from_text(name)));
    }
    assert_int_equal(n_held, n);
    native_is_quick = false;
    fixture_clear(&fixture);
}

static void ends_are_remembered_up_to_a_bound(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    native_is_quick = true;
    int64_t id = session(&fixture, "a");
    for (size_t i = 0; i < NATIVE_ENDED_MAX + 10; i++) {
        struct native_acquired a = acquire(&fixture, id, exclusive("lock"));
        release(&fixture, &a);
        arena_reset(&fixture.arena);
    }
    assert_int_equal(count_in(&fixture, native_records('e')), NATIVE_ENDED_MAX);
    assert_int_equal(newest_end(&fixture).number, NATIVE_ENDED_MAX + 10);
    native_is_quick = false;
    fixture_clear(&fixture);
}

/* --- What is refused. --- */

static void assert_request_is_checked_to_the_last_byte(struct fixture *fixture) {
    const struct native_acquire request = {.session = session_of("b"),
                                           .n_wants = 1,
                                           .wants = {exclusive("checked")},
                                           .value = bytes_from_text("v"),
                                           .request_id = bytes_from_text("r")};
    struct buffer whole;
    buffer_init(&whole);
    native_acquire_encode(&whole, &request);
    buffer_put_u8(&whole, 0);
    for (size_t size = 0; size <= whole.size; size++) {
        struct buffer part;
        if (size == whole.size - 1) {
            continue; /* what is good */
        }
        buffer_init(&part);
        buffer_append(&part, whole.data, size);
        assert_int_equal(native_run(fixture, NATIVE_RULE_ACQUIRE, &part).status, STATUS_MALFORMED);
    }
    buffer_clear(&whole);
}

static void hostile_requests_are_refused(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    int64_t id = session(&fixture, "a");
    struct native_acquired ignored;
    struct native_acquire request = wanting(id, exclusive(""));
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_INVALID);
    request.wants[0].name = bytes_of("a\0b", 3);
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_INVALID);
    request.wants[0].name = bytes_of("\xff", 1);
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_INVALID);
    request = wanting(id, slots("pool", 1));
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_KEY_NOT_FOUND);
    request.wants[0].n_slots = 0;
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_INVALID);
    request = (struct native_acquire){
        .session_id = id, .n_wants = 2, .wants = {exclusive("x"), shared("x")}, .waits = true};
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_INVALID);
    request = wanting(12345, exclusive("x"));
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_LEASE_NOT_FOUND);
    struct native_session_create create = session_of("a");
    create.ttl_ms = NATIVE_TTL_MS_MIN - 1;
    assert_int_equal(try_session(&fixture, &create, &id), STATUS_INVALID);
    create.ttl_ms = INT64_MAX;
    assert_int_equal(try_session(&fixture, &create, &id), STATUS_LEASE_TTL_TOO_LARGE);
    assert_request_is_checked_to_the_last_byte(&fixture);
    /* Bytes that mean nothing, for every rule. */
    int64_t before = revision(&fixture);
    for (uint32_t number = NATIVE_RULE_SESSION_CREATE; number <= NATIVE_RULE_FENCE_CHECK;
         number++) {
        static const uint8_t bytes[40] = {0xff, 0x01, 0xff, 0x02};
        for (size_t size = 0; size <= sizeof bytes; size++) {
            struct buffer buffer;
            buffer_init(&buffer);
            buffer_append(&buffer, bytes, size);
            (void)native_run(&fixture, number, &buffer);
        }
    }
    assert_int_equal(revision(&fixture), before);
    fixture_clear(&fixture);
}

static void a_ttl_is_changed_of_sessions_alone(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquire limited = wanting(session(&fixture, "a"), exclusive("lock"));
    limited.hold_limit_ms = 5000;
    struct native_acquired a = acquire_all(&fixture, &limited);
    struct native_acquisition held;
    struct lease_facts facts;
    assert_true(look(&fixture, a.acquisition.id, &held));
    const int64_t ids[] = {a.session_id, held.hold_lease_id};
    const enum status expected[] = {STATUS_OK, STATUS_LEASE_NOT_FOUND};
    for (size_t i = 0; i < 2; i++) {
        struct buffer buffer;
        buffer_init(&buffer);
        native_session_change_encode(
            &buffer, &(struct native_session_change){.session_id = ids[i], .ttl_ms = 1234});
        assert_int_equal(native_run(&fixture, NATIVE_RULE_SESSION_CHANGE, &buffer).status,
                         expected[i]);
    }
    assert_true(lease_table_find(state_machine_leases(fixture.machine), a.session_id, &facts));
    assert_int_equal(facts.ttl_ms, 1234);
    assert_int_equal(end_session(&fixture, held.hold_lease_id), STATUS_LEASE_NOT_FOUND);
    fixture_clear(&fixture);
}

/* Giving back must be possible when nothing else is. */
static void while_the_space_alarm_stands_things_are_given_back(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    struct native_acquired a = acquire(&fixture, session(&fixture, "a"), exclusive("lock"));
    struct native_acquired b = acquire(&fixture, session(&fixture, "b"), exclusive("lock"));
    assert_int_equal(alarm_change(&fixture, true, 1, ALARM_NO_SPACE).status, STATUS_OK);
    struct native_acquire request = wanting(a.session_id, exclusive("other"));
    struct native_acquired ignored;
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_NO_SPACE);
    assert_true(release(&fixture, &a).is_released);
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    assert_int_equal(end_session(&fixture, b.session_id), STATUS_OK);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exclusive_resource_has_one_holder),
        cmocka_unit_test(a_release_hands_over_in_its_revision),
        cmocka_unit_test(only_its_own_session_releases),
        cmocka_unit_test(every_end_of_a_session_hands_over),
        cmocka_unit_test(shared_holders_do_not_overtake_an_exclusive_waiter),
        cmocka_unit_test(an_exclusive_waiter_that_leaves_lets_shared_ones_pass),
        cmocka_unit_test(several_things_are_granted_at_once_or_not_at_all),
        cmocka_unit_test(who_does_not_wait_changes_nothing),
        cmocka_unit_test(a_session_begins_with_its_first_acquisition),
        cmocka_unit_test(a_repeated_request_finds_its_place),
        cmocka_unit_test(what_a_shared_call_was_told_of_is_not_taken_back),
        cmocka_unit_test(a_hold_limit_ends_a_hold_and_nothing_else),
        cmocka_unit_test(the_end_of_a_parent_ends_its_sessions),
        cmocka_unit_test(a_value_is_proclaimed_and_the_token_stays),
        cmocka_unit_test(a_transfer_goes_to_whom_it_names),
        cmocka_unit_test(slots_are_transferred_with_their_names),
        cmocka_unit_test(a_fence_refuses_what_is_lower_than_it_has_seen),
        cmocka_unit_test(what_an_end_cannot_finish_is_settled_later),
        cmocka_unit_test(a_full_session_hands_over_all_that_it_has),
        cmocka_unit_test(ends_are_remembered_up_to_a_bound),
        cmocka_unit_test(hostile_requests_are_refused),
        cmocka_unit_test(a_ttl_is_changed_of_sessions_alone),
        cmocka_unit_test(while_the_space_alarm_stands_things_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
