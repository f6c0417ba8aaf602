/*
 * What the native API should do, as plainly as it can be said: a list of acquisitions, and after
 * every change all of them are looked at until none can be granted. No queues, no keys, no order of
 * work: whoever can be granted by the definition of native_rules.h is granted, the oldest first.
 */
#ifndef LEASED_TESTS_NATIVE_REFERENCE_H
#define LEASED_TESTS_NATIVE_REFERENCE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    REF_RESOURCES = 4,
    REF_POOLS = 2,
    REF_OWNERS = 8,
    REF_SESSIONS = 64, /* also: no session */
    REF_WANTS = 3,
    REF_SLOTS = 5,
    REF_ACQUISITIONS = 60
};

struct ref_want {
    bool is_pool;
    bool is_shared;
    size_t thing; /* a resource or a pool */
    uint32_t n_slots;
};

struct ref_acquisition {
    bool exists;
    bool is_held;
    int64_t id;
    size_t session;
    uint32_t call;
    int64_t hold_limit_ms;
    size_t n_wants;
    struct ref_want wants[REF_WANTS];
    uint32_t slots[REF_WANTS]; /* bits: which slots of the want's pool it has */
};

struct ref_session {
    bool is_alive;
    int64_t id;
    size_t owner;
    size_t parent; /* REF_SESSIONS: none */
};

struct ref_pool {
    uint32_t slots; /* bits: which exist */
    uint32_t weights[REF_OWNERS];
    int64_t hold_limit_ms;
};

struct ref {
    struct ref_session sessions[REF_SESSIONS];
    struct ref_pool pools[REF_POOLS];
    struct ref_acquisition all[REF_ACQUISITIONS];
};

static inline unsigned ref_count_bits(uint32_t bits) {
    return (unsigned)__builtin_popcount(bits);
}

static inline size_t ref_owner(const struct ref *ref, const struct ref_acquisition *of) {
    return ref->sessions[of->session].owner;
}

static inline uint32_t ref_taken(const struct ref *ref, size_t pool) {
    uint32_t taken = 0;
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        const struct ref_acquisition *a = &ref->all[i];
        for (size_t w = 0; a->exists && a->is_held && w < a->n_wants; w++) {
            if (a->wants[w].is_pool && a->wants[w].thing == pool) {
                assert((taken & a->slots[w]) == 0); /* never a slot twice */
                taken |= a->slots[w];
            }
        }
    }
    return taken;
}

/* Slots that owners have, and whether they have or want any. */
static inline void ref_survey(const struct ref *ref, size_t pool, unsigned held[REF_OWNERS],
                              bool takes_part[REF_OWNERS]) {
    memset(held, 0, REF_OWNERS * sizeof held[0]);
    memset(takes_part, 0, REF_OWNERS * sizeof takes_part[0]);
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        const struct ref_acquisition *a = &ref->all[i];
        for (size_t w = 0; a->exists && w < a->n_wants; w++) {
            if (a->wants[w].is_pool && a->wants[w].thing == pool) {
                takes_part[ref_owner(ref, a)] = true;
                held[ref_owner(ref, a)] += a->is_held ? ref_count_bits(a->slots[w]) : 0;
            }
        }
    }
}

static inline bool ref_is_below_share(const struct ref *ref, size_t pool, size_t owner) {
    unsigned held[REF_OWNERS];
    bool takes_part[REF_OWNERS];
    uint32_t sum = 0;
    ref_survey(ref, pool, held, takes_part);
    for (size_t i = 0; i < REF_OWNERS; i++) {
        sum += takes_part[i] ? ref->pools[pool].weights[i] : 0;
    }
    uint32_t share = ref_count_bits(ref->pools[pool].slots) * ref->pools[pool].weights[owner] / sum;
    return held[owner] < (share > 1 ? share : 1);
}

static inline const struct ref_want *ref_want_of(const struct ref_acquisition *a, bool is_pool,
                                                 size_t thing) {
    for (size_t w = 0; w < a->n_wants; w++) {
        if (a->wants[w].is_pool == is_pool && a->wants[w].thing == thing) {
            return &a->wants[w];
        }
    }
    return NULL;
}

/* Whether b goes before a in the queue of a pool. */
static inline bool ref_goes_before(const struct ref *ref, size_t pool,
                                   const struct ref_acquisition *b,
                                   const struct ref_acquisition *a) {
    bool b_hurries = b->n_wants == 1 && ref_is_below_share(ref, pool, ref_owner(ref, b));
    bool a_hurries = a->n_wants == 1 && ref_is_below_share(ref, pool, ref_owner(ref, a));
    return b_hurries != a_hurries ? b_hurries : b->id < a->id;
}

static inline bool ref_want_fits(const struct ref *ref, const struct ref_acquisition *a,
                                 const struct ref_want *want) {
    size_t thing = want->thing;
    if (want->is_pool &&
        ref_count_bits(ref->pools[thing].slots & ~ref_taken(ref, thing)) < want->n_slots) {
        return false;
    }
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        const struct ref_acquisition *b = &ref->all[i];
        const struct ref_want *other = b->exists ? ref_want_of(b, want->is_pool, thing) : NULL;
        if (b == a || other == NULL) {
            continue;
        }
        bool is_in_the_way;
        if (want->is_pool) {
            is_in_the_way = !b->is_held &&
                            other->n_slots <= ref_count_bits(ref->pools[thing].slots) &&
                            ref_goes_before(ref, thing, b, a);
        } else {
            is_in_the_way =
                (!want->is_shared || !other->is_shared) && (b->is_held || b->id < a->id);
        }
        if (is_in_the_way) {
            return false;
        }
    }
    return true;
}

static inline bool ref_fits(const struct ref *ref, const struct ref_acquisition *a) {
    bool fits = true;
    for (size_t w = 0; w < a->n_wants && fits; w++) {
        fits = ref_want_fits(ref, a, &a->wants[w]);
    }
    return fits;
}

static inline void ref_grant(struct ref *ref, struct ref_acquisition *a) {
    for (size_t w = 0; w < a->n_wants; w++) {
        const struct ref_want *want = &a->wants[w];
        a->slots[w] = 0;
        for (size_t slot = 0; want->is_pool && slot < REF_SLOTS; slot++) {
            uint32_t bit = UINT32_C(1) << slot;
            uint32_t free = ref->pools[want->thing].slots & ~ref_taken(ref, want->thing);
            if (ref_count_bits(a->slots[w]) < want->n_slots && (free & bit) != 0) {
                a->slots[w] |= bit;
            }
        }
        int64_t limit = want->is_pool ? ref->pools[want->thing].hold_limit_ms : 0;
        if (limit != 0 && (a->hold_limit_ms == 0 || limit < a->hold_limit_ms)) {
            a->hold_limit_ms = limit;
        }
    }
    a->is_held = true;
}

/* Until nobody can be granted. Whoever is granted is the oldest that can be. */
static inline void ref_settle(struct ref *ref) {
    struct ref_acquisition *next;
    do {
        next = NULL;
        for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
            struct ref_acquisition *a = &ref->all[i];
            if (a->exists && !a->is_held && (next == NULL || a->id < next->id) &&
                ref_fits(ref, a)) {
                next = a;
            }
        }
        if (next != NULL) {
            ref_grant(ref, next);
        }
    } while (next != NULL);
}

static inline bool ref_descends(const struct ref *ref, size_t session, size_t from) {
    while (session != from && session != REF_SESSIONS) {
        session = ref->sessions[session].parent;
    }
    return session == from;
}

/* A session and those under it. */
static inline void ref_end_session(struct ref *ref, size_t session) {
    bool is_ending[REF_SESSIONS];
    for (size_t i = 0; i < REF_SESSIONS; i++) {
        is_ending[i] = ref->sessions[i].is_alive && ref_descends(ref, i, session);
    }
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        ref->all[i].exists = ref->all[i].exists && !is_ending[ref->all[i].session];
    }
    for (size_t i = 0; i < REF_SESSIONS; i++) {
        ref->sessions[i].is_alive = ref->sessions[i].is_alive && !is_ending[i];
    }
    ref_settle(ref);
}

#endif
