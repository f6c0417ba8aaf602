#include "net/sniff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void whole_preface_is_http2(void **state) {
    assert_int_equal(strlen(preface), SNIFF_SIZE_MAX);
    assert_int_equal(sniff_http2(bytes_from_text(preface)), SNIFF_YES);
    assert_int_equal(sniff_http1(bytes_from_text(preface)), SNIFF_NO);
}

static void part_of_the_preface_needs_more(void **state) {
    for (size_t size = 0; size < strlen(preface); size++) {
        assert_int_equal(sniff_http2(bytes_of(preface, size)), SNIFF_MORE);
    }
}

static void preface_with_one_wrong_byte_is_nothing(void **state) {
    for (size_t wrong = 0; wrong < strlen(preface); wrong++) {
        char bytes[sizeof preface];
        memcpy(bytes, preface, sizeof preface);
        bytes[wrong] ^= 0x20;
        assert_int_equal(sniff_http2(bytes_of(bytes, strlen(preface))), SNIFF_NO);
    }
}

static void every_method_is_http1_once_its_space_came(void **state) {
    const char *const methods[] = {"GET ",     "HEAD ",  "POST ",    "PUT ",  "DELETE ",
                                   "OPTIONS ", "PATCH ", "CONNECT ", "TRACE "};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        size_t size = strlen(methods[i]);
        assert_int_equal(sniff_http1(bytes_of(methods[i], size)), SNIFF_YES);
        for (size_t part = 0; part < size; part++) {
            assert_int_equal(sniff_http1(bytes_of(methods[i], part)), SNIFF_MORE);
        }
    }
    assert_int_equal(sniff_http1(bytes_from_text("GET /health HTTP/1.1\r\n")), SNIFF_YES);
}

static void other_first_bytes_are_neither(void **state) {
    const char *const others[] = {"\x16\x03\x01\x02", "get / HTTP", "GETX", "*1\r\n$4\r\n", "\r\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(sniff_http1(bytes_from_text(others[i])), SNIFF_NO);
        assert_int_equal(sniff_http2(bytes_from_text(others[i])), SNIFF_NO);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_preface_is_http2),
        cmocka_unit_test(part_of_the_preface_needs_more),
        cmocka_unit_test(preface_with_one_wrong_byte_is_nothing),
        cmocka_unit_test(every_method_is_http1_once_its_space_came),
        cmocka_unit_test(other_first_bytes_are_neither),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
