#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static size_t size_of(const char *text) {
    return utf8_character_size(bytes_from_text(text));
}

/* What the encoding of a code point is, by its definition. */
static struct bytes encode(uint32_t point, uint8_t out[4]) {
    size_t size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (uint8_t)(marks[size] | point);
    return bytes_of(out, size);
}

static void every_code_point_has_its_size(void **state) {
    uint8_t text[4];
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        struct bytes encoded = encode(point, text);
        bool is_surrogate = point >= 0xd800 && point < 0xe000;
        assert_int_equal(utf8_character_size(encoded), is_surrogate ? 0 : encoded.size);
    }
}

static void what_is_cut_off_is_no_character(void **state) {
    uint8_t text[4];
    static const uint32_t points[] = {0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct bytes encoded = encode(points[i], text);
        for (size_t size = 1; size < encoded.size; size++) {
            assert_int_equal(utf8_character_size(bytes_of(encoded.data, size)), 0);
        }
    }
}

/* Two bytes whatever they are: only well-formed ones are taken, so no first byte lacks its check.
 */
static void every_pair_of_bytes_is_told(void **state) {
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            uint8_t text[] = {(uint8_t)first, (uint8_t)second};
            bool is_pair = first >= 0xc2 && first < 0xe0 && (second & 0xc0) == 0x80;
            size_t expected = first < 0x80 ? 1 : is_pair ? 2 : 0;
            assert_int_equal(utf8_character_size(bytes_of(text, sizeof text)), expected);
        }
    }
}

static void overlong_and_too_great_forms_are_refused(void **state) {
    assert_int_equal(size_of("\xc0\x80"), 0);
    assert_int_equal(size_of("\xc1\xbf"), 0);
    assert_int_equal(size_of("\xe0\x9f\xbf"), 0);
    assert_int_equal(size_of("\xf0\x8f\xbf\xbf"), 0);
    assert_int_equal(size_of("\xf4\x90\x80\x80"), 0);
    assert_int_equal(size_of("\xf5\x80\x80\x80"), 0);
}

static void a_character_ends_where_the_next_one_begins(void **state) {
    assert_int_equal(size_of("\xe2\x82z"), 0);
    assert_int_equal(size_of("\xf0\x9f\x98z"), 0);
    assert_int_equal(size_of("\xc3\xa4z"), 2);
    assert_int_equal(size_of("z\xff"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_has_its_size),
        cmocka_unit_test(what_is_cut_off_is_no_character),
        cmocka_unit_test(every_pair_of_bytes_is_told),
        cmocka_unit_test(overlong_and_too_great_forms_are_refused),
        cmocka_unit_test(a_character_ends_where_the_next_one_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
