/*
 * Finds a lease's handle by its id: a hash table of chains through the leases themselves. It grows
 * and shrinks by one bucket at a time (linear hashing), so no grant ever waits for a rehash.
 */
#ifndef LEASED_CORE_LEASE_INDEX_H
#define LEASED_CORE_LEASE_INDEX_H

#include "base/keyed_hash.h"
#include "core/lease_pages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lease_index {
    struct hash_key key; /* ids are chosen by clients if they like */
    uint32_t *buckets;
    size_t n_buckets;
    size_t capacity;
    size_t round; /* the greatest power of two that is not above n_buckets */
    size_t count;
};

void lease_index_init(struct lease_index *index, const struct hash_key *key);
void lease_index_clear(struct lease_index *index);

/* LEASE_NONE: no such lease. */
uint32_t lease_index_find(const struct lease_index *index, const struct lease_pages *pages,
                          int64_t id);
/* The id must be new. */
void lease_index_add(struct lease_index *index, struct lease_pages *pages, uint32_t handle);
void lease_index_remove(struct lease_index *index, struct lease_pages *pages, uint32_t handle);

/* Ids that are given out in a row are known before they are looked for: prefetches what finding
 * the id will touch, first with `is_near` false, then, some ids later, with true. */
void lease_index_prefetch(const struct lease_index *index, const struct lease_pages *pages,
                          int64_t id, bool is_near);

size_t lease_index_bytes(const struct lease_index *index);
void lease_index_validate(const struct lease_index *index, const struct lease_pages *pages);

#endif
