#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/url.h"

#include <string.h>

static struct arena arena;

static int set_up(void **state) {
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state) {
    arena_clear(&arena);
    return 0;
}

static void assert_parses(const char *text, const char *host, uint16_t port, const char *normal) {
    struct url url;
    char error[256] = "";
    assert_int_equal(url_parse(text, &url, error, sizeof error), STATUS_OK);
    assert_string_equal(url.host, host);
    assert_int_equal(url.port, port);
    assert_string_equal(url_text(&url, &arena), normal);
}

static void assert_refused(const char *text, const char *reason) {
    struct url url = {.port = 7};
    char error[256] = "";
    assert_int_equal(url_parse(text, &url, error, sizeof error), STATUS_INVALID);
    if (strstr(error, reason) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", text, error, reason);
    }
    assert_int_equal(url.port, 7); /* the output is left alone */
}

static void a_url_has_scheme_host_and_port(void **state) {
    assert_parses("http://127.0.0.1:2379", "127.0.0.1", 2379, "http://127.0.0.1:2379");
    assert_parses("http://localhost:1", "localhost", 1, "http://localhost:1");
    assert_parses("HTTP://node-1.example:65535/", "node-1.example", 65535,
                  "http://node-1.example:65535");
    assert_parses("https://h:443", "h", 443, "https://h:443");
}

static void an_ipv6_host_stands_in_brackets(void **state) {
    assert_parses("http://[::1]:2379", "::1", 2379, "http://[::1]:2379");
    struct url url;
    char error[256];
    assert_int_equal(url_parse("http://[fe80::1]:80", &url, error, sizeof error), STATUS_OK);
    assert_string_equal(url_address(&url, &arena), "[fe80::1]:80");
    assert_refused("http://::1:2379", "neither an address nor a name");
    assert_refused("http://[::1", "port is missing");
    assert_refused("http://[::1]2379", "port is missing");
    assert_refused("http://[127.0.0.1]:2379", "neither an address nor a name");
}

static void what_is_not_a_url_is_refused_with_a_reason(void **state) {
    assert_refused("", "looks like");
    assert_refused("127.0.0.1:2379", "looks like");
    assert_refused("ftp://a:1", "looks like");
    assert_refused("unix://", "path of the socket is missing");
    assert_refused("unix:/run/socket", "looks like");
    assert_refused("unixs:///run/a\nb", "control character");
    assert_refused("http://", "port is missing");
    assert_refused("http://host", "port is missing");
    assert_refused("http://host:", "1 to 65535");
    assert_refused("http://:0", "neither an address nor a name");
    assert_refused("http://host:00", "1 to 65535");
    assert_refused("http://host:65536", "1 to 65535");
    assert_refused("http://host:99999999999999999999", "1 to 65535");
    assert_refused("http://host:12x", "1 to 65535");
    assert_refused("http://host:-1", "1 to 65535");
    assert_refused("http://:80", "neither an address nor a name");
    assert_refused("http://a b:80", "neither an address nor a name");
    assert_refused("http://127.0.1:80", "neither an address nor a name");
    assert_refused("http://300.0.0.1:80", "neither an address nor a name");
    assert_refused("http://host:80/path", "no path");
    assert_refused("http://host:80?query", "no path");
    assert_refused("http://user@host:80", "user name");
}

static void a_host_name_longer_than_dns_allows_is_refused(void **state) {
    char text[400] = "http://";
    memset(text + 7, 'a', URL_HOST_SIZE_MAX);
    strcpy(text + 7 + URL_HOST_SIZE_MAX, ":80");
    struct url url;
    char error[512];
    assert_int_equal(url_parse(text, &url, error, sizeof error), STATUS_OK);
    memset(text + 7, 'a', URL_HOST_SIZE_MAX + 1);
    strcpy(text + 7 + URL_HOST_SIZE_MAX + 1, ":80");
    assert_int_equal(url_parse(text, &url, error, sizeof error), STATUS_INVALID);
}

static void a_list_has_commas_between_urls(void **state) {
    struct url_list list;
    char error[256];
    assert_int_equal(
        url_list_parse("http://127.0.0.1:1,http://[::1]:2/", &arena, &list, error, sizeof error),
        STATUS_OK);
    assert_int_equal(list.n, 2);
    assert_string_equal(list.texts[0], "http://127.0.0.1:1");
    assert_string_equal(list.texts[1], "http://[::1]:2");
    assert_null(list.texts[2]);

    assert_int_equal(url_list_parse("http://a:1,", &arena, &list, error, sizeof error),
                     STATUS_INVALID);
    assert_int_equal(list.n, 2);
}

static void a_list_is_bounded(void **state) {
    char text[(URL_LIST_MAX + 1) * 12] = "";
    struct url_list list;
    char error[1024];
    for (int i = 0; i < URL_LIST_MAX; i++) {
        strcat(text, i == 0 ? "http://a:1" : ",http://a:1");
    }
    assert_int_equal(url_list_parse(text, &arena, &list, error, sizeof error), STATUS_OK);
    strcat(text, ",http://a:1");
    assert_int_equal(url_list_parse(text, &arena, &list, error, sizeof error), STATUS_INVALID);
}

static void lists_are_equal_in_whatever_order(void **state) {
    struct url_list a;
    struct url_list b;
    struct url_list c;
    char error[256];
    url_list_parse("http://x:1,http://y:2", &arena, &a, error, sizeof error);
    url_list_parse("http://y:2/,http://x:1", &arena, &b, error, sizeof error);
    url_list_parse("http://y:2", &arena, &c, error, sizeof error);
    assert_true(url_list_equal(&a, &b));
    assert_false(url_list_equal(&a, &c));
    assert_false(url_list_equal(&c, &a));
}

static void unix_sockets_have_a_path(void **state) {
    struct url url;
    struct arena arena;
    char error[256];
    char text[sizeof "unix://" + URL_PATH_SIZE_MAX + 1];
    arena_init(&arena);
    assert_int_equal(url_parse("unix:///run/leased.sock", &url, error, sizeof error), STATUS_OK);
    assert_int_equal(url.scheme, URL_UNIX);
    assert_string_equal(url.path, "/run/leased.sock");
    assert_string_equal(url.host, "");
    assert_true(url_is_unix(&url));
    assert_false(url_is_tls(&url));
    assert_true(url_is_loopback(&url));
    assert_false(url_is_wildcard(&url));
    assert_string_equal(url_text(&url, &arena), "unix:///run/leased.sock");
    assert_int_equal(url_parse("UNIXS://here.sock", &url, error, sizeof error), STATUS_OK);
    assert_string_equal(url.path, "here.sock");
    assert_true(url_is_unix(&url));
    assert_true(url_is_tls(&url));
    assert_string_equal(url_text(&url, &arena), "unixs://here.sock");

    memset(text, 'x', sizeof text);
    memcpy(text, "unix://", strlen("unix://"));
    text[sizeof text - 2] = '\0';
    assert_int_equal(url_parse(text, &url, error, sizeof error), STATUS_OK);
    text[sizeof text - 2] = 'x';
    text[sizeof text - 1] = '\0';
    assert_int_equal(url_parse(text, &url, error, sizeof error), STATUS_INVALID);
    assert_non_null(strstr(error, "at most 107 bytes"));
    arena_clear(&arena);
}

static bool loopback(const char *text) {
    struct url url;
    char error[256];
    assert_int_equal(url_parse(text, &url, error, sizeof error), STATUS_OK);
    return url_is_loopback(&url);
}

static void only_what_this_machine_alone_reaches_is_loopback(void **state) {
    assert_true(loopback("http://127.0.0.1:1"));
    assert_true(loopback("http://127.8.9.10:1"));
    assert_true(loopback("http://[::1]:1"));
    assert_true(loopback("http://[::ffff:127.0.0.1]:1"));
    assert_true(loopback("http://LocalHost:1"));
    assert_false(loopback("http://0.0.0.0:1"));
    assert_false(loopback("http://[::]:1"));
    assert_false(loopback("http://[::ffff:10.0.0.1]:1"));
    assert_false(loopback("http://128.0.0.1:1"));
    assert_false(loopback("http://localhost.example:1"));
    assert_false(loopback("http://127.example:1"));
}

static void wildcards_are_known(void **state) {
    struct url url;
    char error[256];
    url_parse("http://0.0.0.0:1", &url, error, sizeof error);
    assert_true(url_is_wildcard(&url));
    url_parse("http://[::]:1", &url, error, sizeof error);
    assert_true(url_is_wildcard(&url));
    url_parse("http://127.0.0.1:1", &url, error, sizeof error);
    assert_false(url_is_wildcard(&url));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_url_has_scheme_host_and_port, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_ipv6_host_stands_in_brackets, set_up, tear_down),
        cmocka_unit_test(what_is_not_a_url_is_refused_with_a_reason),
        cmocka_unit_test(a_host_name_longer_than_dns_allows_is_refused),
        cmocka_unit_test_setup_teardown(a_list_has_commas_between_urls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_list_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lists_are_equal_in_whatever_order, set_up, tear_down),
        cmocka_unit_test(only_what_this_machine_alone_reaches_is_loopback),
        cmocka_unit_test(unix_sockets_have_a_path),
        cmocka_unit_test(wildcards_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
