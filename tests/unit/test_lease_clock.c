#include "replication/lease_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void it_runs_while_a_leader_is_seen(void **state) {
    struct lease_clock clock;
    lease_clock_init(&clock, 900, 1000);
    for (uint64_t now_ms = 1000; now_ms < 100000; now_ms += 500) {
        assert_int_equal(lease_clock_read(&clock, now_ms), now_ms);
        assert_int_equal(lease_clock_leader_seen(&clock, now_ms), now_ms == 1000 ? 0 : 500);
    }
}

static void an_election_counts(void **state) {
    struct lease_clock clock;
    lease_clock_init(&clock, 900, 1000);
    assert_int_equal(lease_clock_leader_seen(&clock, 1900), 900);
    assert_int_equal(lease_clock_read(&clock, 1900), 1900);
}

static void it_stands_still_in_an_outage_and_goes_on_without_a_jump(void **state) {
    struct lease_clock clock;
    lease_clock_init(&clock, 900, 1000);
    assert_int_equal(lease_clock_read(&clock, 1900), 1900);
    assert_int_equal(lease_clock_read(&clock, 1901), 1900);
    assert_int_equal(lease_clock_read(&clock, 61000), 1900);
    assert_int_equal(lease_clock_leader_seen(&clock, 61000), 60000);
    assert_int_equal(lease_clock_read(&clock, 61000), 1900);
    assert_int_equal(lease_clock_read(&clock, 61100), 2000);
    assert_int_equal(lease_clock_leader_seen(&clock, 61100), 100);
    assert_int_equal(lease_clock_read(&clock, 161000), 2900);
}

static void a_node_alone_is_its_own_leader(void **state) {
    struct lease_clock clock;
    lease_clock_init(&clock, UINT64_MAX, 1000);
    assert_int_equal(lease_clock_read(&clock, 999999), 999999);
    lease_clock_set_patience(&clock, 900, 999999);
    assert_int_equal(lease_clock_read(&clock, 1000899), 1000899);
    assert_int_equal(lease_clock_read(&clock, 1009999), 1000899);
    lease_clock_set_patience(&clock, UINT64_MAX, 1009999);
    assert_int_equal(lease_clock_read(&clock, 1009999), 1000899);
    assert_int_equal(lease_clock_read(&clock, 1019999), 1010899);
}

static void a_late_word_of_a_leader_changes_nothing(void **state) {
    struct lease_clock clock;
    lease_clock_init(&clock, 900, 1000);
    lease_clock_leader_seen(&clock, 5000);
    uint64_t at_ms = lease_clock_read(&clock, 5000);
    assert_int_equal(lease_clock_leader_seen(&clock, 4000), 0);
    assert_int_equal(lease_clock_read(&clock, 5000), at_ms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs_while_a_leader_is_seen),
        cmocka_unit_test(an_election_counts),
        cmocka_unit_test(it_stands_still_in_an_outage_and_goes_on_without_a_jump),
        cmocka_unit_test(a_node_alone_is_its_own_leader),
        cmocka_unit_test(a_late_word_of_a_leader_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
