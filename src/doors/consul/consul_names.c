#include "doors/consul/consul_names.h"

enum { CAPACITY_MIN = 16, SLOTS_A_NAME = 2 };

void consul_names_init(struct consul_names *names, struct arena *arena) {
    *names = (struct consul_names){.arena = arena};
    hash_key_fill(&names->key);
}

/* Where the name is, or would be. */
static uint32_t *slot_of(const struct consul_names *names, struct bytes name) {
    size_t at = keyed_hash_bytes(&names->key, name) & (names->n_slots - 1);
    while (names->slots[at] != 0 && !bytes_equal(names->names[names->slots[at] - 1], name)) {
        at = (at + 1) & (names->n_slots - 1);
    }
    return &names->slots[at];
}

static void grow(struct consul_names *names) {
    size_t capacity = names->capacity == 0 ? CAPACITY_MIN : 2 * names->capacity;
    struct bytes *all = arena_calloc(names->arena, capacity, sizeof *all);
    if (names->n > 0) {
        memcpy(all, names->names, names->n * sizeof *all);
    }
    names->names = all;
    names->capacity = capacity;
    names->n_slots = SLOTS_A_NAME * capacity;
    names->slots = arena_calloc(names->arena, names->n_slots, sizeof *names->slots);
    for (size_t i = 0; i < names->n; i++) {
        *slot_of(names, all[i]) = (uint32_t)(i + 1);
    }
}

bool consul_names_has(const struct consul_names *names, struct bytes name) {
    return names->n > 0 && *slot_of(names, name) != 0;
}

bool consul_names_add(struct consul_names *names, struct bytes name) {
    if (names->n == names->capacity) {
        grow(names);
    }
    uint32_t *slot = slot_of(names, name);
    if (*slot != 0) {
        return false;
    }
    names->names[names->n++] = name;
    *slot = (uint32_t)names->n;
    return true;
}
