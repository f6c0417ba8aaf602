#include "base/host_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *text, uint16_t port_default, const char *host, uint16_t port) {
    struct host_port parsed;
    const char *reason = NULL;
    assert_int_equal(host_port_parse(bytes_from_text(text), port_default, &parsed, &reason),
                     STATUS_OK);
    assert_string_equal(parsed.host, host);
    assert_int_equal(parsed.port, port);
}

static void expect_refusal(const char *text, uint16_t port_default, const char *reason_part) {
    struct host_port parsed = {.port = 7};
    const char *reason = NULL;
    assert_int_equal(host_port_parse(bytes_from_text(text), port_default, &parsed, &reason),
                     STATUS_MALFORMED);
    assert_non_null(strstr(reason, reason_part));
    assert_int_equal(parsed.port, 7); /* the output is left alone */
}

static void names_and_addresses_are_read(void **state) {
    expect("127.0.0.1:2379", 0, "127.0.0.1", 2379);
    expect("node-1.example_a:65535", 0, "node-1.example_a", 65535);
    expect("[::1]:1", 0, "::1", 1);
    expect("[fe80::1%eth0]:80", 0, "fe80::1%eth0", 80);
}

static void a_default_port_may_be_left_out(void **state) {
    expect("localhost", 2379, "localhost", 2379);
    expect("[::1]", 2379, "::1", 2379);
    expect("::1", 2379, "::1", 2379);
    expect("localhost:80", 2379, "localhost", 80);
    expect_refusal("localhost:", 2379, "1 to 65535");
    expect_refusal("", 2379, "neither an address nor a name");
}

static void what_is_missing_or_wrong_is_named(void **state) {
    expect_refusal("", 0, "port is missing");
    expect_refusal("localhost", 0, "port is missing");
    expect_refusal("[::1", 0, "port is missing");
    expect_refusal("[::1]80", 0, "port is missing");
    expect_refusal("::1:80", 0, "neither an address nor a name");
    expect_refusal(":80", 0, "neither an address nor a name");
    expect_refusal("a b:80", 0, "neither an address nor a name");
    expect_refusal("a/b:80", 0, "neither an address nor a name");
    expect_refusal("127.0.1:80", 0, "neither an address nor a name");
    expect_refusal("300.0.0.1:80", 0, "neither an address nor a name");
    expect_refusal("[127.0.0.1]:80", 0, "neither an address nor a name");
    expect_refusal("[]:80", 0, "neither an address nor a name");
    expect_refusal("[fe80::1%]:80", 0, "neither an address nor a name");
    expect_refusal("[fe80::1%e/0]:80", 0, "neither an address nor a name");
    expect_refusal("a:0", 0, "1 to 65535");
    expect_refusal("a:65536", 0, "1 to 65535");
    expect_refusal("a:123456", 0, "1 to 65535");
    expect_refusal("a:-1", 0, "1 to 65535");
    expect_refusal("a:1x", 0, "1 to 65535");
}

static void a_byte_that_ends_texts_is_no_part_of_a_host(void **state) {
    struct host_port parsed;
    const char *reason = NULL;
    assert_int_equal(host_port_parse(bytes_of("a\0b:80", 6), 0, &parsed, &reason),
                     STATUS_MALFORMED);
}

static void the_longest_host_is_taken_and_a_longer_one_refused(void **state) {
    char text[HOST_PORT_HOST_SIZE_MAX + 8];
    memset(text, 'a', sizeof text);
    strcpy(text + HOST_PORT_HOST_SIZE_MAX, ":80");
    struct host_port parsed;
    const char *reason = NULL;
    assert_int_equal(host_port_parse(bytes_from_text(text), 0, &parsed, &reason), STATUS_OK);
    text[HOST_PORT_HOST_SIZE_MAX] = 'a';
    strcpy(text + HOST_PORT_HOST_SIZE_MAX + 1, ":80");
    expect_refusal(text, 0, "too long");
}

static void formatting_puts_brackets_around_ipv6(void **state) {
    char room[HOST_PORT_TEXT_SIZE_MAX];
    assert_string_equal(host_port_format("::1", 65535, room), "[::1]:65535");
    assert_string_equal(host_port_format("a", 6, room), "a:6");
    char service[HOST_PORT_PORT_SIZE_MAX];
    assert_string_equal(host_port_service(65535, service), "65535");
}

static void loopback_and_wildcard_are_known(void **state) {
    assert_true(host_is_loopback("127.9.9.9"));
    assert_true(host_is_loopback("::1"));
    assert_true(host_is_loopback("::ffff:127.0.0.1"));
    assert_true(host_is_loopback("LOCALHOST"));
    assert_false(host_is_loopback("128.0.0.1"));
    assert_false(host_is_loopback("localhost.example"));
    assert_true(host_is_wildcard("0.0.0.0"));
    assert_true(host_is_wildcard("::"));
    assert_false(host_is_wildcard("::1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_addresses_are_read),
        cmocka_unit_test(a_default_port_may_be_left_out),
        cmocka_unit_test(what_is_missing_or_wrong_is_named),
        cmocka_unit_test(a_byte_that_ends_texts_is_no_part_of_a_host),
        cmocka_unit_test(the_longest_host_is_taken_and_a_longer_one_refused),
        cmocka_unit_test(formatting_puts_brackets_around_ipv6),
        cmocka_unit_test(loopback_and_wildcard_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
