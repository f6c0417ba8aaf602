#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct bytes view(const struct buffer *buffer) {
    return bytes_of(buffer->data, buffer->size);
}

static void what_was_written_is_read_back(void **state) {
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_put_u8(&buffer, 0xab);
    buffer_put_u32(&buffer, 0x12345678);
    buffer_put_u64(&buffer, UINT64_C(0x0123456789abcdef));
    buffer_put_varint(&buffer, 300);
    buffer_put_zigzag(&buffer, -2);
    buffer_put_bytes(&buffer, bytes_from_text("lease"));
    buffer_put_bytes(&buffer, bytes_of(NULL, 0));
    struct reader reader;
    reader_init(&reader, view(&buffer));
    assert_int_equal(reader_get_u8(&reader), 0xab);
    assert_int_equal(reader_get_u32(&reader), 0x12345678);
    assert_true(reader_get_u64(&reader) == UINT64_C(0x0123456789abcdef));
    assert_int_equal(reader_get_varint(&reader), 300);
    assert_int_equal(reader_get_zigzag(&reader), -2);
    assert_true(bytes_equal(reader_get_bytes(&reader), bytes_from_text("lease")));
    assert_int_equal(reader_get_bytes(&reader).size, 0);
    assert_int_equal(reader_left(&reader), 0);
    assert_false(reader.failed);
    buffer_clear(&buffer);
    assert_null(buffer.data);
}

static void numbers_are_little_endian(void **state) {
    static const uint8_t expected[] = {4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 0xac, 0x02, 0x03};
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_put_u32(&buffer, 0x01020304);
    buffer_put_u64(&buffer, UINT64_C(0x0102030405060708));
    buffer_put_varint(&buffer, 300);
    buffer_put_zigzag(&buffer, -2);
    assert_int_equal(buffer.size, sizeof expected);
    assert_memory_equal(buffer.data, expected, sizeof expected);
    buffer_clear(&buffer);
}

static void every_magnitude_survives(void **state) {
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t value = (UINT64_C(1) << bit) + (uint64_t)(int64_t)delta;
            int64_t number;
            memcpy(&number, &value, sizeof number);
            struct buffer buffer;
            buffer_init(&buffer);
            buffer_put_varint(&buffer, value);
            buffer_put_zigzag(&buffer, number);
            assert_true(buffer.size <= 20);
            struct reader reader;
            reader_init(&reader, view(&buffer));
            assert_true(reader_get_varint(&reader) == value);
            assert_true(reader_get_zigzag(&reader) == number);
            assert_false(reader.failed);
            assert_int_equal(reader_left(&reader), 0);
            buffer_clear(&buffer);
        }
    }
}

/* Group by group, as they are defined; written one behind the other and read in the same order. */
static void numbers_are_written_in_groups_of_seven_bits(void **state) {
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    struct reader reader;
    size_t n = 0;
    uint8_t expected[64 * 3 * 10];
    for (unsigned bits = 0; bits < 64; bits++) {
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t value = (UINT64_C(1) << bits) + (uint64_t)delta;
            buffer_put_varint(&buffer, value);
            for (; value >= 0x80; value >>= 7) {
                expected[n++] = (uint8_t)(value | 0x80);
            }
            expected[n++] = (uint8_t)value;
        }
    }
    assert_int_equal(buffer.size, n);
    assert_memory_equal(buffer.data, expected, n);
    reader_init(&reader, bytes_of(buffer.data, buffer.size));
    for (unsigned bits = 0; bits < 64; bits++) {
        for (int delta = -1; delta <= 1; delta++) {
            assert_true(reader_get_varint(&reader) == (UINT64_C(1) << bits) + (uint64_t)delta);
        }
    }
    assert_false(reader.failed);
    assert_int_equal(reader_left(&reader), 0);
    buffer_clear(&buffer);
}

static void a_buffer_grows_without_losing_anything(void **state) {
    struct buffer buffer;
    buffer_init(&buffer);
    for (uint32_t i = 0; i < 100000; i++) {
        buffer_put_u32(&buffer, i);
    }
    buffer_append(&buffer, NULL, 0);
    struct reader reader;
    reader_init(&reader, view(&buffer));
    for (uint32_t i = 0; i < 100000; i++) {
        assert_int_equal(reader_get_u32(&reader), i);
    }
    assert_int_equal(reader_left(&reader), 0);
    buffer_clear(&buffer);
}

static void reserved_room_is_the_callers_until_size_is_raised(void **state) {
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append(&buffer, "ab", 2);
    uint8_t *room = buffer_reserve(&buffer, 1000);
    assert_ptr_equal(room, buffer.data + 2);
    assert_true(buffer.capacity >= 1002);
    memset(room, 'c', 1000);
    assert_int_equal(buffer.size, 2);
    buffer.size += 1000;
    assert_int_equal(buffer.data[1001], 'c');
    buffer_clear(&buffer);
}

/* --- Hostile input. Each input lies at the very end of its own allocation, so that a sanitizer
 * sees one byte too many. --- */

static void read_everything(struct reader *reader) {
    (void)reader_get_varint(reader);
    (void)reader_get_bytes(reader);
    (void)reader_get_u64(reader);
    (void)reader_get_zigzag(reader);
    (void)reader_get_u32(reader);
    (void)reader_get_u8(reader);
}

static void check_spent(struct reader *reader) {
    assert_true(reader->failed);
    size_t position = reader->position;
    assert_true(position <= reader->size);
    assert_int_equal(reader_get_u8(reader), 0);
    assert_int_equal(reader_get_u32(reader), 0);
    assert_true(reader_get_u64(reader) == 0);
    assert_true(reader_get_varint(reader) == 0);
    assert_true(reader_get_zigzag(reader) == 0);
    assert_int_equal(reader_get_bytes(reader).size, 0);
    assert_int_equal(reader->position, position);
}

static void reading_past_the_end_fails_and_gives_zero_from_then_on(void **state) {
    static const uint8_t three[] = {1, 2, 3};
    struct reader reader;
    reader_init(&reader, bytes_of(three, 3));
    assert_int_equal(reader_get_u32(&reader), 0);
    check_spent(&reader); /* although three bytes are left */
    reader_init(&reader, bytes_of(three, 3));
    assert_true(reader_get_u64(&reader) == 0);
    check_spent(&reader);
    reader_init(&reader, bytes_of(NULL, 0));
    assert_int_equal(reader_get_u8(&reader), 0);
    check_spent(&reader);
}

static void a_malformed_varint_fails(void **state) {
    static const struct {
        uint8_t bytes[12];
        size_t size;
        bool is_good;
    } cases[] = {
        {{0x80}, 1, false},
        {{0xff, 0xff, 0xff}, 3, false},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 10, true},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, 10, false},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 10, false},
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 11, false},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 11, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reader reader;
        reader_init(&reader, bytes_of(cases[i].bytes, cases[i].size));
        uint64_t value = reader_get_varint(&reader);
        assert_int_equal(reader.failed, !cases[i].is_good);
        assert_true(value == (cases[i].is_good ? UINT64_MAX : 0));
    }
}

static void a_length_beyond_the_end_fails(void **state) {
    static const uint64_t lengths[] = {4,         5, 1 << 20, UINT64_C(1) << 32, UINT64_MAX - 1,
                                       UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct buffer buffer;
        buffer_init(&buffer);
        buffer_put_varint(&buffer, lengths[i]);
        buffer_append(&buffer, "abc", 3);
        struct reader reader;
        reader_init(&reader, view(&buffer));
        struct bytes bytes = reader_get_bytes(&reader);
        assert_int_equal(bytes.size, 0);
        assert_null(bytes.data);
        check_spent(&reader);
        buffer_clear(&buffer);
    }
}

static void every_truncation_of_a_good_message_fails_cleanly(void **state) {
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_put_varint(&buffer, UINT64_MAX);
    buffer_put_bytes(&buffer, bytes_from_text("some bytes"));
    buffer_put_u64(&buffer, 1);
    buffer_put_zigzag(&buffer, INT64_MIN);
    buffer_put_u32(&buffer, 2);
    buffer_put_u8(&buffer, 3);
    for (size_t size = 0; size <= buffer.size; size++) {
        uint8_t *copy = malloc(size + 1);
        assert_non_null(copy);
        memcpy(copy + 1, buffer.data, size);
        struct reader reader;
        reader_init(&reader, bytes_of(copy + 1, size));
        read_everything(&reader);
        assert_int_equal(reader.failed, size < buffer.size);
        free(copy);
    }
    buffer_clear(&buffer);
}

static void random_bytes_never_lead_outside(void **state) {
    uint64_t x = 88172645463325252u;
    for (unsigned round = 0; round < 20000; round++) {
        size_t size = round % 40;
        uint8_t *bytes = malloc(size + 1);
        assert_non_null(bytes);
        for (size_t i = 0; i <= size; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            bytes[i] = (uint8_t)(x >> 24);
        }
        struct reader reader;
        reader_init(&reader, bytes_of(bytes + 1, size));
        for (unsigned i = 0; i < 10; i++) {
            struct bytes piece = reader_get_bytes(&reader);
            if (piece.size > 0) {
                assert_true(piece.data > bytes);
                assert_true(piece.data + piece.size <= bytes + 1 + size);
            }
            read_everything(&reader);
            assert_true(reader.position <= reader.size);
        }
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(every_magnitude_survives),
        cmocka_unit_test(numbers_are_written_in_groups_of_seven_bits),
        cmocka_unit_test(a_buffer_grows_without_losing_anything),
        cmocka_unit_test(reserved_room_is_the_callers_until_size_is_raised),
        cmocka_unit_test(reading_past_the_end_fails_and_gives_zero_from_then_on),
        cmocka_unit_test(a_malformed_varint_fails),
        cmocka_unit_test(a_length_beyond_the_end_fails),
        cmocka_unit_test(every_truncation_of_a_good_message_fails_cleanly),
        cmocka_unit_test(random_bytes_never_lead_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
