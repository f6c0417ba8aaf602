/* Pools: slots, their order between owners, and several at once. */
#include "native_fixture.h"

static struct native_acquired ask(struct fixture *fixture, const char *owner, uint32_t n) {
    return acquire(fixture, session(fixture, owner), slots("gpus", n));
}

static size_t taken(struct fixture *fixture) {
    return count_in(fixture, native_taken_slots(&fixture->arena, bytes_from_text("gpus")));
}

static void slots_are_given_out_in_their_order(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "zxay", NULL, 0, 0), STATUS_OK);
    struct native_acquired a = ask(&fixture, "a", 1);
    struct native_acquired b = ask(&fixture, "b", 2);
    assert_string_equal(slots_of(&fixture, &a), "z");
    assert_string_equal(slots_of(&fixture, &b), "xa");
    /* All or nothing. */
    struct native_acquired c = ask(&fixture, "c", 2);
    assert_int_equal(c.result, NATIVE_RESULT_QUEUED);
    assert_string_equal(slots_of(&fixture, &c), "");
    release(&fixture, &a);
    assert_string_equal(slots_of(&fixture, &c), "zy");
    assert_int_equal(token_of(&fixture, &c), revision(&fixture));
    const struct record *slot = key_store_find(
        state_machine_keys(fixture.machine), KEY_SPACE_NATIVE,
        native_key_taken(&fixture.arena, bytes_from_text("gpus"), bytes_from_text("y")));
    assert_int_equal(slot->create_revision, revision(&fixture));
    assert_int_equal(taken(&fixture), 4);
    fixture_clear(&fixture);
}

/* Nobody has all slots while others wait beyond their share. */
static void an_owner_below_its_share_goes_first(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "0123", NULL, 0, 0), STATUS_OK);
    struct native_acquired held[4];
    for (size_t i = 0; i < 4; i++) {
        held[i] = ask(&fixture, "greedy", 1);
    }
    struct native_acquired more = ask(&fixture, "greedy", 1);
    struct native_acquired most = ask(&fixture, "greedy", 1);
    struct native_acquired other = ask(&fixture, "other", 1);
    struct native_acquired another = ask(&fixture, "other", 1);
    struct native_acquired third = ask(&fixture, "other", 1);
    release(&fixture, &held[0]);
    assert_string_equal(slots_of(&fixture, &other), "0");
    release(&fixture, &held[1]);
    assert_string_equal(slots_of(&fixture, &another), "1");
    /* Both have two of four, their share: by age. */
    assert_int_equal(token_of(&fixture, &more), 0);
    release(&fixture, &held[2]);
    assert_string_equal(slots_of(&fixture, &more), "2");
    release(&fixture, &held[3]);
    assert_string_equal(slots_of(&fixture, &most), "3");
    assert_int_equal(token_of(&fixture, &third), 0);
    fixture_clear(&fixture);
}

static void shares_have_weights(void **state) {
    const struct native_share heavy[] = {{.owner = bytes_from_text("heavy"), .weight = 3},
                                         {.owner = bytes_from_text("absent"), .weight = 100}};
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "0123", heavy, 2, 0), STATUS_OK);
    struct native_acquired light[4];
    struct native_acquired wanted[4];
    for (size_t i = 0; i < 4; i++) {
        light[i] = ask(&fixture, "light", 1);
    }
    struct native_acquired again = ask(&fixture, "light", 1);
    for (size_t i = 0; i < 4; i++) {
        wanted[i] = ask(&fixture, "heavy", 1);
    }
    /* Three of four are the share of the heavy one; who is absent has none. */
    for (size_t i = 0; i < 3; i++) {
        release(&fixture, &light[i]);
        assert_true(token_of(&fixture, &wanted[i]) > 0);
        assert_int_equal(token_of(&fixture, &again), 0);
    }
    release(&fixture, &light[3]);
    assert_true(token_of(&fixture, &again) > 0);
    assert_int_equal(token_of(&fixture, &wanted[3]), 0);
    fixture_clear(&fixture);
}

/* One more that waits makes shares smaller, and another is next. */
static void who_joins_may_make_room_for_another(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "012345", NULL, 0, 0), STATUS_OK);
    struct native_acquired a = ask(&fixture, "a", 2);
    struct native_acquired c = ask(&fixture, "c", 3);
    /* One is free. Its owner has two of three: it is below its share and holds back the others. */
    struct native_acquired large = ask(&fixture, "a", 2);
    struct native_acquired small = ask(&fixture, "c", 1);
    assert_int_equal(token_of(&fixture, &large), 0);
    assert_int_equal(token_of(&fixture, &small), 0);
    /* Three owners: two slots each. Now the one that has none is first, and gets the slot. */
    struct native_acquired none = ask(&fixture, "n", 1);
    assert_int_equal(none.result, NATIVE_RESULT_ACQUIRED);
    release(&fixture, &c);
    assert_int_equal(token_of(&fixture, &large), 0 + revision(&fixture));
    assert_int_equal(token_of(&fixture, &small), revision(&fixture));
    assert_true(token_of(&fixture, &a) > 0);
    fixture_clear(&fixture);
}

static void several_pools_and_resources_do_not_deadlock(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "01", NULL, 0, 0), STATUS_OK);
    assert_int_equal(set_pool(&fixture, "disks", "ab", NULL, 0, 0), STATUS_OK);
    struct native_acquired gpus = ask(&fixture, "x", 2);
    struct native_acquired disks = acquire(&fixture, session(&fixture, "y"), slots("disks", 2));
    struct native_acquire both = {.session_id = session(&fixture, "a"),
                                  .n_wants = 3,
                                  .wants = {slots("gpus", 1), exclusive("r"), slots("disks", 1)},
                                  .waits = true};
    struct native_acquired a = acquire_all(&fixture, &both);
    both.session_id = session(&fixture, "b");
    struct native_acquired b = acquire_all(&fixture, &both);
    struct native_acquired r = acquire(&fixture, session(&fixture, "r"), exclusive("r"));
    release(&fixture, &gpus);
    assert_int_equal(token_of(&fixture, &a), 0);
    release(&fixture, &disks);
    assert_int_equal(token_of(&fixture, &a), revision(&fixture));
    assert_string_equal(slots_of(&fixture, &a), "a0");
    assert_int_equal(token_of(&fixture, &b), 0);
    assert_int_equal(token_of(&fixture, &r), 0);
    release(&fixture, &a);
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    release(&fixture, &b);
    assert_int_equal(token_of(&fixture, &r), revision(&fixture));
    fixture_clear(&fixture);
}

/* Granted for the sake of a resource, it was the first of a pool in which slots were free. */
static void a_grant_lets_those_behind_it_in_a_pool_pass(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "012", NULL, 0, 0), STATUS_OK);
    struct native_acquired r = acquire(&fixture, session(&fixture, "r"), exclusive("r"));
    struct native_acquired held = ask(&fixture, "b", 1);
    struct native_acquire both = {.session_id = session(&fixture, "a"),
                                  .n_wants = 2,
                                  .wants = {slots("gpus", 1), exclusive("r")},
                                  .waits = true};
    struct native_acquired a = acquire_all(&fixture, &both);
    /* The owner has its share of one, so that it is behind the older one. */
    struct native_acquired b = ask(&fixture, "b", 1);
    assert_int_equal(a.result, NATIVE_RESULT_QUEUED);
    assert_int_equal(b.result, NATIVE_RESULT_QUEUED);
    release(&fixture, &r);
    assert_int_equal(token_of(&fixture, &a), revision(&fixture));
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    assert_true(token_of(&fixture, &held) > 0);
    fixture_clear(&fixture);
}

static void a_pool_may_be_changed_under_its_users(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "01", NULL, 0, 0), STATUS_OK);
    struct native_acquired a = ask(&fixture, "a", 2);
    struct native_acquired b = ask(&fixture, "b", 2);
    struct native_acquired c = ask(&fixture, "c", 1);
    /* Smaller: who wants more than there is waits, and holds nobody back. */
    assert_int_equal(set_pool(&fixture, "gpus", "1", NULL, 0, 0), STATUS_OK);
    assert_string_equal(slots_of(&fixture, &a), "01");
    release(&fixture, &a);
    assert_string_equal(slots_of(&fixture, &c), "1");
    assert_int_equal(token_of(&fixture, &b), 0);
    assert_int_equal(taken(&fixture), 1);
    struct native_acquire request = wanting(session(&fixture, "d"), slots("gpus", 2));
    struct native_acquired ignored;
    assert_int_equal(try_acquire(&fixture, &request, &ignored), STATUS_INVALID);
    /* Larger: at once. */
    assert_int_equal(set_pool(&fixture, "gpus", "123", NULL, 0, 0), STATUS_OK);
    assert_string_equal(slots_of(&fixture, &b), "23");
    assert_int_equal(token_of(&fixture, &b), revision(&fixture));
    fixture_clear(&fixture);
}

static enum native_pool_removal remove_pool(struct fixture *fixture) {
    enum native_pool_removal removal = NATIVE_POOL_IN_USE;
    struct buffer request;
    buffer_init(&request);
    native_pool_remove_encode(&request,
                              &(struct native_pool_remove){.name = bytes_from_text("gpus")});
    struct outcome outcome = native_run(fixture, NATIVE_RULE_POOL_REMOVE, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(native_pool_removed_decode(outcome.rule.answer, &removal));
    return removal;
}

static void a_pool_in_use_is_not_removed(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(remove_pool(&fixture), NATIVE_POOL_NOT_FOUND);
    assert_int_equal(set_pool(&fixture, "gpus", "01", NULL, 0, 0), STATUS_OK);
    struct native_acquired a = ask(&fixture, "a", 1);
    assert_int_equal(remove_pool(&fixture), NATIVE_POOL_IN_USE);
    release(&fixture, &a);
    assert_int_equal(remove_pool(&fixture), NATIVE_POOL_REMOVED);
    assert_int_equal(remove_pool(&fixture), NATIVE_POOL_NOT_FOUND);
    fixture_clear(&fixture);
}

static void the_least_hold_limit_counts(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "0", NULL, 0, 9000), STATUS_OK);
    struct native_acquire request = wanting(session(&fixture, "a"), slots("gpus", 1));
    request.hold_limit_ms = 20000;
    struct native_acquired a = acquire_all(&fixture, &request);
    assert_int_equal(a.acquisition.hold_limit_ms, 9000);
    request.session_id = session(&fixture, "b");
    request.hold_limit_ms = 3000;
    struct native_acquired b = acquire_all(&fixture, &request);
    struct native_acquisition held;
    assert_true(look(&fixture, a.acquisition.id, &held));
    assert_int_equal(expire(&fixture, 1, &held.hold_lease_id, 1).status, STATUS_OK);
    assert_true(look(&fixture, b.acquisition.id, &held));
    assert_int_equal(held.hold_limit_ms, 3000);
    assert_int_equal(held.token, revision(&fixture));
    assert_true(has_lease(&fixture, held.hold_lease_id));
    fixture_clear(&fixture);
}

static void bad_pools_are_refused(void **state) {
    const struct native_share twice[] = {{.owner = bytes_from_text("a"), .weight = 1},
                                         {.owner = bytes_from_text("a"), .weight = 2}};
    const struct native_share weightless[] = {{.owner = bytes_from_text("a"), .weight = 0}};
    struct fixture fixture;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "00", NULL, 0, 0), STATUS_INVALID);
    assert_int_equal(set_pool(&fixture, "", "0", NULL, 0, 0), STATUS_INVALID);
    assert_int_equal(set_pool(&fixture, "gpus", "0", twice, 2, 0), STATUS_INVALID);
    assert_int_equal(set_pool(&fixture, "gpus", "0", weightless, 1, 0), STATUS_INVALID);
    assert_int_equal(set_pool(&fixture, "gpus", "0", NULL, 0, -1), STATUS_INVALID);
    fixture_clear(&fixture);
}

static size_t work_of(struct fixture *fixture, uint32_t number, struct buffer *request) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    size_t work = state_machine_rule_work(fixture->machine, &command);
    buffer_clear(request);
    return work;
}

static size_t work_of_acquiring(struct fixture *fixture, int64_t session_id,
                                struct native_want want) {
    const struct native_acquire acquire = wanting(session_id, want);
    struct buffer request;
    buffer_init(&request);
    native_acquire_encode(&request, &acquire);
    return work_of(fixture, NATIVE_RULE_ACQUIRE, &request);
}

static size_t work_of_releasing(struct fixture *fixture, const struct native_acquired *acquired) {
    struct buffer request;
    buffer_init(&request);
    native_release_encode(&request,
                          &(struct native_release){.acquisition_id = acquired->acquisition.id,
                                                   .session_id = acquired->acquisition.session_id});
    return work_of(fixture, NATIVE_RULE_RELEASE, &request);
}

static size_t work_of_transferring(struct fixture *fixture,
                                   const struct native_acquired *acquired) {
    struct buffer request;
    buffer_init(&request);
    native_transfer_encode(&request,
                           &(struct native_transfer){.acquisition_id = acquired->acquisition.id,
                                                     .session_id = acquired->acquisition.session_id,
                                                     .to_owner = bytes_from_text("b")});
    return work_of(fixture, NATIVE_RULE_TRANSFER, &request);
}

/* Slots, those that are taken and those that wait, whatever the request asks for. */
static void a_pool_is_as_much_work_as_it_is_large(void **state) {
    struct fixture fixture;
    native_fixture_init(&fixture);
    int64_t other = session(&fixture, "other");
    assert_int_equal(work_of_acquiring(&fixture, other, slots("gpus", 1)), 0);
    assert_int_equal(work_of_acquiring(&fixture, other, exclusive("r")), 0);
    assert_int_equal(set_pool(&fixture, "gpus", "01234567", NULL, 0, 0), STATUS_OK);
    size_t empty = work_of_acquiring(&fixture, other, slots("gpus", 1));
    assert_true(empty >= 8);
    struct native_acquired held = ask(&fixture, "a", 8);
    size_t full = work_of_acquiring(&fixture, other, slots("gpus", 1));
    assert_int_equal(full, 2 * empty);
    size_t alone = work_of_transferring(&fixture, &held);
    for (size_t i = 0; i < 8; i++) {
        ask(&fixture, "b", 1);
    }
    assert_int_equal(work_of_acquiring(&fixture, other, slots("gpus", 1)), 3 * empty);
    assert_true(work_of_releasing(&fixture, &held) >= 3 * empty);
    assert_true(work_of_transferring(&fixture, &held) >= alone + 8);
    /* What was asked for before is written again. */
    assert_true(work_of_acquiring(&fixture, held.acquisition.session_id, slots("gpus", 8)) >
                3 * empty);
    fixture_clear(&fixture);
}

/* It is done again by a start that has no newer snapshot. */
static void loading_a_pool_counts_as_work_of_the_run(void **state) {
    struct fixture fixture;
    struct buffer request;
    (void)state;
    native_fixture_init(&fixture);
    assert_int_equal(set_pool(&fixture, "gpus", "01234567", NULL, 0, 0), STATUS_OK);
    ask(&fixture, "a", 8);
    const struct native_acquire acquire = wanting(session(&fixture, "b"), slots("gpus", 1));
    size_t estimated = work_of_acquiring(&fixture, acquire.session_id, slots("gpus", 1));
    buffer_init(&request);
    native_acquire_encode(&request, &acquire);
    struct outcome outcome = native_run(&fixture, NATIVE_RULE_ACQUIRE, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(outcome.work >= estimated);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_given_out_in_their_order),
        cmocka_unit_test(an_owner_below_its_share_goes_first),
        cmocka_unit_test(shares_have_weights),
        cmocka_unit_test(who_joins_may_make_room_for_another),
        cmocka_unit_test(several_pools_and_resources_do_not_deadlock),
        cmocka_unit_test(a_grant_lets_those_behind_it_in_a_pool_pass),
        cmocka_unit_test(a_pool_may_be_changed_under_its_users),
        cmocka_unit_test(a_pool_in_use_is_not_removed),
        cmocka_unit_test(the_least_hold_limit_counts),
        cmocka_unit_test(a_pool_is_as_much_work_as_it_is_large),
        cmocka_unit_test(loading_a_pool_counts_as_work_of_the_run),
        cmocka_unit_test(bad_pools_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
