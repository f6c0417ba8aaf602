/* Users, roles and permissions: the changes with etcd's errors, the rights that roles add up to,
 * and the bytes of both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/auth.h"

static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {1, 2, 3};

static enum status change(struct auth *auth, enum auth_action action, const char *user,
                          const char *role) {
    struct auth_change made = {.action = action,
                               .user = bytes_from_text(user),
                               .role = bytes_from_text(role),
                               .password_hash = bytes_from_text("$y$hash"),
                               .token_key = bytes_of(token_key, sizeof token_key)};
    enum status status = auth_change_check(&made);
    if (status == STATUS_OK) {
        status = auth_apply(auth, &made);
    }
    auth_validate(auth);
    return status;
}

static struct key_range range_of(struct key_space_id space, const char *key, const char *end) {
    struct key_range range = {.space = space, .key = bytes_from_text(key)};
    range.range_end = strcmp(end, "*") == 0 ? bytes_of("", 1) : bytes_from_text(end);
    return range;
}

static enum status permit(struct auth *auth, enum auth_action action, const char *role,
                          enum right right, const char *key, const char *end) {
    struct auth_change made = {
        .action = action,
        .role = bytes_from_text(role),
        .permission = {.right = right, .range = range_of(KEY_SPACE_ETCD, key, end)}};
    enum status status = auth_change_check(&made);
    if (status == STATUS_OK) {
        status = auth_apply(auth, &made);
    }
    auth_validate(auth);
    return status;
}

static enum status grant(struct auth *auth, const char *role, enum right right, const char *key,
                         const char *end) {
    return permit(auth, AUTH_ROLE_GRANT_PERMISSION, role, right, key, end);
}

static struct caller caller_of(const struct auth *auth, const char *name) {
    struct auth_user user;
    assert_true(auth_find_user(auth, bytes_from_text(name), &user));
    return (struct caller){.user_id = user.id, .auth_version = user.version};
}

static enum status check(const struct auth *auth, const char *name, enum right right,
                         const char *key, const char *end) {
    struct caller caller = caller_of(auth, name);
    struct key_range range = range_of(KEY_SPACE_ETCD, key, end);
    return auth_check_range(auth, &caller, right, &range);
}

/* root with its role, and user "u" with role "r". Not enabled. */
static struct auth *make(void) {
    struct auth *auth = auth_create();
    assert_int_equal(change(auth, AUTH_USER_ADD, "root", ""), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_GRANT_ROLE, "root", "root"), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_ADD, "u", ""), STATUS_OK);
    assert_int_equal(change(auth, AUTH_ROLE_ADD, "", "r"), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_GRANT_ROLE, "u", "r"), STATUS_OK);
    return auth;
}

static struct auth *make_enabled(void) {
    struct auth *auth = make();
    assert_int_equal(change(auth, AUTH_ENABLE, "", ""), STATUS_OK);
    return auth;
}

/* --- Changes. --- */

static void it_cannot_be_enabled_without_root_and_its_role(void **state) {
    (void)state;
    struct auth *auth = auth_create();
    assert_int_equal(auth_revision(auth), 1);
    assert_int_equal(change(auth, AUTH_ENABLE, "", ""), STATUS_ROOT_USER_MISSING);
    assert_int_equal(change(auth, AUTH_USER_ADD, "root", ""), STATUS_OK);
    assert_int_equal(change(auth, AUTH_ENABLE, "", ""), STATUS_ROOT_ROLE_MISSING);
    assert_int_equal(change(auth, AUTH_USER_GRANT_ROLE, "root", "root"), STATUS_OK);
    assert_int_equal(change(auth, AUTH_ENABLE, "", ""), STATUS_OK);
    assert_true(auth_is_enabled(auth));
    assert_int_equal(auth_token_key(auth).size, AUTH_TOKEN_KEY_SIZE);
    assert_int_equal(auth_revision(auth), 3);
    assert_int_equal(change(auth, AUTH_DISABLE, "", ""), STATUS_OK);
    assert_false(auth_is_enabled(auth));
    assert_int_equal(auth_revision(auth), 4);
    auth_destroy(auth);
}

static void changes_are_refused_in_etcds_words(void **state) {
    (void)state;
    struct auth *auth = make();
    uint64_t revision = auth_revision(auth);
    uint64_t generation = auth_generation(auth);
    static const struct {
        enum auth_action action;
        const char *user;
        const char *role;
        enum status status;
    } refused[] = {
        {AUTH_USER_ADD, "", "", STATUS_USER_EMPTY},
        {AUTH_USER_ADD, "u", "", STATUS_USER_EXISTS},
        {AUTH_USER_DELETE, "nobody", "", STATUS_USER_NOT_FOUND},
        {AUTH_USER_SET_PASSWORD, "nobody", "", STATUS_USER_NOT_FOUND},
        {AUTH_USER_GRANT_ROLE, "nobody", "r", STATUS_USER_NOT_FOUND},
        {AUTH_USER_GRANT_ROLE, "u", "nothing", STATUS_ROLE_NOT_FOUND},
        {AUTH_USER_REVOKE_ROLE, "nobody", "r", STATUS_USER_NOT_FOUND},
        {AUTH_USER_REVOKE_ROLE, "root", "r", STATUS_ROLE_NOT_GRANTED},
        {AUTH_ROLE_ADD, "", "", STATUS_ROLE_EMPTY},
        {AUTH_ROLE_ADD, "", "r", STATUS_ROLE_EXISTS},
        {AUTH_ROLE_DELETE, "", "nothing", STATUS_ROLE_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(change(auth, refused[i].action, refused[i].user, refused[i].role),
                         refused[i].status);
    }
    assert_int_equal(grant(auth, "nothing", RIGHT_READ, "k", ""), STATUS_ROLE_NOT_FOUND);
    assert_int_equal(grant(auth, "r", (enum right)0, "k", ""), STATUS_PERMISSION_NOT_GIVEN);
    assert_int_equal(grant(auth, "r", RIGHT_READ, "b", "a"), STATUS_AUTH_MANAGEMENT_INVALID);
    assert_int_equal(grant(auth, "r", RIGHT_READ, "", ""), STATUS_AUTH_MANAGEMENT_INVALID);
    assert_int_equal(permit(auth, AUTH_ROLE_REVOKE_PERMISSION, "r", RIGHT_READ, "k", ""),
                     STATUS_PERMISSION_NOT_GRANTED);
    assert_int_equal(auth_revision(auth), revision);
    assert_int_equal(auth_generation(auth), generation);
    auth_destroy(auth);
}

static void nobody_can_lock_root_out(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    assert_int_equal(change(auth, AUTH_ROLE_ADD, "", "root"), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_DELETE, "root", ""), STATUS_AUTH_MANAGEMENT_INVALID);
    assert_int_equal(change(auth, AUTH_ROLE_DELETE, "", "root"), STATUS_AUTH_MANAGEMENT_INVALID);
    assert_int_equal(change(auth, AUTH_USER_REVOKE_ROLE, "root", "root"),
                     STATUS_AUTH_MANAGEMENT_INVALID);
    assert_int_equal(change(auth, AUTH_DISABLE, "", ""), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_DELETE, "root", ""), STATUS_OK);
    auth_destroy(auth);
}

static void a_role_that_is_deleted_leaves_its_users(void **state) {
    (void)state;
    struct auth *auth = make();
    struct auth_user user;
    assert_int_equal(change(auth, AUTH_ROLE_DELETE, "", "r"), STATUS_OK);
    assert_true(auth_find_user(auth, bytes_from_text("u"), &user));
    assert_int_equal(user.n_roles, 0);
    auth_destroy(auth);
}

static void limits_are_kept(void **state) {
    (void)state;
    struct auth *auth = make();
    char name[AUTH_NAME_SIZE_MAX + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(change(auth, AUTH_USER_ADD, name, ""), STATUS_REQUEST_TOO_LARGE);
    for (int i = 0; i < AUTH_PERMISSIONS_PER_ROLE_MAX; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        assert_int_equal(grant(auth, "r", RIGHT_READ, key, ""), STATUS_OK);
    }
    assert_int_equal(grant(auth, "r", RIGHT_READ, "k", ""), STATUS_TOO_MANY_REQUESTS);
    /* One that is there can still be changed. */
    assert_int_equal(grant(auth, "r", RIGHT_WRITE, "1", ""), STATUS_OK);
    for (int i = 1; i < AUTH_ROLES_PER_USER_MAX; i++) {
        snprintf(name, sizeof name, "r%d", i);
        assert_int_equal(change(auth, AUTH_ROLE_ADD, "", name), STATUS_OK);
        assert_int_equal(change(auth, AUTH_USER_GRANT_ROLE, "u", name), STATUS_OK);
    }
    assert_int_equal(change(auth, AUTH_USER_GRANT_ROLE, "u", "root"), STATUS_TOO_MANY_REQUESTS);
    auth_destroy(auth);
}

static void all_of_it_together_is_bounded(void **state) {
    (void)state;
    struct auth *auth = make();
    static char key[AUTH_PERMISSION_KEY_SIZE_MAX];
    memset(key, 'k', sizeof key - 1);
    enum status status = STATUS_OK;
    size_t n = 0;
    for (; status == STATUS_OK && n < AUTH_PERMISSIONS_PER_ROLE_MAX; n++) {
        snprintf(key, sizeof key, "%zu", n);
        key[strlen(key)] = 'k';
        struct auth_change made = {.action = AUTH_ROLE_GRANT_PERMISSION,
                                   .role = bytes_from_text("r"),
                                   .permission = {RIGHT_READ, range_of(KEY_SPACE_ETCD, key, "")}};
        status = auth_apply(auth, &made);
    }
    assert_int_equal(status, STATUS_TOO_MANY_REQUESTS);
    assert_in_range(n, 400, 600);
    auth_validate(auth);
    auth_destroy(auth);
}

/* --- Rights. --- */

static void while_it_is_off_everybody_may_do_everything(void **state) {
    (void)state;
    struct auth *auth = make();
    struct key_range range = range_of(KEY_SPACE_ETCD, "k", "");
    assert_int_equal(auth_check_range(auth, &caller_anonymous, RIGHT_WRITE, &range), STATUS_OK);
    assert_int_equal(auth_check_admin(auth, &caller_anonymous), STATUS_OK);
    assert_int_equal(auth_check_user(auth, &caller_anonymous), STATUS_OK);
    auth_destroy(auth);
}

static void while_it_is_on_rights_are_needed(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    struct key_range range = range_of(KEY_SPACE_ETCD, "k", "");
    struct caller user = caller_of(auth, "u");
    assert_int_equal(auth_check_user(auth, &caller_anonymous), STATUS_USER_EMPTY);
    assert_int_equal(auth_check_admin(auth, &caller_anonymous), STATUS_USER_EMPTY);
    assert_int_equal(auth_check_range(auth, &caller_anonymous, RIGHT_READ, &range),
                     STATUS_USER_EMPTY);
    assert_int_equal(auth_check_user(auth, &user), STATUS_OK);
    assert_int_equal(auth_check_admin(auth, &user), STATUS_PERMISSION_DENIED);
    assert_int_equal(check(auth, "u", RIGHT_READ, "k", ""), STATUS_PERMISSION_DENIED);
    assert_int_equal(check(auth, "root", RIGHT_READ_WRITE, "", "*"), STATUS_OK);
    struct caller root = caller_of(auth, "root");
    assert_int_equal(auth_check_admin(auth, &root), STATUS_OK);
    assert_int_equal(auth_check_admin(auth, &caller_server), STATUS_OK);
    auth_destroy(auth);
}

static void a_permission_covers_its_range_and_no_more(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    assert_int_equal(grant(auth, "r", RIGHT_READ, "b", "d"), STATUS_OK);
    assert_int_equal(grant(auth, "r", RIGHT_WRITE, "k", ""), STATUS_OK);
    assert_int_equal(grant(auth, "r", RIGHT_READ_WRITE, "x", "*"), STATUS_OK);
    static const struct {
        enum right right;
        const char *key;
        const char *end;
        bool is_allowed;
    } cases[] = {
        {RIGHT_READ, "b", "", true},         {RIGHT_READ, "czzz", "", true},
        {RIGHT_READ, "d", "", false},        {RIGHT_READ, "a", "", false},
        {RIGHT_READ, "b", "d", true},        {RIGHT_READ, "b", "d0", false},
        {RIGHT_READ, "a", "c", false},       {RIGHT_READ, "b", "*", false},
        {RIGHT_WRITE, "b", "", false},       {RIGHT_READ_WRITE, "b", "", false},
        {RIGHT_WRITE, "k", "", true},        {RIGHT_READ, "k", "", false},
        {RIGHT_WRITE, "ka", "", false},      {RIGHT_WRITE, "k", "ka", false},
        {RIGHT_READ_WRITE, "x", "*", true},  {RIGHT_READ_WRITE, "y", "z", true},
        {RIGHT_READ_WRITE, "w", "*", false}, {RIGHT_READ, "e", "d", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status status = check(auth, "u", cases[i].right, cases[i].key, cases[i].end);
        if ((status == STATUS_OK) != cases[i].is_allowed) {
            fail_msg("case %zu: %s", i, status_text(status));
        }
    }
    auth_destroy(auth);
}

static void permissions_of_several_roles_add_up(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    assert_int_equal(grant(auth, "r", RIGHT_READ, "a", "c"), STATUS_OK);
    assert_int_equal(check(auth, "u", RIGHT_READ, "a", "e"), STATUS_PERMISSION_DENIED);
    assert_int_equal(change(auth, AUTH_ROLE_ADD, "", "s"), STATUS_OK);
    assert_int_equal(grant(auth, "s", RIGHT_READ_WRITE, "c", "e"), STATUS_OK);
    assert_int_equal(grant(auth, "s", RIGHT_READ, "b", ""), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_GRANT_ROLE, "u", "s"), STATUS_OK);
    assert_int_equal(check(auth, "u", RIGHT_READ, "a", "e"), STATUS_OK);
    assert_int_equal(check(auth, "u", RIGHT_WRITE, "a", "e"), STATUS_PERMISSION_DENIED);
    assert_int_equal(permit(auth, AUTH_ROLE_REVOKE_PERMISSION, "r", RIGHT_READ, "a", "c"),
                     STATUS_OK);
    assert_int_equal(check(auth, "u", RIGHT_READ, "a", ""), STATUS_PERMISSION_DENIED);
    assert_int_equal(check(auth, "u", RIGHT_READ, "b", ""), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_REVOKE_ROLE, "u", "s"), STATUS_OK);
    assert_int_equal(check(auth, "u", RIGHT_READ, "b", ""), STATUS_PERMISSION_DENIED);
    auth_destroy(auth);
}

static void a_permission_holds_in_its_space_alone(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    assert_int_equal(grant(auth, "r", RIGHT_READ_WRITE, "", "*"), STATUS_OK);
    assert_int_equal(check(auth, "u", RIGHT_READ, "", "*"), STATUS_OK);
    struct caller user = caller_of(auth, "u");
    static const struct key_space_id others[] = {{.value = 3}, {.value = 2}, {.value = 16}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct key_range range = range_of(others[i], "k", "");
        assert_int_equal(auth_check_range(auth, &user, RIGHT_READ, &range),
                         STATUS_PERMISSION_DENIED);
    }
    auth_destroy(auth);
}

static void a_change_of_the_password_ends_what_was_shown_before(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    struct caller user = caller_of(auth, "u");
    assert_int_equal(change(auth, AUTH_USER_SET_PASSWORD, "root", ""), STATUS_OK);
    assert_int_equal(auth_check_user(auth, &user), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_SET_PASSWORD, "u", ""), STATUS_OK);
    assert_int_equal(auth_check_user(auth, &user), STATUS_AUTH_TOKEN_INVALID);
    user = caller_of(auth, "u");
    assert_int_equal(auth_check_user(auth, &user), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_DELETE, "u", ""), STATUS_OK);
    assert_int_equal(change(auth, AUTH_USER_ADD, "u", ""), STATUS_OK);
    assert_int_equal(auth_check_user(auth, &user), STATUS_AUTH_TOKEN_INVALID);
    auth_destroy(auth);
}

/* --- Bytes. --- */

static struct buffer encode(const struct auth *auth) {
    struct buffer buffer;
    buffer_init(&buffer);
    auth_encode(auth, &buffer);
    return buffer;
}

static void what_is_decoded_is_the_same(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    assert_int_equal(grant(auth, "r", RIGHT_READ, "a", "c"), STATUS_OK);
    assert_int_equal(grant(auth, "r", RIGHT_WRITE, "", "*"), STATUS_OK);
    assert_int_equal(change(auth, AUTH_TOKEN_EPOCH, "", ""), STATUS_OK);
    struct buffer first = encode(auth);
    struct auth *again = auth_create();
    struct reader reader;
    reader_init(&reader, bytes_of(first.data, first.size));
    assert_int_equal(auth_decode(again, &reader), STATUS_OK);
    assert_int_equal(reader_left(&reader), 0);
    auth_validate(again);
    struct buffer second = encode(again);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    assert_int_equal(auth_token_epoch(again), 1);
    assert_int_equal(check(again, "u", RIGHT_WRITE, "z", ""), STATUS_OK);
    uint64_t generation = auth_generation(auth);
    auth_succeed(again, auth);
    assert_true(auth_generation(again) > generation);
    buffer_clear(&first);
    buffer_clear(&second);
    auth_destroy(again);
}

/* The next change counts on from there. */
static void a_revision_near_the_end_of_the_numbers_is_corrupt(void **state) {
    (void)state;
    const uint64_t last = INT64_MAX;
    for (uint64_t revision = last; revision <= last + 1; revision++) {
        struct auth *auth = auth_create();
        struct buffer buffer;
        struct reader reader;
        buffer_init(&buffer);
        buffer_put_u8(&buffer, 0);
        buffer_put_varint(&buffer, revision);
        buffer_put_varint(&buffer, 0);                /* tokens */
        buffer_put_bytes(&buffer, bytes_of(NULL, 0)); /* no key */
        buffer_put_varint(&buffer, 0);                /* roles */
        buffer_put_varint(&buffer, 0);                /* users */
        reader_init(&reader, bytes_of(buffer.data, buffer.size));
        assert_int_equal(auth_decode(auth, &reader), revision <= last ? STATUS_OK : STATUS_CORRUPT);
        buffer_clear(&buffer);
        auth_destroy(auth);
    }
}

static void the_highest_revision_of_a_backup_leaves_room_for_changes(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    auth_renew(auth, AUTH_REVISION_IMPORTED_MAX, bytes_of(token_key, sizeof token_key));
    assert_int_equal(change(auth, AUTH_ROLE_ADD, "", "another"), STATUS_OK);
    assert_true(auth_revision(auth) > AUTH_REVISION_IMPORTED_MAX);
    struct buffer buffer = encode(auth);
    struct auth *again = auth_create();
    struct reader reader;
    reader_init(&reader, bytes_of(buffer.data, buffer.size));
    assert_int_equal(auth_decode(again, &reader), STATUS_OK);
    auth_destroy(again);
    buffer_clear(&buffer);
    auth_destroy(auth);
}

static void bytes_that_are_cut_or_changed_do_no_harm(void **state) {
    (void)state;
    struct auth *auth = make_enabled();
    assert_int_equal(grant(auth, "r", RIGHT_READ, "a", "c"), STATUS_OK);
    struct buffer buffer = encode(auth);
    for (size_t size = 0; size < buffer.size; size++) {
        struct auth *again = auth_create();
        struct reader reader;
        reader_init(&reader, bytes_of(buffer.data, size));
        assert_int_equal(auth_decode(again, &reader), STATUS_CORRUPT);
        auth_destroy(again);
    }
    for (size_t i = 0; i < buffer.size; i++) {
        buffer.data[i] ^= 0xff;
        struct auth *again = auth_create();
        struct reader reader;
        reader_init(&reader, bytes_of(buffer.data, buffer.size));
        if (auth_decode(again, &reader) == STATUS_OK) {
            auth_validate(again);
        }
        auth_destroy(again);
        buffer.data[i] ^= 0xff;
    }
    buffer_clear(&buffer);
    auth_destroy(auth);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_cannot_be_enabled_without_root_and_its_role),
        cmocka_unit_test(changes_are_refused_in_etcds_words),
        cmocka_unit_test(nobody_can_lock_root_out),
        cmocka_unit_test(a_role_that_is_deleted_leaves_its_users),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(all_of_it_together_is_bounded),
        cmocka_unit_test(while_it_is_off_everybody_may_do_everything),
        cmocka_unit_test(while_it_is_on_rights_are_needed),
        cmocka_unit_test(a_permission_covers_its_range_and_no_more),
        cmocka_unit_test(permissions_of_several_roles_add_up),
        cmocka_unit_test(a_permission_holds_in_its_space_alone),
        cmocka_unit_test(a_change_of_the_password_ends_what_was_shown_before),
        cmocka_unit_test(what_is_decoded_is_the_same),
        cmocka_unit_test(a_revision_near_the_end_of_the_numbers_is_corrupt),
        cmocka_unit_test(the_highest_revision_of_a_backup_leaves_room_for_changes),
        cmocka_unit_test(bytes_that_are_cut_or_changed_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
