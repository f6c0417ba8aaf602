/* The writer and the reader of bbolt files together: what one writes the other reads. */
#include "base/little_endian.h"
#include "bolt/bolt_format.h"
#include "bolt/bolt_reader.h"
#include "bolt/bolt_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct input {
    size_t n;
    size_t key_size;   /* of the longest */
    size_t value_size; /* of the longest */
};

static size_t make_key(const struct input *input, size_t i, char *out_key) {
    int size = snprintf(out_key, 32, "key-%09zu", i);
    memset(out_key + size, 'k', input->key_size);
    return i % 7 == 0 ? (size_t)size + input->key_size : (size_t)size;
}

static size_t value_size_of(const struct input *input, size_t i) {
    return i % 5 == 0 ? input->value_size : i % 50;
}

static void write_all(struct bolt_writer *writer, const struct input *input) {
    char *key = malloc(64 + input->key_size);
    char *value = malloc(64 + input->value_size);
    bolt_writer_begin_bucket(writer, "a");
    bolt_writer_end_bucket(writer);
    bolt_writer_begin_bucket(writer, "b");
    for (size_t i = 0; i < input->n; i++) {
        memset(value, (int)('a' + i % 26), 64 + input->value_size);
        bolt_writer_put(writer, bytes_of(key, make_key(input, i, key)),
                        bytes_of(value, value_size_of(input, i)));
    }
    bolt_writer_end_bucket(writer);
    bolt_writer_begin_bucket(writer, "c");
    bolt_writer_put(writer, bytes_from_text("last"), bytes_from_text("one"));
    bolt_writer_end_bucket(writer);
    free(key);
    free(value);
}

static void write_file(const struct input *input, struct buffer *out) {
    struct bolt_writer *writer = bolt_writer_create(&bolt_plan_none, out);
    write_all(writer, input);
    struct bolt_plan plan = bolt_writer_finish(writer);
    bolt_writer_destroy(writer);
    assert_int_equal(out->size, bolt_plan_size(&plan));
    out->size = 0;
    writer = bolt_writer_create(&plan, out);
    write_all(writer, input);
    bolt_writer_finish(writer);
    bolt_writer_destroy(writer);
    assert_int_equal(out->size, bolt_plan_size(&plan));
}

static void assert_file_holds(struct bytes bytes, const struct input *input) {
    struct bolt_file file;
    struct bolt_bucket bucket;
    struct bolt_cursor cursor;
    struct bytes key;
    struct bytes value;
    bool is_bucket = true;
    char *wanted = malloc(64 + input->key_size);
    assert_int_equal(bolt_file_open(&file, bytes), STATUS_OK);
    assert_int_equal(bolt_bucket_open(&file, "a", &bucket), STATUS_OK);
    bolt_cursor_init(&cursor, &file, &bucket);
    assert_false(bolt_cursor_next(&cursor, &key, &value, &is_bucket));
    assert_int_equal(cursor.status, STATUS_OK);
    assert_int_equal(bolt_bucket_open(&file, "b", &bucket), STATUS_OK);
    bolt_cursor_init(&cursor, &file, &bucket);
    for (size_t i = 0; i < input->n; i++) {
        assert_true(bolt_cursor_next(&cursor, &key, &value, &is_bucket));
        assert_false(is_bucket);
        assert_true(bytes_equal(key, bytes_of(wanted, make_key(input, i, wanted))));
        assert_int_equal(value.size, value_size_of(input, i));
        if (value.size > 0) {
            assert_int_equal(value.data[value.size - 1], 'a' + i % 26);
        }
    }
    assert_false(bolt_cursor_next(&cursor, &key, &value, &is_bucket));
    assert_int_equal(cursor.status, STATUS_OK);
    assert_int_equal(bolt_bucket_open(&file, "c", &bucket), STATUS_OK);
    assert_int_equal(bolt_bucket_get(&file, &bucket, bytes_from_text("last"), &value), STATUS_OK);
    assert_true(bytes_equal(value, bytes_from_text("one")));
    assert_int_equal(bolt_bucket_get(&file, &bucket, bytes_from_text("lass"), &value),
                     STATUS_KEY_NOT_FOUND);
    assert_int_equal(bolt_bucket_open(&file, "d", &bucket), STATUS_KEY_NOT_FOUND);
    free(wanted);
}

static void what_is_written_is_read(void **state) {
    static const struct input inputs[] = {{0, 0, 0},        {1, 0, 0},      {1, 0, 100000},
                                          {2, 30000, 5000}, {300, 0, 10},   {3000, 0, 90},
                                          {20000, 20, 40},  {400, 3000, 0}, {200, 100, 20000}};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        struct buffer out;
        buffer_init(&out);
        write_file(&inputs[i], &out);
        assert_file_holds(bytes_of(out.data, out.size), &inputs[i]);
        buffer_clear(&out);
    }
}

static void either_first_page_is_enough(void **state) {
    static const struct input input = {100, 0, 100};
    struct buffer out;
    buffer_init(&out);
    write_file(&input, &out);
    out.data[BOLT_PAGE_HEADER_SIZE + 20] ^= 1;
    assert_file_holds(bytes_of(out.data, out.size), &input);
    out.data[BOLT_PAGE_HEADER_SIZE + 20] ^= 1;
    out.data[BOLT_PAGE_SIZE + BOLT_PAGE_HEADER_SIZE + 20] ^= 1;
    assert_file_holds(bytes_of(out.data, out.size), &input);
    out.data[BOLT_PAGE_HEADER_SIZE + 20] ^= 1;
    struct bolt_file file;
    assert_int_equal(bolt_file_open(&file, bytes_of(out.data, out.size)), STATUS_MALFORMED);
    buffer_clear(&out);
}

/* Goes through all that a file leads to; what it finds does not matter. */
static void read_everything(struct bytes bytes) {
    struct bolt_file file;
    struct bytes key;
    struct bytes value;
    bool is_bucket = false;
    if (bolt_file_open(&file, bytes) != STATUS_OK) {
        return;
    }
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        struct bolt_bucket bucket;
        if (bolt_bucket_open(&file, names[i], &bucket) != STATUS_OK) {
            continue;
        }
        struct bolt_cursor cursor;
        bolt_cursor_init(&cursor, &file, &bucket);
        size_t n = 0;
        while (bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
            assert_true(key.data >= bytes.data);
            assert_true(value.data + value.size <= bytes.data + bytes.size);
            assert_true(n++ < 100000);
        }
    }
}

static void damage_is_found_or_harmless(void **state) {
    static const struct input input = {300, 10, 100};
    struct buffer out;
    buffer_init(&out);
    write_file(&input, &out);
    /* On the heap in its own size, so that a sanitizer sees what is read beyond it. */
    uint8_t *copy = malloc(out.size);
    srand(1);
    for (size_t round = 0; round < 3000; round++) {
        memcpy(copy, out.data, out.size);
        for (size_t i = 0; i < 4; i++) {
            size_t page = 2 + (size_t)rand() % (out.size / BOLT_PAGE_SIZE - 2);
            copy[page * BOLT_PAGE_SIZE + (size_t)rand() % 64] = (uint8_t)rand();
        }
        read_everything(bytes_of(copy, out.size));
    }
    for (size_t size = 0; size < out.size; size += 509) {
        uint8_t *cut = malloc(size + 1);
        memcpy(cut, out.data, size);
        read_everything(bytes_of(cut, size));
        free(cut);
    }
    free(copy);
    buffer_clear(&out);
}

static void pages_that_point_at_themselves_end(void **state) {
    static const struct input input = {3000, 0, 100};
    struct buffer out;
    buffer_init(&out);
    write_file(&input, &out);
    for (size_t at = 2 * BOLT_PAGE_SIZE; at < out.size; at += BOLT_PAGE_SIZE) {
        uint8_t *page = out.data + at;
        size_t n = little_endian_get_u16(page + 8) == BOLT_PAGE_BRANCH
                       ? little_endian_get_u16(page + 10)
                       : 0;
        for (size_t i = 0; i < n; i++) {
            little_endian_put_u64(page + BOLT_PAGE_HEADER_SIZE + i * BOLT_ELEMENT_SIZE + 8,
                                  at / BOLT_PAGE_SIZE);
        }
    }
    struct bolt_file file;
    struct bolt_bucket bucket;
    struct bolt_cursor cursor;
    struct bytes key;
    struct bytes value;
    bool is_bucket = false;
    assert_int_equal(bolt_file_open(&file, bytes_of(out.data, out.size)), STATUS_OK);
    assert_int_equal(bolt_bucket_open(&file, "b", &bucket), STATUS_OK);
    bolt_cursor_init(&cursor, &file, &bucket);
    assert_false(bolt_cursor_next(&cursor, &key, &value, &is_bucket));
    assert_int_equal(cursor.status, STATUS_CORRUPT);
    buffer_clear(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(either_first_page_is_enough),
        cmocka_unit_test(damage_is_found_or_harmless),
        cmocka_unit_test(pages_that_point_at_themselves_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
