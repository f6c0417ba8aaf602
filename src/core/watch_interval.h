/*
 * Half-open intervals of keys, [low, high), and the question which of them contain a
 * key: a balanced tree (AVL) by low and high, where every node knows the greatest high below it, so
 * that whole subtrees that end before the key are passed over. So are those without an interval
 * that is awake. Nodes are embedded in what they belong to; equal intervals cannot be in one tree
 * twice.
 */
#ifndef LEASED_CORE_WATCH_INTERVAL_H
#define LEASED_CORE_WATCH_INTERVAL_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

struct watch_interval {
    struct bytes low;
    struct bytes high;
    /* The rest belongs to the tree. */
    int height;
    struct watch_interval *left;
    struct watch_interval *right;
    /* The one that reaches farthest among those of this subtree that are awake; NULL: none is. */
    const struct watch_interval *farthest;
    bool is_asleep; /* it is not visited */
};

/* The equal interval in the tree, or NULL. */
struct watch_interval *watch_interval_find(struct watch_interval *root,
                                           const struct watch_interval *interval);
/* Both change the tree at `root`; NULL is the empty tree. An interval is inserted awake. */
void watch_interval_insert(struct watch_interval **root, struct watch_interval *interval);
void watch_interval_remove(struct watch_interval **root, struct watch_interval *interval);

/* An interval of the tree sleeps or wakes. */
void watch_interval_set_asleep(struct watch_interval *root, struct watch_interval *interval,
                               bool is_asleep);
/* After `is_asleep` of many intervals was written: cheaper than one at a time. */
void watch_interval_refresh(struct watch_interval *root);

/* Calls `visit` for every interval that is awake and contains the key, in order of low. */
void watch_interval_visit(struct watch_interval *root, struct bytes key,
                          void (*visit)(void *context, struct watch_interval *interval),
                          void *context);

static inline bool watch_interval_contains(const struct watch_interval *interval,
                                           struct bytes key) {
    return bytes_compare(interval->low, key) <= 0 && bytes_compare(key, interval->high) < 0;
}

/* Asserts order, balance and reach; returns how many there are. */
size_t watch_interval_validate(const struct watch_interval *root);

#endif
