#include "base/crc32_msb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Bit by bit, from the definition. */
static uint32_t slow(uint32_t crc, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint32_t)data[i] << 24;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc << 1) ^ ((crc >> 31) != 0 ? UINT32_C(0x04c11db7) : 0);
        }
    }
    return crc;
}

static void fill(uint8_t *data, size_t size) {
    uint32_t x = 54321;
    for (size_t i = 0; i < size; i++) {
        x = x * 1103515245 + 12345;
        data[i] = (uint8_t)(x >> 16);
    }
}

static void known_answers_are_given(void **state) {
    /* The catalogue's CRC-32/MPEG-2 begins with ones; from zeros: CRC-32/CKSUM before its end. */
    assert_int_equal(crc32_msb(UINT32_MAX, "123456789", 9), 0x0376e6e7);
    assert_int_equal(crc32_msb(0, "123456789", 9), 0x89a1897f);
    assert_int_equal(crc32_msb(0, "", 0), 0);
    assert_int_equal(crc32_msb(7, NULL, 0), 7);
}

static void every_length_and_alignment_agrees_with_the_definition(void **state) {
    uint8_t data[150];
    fill(data, sizeof data);
    for (size_t start = 0; start < 16; start++) {
        for (size_t size = 0; size <= sizeof data - start; size++) {
            uint32_t from = (uint32_t)(size * 2654435761U);
            uint32_t expected = slow(from, data + start, size);
            assert_int_equal(crc32_msb(from, data + start, size), expected);
            assert_int_equal(crc32_msb_portable(from, data + start, size), expected);
        }
    }
}

static void a_large_piece_agrees_too(void **state) {
    static uint8_t data[70000];
    fill(data, sizeof data);
    assert_int_equal(crc32_msb(1, data, sizeof data), slow(1, data, sizeof data));
}

static void it_can_be_continued_at_any_place(void **state) {
    uint8_t data[200];
    fill(data, sizeof data);
    uint32_t whole = crc32_msb(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        assert_int_equal(crc32_msb(crc32_msb(0, data, cut), data + cut, sizeof data - cut), whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_are_given),
        cmocka_unit_test(every_length_and_alignment_agrees_with_the_definition),
        cmocka_unit_test(a_large_piece_agrees_too),
        cmocka_unit_test(it_can_be_continued_at_any_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
