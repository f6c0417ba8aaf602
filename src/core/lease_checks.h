/*
 * Which user was last found to have the right to write all keys of a lease. A lease may have many
 * keys, and its user attaches one after the other: each time only those are looked at that were
 * attached since. New keys are linked before older ones (lease_table_attach()), so they are among
 * the first `n_new` of the lease's list.
 *
 * Local, and only a shorter way to the same answer: what it says is what looking at all keys would.
 */
#ifndef LEASED_CORE_LEASE_CHECKS_H
#define LEASED_CORE_LEASE_CHECKS_H

#include <stddef.h>
#include <stdint.h>

enum { LEASE_CHECKS = 256 };

struct lease_check {
    int64_t lease_id; /* 0: nothing is known */
    uint64_t user_id;
    uint64_t auth_version;
    uint64_t auth_generation;
    size_t n_keys; /* that the lease has now */
    size_t n_new;  /* at most so many were attached since */
};

struct lease_checks {
    struct lease_check slots[LEASE_CHECKS];
};

/* Where what is known of a lease would be; another one's may be there. */
static inline struct lease_check *lease_checks_slot(struct lease_checks *checks, int64_t lease_id) {
    uint64_t mixed = (uint64_t)lease_id * UINT64_C(0x9e3779b97f4a7c15);
    return &checks->slots[mixed >> 32 & (LEASE_CHECKS - 1)];
}

static inline void lease_checks_attached(struct lease_checks *checks, int64_t lease_id) {
    struct lease_check *check = lease_checks_slot(checks, lease_id);
    if (check->lease_id == lease_id) {
        check->n_keys++;
        check->n_new++;
    }
}

static inline void lease_checks_detached(struct lease_checks *checks, int64_t lease_id) {
    struct lease_check *check = lease_checks_slot(checks, lease_id);
    if (check->lease_id == lease_id) {
        check->n_keys--;
    }
}

/* The lease ended: another one may get its id. */
static inline void lease_checks_forget(struct lease_checks *checks, int64_t lease_id) {
    struct lease_check *check = lease_checks_slot(checks, lease_id);
    if (check->lease_id == lease_id) {
        *check = (struct lease_check){0};
    }
}

#endif
