#include "base/little_endian.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* after what it needs */

static const uint8_t bytes[] = {0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88};

static void the_lowest_byte_is_first_at_any_address(void **state) {
    (void)state;
    assert_int_equal(little_endian_get_u16(bytes + 1), 0x0201);
    assert_int_equal(little_endian_get_u32(bytes + 1), 0x04030201);
    assert_true(little_endian_get_u64(bytes + 1) == UINT64_C(0x8807060504030201));
}

static void what_was_put_is_got_and_nothing_else_is_touched(void **state) {
    uint8_t at[12];
    (void)state;
    for (size_t size = 2; size <= 8; size *= 2) {
        memset(at, 0xff, sizeof at);
        if (size == 2) {
            little_endian_put_u16(at + 1, 0x0201);
        } else if (size == 4) {
            little_endian_put_u32(at + 1, 0x04030201);
        } else {
            little_endian_put_u64(at + 1, UINT64_C(0x8807060504030201));
        }
        assert_memory_equal(at, bytes, 1 + size);
        assert_int_equal(at[1 + size], 0xff);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_byte_is_first_at_any_address),
        cmocka_unit_test(what_was_put_is_got_and_nothing_else_is_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
