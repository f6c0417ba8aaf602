/*
 * One version of one key, or its tombstone. A record never changes once the key store has linked
 * it, except for the lease links, which belong to the lease table, and for `older`, which
 * compaction cuts. Records are owned by the key store; others borrow them until the
 * iteration of the loop ends (reclaiming happens between iterations).
 */
#ifndef LEASED_CORE_RECORD_H
#define LEASED_CORE_RECORD_H

#include "base/bytes.h"
#include "core/key_space.h"

#include <stdbool.h>
#include <stdint.h>

struct record {
    struct record *older;      /* the version before this one, or NULL */
    int64_t create_revision;   /* 0 in a tombstone */
    int64_t mod_revision;      /* the revision that wrote this record */
    int64_t version;           /* counts from 1 since creation; 0 in a tombstone */
    int64_t lease_id;          /* 0: none */
    struct record *lease_next; /* other records of the same lease; see lease_table.h */
    struct record *lease_before;
    uint32_t sub_revision; /* position among the changes of its revision */
    uint32_t key_size;     /* of the stored key: at least 1 */
    uint32_t value_size;
    uint8_t bytes[]; /* the stored key (the byte of its space, then the key), then the value */
};

/* The key as clients know it. */
static inline struct bytes record_key(const struct record *record) {
    return bytes_of(record->bytes + 1, record->key_size - 1);
}

static inline struct key_space_id record_space(const struct record *record) {
    return (struct key_space_id){.value = record->bytes[0]};
}

/* The key as the tree orders it. */
static inline struct bytes record_stored_key(const struct record *record) {
    return bytes_of(record->bytes, record->key_size);
}

static inline struct bytes record_value(const struct record *record) {
    return bytes_of(record->bytes + record->key_size, record->value_size);
}

static inline bool record_is_tombstone(const struct record *record) {
    return record->version == 0;
}

#endif
