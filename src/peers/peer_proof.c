#include "peers/peer_proof.h"

#include "base/buffer.h"
#include "tls/tls_crypto.h"

_Static_assert((int)PEER_PROOF_SIZE == (int)TLS_HMAC_SIZE, "a proof is one HMAC");

static const char *const labels[] = {
    [PEER_PROOF_OF_CALLER] = "leased peer proof 3, of the caller",
    [PEER_PROOF_OF_ANSWERER] = "leased peer proof 3, of the answerer",
};

void peer_proof_make(struct bytes secret, enum peer_proof_direction direction,
                     const struct peer_transcript *transcript, uint8_t out_proof[PEER_PROOF_SIZE]) {
    struct buffer said;
    buffer_init(&said);
    /* Each part behind its size: no other parts give the same bytes. */
    buffer_put_bytes(&said, bytes_from_text(labels[direction]));
    buffer_put_bytes(&said, transcript->hello);
    buffer_put_bytes(&said, transcript->challenge);
    buffer_put_bytes(&said, transcript->answer);
    if (transcript->binding.size > 0) {
        buffer_put_bytes(&said, transcript->binding);
    }
    struct bytes parts[] = {bytes_of(said.data, said.size)};
    tls_hmac(secret, parts, 1, out_proof);
    buffer_clear(&said);
}

bool peer_proof_check(struct bytes secret, enum peer_proof_direction direction,
                      const struct peer_transcript *transcript,
                      const uint8_t proof[PEER_PROOF_SIZE]) {
    uint8_t expected[PEER_PROOF_SIZE];
    peer_proof_make(secret, direction, transcript, expected);
    bool is_equal = tls_equal(expected, proof, PEER_PROOF_SIZE);
    tls_wipe(expected, sizeof expected);
    return is_equal;
}
