#include "replication/raft_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20000 };

struct write {
    int file;
    int told;
    char text[8];
    struct iovec part;
    struct iocb iocb;
};

static void write_init(struct write *write, const char *text) {
    char path[] = "raft_writer_XXXXXX";
    *write = (struct write){.file = mkstemp(path), .told = eventfd(0, EFD_NONBLOCK)};
    assert_true(write->file >= 0);
    assert_true(write->told >= 0);
    assert_int_equal(unlink(path), 0);
    strcpy(write->text, text);
    write->part = (struct iovec){.iov_base = write->text, .iov_len = strlen(text)};
    write->iocb = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITEV,
                                .aio_fildes = (uint32_t)write->file,
                                .aio_buf = (uint64_t)(uintptr_t)&write->part,
                                .aio_nbytes = 1,
                                .aio_offset = 3,
                                .aio_data = 4711,
                                .aio_flags = IOCB_FLAG_RESFD,
                                .aio_resfd = (uint32_t)write->told,
                                .aio_rw_flags = RWF_DSYNC | RWF_NOWAIT};
}

static void write_clear(struct write *write) {
    close(write->file);
    close(write->told);
}

static void wait_until_told(const struct write *write) {
    uint64_t n = 0;
    struct pollfd told = {.fd = write->told, .events = POLLIN};
    assert_int_equal(poll(&told, 1, PATIENCE_MS), 1);
    assert_int_equal(read(write->told, &n, sizeof n), sizeof n);
    assert_int_equal(n, 1);
}

static void only_durable_writes_with_an_eventfd_are_taken(void **state) {
    struct write write;
    write_init(&write, "a");
    assert_true(raft_writer_takes(&write.iocb));
    write.iocb.aio_flags = 0;
    assert_false(raft_writer_takes(&write.iocb));
    write.iocb.aio_flags = IOCB_FLAG_RESFD;
    write.iocb.aio_rw_flags = RWF_NOWAIT;
    assert_false(raft_writer_takes(&write.iocb));
    write.iocb.aio_rw_flags = RWF_DSYNC;
    write.iocb.aio_lio_opcode = IOCB_CMD_PWRITE;
    assert_false(raft_writer_takes(&write.iocb));
    write_clear(&write);
}

static void what_was_told_is_in_the_file(void **state) {
    struct write write;
    struct io_event event;
    char found[8] = "";
    write_init(&write, "hello");
    assert_false(raft_writer_finished(7, &event));
    assert_true(raft_writer_submit(7, &write.iocb));
    wait_until_told(&write);
    assert_int_equal(pread(write.file, found, sizeof found, 3), 5);
    assert_string_equal(found, "hello");
    assert_true(raft_writer_finished(7, &event));
    assert_int_equal(event.res, 5);
    assert_int_equal(event.data, 4711);
    assert_ptr_equal((void *)(uintptr_t)event.obj, &write.iocb);
    assert_false(raft_writer_finished(7, &event));
    write_clear(&write);
}

static void each_context_gets_its_own_ends(void **state) {
    struct write one;
    struct write other;
    struct io_event event;
    write_init(&one, "one");
    write_init(&other, "other");
    assert_true(raft_writer_submit(1, &one.iocb));
    assert_true(raft_writer_submit(2, &other.iocb));
    wait_until_told(&other);
    wait_until_told(&one);
    assert_false(raft_writer_finished(3, &event));
    assert_true(raft_writer_finished(2, &event));
    assert_int_equal(event.res, 5);
    assert_true(raft_writer_finished(1, &event));
    assert_int_equal(event.res, 3);
    write_clear(&one);
    write_clear(&other);
}

static void a_context_that_ends_leaves_nothing_behind(void **state) {
    struct write write;
    struct io_event event;
    char found[8] = "";
    write_init(&write, "last");
    assert_true(raft_writer_submit(5, &write.iocb));
    close(write.told); /* as raft_uv does */
    raft_writer_end(5);
    assert_int_equal(pread(write.file, found, sizeof found, 3), 4);
    assert_string_equal(found, "last");
    assert_false(raft_writer_finished(5, &event));
    raft_writer_end(5);
    close(write.file);
}

static void a_write_that_fails_says_so(void **state) {
    struct write write;
    struct io_event event;
    write_init(&write, "x");
    int read_only = open("/dev/null", O_RDONLY);
    write.iocb.aio_fildes = (uint32_t)read_only;
    assert_true(raft_writer_submit(1, &write.iocb));
    wait_until_told(&write);
    assert_true(raft_writer_finished(1, &event));
    assert_int_equal(event.res, -EBADF);
    close(read_only);
    write_clear(&write);
}

static void a_forked_process_writes_too(void **state) {
    struct write write;
    struct io_event event;
    write_init(&write, "child");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct pollfd told = {.fd = write.told, .events = POLLIN};
        bool is_good = raft_writer_submit(1, &write.iocb) && poll(&told, 1, PATIENCE_MS) == 1 &&
                       raft_writer_finished(1, &event) && event.res == 5;
        _exit(is_good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    write_clear(&write);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_durable_writes_with_an_eventfd_are_taken),
        cmocka_unit_test(what_was_told_is_in_the_file),
        cmocka_unit_test(each_context_gets_its_own_ends),
        cmocka_unit_test(a_context_that_ends_leaves_nothing_behind),
        cmocka_unit_test(a_write_that_fails_says_so),
        cmocka_unit_test(a_forked_process_writes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
