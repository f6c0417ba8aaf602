/*
 * Work on keys that is counted: records looked at, so that a small request cannot mean a long one.
 * The count is the same on every replica, whatever each has reclaimed, because a transaction that
 * exceeds its bound must be refused by all of them.
 */
#ifndef LEASED_CORE_KEY_WORK_H
#define LEASED_CORE_KEY_WORK_H

#include <stdbool.h>
#include <stddef.h>

enum {
    /* A step back in the history of one key: memory that nothing else has brought close. */
    KEY_WORK_A_VERSION = 16,
    /* A record that is looked at takes about so long. */
    KEY_WORK_NS = 20,
    /* For all compares and ranges of one transaction, or for one read on the loop. About twenty
     * milliseconds. */
    KEY_WORK_TXN_MAX = 1024 * 1024,
    /* A key that is deleted: found, detached from its lease, a tombstone made. */
    KEY_WORK_A_DELETE = 16,
    /* Keys that one request may delete, in one revision, while everybody waits: some hundred
     * milliseconds at most. */
    KEY_DELETES_MAX = 256 * 1024
};

struct key_work {
    size_t left;
    bool is_exceeded;
};

/* False: there is less left. Nothing is left then. */
static inline bool key_work_spend(struct key_work *work, size_t n) {
    if (n > work->left) {
        work->left = 0;
        work->is_exceeded = true;
        return false;
    }
    work->left -= n;
    return true;
}

#endif
