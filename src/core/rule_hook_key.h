/*
 * How a hook is stored: a key of KEY_SPACE_LEASE_HOOKS that is attached to the lease, so it is
 * found, listed in snapshots and deleted with it. The key is the lease's id and the rule's number,
 * highest byte first, then the request.
 */
#ifndef LEASED_CORE_RULE_HOOK_KEY_H
#define LEASED_CORE_RULE_HOOK_KEY_H

#include "base/bytes.h"
#include "core/rule.h"

enum { RULE_HOOK_KEY_PREFIX = 8 + 4 };

struct rule_hook_key {
    struct bytes bytes; /* points to the storage: the struct must not be moved */
    uint8_t storage[RULE_HOOK_KEY_PREFIX + RULE_HOOK_REQUEST_SIZE_MAX];
};

/* The request is at most RULE_HOOK_REQUEST_SIZE_MAX. */
void rule_hook_key_init(struct rule_hook_key *key, int64_t lease_id, uint32_t rule_number,
                        struct bytes request);
/* False: it is no such key. */
bool rule_hook_key_decode(struct bytes key, uint32_t *out_rule_number, struct bytes *out_request);

#endif
