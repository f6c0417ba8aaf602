#include "disk_node.h"

#include "disk_sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t size) {
    void *memory = calloc(1, size == 0 ? 1 : size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

struct disk_node *disk_node_create(void) {
    struct disk_node *node = allocate(sizeof(*node));
    node->n_references = 1;
    return node;
}

struct disk_node *disk_node_ref(struct disk_node *node) {
    node->n_references++;
    return node;
}

static void drop_changes(struct disk_node *node) {
    for (size_t i = 0; i < node->n_changes; i++) {
        free(node->changes[i].bytes);
    }
    node->n_changes = 0;
}

bool disk_node_unref(struct disk_node *node) {
    if (node == NULL) {
        return false;
    }
    assert(node->n_references > 0);
    if (--node->n_references > 0) {
        return false;
    }
    drop_changes(node);
    free(node->changes);
    free(node->bytes);
    free(node);
    return true;
}

struct disk_node *disk_node_clone(const struct disk_node *node) {
    struct disk_node *copy = disk_node_create();
    copy->bytes = allocate(node->size);
    copy->size = node->size;
    copy->capacity = node->size;
    if (node->size > 0) {
        memcpy(copy->bytes, node->bytes, node->size);
    }
    copy->changes = allocate(node->n_changes * sizeof(*copy->changes));
    copy->n_changes = node->n_changes;
    copy->changes_capacity = node->n_changes;
    for (size_t i = 0; i < node->n_changes; i++) {
        const struct disk_change *change = &node->changes[i];
        size_t size = change->n_new + change->n_old;
        copy->changes[i] = *change;
        copy->changes[i].bytes = allocate(size);
        memcpy(copy->changes[i].bytes, change->bytes, size);
    }
    return copy;
}

void disk_node_resize(struct disk_node *node, uint64_t size) {
    if (size > node->capacity) {
        uint64_t capacity = size > 2 * node->capacity ? size : 2 * node->capacity;
        /* calloc and not realloc: the zeros of what is only allocated cost no memory. */
        uint8_t *bytes = allocate(capacity);
        if (node->size > 0) {
            memcpy(bytes, node->bytes, node->size);
        }
        free(node->bytes);
        node->bytes = bytes;
        node->capacity = capacity;
    }
    if (size < node->size) {
        memset(node->bytes + size, 0, node->size - size);
    }
    node->size = size;
}

static struct disk_change *add_change(struct disk_node *node) {
    if (node->n_changes == node->changes_capacity) {
        node->changes_capacity = node->changes_capacity == 0 ? 4 : 2 * node->changes_capacity;
        node->changes = realloc(node->changes, node->changes_capacity * sizeof(struct disk_change));
        if (node->changes == NULL) {
            abort();
        }
    }
    struct disk_change *change = &node->changes[node->n_changes++];
    *change = (struct disk_change){.state = DISK_CHANGE_PENDING, .size_before = node->size};
    return change;
}

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void disk_node_write(struct disk_node *node, uint64_t offset, const void *bytes, size_t size) {
    if (size == 0) {
        return;
    }
    struct disk_change *change = add_change(node);
    change->offset = offset;
    change->n_new = size;
    change->end = offset + size;
    if (offset < node->size) {
        uint64_t there = node->size - offset;
        change->n_old = there < size ? (size_t)there : size;
    }
    change->bytes = allocate(change->n_new + change->n_old);
    memcpy(change->bytes, bytes, size);
    if (change->n_old > 0) {
        memcpy(change->bytes + size, node->bytes + offset, change->n_old);
    }
    disk_node_resize(node, max_u64(node->size, offset + size));
    memcpy(node->bytes + offset, bytes, size);
}

void disk_node_extend(struct disk_node *node, uint64_t size) {
    if (size <= node->size) {
        return;
    }
    struct disk_change *change = add_change(node);
    change->end = size;
    change->bytes = allocate(0);
    disk_node_resize(node, size);
}

void disk_node_sync(struct disk_node *node) {
    bool has_forgotten = false;
    for (size_t i = 0; i < node->n_changes; i++) {
        if (node->changes[i].state == DISK_CHANGE_PENDING) {
            node->changes[i].state = DISK_CHANGE_SYNCED;
        }
        has_forgotten |= node->changes[i].state == DISK_CHANGE_FORGOTTEN;
    }
    if (!has_forgotten) {
        drop_changes(node);
    }
}

void disk_node_fail_sync(struct disk_node *node) {
    for (size_t i = 0; i < node->n_changes; i++) {
        if (node->changes[i].state == DISK_CHANGE_PENDING) {
            node->changes[i].state = DISK_CHANGE_FORGOTTEN;
        }
    }
}

bool disk_node_is_dirty(const struct disk_node *node) {
    return node->n_changes > 0;
}

void disk_node_keep(struct disk_node *node) {
    drop_changes(node);
}

/* --- a crash --- */

static void undo(struct disk_node *node, const struct disk_change *change) {
    if (change->n_old > 0) {
        memcpy(node->bytes + change->offset, change->bytes + change->n_new, change->n_old);
    }
    disk_node_resize(node, change->size_before);
}

static void redo_part(struct disk_node *node, const struct disk_change *change, size_t from,
                      size_t to) {
    disk_node_resize(node, max_u64(node->size, change->offset + to));
    memcpy(node->bytes + change->offset + from, change->bytes + from, to - from);
}

static void redo(struct disk_node *node, const struct disk_change *change) {
    disk_node_resize(node, max_u64(node->size, change->end));
    if (change->n_new > 0) {
        redo_part(node, change, 0, change->n_new);
    }
}

static void redo_some_sectors(struct disk_node *node, const struct disk_change *change,
                              disk_node_random random, void *data) {
    size_t from = 0;
    while (from < change->n_new) {
        uint64_t sector_end =
            ((change->offset + from) / DISK_SIM_SECTOR_SIZE + 1) * DISK_SIM_SECTOR_SIZE;
        uint64_t left = sector_end - change->offset;
        size_t to = left < change->n_new ? (size_t)left : change->n_new;
        if (random(data, 2) == 0) {
            redo_part(node, change, from, to);
        }
        from = to;
    }
}

static void redo_some(struct disk_node *node, const struct disk_change *change, bool is_newest,
                      disk_node_random random, void *data) {
    switch (random(data, 4)) {
    case 0:
        redo(node, change);
        break;
    case 1:
        redo_some_sectors(node, change, random, data);
        break;
    case 2:
        if (!is_newest) {
            redo(node, change);
        } else if (change->n_new > 0) {
            redo_part(node, change, 0, 1 + (size_t)random(data, change->n_new));
        }
        break;
    default: /* lost, but the size may be on disk */
        if (random(data, 4) == 0) {
            disk_node_resize(node, max_u64(node->size, change->end));
        }
        break;
    }
}

void disk_node_crash(struct disk_node *node, disk_node_random random, void *data) {
    for (size_t i = node->n_changes; i > 0; i--) {
        undo(node, &node->changes[i - 1]);
    }
    for (size_t i = 0; i < node->n_changes; i++) {
        const struct disk_change *change = &node->changes[i];
        if (change->state == DISK_CHANGE_SYNCED) {
            redo(node, change);
        } else if (random != NULL) {
            redo_some(node, change, i + 1 == node->n_changes, random, data);
        }
    }
    drop_changes(node);
}
