#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *caught;
static int kept_stderr;
static char text[16384];

static int catch_stderr(void **state) {
    caught = tmpfile();
    kept_stderr = dup(STDERR_FILENO);
    return caught == NULL || dup2(fileno(caught), STDERR_FILENO) < 0 ? -1 : 0;
}

static int release_stderr(void **state) {
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    fclose(caught);
    log_configure(LOG_INFO, LOG_FORMAT_TEXT);
    return 0;
}

/* What was logged since the last call; stands after the time in the text form. */
static const char *logged(void) {
    ssize_t size = pread(fileno(caught), text, sizeof text - 1, 0);
    text[size] = '\0';
    assert_int_equal(ftruncate(fileno(caught), 0), 0);
    lseek(fileno(caught), 0, SEEK_SET);
    return text;
}

enum { TIME_SIZE = sizeof "2026-01-02T03:04:05.678Z " - 1 };

static void text_lines_are_for_people(void **state) {
    log_configure(LOG_INFO, LOG_FORMAT_TEXT);
    log_info("listening", LOG_TEXT("address", "127.0.0.1"), LOG_NUMBER("port", 2379));
    assert_string_equal(logged() + TIME_SIZE, "INFO  listening  address=127.0.0.1 port=2379\n");
    log_error("stopped");
    assert_string_equal(logged() + TIME_SIZE, "ERROR stopped\n");
}

static void json_lines_are_for_machines(void **state) {
    log_configure(LOG_INFO, LOG_FORMAT_JSON);
    log_warning("slow", LOG_TEXT("disk", "a \"b\""), LOG_NUMBER("ms", -5));
    const char *line = logged();
    assert_memory_equal(line, "{\"level\":\"warn\",\"ts\":\"", 22);
    assert_non_null(strstr(line, "\",\"msg\":\"slow\",\"disk\":\"a \\\"b\\\"\",\"ms\":-5}\n"));
}

static void what_is_less_important_is_left_out(void **state) {
    log_configure(LOG_WARNING, LOG_FORMAT_TEXT);
    log_debug("a");
    log_info("b");
    assert_string_equal(logged(), "");
    log_warning("c");
    assert_string_equal(logged() + TIME_SIZE, "WARN  c\n");
}

static void a_field_cannot_forge_a_line(void **state) {
    log_configure(LOG_INFO, LOG_FORMAT_TEXT);
    log_info("bad", LOG_TEXT("key", "x\n2026 ERROR y\x1b[2J"), LOG_TEXT("empty", ""));
    assert_string_equal(logged() + TIME_SIZE,
                        "INFO  bad  key=\"x\\u000a2026 ERROR y\\u001b[2J\" empty=\"\"\n");
}

static void a_line_that_is_too_long_is_cut_and_stays_a_line(void **state) {
    char *endless = malloc(10001);
    for (int fill = 0; fill < 3; fill++) {
        memset(endless, "a\n\""[fill], 10000);
        endless[10000] = '\0';
        log_configure(LOG_INFO, LOG_FORMAT_JSON);
        log_info("cut", LOG_TEXT("first", endless), LOG_TEXT("second", endless));
        const char *line = logged();
        assert_in_range(strlen(line), 4000, 4096);
        assert_string_equal(line + strlen(line) - 3, "\"}\n");
        assert_null(strstr(line, "second"));
        log_info(endless, LOG_NUMBER("n", 1));
        line = logged();
        assert_string_equal(line + strlen(line) - 3, "\"}\n");
        log_configure(LOG_INFO, LOG_FORMAT_TEXT);
        log_info("cut", LOG_TEXT("first", endless));
        line = logged();
        assert_in_range(strlen(line), 4000, 4096);
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    }
    free(endless);
}

int main(void) {
#define CAUGHT(test) cmocka_unit_test_setup_teardown(test, catch_stderr, release_stderr)
    const struct CMUnitTest tests[] = {
        CAUGHT(text_lines_are_for_people),
        CAUGHT(json_lines_are_for_machines),
        CAUGHT(what_is_less_important_is_left_out),
        CAUGHT(a_field_cannot_forge_a_line),
        CAUGHT(a_line_that_is_too_long_is_cut_and_stays_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
