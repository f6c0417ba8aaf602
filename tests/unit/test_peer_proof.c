#include "peers/peer_proof.h"
#include "tls/tls_crypto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const struct bytes secret = {(const uint8_t *)"0123456789abcdef", 16};

static struct peer_transcript a_transcript(void) {
    return (struct peer_transcript){.hello = bytes_from_text("hello"),
                                    .challenge = bytes_from_text("challenge"),
                                    .answer = bytes_from_text("answer")};
}

/* RFC 4231, test case 2. */
static void the_keyed_hash_is_hmac_sha256(void **state) {
    static const uint8_t expected[TLS_HMAC_SIZE] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                                    0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                                    0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                                    0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    const struct bytes parts[] = {bytes_from_text("what do ya want "),
                                  bytes_from_text("for nothing?")};
    uint8_t hmac[TLS_HMAC_SIZE];
    tls_hmac(bytes_from_text("Jefe"), parts, 2, hmac);
    assert_memory_equal(hmac, expected, sizeof expected);
}

static void a_proof_is_right_for_what_was_said(void **state) {
    struct peer_transcript said = a_transcript();
    uint8_t proof[PEER_PROOF_SIZE];
    peer_proof_make(secret, PEER_PROOF_OF_CALLER, &said, proof);
    assert_true(peer_proof_check(secret, PEER_PROOF_OF_CALLER, &said, proof));
    for (size_t bit = 0; bit < sizeof proof * 8; bit++) {
        proof[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        assert_false(peer_proof_check(secret, PEER_PROOF_OF_CALLER, &said, proof));
        proof[bit / 8] ^= (uint8_t)(1U << (bit % 8));
    }
}

static void a_proof_of_one_side_is_none_of_the_other(void **state) {
    struct peer_transcript said = a_transcript();
    uint8_t proof[PEER_PROOF_SIZE];
    peer_proof_make(secret, PEER_PROOF_OF_CALLER, &said, proof);
    assert_false(peer_proof_check(secret, PEER_PROOF_OF_ANSWERER, &said, proof));
}

static void a_proof_depends_on_all_that_was_said(void **state) {
    struct peer_transcript said = a_transcript();
    uint8_t proof[PEER_PROOF_SIZE];
    peer_proof_make(secret, PEER_PROOF_OF_ANSWERER, &said, proof);
    struct peer_transcript other = a_transcript();
    other.hello = bytes_from_text("hellp");
    assert_false(peer_proof_check(secret, PEER_PROOF_OF_ANSWERER, &other, proof));
    other = a_transcript();
    other.challenge = bytes_from_text("challengf");
    assert_false(peer_proof_check(secret, PEER_PROOF_OF_ANSWERER, &other, proof));
    other = a_transcript();
    other.answer = bytes_of(NULL, 0);
    assert_false(peer_proof_check(secret, PEER_PROOF_OF_ANSWERER, &other, proof));
    /* The same bytes, cut elsewhere. */
    other = a_transcript();
    other.hello = bytes_from_text("helloc");
    other.challenge = bytes_from_text("hallenge");
    assert_false(peer_proof_check(secret, PEER_PROOF_OF_ANSWERER, &other, proof));
    assert_false(peer_proof_check(bytes_from_text("0123456789abcdeg"), PEER_PROOF_OF_ANSWERER,
                                  &said, proof));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keyed_hash_is_hmac_sha256),
        cmocka_unit_test(a_proof_is_right_for_what_was_said),
        cmocka_unit_test(a_proof_of_one_side_is_none_of_the_other),
        cmocka_unit_test(a_proof_depends_on_all_that_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
