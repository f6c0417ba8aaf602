#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LINE_BYTES = 65536, TIME_BYTES = 24 };

static int pipe_read;
static int saved_stderr;
static char line[LINE_BYTES];

/* From here to capture_end(), standard error is a pipe. */
static void capture_begin(void) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, LINE_BYTES) >= LINE_BYTES);
    saved_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    pipe_read = ends[0];
}

static size_t capture_end(void) {
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    size_t size = 0;
    ssize_t n;
    while ((n = read(pipe_read, line + size, sizeof line - 1 - size)) > 0) {
        size += (size_t)n;
    }
    close(pipe_read);
    line[size] = 0;
    return size;
}

/* Checks "2026-11-15T19:40:23.123Z" and returns what follows. */
static const char *after_time(const char *text) {
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
    for (size_t i = 0; i < TIME_BYTES; i++) {
        if (form[i] == 'd') {
            assert_in_range(text[i], '0', '9');
        } else {
            assert_int_equal(text[i], form[i]);
        }
    }
    return text + TIME_BYTES;
}

static void expect_text(const char *expected) {
    capture_end();
    assert_string_equal(after_time(line), expected);
}

static void expect_json(const char *start, const char *expected) {
    static const char caller[] = "\",\"caller\":\"unit/test_log.c:";
    capture_end();
    assert_memory_equal(line, start, strlen(start));
    const char *rest = after_time(line + strlen(start));
    assert_memory_equal(rest, caller, sizeof caller - 1);
    rest += sizeof caller - 1;
    rest += strspn(rest, "0123456789");
    assert_string_equal(rest, expected);
}

static void text_has_time_level_message_and_fields(void **state) {
    log_configure(LOG_DEBUG, LOG_FORMAT_TEXT);
    capture_begin();
    log_info("listening", LOG_TEXT("address", "127.0.0.1"), LOG_NUMBER("port", 2379));
    expect_text(" INFO  listening address=127.0.0.1 port=2379\n");
    capture_begin();
    log_error("no fields");
    expect_text(" ERROR no fields\n");
    capture_begin();
    log_debug("numbers", LOG_NUMBER("least", INT64_MIN), LOG_NUMBER("most", INT64_MAX));
    expect_text(" DEBUG numbers least=-9223372036854775808 most=9223372036854775807\n");
}

static void text_quotes_what_would_be_ambiguous(void **state) {
    log_configure(LOG_DEBUG, LOG_FORMAT_TEXT);
    capture_begin();
    log_warning("odd", LOG_TEXT("space", "a b"), LOG_TEXT("empty", ""), LOG_TEXT("equals", "a=b"),
                LOG_TEXT("quote", "say \"hi\""), LOG_TEXT("path", "c:\\x"));
    expect_text(" WARN  odd space=\"a b\" empty=\"\" equals=\"a=b\" quote=\"say \\\"hi\\\"\""
                " path=\"c:\\\\x\"\n");
}

static void text_cannot_be_made_to_forge_lines_or_drive_a_terminal(void **state) {
    log_configure(LOG_DEBUG, LOG_FORMAT_TEXT);
    capture_begin();
    log_info("first\nsecond", LOG_TEXT("key", "x\r\n\x1b[2J\x7f\xc2\x9b"));
    expect_text(" INFO  first\\nsecond key=\"x\\u000d\\n\\u001b[2J\\u007f\\u009b\"\n");
}

static void json_is_one_object_a_line(void **state) {
    log_configure(LOG_DEBUG, LOG_FORMAT_JSON);
    capture_begin();
    log_warning("slow disk", LOG_TEXT("path", "/var \"x\""), LOG_NUMBER("ms", -5));
    expect_json("{\"level\":\"warn\",\"ts\":\"",
                "\",\"msg\":\"slow disk\",\"path\":\"/var \\\"x\\\"\","
                "\"ms\":-5}\n");
}

static void json_escapes_controls_and_keeps_utf8(void **state) {
    log_configure(LOG_DEBUG, LOG_FORMAT_JSON);
    capture_begin();
    log_info("\b\t\n\x01 \\ / é € 😀");
    expect_json("{\"level\":\"info\",\"ts\":\"",
                "\",\"msg\":\"\\u0008\\t\\n\\u0001 \\\\ / é € 😀\"}\n");
}

static void json_replaces_what_is_not_utf8(void **state) {
    log_configure(LOG_DEBUG, LOG_FORMAT_JSON);
    static const struct {
        const char *text;
        unsigned n_replaced;
    } cases[] = {
        {"\xff", 1},         {"\x80", 1},         {"\xc0\x80", 2},         {"\xc3", 1},
        {"\xe2\x82", 2},     {"\xed\xa0\x80", 3}, {"\xf4\x90\x80\x80", 4}, {"\xf0\x9f\x98", 3},
        {"\xe0\x9f\xbf", 3}, {"\xc3(", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        capture_begin();
        log_info(cases[i].text);
        capture_end();
        unsigned n = 0;
        for (const char *at = line; (at = strstr(at, "\\ufffd")) != NULL; at++) {
            n++;
        }
        assert_int_equal(n, cases[i].n_replaced);
        for (const char *at = line; *at != 0; at++) {
            assert_in_range(*at, 1, 0x7f);
        }
    }
}

static void levels_below_the_configured_one_are_silent(void **state) {
    log_configure(LOG_WARNING, LOG_FORMAT_TEXT);
    assert_false(log_enabled(LOG_DEBUG));
    assert_false(log_enabled(LOG_INFO));
    assert_true(log_enabled(LOG_WARNING));
    assert_true(log_enabled(LOG_ERROR));
    capture_begin();
    log_debug("no");
    log_info("no");
    assert_int_equal(capture_end(), 0);
}

static void a_long_line_is_cut_and_stays_whole(void **state) {
    static char text[20000];
    /* Every size around the limit, so that every kind of piece is the one that does not fit. */
    for (size_t size = 8000; size < 8300; size++) {
        memset(text, 'x', size);
        text[size] = 0;
        text[size - 1] = '\n';
        for (unsigned json = 0; json < 2; json++) {
            log_configure(LOG_DEBUG, json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT);
            capture_begin();
            log_info("long", LOG_TEXT("a", text), LOG_NUMBER("b", INT64_MIN),
                     LOG_TEXT("c", "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"));
            size_t got = capture_end();
            assert_true(got <= 8192);
            assert_int_equal(line[got - 1], '\n');
            assert_ptr_equal(strchr(line, '\n'), &line[got - 1]);
            if (json) {
                assert_int_equal(line[got - 2], '}');
                unsigned quotes = 0;
                for (const char *at = line; *at != 0; at++) {
                    quotes += *at == '"';
                }
                assert_int_equal(quotes % 2, 0);
            }
            if (size > 8192) {
                assert_non_null(strstr(line, "..."));
            }
        }
    }
}

static void many_fields_do_not_overflow(void **state) {
    static struct log_field fields[1000];
    for (size_t i = 0; i < 1000; i++) {
        fields[i] = LOG_TEXT("a_rather_long_name_of_a_field", i % 2 ? "value" : "two words");
    }
    for (unsigned json = 0; json < 2; json++) {
        log_configure(LOG_DEBUG, json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT);
        capture_begin();
        log_write(LOG_INFO, "many", fields, 1000);
        size_t got = capture_end();
        assert_true(got <= 8192);
        assert_int_equal(line[got - 1], '\n');
    }
}

static void errno_is_left_alone(void **state) {
    log_configure(LOG_DEBUG, LOG_FORMAT_TEXT);
    capture_begin();
    errno = ENOENT;
    log_info("x");
    int after = errno;
    capture_end();
    assert_int_equal(after, ENOENT);
}

enum { THREADS = 4, LINES = 100 };

static void *write_lines(void *data) {
    for (int i = 0; i < LINES; i++) {
        log_info("from a thread", LOG_TEXT("name", data), LOG_NUMBER("i", i));
    }
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
    static char names[THREADS][2] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    log_configure(LOG_DEBUG, LOG_FORMAT_JSON);
    capture_begin();
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    capture_end();
    size_t n_lines = 0;
    for (char *at = line; *at != 0;) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        assert_int_equal(at[0], '{');
        assert_int_equal(end[-1], '}');
        *end = 0;
        assert_null(strchr(at + 1, '{'));
        at = end + 1;
        n_lines++;
    }
    assert_int_equal(n_lines, THREADS * LINES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_time_level_message_and_fields),
        cmocka_unit_test(text_quotes_what_would_be_ambiguous),
        cmocka_unit_test(text_cannot_be_made_to_forge_lines_or_drive_a_terminal),
        cmocka_unit_test(json_is_one_object_a_line),
        cmocka_unit_test(json_escapes_controls_and_keeps_utf8),
        cmocka_unit_test(json_replaces_what_is_not_utf8),
        cmocka_unit_test(levels_below_the_configured_one_are_silent),
        cmocka_unit_test(a_long_line_is_cut_and_stays_whole),
        cmocka_unit_test(many_fields_do_not_overflow),
        cmocka_unit_test(errno_is_left_alone),
        cmocka_unit_test(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
