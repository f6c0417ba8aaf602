/*
 * Keys of etcd's space that its clients may read and watch, but neither write nor delete: the
 * mirror of the service registry below `leased/services/`. Rules of the registry write them,
 * attached to the lease of an instance, so that they go when it does.
 *
 * Clusters of version 2 have no such keys, and every member does there as release 0.2 does.
 */
#ifndef LEASED_CORE_RESERVED_KEYS_H
#define LEASED_CORE_RESERVED_KEYS_H

#include "base/status.h"
#include "core/key_space.h"
#include "core/key_store.h"

#define RESERVED_KEYS_PREFIX "leased/services/"
#define RESERVED_KEYS_END "leased/services0" /* behind them all: '0' follows the slash */

static inline bool reserved_keys_has(struct key_space_id space, struct bytes key) {
    enum { SIZE = sizeof RESERVED_KEYS_PREFIX - 1 };
    return key.size >= SIZE && key_space_equal(space, KEY_SPACE_ETCD) &&
           memcmp(key.data, RESERVED_KEYS_PREFIX, SIZE) == 0;
}

/* STATUS_OK, or STATUS_KEY_READ_ONLY. What clients may put or delete; [key, range_end), an empty
 * range_end: the one key. A key that mirrors nothing, because it is attached to no lease, may be
 * deleted: a backup of etcd's keys alone was restored, or an older release has written it. */
enum status reserved_keys_check_put(struct key_space_id space, struct bytes key);
enum status reserved_keys_check_delete(const struct key_store *keys, struct key_space_id space,
                                       struct bytes key, struct bytes range_end);
/* What a rule may write: `home` is the first of its spaces. */
enum status reserved_keys_check_rule(struct key_space_id home, struct key_space_id space,
                                     struct bytes key);

#endif
