/*
 * Work on keys that is counted: records looked at, and the bytes of large ones that are copied or
 * compared, so that a small request cannot mean a long one.
 * The count is the same on every replica, whatever each has reclaimed, because a transaction that
 * exceeds its bound must be refused by all of them.
 */
#ifndef LEASED_CORE_KEY_WORK_H
#define LEASED_CORE_KEY_WORK_H

#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    /* A step back in the history of one key: memory that nothing else has brought close. */
    KEY_WORK_A_VERSION = 16,
    /* So many bytes of a record that are copied, into an answer or a new version, take as long as
     * one that is looked at; and so many that are compared with others. Records that are smaller
     * count as one. */
    KEY_WORK_COPIED_BYTES = 32,
    KEY_WORK_COMPARED_BYTES = 256,
    /* Keys of fewer bytes are deleted in the same time. */
    KEY_WORK_LONG_KEY = 1024,
    /* For all that one transaction compares, reads and answers, or for one read on the loop. About
     * twenty milliseconds; an answer of KEY_WORK_TXN_MAX * KEY_WORK_COPIED_BYTES, 32 MiB. */
    KEY_WORK_TXN_MAX = 1024 * 1024,
    /* A key that is deleted: found, detached from its lease, a tombstone made. */
    KEY_WORK_A_DELETE = 16,
    /* Keys that one request may delete, in one revision, while everybody waits: some hundred
     * milliseconds at most. */
    KEY_DELETES_MAX = 256 * 1024
};

/* What it is to answer a record, or to write it again. */
static inline size_t key_work_of_copy(const struct record *record, bool keys_only) {
    size_t size = record->key_size + (keys_only ? 0 : (size_t)record->value_size);
    return size / KEY_WORK_COPIED_BYTES;
}

/* What it is to delete a record beside KEY_WORK_A_DELETE: the tombstone has its key. */
static inline size_t key_work_of_long_key(const struct record *record) {
    return record->key_size < KEY_WORK_LONG_KEY ? 0 : record->key_size / KEY_WORK_COPIED_BYTES;
}

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
