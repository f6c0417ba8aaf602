#include "bench/bench_plot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char text[256 * 1024];

static void draw(const struct bench_tally *tallies, size_t n_tallies, const char *title) {
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    assert_true(bench_plot_write(tallies, n_tallies, title, out));
    fclose(out);
}

static size_t count(const char *word) {
    size_t found = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        found++;
    }
    return found;
}

static struct bench_tally tally_of(const char *name, uint64_t n_numbers, uint64_t step_ns) {
    struct bench_tally tally = {.name = name};
    tally.latency_ns = calloc(1, sizeof *tally.latency_ns);
    assert_non_null(tally.latency_ns);
    for (uint64_t i = 1; i <= n_numbers; i++) {
        histogram_add(tally.latency_ns, i * step_ns);
    }
    return tally;
}

static void each_kind_of_operation_has_a_curve(void **state) {
    struct bench_tally tallies[] = {tally_of("puts", 1000, 1000), tally_of("ranges", 1000, 500)};
    draw(tallies, 2, "two");
    assert_int_equal(count("fill=\"none\""), 2);
    assert_non_null(strstr(text, ">puts</text>"));
    assert_non_null(strstr(text, ">ranges</text>"));
    assert_non_null(strstr(text, "</svg>\n"));
    free(tallies[0].latency_ns);
    free(tallies[1].latency_ns);
}

static void the_axis_goes_as_far_as_the_numbers_bear(void **state) {
    struct bench_tally few = tally_of("few", 100, 1000);
    struct bench_tally many = tally_of("many", 100000, 1000);
    draw(&few, 1, "few");
    assert_non_null(strstr(text, ">99 %<"));
    assert_null(strstr(text, ">99.9 %<"));
    draw(&many, 1, "many");
    assert_non_null(strstr(text, ">99.999 %<"));
    free(few.latency_ns);
    free(many.latency_ns);
}

static void a_run_without_times_is_an_empty_frame(void **state) {
    struct bench_tally none = tally_of("none", 0, 1);
    draw(&none, 1, "none");
    assert_int_equal(count("fill=\"none\""), 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    free(none.latency_ns);
}

static void the_extremes_stay_numbers(void **state) {
    struct bench_tally tally = tally_of("extremes", 0, 1);
    histogram_add(tally.latency_ns, 0);
    histogram_add(tally.latency_ns, UINT64_MAX);
    draw(&tally, 1, "extremes");
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    free(tally.latency_ns);
}

static void a_title_cannot_break_the_picture(void **state) {
    struct bench_tally tally = tally_of("puts", 10, 1000);
    draw(&tally, 1, "a <b> & c");
    assert_non_null(strstr(text, ">a &lt;b&gt; &amp; c<"));
    free(tally.latency_ns);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_operation_has_a_curve),
        cmocka_unit_test(the_axis_goes_as_far_as_the_numbers_bear),
        cmocka_unit_test(a_run_without_times_is_an_empty_frame),
        cmocka_unit_test(the_extremes_stay_numbers),
        cmocka_unit_test(a_title_cannot_break_the_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
