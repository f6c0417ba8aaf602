#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/spare_memory.h"

#define MIB ((size_t)1024 * 1024)

static void memory_in_use_is_not_searched(void **state) {
    struct spare_memory spare;
    spare_memory_note_searched(&spare, 10 * MIB, 0);
    for (size_t held = 0; held < 1000 * MIB; held += 50 * MIB) {
        assert_false(spare_memory_look(&spare, 10 * MIB + held, held));
    }
}

static void a_burst_between_two_looks_is_found_when_it_lasts(void **state) {
    struct spare_memory spare;
    spare_memory_note_searched(&spare, 10 * MIB, 0);
    assert_false(spare_memory_look(&spare, 70 * MIB, 0));
    assert_true(spare_memory_look(&spare, 70 * MIB, 0));
}

static void a_single_look_is_not_enough(void **state) {
    struct spare_memory spare;
    spare_memory_note_searched(&spare, 10 * MIB, 0);
    for (unsigned i = 0; i < 10; i++) {
        assert_false(spare_memory_look(&spare, 10 * MIB, 0));
        assert_false(spare_memory_look(&spare, 70 * MIB, 0));
    }
}

static void what_a_search_did_not_find_is_not_searched_for_again(void **state) {
    struct spare_memory spare;
    spare_memory_note_searched(&spare, 10 * MIB, 0);
    spare_memory_look(&spare, 100 * MIB, 0);
    assert_true(spare_memory_look(&spare, 100 * MIB, 0));
    spare_memory_note_searched(&spare, 90 * MIB, 0);
    for (unsigned i = 0; i < 10; i++) {
        assert_false(spare_memory_look(&spare, 100 * MIB, 0));
    }
    spare_memory_look(&spare, 90 * MIB + SPARE_MEMORY_BYTES, 0);
    assert_true(spare_memory_look(&spare, 90 * MIB + SPARE_MEMORY_BYTES, 0));
}

static void what_went_by_itself_counts_again_when_it_comes_back(void **state) {
    struct spare_memory spare;
    spare_memory_note_searched(&spare, 10 * MIB, 0);
    spare_memory_note_searched(&spare, 90 * MIB, 0);
    assert_false(spare_memory_look(&spare, 10 * MIB, 0));
    assert_false(spare_memory_look(&spare, 40 * MIB, 0));
    assert_true(spare_memory_look(&spare, 40 * MIB, 0));
}

static void accounts_beyond_what_is_resident_are_no_spare_memory(void **state) {
    struct spare_memory spare;
    spare_memory_note_searched(&spare, 10 * MIB, 0);
    for (unsigned i = 0; i < 10; i++) {
        assert_false(spare_memory_look(&spare, 10 * MIB, 500 * MIB));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_in_use_is_not_searched),
        cmocka_unit_test(a_burst_between_two_looks_is_found_when_it_lasts),
        cmocka_unit_test(a_single_look_is_not_enough),
        cmocka_unit_test(what_a_search_did_not_find_is_not_searched_for_again),
        cmocka_unit_test(what_went_by_itself_counts_again_when_it_comes_back),
        cmocka_unit_test(accounts_beyond_what_is_resident_are_no_spare_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
