/*
 * Carrying out put, delete and transactions on keys and leases together. Deterministic; knows no
 * log and no clock. As in etcd, every compare of a transaction, nested ones included, looks at the
 * state before it, everything that can fail is checked before the first change, and all changes
 * share one revision.
 */
#ifndef LEASED_CORE_TXN_H
#define LEASED_CORE_TXN_H

#include "base/arena.h"
#include "base/status.h"
#include "core/key_store.h"
#include "core/lease_table.h"
#include "core/operation.h"

/* What a request is carried out on: keys of one space, leases that belong to it. */
struct txn_target {
    struct key_store *keys;
    struct lease_table *leases;
    struct key_space_id space;
    /* Work is bounded by KEY_WORK_TXN_MAX, and so are keys of leases and of deletions. Not so in
     * clusters of version 2, where every member must do as release 0.2 does. */
    bool is_counted;
    bool has_reserved_keys; /* keys that clients may not write (reserved_keys.h) */
    size_t *work; /* what a transaction was in work is added here, also when it is refused */
};

/* Each of the three is one revision of its own if it changes anything. STATUS_LEASE_NOT_FOUND,
 * STATUS_KEY_NOT_FOUND, STATUS_TOO_MANY_KEYS (LEASE_KEYS_MAX, KEY_DELETES_MAX),
 * STATUS_KEY_READ_ONLY (reserved_keys.h), STATUS_REQUEST_TOO_LARGE (a deletion that would copy
 * more than KEY_WORK_TXN_MAX allows: long keys, what it answers); nothing is changed then. */
enum status txn_put(const struct txn_target *target, const struct put_request *request,
                    struct put_outcome *out_outcome);
enum status txn_delete(const struct txn_target *target, const struct delete_request *request,
                       struct arena *arena, struct delete_outcome *out_outcome);
/* Records that the ranges of one transaction may gather, all together, where its work is not
 * counted. */
enum { TXN_RECORDS_MAX = 16 * 1024 * 1024 };
/* Also STATUS_REVISION_COMPACTED and STATUS_REVISION_FUTURE, from ranges inside, and
 * STATUS_REQUEST_TOO_LARGE when what it compares, reads, copies and answers is too much work: a
 * transaction in the log is carried out again at every start. */
enum status txn_run(const struct txn_target *target, const struct txn_request *request,
                    struct arena *arena, struct txn_outcome *out_outcome);

/* True when the transaction can change nothing, whichever way it goes: it needs no log. */
bool txn_is_read_only(const struct txn_request *request);
/* Carries out such a one. STATUS_REVISION_COMPACTED, _REVISION_FUTURE, _REQUEST_TOO_LARGE. */
enum status txn_read(const struct key_store *keys, struct key_space_id space,
                     const struct txn_request *request, struct arena *arena,
                     struct txn_outcome *out_outcome);
/* The same on a view, from any one thread. It answers what txn_read() would have; only counting at
 * an old revision is more work there, and so may be refused. */
enum status txn_read_view(const struct key_view *view, struct key_space_id space,
                          const struct txn_request *request, struct arena *arena,
                          struct txn_outcome *out_outcome);

/* Single changes within the revision that is open. A record that is written is copied: its key,
 * value and lease, which must exist; its other numbers come of themselves. What is erased is
 * live. */
void txn_write(struct key_store *keys, struct lease_table *leases, const struct record *record);
void txn_erase(struct key_store *keys, struct lease_table *leases, struct record *live);

#endif
