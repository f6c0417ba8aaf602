#include "base/crc32.h"
#include "replication/log_entry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

enum { PREFIX_SIZE = 8, CHECKSUM_SIZE = 4 };

static const struct log_entry_header header_extreme = {.incarnation = UINT64_MAX,
                                                       .sequence = UINT64_MAX - 1,
                                                       .acknowledged = UINT64_MAX - 2,
                                                       .term = 1,
                                                       .wall_ms = INT64_MIN,
                                                       .n_commands = 7};

/* Decodes a copy of exactly this size, so that a sanitizer sees a read past its end. */
static enum status decode(const uint8_t *data, size_t size, struct log_entry_header *out_header,
                          size_t *out_left) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    if (size > 0) {
        memcpy(exact, data, size);
    }
    struct reader reader;
    enum status status = log_entry_decode(bytes_of(exact, size), out_header, &reader);
    if (status == STATUS_OK) {
        *out_left = reader_left(&reader);
        for (size_t i = 0; i < *out_left; i++) {
            (void)reader_get_u8(&reader);
        }
        assert_false(reader.failed);
    }
    free(exact);
    return status;
}

/* Where the checksum of an encoded entry stands, and the checksum put right. */
static void fix_checksum(uint8_t *entry) {
    size_t size = PREFIX_SIZE + ((size_t)entry[4] | (size_t)entry[5] << 8 | (size_t)entry[6] << 16);
    uint32_t crc = crc32c(0, entry, size);
    for (unsigned i = 0; i < CHECKSUM_SIZE; i++) {
        entry[size + i] = (uint8_t)(crc >> (8 * i));
    }
}

static void an_entry_keeps_its_header_and_commands(void **state) {
    uint8_t commands[64];
    for (size_t i = 0; i < sizeof commands; i++) {
        commands[i] = (uint8_t)(i * 37);
    }
    for (size_t n = 0; n <= sizeof commands; n++) {
        size_t size;
        uint8_t *entry = log_entry_encode(&header_extreme, bytes_of(commands, n), &size);
        assert_non_null(entry);
        struct log_entry_header header;
        struct reader reader;
        assert_int_equal(log_entry_decode(bytes_of(entry, size), &header, &reader), STATUS_OK);
        assert_true(header.incarnation == header_extreme.incarnation);
        assert_true(header.sequence == header_extreme.sequence);
        assert_true(header.acknowledged == header_extreme.acknowledged);
        assert_int_equal(header.term, 1);
        assert_int_equal(header.wall_ms, INT64_MIN);
        assert_int_equal(header.n_commands, 7);
        assert_int_equal(reader_left(&reader), n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(reader_get_u8(&reader), commands[i]);
        }
        free(entry);
    }
}

static void an_entry_without_commands_may_have_no_bytes_at_all(void **state) {
    struct log_entry_header header = {.sequence = 1};
    size_t size;
    uint8_t *entry = log_entry_encode(&header, bytes_of(NULL, 0), &size);
    size_t left = 1;
    assert_int_equal(decode(entry, size, &header, &left), STATUS_OK);
    assert_int_equal(left, 0);
    free(entry);
}

static void an_entry_is_padded_with_zeros_to_a_multiple_of_eight(void **state) {
    uint8_t commands[24];
    memset(commands, 0xee, sizeof commands);
    for (size_t n = 0; n < sizeof commands; n++) {
        struct log_entry_header header = {.n_commands = n};
        size_t size;
        uint8_t *entry = log_entry_encode(&header, bytes_of(commands, n), &size);
        assert_int_equal(size % 8, 0);
        size_t used = PREFIX_SIZE + entry[4] + CHECKSUM_SIZE;
        assert_true(size - used < 8);
        for (size_t i = used; i < size; i++) {
            assert_int_equal(entry[i], 0);
        }
        free(entry);
    }
}

static void equal_entries_have_equal_bytes(void **state) {
    size_t size_a;
    size_t size_b;
    uint8_t *a = log_entry_encode(&header_extreme, bytes_from_text("commands"), &size_a);
    uint8_t *b = log_entry_encode(&header_extreme, bytes_from_text("commands"), &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(a, b, size_a);
    free(a);
    free(b);
}

static void every_flipped_bit_is_corrupt(void **state) {
    size_t size;
    uint8_t *entry = log_entry_encode(&header_extreme, bytes_from_text("some commands"), &size);
    size_t used = PREFIX_SIZE + entry[4] + CHECKSUM_SIZE;
    for (size_t bit = 0; bit < used * 8; bit++) {
        entry[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        struct log_entry_header header = {.sequence = 42};
        size_t left;
        assert_int_equal(decode(entry, size, &header, &left), STATUS_CORRUPT);
        assert_int_equal(header.sequence, 42);
        entry[bit / 8] ^= (uint8_t)(1U << (bit % 8));
    }
    free(entry);
}

static void every_beginning_is_corrupt(void **state) {
    size_t size;
    uint8_t *entry = log_entry_encode(&header_extreme, bytes_from_text("some commands"), &size);
    size_t used = PREFIX_SIZE + entry[4] + CHECKSUM_SIZE;
    for (size_t length = 0; length < used; length++) {
        struct log_entry_header header;
        size_t left;
        assert_int_equal(decode(entry, length, &header, &left), STATUS_CORRUPT);
    }
    free(entry);
}

static void bytes_behind_the_entry_do_not_matter(void **state) {
    size_t size;
    uint8_t *entry = log_entry_encode(&header_extreme, bytes_from_text("some commands"), &size);
    uint8_t longer[256];
    memset(longer, 0xab, sizeof longer);
    memcpy(longer, entry, size);
    struct log_entry_header header;
    size_t left = 0;
    assert_int_equal(decode(longer, sizeof longer, &header, &left), STATUS_OK);
    assert_int_equal(left, strlen("some commands"));
    free(entry);
}

static void another_version_is_unsupported(void **state) {
    size_t size;
    uint8_t *entry = log_entry_encode(&header_extreme, bytes_from_text("some commands"), &size);
    entry[3]++; /* '1' becomes '2' */
    fix_checksum(entry);
    struct log_entry_header header;
    size_t left;
    assert_int_equal(decode(entry, size, &header, &left), STATUS_UNSUPPORTED);
    free(entry);
}

/* A checksum proves nothing about who wrote the bytes: a header cut short is refused too. */
static void a_body_too_short_for_its_header_is_corrupt(void **state) {
    struct log_entry_header small = {.incarnation = 1};
    size_t size;
    uint8_t *entry = log_entry_encode(&small, bytes_of(NULL, 0), &size);
    for (uint8_t body_size = entry[4]; body_size > 0;) {
        body_size--;
        entry[4] = body_size;
        fix_checksum(entry);
        struct log_entry_header header;
        size_t left;
        assert_int_equal(decode(entry, size, &header, &left), STATUS_CORRUPT);
    }
    free(entry);
}

static void a_size_that_lies_is_corrupt(void **state) {
    uint8_t entry[16] = {'L', 'S', 'E', '1', 0xff, 0xff, 0xff, 0xff};
    struct log_entry_header header;
    size_t left;
    assert_int_equal(decode(entry, sizeof entry, &header, &left), STATUS_CORRUPT);
    entry[4] = 5;
    entry[5] = entry[6] = entry[7] = 0; /* one more than there is room for beside the checksum */
    assert_int_equal(decode(entry, sizeof entry, &header, &left), STATUS_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_keeps_its_header_and_commands),
        cmocka_unit_test(an_entry_without_commands_may_have_no_bytes_at_all),
        cmocka_unit_test(an_entry_is_padded_with_zeros_to_a_multiple_of_eight),
        cmocka_unit_test(equal_entries_have_equal_bytes),
        cmocka_unit_test(every_flipped_bit_is_corrupt),
        cmocka_unit_test(every_beginning_is_corrupt),
        cmocka_unit_test(bytes_behind_the_entry_do_not_matter),
        cmocka_unit_test(another_version_is_unsupported),
        cmocka_unit_test(a_body_too_short_for_its_header_is_corrupt),
        cmocka_unit_test(a_size_that_lies_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
