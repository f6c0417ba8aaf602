#include "replication/peer_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <string.h>
#include <uv.h>

static void a_host_and_a_port_are_told_apart(void **state) {
    static const struct {
        const char *text;
        const char *host;
        const char *port;
    } cases[] = {{"127.0.0.1:2380", "127.0.0.1", "2380"},
                 {"[::1]:2380", "::1", "2380"},
                 {"::1:2380", "::1", "2380"},
                 {"n1.example:1", "n1.example", "1"},
                 {"n1.example:65535", "n1.example", "65535"},
                 {"[:7", "[", "7"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peer_address address;
        assert_int_equal(peer_address_split(cases[i].text, &address), 0);
        assert_string_equal(address.host, cases[i].host);
        assert_string_equal(address.port, cases[i].port);
    }
}

static void what_is_no_address_is_refused(void **state) {
    char long_host[PEER_ADDRESS_SIZE_MAX + 8];
    memset(long_host, 'x', sizeof long_host);
    memcpy(long_host + PEER_ADDRESS_SIZE_MAX + 1, ":1", 3);
    const char *const cases[] = {
        "",           ":",       ":1",      "host", "host:",       "host:x", "[]:1",
        "host:65536", "host:-1", "host:+1", "h:1 ", "host:000001", long_host};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peer_address address = {.host = "untouched"};
        assert_int_equal(peer_address_split(cases[i], &address), UV_EINVAL);
        assert_string_equal(address.host, "untouched");
    }
}

static void figures_need_nobody_to_be_asked(void **state) {
    struct peer_address address;
    struct sockaddr_storage found;
    assert_int_equal(peer_address_split("127.0.0.1:2380", &address), 0);
    assert_int_equal(peer_address_in_figures(&address, &found), 0);
    assert_int_equal(found.ss_family, AF_INET);
    assert_int_equal(ntohs(((struct sockaddr_in *)&found)->sin_port), 2380);
    assert_int_equal(peer_address_split("[::1]:2381", &address), 0);
    assert_int_equal(peer_address_in_figures(&address, &found), 0);
    assert_int_equal(found.ss_family, AF_INET6);
    assert_int_equal(ntohs(((struct sockaddr_in6 *)&found)->sin6_port), 2381);
    assert_int_equal(peer_address_split("localhost:2380", &address), 0);
    assert_int_not_equal(peer_address_in_figures(&address, &found), 0);
    assert_int_equal(peer_address_resolve("localhost:2380", &found), 0);
    assert_int_equal(peer_address_resolve("127.0.0.1:2380", &found), 0);
    assert_int_equal(peer_address_resolve("127.0.0.1", &found), UV_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_and_a_port_are_told_apart),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(figures_need_nobody_to_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
