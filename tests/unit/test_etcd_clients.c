#include "doors/etcd/etcd_clients.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void count(struct etcd_clients *clients, const char *version, enum etcd_client_kind kind) {
    etcd_clients_count(clients, bytes_from_text(version), kind);
}

static void calls_are_counted_by_version_and_kind(void **state) {
    (void)state;
    struct etcd_clients clients = {0};
    count(&clients, "3.5", ETCD_CLIENT_UNARY);
    count(&clients, "3.4.23", ETCD_CLIENT_UNARY);
    count(&clients, "3.5", ETCD_CLIENT_UNARY);
    count(&clients, "3.5", ETCD_CLIENT_STREAM);
    count(&clients, "", ETCD_CLIENT_STREAM);
    assert_int_equal(clients.n, 3);
    assert_string_equal(clients.versions[0].text, "unknown");
    assert_int_equal(clients.versions[0].calls[ETCD_CLIENT_STREAM], 1);
    assert_string_equal(clients.versions[1].text, "3.5");
    assert_int_equal(clients.versions[1].calls[ETCD_CLIENT_UNARY], 2);
    assert_int_equal(clients.versions[1].calls[ETCD_CLIENT_STREAM], 1);
    assert_string_equal(clients.versions[2].text, "3.4.23");
}

static void what_is_no_version_is_unknown(void **state) {
    (void)state;
    struct etcd_clients clients = {0};
    static const char *const texts[] = {"3.5\"} 1\nfake 2", "v3",   "unknown", "3.5 ",
                                        "1234567890123456", "3.5\\"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        count(&clients, texts[i], ETCD_CLIENT_UNARY);
    }
    assert_int_equal(clients.n, 1);
    assert_int_equal(clients.versions[0].calls[ETCD_CLIENT_UNARY], sizeof texts / sizeof texts[0]);
}

static void a_client_cannot_make_labels_without_end(void **state) {
    (void)state;
    enum { CALLS = 1000 };
    struct etcd_clients clients = {0};
    for (int i = 0; i < CALLS; i++) {
        char text[ETCD_CLIENT_VERSION_SIZE];
        snprintf(text, sizeof text, "9.%d", i);
        count(&clients, text, ETCD_CLIENT_UNARY);
    }
    assert_int_equal(clients.n, ETCD_CLIENT_VERSIONS_MAX);
    assert_int_equal(clients.versions[0].calls[ETCD_CLIENT_UNARY],
                     CALLS - (ETCD_CLIENT_VERSIONS_MAX - 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_version_and_kind),
        cmocka_unit_test(what_is_no_version_is_unknown),
        cmocka_unit_test(a_client_cannot_make_labels_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
