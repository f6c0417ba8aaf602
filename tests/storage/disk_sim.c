#include "disk_sim.h"

#include "disk_sim_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Splitmix64. */
uint64_t disk_sim_random(struct disk_sim *disk, uint64_t limit) {
    uint64_t z = disk->random_state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % limit;
}

static uint64_t random_for_crash(void *data, uint64_t limit) {
    return disk_sim_random(data, limit);
}

struct disk_sim *disk_sim_create(uint64_t seed) {
    struct disk_sim *disk = calloc(1, sizeof(*disk));
    if (disk == NULL) {
        abort();
    }
    pthread_mutex_init(&disk->mutex, NULL);
    disk->random_state = seed;
    disk->next_file = 3;
    disk->capacity = UINT64_MAX;
    disk->ignored_kind = DISK_SIM_ANY_CALL;
    return disk;
}

static void close_all(struct disk_sim *disk) {
    for (size_t i = 0; i < disk->n_handles; i++) {
        disk_node_unref(disk->handles[i].node);
    }
    disk->n_handles = 0;
}

void disk_sim_destroy(struct disk_sim *disk) {
    if (disk == NULL) {
        return;
    }
    close_all(disk);
    free(disk->handles);
    disk_directory_clear(&disk->directory);
    pthread_mutex_destroy(&disk->mutex);
    free(disk);
}

struct disk_sim *disk_sim_clone(const struct disk_sim *disk, uint64_t seed) {
    struct disk_sim *copy = disk_sim_create(seed);
    copy->capacity = disk->capacity;
    disk_directory_copy(&copy->directory, &disk->directory);
    return copy;
}

/* --- counting, failing, stopping --- */

static const char *const call_texts[] = {
    [DISK_SIM_OPEN] = "open",
    [DISK_SIM_CLOSE] = "close",
    [DISK_SIM_SIZE] = "size",
    [DISK_SIM_READ] = "read",
    [DISK_SIM_WRITE] = "write",
    [DISK_SIM_SYNC] = "sync",
    [DISK_SIM_WRITE_BACK] = "write back",
    [DISK_SIM_ALLOCATE] = "allocate",
    [DISK_SIM_RENAME] = "rename",
    [DISK_SIM_UNLINK] = "unlink",
    [DISK_SIM_SYNC_DIRECTORY] = "sync_directory",
    [DISK_SIM_LIST] = "list",
    [DISK_SIM_ANY_CALL] = "any",
};

const char *disk_sim_call_text(enum disk_sim_call kind) {
    return call_texts[kind];
}

uint64_t disk_sim_count(const struct disk_sim *disk, enum disk_sim_call kind) {
    if (kind != DISK_SIM_ANY_CALL) {
        return disk->counts[kind];
    }
    uint64_t sum = 0;
    for (int i = 0; i < DISK_SIM_ANY_CALL; i++) {
        sum += disk->counts[i];
    }
    return sum;
}

void disk_sim_reset_counts(struct disk_sim *disk) {
    memset(disk->counts, 0, sizeof(disk->counts));
}

void disk_sim_fail(struct disk_sim *disk, struct disk_sim_fault fault) {
    disk->fault = fault;
    disk->is_fault_lasting = false;
}

void disk_sim_stop_at(struct disk_sim *disk, uint64_t n) {
    disk->stop_in = n;
}

bool disk_sim_is_stopped(const struct disk_sim *disk) {
    return disk->is_stopped;
}

const char *disk_sim_fault_text(const struct disk_sim *disk) {
    return disk->fault_text;
}

void disk_sim_ignore(struct disk_sim *disk, enum disk_sim_call kind, const char *prefix) {
    disk->ignored_kind = prefix == NULL ? DISK_SIM_ANY_CALL : kind;
    snprintf(disk->ignored_prefix, sizeof(disk->ignored_prefix), "%s",
             prefix == NULL ? "" : prefix);
}

static bool has_name(const struct disk_sim *disk, const struct disk_node *node) {
    for (size_t i = 0; i < disk->directory.current.n; i++) {
        if (disk->directory.current.items[i].node == node) {
            return true;
        }
    }
    return false;
}

static bool is_opened_before(const struct disk_sim *disk, size_t position) {
    for (size_t i = 0; i < position; i++) {
        if (disk->handles[i].node == disk->handles[position].node) {
            return true;
        }
    }
    return false;
}

/* A file takes room as long as it has a name or is open. */
uint64_t disk_sim_used(const struct disk_sim *disk) {
    uint64_t sum = 0;
    for (size_t i = 0; i < disk->directory.current.n; i++) {
        sum += disk->directory.current.items[i].node->size;
    }
    for (size_t i = 0; i < disk->n_handles; i++) {
        struct disk_node *node = disk->handles[i].node;
        if (!has_name(disk, node) && !is_opened_before(disk, i)) {
            sum += node->size;
        }
    }
    return sum;
}

/* --- crashes, damage, looking --- */

void disk_sim_set_capacity(struct disk_sim *disk, uint64_t bytes) {
    disk->capacity = bytes;
}

void disk_sim_crash(struct disk_sim *disk, enum disk_sim_crash loss) {
    close_all(disk);
    disk_node_random random = loss == DISK_SIM_LOSE_ANY ? random_for_crash : NULL;
    if (loss == DISK_SIM_LOSE_NONE) {
        disk_directory_sync(&disk->directory);
        for (size_t i = 0; i < disk->directory.current.n; i++) {
            disk_node_keep(disk->directory.current.items[i].node);
        }
    }
    disk_directory_crash(&disk->directory, random, disk);
    for (size_t i = 0; i < disk->directory.current.n; i++) {
        disk_node_crash(disk->directory.current.items[i].node, random, disk);
    }
    disk->fault = (struct disk_sim_fault){0};
    disk->is_fault_lasting = false;
    disk->stop_in = 0;
    disk->is_stopped = false;
}

bool disk_sim_exists(const struct disk_sim *disk, const char *name) {
    return disk_directory_find(&disk->directory, name) != NULL;
}

static struct disk_node *find_existing(const struct disk_sim *disk, const char *name) {
    struct disk_node *node = disk_directory_find(&disk->directory, name);
    assert(node != NULL);
    return node;
}

struct bytes disk_sim_view(const struct disk_sim *disk, const char *name) {
    struct disk_node *node = find_existing(disk, name);
    return bytes_of(node->bytes, node->size);
}

const char *disk_sim_name(const struct disk_sim *disk, size_t position) {
    return position < disk->directory.current.n ? disk->directory.current.items[position].name
                                                : NULL;
}

void disk_sim_put(struct disk_sim *disk, const char *name, struct bytes bytes) {
    disk_sim_remove(disk, name);
    struct disk_node *node = disk_node_create();
    disk_node_write(node, 0, bytes.data, bytes.size);
    disk_node_sync(node);
    disk_directory_link(&disk->directory, name, node);
    disk_directory_sync(&disk->directory);
    disk_node_unref(node);
}

void disk_sim_flip_bit(struct disk_sim *disk, const char *name, uint64_t offset, unsigned bit) {
    struct disk_node *node = find_existing(disk, name);
    assert(!disk_node_is_dirty(node));
    assert(offset < node->size);
    assert(bit < 8);
    node->bytes[offset] ^= (uint8_t)(1U << bit);
}

void disk_sim_resize(struct disk_sim *disk, const char *name, uint64_t size) {
    struct disk_node *node = find_existing(disk, name);
    assert(!disk_node_is_dirty(node));
    disk_node_resize(node, size);
}

void disk_sim_remove(struct disk_sim *disk, const char *name) {
    if (disk_sim_exists(disk, name)) {
        disk_directory_unlink(&disk->directory, name);
    }
    disk_directory_sync(&disk->directory);
}

size_t disk_sim_open_files(const struct disk_sim *disk) {
    return disk->n_handles;
}

bool disk_sim_is_dirty(const struct disk_sim *disk) {
    for (size_t i = 0; i < disk->directory.current.n; i++) {
        if (disk_node_is_dirty(disk->directory.current.items[i].node)) {
            return true;
        }
    }
    return disk->directory.n_operations > 0;
}
