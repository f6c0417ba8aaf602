#include "base/crc32.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Bit by bit, from the definition. */
static uint32_t slow_crc32c(const uint8_t *data, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) ? UINT32_C(0x82f63b78) : 0);
        }
    }
    return ~crc;
}

static void fill(uint8_t *data, size_t size) {
    uint32_t x = 12345;
    for (size_t i = 0; i < size; i++) {
        x = x * 1103515245 + 12345;
        data[i] = (uint8_t)(x >> 16);
    }
}

static void known_answers_are_given(void **state) {
    uint8_t bytes[32];
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
    assert_int_equal(crc32c(0, NULL, 0), 0);
    /* RFC 3720, appendix B.4. */
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x46dd794e);
}

static void every_length_and_alignment_agrees_with_the_definition(void **state) {
    uint8_t data[80];
    fill(data, sizeof data);
    for (size_t start = 0; start < 8; start++) {
        for (size_t size = 0; size <= sizeof data - start; size++) {
            uint32_t expected = slow_crc32c(data + start, size);
            assert_int_equal(crc32c(0, data + start, size), expected);
            assert_int_equal(crc32c_portable(0, data + start, size), expected);
        }
    }
}

static void it_can_be_continued_at_any_place(void **state) {
    uint8_t data[100];
    fill(data, sizeof data);
    uint32_t whole = crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        assert_int_equal(crc32c(crc32c(0, data, cut), data + cut, sizeof data - cut), whole);
    }
}

static void every_single_flipped_bit_is_seen(void **state) {
    uint8_t data[64];
    fill(data, sizeof data);
    uint32_t whole = crc32c(0, data, sizeof data);
    for (size_t bit = 0; bit < sizeof data * 8; bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(crc32c(0, data, sizeof data), whole);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_are_given),
        cmocka_unit_test(every_length_and_alignment_agrees_with_the_definition),
        cmocka_unit_test(it_can_be_continued_at_any_place),
        cmocka_unit_test(every_single_flipped_bit_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
