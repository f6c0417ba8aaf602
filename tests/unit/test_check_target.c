#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "checks/check_request.h"
#include "checks/check_target.h"

#include <string.h>

static struct registry_check check_of(uint8_t kind, const char *target) {
    return (struct registry_check){.kind = kind, .target = bytes_from_text(target)};
}

static void expect(uint8_t kind, const char *text, const char *host, uint16_t port, bool is_tls,
                   const char *path) {
    struct registry_check check = check_of(kind, text);
    struct check_target target;
    const char *reason = NULL;
    assert_true(check_target_parse(&check, &target, &reason));
    assert_string_equal(target.address.host, host);
    assert_int_equal(target.address.port, port);
    assert_int_equal(target.is_tls, is_tls);
    assert_true(bytes_equal(target.path, bytes_from_text(path)));
}

static void refuse(uint8_t kind, const char *text) {
    struct registry_check check = check_of(kind, text);
    struct check_target target;
    const char *reason = NULL;
    assert_false(check_target_parse(&check, &target, &reason));
    assert_non_null(reason);
}

static void urls_are_read(void **state) {
    (void)state;
    expect(REGISTRY_CHECK_HTTP, "http://10.0.0.1:8080/health?x=1#y", "10.0.0.1", 8080, false,
           "/health?x=1");
    expect(REGISTRY_CHECK_HTTP, "https://web", "web", 443, true, "");
    expect(REGISTRY_CHECK_HTTP, "HTTP://[::1]?a", "::1", 80, false, "?a");
    refuse(REGISTRY_CHECK_HTTP, "ftp://host/");
    refuse(REGISTRY_CHECK_HTTP, "http://user:password@host/");
    refuse(REGISTRY_CHECK_HTTP, "http:///path");
    refuse(REGISTRY_CHECK_HTTP, "http://host:0/");
    refuse(REGISTRY_CHECK_HTTP, "http://host/a b");
    refuse(REGISTRY_CHECK_HTTP, "http://host/\r\nX: y");
    refuse(REGISTRY_CHECK_HTTP, "");
}

static void addresses_are_read(void **state) {
    (void)state;
    expect(REGISTRY_CHECK_TCP, "10.0.0.1:22", "10.0.0.1", 22, false, "");
    expect(REGISTRY_CHECK_TCP, "tcp://db:5432", "db", 5432, false, "");
    expect(REGISTRY_CHECK_GRPC, "10.0.0.1:50051", "10.0.0.1", 50051, false, "");
    expect(REGISTRY_CHECK_GRPC, "host:1/my.Service", "host", 1, false, "my.Service");
    refuse(REGISTRY_CHECK_TCP, "10.0.0.1");
    refuse(REGISTRY_CHECK_TCP, "10.0.0.1:99999");
    refuse(REGISTRY_CHECK_GRPC, "/service");
}

static bool write_request(struct registry_check *check, struct buffer *out) {
    struct check_target target;
    const char *reason = NULL;
    buffer_init(out);
    assert_true(check_target_parse(check, &target, &reason));
    return check_request_write(out, check, &target, &reason);
}

static void a_request_is_what_was_registered(void **state) {
    (void)state;
    const struct registry_pair headers[] = {
        {bytes_from_text("X-Key"), bytes_from_text("value")},
        {bytes_from_text("Content-Length"), bytes_from_text("99")},
        {bytes_from_text("host"), bytes_from_text("other")},
    };
    struct registry_check check = check_of(REGISTRY_CHECK_HTTP, "http://web:81?q");
    struct buffer out;
    check.method = bytes_from_text("PUT");
    check.headers = headers;
    check.n_headers = 3;
    check.body = bytes_from_text("{}");
    assert_true(write_request(&check, &out));
    const char *expected = "PUT /?q HTTP/1.1\r\nX-Key: value\r\nhost: other\r\n"
                           "User-Agent: leased-health-check\r\nContent-Length: 2\r\n\r\n{}";
    assert_int_equal(out.size, strlen(expected));
    assert_memory_equal(out.data, expected, out.size);
    buffer_clear(&out);
}

static void nothing_that_was_registered_ends_the_request(void **state) {
    (void)state;
    const struct registry_pair bad[] = {
        {bytes_from_text("X"), bytes_from_text("a\r\nY: b")},
        {bytes_from_text("X: y\r\nZ"), bytes_from_text("a")},
        {bytes_from_text(""), bytes_from_text("a")},
        {bytes_from_text("X"), bytes_of("a\0b", 3)},
    };
    struct buffer out;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct registry_check check = check_of(REGISTRY_CHECK_HTTP, "http://web/");
        check.headers = &bad[i];
        check.n_headers = 1;
        assert_false(write_request(&check, &out));
        buffer_clear(&out);
    }
    struct registry_check check = check_of(REGISTRY_CHECK_HTTP, "http://web/");
    check.method = bytes_from_text("GET / HTTP/1.1\r\n");
    assert_false(write_request(&check, &out));
    buffer_clear(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(a_request_is_what_was_registered),
        cmocka_unit_test(nothing_that_was_registered_ends_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
