/*
 * A file of the simulated disk, with or without a name: its bytes as they read now, and the changes
 * since its last sync with what they replaced, from which a crash works out what is left.
 */
#ifndef LEASED_TESTS_STORAGE_DISK_NODE_H
#define LEASED_TESTS_STORAGE_DISK_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum disk_change_state {
    DISK_CHANGE_PENDING,
    DISK_CHANGE_SYNCED,   /* kept only because an older one is forgotten */
    DISK_CHANGE_FORGOTTEN /* a sync failed: it is not on disk, and no later sync cares */
};

struct disk_change {
    enum disk_change_state state;
    uint64_t offset;
    size_t n_new; /* bytes written, 0 for an allocation */
    size_t n_old; /* bytes that stood there */
    uint64_t end; /* the file is at least this long afterwards */
    uint64_t size_before;
    uint8_t *bytes; /* the new ones, then the old ones */
};

struct disk_node {
    unsigned n_references;
    struct disk_node *clone; /* while a disk is copied */
    uint8_t *bytes;
    uint64_t size;
    uint64_t capacity;
    struct disk_change *changes;
    size_t n_changes;
    size_t changes_capacity;
};

struct disk_node *disk_node_create(void);
struct disk_node *disk_node_ref(struct disk_node *node);
/* Returns whether it is gone. Accepts NULL. */
bool disk_node_unref(struct disk_node *node);
struct disk_node *disk_node_clone(const struct disk_node *node);

void disk_node_write(struct disk_node *node, uint64_t offset, const void *bytes, size_t size);
/* Zeros up to `size`; nothing when it is that long. */
void disk_node_extend(struct disk_node *node, uint64_t size);
void disk_node_resize(struct disk_node *node, uint64_t size);
void disk_node_sync(struct disk_node *node);
void disk_node_fail_sync(struct disk_node *node);
/* All of it is on disk, whatever a sync said. */
void disk_node_keep(struct disk_node *node);
bool disk_node_is_dirty(const struct disk_node *node);

/* `random(data, limit)` decides what survives. NULL: nothing. */
typedef uint64_t (*disk_node_random)(void *data, uint64_t limit);
void disk_node_crash(struct disk_node *node, disk_node_random random, void *data);

#endif
