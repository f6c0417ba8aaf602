#include "core/auth_ranges.h"

#include "base/arena.h"
#include "core/auth_names.h"

#include <stdlib.h>

/* [begin, end) of one space; without an end when it is open. */
struct interval {
    uint8_t space;
    bool is_open;
    struct bytes begin;
    struct bytes end;
};

struct intervals {
    size_t n;
    struct interval *all; /* by space and begin, apart from each other */
};

struct auth_ranges {
    struct arena arena;
    struct intervals read;
    struct intervals write;
};

static int compare_begins(const void *a, const void *b) {
    const struct interval *first = a;
    const struct interval *second = b;
    if (first->space != second->space) {
        return first->space < second->space ? -1 : 1;
    }
    return bytes_compare(first->begin, second->begin);
}

static struct bytes copy(struct arena *arena, struct bytes bytes, bool with_zero) {
    uint8_t *data = arena_alloc(arena, bytes.size + 1);
    if (bytes.size > 0) {
        memcpy(data, bytes.data, bytes.size);
    }
    data[bytes.size] = 0;
    return bytes_of(data, bytes.size + with_zero);
}

static struct interval interval_of(const struct key_range *range, struct arena *arena) {
    struct interval interval = {.space = range->space.value,
                                .is_open = key_range_is_open(range),
                                .begin = copy(arena, range->key, false)};
    /* A key with a zero byte behind it is the next one that there can be. */
    interval.end = range->range_end.size == 0 ? copy(arena, range->key, true)
                                              : copy(arena, range->range_end, false);
    return interval;
}

static bool touches(const struct interval *before, const struct interval *next) {
    return before->space == next->space &&
           (before->is_open || bytes_compare(next->begin, before->end) <= 0);
}

static void extend(struct interval *before, const struct interval *next) {
    if (!before->is_open && (next->is_open || bytes_compare(next->end, before->end) > 0)) {
        before->is_open = next->is_open;
        before->end = next->end;
    }
}

static struct intervals build(const struct permission *const *permissions, size_t n,
                              enum right right, struct arena *arena) {
    struct intervals intervals = {.all = arena_alloc(arena, n * sizeof *intervals.all)};
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++) {
        if ((permissions[i]->right & right) != 0) {
            intervals.all[n_found++] = interval_of(&permissions[i]->range, arena);
        }
    }
    if (n_found > 1) {
        qsort(intervals.all, n_found, sizeof *intervals.all, compare_begins);
    }
    for (size_t i = 0; i < n_found; i++) {
        if (intervals.n > 0 && touches(&intervals.all[intervals.n - 1], &intervals.all[i])) {
            extend(&intervals.all[intervals.n - 1], &intervals.all[i]);
        } else {
            intervals.all[intervals.n++] = intervals.all[i];
        }
    }
    return intervals;
}

struct auth_ranges *auth_ranges_create(const struct permission *const *permissions, size_t n) {
    struct auth_ranges *ranges = calloc(1, sizeof *ranges);
    if (ranges == NULL) {
        abort();
    }
    arena_init(&ranges->arena);
    ranges->read = build(permissions, n, RIGHT_READ, &ranges->arena);
    ranges->write = build(permissions, n, RIGHT_WRITE, &ranges->arena);
    return ranges;
}

void auth_ranges_destroy(struct auth_ranges *ranges) {
    if (ranges != NULL) {
        arena_clear(&ranges->arena);
        free(ranges);
    }
}

/* The last interval that begins at or before the key; NULL: none. */
static const struct interval *find(const struct intervals *intervals, uint8_t space,
                                   struct bytes key) {
    const struct interval wanted = {.space = space, .begin = key};
    size_t low = 0;
    size_t high = intervals->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_begins(&intervals->all[middle], &wanted) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? NULL : &intervals->all[low - 1];
}

static bool cover(const struct intervals *intervals, const struct key_range *range) {
    const struct interval *interval = find(intervals, range->space.value, range->key);
    if (interval == NULL || interval->space != range->space.value) {
        return false;
    }
    if (interval->is_open) {
        return true;
    }
    if (key_range_is_open(range)) {
        return false;
    }
    return bytes_compare(range->key, interval->end) < 0 &&
           (range->range_end.size == 0 || bytes_compare(range->range_end, interval->end) <= 0);
}

static bool cover_right(const struct auth_ranges *ranges, enum right right,
                        const struct key_range *range) {
    return ((right & RIGHT_READ) == 0 || cover(&ranges->read, range)) &&
           ((right & RIGHT_WRITE) == 0 || cover(&ranges->write, range));
}

/* In a function of its own for its large memory. */
static bool cover_redis(const struct auth_ranges *ranges, enum right right,
                        const struct key_range *range) {
    struct auth_redis_range memory;
    struct key_range named;
    return auth_names_map_redis(range, &memory, &named) && cover_right(ranges, right, &named);
}

bool auth_ranges_cover(const struct auth_ranges *ranges, enum right right,
                       const struct key_range *range) {
    struct auth_name_range memory;
    struct key_range named;
    if (key_space_equal(range->space, KEY_SPACE_REDIS)) {
        return cover_redis(ranges, right, range);
    }
    if (auth_names_has(range->space)) {
        if (!auth_names_map(range, &memory, &named)) {
            return false;
        }
        range = &named;
    }
    return cover_right(ranges, right, range);
}

bool auth_ranges_may_write(const struct auth_ranges *ranges, struct key_space_id space) {
    size_t i = 0;
    while (i < ranges->write.n && ranges->write.all[i].space != space.value) {
        i++;
    }
    return i < ranges->write.n;
}
