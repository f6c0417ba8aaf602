/* How a connection between members begins. */
#ifndef LEASED_PEERS_PEER_HELLO_H
#define LEASED_PEERS_PEER_HELLO_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdint.h>

enum { PEER_VERSION = 3, PEER_ADDRESS_SIZE_MAX = 256 };

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
    /* Never sent as an answer: so begins the alert with which TLS answers a hello in plain text. */
    PEER_SPEAKS_TLS = 0x15
};
const char *peer_answer_text(enum peer_answer answer);

#endif
