#include "registry/registry_select.h"

#include "registry_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { N = 20 };

static char ids[N][8];
static struct registry_entry all[N];
static const struct registry_entry *chosen[N];

/* Even ones are in zone z1, odd ones in z2. */
static int set_up(void **state) {
    for (size_t i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "i%02zu", i);
        all[i] = (struct registry_entry){.instance = registry_test_instance("web", ids[i]),
                                         .is_serving = true};
        all[i].instance.zone = bytes_from_text(i % 2 == 0 ? "z1" : "z2");
        chosen[i] = &all[N - 1 - i];
    }
    return 0;
}

static void by_default_all_that_serve_come_by_id(void **state) {
    const struct registry_query query = {0};
    all[3].is_serving = false;
    assert_int_equal(registry_select(&query, chosen, N), N - 1);
    assert_ptr_equal(chosen[0], &all[0]);
    assert_ptr_equal(chosen[3], &all[4]);
}

static void everything_asked_for_must_match(void **state) {
    const struct registry_pair rack = {bytes_from_text("rack"), bytes_from_text("r1")};
    const struct registry_pair other = {bytes_from_text("rack"), bytes_from_text("r2")};
    struct registry_query query = {.n_tags = 2,
                                   .tags = registry_test_tags,
                                   .n_metadata = 1,
                                   .metadata = &rack,
                                   .only_zone = bytes_from_text("z1"),
                                   .version = bytes_from_text("1.2.3")};
    assert_true(registry_query_matches(&query, &all[0]));
    assert_false(registry_query_matches(&query, &all[1]));
    query.metadata = &other;
    assert_false(registry_query_matches(&query, &all[0]));
    query.metadata = &rack;
    all[0].instance.n_tags = 1;
    assert_false(registry_query_matches(&query, &all[0]));
    all[2].is_serving = false;
    assert_false(registry_query_matches(&query, &all[2]));
    query.with_unhealthy = true;
    assert_true(registry_query_matches(&query, &all[2]));
}

static void the_near_zone_comes_first(void **state) {
    const struct registry_query query = {
        .near_zone = bytes_from_text("z2"), .seed = 7, .limit = 12};
    assert_int_equal(registry_select(&query, chosen, N), 12);
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(bytes_equal(chosen[i]->instance.zone, bytes_from_text("z2")), i < 10);
    }
}

static void weights_count_and_zero_is_last(void **state) {
    size_t n_first = 0;
    all[5].instance.weight = N - 1;
    all[6].instance.weight = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        const struct registry_query query = {.seed = seed};
        assert_int_equal(registry_select(&query, chosen, N), N);
        n_first += chosen[0] == &all[5];
        assert_ptr_equal(chosen[N - 1], &all[6]);
    }
    /* 19 of 37. */
    assert_in_range(n_first, 2000 * 19 / 37 - 120, 2000 * 19 / 37 + 120);
}

static void the_same_seed_gives_the_same_order(void **state) {
    const struct registry_query query = {.seed = 42};
    const struct registry_entry *again[N];
    for (size_t i = 0; i < N; i++) {
        again[i] = &all[i];
    }
    registry_select(&query, chosen, N);
    registry_select(&query, again, N);
    assert_memory_equal(chosen, again, sizeof again);
}

static void subsets_are_stable_and_spread_evenly(void **state) {
    enum { CLIENTS = 1000, SIZE = 4 };
    size_t loads[N] = {0};
    for (size_t client = 0; client < CLIENTS; client++) {
        char name[16];
        const struct registry_entry *fewer[N];
        snprintf(name, sizeof name, "client-%zu", client);
        const struct registry_query query = {.subset_of = bytes_from_text(name), .limit = SIZE};
        assert_int_equal(registry_select(&query, chosen, N), SIZE);
        for (size_t i = 0; i < SIZE; i++) {
            loads[chosen[i] - all]++;
        }
        /* Without one instance, only the clients that had it get another. */
        for (size_t i = 0; i < N - 1; i++) {
            fewer[i] = &all[i];
        }
        registry_select(&query, fewer, N - 1);
        size_t n_same = 0;
        for (size_t i = 0; i < SIZE; i++) {
            for (size_t j = 0; j < SIZE; j++) {
                n_same += chosen[i] == fewer[j];
            }
        }
        assert_true(n_same >= SIZE - 1);
        set_up(NULL);
    }
    for (size_t i = 0; i < N; i++) {
        assert_in_range(loads[i], CLIENTS * SIZE / N * 7 / 10, CLIENTS * SIZE / N * 13 / 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(by_default_all_that_serve_come_by_id, set_up),
        cmocka_unit_test_setup(everything_asked_for_must_match, set_up),
        cmocka_unit_test_setup(the_near_zone_comes_first, set_up),
        cmocka_unit_test_setup(weights_count_and_zero_is_last, set_up),
        cmocka_unit_test_setup(the_same_seed_gives_the_same_order, set_up),
        cmocka_unit_test_setup(subsets_are_stable_and_spread_evenly, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
