#include "raft_files_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

static int open_file(struct files_fixture *fixture, const char *name, enum raft_files_mode mode) {
    int file = -1;
    assert_int_equal(fixture->files.calls->open(fixture->files.data, name, mode, &file), 0);
    assert_true(file >= 0);
    return file;
}

static void modes_are_obeyed(void **state) {
    struct files_fixture *fixture = *state;
    const struct raft_files_calls *calls = fixture->files.calls;
    void *data = fixture->files.data;
    int file;
    assert_int_equal(calls->open(data, "a", RAFT_FILES_READ, &file), ENOENT);
    assert_int_equal(calls->open(data, "a", RAFT_FILES_WRITE, &file), ENOENT);
    file = open_file(fixture, "a", RAFT_FILES_CREATE);
    int other;
    assert_int_equal(calls->open(data, "a", RAFT_FILES_CREATE, &other), EEXIST);
    struct iovec part = {.iov_base = "hello", .iov_len = 5};
    assert_int_equal(calls->write(data, file, 3, &part, 1), 0);
    assert_int_equal(calls->close(data, file), 0);
    file = open_file(fixture, "a", RAFT_FILES_READ);
    assert_int_equal(calls->write(data, file, 0, &part, 1), EBADF);
    uint64_t size;
    assert_int_equal(calls->size(data, file, &size), 0);
    assert_int_equal(size, 8);
    char bytes[16];
    size_t n;
    assert_int_equal(calls->read(data, file, 3, bytes, sizeof bytes, &n), 0);
    assert_int_equal(n, 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(calls->read(data, file, 100, bytes, sizeof bytes, &n), 0);
    assert_int_equal(n, 0);
    calls->close(data, file);
}

static void more_parts_than_one_call_takes_are_written(void **state) {
    enum { PARTS = 5000 };
    struct files_fixture *fixture = *state;
    static uint8_t bytes[PARTS * 7];
    static uint8_t read[PARTS * 7];
    static struct iovec parts[PARTS];
    size_t size = 0;
    for (int i = 0; i < PARTS; i++) {
        size_t n = (size_t)(i % 8 == 7 ? 0 : 1 + i % 7);
        for (size_t j = 0; j < n; j++) {
            bytes[size + j] = (uint8_t)(i + (int)j);
        }
        parts[i] = (struct iovec){.iov_base = bytes + size, .iov_len = n};
        size += n;
    }
    int file = open_file(fixture, "a", RAFT_FILES_CREATE);
    assert_int_equal(fixture->files.calls->write(fixture->files.data, file, 10, parts, PARTS), 0);
    size_t n;
    assert_int_equal(
        fixture->files.calls->read(fixture->files.data, file, 10, read, sizeof read, &n), 0);
    assert_int_equal(n, size);
    assert_memory_equal(read, bytes, size);
    fixture->files.calls->close(fixture->files.data, file);
}

/* A limit on the size of files makes writes short, as a disk that is nearly full does. */
static void a_write_that_ends_early_goes_on_or_fails(void **state) {
    struct files_fixture *fixture = *state;
    int file = open_file(fixture, "a", RAFT_FILES_CREATE);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    uint8_t bytes[600] = {1};
    struct iovec parts[] = {{bytes, 600}, {bytes, 600}, {bytes, 600}};
    int error = fixture->files.calls->write(fixture->files.data, file, 0, parts, 3);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(error, EFBIG);
    fixture->files.calls->close(fixture->files.data, file);
}

static void allocated_zeros_take_room(void **state) {
    enum { SIZE = 1000 * 1000 };
    struct files_fixture *fixture = *state;
    int file = open_file(fixture, "a", RAFT_FILES_CREATE);
    for (uint64_t size = SIZE / 4; size <= SIZE; size += SIZE / 4) {
        assert_int_equal(fixture->files.calls->allocate(fixture->files.data, file, size), 0);
    }
    struct stat status;
    assert_int_equal(fstat(file, &status), 0);
    assert_int_equal(status.st_size, SIZE);
    assert_true(status.st_blocks * 512 >= SIZE);
    assert_int_equal(fixture->files.calls->write_back(fixture->files.data, file, 0, SIZE), 0);
    assert_int_equal(fixture->files.calls->sync(fixture->files.data, file), 0);
    fixture->files.calls->close(fixture->files.data, file);
}

struct names {
    int n;
    bool has_a;
    bool has_b;
};

static void add_name(void *data, const char *name) {
    struct names *names = data;
    names->n++;
    names->has_a = names->has_a || strcmp(name, "a") == 0;
    names->has_b = names->has_b || strcmp(name, "b") == 0;
}

static void names_change_and_are_listed(void **state) {
    struct files_fixture *fixture = *state;
    const struct raft_files_calls *calls = fixture->files.calls;
    void *data = fixture->files.data;
    char path[128];
    calls->close(data, open_file(fixture, "a", RAFT_FILES_CREATE));
    snprintf(path, sizeof path, "%s/folder", fixture->path);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 2; i++) { /* it can be listed again */
        struct names names = {.n = 0};
        assert_int_equal(calls->list(data, add_name, &names), 0);
        assert_int_equal(names.n, 1);
        assert_true(names.has_a);
    }
    assert_int_equal(calls->rename(data, "a", "b"), 0);
    assert_int_equal(calls->rename(data, "a", "b"), ENOENT);
    assert_int_equal(calls->sync_directory(data), 0);
    struct names names = {.n = 0};
    assert_int_equal(calls->list(data, add_name, &names), 0);
    assert_true(names.has_b);
    assert_false(names.has_a);
    assert_int_equal(calls->unlink(data, "b"), 0);
    assert_int_equal(calls->unlink(data, "b"), ENOENT);
    assert_int_equal(rmdir(path), 0);
}

static void a_directory_that_is_missing_is_told(void **state) {
    struct raft_files files;
    assert_int_equal(raft_files_open("/nonexistent/directory", &files), ENOENT);
}

#define files_test(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        files_test(modes_are_obeyed),
        files_test(more_parts_than_one_call_takes_are_written),
        files_test(a_write_that_ends_early_goes_on_or_fails),
        files_test(allocated_zeros_take_room),
        files_test(names_change_and_are_listed),
        cmocka_unit_test(a_directory_that_is_missing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
