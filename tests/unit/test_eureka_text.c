#include "doors/eureka/eureka_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef void write_function(struct buffer *out, struct bytes text);

static void check_bytes(write_function *write, struct bytes text, const char *wanted) {
    struct buffer out;
    buffer_init(&out);
    write(&out, text);
    buffer_put_u8(&out, 0);
    assert_string_equal((const char *)out.data, wanted);
    buffer_clear(&out);
}

static void check(write_function *write, const char *text, const char *wanted) {
    check_bytes(write, bytes_from_text(text), wanted);
}

static void json_escapes_what_it_must(void **state) {
    check(eureka_text_json, "a\"b\\c\n\t\x01", "\"a\\\"b\\\\c\\n\\u0009\\u0001\"");
    check(eureka_text_json, "\xC3\xA9\xF0\x9F\x98\x80", "\"\xC3\xA9\xF0\x9F\x98\x80\"");
}

static void what_is_not_text_is_replaced(void **state) {
    check(eureka_text_json, "\xFF\xC3", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    /* A surrogate, one that is too long, one beyond the last character. */
    check(eureka_text_xml, "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    check(eureka_text_xml, "\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD");
    check(eureka_text_xml, "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void xml_escapes_what_it_must(void **state) {
    check(eureka_text_xml, "<a href=\"x\">&\r\n", "&lt;a href=&quot;x&quot;&gt;&amp;&#xd;&#xa;");
    check_bytes(eureka_text_xml, bytes_of("\0\x0C", 2), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void what_xml_has_no_place_for_is_told(void **state) {
    assert_true(eureka_text_fits_xml(bytes_from_text("web-1:\t\xC3\xA9\xEF\xBF\xBD")));
    assert_true(eureka_text_fits_xml(bytes_from_text("\xEE\xBF\xBF\xF0\x9F\xBF\xBF")));
    assert_false(eureka_text_fits_xml(bytes_from_text("a\xEF\xBF\xBE")));
    assert_false(eureka_text_fits_xml(bytes_from_text("\xEF\xBF\xBF"
                                                      "a")));
    assert_false(eureka_text_fits_xml(bytes_from_text("a\x1F")));
}

static void names_become_elements_and_come_back(void **state) {
    static const struct {
        const char *name;
        const char *element;
    } names[] = {
        {"management.port", "management.port"},
        {"a_b", "a__b"},
        {"a$b", "a_-b"},
        {"1st", "_.0031st"},
        {"a b:c", "a_.0020b_.003ac"},
        {"\xC3\xA9", "_.00e9"},
        {"\xF0\x9F\x98\x80", "_.d83d_.de00"},
        {"_.0041", "__.0041"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check(eureka_text_encode_name, names[i].name, names[i].element);
        check(eureka_text_decode_name, names[i].element, names[i].name);
    }
}

static void what_is_no_escape_stays(void **state) {
    static const char *const names[] = {"a_b",    "a_",     "_.00",  "_.00zz",
                                        "_.d83d", "_.dc00", "_.0000"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check(eureka_text_decode_name, names[i], names[i]);
    }
    check(eureka_text_decode_name, "_.d83d_.0041", "_.d83dA");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_escapes_what_it_must),
        cmocka_unit_test(what_is_not_text_is_replaced),
        cmocka_unit_test(xml_escapes_what_it_must),
        cmocka_unit_test(what_xml_has_no_place_for_is_told),
        cmocka_unit_test(names_become_elements_and_come_back),
        cmocka_unit_test(what_is_no_escape_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
