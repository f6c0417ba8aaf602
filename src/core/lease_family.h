/*
 * Parents and children among leases. The children of a lease form a pairing heap by id: joining is
 * constant time, leaving is logarithmic on average, and the child with the smallest id is at hand.
 * That it is the smallest, and not any, makes every replica end children in the same order,
 * however it came to know them.
 */
#ifndef LEASED_CORE_LEASE_FAMILY_H
#define LEASED_CORE_LEASE_FAMILY_H

#include "core/lease_index.h"
#include "core/lease_pages.h"

void lease_family_join(struct lease_pages *pages, uint32_t parent, uint32_t child);
void lease_family_leave(struct lease_pages *pages, uint32_t parent, uint32_t child);
/* The child with the smallest id, or LEASE_NONE. */
uint32_t lease_family_first(const struct lease_pages *pages, uint32_t parent);

/* Writes the handles of a lease and of all that descend from it, in an order that is not the same
 * on every replica. Returns how many there are; more than `capacity`, which is not 0: it stopped
 * looking. */
size_t lease_family_list(const struct lease_pages *pages, uint32_t handle, uint32_t *out_handles,
                         size_t capacity);

/* Ties every lease to the parent its facts name, after all were restored. STATUS_CORRUPT when a
 * parent is missing or a lease would descend from itself. */
enum status lease_family_restore(struct lease_pages *pages, const struct lease_index *index);

void lease_family_validate(const struct lease_pages *pages, const struct lease_index *index);

#endif
