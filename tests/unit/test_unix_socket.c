#include "base/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[32];
static char path[64];

static int setup(void **state) {
    strcpy(folder, "/tmp/unix-socket-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/s", folder);
    return 0;
}

static int teardown(void **state) {
    unlink(path);
    return rmdir(folder);
}

static void only_the_owner_may_connect(void **state) {
    struct unix_socket_file file;
    struct stat info;
    mode_t umask_before = umask(0);
    int fd = unix_socket_listen(path, 4, &file);
    umask(umask_before);
    assert_true(fd >= 0);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    close(fd);
    unix_socket_remove(path, &file);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void a_path_that_is_served_is_refused_and_a_stale_one_taken(void **state) {
    struct unix_socket_file first;
    struct unix_socket_file second;
    int fd = unix_socket_listen(path, 4, &first);
    assert_true(fd >= 0);
    assert_int_equal(unix_socket_listen(path, 4, &second), -1);
    assert_int_equal(errno, EADDRINUSE);
    close(fd); /* as a process that was killed: its file stays */
    fd = unix_socket_listen(path, 4, &second);
    assert_true(fd >= 0);
    /* The first owner's end does not take the second's file away. */
    if (first.inode != second.inode) {
        unix_socket_remove(path, &first);
        assert_int_equal(access(path, F_OK), 0);
    }
    close(fd);
}

static void a_file_that_is_no_socket_is_left_alone(void **state) {
    struct unix_socket_file file;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(unix_socket_listen(path, 4, &file), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(access(path, F_OK), 0);
}

static void a_path_that_is_too_long_is_refused(void **state) {
    struct unix_socket_file file;
    char longest[UNIX_SOCKET_PATH_SIZE_MAX + 2] = "";
    memset(longest, 'p', sizeof longest - 1);
    assert_int_equal(unix_socket_listen(longest, 4, &file), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_owner_may_connect, setup, teardown),
        cmocka_unit_test_setup_teardown(a_path_that_is_served_is_refused_and_a_stale_one_taken,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_socket_is_left_alone, setup, teardown),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
