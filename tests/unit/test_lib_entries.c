/* The entries of a directory: sorted, replaced, removed, bounded. */
#include "lease/lib_entries.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bool put(struct lib_entries *entries, const char *key, const char *value, int64_t revision) {
    const struct lib_etcd_key entry = {.key = bytes_from_text(key),
                                       .value = bytes_from_text(value),
                                       .mod_revision = revision,
                                       .lease = 7};
    return lib_entries_put(entries, &entry);
}

static void entries_are_in_the_order_of_their_keys(void **state) {
    struct lib_entries entries = {0};
    const char *keys[] = {"b", "a", "ab", "", "c", "aa"};
    const char *sorted[] = {"", "a", "aa", "ab", "b", "c"};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        assert_true(put(&entries, keys[i], "value", (int64_t)i + 1));
    }
    assert_int_equal(entries.n, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(entries.items[i].key, sorted[i]);
        assert_int_equal(entries.items[i].lease_id, 7);
    }
    lib_entries_clear(&entries);
}

static void a_key_that_is_there_gets_another_value(void **state) {
    struct lib_entries entries = {0};
    (void)state;
    assert_true(put(&entries, "a", "one", 1));
    assert_true(put(&entries, "a", "another", 2));
    assert_int_equal(entries.n, 1);
    assert_string_equal(entries.items[0].value, "another");
    assert_int_equal(entries.items[0].value_size, 7);
    assert_int_equal(lib_entries_newest(&entries), 2);
    lib_entries_clear(&entries);
}

static void what_is_removed_is_gone_and_what_is_not_there_is_no_mistake(void **state) {
    struct lib_entries entries = {0};
    (void)state;
    lib_entries_remove(&entries, bytes_from_text("a"));
    assert_true(put(&entries, "a", "1", 5));
    assert_true(put(&entries, "b", "2", 3));
    lib_entries_remove(&entries, bytes_from_text("aa"));
    assert_int_equal(lib_entries_newest(&entries), 5);
    lib_entries_remove(&entries, bytes_from_text("a"));
    assert_int_equal(entries.n, 1);
    assert_string_equal(entries.items[0].key, "b");
    assert_int_equal(lib_entries_newest(&entries), 3);
    lib_entries_remove(&entries, bytes_from_text("b"));
    assert_int_equal(lib_entries_newest(&entries), 0);
    lib_entries_clear(&entries);
}

static void a_copy_lives_on_its_own(void **state) {
    struct lib_entries entries = {0};
    struct arena arena;
    (void)state;
    arena_init(&arena);
    assert_true(put(&entries, "a", "1", 1));
    const struct lease_entry *copy = lib_entries_copy(&entries, &arena);
    lib_entries_clear(&entries);
    assert_string_equal(copy[0].key, "a");
    assert_string_equal(copy[0].value, "1");
    arena_clear(&arena);
}

static void there_is_a_limit(void **state) {
    struct lib_entries entries = {0};
    char key[16];
    (void)state;
    for (size_t i = 0; i < LIB_ENTRIES_MAX; i++) {
        snprintf(key, sizeof key, "%06zu", i);
        assert_true(put(&entries, key, "", 1));
    }
    assert_false(put(&entries, "one more", "", 1));
    assert_true(put(&entries, "000000", "replaced", 2));
    lib_entries_clear(&entries);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_in_the_order_of_their_keys),
        cmocka_unit_test(a_key_that_is_there_gets_another_value),
        cmocka_unit_test(what_is_removed_is_gone_and_what_is_not_there_is_no_mistake),
        cmocka_unit_test(a_copy_lives_on_its_own),
        cmocka_unit_test(there_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
