#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "checks/check_answer.h"

#include <string.h>

/* The whole answer in pieces of a size. */
static enum check_answer_state feed_in(struct check_answer *answer, const char *text,
                                       size_t piece) {
    size_t size = strlen(text);
    for (size_t at = 0; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        (void)check_answer_feed(answer, bytes_of(text + at, n));
    }
    return answer->state;
}

static void expect(const char *text, int status, const char *body, bool keeps_alive) {
    for (size_t piece = 1; piece < 9; piece++) {
        struct check_answer answer;
        check_answer_init(&answer, false);
        (void)feed_in(&answer, text, piece);
        assert_int_equal(check_answer_end(&answer), CHECK_ANSWER_DONE);
        assert_int_equal(answer.status, status);
        assert_int_equal(answer.body.size, strlen(body));
        assert_memory_equal(answer.body.data == NULL ? (const void *)"" : answer.body.data, body,
                            strlen(body));
        assert_int_equal(answer.keeps_alive, keeps_alive);
        check_answer_clear(&answer);
    }
}

static void expect_failure(const char *text) {
    struct check_answer answer;
    check_answer_init(&answer, false);
    (void)feed_in(&answer, text, 3);
    assert_int_equal(check_answer_end(&answer), CHECK_ANSWER_FAILED);
    assert_non_null(answer.error);
    check_answer_clear(&answer);
}

static void bodies_end_as_their_headers_say(void **state) {
    (void)state;
    expect("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true);
    expect("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true);
    expect("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true);
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n"
           "Trailer: 1\r\n\r\n",
           200, "abcde", true);
    expect("HTTP/1.1 503 Busy\r\n\r\nto the end", 503, "to the end", false);
    expect("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false);
    expect("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false);
    expect("HTTP/1.1 200\nContent-Length: 2\n\nok", 200, "ok", true);
    expect("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx", 404,
           "x", true);
}

static void what_is_not_http_is_refused(void **state) {
    (void)state;
    expect_failure("");
    expect_failure("SSH-2.0-OpenSSH_9.2\r\n");
    expect_failure("HTTP/2 200 OK\r\n\r\n");
    expect_failure("HTTP/1.1 20 OK\r\n\r\n");
    expect_failure("HTTP/1.1 099 OK\r\n\r\n");
    expect_failure("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
    expect_failure("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n");
    expect_failure("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab");
    expect_failure("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n");
    expect_failure("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    expect_failure("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n");
    expect_failure("HTTP/1.1 200 OK\r\nno colon\r\n\r\n");
    expect_failure("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    expect_failure("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
}

static void a_body_without_end_is_cut(void **state) {
    (void)state;
    char piece[4096];
    memset(piece, 'x', sizeof piece);
    struct check_answer answer;
    check_answer_init(&answer, false);
    (void)check_answer_feed(&answer, bytes_from_text("HTTP/1.1 200 OK\r\n\r\n"));
    size_t n = 0;
    while (check_answer_feed(&answer, bytes_of(piece, sizeof piece)) == CHECK_ANSWER_MORE) {
        assert_true(++n < 100);
    }
    assert_int_equal(answer.state, CHECK_ANSWER_DONE);
    assert_true(answer.is_cut);
    assert_false(answer.keeps_alive);
    assert_int_equal(answer.body.size, CHECK_ANSWER_BODY_MAX);
    check_answer_clear(&answer);
}

static void headers_and_chunks_without_end_are_refused(void **state) {
    (void)state;
    const char *const repeated[] = {"X: y\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "xxxxxxx"};
    const char *const first[] = {"HTTP/1.1 200 OK\r\n", "", "HTTP/1.1 200 OK\r\nX: "};
    for (size_t i = 0; i < 3; i++) {
        struct check_answer answer;
        check_answer_init(&answer, false);
        (void)check_answer_feed(&answer, bytes_from_text(first[i]));
        size_t n = 0;
        while (check_answer_feed(&answer, bytes_from_text(repeated[i])) == CHECK_ANSWER_MORE) {
            assert_true(++n < CHECK_ANSWER_HEADER_MAX);
        }
        assert_int_equal(answer.state, CHECK_ANSWER_FAILED);
        check_answer_clear(&answer);
    }
}

static void an_answer_to_head_has_no_body(void **state) {
    (void)state;
    struct check_answer answer;
    check_answer_init(&answer, true);
    assert_int_equal(feed_in(&answer, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", 7),
                     CHECK_ANSWER_DONE);
    check_answer_clear(&answer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_end_as_their_headers_say),
        cmocka_unit_test(what_is_not_http_is_refused),
        cmocka_unit_test(a_body_without_end_is_cut),
        cmocka_unit_test(headers_and_chunks_without_end_are_refused),
        cmocka_unit_test(an_answer_to_head_has_no_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
