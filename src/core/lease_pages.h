/*
 * Storage of leases: pages of 256, found by a 32-bit handle. What is replicated is kept apart
 * from what is local. The replicated facts are in copy-on-write pages that views share; the local
 * part (timer, keys, links) is never shared. Facts that few leases have (parent, checkpoint, class)
 * cost memory only in pages where one of them has some, and so do the links of families and the
 * bytes of long keys.
 *
 * Memory that is out aborts.
 */
#ifndef LEASED_CORE_LEASE_PAGES_H
#define LEASED_CORE_LEASE_PAGES_H

#include "base/timing_wheel.h"
#include "core/lease_table.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEASE_PAGE_SLOTS = 256 };
/* The last handles are no leases: UINT32_MAX means none, here and in the timing wheel. */
enum { LEASE_PAGES_MAX = UINT32_MAX / LEASE_PAGE_SLOTS };
#define LEASE_NONE TIMING_WHEEL_NONE

struct lease_fact {
    int64_t id; /* 0: the slot is free */
    int64_t ttl_ms;
    uint32_t epoch;
    struct key_space_id owner;
    bool is_noted_full; /* its checkpoint is its TTL: every lease has that when a term begins */
};

/* What most leases have none of. */
struct lease_rare {
    int64_t parent_id;
    int64_t checkpoint_ms;
    lease_class class;
};

/* Shared by the table and its views; a page with several owners is copied before it is written. */
struct lease_facts_page {
    uint32_t references;     /* touched by the loop's thread only */
    uint32_t n_rare;         /* slots whose rare facts are not all zero */
    struct lease_rare *rare; /* LEASE_PAGE_SLOTS of them, or NULL */
    struct lease_fact slots[LEASE_PAGE_SLOTS];
};

struct lease_local {
    struct timing_wheel_timer timer;
    struct record *first_key;
    uint32_t next; /* in the chain of the index, or of the free slots of the page */
    bool is_expiring : 1;
    bool is_being_noted : 1; /* a checkpoint of it is on its way */
    uint32_t stage : 6;      /* what its timer is armed for: see lease_deadlines.c */
    uint32_t n_keys : 24;    /* LEASE_KEYS_UNCOUNTED: so many or more, until it has none again */
};
enum { LEASE_KEYS_UNCOUNTED = (1 << 24) - 1 };
static_assert(sizeof(struct lease_local) == 40, "the count of keys costs no memory");

/* Links of lease_family.h. */
struct lease_kin {
    uint32_t first_child; /* the child with the smallest id: the root of the heap of children */
    uint32_t heap_first;  /* below this one in its parent's heap */
    uint32_t heap_next;
    uint32_t heap_before; /* the sibling before, or the one above, or none in the root */
};

struct lease_local_page {
    uint32_t used;
    uint32_t first_free; /* a slot number; LEASE_NONE: full */
    uint32_t room_next;  /* other pages with free slots */
    uint32_t room_before;
    struct lease_kin *kin; /* LEASE_PAGE_SLOTS of them, or NULL */
    size_t *long_keys;     /* bytes of attached keys that are long; the same */
    struct lease_local slots[LEASE_PAGE_SLOTS];
};

struct lease_pages {
    struct lease_facts_page **facts; /* NULL: the page is vacant */
    struct lease_local_page **locals;
    uint32_t *vacant; /* numbers of vacant pages */
    size_t n_pages;
    size_t n_vacant;
    size_t capacity; /* of the three arrays */
    uint32_t first_with_room;
    size_t bytes;
};

void lease_pages_init(struct lease_pages *pages);
void lease_pages_clear(struct lease_pages *pages);

/* Finds a place for a lease; its local part is initialised. */
uint32_t lease_pages_add(struct lease_pages *pages, const struct lease_facts *facts);
/* An empty page gives its memory back. */
void lease_pages_remove(struct lease_pages *pages, uint32_t handle);

/* Changes everything but the id. */
void lease_pages_set(struct lease_pages *pages, uint32_t handle, const struct lease_facts *facts);

/* False: the slot is free. */
bool lease_facts_page_get(const struct lease_facts_page *page, unsigned slot,
                          struct lease_facts *out_facts);
void lease_facts_page_share(struct lease_facts_page *page);
/* The last one to let go frees it. */
void lease_facts_page_release(struct lease_facts_page *page);

static inline const struct lease_fact *lease_pages_fact(const struct lease_pages *pages,
                                                        uint32_t handle) {
    return &pages->facts[handle / LEASE_PAGE_SLOTS]->slots[handle % LEASE_PAGE_SLOTS];
}

static inline struct lease_local *lease_pages_local(const struct lease_pages *pages,
                                                    uint32_t handle) {
    return &pages->locals[handle / LEASE_PAGE_SLOTS]->slots[handle % LEASE_PAGE_SLOTS];
}

static inline void lease_pages_get(const struct lease_pages *pages, uint32_t handle,
                                   struct lease_facts *out_facts) {
    lease_facts_page_get(pages->facts[handle / LEASE_PAGE_SLOTS], handle % LEASE_PAGE_SLOTS,
                         out_facts);
}

/* The family links of a lease; NULL when it never had any. */
static inline struct lease_kin *lease_pages_kin(const struct lease_pages *pages, uint32_t handle) {
    struct lease_kin *kin = pages->locals[handle / LEASE_PAGE_SLOTS]->kin;
    return kin == NULL ? NULL : &kin[handle % LEASE_PAGE_SLOTS];
}

/* The bytes of long keys that are attached to a lease. */
static inline size_t lease_pages_long_keys(const struct lease_pages *pages, uint32_t handle) {
    const size_t *long_keys = pages->locals[handle / LEASE_PAGE_SLOTS]->long_keys;
    return long_keys == NULL ? 0 : long_keys[handle % LEASE_PAGE_SLOTS];
}

/* The same, to be changed; made when missing. */
size_t *lease_pages_need_long_keys(struct lease_pages *pages, uint32_t handle);

/* Links, made when missing. */
struct lease_kin *lease_pages_need_kin(struct lease_pages *pages, uint32_t handle);

/* The first lease at or after `handle`; LEASE_NONE: no more. For walking over all of them. */
uint32_t lease_pages_next(const struct lease_pages *pages, uint32_t handle);

void lease_pages_validate(const struct lease_pages *pages, size_t count);

#endif
