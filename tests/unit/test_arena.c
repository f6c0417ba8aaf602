#include "base/arena.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void an_unused_arena_can_be_cleared_and_reset(void **state) {
    struct arena arena;
    arena_init(&arena);
    arena_reset(&arena);
    arena_clear(&arena);
    arena_clear(&arena);
    assert_null(arena.blocks);
}

static void allocations_are_aligned_and_do_not_overlap(void **state) {
    enum { N = 2000 };
    static unsigned char *pieces[N];
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < N; i++) {
        size_t size = i % 97;
        pieces[i] = arena_alloc(&arena, size);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        memset(pieces[i], (int)(i % 251), size);
    }
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < i % 97; j++) {
            assert_int_equal(pieces[i][j], i % 251);
        }
    }
    arena_clear(&arena);
}

static void an_allocation_may_be_larger_than_a_block(void **state) {
    struct arena arena;
    arena_init(&arena);
    unsigned char *small = arena_alloc(&arena, 10);
    unsigned char *large = arena_alloc(&arena, 1000000);
    unsigned char *after = arena_alloc(&arena, 10);
    memset(small, 1, 10);
    memset(after, 3, 10);
    memset(large, 2, 1000000);
    assert_int_equal(small[9], 1);
    assert_int_equal(after[0], 3);
    arena_clear(&arena);
}

static void calloc_gives_zeroes_also_from_used_memory(void **state) {
    struct arena arena;
    arena_init(&arena);
    memset(arena_alloc(&arena, 4000), 0xff, 4000);
    arena_reset(&arena);
    unsigned char *memory = arena_calloc(&arena, 100, 40);
    for (size_t i = 0; i < 4000; i++) {
        assert_int_equal(memory[i], 0);
    }
    assert_non_null(arena_calloc(&arena, 0, 8));
    assert_non_null(arena_calloc(&arena, 8, 0));
    arena_clear(&arena);
}

static void copies_are_independent(void **state) {
    struct arena arena;
    arena_init(&arena);
    char text[] = "lease";
    char *copy = arena_copy(&arena, text, sizeof text);
    text[0] = 'X';
    assert_string_equal(copy, "lease");
    assert_non_null(arena_copy(&arena, NULL, 0));
    arena_clear(&arena);
}

static void reset_keeps_one_block_and_gives_large_ones_back(void **state) {
    struct arena arena;
    arena_init(&arena);
    void *first = arena_alloc(&arena, 100);
    for (unsigned i = 0; i < 1000; i++) {
        arena_alloc(&arena, 1000);
    }
    arena_alloc(&arena, 1 << 20);
    arena_reset(&arena);
    assert_non_null(arena.blocks);
    assert_ptr_equal(arena_alloc(&arena, 100), first); /* nothing new was needed */
    arena_reset(&arena);
    arena_clear(&arena);

    arena_init(&arena);
    arena_alloc(&arena, 1 << 20);
    arena_reset(&arena);
    assert_null(arena.blocks);
    assert_non_null(arena_alloc(&arena, 1));
    arena_clear(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unused_arena_can_be_cleared_and_reset),
        cmocka_unit_test(allocations_are_aligned_and_do_not_overlap),
        cmocka_unit_test(an_allocation_may_be_larger_than_a_block),
        cmocka_unit_test(calloc_gives_zeroes_also_from_used_memory),
        cmocka_unit_test(copies_are_independent),
        cmocka_unit_test(reset_keeps_one_block_and_gives_large_ones_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
