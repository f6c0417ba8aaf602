/* The text of /metrics is written anew while that takes a small share of the time. */
#include "server/metrics_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

static bool ask(struct metrics_text *kept, uint64_t now_ns, uint64_t took_ns) {
    if (!metrics_text_is_due(kept, now_ns)) {
        return false;
    }
    buffer_append(&kept->text, "page", 4);
    metrics_text_written(kept, took_ns);
    return true;
}

static void who_asks_now_and_then_gets_a_new_text_each_time(void **state) {
    (void)state;
    struct metrics_text kept;
    metrics_text_init(&kept);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(ask(&kept, (i + 1) * 10 * MS, MS));
        assert_int_equal(kept.text.size, 4);
    }
    metrics_text_clear(&kept);
}

static void a_flood_gets_the_last_text_within_the_share(void **state) {
    (void)state;
    struct metrics_text kept;
    metrics_text_init(&kept);
    unsigned written = 0;
    for (unsigned i = 0; i < 100 * 1000; i++) { /* ten thousand a second, for ten seconds */
        written += ask(&kept, MS + i * MS / 10, MS);
        assert_int_equal(kept.text.size, 4);
    }
    assert_in_range(written, 1000, 1051); /* a tenth of ten seconds, and the credit */
    metrics_text_clear(&kept);
}

/* As where the process was stopped meanwhile. */
static void one_that_took_very_long_is_soon_paid_off(void **state) {
    (void)state;
    struct metrics_text kept;
    metrics_text_init(&kept);
    assert_true(ask(&kept, MS, 60 * 1000 * MS));
    assert_false(ask(&kept, 400 * MS, MS));
    assert_true(ask(&kept, 1100 * MS, MS));
    metrics_text_clear(&kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_now_and_then_gets_a_new_text_each_time),
        cmocka_unit_test(a_flood_gets_the_last_text_within_the_share),
        cmocka_unit_test(one_that_took_very_long_is_soon_paid_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
