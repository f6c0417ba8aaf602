/* Rights as the state machine checks them: again, on every replica, whatever was true when a
 * command was submitted. */
#include "state_machine_fixture.h"

#include "core/auth_command.h"
#include "core/cluster_version.h"
#include "core/lease_checks.h"
#include "core/rule_acquire.h"

static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {1, 2, 3};

static enum status change_auth(struct fixture *fixture, const struct caller *caller,
                               struct auth_change change) {
    struct command inner = {.type = COMMAND_AUTH, .auth = change};
    struct command as = {.type = COMMAND_AS, .as = {.caller = *caller, .command = &inner}};
    enum status status = fixture_apply(fixture, &as).status;
    auth_validate(state_machine_auth(fixture->machine));
    return status;
}

static void add_user(struct fixture *fixture, const char *name) {
    assert_int_equal(change_auth(fixture, &caller_server,
                                 (struct auth_change){.action = AUTH_USER_ADD,
                                                      .user = bytes_from_text(name),
                                                      .password_hash = bytes_from_text("$y$x")}),
                     STATUS_OK);
}

static void grant_role(struct fixture *fixture, const char *name, const char *role) {
    assert_int_equal(change_auth(fixture, &caller_server,
                                 (struct auth_change){.action = AUTH_USER_GRANT_ROLE,
                                                      .user = bytes_from_text(name),
                                                      .role = bytes_from_text(role)}),
                     STATUS_OK);
}

static void permit(struct fixture *fixture, enum auth_action action, const char *key,
                   const char *end, enum right right) {
    struct auth_change change = {
        .action = action,
        .role = bytes_from_text("r"),
        .permission = {right, {KEY_SPACE_ETCD, bytes_from_text(key), bytes_from_text(end)}}};
    assert_int_equal(change_auth(fixture, &caller_server, change), STATUS_OK);
}

/* Users "root" and "u"; "u" may read and write [a, b), and read [b, c). */
static void fixture_enable(struct fixture *fixture) {
    fixture_init(fixture);
    struct command version = {.type = COMMAND_CLUSTER_VERSION,
                              .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &version).status, STATUS_OK);
    add_user(fixture, "root");
    grant_role(fixture, "root", "root");
    add_user(fixture, "u");
    assert_int_equal(
        change_auth(fixture, &caller_server,
                    (struct auth_change){.action = AUTH_ROLE_ADD, .role = bytes_from_text("r")}),
        STATUS_OK);
    grant_role(fixture, "u", "r");
    permit(fixture, AUTH_ROLE_GRANT_PERMISSION, "a", "b", RIGHT_READ_WRITE);
    permit(fixture, AUTH_ROLE_GRANT_PERMISSION, "b", "c", RIGHT_READ);
    assert_int_equal(
        change_auth(fixture, &caller_server,
                    (struct auth_change){.action = AUTH_ENABLE,
                                         .token_key = bytes_of(token_key, sizeof token_key)}),
        STATUS_OK);
}

static struct caller caller_of(struct fixture *fixture, const char *name) {
    struct auth_user user;
    assert_true(auth_find_user(state_machine_auth(fixture->machine), bytes_from_text(name), &user));
    return (struct caller){.user_id = user.id, .auth_version = user.version};
}

static enum status apply_as(struct fixture *fixture, const struct caller *caller,
                            const struct command *command) {
    struct command as = {.type = COMMAND_AS, .as = {.caller = *caller, .command = command}};
    return fixture_apply(fixture, &as).status;
}

static enum status put_as(struct fixture *fixture, const struct caller *caller, const char *key,
                          int64_t lease_id) {
    struct command command = {.type = COMMAND_PUT,
                              .put = {.key = bytes_from_text(key), .lease_id = lease_id}};
    return apply_as(fixture, caller, &command);
}

static void a_client_without_a_caller_is_refused(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    int64_t revision = key_store_revision(state_machine_keys(fixture.machine));
    struct command bare[] = {
        {.type = COMMAND_PUT, .put = {.key = bytes_from_text("a")}},
        {.type = COMMAND_DELETE, .delete = {.key = bytes_from_text("a")}},
        {.type = COMMAND_TXN},
        {.type = COMMAND_COMPACT, .compact = {.revision = 1}},
        {.type = COMMAND_LEASE_GRANT, .grant = {.id = 1, .ttl_ms = 1000, .owner = KEY_SPACE_ETCD}},
        {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = 1}},
        {.type = COMMAND_LEASE_SET_TTL, .set_ttl = {.id = 1, .ttl_ms = 1000}},
        {.type = COMMAND_ALARM, .alarm = {.activate = true, .alarm = ALARM_NO_SPACE}},
        {.type = COMMAND_AUTH, .auth = {.action = AUTH_DISABLE}},
    };
    for (size_t i = 0; i < sizeof bare / sizeof bare[0]; i++) {
        assert_int_equal(fixture_apply(&fixture, &bare[i]).status, STATUS_USER_EMPTY);
        assert_int_equal(apply_as(&fixture, &caller_anonymous, &bare[i]), STATUS_USER_EMPTY);
    }
    assert_int_equal(key_store_revision(state_machine_keys(fixture.machine)), revision);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 0);
    assert_true(auth_is_enabled(state_machine_auth(fixture.machine)));
    fixture_clear(&fixture);
}

static void the_servers_own_work_goes_on(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct command grant = {.type = COMMAND_LEASE_GRANT,
                            .grant = {.id = 1, .ttl_ms = 1000, .owner = KEY_SPACE_ETCD}};
    assert_int_equal(apply_as(&fixture, &caller_server, &grant), STATUS_OK);
    struct lease_facts facts;
    assert_true(lease_table_find(state_machine_leases(fixture.machine), 1, &facts));
    struct command expire = {
        .type = COMMAND_LEASE_EXPIRE,
        .expire = {.term = 1, .n = 1, .ids = &facts.id, .epochs = &facts.epoch}};
    assert_int_equal(fixture_apply(&fixture, &expire).status, STATUS_OK);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 0);
    struct command epoch = {.type = COMMAND_AUTH, .auth = {.action = AUTH_TOKEN_EPOCH}};
    assert_int_equal(fixture_apply(&fixture, &epoch).status, STATUS_OK);
    /* And is nobody else's, not even root's. */
    struct caller root = caller_of(&fixture, "root");
    assert_int_equal(apply_as(&fixture, &root, &expire), STATUS_PERMISSION_DENIED);
    assert_int_equal(apply_as(&fixture, &root, &epoch), STATUS_PERMISSION_DENIED);
    static const uint8_t other_key[AUTH_TOKEN_KEY_SIZE] = {9};
    struct command key = {
        .type = COMMAND_AUTH,
        .auth = {.action = AUTH_TOKEN_KEY, .token_key = bytes_of(other_key, sizeof other_key)}};
    assert_int_equal(apply_as(&fixture, &root, &key), STATUS_PERMISSION_DENIED);
    assert_int_equal(fixture_apply(&fixture, &key).status, STATUS_OK);
    assert_true(bytes_equal(auth_token_key(state_machine_auth(fixture.machine)),
                            bytes_of(other_key, sizeof other_key)));
    fixture_clear(&fixture);
}

static void keys_need_the_right_for_what_is_done_with_them(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    assert_int_equal(put_as(&fixture, &user, "a1", 0), STATUS_OK);
    assert_int_equal(put_as(&fixture, &user, "b1", 0), STATUS_PERMISSION_DENIED);
    assert_int_equal(put_as(&fixture, &root, "z", 0), STATUS_OK);
    permit(&fixture, AUTH_ROLE_GRANT_PERMISSION, "w", "", RIGHT_WRITE);
    struct command put = {.type = COMMAND_PUT, .put = {.key = bytes_from_text("w")}};
    assert_int_equal(apply_as(&fixture, &user, &put), STATUS_OK);
    put.put.want_previous = true; /* a way to read */
    assert_int_equal(apply_as(&fixture, &user, &put), STATUS_PERMISSION_DENIED);
    struct command delete = {
        .type = COMMAND_DELETE,
        .delete = {.key = bytes_from_text("a"), .range_end = bytes_from_text("b")}};
    assert_int_equal(apply_as(&fixture, &user, &delete), STATUS_OK);
    delete.delete.range_end = bytes_from_text("c");
    assert_int_equal(apply_as(&fixture, &user, &delete), STATUS_PERMISSION_DENIED);
    delete.delete = (struct delete_request){.key = bytes_from_text("w"), .want_previous = true};
    assert_int_equal(apply_as(&fixture, &user, &delete), STATUS_PERMISSION_DENIED);
    fixture_clear(&fixture);
}

static void a_transaction_needs_every_right_in_it(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct compare compare = {.key = bytes_from_text("a"), .target = COMPARE_VERSION};
    struct operation allowed = {.type = OPERATION_PUT, .put = {.key = bytes_from_text("a")}};
    struct operation read = {.type = OPERATION_RANGE, .range = {.key = bytes_from_text("z")}};
    struct operation nested = {.type = OPERATION_TXN, .txn = {.n_success = 1, .success = &read}};
    struct command txn = {
        .type = COMMAND_TXN,
        .txn = {.n_compares = 1, .compares = &compare, .n_success = 1, .success = &allowed}};
    assert_int_equal(apply_as(&fixture, &user, &txn), STATUS_OK);
    /* In the branch that is not taken, too. */
    txn.txn.n_failure = 1;
    txn.txn.failure = &read;
    assert_int_equal(apply_as(&fixture, &user, &txn), STATUS_PERMISSION_DENIED);
    txn.txn.failure = &nested;
    assert_int_equal(apply_as(&fixture, &user, &txn), STATUS_PERMISSION_DENIED);
    txn.txn.n_failure = 0;
    compare.key = bytes_from_text("z");
    assert_int_equal(apply_as(&fixture, &user, &txn), STATUS_PERMISSION_DENIED);
    fixture_clear(&fixture);
}

static void a_lease_is_used_by_those_who_may_write_its_keys(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    struct command grant = {.type = COMMAND_LEASE_GRANT,
                            .grant = {.id = 1, .ttl_ms = 1000, .owner = KEY_SPACE_ETCD}};
    assert_int_equal(apply_as(&fixture, &user, &grant), STATUS_OK);
    assert_int_equal(put_as(&fixture, &user, "a1", 1), STATUS_OK);
    struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = 1}};
    struct command set_ttl = {.type = COMMAND_LEASE_SET_TTL, .set_ttl = {.id = 1, .ttl_ms = 5}};
    assert_int_equal(apply_as(&fixture, &user, &set_ttl), STATUS_OK);
    assert_int_equal(put_as(&fixture, &root, "z", 1), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &user, &set_ttl), STATUS_PERMISSION_DENIED);
    assert_int_equal(apply_as(&fixture, &user, &revoke), STATUS_PERMISSION_DENIED);
    assert_int_equal(put_as(&fixture, &user, "a2", 1), STATUS_PERMISSION_DENIED);
    const struct auth *auth = state_machine_auth(fixture.machine);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    assert_int_equal(auth_check_lease(auth, leases, &user, 1, RIGHT_WRITE),
                     STATUS_PERMISSION_DENIED);
    assert_int_equal(auth_check_lease(auth, leases, &user, 2, RIGHT_WRITE), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &root, &revoke), STATUS_OK);
    fixture_clear(&fixture);
}

static void a_lease_of_very_many_keys_needs_the_whole_space(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    struct command grant = {.type = COMMAND_LEASE_GRANT,
                            .grant = {.id = 1, .ttl_ms = 1000, .owner = KEY_SPACE_ETCD}};
    assert_int_equal(apply_as(&fixture, &user, &grant), STATUS_OK);
    struct command put = {.type = COMMAND_PUT};
    struct command as = {.type = COMMAND_AS, .as = {.caller = root, .command = &put}};
    for (int i = 0; i <= AUTH_LEASE_KEYS_MAX; i++) {
        char key[16];
        struct outcome outcome;
        snprintf(key, sizeof key, "a%d", i);
        put.put = (struct put_request){.key = bytes_from_text(key), .lease_id = 1};
        state_machine_apply(fixture.machine, &as, &fixture.context, &fixture.arena, &outcome);
        assert_int_equal(outcome.status, STATUS_OK);
    }
    struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = 1}};
    assert_int_equal(apply_as(&fixture, &user, &revoke), STATUS_PERMISSION_DENIED);
    struct auth_change all = {
        .action = AUTH_ROLE_GRANT_PERMISSION,
        .role = bytes_from_text("r"),
        .permission = {RIGHT_WRITE, {KEY_SPACE_ETCD, bytes_of("", 0), bytes_of("", 1)}}};
    assert_int_equal(change_auth(&fixture, &root, all), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &user, &revoke), STATUS_OK);
    fixture_clear(&fixture);
}

/* As the check would be that looks at every key. */
static enum status naive_lease_check(struct fixture *fixture, const struct caller *caller,
                                     int64_t lease_id) {
    const struct lease_table *leases = state_machine_leases(fixture->machine);
    const struct auth *auth = state_machine_auth(fixture->machine);
    enum status status = STATUS_OK;
    for (const struct record *record = lease_table_first_key(leases, lease_id);
         record != NULL && status == STATUS_OK; record = record->lease_next) {
        const struct key_range range = {.space = record_space(record), .key = record_key(record)};
        status = auth_check_range(auth, caller, RIGHT_WRITE, &range);
    }
    return status;
}

/* What was found before is not looked at again, and yet the answer is always the same. */
static void a_lease_that_was_checked_is_checked_as_if_it_were_not(void **state) {
    (void)state;
    enum { STEPS = 3000, LEASES = 3, KEYS = 12 };
    struct fixture fixture;
    fixture_enable(&fixture);
    add_user(&fixture, "v");
    grant_role(&fixture, "v", "r");
    const struct caller users[] = {caller_of(&fixture, "u"), caller_of(&fixture, "v")};
    struct caller root = caller_of(&fixture, "root");
    const struct auth *auth = state_machine_auth(fixture.machine);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    uint32_t random = 12345;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525 + 1013904223;
        int64_t lease_id = 1 + (random >> 8) % LEASES;
        const struct caller *user = &users[(random >> 12) % 2];
        char key[8];
        /* Keys that begin with a are theirs, those with z are not. */
        snprintf(key, sizeof key, "%c%u", (random >> 28) == 0 ? 'z' : 'a', (random >> 16) % KEYS);
        struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = lease_id}};
        struct command grant = {.type = COMMAND_LEASE_GRANT,
                                .grant = {.id = lease_id, .ttl_ms = 1000}};
        struct command delete = {.type = COMMAND_DELETE, .delete = {.key = bytes_from_text(key)}};
        switch ((random >> 20) % 16) {
        case 0:
            (void)apply_as(&fixture, &root, &revoke);
            break;
        case 1:
            (void)apply_as(&fixture, &root, &grant);
            break;
        case 2:
        case 3:
        case 4:
            (void)apply_as(&fixture, &root, &delete);
            break;
        case 5:
            permit(&fixture, AUTH_ROLE_GRANT_PERMISSION, "a", "b",
                   (random >> 24) % 2 != 0 ? RIGHT_READ_WRITE : RIGHT_READ);
            break;
        case 6:
        case 7:
            (void)put_as(&fixture, &root, key, lease_id);
            break;
        default:
            (void)put_as(&fixture, user, key, lease_id);
        }
        assert_int_equal(auth_check_lease(auth, leases, user, lease_id, RIGHT_WRITE),
                         naive_lease_check(&fixture, user, lease_id));
    }
    fixture_clear(&fixture);
}

static void only_new_keys_of_a_lease_are_looked_at(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct lease_table *leases = state_machine_leases(fixture.machine);
    struct command grant = {.type = COMMAND_LEASE_GRANT, .grant = {.id = 1, .ttl_ms = 1000}};
    assert_int_equal(apply_as(&fixture, &user, &grant), STATUS_OK);
    struct command put = {.type = COMMAND_PUT};
    struct command as = {.type = COMMAND_AS, .as = {.caller = user, .command = &put}};
    for (int i = 0; i < AUTH_LEASE_KEYS_MAX; i++) {
        char key[16];
        struct outcome outcome;
        snprintf(key, sizeof key, "a%d", i);
        put.put = (struct put_request){.key = bytes_from_text(key), .lease_id = 1};
        state_machine_apply(fixture.machine, &as, &fixture.context, &fixture.arena, &outcome);
        assert_int_equal(outcome.status, STATUS_OK);
        const struct lease_check *check = lease_table_check(leases, 1);
        assert_int_equal(check->lease_id, 1);
        assert_int_equal(check->user_id, user.user_id);
        assert_int_equal(check->n_keys, i + 1);
        assert_int_equal(check->n_new, 1);
    }
    /* And no more than may be looked at. */
    assert_int_equal(put_as(&fixture, &user, "a", 1), STATUS_OK);
    assert_int_equal(put_as(&fixture, &user, "aa", 1), STATUS_PERMISSION_DENIED);
    fixture_clear(&fixture);
}

static enum status grant_as(struct fixture *fixture, const struct caller *caller, int64_t id,
                            int64_t parent_id) {
    struct command command = {.type = COMMAND_LEASE_GRANT,
                              .grant = {.id = id, .ttl_ms = 1000, .parent_id = parent_id}};
    return apply_as(fixture, caller, &command);
}

/* The end of a lease is the end of all that descend from it. */
static void a_lease_is_ended_by_those_who_may_write_the_keys_of_its_family(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = 1}};
    struct command set_ttl = {.type = COMMAND_LEASE_SET_TTL, .set_ttl = {.id = 1, .ttl_ms = 5}};
    const struct auth *auth = state_machine_auth(fixture.machine);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    assert_int_equal(grant_as(&fixture, &root, 1, 0), STATUS_OK);
    for (int64_t id = 2; id < 20; id++) {
        assert_int_equal(grant_as(&fixture, &user, id, id < 12 ? 1 : id - 10), STATUS_OK);
    }
    assert_int_equal(put_as(&fixture, &user, "a1", 17), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &user, &set_ttl), STATUS_OK);
    for (int64_t id = 2; id < 20; id++) {
        assert_int_equal(put_as(&fixture, &root, "z", id), STATUS_OK);
        assert_int_equal(apply_as(&fixture, &user, &revoke), STATUS_PERMISSION_DENIED);
        assert_int_equal(apply_as(&fixture, &user, &set_ttl), STATUS_PERMISSION_DENIED);
        /* To renew it or to attach to it harms nobody. */
        assert_int_equal(auth_check_lease(auth, leases, &user, 1, RIGHT_WRITE), STATUS_OK);
        assert_int_equal(put_as(&fixture, &user, "a2", 1), STATUS_OK);
        /* A child whose keys others may not write would keep them from ending the parent. */
        assert_int_equal(grant_as(&fixture, &user, 99, id), STATUS_PERMISSION_DENIED);
    }
    assert_int_equal(put_as(&fixture, &root, "z", 0), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &user, &revoke), STATUS_OK);
    assert_int_equal(lease_table_count(leases), 0);
    fixture_clear(&fixture);
}

static void a_very_large_family_needs_the_whole_space(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = 1}};
    for (int64_t id = 1; id <= LEASE_FAMILY_MAX; id++) {
        assert_int_equal(grant_as(&fixture, &user, id, id / 2), STATUS_OK);
    }
    const struct auth *auth = state_machine_auth(fixture.machine);
    struct lease_table *leases = state_machine_leases(fixture.machine);
    struct auth_lease_checks checks = {0};
    assert_int_equal(auth_check_lease_end(auth, leases, &user, 1, &checks), STATUS_OK);
    assert_int_equal(grant_as(&fixture, &user, LEASE_FAMILY_MAX + 1, 1), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &user, &revoke), STATUS_PERMISSION_DENIED);
    assert_int_equal(apply_as(&fixture, &root, &revoke), STATUS_OK);
    fixture_clear(&fixture);
}

/* Each put that names a lease has its keys looked at. */
static void a_transaction_has_a_bounded_number_of_keys_looked_at(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    const int64_t ids[] = {1, 2};
    enum { KEYS = AUTH_LEASE_KEYS_MAX / 2 + 1, PUTS = COMMAND_TXN_OPERATIONS_MAX };
    struct command put = {.type = COMMAND_PUT};
    struct command as = {.type = COMMAND_AS, .as = {.caller = user, .command = &put}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(grant_as(&fixture, &user, ids[i], 0), STATUS_OK);
        for (int j = 0; j < KEYS; j++) {
            char key[16];
            struct outcome outcome;
            snprintf(key, sizeof key, "a%zu.%d", i, j);
            put.put = (struct put_request){.key = bytes_from_text(key), .lease_id = ids[i]};
            as.as.caller = caller_server;
            state_machine_apply(fixture.machine, &as, &fixture.context, &fixture.arena, &outcome);
            assert_int_equal(outcome.status, STATUS_OK);
        }
    }
    static char keys[PUTS][8];
    struct operation operations[PUTS];
    for (int i = 0; i < PUTS; i++) {
        snprintf(keys[i], sizeof keys[i], "a%d", i);
        operations[i] = (struct operation){.type = OPERATION_PUT,
                                           .put = {.key = bytes_from_text(keys[i]), .lease_id = 1}};
    }
    struct command txn = {.type = COMMAND_TXN, .txn = {.n_success = PUTS, .success = operations}};
    /* One lease however often, but not two. */
    assert_int_equal(apply_as(&fixture, &user, &txn), STATUS_OK);
    operations[PUTS - 1].put.lease_id = 2;
    assert_int_equal(apply_as(&fixture, &user, &txn), STATUS_PERMISSION_DENIED);
    /* As etcdctl grants everything. */
    struct auth_change all = {
        .action = AUTH_ROLE_GRANT_PERMISSION,
        .role = bytes_from_text("r"),
        .permission = {RIGHT_READ_WRITE, {KEY_SPACE_ETCD, bytes_of("", 1), bytes_of("", 1)}}};
    assert_int_equal(change_auth(&fixture, &caller_server, all), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &user, &txn), STATUS_OK);
    struct command compact = {.type = COMMAND_COMPACT, .compact = {.revision = 1}};
    assert_int_equal(apply_as(&fixture, &user, &compact), STATUS_OK);
    fixture_clear(&fixture);
}

/* The command was allowed when it was submitted, and lies in the log behind the change. */
static void a_right_that_was_taken_away_does_not_slip_through(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    assert_int_equal(put_as(&fixture, &user, "a1", 0), STATUS_OK);
    permit(&fixture, AUTH_ROLE_REVOKE_PERMISSION, "a", "b", RIGHT_READ);
    assert_int_equal(put_as(&fixture, &user, "a1", 0), STATUS_PERMISSION_DENIED);
    permit(&fixture, AUTH_ROLE_GRANT_PERMISSION, "a", "b", RIGHT_WRITE);
    assert_int_equal(put_as(&fixture, &user, "a1", 0), STATUS_OK);
    struct auth_change password = {.action = AUTH_USER_SET_PASSWORD,
                                   .user = bytes_from_text("u"),
                                   .password_hash = bytes_from_text("$y$y")};
    assert_int_equal(change_auth(&fixture, &user, password), STATUS_PERMISSION_DENIED);
    assert_int_equal(change_auth(&fixture, &caller_server, password), STATUS_OK);
    assert_int_equal(put_as(&fixture, &user, "a1", 0), STATUS_AUTH_TOKEN_INVALID);
    user = caller_of(&fixture, "u");
    assert_int_equal(put_as(&fixture, &user, "a1", 0), STATUS_OK);
    struct auth_change delete = {.action = AUTH_USER_DELETE, .user = bytes_from_text("u")};
    assert_int_equal(change_auth(&fixture, &caller_server, delete), STATUS_OK);
    assert_int_equal(put_as(&fixture, &user, "a1", 0), STATUS_AUTH_TOKEN_INVALID);
    fixture_clear(&fixture);
}

/* A kube-apiserver with the right to its own prefix compacts. */
static void who_may_write_something_may_compact(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct command compact = {.type = COMMAND_COMPACT, .compact = {.revision = 1}};
    assert_int_equal(apply_as(&fixture, &user, &compact), STATUS_OK);
    permit(&fixture, AUTH_ROLE_REVOKE_PERMISSION, "a", "b", RIGHT_READ);
    compact.compact.revision = 2;
    assert_int_equal(apply_as(&fixture, &user, &compact), STATUS_PERMISSION_DENIED);
    assert_int_equal(apply_as(&fixture, &caller_anonymous, &compact), STATUS_USER_EMPTY);
    fixture_clear(&fixture);
}

static void only_root_manages(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    struct auth_change disable = {.action = AUTH_DISABLE};
    struct command compact = {.type = COMMAND_COMPACT, .compact = {.revision = 1}};
    struct command alarm = {.type = COMMAND_ALARM,
                            .alarm = {.activate = true, .alarm = ALARM_NO_SPACE}};
    assert_int_equal(change_auth(&fixture, &user, disable), STATUS_PERMISSION_DENIED);
    assert_int_equal(apply_as(&fixture, &user, &alarm), STATUS_PERMISSION_DENIED);
    assert_int_equal(apply_as(&fixture, &root, &compact), STATUS_OK);
    assert_int_equal(change_auth(&fixture, &root, disable), STATUS_OK);
    /* What was submitted with a caller before is still a command. */
    assert_int_equal(put_as(&fixture, &user, "z", 0), STATUS_OK);
    assert_int_equal(put(&fixture, "z", "v", 0).status, STATUS_OK);
    fixture_clear(&fixture);
}

static void it_is_in_snapshots(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct buffer first;
    struct buffer second;
    buffer_init(&first);
    buffer_init(&second);
    struct snapshot_view *view = snapshot_view_open(fixture.machine);
    snapshot_view_write(view, &first);
    snapshot_view_close(view);
    struct fixture other;
    fixture_init(&other);
    assert_int_equal(state_machine_restore(other.machine, bytes_of(first.data, first.size)),
                     STATUS_OK);
    auth_validate(state_machine_auth(other.machine));
    view = snapshot_view_open(other.machine);
    snapshot_view_write(view, &second);
    snapshot_view_close(view);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    assert_int_equal(put_as(&other, &user, "a1", 0), STATUS_OK);
    assert_int_equal(put_as(&other, &user, "b1", 0), STATUS_PERMISSION_DENIED);
    assert_int_equal(put(&other, "a1", "v", 0).status, STATUS_USER_EMPTY);
    buffer_clear(&first);
    buffer_clear(&second);
    fixture_clear(&other);
    fixture_clear(&fixture);
}

static void an_earlier_version_of_the_cluster_has_no_users(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct auth_change add = {.action = AUTH_USER_ADD, .user = bytes_from_text("u")};
    assert_int_equal(change_auth(&fixture, &caller_server, add), STATUS_UNSUPPORTED);
    assert_int_equal(auth_user_count(state_machine_auth(fixture.machine)), 0);
    fixture_clear(&fixture);
}

static void a_command_in_a_command_goes_no_deeper(void **state) {
    (void)state;
    struct buffer buffer;
    struct arena arena;
    struct reader reader;
    struct command decoded;
    buffer_init(&buffer);
    arena_init(&arena);
    for (int i = 0; i < 1000; i++) {
        buffer_put_u8(&buffer, COMMAND_AS);
        caller_encode(&buffer, &caller_anonymous);
    }
    reader_init(&reader, bytes_of(buffer.data, buffer.size));
    assert_int_equal(command_decode(&reader, &arena, &decoded), STATUS_MALFORMED);
    arena_clear(&arena);
    buffer_clear(&buffer);
}

/* A rule needs the caller's rights to each key that it touches; its hooks run for the server. */
static void a_rule_needs_the_rights_of_its_caller(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    struct buffer request;
    buffer_init(&request);
    static const uint8_t key[] = {'r', 'k', 0, 'h'}; /* a key of the resource "k" */
    buffer_put_bytes(&request, bytes_of(key, sizeof key));
    buffer_put_bytes(&request, bytes_from_text("v"));
    buffer_put_zigzag(&request, 0);
    buffer_put_varint(&request, 1000);
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = RULE_NATIVE_ACQUIRE, .request = bytes_of(request.data, request.size)}};
    assert_int_equal(fixture_apply(&fixture, &command).status, STATUS_USER_EMPTY);
    assert_int_equal(apply_as(&fixture, &user, &command), STATUS_PERMISSION_DENIED);
    assert_int_equal(lease_table_count(state_machine_leases(fixture.machine)), 0);
    /* A right to keys of etcd's space is none to names; that to the names' own keys is. */
    permit(&fixture, AUTH_ROLE_GRANT_PERMISSION, "r", "s", RIGHT_READ_WRITE);
    permit(&fixture, AUTH_ROLE_GRANT_PERMISSION, "k", "l", RIGHT_READ_WRITE);
    assert_int_equal(apply_as(&fixture, &user, &command), STATUS_PERMISSION_DENIED);
    permit(&fixture, AUTH_ROLE_GRANT_PERMISSION, "leased/resources/k", "leased/resources/l",
           RIGHT_READ_WRITE);
    assert_int_equal(apply_as(&fixture, &user, &command), STATUS_OK);
    assert_int_equal(apply_as(&fixture, &root, &command), STATUS_OK);
    buffer_clear(&request);
    fixture_clear(&fixture);
}

static void a_role_that_is_deleted_is_work_for_every_user(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_enable(&fixture);
    const struct auth *auth = state_machine_auth(fixture.machine);
    struct command inner = {.type = COMMAND_AUTH,
                            .auth = {.action = AUTH_ROLE_ADD, .role = bytes_from_text("s")}};
    struct command as = {.type = COMMAND_AS, .as = {.caller = caller_server, .command = &inner}};
    assert_int_equal(auth_change_work(auth, &inner.auth), 0);
    assert_int_equal(fixture_apply(&fixture, &as).work, 0);
    inner.auth.action = AUTH_ROLE_DELETE;
    size_t work = auth_change_work(auth, &inner.auth);
    assert_true(work >= auth_user_count(auth));
    assert_int_equal(fixture_apply(&fixture, &as).work, work);
    assert_int_equal(fixture_apply(&fixture, &as).work, 0); /* it is not there any more */
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_without_a_caller_is_refused),
        cmocka_unit_test(the_servers_own_work_goes_on),
        cmocka_unit_test(keys_need_the_right_for_what_is_done_with_them),
        cmocka_unit_test(a_transaction_needs_every_right_in_it),
        cmocka_unit_test(a_lease_is_used_by_those_who_may_write_its_keys),
        cmocka_unit_test(a_lease_of_very_many_keys_needs_the_whole_space),
        cmocka_unit_test(a_lease_that_was_checked_is_checked_as_if_it_were_not),
        cmocka_unit_test(only_new_keys_of_a_lease_are_looked_at),
        cmocka_unit_test(a_lease_is_ended_by_those_who_may_write_the_keys_of_its_family),
        cmocka_unit_test(a_very_large_family_needs_the_whole_space),
        cmocka_unit_test(a_transaction_has_a_bounded_number_of_keys_looked_at),
        cmocka_unit_test(a_right_that_was_taken_away_does_not_slip_through),
        cmocka_unit_test(who_may_write_something_may_compact),
        cmocka_unit_test(only_root_manages),
        cmocka_unit_test(it_is_in_snapshots),
        cmocka_unit_test(an_earlier_version_of_the_cluster_has_no_users),
        cmocka_unit_test(a_command_in_a_command_goes_no_deeper),
        cmocka_unit_test(a_rule_needs_the_rights_of_its_caller),
        cmocka_unit_test(a_role_that_is_deleted_is_work_for_every_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
