/* Alias checks by the service that they name: who has to look again, and in which order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "checks/check_aliases.h"

#include <stdio.h>

enum { JOBS = 8 };

static struct check_aliases aliases;
static struct check_job jobs[JOBS];

static int set_up(void **state) {
    check_aliases_init(&aliases);
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i] = (struct check_job){0};
        list_init(&jobs[i].in_aliases);
    }
    return 0;
}

static int tear_down(void **state) {
    for (size_t i = 0; i < JOBS; i++) {
        check_aliases_remove(&aliases, &jobs[i]);
    }
    assert_null(check_aliases_next(&aliases));
    check_aliases_clear(&aliases);
    return 0;
}

static void add(size_t job, const char *service) {
    check_aliases_add(&aliases, &jobs[job], bytes_from_text(service));
}

static bool touch(const char *service) {
    return check_aliases_touch(&aliases, bytes_from_text(service));
}

/* The number of the next job; -1: none. */
static int next(void) {
    struct check_job *job = check_aliases_next(&aliases);
    return job == NULL ? -1 : (int)(job - jobs);
}

static void those_that_name_a_service_look_again_once(void **state) {
    add(0, "web");
    add(1, "db");
    add(2, "web");
    assert_int_equal(next(), -1);
    assert_false(touch("other"));
    assert_true(touch("web"));
    assert_true(touch("web"));
    assert_int_equal(next(), 0);
    assert_int_equal(next(), 2);
    assert_int_equal(next(), -1);
}

/* Whoever has looked already looks again, after those that have not. */
static void a_change_on_the_way_counts(void **state) {
    add(0, "web");
    add(1, "web");
    add(2, "web");
    touch("web");
    assert_int_equal(next(), 0);
    touch("web");
    assert_int_equal(next(), 1);
    assert_int_equal(next(), 2);
    assert_int_equal(next(), 0);
    assert_int_equal(next(), -1);
}

static void services_take_turns(void **state) {
    add(0, "web");
    add(1, "web");
    add(2, "web");
    add(3, "db");
    touch("web");
    touch("db");
    assert_int_equal(next(), 0);
    assert_int_equal(next(), 3);
    assert_int_equal(next(), 1);
    assert_int_equal(next(), 2);
    assert_int_equal(next(), -1);
}

static void those_that_go_are_not_told(void **state) {
    add(0, "web");
    add(1, "web");
    touch("web");
    assert_int_equal(next(), 0);
    check_aliases_remove(&aliases, &jobs[1]);
    check_aliases_remove(&aliases, &jobs[1]); /* harmless */
    assert_int_equal(next(), -1);
    touch("web");
    check_aliases_remove(&aliases, &jobs[0]);
    assert_int_equal(next(), -1);
    assert_false(touch("web"));
    /* It may name another. */
    add(0, "db");
    assert_true(touch("db"));
    assert_int_equal(next(), 0);
}

static void any_number_of_services(void **state) {
    enum { MANY = 2000 };
    static struct check_job many[MANY];
    char name[16];
    for (size_t i = 0; i < MANY; i++) {
        many[i] = (struct check_job){0};
        list_init(&many[i].in_aliases);
        snprintf(name, sizeof name, "s%zu", i);
        check_aliases_add(&aliases, &many[i], bytes_from_text(name));
    }
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "s%zu", i);
        assert_true(touch(name));
        assert_ptr_equal(check_aliases_next(&aliases), &many[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        check_aliases_remove(&aliases, &many[i]);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(those_that_name_a_service_look_again_once),
        TEST(a_change_on_the_way_counts),
        TEST(services_take_turns),
        TEST(those_that_go_are_not_told),
        TEST(any_number_of_services),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
