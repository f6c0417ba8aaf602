/* Attempts at passwords: so many, then no more until time has passed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/login_limits.h"

static bool try(struct login_limits *limits, const char *user, const char *address,
                uint64_t now_ms) {
    uint64_t attempt;
    return login_limits_try(limits, bytes_from_text(user), address, now_ms, &attempt);
}

static void one_user_from_one_address_is_limited(void **state) {
    (void)state;
    struct login_limits *limits = login_limits_create(1);
    for (int i = 0; i < LOGIN_PAIR_BURST; i++) {
        assert_true(try(limits, "u", "10.0.0.1", 1000));
    }
    assert_false(try(limits, "u", "10.0.0.1", 1000));
    /* Somebody else, and the same user from elsewhere, are not. */
    assert_true(try(limits, "v", "10.0.0.1", 1000));
    assert_true(try(limits, "u", "10.0.0.2", 1000));
    login_limits_destroy(limits);
}

static void attempts_come_back_with_time(void **state) {
    (void)state;
    struct login_limits *limits = login_limits_create(2);
    for (int i = 0; i < LOGIN_PAIR_BURST; i++) {
        assert_true(try(limits, "u", "a", 1000));
    }
    uint64_t each_ms = LOGIN_REFILL_MS / LOGIN_PAIR_BURST;
    assert_false(try(limits, "u", "a", 1000 + each_ms - 1));
    assert_true(try(limits, "u", "a", 1000 + each_ms));
    assert_false(try(limits, "u", "a", 1000 + each_ms));
    for (int i = 0; i < LOGIN_PAIR_BURST; i++) {
        assert_true(try(limits, "u", "a", 1000 + 3 * LOGIN_REFILL_MS));
    }
    assert_false(try(limits, "u", "a", 1000 + 3 * LOGIN_REFILL_MS));
    /* A clock that stands still or goes back brings nothing. */
    assert_false(try(limits, "u", "a", 0));
    login_limits_destroy(limits);
}

static void one_address_with_many_users_is_limited(void **state) {
    (void)state;
    struct login_limits *limits = login_limits_create(3);
    int n = 0;
    for (int i = 0; i < 10 * LOGIN_ADDRESS_BURST; i++) {
        char user[16];
        snprintf(user, sizeof user, "u%d", i);
        n += try(limits, user, "a", 1000);
    }
    assert_int_equal(n, LOGIN_ADDRESS_BURST);
    login_limits_destroy(limits);
}

static void one_user_from_many_addresses_is_limited(void **state) {
    (void)state;
    struct login_limits *limits = login_limits_create(4);
    int n = 0;
    for (int i = 0; i < 10 * LOGIN_USER_BURST; i++) {
        char address[16];
        snprintf(address, sizeof address, "a%d", i);
        n += try(limits, "u", address, 1000);
    }
    assert_int_equal(n, LOGIN_USER_BURST);
    login_limits_destroy(limits);
}

static void the_addresses_of_one_network_are_one(void **state) {
    (void)state;
    struct login_limits *limits = login_limits_create(6);
    int n = 0;
    for (int i = 0; i < 10 * LOGIN_PAIR_BURST; i++) {
        char address[64];
        snprintf(address, sizeof address, "[2001:db8:1:2:%x::1%s]", i, i % 2 == 0 ? "" : "%eth0");
        n += try(limits, "u", address, 1000);
    }
    assert_int_equal(n, LOGIN_PAIR_BURST);
    assert_true(try(limits, "u", "[2001:db8:1:3::1]", 1000));
    for (int i = 0; i < 3 * LOGIN_PAIR_BURST; i++) {
        char address[64];
        snprintf(address, sizeof address, "[::ffff:10.0.0.%d]", i);
        assert_true(try(limits, "u", address, 1000));
    }
    /* What is no address is a name like any other. */
    assert_true(try(limits, "u", "[", 1000));
    assert_true(try(limits, "u", "[]", 1000));
    assert_true(try(limits, "u", "", 1000));
    assert_true(try(limits, "u", "unix", 1000));
    login_limits_destroy(limits);
}

static void a_right_password_costs_nothing(void **state) {
    (void)state;
    struct login_limits *limits = login_limits_create(5);
    for (int i = 0; i < 10 * LOGIN_USER_BURST; i++) {
        uint64_t attempt;
        assert_true(login_limits_try(limits, bytes_from_text("u"), "a", 1000, &attempt));
        login_limits_succeeded(limits, attempt);
    }
    login_limits_destroy(limits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_user_from_one_address_is_limited),
        cmocka_unit_test(attempts_come_back_with_time),
        cmocka_unit_test(one_address_with_many_users_is_limited),
        cmocka_unit_test(one_user_from_many_addresses_is_limited),
        cmocka_unit_test(a_right_password_costs_nothing),
        cmocka_unit_test(the_addresses_of_one_network_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
