/* The lists of --cors and --host-whitelist. */
#include "doors/etcd/etcd_access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_listed(const char *list, const char *name) {
    return etcd_access_is_listed(list, bytes_from_text(name));
}

static void names_are_compared_whole(void **state) {
    (void)state;
    assert_true(is_listed("*", "anything"));
    assert_true(is_listed("a.example,*", ""));
    assert_true(is_listed("a.example", "A.Example"));
    assert_true(is_listed("b, a.example ,c", "a.example"));
    assert_false(is_listed("a.example", "a.example.org"));
    assert_false(is_listed("a.example", "a.exampl"));
    assert_false(is_listed("a.example", ""));
    assert_false(is_listed("", ""));
    assert_false(is_listed(",,", ""));
    assert_false(is_listed("*.example", "a.example"));
}

static void assert_host(const char *header, const char *host) {
    assert_true(bytes_equal(etcd_access_host(bytes_from_text(header)), bytes_from_text(host)));
}

static void a_host_has_no_port(void **state) {
    (void)state;
    assert_host("a.example", "a.example");
    assert_host("a.example:2379", "a.example");
    assert_host("127.0.0.1:1", "127.0.0.1");
    assert_host("[::1]:2379", "::1");
    assert_host("[::1]", "::1");
    assert_host("[::1", "[::1");
    assert_host("", "");
    assert_host(":1", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_compared_whole),
        cmocka_unit_test(a_host_has_no_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
