#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "checks/check_network_list.h"
#include "checks/check_result.h"
#include "checks/check_shares.h"
#include "checks/check_state.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const struct check_thresholds three_two = {.rises = 2, .falls = 3};

static void the_first_result_decides(void **state) {
    (void)state;
    struct check_state check = {.health = REGISTRY_CRITICAL};
    assert_true(check_state_add(&check, &three_two, REGISTRY_PASSING));
    assert_int_equal(check.health, REGISTRY_PASSING);
    check = (struct check_state){.health = REGISTRY_PASSING};
    assert_true(check_state_add(&check, &three_two, REGISTRY_CRITICAL));
    assert_int_equal(check.health, REGISTRY_CRITICAL);
}

static void it_takes_so_many_in_a_row(void **state) {
    (void)state;
    struct check_state check = {.health = REGISTRY_PASSING, .is_known = true};
    assert_false(check_state_add(&check, &three_two, REGISTRY_CRITICAL));
    assert_false(check_state_add(&check, &three_two, REGISTRY_CRITICAL));
    assert_false(check_state_add(&check, &three_two, REGISTRY_PASSING)); /* not in a row */
    assert_false(check_state_add(&check, &three_two, REGISTRY_CRITICAL));
    assert_false(check_state_add(&check, &three_two, REGISTRY_CRITICAL));
    assert_true(check_state_add(&check, &three_two, REGISTRY_CRITICAL));
    assert_false(check_state_add(&check, &three_two, REGISTRY_WARNING));
    assert_int_equal(check.health, REGISTRY_CRITICAL);
    assert_true(check_state_add(&check, &three_two, REGISTRY_PASSING));
    assert_int_equal(check.health, REGISTRY_PASSING);
}

static void a_warning_counts_at_once(void **state) {
    (void)state;
    struct check_state check = {.health = REGISTRY_PASSING, .is_known = true};
    assert_true(check_state_add(&check, &three_two, REGISTRY_WARNING));
    assert_true(check_state_add(&check, &three_two, REGISTRY_PASSING));
    struct check_thresholds none = {0};
    assert_true(check_state_add(&check, &none, REGISTRY_CRITICAL));
    assert_true(check_state_add(&check, &none, REGISTRY_PASSING));
}

enum { CHECKS = 6000 };

static size_t owner_of(const struct check_shares *shares, uint64_t hash) {
    struct check_shares own = *shares;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < shares->n; i++) {
        own.own = shares->runners[i];
        if (check_shares_is_own(&own, hash)) {
            assert_int_equal(found, SIZE_MAX); /* one member alone */
            found = i;
        }
    }
    assert_true(found != SIZE_MAX);
    return found;
}

static void every_check_has_one_member_and_only_the_share_of_the_dead_moves(void **state) {
    (void)state;
    struct check_shares three = {.n = 3};
    struct check_shares two = {.n = 2};
    size_t counts[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "r%zu", i);
        three.runners[i] = check_shares_hash(bytes_from_text(name));
        two.runners[i % 2] = three.runners[i % 2];
    }
    for (size_t i = 0; i < CHECKS; i++) {
        char key[32];
        snprintf(key, sizeof key, "sweb%zuc", i);
        uint64_t hash = check_shares_hash(bytes_from_text(key));
        size_t before = owner_of(&three, hash);
        counts[before]++;
        if (before < 2) {
            assert_int_equal(owner_of(&two, hash), before);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(counts[i], CHECKS / 3 - 200, CHECKS / 3 + 200);
    }
    struct check_shares none = {.own = 1};
    assert_false(check_shares_is_own(&none, 7));
}

static bool allows(const char *list, const char *address) {
    struct check_network_list networks;
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    assert_int_equal(check_network_list_parse(list, &networks), STATUS_OK);
    if (inet_pton(AF_INET, address, &four.sin_addr) == 1) {
        return check_network_list_allows(&networks, (struct sockaddr *)&four);
    }
    assert_int_equal(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
    return check_network_list_allows(&networks, (struct sockaddr *)&six);
}

static void only_listed_networks_are_allowed(void **state) {
    (void)state;
    struct check_network_list networks;
    assert_true(allows("", "8.8.8.8"));
    assert_true(allows("10.0.0.0/8,fd00::/8", "10.255.0.1"));
    assert_true(allows("10.0.0.0/8,fd00::/8", "fd12::1"));
    assert_false(allows("10.0.0.0/8,fd00::/8", "11.0.0.1"));
    assert_false(allows("10.0.0.0/8", "::1"));
    assert_false(allows("0.0.0.0/0", "fe80::1"));
    assert_true(allows("0.0.0.0/0", "169.254.169.254"));
    assert_true(allows("10.0.0.0/8", "::ffff:10.0.0.1")); /* the same address */
    assert_true(allows("10.1.2.3", "10.1.2.3"));
    assert_false(allows("10.1.2.3", "10.1.2.4"));
    assert_true(allows("10.1.2.0/30", "10.1.2.3"));
    assert_false(allows("10.1.2.0/30", "10.1.2.4"));
    assert_int_equal(check_network_list_parse("10.0.0.0/33", &networks), STATUS_INVALID);
    assert_int_equal(check_network_list_parse("10.0.0", &networks), STATUS_INVALID);
    assert_int_equal(check_network_list_parse("10.0.0.0/", &networks), STATUS_INVALID);
    assert_int_equal(check_network_list_parse("host/8", &networks), STATUS_INVALID);
}

static void an_output_is_a_text_whatever_came(void **state) {
    (void)state;
    struct check_result result;
    check_result_set(&result, REGISTRY_PASSING, "a\x1b[2Jb\n");
    check_result_add(&result, bytes_of("\xff\xc3\xa4\xed\xa0\x80\0z", 8));
    struct bytes expected = bytes_from_text("a [2Jb\n?\xc3\xa4??? z");
    assert_true(bytes_equal(check_result_output(&result), expected));
    for (size_t i = 0; i < 2000; i++) {
        check_result_add_text(&result, "\xc3\xa4");
    }
    assert_true(result.output_size <= CHECK_OUTPUT_SIZE_MAX);
    assert_int_equal((uint8_t)result.output[result.output_size - 1], 0xa4); /* not cut within */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_result_decides),
        cmocka_unit_test(it_takes_so_many_in_a_row),
        cmocka_unit_test(a_warning_counts_at_once),
        cmocka_unit_test(every_check_has_one_member_and_only_the_share_of_the_dead_moves),
        cmocka_unit_test(only_listed_networks_are_allowed),
        cmocka_unit_test(an_output_is_a_text_whatever_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
