/*
 * Keys of etcd's space that its clients may read and watch, but neither write nor delete: the
 * mirror of the service registry below `leased/services/`. Rules of the registry write them,
 * attached to the lease of an instance, so that they go when it does.
 *
 * Clusters of version 2 have no such keys, and every member does there as release 0.2 does.
 */
#ifndef LEASED_CORE_RESERVED_KEYS_H
#define LEASED_CORE_RESERVED_KEYS_H

#include "core/key_space.h"
#include "core/key_store.h"

#define RESERVED_KEYS_PREFIX "leased/services/"

static inline bool reserved_keys_has(struct key_space_id space, struct bytes key) {
    enum { SIZE = sizeof RESERVED_KEYS_PREFIX - 1 };
    return key.size >= SIZE && key_space_equal(space, KEY_SPACE_ETCD) &&
           memcmp(key.data, RESERVED_KEYS_PREFIX, SIZE) == 0;
}

/* Whether one of [key, range_end) mirrors an instance, which is to say that it is attached to a
 * lease; an empty range_end: the one key. Stops at the first that does. */
bool reserved_keys_are_in(const struct key_store *keys, struct key_space_id space, struct bytes key,
                          struct bytes range_end);

#endif
