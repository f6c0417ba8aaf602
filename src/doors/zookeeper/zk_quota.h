/*
 * Statistics of quotas: the data of /zookeeper/quota/PATH/zookeeper_stats, counted when it is read,
 * whatever was written there. Nothing is counted when nodes change, so nothing can get out of step,
 * and a change costs the same with a quota and without one.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_QUOTA_H
#define LEASED_DOORS_ZOOKEEPER_ZK_QUOTA_H

#include "base/arena.h"
#include "base/buffer.h"
#include "core/key_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The PATH whose nodes such statistics are about; empty: it is another node. */
struct bytes zk_quota_path(struct bytes stats_path);

/* A count that may be done in parts. Nodes that come or go between two parts may be counted or not.
 * Zeroed: not begun. */
struct zk_quota_count {
    bool is_done;
    int64_t count; /* the node itself and all below it */
    int64_t bytes; /* of their data */
    unsigned depth;
    bool is_depth_found; /* there was a node so deep */
    struct buffer from;  /* the key to go on at */
};
/* Looks at up to `n_max` nodes, which is at least 1, and at a few more records. */
void zk_quota_count_part(struct zk_quota_count *count, const struct key_store *keys,
                         struct arena *arena, struct bytes path, size_t n_max);
void zk_quota_count_clear(struct zk_quota_count *count);

/* As ZooKeeper writes them, in arena memory. */
struct bytes zk_quota_text(const struct zk_quota_count *count, struct arena *arena);

#endif
