#include "base/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PIPE_BYTES = 4096, LINES = 20000, OUTPUT_BYTES = 4 * 1024 * 1024, SOON_MS = 10000 };

static char output[OUTPUT_BYTES];
static size_t output_size;

static size_t notice(uint64_t n_dropped, char out_line[LOG_WRITER_LINE_BYTES_MAX]) {
    return (size_t)snprintf(out_line, LOG_WRITER_LINE_BYTES_MAX, "dropped %u\n",
                            (unsigned)n_dropped);
}

static void open_pipe(int ends[2]) {
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= 0);
}

static void put_numbered(unsigned first, unsigned n) {
    for (unsigned i = first; i < first + n; i++) {
        char line[64];
        int size = snprintf(line, sizeof line, "line %u of those that wait to be written\n", i);
        assert_true(log_writer_put(line, (size_t)size, true));
    }
}

static void *read_all(void *data) {
    int fd = *(int *)data;
    ssize_t n;
    while ((n = read(fd, output + output_size, sizeof output - 1 - output_size)) > 0) {
        output_size += (size_t)n;
    }
    output[output_size] = 0;
    return NULL;
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void without_a_thread_nothing_is_taken(void **state) {
    (void)state;
    assert_false(log_writer_put("x\n", 2, false));
    log_writer_flush(SOON_MS);
    log_writer_stop(SOON_MS);
}

static void lines_are_written_whole_and_in_order(void **state) {
    (void)state;
    int ends[2];
    pthread_t reader;
    open_pipe(ends);
    output_size = 0;
    assert_true(log_writer_start(ends[1], notice));
    assert_int_equal(pthread_create(&reader, NULL, read_all, &ends[0]), 0);
    /* Fewer than fit, flushed now and then: the ring goes round many times and drops nothing. */
    for (unsigned i = 0; i < LINES; i += 1000) {
        put_numbered(i, 1000);
        log_writer_flush(SOON_MS);
    }
    log_writer_stop(SOON_MS);
    close(ends[1]);
    pthread_join(reader, NULL);
    close(ends[0]);
    const char *at = output;
    for (unsigned i = 0; i < LINES; i++) {
        unsigned number = 0;
        int size = 0;
        assert_int_equal(sscanf(at, "line %u of those that wait to be written\n%n", &number, &size),
                         1);
        assert_int_equal(number, i);
        at += size;
    }
    assert_int_equal(*at, 0);
}

static void a_full_pipe_holds_nobody_up_and_drops_are_counted(void **state) {
    (void)state;
    int ends[2];
    pthread_t reader;
    open_pipe(ends);
    output_size = 0;
    assert_true(log_writer_start(ends[1], notice));
    /* Nobody reads: with a write that waits, this would never return. */
    put_numbered(0, LINES);
    assert_true(log_writer_put("matters\n", 8, false));
    uint64_t begun_ms = now_ms();
    log_writer_flush(50);
    assert_in_range(now_ms() - begun_ms, 50, SOON_MS);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &ends[0]), 0);
    log_writer_stop(SOON_MS);
    close(ends[1]);
    pthread_join(reader, NULL);
    close(ends[0]);
    unsigned n_lines = 0;
    for (const char *at = output; (at = strstr(at, "line ")) != NULL; at++) {
        n_lines++;
    }
    unsigned n_dropped = 0;
    const char *told = strstr(output, "dropped ");
    assert_non_null(told);
    assert_int_equal(sscanf(told, "dropped %u", &n_dropped), 1);
    assert_true(n_lines > 1000);
    assert_non_null(strstr(output, "matters\n"));
    assert_int_equal(n_lines + n_dropped, LINES);
}

static void a_reader_that_never_comes_does_not_keep_the_process(void **state) {
    (void)state;
    int ends[2];
    open_pipe(ends);
    assert_true(log_writer_start(ends[1], notice));
    put_numbered(0, LINES);
    uint64_t begun_ms = now_ms();
    log_writer_stop(100);
    assert_in_range(now_ms() - begun_ms, 100, SOON_MS);
    assert_false(log_writer_put("x\n", 2, false));
    /* The thread is still in its write; the test's own end takes it along. */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_thread_nothing_is_taken),
        cmocka_unit_test(lines_are_written_whole_and_in_order),
        cmocka_unit_test(a_full_pipe_holds_nobody_up_and_drops_are_counted),
        cmocka_unit_test(a_reader_that_never_comes_does_not_keep_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
