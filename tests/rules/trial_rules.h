/*
 * Rules for the tests: numbers, requests and answers. Encoders for requests append to a buffer.
 *
 *     count    bytes name                                  → zigzag the new number
 *     lock     bytes name, zigzag lease (0: granted), varint ttl_ms
 *                                                          → u8 1 held, 0 queued; zigzag token (0);
 *                                                            zigzag lease
 *     unlock   bytes name, zigzag lease                    → nothing
 *     handover bytes name                                  → nothing; also the hook of a holder
 *     end      zigzag lease                                → nothing
 *     bad      u8 enum trial_fault, varint n               → see the fault
 */
#ifndef LEASED_TESTS_TRIAL_RULES_H
#define LEASED_TESTS_TRIAL_RULES_H

#include "core/rule.h"

#define TRIAL_SPACE ((struct key_space_id){.value = 249})
#define TRIAL_SPACE_OTHER ((struct key_space_id){.value = 248})

enum trial_rule {
    TRIAL_COUNT = 249 * 65536 + 1,
    TRIAL_LOCK,
    TRIAL_UNLOCK,
    TRIAL_HANDOVER,
    TRIAL_END,
    TRIAL_BAD,
    TRIAL_LATER /* of a cluster version that this release does not know */
};

enum trial_fault {
    TRIAL_FAILS_HALF_WAY,   /* puts, deletes, grants, ends, then fails */
    TRIAL_FAILS_AFTER_PUTS, /* n puts */
    TRIAL_LOOKS_AT,         /* n records */
    TRIAL_CHANGES,          /* n keys */
    TRIAL_WRITES,           /* n bytes in one value */
    TRIAL_ANSWERS,          /* n bytes */
    TRIAL_LEAVES_ITS_SPACE, /* puts into etcd's */
    TRIAL_READS_OTHERS,     /* reads etcd's */
    TRIAL_PUTS_WHILE_VISITING,
    TRIAL_ATTACHES_TO_NOTHING,
    TRIAL_ENDS_FOREVER, /* as a hook: grants a lease with this hook and ends it */
    TRIAL_FAULTS
};

enum { TRIAL_RULES_MAX = 8 };
extern const struct rule_set trial_rules;

void trial_request_name(struct buffer *buffer, const char *name);
void trial_request_lock(struct buffer *buffer, const char *name, int64_t lease_id, int64_t ttl_ms);
void trial_request_unlock(struct buffer *buffer, const char *name, int64_t lease_id);
void trial_request_end(struct buffer *buffer, int64_t lease_id);
void trial_request_bad(struct buffer *buffer, enum trial_fault fault, uint64_t n);

struct trial_locked {
    bool is_held;
    int64_t token;
    int64_t lease_id;
};
bool trial_answer_locked(struct bytes answer, struct trial_locked *out_locked);
bool trial_answer_number(struct bytes answer, int64_t *out_number);

#endif
