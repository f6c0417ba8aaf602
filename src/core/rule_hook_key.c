#include "core/rule_hook_key.h"

#include <assert.h>
#include <endian.h>

void rule_hook_key_init(struct rule_hook_key *key, int64_t lease_id, uint32_t rule_number,
                        struct bytes request) {
    assert(request.size <= RULE_HOOK_REQUEST_SIZE_MAX);
    uint64_t id = htobe64((uint64_t)lease_id);
    uint32_t number = htobe32(rule_number);
    memcpy(key->storage, &id, sizeof id);
    memcpy(key->storage + sizeof id, &number, sizeof number);
    if (request.size > 0) {
        memcpy(key->storage + RULE_HOOK_KEY_PREFIX, request.data, request.size);
    }
    key->bytes = bytes_of(key->storage, RULE_HOOK_KEY_PREFIX + request.size);
}

bool rule_hook_key_decode(struct bytes key, uint32_t *out_rule_number, struct bytes *out_request) {
    uint32_t number;
    if (key.size < RULE_HOOK_KEY_PREFIX) {
        return false;
    }
    memcpy(&number, key.data + sizeof(uint64_t), sizeof number);
    *out_rule_number = be32toh(number);
    *out_request = bytes_of(key.data + RULE_HOOK_KEY_PREFIX, key.size - RULE_HOOK_KEY_PREFIX);
    return true;
}
