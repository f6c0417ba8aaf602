/* Who may do what by the native rules while authentication is on. */
#include "core/auth_command.h"
#include "native_fixture.h"

static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {1, 2, 3};

/* Users are numbered by the revision that added them. */
static const struct caller root = {.user_id = 2, .auth_version = 2};
static struct caller ann;
static struct caller bob;

static void change_auth(struct fixture *fixture, struct auth_change change) {
    struct command inner = {.type = COMMAND_AUTH, .auth = change};
    struct command as = {.type = COMMAND_AS, .as = {.caller = caller_server, .command = &inner}};
    assert_int_equal(fixture_apply(fixture, &as).status, STATUS_OK);
}

static struct caller caller_of(struct fixture *fixture, const char *name) {
    struct auth_user user;
    assert_true(auth_find_user(state_machine_auth(fixture->machine), bytes_from_text(name), &user));
    return (struct caller){.user_id = user.id, .auth_version = user.version};
}

/* The right to a name is that to a key of etcd's space (core/auth_names.h). */
static void allow(struct fixture *fixture, const char *role, const char *key, const char *end) {
    const struct key_range range = {
        .space = KEY_SPACE_ETCD, .key = bytes_from_text(key), .range_end = bytes_from_text(end)};
    change_auth(fixture, (struct auth_change){.action = AUTH_ROLE_GRANT_PERMISSION,
                                              .role = bytes_from_text(role),
                                              .permission = {RIGHT_WRITE, range}});
}

/* Both may write names that begin with "both/"; beyond that Ann those of "ann/", and Bob the one
 * name "bob". Nobody but root has a right to records. */
static void rights_fixture_init(struct fixture *fixture) {
    static const char *const names[] = {"root", "ann", "bob"};
    native_fixture_init(fixture);
    for (size_t i = 0; i < 3; i++) {
        struct bytes name = bytes_from_text(names[i]);
        change_auth(fixture, (struct auth_change){.action = AUTH_USER_ADD, .user = name});
        change_auth(fixture, (struct auth_change){.action = AUTH_ROLE_ADD, .role = name});
        change_auth(fixture, (struct auth_change){
                                 .action = AUTH_USER_GRANT_ROLE, .user = name, .role = name});
    }
    allow(fixture, "ann", "leased/resources/both/", "leased/resources/both0");
    allow(fixture, "ann", "leased/resources/ann/", "leased/resources/ann0");
    allow(fixture, "bob", "leased/resources/both/", "leased/resources/both0");
    allow(fixture, "bob", "leased/resources/bob", "");
    allow(fixture, "bob", "leased/pools/gpus", "");
    change_auth(fixture, (struct auth_change){.action = AUTH_ENABLE,
                                              .token_key = bytes_of(token_key, sizeof token_key)});
    ann = caller_of(fixture, "ann");
    bob = caller_of(fixture, "bob");
    assert_int_equal(caller_of(fixture, "root").user_id, root.user_id);
}

static struct outcome run_as(struct fixture *fixture, const struct caller *caller, uint32_t number,
                             struct buffer *request) {
    struct command inner = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    struct command as = {.type = COMMAND_AS, .as = {.caller = *caller, .command = &inner}};
    struct outcome outcome = fixture_apply(fixture, &as);
    buffer_clear(request);
    return outcome;
}

static int64_t session_as(struct fixture *fixture, const struct caller *caller) {
    struct native_session_create create = session_of("owner");
    struct native_session_created created;
    struct buffer request;
    buffer_init(&request);
    native_session_create_encode(&request, &create);
    struct outcome outcome = run_as(fixture, caller, NATIVE_RULE_SESSION_CREATE, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(native_session_created_decode(outcome.rule.answer, &created));
    return created.id;
}

static enum status acquire_as(struct fixture *fixture, const struct caller *caller, int64_t id,
                              struct native_want want, struct native_acquired *out_acquired) {
    const struct native_acquire acquire = wanting(id, want);
    struct buffer request;
    buffer_init(&request);
    native_acquire_encode(&request, &acquire);
    struct outcome outcome = run_as(fixture, caller, NATIVE_RULE_ACQUIRE, &request);
    if (outcome.status == STATUS_OK) {
        assert_true(native_acquired_decode(outcome.rule.answer, &fixture->arena, out_acquired));
    }
    return outcome.status;
}

static enum status release_as(struct fixture *fixture, const struct caller *caller,
                              const struct native_acquired *acquired) {
    const struct native_release release = {.acquisition_id = acquired->acquisition.id,
                                           .session_id = acquired->session_id};
    struct buffer request;
    buffer_init(&request);
    native_release_encode(&request, &release);
    return run_as(fixture, caller, NATIVE_RULE_RELEASE, &request).status;
}

static enum status transfer_as(struct fixture *fixture, const struct caller *caller,
                               const struct native_acquired *from, int64_t to) {
    const struct native_transfer transfer = {.acquisition_id = from->acquisition.id,
                                             .session_id = from->session_id,
                                             .to_session_id = to};
    struct buffer request;
    buffer_init(&request);
    native_transfer_encode(&request, &transfer);
    return run_as(fixture, caller, NATIVE_RULE_TRANSFER, &request).status;
}

static void a_name_needs_the_right_to_it(void **state) {
    struct fixture fixture;
    struct native_acquired acquired;
    rights_fixture_init(&fixture);
    int64_t of_ann = session_as(&fixture, &ann);
    int64_t of_bob = session_as(&fixture, &bob);
    int64_t before = revision(&fixture);
    static const char *const forbidden[] = {"ann", "ann", "bob", "other", "both"};
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        assert_int_equal(acquire_as(&fixture, &ann, of_ann, exclusive(forbidden[i]), &acquired),
                         STATUS_PERMISSION_DENIED);
    }
    assert_int_equal(acquire_as(&fixture, &bob, of_bob, shared("bobby"), &acquired),
                     STATUS_PERMISSION_DENIED);
    assert_int_equal(acquire_as(&fixture, &bob, of_bob, shared("bo"), &acquired),
                     STATUS_PERMISSION_DENIED);
    assert_int_equal(acquire_as(&fixture, &ann, of_ann, slots("gpus", 1), &acquired),
                     STATUS_PERMISSION_DENIED);
    assert_int_equal(acquire_as(&fixture, &caller_anonymous, of_ann, exclusive("ann/x"), &acquired),
                     STATUS_USER_EMPTY);
    assert_int_equal(revision(&fixture), before);
    assert_int_equal(acquire_as(&fixture, &ann, of_ann, exclusive("ann/x"), &acquired), STATUS_OK);
    assert_int_equal(acquire_as(&fixture, &bob, of_bob, exclusive("bob"), &acquired), STATUS_OK);
    assert_int_equal(acquire_as(&fixture, &root, of_ann, exclusive("other"), &acquired), STATUS_OK);
    fixture_clear(&fixture);
}

static void a_session_with_keys_of_others_is_not_used(void **state) {
    struct fixture fixture;
    struct native_acquired held;
    struct native_acquired ignored;
    rights_fixture_init(&fixture);
    int64_t of_ann = session_as(&fixture, &ann);
    int64_t of_bob = session_as(&fixture, &bob);
    assert_int_equal(acquire_as(&fixture, &ann, of_ann, exclusive("ann/x"), &held), STATUS_OK);
    int64_t before = revision(&fixture);
    assert_int_equal(release_as(&fixture, &bob, &held), STATUS_PERMISSION_DENIED);
    assert_int_equal(transfer_as(&fixture, &bob, &held, of_bob), STATUS_PERMISSION_DENIED);
    assert_int_equal(acquire_as(&fixture, &bob, of_ann, exclusive("bob"), &ignored),
                     STATUS_PERMISSION_DENIED);
    struct buffer request;
    buffer_init(&request);
    native_session_end_encode(&request, &(struct native_session_end){.session_id = of_ann});
    assert_int_equal(run_as(&fixture, &bob, NATIVE_RULE_SESSION_END, &request).status,
                     STATUS_PERMISSION_DENIED);
    buffer_init(&request);
    native_session_change_encode(
        &request, &(struct native_session_change){.session_id = of_ann, .ttl_ms = 1000});
    assert_int_equal(run_as(&fixture, &bob, NATIVE_RULE_SESSION_CHANGE, &request).status,
                     STATUS_PERMISSION_DENIED);
    buffer_init(&request);
    native_proclaim_encode(
        &request,
        &(struct native_proclaim){.acquisition_id = held.acquisition.id, .session_id = of_ann});
    assert_int_equal(run_as(&fixture, &bob, NATIVE_RULE_PROCLAIM, &request).status,
                     STATUS_PERMISSION_DENIED);
    assert_int_equal(revision(&fixture), before);
    /* A renewal asks for the same; records need no right. */
    const struct auth *auth = state_machine_auth(fixture.machine);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    assert_int_equal(auth_check_lease(auth, leases, &ann, of_ann, RIGHT_WRITE), STATUS_OK);
    assert_int_equal(auth_check_lease(auth, leases, &bob, of_ann, RIGHT_WRITE),
                     STATUS_PERMISSION_DENIED);
    const struct key_range record = {.space = KEY_SPACE_NATIVE_RECORDS,
                                     .key = native_key_session(&fixture.arena, of_ann)};
    assert_int_equal(auth_check_range(auth, &bob, RIGHT_READ, &record), STATUS_OK);
    assert_int_equal(auth_check_range(auth, &caller_anonymous, RIGHT_READ, &record),
                     STATUS_USER_EMPTY);
    fixture_clear(&fixture);
}

/* What comes of a release does not depend on the rights of the one that gives. */
static void a_hand_over_needs_no_right_to_what_the_next_one_has(void **state) {
    struct fixture fixture;
    struct native_acquired held;
    struct native_acquired waits;
    struct native_acquired ignored;
    rights_fixture_init(&fixture);
    int64_t of_ann = session_as(&fixture, &ann);
    int64_t of_bob = session_as(&fixture, &bob);
    assert_int_equal(acquire_as(&fixture, &ann, of_ann, exclusive("both/x"), &held), STATUS_OK);
    assert_int_equal(acquire_as(&fixture, &bob, of_bob, exclusive("bob"), &ignored), STATUS_OK);
    assert_int_equal(acquire_as(&fixture, &bob, of_bob, exclusive("both/x"), &waits), STATUS_OK);
    assert_int_equal(waits.result, NATIVE_RESULT_QUEUED);
    assert_int_equal(release_as(&fixture, &ann, &held), STATUS_OK);
    assert_int_equal(token_of(&fixture, &waits), revision(&fixture));
    assert_int_equal(newest_end(&fixture).found.user_id, ann.user_id);
    /* A transfer to one that waits neither. */
    held = waits;
    held.acquisition.token = token_of(&fixture, &waits);
    assert_int_equal(acquire_as(&fixture, &ann, of_ann, exclusive("ann/y"), &ignored), STATUS_OK);
    assert_int_equal(acquire_as(&fixture, &ann, of_ann, exclusive("both/x"), &waits), STATUS_OK);
    assert_int_equal(transfer_as(&fixture, &bob, &held, of_ann), STATUS_OK);
    assert_int_equal(token_of(&fixture, &waits), revision(&fixture));
    /* But nothing is put into the session of another user that did not ask for it: who has a key to
     * which it has no right cannot renew. */
    assert_int_equal(transfer_as(&fixture, &ann, &waits, of_bob), STATUS_PERMISSION_DENIED);
    assert_int_equal(transfer_as(&fixture, &ann, &waits, session_as(&fixture, &ann)), STATUS_OK);
    fixture_clear(&fixture);
}

static void a_pool_is_set_and_removed_with_the_right_to_it(void **state) {
    const struct native_pool_set set = {.name = bytes_from_text("gpus")};
    const struct caller *const callers[] = {&ann, &bob};
    const enum status expected[] = {STATUS_PERMISSION_DENIED, STATUS_OK};
    struct fixture fixture;
    rights_fixture_init(&fixture);
    for (size_t i = 0; i < 2; i++) {
        struct buffer request;
        buffer_init(&request);
        native_pool_set_encode(&request, &set);
        assert_int_equal(run_as(&fixture, callers[i], NATIVE_RULE_POOL_SET, &request).status,
                         expected[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        struct buffer request;
        buffer_init(&request);
        native_pool_remove_encode(&request, &(struct native_pool_remove){.name = set.name});
        assert_int_equal(run_as(&fixture, callers[i], NATIVE_RULE_POOL_REMOVE, &request).status,
                         expected[i]);
    }
    fixture_clear(&fixture);
}

/* Fences are keys of etcd's space. */
static void a_fence_needs_the_right_to_its_key(void **state) {
    struct fixture fixture;
    rights_fixture_init(&fixture);
    const struct native_fence_check check = {.resource = bytes_from_text("bob"), .token = 5};
    const enum status expected[] = {STATUS_PERMISSION_DENIED, STATUS_OK};
    for (size_t i = 0; i < 2; i++) {
        struct buffer request;
        buffer_init(&request);
        native_fence_check_encode(&request, &check);
        assert_int_equal(run_as(&fixture, &bob, NATIVE_RULE_FENCE_CHECK, &request).status,
                         expected[i]);
        change_auth(&fixture,
                    (struct auth_change){
                        .action = AUTH_ROLE_GRANT_PERMISSION,
                        .role = bytes_from_text("bob"),
                        .permission = {RIGHT_READ_WRITE,
                                       {.space = KEY_SPACE_ETCD,
                                        .key = native_fence_key(&fixture.arena, check.resource)}}});
    }
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_needs_the_right_to_it),
        cmocka_unit_test(a_session_with_keys_of_others_is_not_used),
        cmocka_unit_test(a_hand_over_needs_no_right_to_what_the_next_one_has),
        cmocka_unit_test(a_pool_is_set_and_removed_with_the_right_to_it),
        cmocka_unit_test(a_fence_needs_the_right_to_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
