#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/compactor.h"

static struct compactor compactor;

static void without_retention_nothing_is_compacted(void **state) {
    compactor_init(&compactor, 0, 0, 5);
    for (uint64_t now_ms = 5; now_ms < 100000000; now_ms += 1000000) {
        assert_int_equal(compactor_tick(&compactor, now_ms, (int64_t)now_ms), 0);
    }
}

static void by_time_a_revision_goes_once_it_is_as_old_as_the_retention(void **state) {
    /* The revision equals the time, so what is asked for tells how old it was. */
    for (uint64_t retention_ms = 1; retention_ms < 100000; retention_ms = retention_ms * 3 + 1) {
        uint64_t interval_ms = retention_ms / COMPACTOR_SAMPLES + 1;
        size_t n_compactions = 0;
        int64_t last = 0;
        compactor_init(&compactor, retention_ms, 0, 1000);
        for (uint64_t now_ms = 1000; now_ms < 1000 + 5 * retention_ms; now_ms++) {
            int64_t revision = compactor_tick(&compactor, now_ms, (int64_t)now_ms);
            if (revision == 0) {
                continue;
            }
            assert_true(revision > last);
            assert_true((uint64_t)revision + retention_ms <= now_ms);
            assert_true(now_ms <= (uint64_t)revision + retention_ms + 2 * interval_ms);
            last = revision;
            n_compactions++;
        }
        assert_true(n_compactions > 0);
    }
}

static void by_time_a_quiet_store_is_not_compacted_again(void **state) {
    int n_compactions = 0;
    compactor_init(&compactor, 1000, 0, 0);
    for (uint64_t now_ms = 0; now_ms < 20000; now_ms += 10) {
        int64_t revision = compactor_tick(&compactor, now_ms, 7);
        assert_true(revision == 0 || revision == 7);
        n_compactions += revision != 0;
    }
    assert_int_equal(n_compactions, 1);
}

static void by_time_a_long_pause_is_survived(void **state) {
    compactor_init(&compactor, 1000, 0, 0);
    for (uint64_t now_ms = 0; now_ms < 900; now_ms += 10) {
        assert_int_equal(compactor_tick(&compactor, now_ms, (int64_t)now_ms + 1), 0);
    }
    assert_int_equal(compactor_tick(&compactor, 1000000, 950), 801);
}

static void by_revision_so_many_are_kept(void **state) {
    compactor_init(&compactor, 0, 100, 50);
    assert_int_equal(compactor_tick(&compactor, 50, 1000), 0);
    uint64_t now_ms = 50 + COMPACTOR_REVISION_INTERVAL_MS;
    assert_int_equal(compactor_tick(&compactor, now_ms, 1000), 900);
    assert_int_equal(compactor_tick(&compactor, now_ms + 1, 2000), 0);
    now_ms += COMPACTOR_REVISION_INTERVAL_MS;
    assert_int_equal(compactor_tick(&compactor, now_ms, 1000), 0); /* nothing new */
    now_ms += COMPACTOR_REVISION_INTERVAL_MS;
    assert_int_equal(compactor_tick(&compactor, now_ms, 1001), 901);
}

static void by_revision_a_short_history_is_left_alone(void **state) {
    compactor_init(&compactor, 0, 100, 0);
    assert_int_equal(compactor_tick(&compactor, COMPACTOR_REVISION_INTERVAL_MS, 100), 0);
    assert_int_equal(compactor_tick(&compactor, 2 * COMPACTOR_REVISION_INTERVAL_MS, 101), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_retention_nothing_is_compacted),
        cmocka_unit_test(by_time_a_revision_goes_once_it_is_as_old_as_the_retention),
        cmocka_unit_test(by_time_a_quiet_store_is_not_compacted_again),
        cmocka_unit_test(by_time_a_long_pause_is_survived),
        cmocka_unit_test(by_revision_so_many_are_kept),
        cmocka_unit_test(by_revision_a_short_history_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
