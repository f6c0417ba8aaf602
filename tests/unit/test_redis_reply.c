#include "doors/redis/redis_reply.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_bytes(const struct buffer *buffer, const char *expected) {
    assert_int_equal(buffer->size, strlen(expected));
    assert_memory_equal(buffer->data, expected, buffer->size);
}

/* What RESP2 and RESP3 clients see of some bytes. */
static void assert_converted(const char *bytes, const char *resp2, const char *resp3) {
    struct buffer out;
    buffer_init(&out);
    assert_int_equal(redis_reply_to_resp2(bytes_from_text(bytes), &out), STATUS_OK);
    assert_bytes(&out, resp2);
    out.size = 0;
    assert_int_equal(redis_reply_to_resp3(bytes_from_text(bytes), &out), STATUS_OK);
    assert_bytes(&out, resp3);
    buffer_clear(&out);
}

static void assert_refused(const char *bytes) {
    struct buffer out;
    buffer_init(&out);
    buffer_append(&out, "x", 1);
    assert_int_equal(redis_reply_to_resp2(bytes_from_text(bytes), &out), STATUS_MALFORMED);
    assert_bytes(&out, "x");
    assert_int_equal(redis_reply_to_resp3(bytes_from_text(bytes), &out), STATUS_MALFORMED);
    assert_bytes(&out, "x");
    buffer_clear(&out);
}

static void scalars_are_written(void **state) {
    struct buffer out;
    buffer_init(&out);
    redis_reply_null(&out);
    redis_reply_null_array(&out);
    redis_reply_integer(&out, 0);
    redis_reply_integer(&out, INT64_MIN);
    redis_reply_integer(&out, INT64_MAX);
    redis_reply_bool(&out, true);
    redis_reply_bool(&out, false);
    redis_reply_ok(&out);
    redis_reply_simple(&out, bytes_from_text("a\r\nb"));
    redis_reply_error_text(&out, "ERR no\nsuch");
    redis_reply_error(&out, bytes_from_text("ERR x"));
    redis_reply_bulk(&out, bytes_from_text("a\r\nb"));
    redis_reply_bulk(&out, bytes_of(NULL, 0));
    redis_reply_bulk_integer(&out, -12);
    redis_reply_verbatim(&out, "txt", bytes_from_text("some"));
    redis_reply_big_number(&out, bytes_from_text("123456789012345678901234567890"));
    assert_bytes(&out,
                 "_\r\n*-1\r\n:0\r\n:-9223372036854775808\r\n:9223372036854775807\r\n#t\r\n#f\r\n"
                 "+OK\r\n+a  b\r\n-ERR no such\r\n-ERR x\r\n$4\r\na\r\nb\r\n$0\r\n\r\n$3\r\n-12\r\n"
                 "=8\r\ntxt:some\r\n(123456789012345678901234567890\r\n");
    buffer_clear(&out);
}

static void doubles_are_written_as_redis_writes_them(void **state) {
    struct buffer out;
    buffer_init(&out);
    redis_reply_double(&out, 3.1);
    redis_reply_double(&out, 2);
    redis_reply_double(&out, INFINITY);
    redis_reply_double(&out, -INFINITY);
    redis_reply_double(&out, -NAN);
    redis_reply_double(&out, -2.2250738585072014e-308);
    assert_bytes(
        &out,
        ",3.1000000000000001\r\n,2\r\n,inf\r\n,-inf\r\n,nan\r\n,-2.2250738585072014e-308\r\n");
    buffer_clear(&out);
}

static void aggregates_are_written_and_read(void **state) {
    struct buffer out;
    struct redis_reply_reader reader;
    struct redis_reply_value value;
    buffer_init(&out);
    redis_reply_array(&out, 2);
    redis_reply_map(&out, 1);
    redis_reply_bulk(&out, bytes_from_text("k"));
    redis_reply_set(&out, 0);
    redis_reply_verbatim(&out, "txt", bytes_from_text("v"));
    redis_reply_double(&out, 0.5);
    redis_reply_reader_init(&reader, bytes_of(out.data, out.size));
    assert_true(redis_reply_next(&reader, &value));
    assert_int_equal(value.type, REDIS_REPLY_ARRAY);
    assert_int_equal(value.n, 2);
    assert_int_equal(value.depth, 0);
    assert_true(redis_reply_next(&reader, &value));
    assert_int_equal(value.type, REDIS_REPLY_MAP);
    assert_int_equal(value.n, 2);
    assert_int_equal(value.depth, 1);
    assert_true(redis_reply_next(&reader, &value));
    assert_true(bytes_equal(value.text, bytes_from_text("k")));
    assert_int_equal(value.depth, 2);
    assert_false(redis_reply_is_complete(&reader));
    assert_true(redis_reply_next(&reader, &value));
    assert_int_equal(value.type, REDIS_REPLY_SET);
    assert_true(redis_reply_next(&reader, &value));
    assert_int_equal(value.type, REDIS_REPLY_VERBATIM);
    assert_string_equal(value.format, "txt");
    assert_true(bytes_equal(value.text, bytes_from_text("v")));
    assert_int_equal(value.depth, 1);
    assert_true(redis_reply_is_complete(&reader));
    assert_true(redis_reply_next(&reader, &value));
    assert_true(value.number == 0.5);
    assert_int_equal(value.depth, 0);
    assert_false(redis_reply_next(&reader, &value));
    assert_false(reader.failed);
    buffer_clear(&out);
}

static void an_aggregate_is_skipped(void **state) {
    struct redis_reply_reader reader;
    struct redis_reply_value value;
    redis_reply_reader_init(&reader, bytes_from_text("*2\r\n*1\r\n*2\r\n:1\r\n:2\r\n:3\r\n:4\r\n"));
    assert_true(redis_reply_next(&reader, &value));
    assert_true(redis_reply_next(&reader, &value));
    assert_true(redis_reply_skip(&reader, &value));
    assert_true(redis_reply_next(&reader, &value));
    assert_int_equal(value.integer, 3);
    assert_true(redis_reply_is_complete(&reader));
    assert_true(redis_reply_next(&reader, &value));
    assert_int_equal(value.integer, 4);
}

static void resp2_and_resp3_clients_see_their_own_form(void **state) {
    assert_converted("_\r\n", "$-1\r\n", "_\r\n");
    assert_converted("$-1\r\n", "$-1\r\n", "_\r\n");
    assert_converted("*-1\r\n", "*-1\r\n", "_\r\n");
    assert_converted(":-5\r\n", ":-5\r\n", ":-5\r\n");
    assert_converted(",3.5\r\n", "$3\r\n3.5\r\n", ",3.5\r\n");
    assert_converted("#t\r\n#f\r\n", ":1\r\n:0\r\n", "#t\r\n#f\r\n");
    assert_converted("=5\r\ntxt:a\r\n", "$1\r\na\r\n", "=5\r\ntxt:a\r\n");
    assert_converted("(12\r\n", "$2\r\n12\r\n", "(12\r\n");
    assert_converted("%1\r\n+a\r\n~1\r\n:1\r\n", "*2\r\n+a\r\n*1\r\n:1\r\n",
                     "%1\r\n+a\r\n~1\r\n:1\r\n");
    assert_converted(">1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n", ">1\r\n$1\r\na\r\n");
    assert_converted("-ERR a\r\n", "-ERR a\r\n", "-ERR a\r\n");
    assert_converted("", "", "");
}

static void pairs_are_flat_for_resp2_and_nested_for_resp3(void **state) {
    assert_converted("^2\r\n+a\r\n,1\r\n+b\r\n,2\r\n", "*4\r\n+a\r\n$1\r\n1\r\n+b\r\n$1\r\n2\r\n",
                     "*2\r\n*2\r\n+a\r\n,1\r\n*2\r\n+b\r\n,2\r\n");
    assert_converted("*2\r\n^1\r\n*1\r\n:1\r\n*0\r\n:2\r\n", "*2\r\n*2\r\n*1\r\n:1\r\n*0\r\n:2\r\n",
                     "*2\r\n*1\r\n*2\r\n*1\r\n:1\r\n*0\r\n:2\r\n");
    assert_converted("^0\r\n", "*0\r\n", "*0\r\n");
}

static void attributes_are_dropped_for_resp2(void **state) {
    assert_converted("|1\r\n+token\r\n:7\r\n+OK\r\n", "+OK\r\n", "|1\r\n+token\r\n:7\r\n+OK\r\n");
    assert_converted("*2\r\n|1\r\n+k\r\n*2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "*2\r\n:3\r\n:4\r\n",
                     "*2\r\n|1\r\n+k\r\n*2\r\n:1\r\n:2\r\n:3\r\n:4\r\n");
    assert_converted("|0\r\n:1\r\n", ":1\r\n", "|0\r\n:1\r\n");
}

static void malformed_bytes_are_refused_whole(void **state) {
    static const char *const wrong[] = {
        "x",
        ":",
        ":1",
        ":1\r",
        ":1\rx",
        ":\r\n",
        ":1x\r\n",
        ":9223372036854775808\r\n",
        ":-9223372036854775809\r\n",
        "$5\r\nabc\r\n",
        "$3\r\nabcd\r\n",
        "$-2\r\n",
        "$99999999999999999999\r\n",
        "*2\r\n:1\r\n",
        "*-2\r\n",
        "%-1\r\n",
        "*1000000\r\n:1\r\n",
        "%4611686018427387904\r\n+a\r\n+a\r\n",
        "%1\r\n:1\r\n",
        "=3\r\ntxt\r\n",
        "=4\r\ntxtx\r\n",
        "#x\r\n",
        "_x\r\n",
        ",x\r\n",
        ",\r\n",
        "|1\r\n+a\r\n:1\r\n",
        "|0\r\n",
        "*1\r\n|0\r\n",
        "+OK\r\n*1\r\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_refused(wrong[i]);
    }
}

static void depth_is_bounded(void **state) {
    struct buffer in;
    struct buffer out;
    buffer_init(&in);
    buffer_init(&out);
    for (unsigned i = 0; i < REDIS_REPLY_DEPTH_MAX; i++) {
        redis_reply_array(&in, 1);
    }
    redis_reply_integer(&in, 1);
    assert_int_equal(redis_reply_to_resp2(bytes_of(in.data, in.size), &out), STATUS_OK);
    in.size = 0;
    for (unsigned i = 0; i <= REDIS_REPLY_DEPTH_MAX; i++) {
        redis_reply_array(&in, 1);
    }
    redis_reply_integer(&in, 1);
    assert_int_equal(redis_reply_to_resp2(bytes_of(in.data, in.size), &out), STATUS_MALFORMED);
    buffer_clear(&in);
    buffer_clear(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_written),
        cmocka_unit_test(doubles_are_written_as_redis_writes_them),
        cmocka_unit_test(aggregates_are_written_and_read),
        cmocka_unit_test(an_aggregate_is_skipped),
        cmocka_unit_test(resp2_and_resp3_clients_see_their_own_form),
        cmocka_unit_test(pairs_are_flat_for_resp2_and_nested_for_resp3),
        cmocka_unit_test(attributes_are_dropped_for_resp2),
        cmocka_unit_test(malformed_bytes_are_refused_whole),
        cmocka_unit_test(depth_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
