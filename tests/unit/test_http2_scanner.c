#include "net/http2_scanner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* Preface, SETTINGS, a PRIORITY of stream 7, DATA of 4 bytes that look like a frame, RST_STREAM of
 * stream 9, another PRIORITY. */
static const char good[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                           "\0\0\0\4\0\0\0\0\0"
                           "\0\0\5\2\0\0\0\0\7\0\0\0\1\xff"
                           "\0\0\4\0\0\0\0\0\1\2\2\2\2"
                           "\0\0\4\3\0\0\0\0\x9\0\0\0\0"
                           "\0\0\5\2\0\0\0\0\5\0\0\0\7\xff";

static enum http2_scan_result scan(struct bytes bytes, size_t piece, size_t *out_n,
                                   struct http2_streams *streams) {
    struct http2_scanner scanner;
    http2_scanner_init(&scanner);
    enum http2_scan_result result = HTTP2_SCAN_OK;
    *out_n = 0;
    while (bytes.size > 0 && result == HTTP2_SCAN_OK) {
        size_t size = piece < bytes.size ? piece : bytes.size;
        size_t n = 0;
        result = http2_scanner_scan(&scanner, streams, bytes_of(bytes.data, size), &n);
        *out_n += n;
        bytes.data += size;
        bytes.size -= size;
    }
    return result;
}

static void heads_are_found_however_they_are_cut(void **state) {
    for (size_t piece = 1; piece < sizeof good; piece++) {
        struct http2_streams streams = {0};
        size_t n = 0;
        assert_int_equal(scan(bytes_of(good, sizeof good - 1), piece, &n, &streams), HTTP2_SCAN_OK);
        assert_int_equal(n, 2);
        assert_false(http2_streams_allow_data(&streams, 9));
        assert_true(http2_streams_allow_data(&streams, 1));
    }
}

static void a_stream_that_depends_on_itself_is_found(void **state) {
    char bad[sizeof good];
    memcpy(bad, good, sizeof good);
    bad[sizeof good - 1 - 2] = 5;
    for (size_t piece = 1; piece < sizeof good; piece++) {
        struct http2_streams streams = {0};
        size_t n = 0;
        assert_int_equal(scan(bytes_of(bad, sizeof good - 1), piece, &n, &streams),
                         HTTP2_SCAN_PRIORITY_ERROR);
    }
}

static void data_on_an_ended_stream_is_found(void **state) {
    struct http2_streams streams = {0};
    size_t n = 0;
    http2_streams_note_ended(&streams, 1);
    assert_int_equal(scan(bytes_of(good, sizeof good - 1), 7, &n, &streams),
                     HTTP2_SCAN_STREAM_CLOSED);
}

static void old_streams_are_forgotten(void **state) {
    struct http2_streams streams = {0};
    for (int32_t id = 1; id < 1001; id += 2) {
        assert_true(http2_streams_open(&streams, id));
        http2_streams_note_ended(&streams, id);
    }
    assert_true(http2_streams_allow_data(&streams, 1));
    assert_false(http2_streams_allow_data(&streams, 999));
    assert_true(http2_streams_allow_data(&streams, 0));
    assert_false(http2_streams_open(&streams, 999));
    assert_int_equal(http2_streams_check_old(&streams, 999, false), HTTP2_STREAMS_CLOSED);
    assert_int_equal(http2_streams_check_old(&streams, 1, false), HTTP2_STREAMS_BACKWARDS);
    assert_int_equal(http2_streams_check_old(&streams, 1, true), HTTP2_STREAMS_OK);
    http2_streams_note_reset(&streams, 1001);
    assert_true(http2_streams_open(&streams, 1003));
    assert_int_equal(http2_streams_check_old(&streams, 1001, false), HTTP2_STREAMS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_found_however_they_are_cut),
        cmocka_unit_test(a_stream_that_depends_on_itself_is_found),
        cmocka_unit_test(data_on_an_ended_stream_is_found),
        cmocka_unit_test(old_streams_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
