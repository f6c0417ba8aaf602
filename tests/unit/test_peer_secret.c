#include "peers/peer_secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char path[96];
static char error[512];

static int set_up(void **state) {
    snprintf(folder, sizeof folder, "/tmp/leased-test-secret-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/secret", folder);
    error[0] = '\0';
    return 0;
}

static int tear_down(void **state) {
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
    return 0;
}

static void write_secret(const void *data, size_t size, mode_t mode) {
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void a_secret_is_read_without_its_newline(void **state) {
    struct buffer secret;
    write_secret("0123456789abcdef\r\n\n", 19, 0600);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_OK);
    assert_int_equal(secret.size, 16);
    assert_memory_equal(secret.data, "0123456789abcdef", 16);
    peer_secret_clear(&secret);
    /* Any bytes will do, zeros too; only the end is trimmed. */
    write_secret("\n\0\0 4567890abcde\1", 17, 0400);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_OK);
    assert_int_equal(secret.size, 17);
    peer_secret_clear(&secret);
}

static void sizes_have_bounds(void **state) {
    struct buffer secret;
    char *text = malloc(PEER_SECRET_SIZE_MAX + 10);
    assert_non_null(text);
    memset(text, 's', PEER_SECRET_SIZE_MAX + 10);
    write_secret(text, PEER_SECRET_SIZE_MIN - 1, 0600);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_INVALID);
    assert_non_null(strstr(error, "16"));
    assert_null(strstr(error, "sssss"));
    write_secret(text, 0, 0600);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_INVALID);
    write_secret(text, PEER_SECRET_SIZE_MAX, 0600);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_OK);
    assert_int_equal(secret.size, PEER_SECRET_SIZE_MAX);
    peer_secret_clear(&secret);
    write_secret(text, PEER_SECRET_SIZE_MAX + 1, 0600);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_INVALID);
    write_secret(text, PEER_SECRET_SIZE_MAX + 10, 0600);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_INVALID);
    free(text);
}

static void a_file_open_to_others_is_refused(void **state) {
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0666};
    struct buffer secret;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_secret("0123456789abcdef", 16, modes[i]);
        assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_INVALID);
        assert_non_null(strstr(error, "chmod 600"));
        assert_null(strstr(error, "0123456789"));
    }
}

static void what_is_no_file_is_refused(void **state) {
    struct buffer secret;
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_IO);
    assert_non_null(strstr(error, path));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(peer_secret_load(path, &secret, error, sizeof error), STATUS_INVALID);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(peer_secret_load(folder, &secret, error, sizeof error), STATUS_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_secret_is_read_without_its_newline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_have_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_open_to_others_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
