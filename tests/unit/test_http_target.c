#include "net/http_fields.h"
#include "net/http_target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void percent_signs_are_decoded(void **state) {
    struct buffer out;
    buffer_init(&out);
    assert_true(http_target_decode(bytes_from_text("a%20b+c%2F%00%fF"), false, &out));
    assert_int_equal(out.size, 8);
    assert_memory_equal(out.data, "a b+c/\0\xff", 8);
    out.size = 0;
    assert_true(http_target_decode(bytes_from_text("a+b%2B"), true, &out));
    assert_memory_equal(out.data, "a b+", 4);
    buffer_clear(&out);
}

static void half_a_percent_sign_is_malformed(void **state) {
    const char *const wrong[] = {"%", "%4", "a%4", "%zz", "%4g", "%-1", "a%%20"};
    struct buffer out;
    buffer_init(&out);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(http_target_decode(bytes_from_text(wrong[i]), false, &out));
        assert_int_equal(out.size, 0);
    }
    buffer_clear(&out);
}

static void a_query_is_a_list_of_pairs(void **state) {
    struct buffer fields;
    struct bytes value;
    buffer_init(&fields);
    assert_true(http_target_parse_query(bytes_from_text("a=1&b&&c=x=y&a=2&=z&d="), &fields));
    assert_true(http_fields_find(&fields, "a", &value));
    assert_true(bytes_equal(value, bytes_from_text("1")));
    assert_true(http_fields_find(&fields, "b", &value));
    assert_int_equal(value.size, 0);
    assert_true(http_fields_find(&fields, "c", &value));
    assert_true(bytes_equal(value, bytes_from_text("x=y")));
    assert_true(http_fields_find(&fields, "", &value));
    assert_true(bytes_equal(value, bytes_from_text("z")));
    assert_true(http_fields_find(&fields, "d", &value));
    assert_false(http_fields_find(&fields, "e", &value));
    assert_false(http_target_parse_query(bytes_from_text("a=1&b=%"), &fields));
    buffer_clear(&fields);
}

static void the_absolute_form_is_split(void **state) {
    struct bytes authority;
    struct bytes rest;
    assert_true(http_target_split_absolute(bytes_from_text("http://a:1/b?c"), &authority, &rest));
    assert_true(bytes_equal(authority, bytes_from_text("a:1")));
    assert_true(bytes_equal(rest, bytes_from_text("/b?c")));
    assert_true(http_target_split_absolute(bytes_from_text("HTTPS://a"), &authority, &rest));
    assert_true(bytes_equal(rest, bytes_from_text("/")));
    assert_false(http_target_split_absolute(bytes_from_text("http://"), &authority, &rest));
    assert_false(http_target_split_absolute(bytes_from_text("http:///a"), &authority, &rest));
    assert_false(http_target_split_absolute(bytes_from_text("http://a?b"), &authority, &rest));
    assert_false(http_target_split_absolute(bytes_from_text("ftp://a/"), &authority, &rest));
    assert_false(http_target_split_absolute(bytes_from_text("h"), &authority, &rest));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percent_signs_are_decoded),
        cmocka_unit_test(half_a_percent_sign_is_malformed),
        cmocka_unit_test(a_query_is_a_list_of_pairs),
        cmocka_unit_test(the_absolute_form_is_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
