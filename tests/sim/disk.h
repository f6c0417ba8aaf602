/*
 * A simulated disk under raft: term and vote, which are written at once; the log, whose writes end
 * later, in order, and may be lost or cut by a crash until then; one snapshot. It can be slow,
 * fail, or be full.
 */
#ifndef LEASED_SIM_DISK_H
#define LEASED_SIM_DISK_H

#include <raft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_entry {
    raft_term term;
    int type;
    size_t size;
    uint8_t *bytes;
};

struct disk_snapshot {
    raft_index index;
    raft_term term;
    struct raft_buffer configuration; /* encoded */
    raft_index configuration_index;
    size_t size;
    uint8_t *bytes;
};

struct disk {
    raft_term term;
    raft_id vote;
    raft_index first_index; /* of entries[0] */
    struct disk_entry *entries;
    size_t n;
    size_t capacity;
    struct disk_snapshot *snapshot; /* NULL: none */
    /* How it behaves. */
    uint64_t delay_us;
    uint64_t worst_delay_us;
    bool is_full;    /* writes never end */
    bool is_failing; /* writes end with an error */
};

void disk_append(struct disk *disk, const struct disk_entry *entry);
void disk_truncate(struct disk *disk, raft_index index);
/* Drops entries before this index. */
void disk_drop_before(struct disk *disk, raft_index index);
raft_index disk_last_index(const struct disk *disk);
void disk_put_snapshot(struct disk *disk, struct disk_snapshot *snapshot);
uint64_t disk_write_us(const struct disk *disk);

#endif
