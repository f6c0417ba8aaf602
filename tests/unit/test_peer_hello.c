#include "base/crc32.h"
#include "peers/peer_hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { VERSION_AT = 8, REST_SIZE_AT = 12, PURPOSE_AT = 16 + 32 + 8, ADDRESS_SIZE_AT = 57 + 32 };

static struct buffer encoded;

static struct peer_hello a_hello(void) {
    struct peer_hello hello = {.cluster_id = UINT64_C(0x1122334455667788),
                               .from_id = 1,
                               .to_id = 2,
                               .data_dir_id = 77,
                               .heartbeat_ms = 100,
                               .election_ms = 1000,
                               .purpose = PEER_FOR_LINK};
    for (size_t i = 0; i < sizeof hello.nonce; i++) {
        hello.nonce[i] = (uint8_t)(i * 7);
    }
    snprintf(hello.address, sizeof hello.address, "node-1.example:2380");
    return hello;
}

static void encode(const struct peer_hello *hello) {
    encoded.size = 0;
    peer_hello_encode(&encoded, hello);
}

static struct bytes whole(void) {
    return bytes_of(encoded.data, encoded.size);
}

/* Makes the checksum right again. */
static void seal(void) {
    encoded.size -= 4;
    buffer_put_u32(&encoded, crc32c(0, encoded.data, encoded.size));
}

static int tear_down(void **state) {
    buffer_clear(&encoded);
    return 0;
}

static void a_hello_comes_back_unmodified(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    for (size_t size = 0; size <= PEER_ADDRESS_SIZE_MAX; size += 16) {
        memset(hello.address, 'x', size);
        hello.address[size] = '\0';
        encode(&hello);
        assert_true(encoded.size <= PEER_HELLO_SIZE_MAX);
        assert_int_equal(peer_hello_size(whole()), encoded.size);
        assert_int_equal(peer_hello_size(bytes_of(encoded.data, PEER_HELLO_PREFIX_SIZE)),
                         encoded.size);
        memset(&back, 0xff, sizeof back);
        assert_int_equal(peer_hello_decode(whole(), &back), PEER_WELCOME);
        assert_int_equal(back.cluster_id, hello.cluster_id);
        assert_int_equal(back.from_id, 1);
        assert_int_equal(back.to_id, 2);
        assert_int_equal(back.data_dir_id, 77);
        assert_int_equal(back.heartbeat_ms, 100);
        assert_int_equal(back.election_ms, 1000);
        assert_int_equal(back.purpose, PEER_FOR_LINK);
        assert_memory_equal(back.nonce, hello.nonce, sizeof hello.nonce);
        assert_string_equal(back.address, hello.address);
    }
    assert_int_equal(encoded.size, PEER_HELLO_SIZE_MAX);
}

static void a_hello_cut_short_or_too_long_is_malformed(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    encode(&hello);
    size_t size = encoded.size;
    for (size_t n = 0; n < size; n++) {
        assert_int_equal(peer_hello_decode(bytes_of(encoded.data, n), &back), PEER_MALFORMED);
        if (n < PEER_HELLO_PREFIX_SIZE) {
            assert_int_equal(peer_hello_size(bytes_of(encoded.data, n)), 0);
        }
    }
    buffer_put_u8(&encoded, 0);
    assert_int_equal(peer_hello_decode(whole(), &back), PEER_MALFORMED);
}

static void a_hello_with_any_bit_changed_is_refused(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    encode(&hello);
    for (size_t bit = 0; bit < encoded.size * 8; bit++) {
        encoded.data[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        enum peer_answer answer = peer_hello_decode(whole(), &back);
        assert_true(answer == PEER_MALFORMED || answer == PEER_OTHER_VERSION);
        encoded.data[bit / 8] ^= (uint8_t)(1U << (bit % 8));
    }
    assert_int_equal(peer_hello_decode(whole(), &back), PEER_WELCOME);
}

static void another_version_is_told(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    encode(&hello);
    encoded.data[VERSION_AT] = PEER_VERSION + 1;
    assert_int_equal(peer_hello_decode(whole(), &back), PEER_OTHER_VERSION);
    encoded.data[VERSION_AT] = PEER_VERSION - 1;
    assert_int_equal(peer_hello_decode(whole(), &back), PEER_OTHER_VERSION);
}

static void sizes_that_lie_are_malformed(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    static const uint32_t lies[] = {
        0, 1, 18, 20, PEER_ADDRESS_SIZE_MAX + 1, UINT32_MAX, UINT32_MAX - 3};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        encode(&hello);
        for (size_t k = 0; k < 4; k++) {
            encoded.data[ADDRESS_SIZE_AT + k] = (uint8_t)(lies[i] >> (8 * k));
        }
        seal();
        assert_int_equal(peer_hello_decode(whole(), &back), PEER_MALFORMED);
        encode(&hello);
        for (size_t k = 0; k < 4; k++) {
            encoded.data[REST_SIZE_AT + k] = (uint8_t)(lies[i] >> (8 * k));
        }
        seal();
        assert_int_equal(peer_hello_decode(whole(), &back), PEER_MALFORMED);
    }
    /* Beyond the bound nothing is waited for. */
    assert_int_equal(peer_hello_size(whole()), 0);
}

static void an_address_with_a_nul_is_malformed(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    encode(&hello);
    encoded.data[ADDRESS_SIZE_AT + 4 + 3] = '\0';
    seal();
    assert_int_equal(peer_hello_decode(whole(), &back), PEER_MALFORMED);
}

static void only_known_purposes_are_taken(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    for (unsigned purpose = 0; purpose < 256; purpose++) {
        encode(&hello);
        encoded.data[PURPOSE_AT] = (uint8_t)purpose;
        seal();
        assert_int_equal(peer_hello_decode(whole(), &back),
                         purpose == PEER_FOR_LINK || purpose == PEER_TO_ASK ? PEER_WELCOME
                                                                            : PEER_MALFORMED);
    }
}

static void only_one_who_asks_may_have_no_id(void **state) {
    struct peer_hello hello = a_hello();
    struct peer_hello back;
    hello.from_id = 0;
    encode(&hello);
    assert_int_equal(peer_hello_decode(whole(), &back), PEER_MALFORMED);
    hello.purpose = PEER_TO_ASK;
    encode(&hello);
    assert_int_equal(peer_hello_decode(whole(), &back), PEER_WELCOME);
}

static void another_cluster_is_told_before_another_member(void **state) {
    struct peer_hello hello = a_hello();
    assert_int_equal(peer_hello_check(&hello, hello.cluster_id, 2), PEER_WELCOME);
    assert_int_equal(peer_hello_check(&hello, hello.cluster_id, 3), PEER_OTHER_MEMBER);
    assert_int_equal(peer_hello_check(&hello, 9, 3), PEER_OTHER_CLUSTER);
    hello.purpose = PEER_TO_ASK;
    assert_int_equal(peer_hello_check(&hello, 9, 3), PEER_WELCOME);
}

static void every_answer_has_a_text_of_its_own(void **state) {
    for (int i = 0; i < 256; i++) {
        const char *text = peer_answer_text((enum peer_answer)i);
        assert_non_null(text);
        for (int k = 0; k < i && k <= PEER_CHALLENGE && i <= PEER_CHALLENGE; k++) {
            assert_string_not_equal(text, peer_answer_text((enum peer_answer)k));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_hello_comes_back_unmodified, tear_down),
        cmocka_unit_test_teardown(a_hello_cut_short_or_too_long_is_malformed, tear_down),
        cmocka_unit_test_teardown(a_hello_with_any_bit_changed_is_refused, tear_down),
        cmocka_unit_test_teardown(another_version_is_told, tear_down),
        cmocka_unit_test_teardown(sizes_that_lie_are_malformed, tear_down),
        cmocka_unit_test_teardown(an_address_with_a_nul_is_malformed, tear_down),
        cmocka_unit_test_teardown(only_known_purposes_are_taken, tear_down),
        cmocka_unit_test_teardown(only_one_who_asks_may_have_no_id, tear_down),
        cmocka_unit_test(another_cluster_is_told_before_another_member),
        cmocka_unit_test(every_answer_has_a_text_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
