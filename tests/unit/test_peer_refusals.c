#include "replication/peer_refusals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { NOW_MS = 5000 };

static void the_same_is_told_once_in_a_while(void **state) {
    struct peer_refusals refusals = {0};
    assert_true(peer_refusals_note(&refusals, "10.0.0.1", "expired", NOW_MS));
    assert_false(peer_refusals_note(&refusals, "10.0.0.1", "expired", NOW_MS));
    assert_true(peer_refusals_note(&refusals, "10.0.0.2", "expired", NOW_MS));
    assert_true(peer_refusals_note(&refusals, "10.0.0.1", "unknown", NOW_MS));
    uint64_t later_ms = NOW_MS + PEER_REFUSALS_MS;
    assert_false(peer_refusals_note(&refusals, "10.0.0.1", "expired", later_ms - 1));
    assert_true(peer_refusals_note(&refusals, "10.0.0.1", "expired", later_ms));
    assert_false(peer_refusals_note(&refusals, "10.0.0.1", "expired", later_ms));
}

static void of_a_flood_only_a_few_are_told(void **state) {
    struct peer_refusals refusals = {0};
    unsigned n_told = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char from[32];
        snprintf(from, sizeof from, "10.0.0.%u", i);
        n_told += peer_refusals_note(&refusals, from, "expired", NOW_MS + i);
    }
    assert_int_equal(n_told, PEER_REFUSALS_MAX);
    assert_true(peer_refusals_note(&refusals, "10.1.1.1", "expired", NOW_MS + PEER_REFUSALS_MS));
}

static void what_is_too_long_is_cut(void **state) {
    struct peer_refusals refusals = {0};
    char reason[2 * PEER_REFUSAL_SIZE_MAX];
    memset(reason, 'x', sizeof reason);
    reason[sizeof reason - 1] = '\0';
    assert_true(peer_refusals_note(&refusals, "10.0.0.1", reason, NOW_MS));
    assert_false(peer_refusals_note(&refusals, "10.0.0.1", reason, NOW_MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_is_told_once_in_a_while),
        cmocka_unit_test(of_a_flood_only_a_few_are_told),
        cmocka_unit_test(what_is_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
