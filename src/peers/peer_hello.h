/*
 * How a connection between members begins: one who dials says hello, and is answered. Encoding,
 * decoding and the answers; peer_handshake.h has the order in which they are exchanged.
 */
#ifndef LEASED_PEERS_PEER_HELLO_H
#define LEASED_PEERS_PEER_HELLO_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdint.h>

enum {
    PEER_VERSION = 3,
    PEER_ADDRESS_SIZE_MAX = 256,
    PEER_NONCE_SIZE = 32,
    /* The magic, the version and the size of the rest. */
    PEER_HELLO_PREFIX_SIZE = 16,
    PEER_HELLO_SIZE_MAX =
        PEER_HELLO_PREFIX_SIZE + 4 * 8 + 2 * 4 + 1 + PEER_NONCE_SIZE + 4 + PEER_ADDRESS_SIZE_MAX + 4
};

/* To ask who belongs to the cluster one need not belong to it, nor know its id. */
enum peer_purpose { PEER_FOR_LINK = 2, PEER_TO_ASK = 3 };

struct peer_hello {
    uint64_t cluster_id;
    uint64_t from_id;
    uint64_t to_id;
    uint64_t data_dir_id; /* of the sender's data directory; 0: it does not say */
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    enum peer_purpose purpose;
    uint8_t nonce[PEER_NONCE_SIZE];          /* random, for this connection alone */
    char address[PEER_ADDRESS_SIZE_MAX + 1]; /* where the sender listens for peers */
};

/* Why a hello was refused; 0 means welcome. */
enum peer_answer {
    PEER_WELCOME = 0,
    PEER_OTHER_VERSION = 1,
    PEER_OTHER_CLUSTER = 2,
    PEER_OTHER_MEMBER = 3,
    PEER_MALFORMED = 4,
    PEER_NOT_A_MEMBER = 5,
    PEER_REMOVED = 6,       /* the caller was a member once */
    PEER_DISK_REPLACED = 7, /* the caller has another data directory than it had */
    PEER_NOT_PROVEN = 8,    /* the secrets or certificates do not match */
    PEER_BUSY = 9,          /* this member is connected already, or too many are waiting */
    PEER_CHALLENGE = 10,    /* no answer yet: the caller must prove that it knows the secret */
    /* Never sent as an answer: so begins the alert with which TLS answers a hello in plain text. */
    PEER_SPEAKS_TLS = 0x15
};
const char *peer_answer_text(enum peer_answer answer);

/* Appends it; the address is cut at its bound. */
void peer_hello_encode(struct buffer *buffer, const struct peer_hello *hello);

/* The size of the hello that begins so, at most PEER_HELLO_SIZE_MAX; 0: this is no hello.
 * PEER_HELLO_PREFIX_SIZE bytes at least are needed. */
size_t peer_hello_size(struct bytes prefix);

/* PEER_WELCOME (well formed, nothing more), PEER_OTHER_VERSION or PEER_MALFORMED. The bytes are
 * exactly one hello. The result is written only for PEER_WELCOME. */
enum peer_answer peer_hello_decode(struct bytes bytes, struct peer_hello *out_hello);

/* Whether it is meant for this member: PEER_WELCOME, PEER_OTHER_CLUSTER or PEER_OTHER_MEMBER. Who
 * only asks is always welcome. */
enum peer_answer peer_hello_check(const struct peer_hello *hello, uint64_t cluster_id,
                                  uint64_t self_id);

#endif
