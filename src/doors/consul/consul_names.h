/* A set of texts in the order in which they came: nodes and tags that are to be listed once. It
 * takes arena memory; the texts are borrowed. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_NAMES_H
#define LEASED_DOORS_CONSUL_CONSUL_NAMES_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/keyed_hash.h"

struct consul_names {
    struct arena *arena;
    struct hash_key key;
    struct bytes *names;
    size_t n;
    size_t capacity;
    uint32_t *slots; /* places in `names`, counted from 1; 0: free */
    size_t n_slots;  /* a power of two, at least twice the capacity */
};

void consul_names_init(struct consul_names *names, struct arena *arena);
bool consul_names_has(const struct consul_names *names, struct bytes name);
/* False: it has been there already. */
bool consul_names_add(struct consul_names *names, struct bytes name);

#endif
