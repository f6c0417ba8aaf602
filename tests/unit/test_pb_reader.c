#include "base/pb_reader.h"
#include "base/pb_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROOM = 256 };

static void what_was_written_is_read_back(void **state) {
    uint8_t room[ROOM];
    struct bytes name = bytes_of("name", 4);
    size_t size = pb_uint64_size(1, UINT64_MAX) + pb_int64_size(2, -1) + pb_bool_size(3, true) +
                  pb_bytes_size(16, name) + pb_message_size(2047, 0);
    struct pb_writer writer;
    pb_writer_init(&writer, room, size);
    pb_write_uint64(&writer, 1, UINT64_MAX);
    pb_write_int64(&writer, 2, -1);
    pb_write_bool(&writer, 3, true);
    pb_write_bytes(&writer, 16, name);
    pb_write_element(&writer, 2047, bytes_of(NULL, 0));
    assert_ptr_equal(writer.at, room + size);

    struct pb_reader reader;
    pb_reader_init(&reader, bytes_of(room, size));
    assert_true(pb_reader_next(&reader));
    assert_int_equal(reader.field, 1);
    assert_true(pb_reader_uint64(&reader) == UINT64_MAX);
    assert_true(pb_reader_next(&reader));
    assert_int_equal(pb_reader_int64(&reader), -1);
    assert_true(pb_reader_next(&reader));
    assert_true(pb_reader_bool(&reader));
    assert_true(pb_reader_next(&reader));
    assert_int_equal(reader.field, 16);
    assert_true(bytes_equal(pb_reader_bytes(&reader), name));
    assert_true(pb_reader_next(&reader));
    assert_int_equal(reader.field, 2047);
    assert_int_equal(pb_reader_bytes(&reader).size, 0);
    assert_false(pb_reader_next(&reader));
    assert_false(reader.failed);
}

static void default_values_are_left_out(void **state) {
    assert_int_equal(pb_uint64_size(1, 0), 0);
    assert_int_equal(pb_bool_size(1, false), 0);
    assert_int_equal(pb_bytes_size(1, bytes_of(NULL, 0)), 0);
}

/* Reads every field and skips it. */
static bool is_well_formed(const void *data, size_t size) {
    struct pb_reader reader;
    pb_reader_init(&reader, bytes_of(data, size));
    while (pb_reader_next(&reader)) {
        pb_reader_skip(&reader);
    }
    return !reader.failed;
}

static void every_cut_of_a_field_is_refused(void **state) {
    static const uint8_t field[] = {0x82, 0x01, 0x03, 'a', 'b', 'c'};
    assert_true(is_well_formed(field, sizeof field));
    for (size_t size = 1; size < sizeof field; size++) {
        assert_false(is_well_formed(field, size));
    }
}

static void what_no_encoder_writes_is_refused(void **state) {
    static const uint8_t field_zero[] = {0x00, 0x01};
    static const uint8_t wire_type_six[] = {0x0e, 0x01};
    static const uint8_t varint_of_eleven[] = {0x08, 0xff, 0xff, 0xff, 0xff, 0xff,
                                               0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const uint8_t length_beyond_the_end[] = {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f};
    static const uint8_t end_of_no_group[] = {0x0c};
    assert_false(is_well_formed(field_zero, sizeof field_zero));
    assert_false(is_well_formed(wire_type_six, sizeof wire_type_six));
    assert_false(is_well_formed(varint_of_eleven, sizeof varint_of_eleven));
    assert_false(is_well_formed(length_beyond_the_end, sizeof length_beyond_the_end));
    assert_false(is_well_formed(end_of_no_group, sizeof end_of_no_group));
}

static void groups_nest_only_so_deep(void **state) {
    uint8_t groups[2 * (PB_GROUP_DEPTH_MAX + 1)];
    for (size_t depth = 1; depth <= PB_GROUP_DEPTH_MAX + 1; depth++) {
        for (size_t i = 0; i < depth; i++) {
            groups[i] = 0x0b;
            groups[depth + i] = 0x0c;
        }
        assert_int_equal(is_well_formed(groups, 2 * depth), depth <= PB_GROUP_DEPTH_MAX);
    }
}

static void a_wire_type_that_does_not_fit_fails_once_and_for_all(void **state) {
    static const uint8_t message[] = {0x08, 0x01, 0x10, 0x02};
    struct pb_reader reader;
    pb_reader_init(&reader, bytes_of(message, sizeof message));
    assert_true(pb_reader_next(&reader));
    assert_int_equal(pb_reader_bytes(&reader).size, 0);
    assert_true(reader.failed);
    assert_false(pb_reader_next(&reader));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(default_values_are_left_out),
        cmocka_unit_test(every_cut_of_a_field_is_refused),
        cmocka_unit_test(what_no_encoder_writes_is_refused),
        cmocka_unit_test(groups_nest_only_so_deep),
        cmocka_unit_test(a_wire_type_that_does_not_fit_fails_once_and_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
