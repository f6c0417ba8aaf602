/*
 * How etcd stores what it knows: names of buckets, revisions as keys, records and leases as
 * messages. Shared by backups (etcd_backup.h), their restoring (etcd_import.h) and hashes.
 */
#ifndef LEASED_DOORS_ETCD_STORED_H
#define LEASED_DOORS_ETCD_STORED_H

#include "base/buffer.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_BUCKET_ALARM "alarm"
#define ETCD_BUCKET_AUTH "auth"
#define ETCD_BUCKET_ROLES "authRoles"
#define ETCD_BUCKET_USERS "authUsers"
#define ETCD_BUCKET_CLUSTER "cluster"
#define ETCD_BUCKET_KEY "key"
#define ETCD_BUCKET_LEASE "lease"
#define ETCD_BUCKET_MEMBERS "members"
#define ETCD_BUCKET_MEMBERS_REMOVED "members_removed"
#define ETCD_BUCKET_META "meta"
/* Ours: what etcd has no place for. etcd leaves it alone. */
#define ETCD_BUCKET_LEASED "leased"

#define ETCD_AUTH_ENABLED "authEnabled"
#define ETCD_AUTH_REVISION "authRevision"
#define ETCD_META_FINISHED_COMPACTION "finishedCompactRev"
#define ETCD_META_SCHEDULED_COMPACTION "scheduledCompactRev"

/* In ETCD_BUCKET_LEASED: which etcd data it belongs to, and the parts of a snapshot of ours
 * without the keys of etcd's space, numbered (u32, big-endian) behind a prefix. */
#define ETCD_LEASED_PART "part"
#define ETCD_LEASED_STAMP "stamp"

enum {
    ETCD_REVISION_SIZE = 17,     /* main u64, '_', sub u64, big-endian */
    ETCD_REVISION_SIZE_MAX = 18, /* a tombstone has a 't' behind it */
    ETCD_LEASE_KEY_SIZE = 8
};

struct etcd_revision {
    int64_t main;
    int64_t sub;
    bool is_tombstone;
};

/* Returns the size. */
size_t etcd_revision_write(const struct etcd_revision *revision,
                           uint8_t out_key[ETCD_REVISION_SIZE_MAX]);
/* False: malformed, or a number is negative. */
bool etcd_revision_read(struct bytes key, struct etcd_revision *out_revision);

/* Replaces the buffer's content by etcd's message for a record; a tombstone has its key alone. */
void etcd_record_write(struct buffer *buffer, const struct record *record);

/* Records of etcd's space by the revision at which they were written, to be filled in any order. */
struct etcd_records {
    const struct record **records;
    size_t n;
    size_t capacity;
};
void etcd_records_add(struct etcd_records *records, const struct record *record);
void etcd_records_sort(struct etcd_records *records);
void etcd_records_clear(struct etcd_records *records);

static inline void etcd_put_u64(uint8_t *at, uint64_t value) {
    for (size_t i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

static inline uint64_t etcd_get_u64(const uint8_t *at) {
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

#endif
