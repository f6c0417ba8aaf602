/*
 * A right to a range of keys of one space: what a request needs and what a role grants.
 */
#ifndef LEASED_CORE_PERMISSION_H
#define LEASED_CORE_PERMISSION_H

#include "base/bytes.h"
#include "core/key_space.h"

/* [key, range_end). An empty range_end: the one key. One zero byte: every key of the space from
 * `key` on. */
struct key_range {
    struct key_space_id space;
    struct bytes key;
    struct bytes range_end;
};

#endif
