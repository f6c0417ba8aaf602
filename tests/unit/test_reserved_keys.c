/* The mirror of the registry in etcd's space: read by clients, written by its rules alone. */
#include "core/reserved_keys.h"

#include "core/auth_command.h"
#include "registry_fixture.h"

static struct fixture fixture;

static int set_up(void **state) {
    registry_fixture_init(&fixture);
    return 0;
}

static int tear_down(void **state) {
    fixture_clear(&fixture);
    return 0;
}

static enum status try_put(const char *key) {
    return put(&fixture, key, "v", 0).status;
}

static void clients_of_etcd_cannot_write_there(void **state) {
    assert_int_equal(try_put("leased/services/web/a"), STATUS_KEY_READ_ONLY);
    assert_int_equal(try_put("leased/services/"), STATUS_KEY_READ_ONLY);
    assert_int_equal(try_put("leased/services"), STATUS_OK);
    assert_int_equal(try_put("leased/services0"), STATUS_OK);
    assert_int_equal(try_put("/leased/services/web"), STATUS_OK);
}

static void nor_delete_what_is_there(void **state) {
    registered(&fixture, "web", "a");
    assert_int_equal(try_put("a"), STATUS_OK);
    assert_int_equal(try_put("z"), STATUS_OK);
    assert_int_equal(del(&fixture, "leased/services/web/a", "").status, STATUS_KEY_READ_ONLY);
    assert_int_equal(del(&fixture, "leased/services/web/b", "").status, STATUS_OK);
    assert_int_equal(del(&fixture, "leased/services/", "leased/services0").status,
                     STATUS_KEY_READ_ONLY);
    assert_int_equal(del(&fixture, "a", "z").status, STATUS_KEY_READ_ONLY);
    assert_int_equal(del(&fixture, "leased/services/web/b", "z").status, STATUS_OK);
    assert_int_equal(del(&fixture, "a", "b").status, STATUS_OK);
    assert_non_null(mirror_of(&fixture, "web", "a"));
    assert_int_equal(deregister(&fixture, "web", "a", 0, 0), STATUS_OK);
    assert_int_equal(del(&fixture, "a", "zz").status, STATUS_OK);
}

static void open_ranges_touch_it_too(void **state) {
    registered(&fixture, "web", "a");
    struct command command = {.type = COMMAND_DELETE,
                              .delete = {.key = bytes_of("\0", 1), .range_end = bytes_of("\0", 1)}};
    assert_int_equal(fixture_apply(&fixture, &command).status, STATUS_KEY_READ_ONLY);
}

/* In a cluster of version 2 anybody could write there; so could a backup without the registry. */
static void what_mirrors_nothing_can_be_deleted(void **state) {
    struct fixture older;
    fixture_init(&older);
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(put(&older, "leased/services/web/a", "v", 0).status, STATUS_OK);
    assert_int_equal(put(&older, "leased/services/web/b", "v", 0).status, STATUS_OK);
    assert_int_equal(fixture_apply(&older, &raise).status, STATUS_OK);
    assert_int_equal(put(&older, "leased/services/web/a", "v", 0).status, STATUS_KEY_READ_ONLY);
    assert_int_equal(del(&older, "leased/services/web/a", "").status, STATUS_OK);
    assert_int_equal(del(&older, "leased/", "leased0").status, STATUS_OK);
    assert_int_equal(count_all(&older, KEY_SPACE_ETCD), 0);
    fixture_clear(&older);
}

static void nor_by_a_transaction(void **state) {
    registered(&fixture, "web", "a");
    struct operation operations[] = {
        {.type = OPERATION_PUT, .put = {.key = bytes_from_text("x")}},
        {.type = OPERATION_DELETE, .delete = {.key = bytes_from_text("leased/services/web/a")}}};
    struct command command = {.type = COMMAND_TXN, .txn = {.success = operations, .n_success = 2}};
    int64_t before = revision_of(&fixture);
    assert_int_equal(fixture_apply(&fixture, &command).status, STATUS_KEY_READ_ONLY);
    operations[1] = (struct operation){.type = OPERATION_PUT,
                                       .put = {.key = bytes_from_text("leased/services/web/a")}};
    assert_int_equal(fixture_apply(&fixture, &command).status, STATUS_KEY_READ_ONLY);
    assert_int_equal(revision_of(&fixture), before);
}

/* --- Rights. --- */

static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {1, 2, 3};

static void change_auth(struct auth_change change) {
    struct command inner = {.type = COMMAND_AUTH, .auth = change};
    struct command as = {.type = COMMAND_AS, .as = {.caller = caller_server, .command = &inner}};
    assert_int_equal(fixture_apply(&fixture, &as).status, STATUS_OK);
}

static enum status register_as(const struct caller *caller, const char *service, const char *id) {
    struct registry_register request = registering(service, id);
    struct buffer buffer;
    buffer_init(&buffer);
    registry_register_encode(&buffer, &request);
    struct command inner = {
        .type = COMMAND_RULE,
        .rule = {.number = REGISTRY_RULE_REGISTER, .request = bytes_of(buffer.data, buffer.size)}};
    struct command as = {.type = COMMAND_AS, .as = {.caller = *caller, .command = &inner}};
    enum status status = fixture_apply(&fixture, &as).status;
    buffer_clear(&buffer);
    return status;
}

static void the_right_to_a_service_is_enough(void **state) {
    static const char *const names[] = {"root", "ann"};
    for (size_t i = 0; i < 2; i++) {
        struct bytes name = bytes_from_text(names[i]);
        change_auth((struct auth_change){.action = AUTH_USER_ADD, .user = name});
        change_auth((struct auth_change){.action = AUTH_ROLE_ADD, .role = name});
        change_auth(
            (struct auth_change){.action = AUTH_USER_GRANT_ROLE, .user = name, .role = name});
    }
    const struct key_range range = {.space = KEY_SPACE_ETCD,
                                    .key = bytes_from_text("leased/services/web")};
    change_auth((struct auth_change){.action = AUTH_ROLE_GRANT_PERMISSION,
                                     .role = bytes_from_text("ann"),
                                     .permission = {RIGHT_WRITE, range}});
    change_auth((struct auth_change){.action = AUTH_ENABLE,
                                     .token_key = bytes_of(token_key, sizeof token_key)});
    struct auth_user user;
    const struct auth *auth = state_machine_auth(fixture.machine);
    assert_true(auth_find_user(auth, bytes_from_text("ann"), &user));
    const struct caller ann = {.user_id = user.id, .auth_version = user.version};
    struct registry_entry entry;
    assert_int_equal(register_as(&ann, "web", "a"), STATUS_OK);
    assert_int_equal(register_as(&ann, "web", "a"), STATUS_OK);
    assert_int_equal(register_as(&ann, "webs", "a"), STATUS_PERMISSION_DENIED);
    assert_int_equal(register_as(&ann, "we", "a"), STATUS_PERMISSION_DENIED);
    assert_int_equal(register_as(&caller_anonymous, "web", "a"), STATUS_USER_EMPTY);
    /* She may renew: the mirror needs no right of its own. */
    assert_true(look(&fixture, "web", "a", &entry));
    assert_int_equal(entry.instance.user_id, ann.user_id);
    assert_int_equal(auth_check_lease(auth, state_machine_leases(fixture.machine), &ann,
                                      entry.instance.lease_id, RIGHT_WRITE),
                     STATUS_OK);
    assert_int_equal(auth_check_lease(auth, state_machine_leases(fixture.machine),
                                      &(struct caller){.user_id = 99}, entry.instance.lease_id,
                                      RIGHT_WRITE),
                     STATUS_AUTH_TOKEN_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clients_of_etcd_cannot_write_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nor_delete_what_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(open_ranges_touch_it_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_mirrors_nothing_can_be_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nor_by_a_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_right_to_a_service_is_enough, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
