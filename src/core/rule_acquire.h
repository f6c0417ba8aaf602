/*
 * Grant and acquire in one entry of the log: a lease and a key that exists as long as it, if the
 * key is free. The step that locks, leaderships and reservations of every protocol begin with; also
 * a rule of its own in the native space.
 */
#ifndef LEASED_CORE_RULE_ACQUIRE_H
#define LEASED_CORE_RULE_ACQUIRE_H

#include "core/rule.h"

struct rule_acquisition {
    struct key_space_id space;
    struct bytes key;
    struct bytes value;
    struct rule_lease lease; /* with an id that exists, that lease is used as it is */
};

struct rule_acquired {
    bool is_acquired;
    int64_t token;    /* create revision of the key, also of another holder */
    int64_t lease_id; /* of its holder; 0: none */
};

/* When another lease has the key, nothing is changed and is_acquired is false; the lease that has
 * it acquires again and gets the same token. STATUS_LEASE_… of rule_lease_grant(). */
enum status rule_acquire(struct rule_run *run, const struct rule_acquisition *acquisition,
                         struct rule_acquired *out_acquired);

/* The same as a rule of KEY_SPACE_NATIVE. The request: key and value as bytes with their size,
 * lease id (zigzag, 0: chosen), TTL in milliseconds (varint). The answer: a byte, 1 when it was
 * acquired; token and lease id (zigzag). */
enum { RULE_NATIVE_ACQUIRE = 18 * 65536 + 1 };
extern const struct rule rule_native_acquire;

#endif
