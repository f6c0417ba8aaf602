/* Tokens: what was signed is read back, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/auth.h"
#include "server/auth_token.h"

static const uint8_t key_bytes[AUTH_TOKEN_KEY_SIZE] = {1, 2, 3};
static const struct auth_token token = {.user_id = 7, .version = UINT64_MAX, .epoch = 12};

static struct bytes key(void) {
    return bytes_of(key_bytes, sizeof key_bytes);
}

static struct bytes password_hash(void) {
    return bytes_from_text("$y$j9T$salt$hash");
}

static bool verify(struct bytes text) {
    return auth_token_verify(text, key(), password_hash());
}

static void a_token_is_read_back(void **state) {
    (void)state;
    char text[AUTH_TOKEN_TEXT_SIZE];
    struct auth_token again;
    auth_token_write(&token, key(), password_hash(), text);
    assert_true(verify(bytes_from_text(text)));
    assert_true(auth_token_read(bytes_from_text(text), &again));
    assert_int_equal(again.user_id, token.user_id);
    assert_int_equal(again.version, token.version);
    assert_int_equal(again.epoch, token.epoch);
}

static void no_two_are_equal(void **state) {
    (void)state;
    char first[AUTH_TOKEN_TEXT_SIZE];
    char second[AUTH_TOKEN_TEXT_SIZE];
    auth_token_write(&token, key(), password_hash(), first);
    auth_token_write(&token, key(), password_hash(), second);
    assert_string_not_equal(first, second);
}

static void every_change_of_a_character_spoils_it(void **state) {
    (void)state;
    char text[AUTH_TOKEN_TEXT_SIZE];
    struct auth_token again;
    auth_token_write(&token, key(), password_hash(), text);
    for (size_t i = 0; text[i] != '\0'; i++) {
        char before = text[i];
        text[i] = before == 'A' ? 'B' : 'A';
        assert_false(verify(bytes_from_text(text)));
        text[i] = before;
    }
    for (size_t size = 0; size < strlen(text); size++) {
        assert_false(verify(bytes_of(text, size)));
        assert_false(auth_token_read(bytes_of(text, size), &again));
    }
    assert_true(verify(bytes_from_text(text)));
}

static void another_key_does_not_read_it(void **state) {
    (void)state;
    static const uint8_t other[AUTH_TOKEN_KEY_SIZE] = {1, 2, 4};
    char text[AUTH_TOKEN_TEXT_SIZE];
    auth_token_write(&token, key(), password_hash(), text);
    assert_false(
        auth_token_verify(bytes_from_text(text), bytes_of(other, sizeof other), password_hash()));
}

/* Of the same id and version, in a cluster that was restored from a backup. */
static void another_user_does_not_fit_it(void **state) {
    (void)state;
    char text[AUTH_TOKEN_TEXT_SIZE];
    auth_token_write(&token, key(), password_hash(), text);
    assert_false(
        auth_token_verify(bytes_from_text(text), key(), bytes_from_text("$y$j9T$tlas$hash")));
    assert_false(auth_token_verify(bytes_from_text(text), key(), bytes_of(NULL, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_read_back),
        cmocka_unit_test(no_two_are_equal),
        cmocka_unit_test(every_change_of_a_character_spoils_it),
        cmocka_unit_test(another_key_does_not_read_it),
        cmocka_unit_test(another_user_does_not_fit_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
