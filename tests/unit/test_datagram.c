/* UDP: a handler that echoes, and what it never sees. */
#include "net/datagram.h"
#include "net/datagram_rate.h"
#include "net_fixture.h"

#include <netdb.h>

enum { SIZE_MAX_OF_TEST = 512, RATE_OF_TEST = 20 };

struct echo {
    unsigned n_received;
    size_t last_size;
};

static void echo_on_datagram(void *context, struct datagram_socket *socket,
                             const struct datagram_source *source, struct bytes bytes) {
    struct echo *echo = context;
    echo->n_received++;
    echo->last_size = bytes.size;
    assert_true(datagram_send(socket, source, bytes));
}

static const struct datagram_handler echo_handler = {.name = "echo",
                                                     .size_max = SIZE_MAX_OF_TEST,
                                                     .rate_max = RATE_OF_TEST,
                                                     .on_datagram = echo_on_datagram};

static struct fixture *start(struct echo *echo, const char *host) {
    struct fixture *fixture = malloc(sizeof *fixture);
    char error[256] = "";
    fixture_start(fixture, &net_limits_default, NULL, 0);
    const struct net_datagram_options options = {
        .host = host, .handler = &echo_handler, .context = echo};
    assert_int_equal(
        net_server_listen_datagrams(fixture->server, &options, &fixture->port, error, sizeof error),
        STATUS_OK);
    return fixture;
}

static void stop(struct fixture *fixture) {
    fixture_stop(fixture);
    free(fixture);
}

static int udp_connect(const char *host, uint16_t port) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *address = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    assert_int_equal(getaddrinfo(host, service, &hints, &address), 0);
    int fd = socket(address->ai_family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    /* Connected, so that an answer from another address than the one asked never arrives. */
    assert_int_equal(connect(fd, address->ai_addr, address->ai_addrlen), 0);
    freeaddrinfo(address);
    return fd;
}

static void wait_until(struct fixture *fixture, const unsigned *counter, unsigned wanted) {
    uint64_t start_ms = clock_boottime_ms();
    while (*counter < wanted) {
        fixture_turn(fixture);
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
    }
}

static void assert_echoes(struct fixture *fixture, struct echo *echo, const char *host) {
    int fd = udp_connect(host, fixture->port);
    unsigned n_before = echo->n_received;
    char answer[64];
    raw_send(fd, "ping", 4);
    wait_until(fixture, &echo->n_received, n_before + 1);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MS_MAX), 1);
    assert_int_equal(recv(fd, answer, sizeof answer, 0), 4);
    assert_memory_equal(answer, "ping", 4);
    close(fd);
}

static void datagrams_are_answered(void **state) {
    struct echo echo = {0};
    struct fixture *fixture = start(&echo, "127.0.0.1");
    assert_echoes(fixture, &echo, "127.0.0.1");
    assert_int_equal(fixture_stats(fixture).datagrams_received, 1);
    assert_int_equal(fixture_stats(fixture).datagrams_dropped, 0);
    stop(fixture);
}

/* Bound to all addresses, an answer leaves from the one that was asked. */
static void answers_leave_from_the_address_that_was_asked(void **state) {
    struct echo echo = {0};
    struct fixture *fixture = start(&echo, "0.0.0.0");
    assert_echoes(fixture, &echo, "127.0.0.2");
    assert_echoes(fixture, &echo, "127.0.0.3");
    stop(fixture);
}

static void one_socket_serves_both_kinds_of_addresses(void **state) {
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_ipv6 = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (!has_ipv6) {
        skip();
    }
    struct echo echo = {0};
    struct fixture *fixture = start(&echo, "::");
    assert_echoes(fixture, &echo, "::1");
    assert_echoes(fixture, &echo, "127.0.0.2");
    stop(fixture);
}

static void too_large_datagrams_are_dropped(void **state) {
    struct echo echo = {0};
    struct fixture *fixture = start(&echo, "127.0.0.1");
    uint8_t data[SIZE_MAX_OF_TEST + 1] = {0};
    int fd = udp_connect("127.0.0.1", fixture->port);
    raw_send(fd, data, SIZE_MAX_OF_TEST + 1);
    raw_send(fd, data, SIZE_MAX_OF_TEST);
    raw_send(fd, data, 0);
    wait_until(fixture, &echo.n_received, 2);
    assert_int_equal(echo.last_size, 0);
    assert_int_equal(fixture_stats(fixture).datagrams_dropped, 1);
    close(fd);
    stop(fixture);
}

static void one_network_cannot_flood(void **state) {
    struct echo echo = {0};
    struct fixture *fixture = start(&echo, "127.0.0.1");
    int fd = udp_connect("127.0.0.1", fixture->port);
    uint64_t start_ms = clock_boottime_ms();
    for (unsigned i = 0; i < 10 * RATE_OF_TEST; i++) {
        raw_send(fd, "x", 1);
    }
    while (fixture_stats(fixture).datagrams_received < 10 * RATE_OF_TEST) {
        fixture_turn(fixture);
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
    }
    uint64_t passed_ms = clock_boottime_ms() - start_ms;
    assert_in_range(echo.n_received, RATE_OF_TEST,
                    RATE_OF_TEST + 1 + passed_ms * RATE_OF_TEST / 1000);
    assert_int_equal(fixture_stats(fixture).datagrams_dropped, 10 * RATE_OF_TEST - echo.n_received);
    close(fd);
    stop(fixture);
}

static bool allow(struct datagram_rate *rate, const char *host, uint64_t now_ms) {
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};
    if (inet_pton(AF_INET6, host, &ipv6.sin6_addr) == 1) {
        return datagram_rate_allow(rate, (struct sockaddr *)&ipv6, now_ms);
    }
    assert_int_equal(inet_pton(AF_INET, host, &ipv4.sin_addr), 1);
    return datagram_rate_allow(rate, (struct sockaddr *)&ipv4, now_ms);
}

static void rate_is_counted_by_network_and_comes_back(void **state) {
    struct datagram_rate *rate = datagram_rate_create(2);
    assert_true(allow(rate, "192.0.2.1", 1000));
    assert_true(allow(rate, "192.0.2.200", 1000));
    assert_false(allow(rate, "192.0.2.3", 1000));
    assert_false(allow(rate, "::ffff:192.0.2.4", 1000));
    assert_false(allow(rate, "192.0.2.1", 1499));
    assert_true(allow(rate, "192.0.2.1", 1500));
    assert_false(allow(rate, "192.0.2.1", 1501));
    assert_true(allow(rate, "192.0.2.1", 100000));
    assert_true(allow(rate, "192.0.2.1", 100000));
    assert_false(allow(rate, "192.0.2.1", 100000));
    datagram_rate_destroy(rate);

    rate = datagram_rate_create(1);
    assert_true(allow(rate, "2001:db8:1:2ff::1", 1000));
    assert_false(allow(rate, "2001:db8:1:201::2", 1000));
    datagram_rate_destroy(rate);
}

static void networks_are_told_apart(void **state) {
    struct datagram_rate *rate = datagram_rate_create(1);
    unsigned n_allowed = 0;
    for (unsigned i = 0; i < 256; i++) {
        char host[32];
        snprintf(host, sizeof host, "10.0.%u.1", i);
        n_allowed += allow(rate, host, 1000);
    }
    /* A few share a bucket; how many depends on the keys. */
    assert_in_range(n_allowed, 180, 256);
    datagram_rate_destroy(rate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(datagrams_are_answered),
        cmocka_unit_test(answers_leave_from_the_address_that_was_asked),
        cmocka_unit_test(one_socket_serves_both_kinds_of_addresses),
        cmocka_unit_test(too_large_datagrams_are_dropped),
        cmocka_unit_test(one_network_cannot_flood),
        cmocka_unit_test(rate_is_counted_by_network_and_comes_back),
        cmocka_unit_test(networks_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
