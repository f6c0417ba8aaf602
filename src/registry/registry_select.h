/*
 * Which instances a client is given, and in which order: pure functions over entries, the same for
 * every protocol.
 */
#ifndef LEASED_REGISTRY_REGISTRY_SELECT_H
#define LEASED_REGISTRY_REGISTRY_SELECT_H

#include "registry/registry_view.h"

struct registry_query {
    /* Empty texts and zeros: whatever it is. */
    size_t n_tags;
    const struct bytes *tags; /* all of them */
    size_t n_metadata;
    const struct registry_pair *metadata; /* all of them */
    struct bytes only_zone;
    struct bytes version;
    bool with_unhealthy; /* also those that are not serving */
    /* Order and number. */
    struct bytes near_zone; /* those of this zone first */
    uint64_t seed;          /* 0: by id. Else weighted at random, the same for the same seed */
    struct bytes subset_of; /* a client's name: with `limit`, the same subset for the same client,
                               evenly spread over clients */
    size_t limit;           /* 0: all */
};

bool registry_query_matches(const struct registry_query *query, const struct registry_entry *entry);

/* Puts the entries that match in order at the front; returns how many. */
size_t registry_select(const struct registry_query *query, const struct registry_entry **entries,
                       size_t n_entries);

#endif
