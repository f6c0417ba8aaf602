/*
 * The proof that a peer knows the shared secret: HMAC-SHA256 over what both sides said, with a
 * fresh nonce of either side inside, so that nothing can be replayed. Each direction has a label of
 * its own, so that nothing can be reflected. Where TLS does not prove who is at the other end, the
 * proof covers the connection itself, so that it is worth nothing on another one. The secret itself
 * never leaves the node.
 */
#ifndef LEASED_PEERS_PEER_PROOF_H
#define LEASED_PEERS_PEER_PROOF_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum { PEER_PROOF_SIZE = 32 };

enum peer_proof_direction {
    PEER_PROOF_OF_CALLER,  /* the one who dialled */
    PEER_PROOF_OF_ANSWERER /* covers the answer too, so that a refusal cannot be forged */
};

/* What both sides have seen of the handshake. The hello holds the caller's nonce. */
struct peer_transcript {
    struct bytes hello;     /* of the caller, encoded */
    struct bytes challenge; /* the answerer's nonce */
    struct bytes answer;    /* encoded; empty in the caller's proof */
    struct bytes binding;   /* of the connection (tls_stream_binding()); empty: none */
};

void peer_proof_make(struct bytes secret, enum peer_proof_direction direction,
                     const struct peer_transcript *transcript, uint8_t out_proof[PEER_PROOF_SIZE]);
/* In constant time. */
bool peer_proof_check(struct bytes secret, enum peer_proof_direction direction,
                      const struct peer_transcript *transcript,
                      const uint8_t proof[PEER_PROOF_SIZE]);

#endif
