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

static inline bool key_range_is_open(const struct key_range *range) {
    return range->range_end.size == 1 && range->range_end.data[0] == 0;
}

/* Bits. */
enum right { RIGHT_READ = 1, RIGHT_WRITE = 2, RIGHT_READ_WRITE = RIGHT_READ | RIGHT_WRITE };

struct permission {
    enum right right;
    struct key_range range;
};

#endif
