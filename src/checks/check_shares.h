/*
 * Which member runs a check: rendezvous hashing over the members that run checks. Each member
 * computes the same answer by itself; when one goes, only its share moves, and to all others
 * evenly. Pure.
 */
#ifndef LEASED_CHECKS_CHECK_SHARES_H
#define LEASED_CHECKS_CHECK_SHARES_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECK_RUNNERS_MAX = 64 };

struct check_shares {
    size_t n;
    uint64_t runners[CHECK_RUNNERS_MAX]; /* hashes of their keys */
    uint64_t own;                        /* among them, or nothing is ours */
};

/* The same on every member and in every release: members of two releases share the work. */
uint64_t check_shares_hash(struct bytes key);
/* Of a check, by the hash of its key. */
bool check_shares_is_own(const struct check_shares *shares, uint64_t hash);

#endif
