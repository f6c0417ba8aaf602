#include "replication/raft_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { EXTENTS_MAX = 64, TRIES_MAX = 2000 };

static int open_file(void) {
    char path[] = "raft_calls_XXXXXX"; /* not /tmp: that may be memory, and nothing to see there */
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static off_t size_of(int fd) {
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    return info.st_size;
}

/* Extents that are allocated but not written; -1: the file system does not tell. */
static int count_unwritten(int fd) {
    struct fiemap *map = calloc(1, sizeof *map + EXTENTS_MAX * sizeof(struct fiemap_extent));
    assert_non_null(map);
    map->fm_length = FIEMAP_MAX_OFFSET;
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = EXTENTS_MAX;
    int n = -1;
    if (ioctl(fd, FS_IOC_FIEMAP, map) == 0) {
        n = 0;
        for (unsigned i = 0; i < map->fm_mapped_extents; i++) {
            n += (map->fm_extents[i].fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0;
        }
    }
    free(map);
    return n;
}

static bool can_write_directly(int fd) {
    int flags = fcntl(fd, F_GETFL);
    bool can = fcntl(fd, F_SETFL, flags | O_DIRECT) == 0;
    assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
    return can;
}

static void the_library_gets_our_calls(void **state) {
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "posix_fallocate"), (void *)raft_calls_allocate);
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "syscall"), (void *)raft_calls_syscall);
}

static void a_segment_is_written_before_it_is_used(void **state) {
    int fd = open_file();
    int flags = fcntl(fd, F_GETFL);
    assert_int_equal(raft_calls_allocate(fd, 0, RAFT_CALLS_SEGMENT_SIZE), 0);
    assert_int_equal(size_of(fd), RAFT_CALLS_SEGMENT_SIZE);
    assert_int_equal(fcntl(fd, F_GETFL), flags);
    uint8_t last[16];
    uint8_t zeros[16] = {0};
    assert_int_equal(pread(fd, last, sizeof last, RAFT_CALLS_SEGMENT_SIZE - (off_t)sizeof last),
                     sizeof last);
    assert_memory_equal(last, zeros, sizeof last);
    if (can_write_directly(fd)) {
        assert_true(count_unwritten(fd) <= 0);
    }
    close(fd);
}

static void other_files_are_only_allocated(void **state) {
    int fd = open_file();
    assert_int_equal(raft_calls_allocate(fd, 0, 3 * 4096), 0);
    assert_int_equal(size_of(fd), 3 * 4096);
    assert_true(count_unwritten(fd) != 0);
    close(fd);
}

static void a_file_that_cannot_be_written_is_told_of(void **state) {
    int fd = open("/dev/null", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_not_equal(raft_calls_allocate(fd, 0, RAFT_CALLS_SEGMENT_SIZE), 0);
    close(fd);
    assert_int_equal(raft_calls_allocate(-1, 0, RAFT_CALLS_SEGMENT_SIZE), EBADF);
    assert_int_equal(raft_calls_segment_error(), EBADF);
    /* Other files tell nothing about segments. */
    assert_int_equal(raft_calls_allocate(-1, 0, 4096), EBADF);
    int other = open_file();
    assert_int_equal(raft_calls_allocate(other, 0, 4096), 0);
    assert_int_equal(raft_calls_segment_error(), EBADF);
    assert_int_equal(raft_calls_allocate(other, 0, RAFT_CALLS_SEGMENT_SIZE), 0);
    assert_int_equal(raft_calls_segment_error(), 0);
    close(other);
}

static void a_context_is_ended_soon(void **state) {
    aio_context_t context = 0;
    struct io_event event;
    struct timespec none = {0};
    assert_int_equal(syscall(SYS_io_setup, 1, &context), 0);
    assert_int_equal(syscall(SYS_io_destroy, context), 0);
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        if (syscall(SYS_io_getevents, context, 0L, 1L, &event, &none) < 0) {
            assert_int_equal(errno, EINVAL); /* there is no such context any more */
            return;
        }
        poll(NULL, 0, 1);
    }
    fail_msg("the context is still there");
}

static void all_other_calls_are_passed_on(void **state) {
    assert_int_equal(syscall(SYS_getpid), getpid());
    assert_int_equal(syscall(SYS_close, -1), -1);
    assert_int_equal(errno, EBADF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_gets_our_calls),
        cmocka_unit_test(a_segment_is_written_before_it_is_used),
        cmocka_unit_test(other_files_are_only_allocated),
        cmocka_unit_test(a_file_that_cannot_be_written_is_told_of),
        cmocka_unit_test(a_context_is_ended_soon),
        cmocka_unit_test(all_other_calls_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
