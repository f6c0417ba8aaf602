#include "net/http2_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void *take(nghttp2_mem *mem, size_t size) {
    void *block = mem->malloc(size, mem->mem_user_data);
    assert_non_null(block);
    memset(block, 0xaa, size);
    return block;
}

static void give_back(nghttp2_mem *mem, void *block) {
    mem->free(block, mem->mem_user_data);
}

static void a_block_is_used_again(void **state) {
    struct http2_memory *memory = http2_memory_create();
    nghttp2_mem *mem = http2_memory_functions(memory);
    void *first = take(mem, 100);
    give_back(mem, first);
    assert_ptr_equal(take(mem, 128), first);
    void *second = take(mem, 100);
    assert_ptr_not_equal(second, first);
    give_back(mem, first);
    give_back(mem, second);
    give_back(mem, NULL);
    http2_memory_destroy(memory);
}

static void blocks_of_every_size_hold_what_was_asked_for(void **state) {
    struct http2_memory *memory = http2_memory_create();
    nghttp2_mem *mem = http2_memory_functions(memory);
    for (size_t round = 0; round < 2; round++) {
        for (size_t size = 0; size < 1500; size++) {
            void *block = take(mem, size);
            assert_int_equal((uintptr_t)block % _Alignof(max_align_t), 0);
            give_back(mem, block);
        }
    }
    http2_memory_destroy(memory);
}

static void a_used_block_is_zeroed_when_that_is_asked_for(void **state) {
    struct http2_memory *memory = http2_memory_create();
    nghttp2_mem *mem = http2_memory_functions(memory);
    uint8_t zeros[120] = {0};
    give_back(mem, take(mem, sizeof zeros));
    void *block = mem->calloc(10, 12, mem->mem_user_data);
    assert_memory_equal(block, zeros, sizeof zeros);
    give_back(mem, block);
    http2_memory_destroy(memory);
}

static void what_cannot_be_had_is_refused(void **state) {
    struct http2_memory *memory = http2_memory_create();
    nghttp2_mem *mem = http2_memory_functions(memory);
    assert_null(mem->malloc(SIZE_MAX, mem->mem_user_data));
    assert_null(mem->malloc(SIZE_MAX - 64, mem->mem_user_data));
    assert_null(mem->calloc(SIZE_MAX / 2, 3, mem->mem_user_data));
    http2_memory_destroy(memory);
}

static void contents_move_with_a_block_that_grows_or_shrinks(void **state) {
    struct http2_memory *memory = http2_memory_create();
    nghttp2_mem *mem = http2_memory_functions(memory);
    static const size_t sizes[] = {40, 64, 65, 300, 3000, 30000, 200, 10, 1};
    uint8_t *block = mem->realloc(NULL, 30, mem->mem_user_data);
    assert_non_null(block);
    block[0] = 42;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        block = mem->realloc(block, sizes[i], mem->mem_user_data);
        assert_non_null(block);
        assert_int_equal(block[0], 42);
        memset(block + 1, 0xbb, sizes[i] - 1);
    }
    assert_null(mem->realloc(block, SIZE_MAX, mem->mem_user_data));
    assert_int_equal(block[0], 42);
    give_back(mem, block);
    http2_memory_destroy(memory);
}

static void not_more_than_so_much_is_kept(void **state) {
    enum { BLOCKS = 5000 };
    struct http2_memory *memory = http2_memory_create();
    nghttp2_mem *mem = http2_memory_functions(memory);
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = take(mem, 512);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        give_back(mem, blocks[i]);
    }
    assert_true(http2_memory_kept_bytes(memory) > 0);
    assert_true(http2_memory_kept_bytes(memory) <= 1024 * 1024);
    http2_memory_destroy(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_used_again),
        cmocka_unit_test(blocks_of_every_size_hold_what_was_asked_for),
        cmocka_unit_test(a_used_block_is_zeroed_when_that_is_asked_for),
        cmocka_unit_test(what_cannot_be_had_is_refused),
        cmocka_unit_test(contents_move_with_a_block_that_grows_or_shrinks),
        cmocka_unit_test(not_more_than_so_much_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
