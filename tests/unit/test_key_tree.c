#include "core/key_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 20000, TEXT_MAX = 32 };

static struct record *record_make(struct bytes key, bool is_live) {
    struct record *record = calloc(1, sizeof *record + key.size);
    assert_non_null(record);
    record->version = is_live;
    record->key_size = (uint32_t)key.size;
    memcpy(record->bytes, key.data, key.size);
    return record;
}

static struct record *record_of_number(const char *format, unsigned number, bool is_live) {
    char text[TEXT_MAX];
    int size = snprintf(text, sizeof text, format, number);
    return record_make(bytes_of(text, (size_t)size), is_live);
}

static struct bytes number_key(char text[TEXT_MAX], unsigned number) {
    return bytes_of(text, (size_t)snprintf(text, TEXT_MAX, "/a/shared/start/%08u", number));
}

/* Puts in a record for each of MANY numbers, in the order i * step modulo MANY. */
static void fill(struct key_tree *tree, unsigned step) {
    for (unsigned i = 0; i < MANY; i++) {
        struct record *record = record_of_number("/a/shared/start/%08u",
                                                 (unsigned)((uint64_t)i * step % MANY), i % 3 != 0);
        assert_null(key_tree_set(tree, record));
    }
    key_tree_validate(tree);
    assert_int_equal(tree->slots, MANY);
}

static void remove_number(struct key_tree *tree, unsigned number) {
    char text[TEXT_MAX];
    struct bytes key = number_key(text, number);
    struct record *record = key_tree_find(tree->root, key);
    assert_non_null(record);
    key_tree_remove(tree, key);
    assert_null(key_tree_find(tree->root, key));
    free(record);
}

static void clear(struct key_tree *tree) {
    struct key_tree_cursor cursor;
    key_tree_seek(tree->root, bytes_of(NULL, 0), false, &cursor);
    struct record *record;
    while ((record = key_tree_cursor_record(&cursor)) != NULL) {
        key_tree_cursor_next(&cursor);
        free(record);
    }
    key_tree_clear(tree);
}

static void an_empty_tree_has_nothing(void **state) {
    struct key_tree tree;
    struct key_tree_cursor cursor;
    key_tree_init(&tree);
    key_tree_validate(&tree);
    assert_null(key_tree_find(tree.root, bytes_from_text("a")));
    assert_int_equal(key_tree_live(tree.root), 0);
    assert_int_equal(key_tree_live_below(tree.root, bytes_from_text("a")), 0);
    key_tree_seek(tree.root, bytes_from_text("a"), false, &cursor);
    assert_null(key_tree_cursor_record(&cursor));
    key_tree_clear(&tree);
}

static void keys_come_back_in_order_whatever_order_they_came_in(void **state) {
    /* Upwards, downwards, and scattered. */
    static const unsigned steps[] = {1, MANY - 1, 7919};
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        struct key_tree tree;
        struct key_tree_cursor cursor;
        char text[TEXT_MAX];
        key_tree_init(&tree);
        fill(&tree, steps[s]);
        key_tree_seek(tree.root, bytes_of(NULL, 0), false, &cursor);
        for (unsigned i = 0; i < MANY; i++) {
            struct bytes key = number_key(text, i);
            assert_true(bytes_equal(record_stored_key(key_tree_cursor_record(&cursor)), key));
            assert_ptr_equal(key_tree_find(tree.root, key), key_tree_cursor_record(&cursor));
            key_tree_cursor_next(&cursor);
        }
        assert_null(key_tree_cursor_record(&cursor));
        clear(&tree);
    }
}

static void keys_that_only_grow_fill_the_nodes(void **state) {
    struct key_tree tree;
    key_tree_init(&tree);
    fill(&tree, 1);
    assert_true(tree.bytes < (size_t)MANY * 14);
    clear(&tree);
    fill(&tree, 7919);
    assert_true(tree.bytes < (size_t)MANY * 22);
    clear(&tree);
}

static void keys_that_extend_each_other_are_told_apart(void **state) {
    static const struct {
        const char *data;
        size_t size;
    } sorted[] = {{"\0", 1},       {"\0\0", 2},      {"a", 1},           {"a\0", 2},
                  {"a\0\0", 3},    {"a\0\0\0\0", 5}, {"a\0\0\0\0\0", 6}, {"ab", 2},
                  {"abcdefgh", 8}, {"abcdefghi", 9}, {"abcdefgi", 8},    {"\xff", 1}};
    enum { N = sizeof sorted / sizeof sorted[0] };
    struct key_tree tree;
    key_tree_init(&tree);
    for (size_t i = 0; i < N; i++) {
        size_t j = i * 5 % N;
        assert_null(
            key_tree_set(&tree, record_make(bytes_of(sorted[j].data, sorted[j].size), true)));
        key_tree_validate(&tree);
    }
    for (size_t i = 0; i < N; i++) {
        struct bytes key = bytes_of(sorted[i].data, sorted[i].size);
        assert_true(bytes_equal(record_stored_key(key_tree_find(tree.root, key)), key));
        assert_int_equal(key_tree_live_below(tree.root, key), i);
    }
    assert_null(key_tree_find(tree.root, bytes_from_text("abcdefg")));
    assert_null(key_tree_find(tree.root, bytes_of("a\0\0\0", 4)));
    clear(&tree);
}

static void setting_a_key_again_replaces_its_record(void **state) {
    struct key_tree tree;
    char text[TEXT_MAX];
    key_tree_init(&tree);
    fill(&tree, 7919);
    size_t live = key_tree_live(tree.root);
    for (unsigned i = 0; i < MANY; i += 7) {
        struct record *old = key_tree_find(tree.root, number_key(text, i));
        struct record *record =
            record_of_number("/a/shared/start/%08u", i, record_is_tombstone(old));
        live = live + !record_is_tombstone(record) - !record_is_tombstone(old);
        assert_ptr_equal(key_tree_set(&tree, record), old);
        free(old);
        assert_int_equal(key_tree_live(tree.root), live);
    }
    key_tree_validate(&tree);
    assert_int_equal(tree.slots, MANY);
    clear(&tree);
}

static void counts_are_of_live_keys_below(void **state) {
    struct key_tree tree;
    struct key_tree_cursor cursor;
    char text[TEXT_MAX];
    key_tree_init(&tree);
    fill(&tree, 7919);
    size_t live = 0;
    key_tree_seek(tree.root, bytes_of(NULL, 0), true, &cursor);
    for (unsigned i = 0; i < MANY; i++) {
        struct bytes key = number_key(text, i);
        struct record *record = key_tree_find(tree.root, key);
        assert_int_equal(key_tree_live_below(tree.root, key), live);
        if (!record_is_tombstone(record)) {
            assert_ptr_equal(key_tree_cursor_record(&cursor), record);
            key_tree_cursor_next(&cursor);
            live++;
        }
    }
    assert_null(key_tree_cursor_record(&cursor));
    assert_int_equal(key_tree_live(tree.root), live);
    assert_int_equal(key_tree_live_below(tree.root, bytes_from_text("/b")), live);
    assert_int_equal(key_tree_live_below(tree.root, bytes_from_text("/a")), 0);
    clear(&tree);
}

static void removing_shrinks_the_tree_to_nothing(void **state) {
    static const unsigned steps[] = {1, MANY - 1, 7919};
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        struct key_tree tree;
        key_tree_init(&tree);
        fill(&tree, 7919);
        size_t bytes_full = tree.bytes;
        for (unsigned i = 0; i < MANY; i++) {
            remove_number(&tree, (unsigned)((uint64_t)i * steps[s] % MANY));
            if (i % 512 == 0 || i > MANY - 70) {
                key_tree_validate(&tree);
            }
            if (i == MANY / 10 * 9) {
                assert_true(tree.bytes < bytes_full / 3);
            }
        }
        assert_null(tree.root);
        assert_int_equal(tree.bytes, 0);
        key_tree_clear(&tree);
    }
}

/* Counts through a root that a view kept, which the changes since must not have touched. */
static size_t count_slots(const struct key_tree_node *root) {
    struct key_tree_cursor cursor;
    size_t n = 0;
    key_tree_seek(root, bytes_of(NULL, 0), false, &cursor);
    for (; key_tree_cursor_record(&cursor) != NULL; key_tree_cursor_next(&cursor)) {
        n++;
    }
    return n;
}

static void a_shared_root_stays_as_it_was(void **state) {
    struct key_tree tree;
    char text[TEXT_MAX];
    struct record *removed[MANY / 2];
    key_tree_init(&tree);
    fill(&tree, 7919);
    const struct key_tree_node *root = tree.root;
    size_t live = key_tree_live(root);
    uint64_t epoch = key_tree_share(&tree);
    assert_int_equal(epoch, 1);
    for (unsigned i = 0; i < MANY / 2; i++) {
        struct bytes key = number_key(text, i * 2);
        removed[i] = key_tree_find(tree.root, key);
        key_tree_remove(&tree, key);
    }
    key_tree_validate(&tree);
    assert_int_equal(count_slots(tree.root), MANY / 2);
    assert_int_equal(count_slots(root), MANY);
    assert_int_equal(key_tree_live(root), live);
    size_t bytes_shared = tree.bytes;
    key_tree_unshare(&tree, 0, 0);
    key_tree_validate(&tree);
    assert_true(tree.bytes < bytes_shared);
    for (unsigned i = 0; i < MANY / 2; i++) {
        free(removed[i]);
    }
    clear(&tree);
}

static void nodes_go_when_the_last_view_that_sees_them_ends(void **state) {
    struct key_tree tree;
    char text[TEXT_MAX];
    key_tree_init(&tree);
    fill(&tree, 1);
    uint64_t first = key_tree_share(&tree);
    struct record *old = key_tree_find(tree.root, number_key(text, 5));
    struct record *new = record_of_number("/a/shared/start/%08u", 5, true);
    size_t bytes = tree.bytes;
    assert_ptr_equal(key_tree_set(&tree, new), old);
    size_t bytes_one_path = tree.bytes - bytes;
    assert_true(bytes_one_path > 0);
    /* The path was copied for the first view: changing it again copies nothing. */
    assert_ptr_equal(key_tree_set(&tree, old), new);
    assert_int_equal(tree.bytes, bytes + bytes_one_path);
    uint64_t second = key_tree_share(&tree);
    assert_ptr_equal(key_tree_set(&tree, new), old);
    assert_int_equal(tree.bytes, bytes + 2 * bytes_one_path);
    /* The first view's path goes although the second view is still open. */
    key_tree_unshare(&tree, second, second);
    assert_int_equal(tree.bytes, bytes + bytes_one_path);
    key_tree_unshare(&tree, 0, 0);
    assert_int_equal(tree.bytes, bytes);
    assert_true(first < second);
    key_tree_validate(&tree);
    free(old);
    clear(&tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_tree_has_nothing),
        cmocka_unit_test(keys_come_back_in_order_whatever_order_they_came_in),
        cmocka_unit_test(keys_that_only_grow_fill_the_nodes),
        cmocka_unit_test(keys_that_extend_each_other_are_told_apart),
        cmocka_unit_test(setting_a_key_again_replaces_its_record),
        cmocka_unit_test(counts_are_of_live_keys_below),
        cmocka_unit_test(removing_shrinks_the_tree_to_nothing),
        cmocka_unit_test(a_shared_root_stays_as_it_was),
        cmocka_unit_test(nodes_go_when_the_last_view_that_sees_them_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
