/* Connections counted by the client's address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "net/client_counts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static struct sockaddr_storage address(const char *text) {
    struct sockaddr_storage storage = {0};
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&storage;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&storage;
    if (inet_pton(AF_INET, text, &ipv4->sin_addr) == 1) {
        ipv4->sin_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &ipv6->sin6_addr), 1);
        ipv6->sin6_family = AF_INET6;
    }
    return storage;
}

static struct client_count *add(struct client_counts *counts, const char *text, size_t max) {
    struct sockaddr_storage from = address(text);
    return client_counts_add(counts, -1, (const struct sockaddr *)&from, max);
}

static void an_address_has_its_share_and_no_more(void **state) {
    (void)state;
    struct client_counts *counts = client_counts_create();
    struct client_count *first = add(counts, "192.0.2.1", 2);
    struct client_count *second = add(counts, "192.0.2.1", 2);
    assert_non_null(first);
    assert_ptr_equal(first, second);
    assert_null(add(counts, "192.0.2.1", 2));
    struct client_count *other = add(counts, "192.0.2.2", 2);
    assert_non_null(other);
    assert_int_equal(client_counts_addresses(counts), 2);
    client_counts_remove(counts, second);
    second = add(counts, "192.0.2.1", 2);
    assert_non_null(second);
    client_counts_remove(counts, first);
    client_counts_remove(counts, second);
    client_counts_remove(counts, other);
    client_counts_remove(counts, NULL);
    assert_int_equal(client_counts_addresses(counts), 0);
    client_counts_destroy(counts);
}

static void what_is_one_client(void **state) {
    (void)state;
    struct client_counts *counts = client_counts_create();
    /* One IPv6 host has a network of 64 bits to choose addresses from. */
    struct client_count *ipv6 = add(counts, "2001:db8:1:2::1", 1);
    assert_non_null(ipv6);
    assert_null(add(counts, "2001:db8:1:2:ffff::9", 1));
    struct client_count *next_network = add(counts, "2001:db8:1:3::1", 1);
    assert_non_null(next_network);
    /* A listener of both kinds sees IPv4 clients in IPv6's clothes. */
    struct client_count *ipv4 = add(counts, "192.0.2.1", 1);
    assert_non_null(ipv4);
    assert_null(add(counts, "::ffff:192.0.2.1", 1));
    client_counts_remove(counts, ipv6);
    client_counts_remove(counts, next_network);
    client_counts_remove(counts, ipv4);
    client_counts_destroy(counts);
}

static void users_of_a_unix_socket_are_clients(void **state) {
    (void)state;
    struct client_counts *counts = client_counts_create();
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const struct sockaddr from = {.sa_family = AF_UNIX};
    struct client_count *one = client_counts_add(counts, pair[0], &from, 1);
    assert_non_null(one);
    assert_null(client_counts_add(counts, pair[1], &from, 1));
    client_counts_remove(counts, one);
    client_counts_destroy(counts);
    close(pair[0]);
    close(pair[1]);
}

static void many_addresses(void **state) {
    (void)state;
    enum { N = 20000 };
    static struct client_count *all[N];
    struct client_counts *counts = client_counts_create();
    for (uint32_t i = 0; i < N; i++) {
        struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(i)};
        all[i] = client_counts_add(counts, -1, (const struct sockaddr *)&from, 1);
        assert_non_null(all[i]);
    }
    assert_int_equal(client_counts_addresses(counts), N);
    for (size_t i = 0; i < N; i++) {
        client_counts_remove(counts, all[i]);
    }
    assert_int_equal(client_counts_addresses(counts), 0);
    client_counts_destroy(counts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_its_share_and_no_more),
        cmocka_unit_test(what_is_one_client),
        cmocka_unit_test(users_of_a_unix_socket_are_clients),
        cmocka_unit_test(many_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
