#include "peers/peer_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static void expect(const char *url, const char *expected) {
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    assert_true(peer_address_of_url(url, address));
    assert_string_equal(address, expected);
    /* An address stands for itself. */
    char again[PEER_ADDRESS_SIZE_MAX + 1];
    assert_true(peer_address_of_url(address, again));
    assert_string_equal(again, expected);
}

static void urls_have_addresses(void **state) {
    expect("http://10.0.0.1:2380", "10.0.0.1:2380");
    expect("https://[::1]:2380/", "[::1]:2380");
    expect("unix:///run/leased/n1", "unix:///run/leased/n1");
    expect("unixs://localhost:2380", "unix://localhost:2380");
}

static void what_names_nothing_is_refused(void **state) {
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    char longest[PEER_ADDRESS_SIZE_MAX + 16] = "unix://";
    assert_false(peer_address_of_url("", address));
    assert_false(peer_address_of_url("http://", address));
    assert_false(peer_address_of_url("unix://", address));
    memset(longest + strlen(longest), 'p', PEER_ADDRESS_SIZE_MAX - strlen("unix://"));
    assert_true(peer_address_of_url(longest, address));
    strcat(longest, "p");
    assert_false(peer_address_of_url(longest, address));
}

static void a_path_is_told_from_a_host(void **state) {
    assert_null(peer_address_path("unix:2380"));
    assert_null(peer_address_path("localhost:2380"));
    assert_string_equal(peer_address_path("unix://localhost:2380"), "localhost:2380");
}

static void a_path_fits_into_a_socket_address(void **state) {
    struct sockaddr_storage address;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1] = "";
    assert_int_not_equal(peer_address_of_path("", &address), 0);
    memset(path, 'p', sizeof path - 2);
    assert_int_equal(peer_address_of_path(path, &address), 0);
    assert_int_equal(address.ss_family, AF_UNIX);
    assert_string_equal(((struct sockaddr_un *)&address)->sun_path, path);
    path[sizeof path - 2] = 'p';
    assert_int_not_equal(peer_address_of_path(path, &address), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_have_addresses),
        cmocka_unit_test(what_names_nothing_is_refused),
        cmocka_unit_test(a_path_is_told_from_a_host),
        cmocka_unit_test(a_path_fits_into_a_socket_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
