#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int tear_down(void **state) {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return 0;
}

static int listen_at(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_not_equal(fd, -1);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

static void assert_received(int fd, const char *expected) {
    char text[64] = "";
    assert_int_equal(recv(fd, text, sizeof text - 1, MSG_DONTWAIT), strlen(expected));
    assert_string_equal(text, expected);
}

static void a_message_reaches_an_abstract_socket(void **state) {
    char name[64];
    snprintf(name, sizeof name, "@leased-test-%ld", (long)getpid());
    int fd = listen_at(name);
    setenv("NOTIFY_SOCKET", name, 1);
    notify_send("READY=1");
    assert_received(fd, "READY=1");
    close(fd);
}

static void a_message_reaches_a_socket_in_the_file_system(void **state) {
    char name[] = "/tmp/leased-notify-XXXXXX";
    assert_non_null(mkdtemp(name));
    char path[64];
    snprintf(path, sizeof path, "%s/socket", name);
    int fd = listen_at(path);
    setenv("NOTIFY_SOCKET", path, 1);
    notify_send("STOPPING=1");
    assert_received(fd, "STOPPING=1");
    close(fd);
    unlink(path);
    rmdir(name);
}

static void nobody_listening_is_no_harm(void **state) {
    char endless[512];
    memset(endless, '/', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", "", 1);
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", endless, 1);
    notify_send("READY=1");
}

static void the_watchdog_is_fed_twice_as_often_as_asked(void **state) {
    assert_int_equal(notify_watchdog_interval_ms(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(notify_watchdog_interval_ms(), 15000);
    setenv("WATCHDOG_USEC", "100", 1);
    assert_int_equal(notify_watchdog_interval_ms(), 1);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(notify_watchdog_interval_ms(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_message_reaches_an_abstract_socket, tear_down),
        cmocka_unit_test_teardown(a_message_reaches_a_socket_in_the_file_system, tear_down),
        cmocka_unit_test_teardown(nobody_listening_is_no_harm, tear_down),
        cmocka_unit_test_teardown(the_watchdog_is_fed_twice_as_often_as_asked, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
