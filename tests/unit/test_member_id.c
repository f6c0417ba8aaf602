#include "base/sha1.h"
#include "core/member_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_digest(struct bytes input, const char *expected) {
    uint8_t digest[SHA1_SIZE];
    char text[2 * SHA1_SIZE + 1];
    sha1(input, digest);
    for (size_t i = 0; i < SHA1_SIZE; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, expected);
}

/* The examples of FIPS 180 and the sizes at which padding takes another block. */
static void known_digests_are_given(void **state) {
    char many[1000];
    assert_digest(bytes_from_text(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_digest(bytes_from_text("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_digest(bytes_from_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    memset(many, 'a', sizeof many);
    assert_digest(bytes_of(many, 55), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    assert_digest(bytes_of(many, 56), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
    assert_digest(bytes_of(many, 63), "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
    assert_digest(bytes_of(many, 64), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    assert_digest(bytes_of(many, 65), "11655326c708d70319be2610e8a57d9a5b959d3b");
    assert_digest(bytes_of(many, 1000), "291e9a6c66994949b57ba5e650361e98fc36b1ba");
}

/* etcd 3.5 names itself so with its default flags. */
static void ids_are_those_of_etcd(void **state) {
    const struct bytes url = bytes_from_text("http://localhost:2380");
    uint64_t id = member_id_derive(&url, 1, bytes_from_text("etcd-cluster"));
    assert_int_equal(id, UINT64_C(0x8e9e05c52164694d));
    assert_int_equal(member_id_of_cluster(&id, 1), UINT64_C(0xcdf818194e3a8c32));
}

static void the_order_of_urls_and_members_does_not_matter(void **state) {
    const struct bytes urls[] = {bytes_from_text("http://b:1"), bytes_from_text("http://a:1")};
    const struct bytes turned[] = {urls[1], urls[0]};
    const struct bytes token = bytes_from_text("t");
    assert_int_equal(member_id_derive(urls, 2, token), member_id_derive(turned, 2, token));
    assert_true(member_id_derive(urls, 2, token) != member_id_derive(urls, 1, token));
    assert_true(member_id_derive(urls, 2, token) !=
                member_id_derive(urls, 2, bytes_from_text("u")));
    const uint64_t ids[] = {3, 1, 2};
    const uint64_t other_way[] = {2, 3, 1};
    assert_int_equal(member_id_of_cluster(ids, 3), member_id_of_cluster(other_way, 3));
    assert_true(member_id_of_cluster(ids, 3) != member_id_of_cluster(ids, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests_are_given),
        cmocka_unit_test(ids_are_those_of_etcd),
        cmocka_unit_test(the_order_of_urls_and_members_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
