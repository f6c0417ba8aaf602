/*
 * The queue of a lock or an election, as etcd's client libraries keep it (package concurrency): a
 * key `<name>/<lease id in hex>` for everybody who wants it, attached to the lease. The key with
 * the lowest create revision has it; that revision is the fencing token. The libraries' Mutex and
 * Election use the same keys, so both kinds of clients wait in one queue.
 *
 * A client that lost its connection asks again with the same lease, and shares the key. A call that
 * is over takes the key away only when no later call came to share it. So sharing leaves a trace:
 * of a key that waits, the version counts the calls; of one that is first, the time of the lease is
 * counted anew, which gives it another epoch. The latter is no revision: as in etcd, whoever has
 * the lock and asks for it again changes nothing that can be seen.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_QUEUE_RULES_H
#define LEASED_DOORS_ETCD_ETCD_QUEUE_RULES_H

#include "core/permission.h"
#include "core/rule.h"

enum {
    ETCD_RULE_JOIN = 1 * 65536 + 1,
    ETCD_RULE_WITHDRAW = 1 * 65536 + 2,
    ETCD_RULE_RELEASE = 1 * 65536 + 3,
    ETCD_RULE_PROCLAIM = 1 * 65536 + 4
};

extern const struct rule etcd_rule_join;
extern const struct rule etcd_rule_withdraw;
extern const struct rule etcd_rule_release;
extern const struct rule etcd_rule_proclaim;

/* All keys of a queue, in arena memory. */
struct key_range etcd_queue_range(struct arena *arena, struct bytes name);
/* The key of a lease in it, in arena memory. */
struct bytes etcd_queue_key(struct arena *arena, struct bytes name, int64_t lease_id);

/* Puts the lease's key, or shares it when it is there already. A key that is first, with the value
 * that is wanted, is not written. STATUS_LEASE_NOT_FOUND. */
struct etcd_join {
    struct bytes name;
    struct bytes value;
    int64_t lease_id; /* 0: one is granted, of ttl_ms */
    int64_t ttl_ms;
    bool keeps_value; /* of a key that is there already */
};
struct etcd_joined {
    int64_t lease_id;
    int64_t create_revision;
    int64_t version; /* 1: the key is new, or is first and was not written again */
    uint32_t epoch;  /* of the lease, for the withdrawal; 0: the key is shared */
    bool is_first; /* it has what it queued for; of a key that was written again, the door looks */
};
void etcd_join_encode(struct buffer *out, const struct etcd_join *join);
bool etcd_joined_decode(struct bytes answer, struct etcd_joined *out_joined);

/* For a call that is over before it was told that it is first: deletes the key, unless a later call
 * shares it, or it was shared and is first, or the queue is too long to tell: then a call elsewhere
 * may have been told. */
struct etcd_withdrawal {
    struct bytes name;
    int64_t lease_id;
    int64_t create_revision;
    int64_t version;
    uint32_t epoch;
    bool ends_lease; /* it was granted for this call: nobody else knows it */
};
void etcd_withdrawal_encode(struct buffer *out, const struct etcd_withdrawal *withdrawal);

/* Unlock and Resign delete a key. STATUS_KEY_EMPTY. The answer has no bytes. */
struct etcd_release {
    struct bytes key;
    int64_t revision;    /* its create revision, and no other */
    bool takes_any_lock; /* Unlock: with a revision of 0, any, if it is the key of a queue */
};
void etcd_release_encode(struct buffer *out, const struct etcd_release *release);

/* Gives the key another value if it still has this create revision. STATUS_KEY_EMPTY,
 * _LEASE_NOT_FOUND. The answer is a byte: 0 when it has not. */
struct etcd_proclamation {
    struct bytes key;
    struct bytes value;
    int64_t revision;
    int64_t lease_id; /* 0: it keeps its own */
};
void etcd_proclamation_encode(struct buffer *out, const struct etcd_proclamation *proclamation);
bool etcd_proclaimed_decode(struct bytes answer, bool *out_is_done);

#endif
