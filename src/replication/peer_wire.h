/*
 * What nodes say to each other beside raft's own messages. A connection between peers opens with a
 * hello, which tells the cluster, the sender, the receiver it wants, the version, and what the
 * connection is for; anything that does not fit is refused with a reason. On a link, frames follow:
 * a length, a type, a body. Every byte is untrusted.
 */
#ifndef LEASED_REPLICATION_PEER_WIRE_H
#define LEASED_REPLICATION_PEER_WIRE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "core/member_table.h"

#include <stdbool.h>
#include <stdint.h>

enum { PEER_VERSION = 2, PEER_ADDRESS_SIZE_MAX = 256 };
/* A frame carries at most one log entry's commands: a command of the largest size, and its batch.
 */
enum { PEER_FRAME_SIZE_MAX = 4 * 1024 * 1024 };

/* To ask who belongs to the cluster one need not belong to it, nor know its id: the sender's id is
 * that of which it asks whether it was removed, and a PEER_MEMBERS follows the welcome. */
enum peer_purpose { PEER_FOR_RAFT = 1, PEER_FOR_LINK = 2, PEER_TO_ASK = 3 };

struct peer_hello {
    uint64_t cluster_id;
    uint64_t from_id;
    uint64_t to_id;
    uint64_t birth; /* of the sender's data directory, see births.h; 0: it does not say */
    enum peer_purpose purpose;
    char address[PEER_ADDRESS_SIZE_MAX + 1]; /* where the sender listens for peers */
};

/* Why a hello was refused; 0 means welcome. One byte goes back. */
enum peer_answer {
    PEER_WELCOME = 0,
    PEER_OTHER_VERSION = 1,
    PEER_OTHER_CLUSTER = 2,
    PEER_OTHER_MEMBER = 3,
    PEER_MALFORMED = 4,
    PEER_NOT_A_MEMBER = 5,
    PEER_REMOVED = 6,   /* the caller was a member once */
    PEER_FORGETFUL = 7, /* the caller has another data directory than it had */
    /* Never sent as an answer: so begins the alert with which TLS answers a hello in plain text. */
    PEER_SPEAKS_TLS = 0x15
};
const char *peer_answer_text(enum peer_answer answer);

enum { PEER_HELLO_SIZE_MAX = 64 + PEER_ADDRESS_SIZE_MAX, PEER_HELLO_PREFIX_SIZE = 16 };
void peer_hello_encode(struct buffer *buffer, const struct peer_hello *hello);
/* How many bytes the whole hello has, from its first PEER_HELLO_PREFIX_SIZE; 0: not a hello. */
size_t peer_hello_size(struct bytes prefix);
/* PEER_WELCOME, or why not. `out_hello` is set as far as it could be read. */
enum peer_answer peer_hello_decode(struct bytes bytes, uint64_t cluster_id, uint64_t self_id,
                                   struct peer_hello *out_hello);

enum peer_frame_type {
    PEER_PING = 1,
    PEER_PONG = 2,
    PEER_PROPOSE = 3,
    PEER_PROPOSE_REFUSED = 4,
    PEER_READ = 5,
    PEER_READ_RESULT = 6,
    PEER_RENEW = 7,
    PEER_RENEW_RESULT = 8,
    PEER_RELEASE = 10,
    PEER_CHANGE = 11,
    PEER_CHANGE_RESULT = 12,
    PEER_MEMBERS = 13
};

struct peer_renewal {
    uint64_t token; /* the asker's own, given back */
    int64_t id;
    bool only_ask; /* tell the remaining time, renew nothing */
};

struct peer_renewal_result {
    uint64_t token;
    enum status status;
    int64_t ttl_ms; /* the full TTL, or what is left of it when only asked */
};

struct peer_frame {
    enum peer_frame_type type;
    union {
        struct {
            uint64_t term;
            uint64_t sent_ms; /* on the leader's clock; the answer gives it back */
        } ping, pong, release;
        struct {
            uint64_t incarnation;
            uint64_t sequence;
            uint64_t acknowledged;
            uint64_t n_commands;
            struct bytes commands;
        } propose;
        struct {
            uint64_t sequence;
            enum status status;
        } propose_refused;
        struct {
            uint64_t token;
        } read;
        struct {
            uint64_t token;
            enum status status;
            uint64_t index; /* everything up to here must be applied before the state is read */
        } read_result;
        struct {
            size_t n;
            const struct peer_renewal *renewals;
        } renew;
        struct {
            size_t n;
            const struct peer_renewal_result *results;
        } renew_result;
        /* A change of the members that the leader is asked for. */
        struct {
            uint64_t token;
            enum member_action action;
            const struct member_facts *facts; /* of a new member the id does not matter */
        } change;
        struct {
            uint64_t token;
            enum status status;
            uint64_t id;    /* of the member, a new one's too */
            uint64_t index; /* applied there, it is known */
        } change_result;
        /* Who belongs to the cluster. */
        struct {
            uint64_t cluster_id;
            uint64_t token_hash;
            bool is_removed; /* the id that was asked for */
            size_t n;        /* 0: the cluster has not begun, as far as the sender knows */
            const struct member_facts *members;
        } members;
    };
};

/* Appends one frame with its length. */
void peer_frame_encode(struct buffer *buffer, const struct peer_frame *frame);
/* Takes the first whole frame off `bytes`. STATUS_PENDING: more bytes are needed.
 * STATUS_MALFORMED, STATUS_REQUEST_TOO_LARGE: the connection is of no more use. Views point into
 * `bytes`, arrays lie in the arena. */
struct arena;
enum status peer_frame_decode(struct bytes *bytes, struct arena *arena,
                              struct peer_frame *out_frame);

#endif
