#include "base/pb_append.h"
#include "base/pb_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void defaults_are_left_out(void **state) {
    struct buffer out;
    buffer_init(&out);
    pb_append_uint64(&out, 1, 0);
    pb_append_int64(&out, 2, 0);
    pb_append_bool(&out, 3, false);
    pb_append_bytes(&out, 4, bytes_of("", 0));
    assert_int_equal(out.size, 0);
    buffer_clear(&out);
}

static void fields_are_read_back(void **state) {
    struct buffer out;
    buffer_init(&out);
    pb_append_int64(&out, 1, -5);
    pb_append_uint64(&out, 2, UINT64_MAX);
    pb_append_bool(&out, 3, true);
    pb_append_bytes(&out, 4, bytes_from_text("text"));
    pb_append_element(&out, 5, bytes_of("", 0));
    struct pb_reader reader;
    pb_reader_init(&reader, bytes_of(out.data, out.size));
    assert_true(pb_reader_next(&reader) && reader.field == 1);
    assert_true(pb_reader_int64(&reader) == -5);
    assert_true(pb_reader_next(&reader) && reader.field == 2);
    assert_true(pb_reader_uint64(&reader) == UINT64_MAX);
    assert_true(pb_reader_next(&reader) && reader.field == 3);
    assert_true(pb_reader_bool(&reader));
    assert_true(pb_reader_next(&reader) && reader.field == 4);
    assert_true(bytes_equal(pb_reader_bytes(&reader), bytes_from_text("text")));
    assert_true(pb_reader_next(&reader) && reader.field == 5);
    assert_int_equal(pb_reader_bytes(&reader).size, 0);
    assert_false(pb_reader_next(&reader));
    assert_false(reader.failed);
    buffer_clear(&out);
}

/* Lengths of one, two and three bytes, inside of each other. */
static void messages_have_their_length(void **state) {
    static const size_t sizes[] = {0, 1, 120, 127, 128, 300, 16383, 16384, 70000};
    static uint8_t filler[70000];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct buffer out;
        buffer_init(&out);
        size_t outer = pb_append_begin(&out, 7);
        size_t inner = pb_append_begin(&out, 8);
        pb_append_bytes(&out, 1, bytes_of(filler, sizes[i]));
        pb_append_end(&out, inner);
        pb_append_int64(&out, 9, 1);
        pb_append_end(&out, outer);

        struct pb_reader reader;
        pb_reader_init(&reader, bytes_of(out.data, out.size));
        assert_true(pb_reader_next(&reader) && reader.field == 7);
        struct bytes message = pb_reader_bytes(&reader);
        assert_false(pb_reader_next(&reader) || reader.failed);
        pb_reader_init(&reader, message);
        assert_true(pb_reader_next(&reader) && reader.field == 8);
        struct bytes nested = pb_reader_bytes(&reader);
        assert_true(pb_reader_next(&reader) && reader.field == 9);
        assert_int_equal(pb_reader_int64(&reader), 1);
        assert_false(pb_reader_next(&reader) || reader.failed);
        pb_reader_init(&reader, nested);
        if (sizes[i] > 0) {
            assert_true(pb_reader_next(&reader) && reader.field == 1);
            assert_int_equal(pb_reader_bytes(&reader).size, sizes[i]);
        }
        assert_false(pb_reader_next(&reader) || reader.failed);
        buffer_clear(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_left_out),
        cmocka_unit_test(fields_are_read_back),
        cmocka_unit_test(messages_have_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
