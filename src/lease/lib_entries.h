/* The entries of a directory: keys with their values, sorted by key. Pure: no clock, no mutex. */
#ifndef LEASED_LEASE_LIB_ENTRIES_H
#define LEASED_LEASE_LIB_ENTRIES_H

#include "base/bytes.h"
#include "lease/lib_etcd_wire.h"

#include <lease.h>

enum { LIB_ENTRIES_MAX = 100000 };

struct lib_entries {
    struct lease_entry *items; /* each with its own memory, keys and values end with NUL */
    size_t n;
    size_t n_room;
};

/* All fields 0 is an empty one. Accepts NULL. */
void lib_entries_clear(struct lib_entries *entries);
/* Adds it or replaces its value. False: there are LIB_ENTRIES_MAX already. */
bool lib_entries_put(struct lib_entries *entries, const struct lib_etcd_key *key);
/* One that is not there is no mistake. */
void lib_entries_remove(struct lib_entries *entries, struct bytes key);
/* The largest revision of an entry; 0: there is none. */
int64_t lib_entries_newest(const struct lib_entries *entries);
/* A copy that needs the arena alone. */
const struct lease_entry *lib_entries_copy(const struct lib_entries *entries, struct arena *arena);

#endif
