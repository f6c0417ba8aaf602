#include "client/endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_one(const char *text, const char *host, uint16_t port) {
    struct endpoint_list list;
    assert_int_equal(endpoint_list_parse(text, &list), STATUS_OK);
    assert_int_equal(list.n_items, 1);
    assert_string_equal(list.items[0].host, host);
    assert_int_equal(list.items[0].port, port);
}

static void expect_refusal(const char *text, enum status expected) {
    struct endpoint_list list = {.n_items = 7};
    assert_int_equal(endpoint_list_parse(text, &list), expected);
    assert_int_equal(list.n_items, 7);
}

static void the_usual_forms_are_read(void **state) {
    expect_one("127.0.0.1:2379", "127.0.0.1", 2379);
    expect_one("localhost", "localhost", ENDPOINT_PORT_DEFAULT);
    expect_one("http://node1:12379", "node1", 12379);
    expect_one("http://node1:12379/", "node1", 12379);
}

static void addresses_of_version_six_are_read(void **state) {
    expect_one("[::1]:1234", "::1", 1234);
    expect_one("[fe80::1]", "fe80::1", ENDPOINT_PORT_DEFAULT);
    expect_one("::1", "::1", ENDPOINT_PORT_DEFAULT);
}

static void several_are_separated_by_commas(void **state) {
    struct endpoint_list list;
    assert_int_equal(endpoint_list_parse("a:1,http://b:2,[::1]:3", &list), STATUS_OK);
    assert_int_equal(list.n_items, 3);
    assert_string_equal(list.items[1].host, "b");
    assert_int_equal(list.items[2].port, 3);
}

static void what_is_no_endpoint_is_refused(void **state) {
    static const char *const texts[] = {
        "",     ",",       "a,",   "a,,b",   ":1",     "a:",    "a:0",      "a:65536",
        "a:1x", "http://", "[::1", "[::1]x", "[::1]:", "a/b:1", "a:123456", "[]:1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect_refusal(texts[i], STATUS_MALFORMED);
    }
}

static void expect_security(const char *text, enum endpoint_security security, const char *path) {
    struct endpoint_list list;
    assert_int_equal(endpoint_list_parse(text, &list), STATUS_OK);
    assert_int_equal(list.items[0].security, security);
    assert_string_equal(list.items[0].path, path);
}

static void schemes_are_told_apart(void **state) {
    expect_security("a:1", ENDPOINT_EITHER, "");
    expect_security("http://a:1", ENDPOINT_PLAIN, "");
    expect_security("https://a:1", ENDPOINT_TLS, "");
    expect_security("unix:///run/leased.sock", ENDPOINT_PLAIN, "/run/leased.sock");
    expect_security("unixs://leased.sock", ENDPOINT_TLS, "leased.sock");
    expect_one("https://[::1]:5/", "::1", 5);
    expect_refusal("unix://", STATUS_MALFORMED);
    expect_refusal("ftp://a:1", STATUS_MALFORMED);
}

static void a_long_path_is_refused_and_the_longest_is_taken(void **state) {
    char text[sizeof "unix://" + ENDPOINT_PATH_SIZE_MAX] = "unix://";
    memset(text + 7, 'p', ENDPOINT_PATH_SIZE_MAX);
    expect_refusal(text, STATUS_MALFORMED);
    text[7 + ENDPOINT_PATH_SIZE_MAX - 1] = '\0';
    expect_security(text, ENDPOINT_PLAIN, text + 7);
}

static void tls_is_for_those_who_may_speak_it(void **state) {
    struct endpoint_list list;
    /* Nothing here looks into it. */
    struct tls_context *tls = (struct tls_context *)&list;
    assert_int_equal(endpoint_list_parse("a:1,http://b:2,https://c:3,unix://d,unixs://e", &list),
                     STATUS_OK);
    list.tls = tls;
    static const bool is_tls[] = {true, false, true, false, true};
    for (size_t i = 0; i < list.n_items; i++) {
        assert_ptr_equal(endpoint_options(&list, i).tls, is_tls[i] ? tls : NULL);
    }
    assert_string_equal(endpoint_options(&list, 0).host, "a");
    assert_null(endpoint_options(&list, 0).socket_path);
    assert_null(endpoint_options(&list, 3).host);
    assert_string_equal(endpoint_options(&list, 3).socket_path, "d");
    list.tls = NULL;
    assert_null(endpoint_options(&list, 0).tls);
}

static void a_long_host_is_refused_and_the_longest_is_taken(void **state) {
    char text[ENDPOINT_HOST_SIZE_MAX + 1];
    memset(text, 'a', sizeof text);
    text[ENDPOINT_HOST_SIZE_MAX] = 0;
    expect_refusal(text, STATUS_MALFORMED);
    text[ENDPOINT_HOST_SIZE_MAX - 1] = 0;
    expect_one(text, text, ENDPOINT_PORT_DEFAULT);
}

static void more_than_the_limit_is_refused(void **state) {
    char text[2 * (ENDPOINTS_MAX + 1) + 1] = "";
    for (size_t i = 0; i < ENDPOINTS_MAX; i++) {
        strcat(text, i == 0 ? "a" : ",a");
    }
    struct endpoint_list list;
    assert_int_equal(endpoint_list_parse(text, &list), STATUS_OK);
    assert_int_equal(list.n_items, ENDPOINTS_MAX);
    strcat(text, ",a");
    expect_refusal(text, STATUS_INVALID);
}

static void formatting_puts_brackets_where_they_belong(void **state) {
    char room[ENDPOINT_TEXT_SIZE_MAX];
    struct endpoint six = {.host = "::1", .port = 5};
    struct endpoint name = {.host = "a", .port = 6};
    assert_string_equal(endpoint_format(&six, room), "[::1]:5");
    struct endpoint path = {.path = "/run/s"};
    assert_string_equal(endpoint_format(&path, room), "unix:///run/s");
    assert_string_equal(endpoint_format(&name, room), "a:6");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_forms_are_read),
        cmocka_unit_test(addresses_of_version_six_are_read),
        cmocka_unit_test(several_are_separated_by_commas),
        cmocka_unit_test(what_is_no_endpoint_is_refused),
        cmocka_unit_test(schemes_are_told_apart),
        cmocka_unit_test(a_long_path_is_refused_and_the_longest_is_taken),
        cmocka_unit_test(tls_is_for_those_who_may_speak_it),
        cmocka_unit_test(a_long_host_is_refused_and_the_longest_is_taken),
        cmocka_unit_test(more_than_the_limit_is_refused),
        cmocka_unit_test(formatting_puts_brackets_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
