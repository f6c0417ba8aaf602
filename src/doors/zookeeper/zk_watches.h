/*
 * The watches of this member's connections: which connection wants to hear of which path, and how.
 * One watch for each connection and path, with the kinds it has; found by path when something
 * changes, by connection when that ends. Number and bytes are bounded for each connection, bytes
 * for all of them.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_WATCHES_H
#define LEASED_DOORS_ZOOKEEPER_ZK_WATCHES_H

#include "base/bytes.h"
#include "base/keyed_hash.h"
#include "base/list.h"
#include "doors/zookeeper/zk_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZK_WATCHES_OF_CONNECTION_MAX = 128 * 1024,
    ZK_WATCH_BYTES_OF_CONNECTION_MAX = 64 * 1024 * 1024,
    ZK_WATCH_BYTES_MAX = 192 * 1024 * 1024, /* of all; a path that several watch counts once */
    /* Of these, for connections that have no more than so many. */
    ZK_WATCH_BYTES_OF_SMALL = 32 * 1024 * 1024,
    ZK_WATCH_BYTES_SMALL = 64 * 1024,
    /* Of a watch and of a watched path, with their place in a table, before the path's own bytes.
     */
    ZK_WATCH_BYTES = 128,
    ZK_WATCHED_PATH_BYTES = 96
};

/* Bits. */
enum zk_watch_kind {
    ZK_WATCH_DATA = 1,  /* of getData and exists: once */
    ZK_WATCH_CHILD = 2, /* once */
    ZK_WATCH_PERSISTENT = 4,
    ZK_WATCH_RECURSIVE = 8,
    ZK_WATCH_ALL = 15
};

enum zk_event_type {
    ZK_EVENT_CREATED = 1,
    ZK_EVENT_DELETED = 2,
    ZK_EVENT_DATA_CHANGED = 3,
    ZK_EVENT_CHILDREN_CHANGED = 4
};

struct zk_watched_path {
    struct zk_hash_node in_table;
    struct list watches;
    size_t size;
    uint8_t path[];
};

/* Of one connection. */
struct zk_watcher {
    struct list watches;
    struct list unseen;  /* those that may have missed something: zk_tellings.h */
    size_t n_watches;    /* in both */
    size_t bytes;        /* as if it were the only one who watches its paths */
    uint64_t told_event; /* the last one */
};

struct zk_watch {
    struct zk_hash_node in_table; /* by watcher and path */
    struct list in_path;
    struct list in_watcher;
    struct zk_watcher *watcher;
    struct zk_watched_path *path;
    uint8_t kinds;
};

struct zk_watches {
    struct hash_key key;
    struct zk_hash paths;
    struct zk_hash watches;
    size_t n_recursive;
    size_t n_watchers; /* with a watch */
    uint64_t n_events; /* fired so far */
    size_t bytes;
    size_t freed; /* bytes, since memory was last given back */
};

void zk_watches_init(struct zk_watches *table);
void zk_watches_clear(struct zk_watches *table);

void zk_watcher_init(struct zk_watcher *watcher);
/* All watches of one connection go. */
void zk_watcher_clear(struct zk_watches *table, struct zk_watcher *watcher);

/* Adds kinds. False: the watcher, or all together, have as much as they may, or memory is out. */
bool zk_watches_add(struct zk_watches *table, struct zk_watcher *watcher, struct bytes path,
                    unsigned kinds);
/* The kinds that the watcher has there. */
unsigned zk_watches_kinds(const struct zk_watches *table, const struct zk_watcher *watcher,
                          struct bytes path);
/* Takes kinds away; what is left without any goes. */
void zk_watches_remove(struct zk_watches *table, struct zk_watcher *watcher, struct bytes path,
                       unsigned kinds);

/* Tells who watches of an event, each watcher once, and takes away what was for one time. The event
 * is that of the node itself, or ZK_EVENT_CHILDREN_CHANGED of a parent. `tell` must not change the
 * table. */
void zk_watches_fire(struct zk_watches *table, struct bytes path, enum zk_event_type type,
                     void (*tell)(void *context, struct zk_watcher *watcher, struct bytes path,
                                  enum zk_event_type type),
                     void *context);

#endif
