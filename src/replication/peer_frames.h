/*
 * What members say to each other beside raft's own messages, as bodies of frames (peers/peers.h):
 * pings for the leader's lease, commands, reads and renewals for the leader, changes of the
 * members. Every byte is untrusted.
 */
#ifndef LEASED_REPLICATION_PEER_FRAMES_H
#define LEASED_REPLICATION_PEER_FRAMES_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "core/caller.h"
#include "core/key_space.h"
#include "core/member_table.h"

#include <stdbool.h>
#include <stdint.h>

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
    PEER_MEMBERS = 13,
    PEER_RAFT = 14, /* a message of raft's: see raft/raft_codec.h */
    /* The same as PEER_RENEW and PEER_CHANGE, with the caller and the lease's owner: while
     * authentication is on, or for a lease that is not etcd's; every member then knows them. */
    PEER_RENEW_AS = 15,
    PEER_CHANGE_AS = 16
};

/* Renewals, or results of them, in one frame. */
enum { PEER_RENEWALS_MAX = 1024 };

struct peer_renewal {
    uint64_t request_id; /* the asker's own, given back */
    int64_t id;
    bool only_ask;             /* tell the remaining time, renew nothing */
    bool shows_keys;           /* the same, to somebody who is shown the lease's keys */
    struct key_space_id owner; /* of PEER_RENEW_AS; of PEER_RENEW etcd's */
    struct caller caller;      /* of PEER_RENEW_AS; of PEER_RENEW nobody */
};

struct peer_renewal_result {
    uint64_t request_id;
    enum status status;
    int64_t ttl_ms; /* the full TTL, or what is left of it when only asked */
};

struct peer_frame {
    enum peer_frame_type type;
    union {
        struct {
            uint64_t term;
            uint64_t sent_ms;  /* on the leader's clock; the answer gives it back */
            uint32_t lease_ms; /* for how long a promise is asked for */
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
            uint64_t request_id;
        } read;
        struct {
            uint64_t request_id;
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
            uint64_t request_id;
            enum member_action action;
            const struct member_facts *facts; /* of a new member the id does not matter */
            struct caller caller;
        } change;
        struct {
            uint64_t request_id;
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
            uint32_t cluster_version; /* see cluster_version.h */
        } members;
    };
};

/* Appends the body. */
void peer_frame_encode(struct buffer *buffer, const struct peer_frame *frame);
/* STATUS_MALFORMED: the connection is of no more use. Views point into `body`, arrays lie in the
 * arena. */
struct arena;
enum status peer_frame_decode(uint8_t type, struct bytes body, struct arena *arena,
                              struct peer_frame *out_frame);

#endif
