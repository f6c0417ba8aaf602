#include "disk.h"

#include "world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

raft_index disk_last_index(const struct disk *disk) {
    return disk->first_index + disk->n - 1;
}

void disk_append(struct disk *disk, const struct disk_entry *entry) {
    if (disk->n == disk->capacity) {
        disk->capacity = disk->capacity == 0 ? 256 : disk->capacity * 2;
        disk->entries = realloc(disk->entries, disk->capacity * sizeof *disk->entries);
        if (disk->entries == NULL) {
            abort();
        }
    }
    struct disk_entry copy = *entry;
    copy.bytes = malloc(entry->size + 1);
    if (copy.bytes == NULL) {
        abort();
    }
    memcpy(copy.bytes, entry->bytes, entry->size);
    disk->entries[disk->n++] = copy;
}

void disk_truncate(struct disk *disk, raft_index index) {
    assert(index >= disk->first_index);
    while (disk->n > 0 && disk_last_index(disk) >= index) {
        free(disk->entries[--disk->n].bytes);
    }
}

void disk_drop_before(struct disk *disk, raft_index index) {
    size_t n_dropped = 0;
    while (n_dropped < disk->n && disk->first_index + n_dropped < index) {
        free(disk->entries[n_dropped++].bytes);
    }
    memmove(disk->entries, disk->entries + n_dropped,
            (disk->n - n_dropped) * sizeof *disk->entries);
    disk->n -= n_dropped;
    disk->first_index += n_dropped;
}

void disk_put_snapshot(struct disk *disk, struct disk_snapshot *snapshot) {
    if (disk->snapshot != NULL) {
        raft_free(disk->snapshot->configuration.base);
        free(disk->snapshot->bytes);
        free(disk->snapshot);
    }
    disk->snapshot = snapshot;
}

uint64_t disk_write_us(const struct disk *disk) {
    return random_delay(disk->delay_us, disk->worst_delay_us);
}
