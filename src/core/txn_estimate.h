/*
 * How much work a transaction may be, told before it is carried out: for whoever decides how many
 * of them may be on their way at once. Cheap beside the work itself, and never too low by more than
 * what changes meanwhile.
 */
#ifndef LEASED_CORE_TXN_ESTIMATE_H
#define LEASED_CORE_TXN_ESTIMATE_H

#include "core/key_store.h"
#include "core/operation.h"

/* In units of key_work.h; what would be refused counts as the refusal. Single keys count only for
 * what is copied of them. */
size_t txn_estimate(const struct key_store *keys, struct key_space_id space,
                    const struct txn_request *request);
/* A transaction that changes nothing: its work without what it answers, and about how many bytes
 * that is, not counting those of small records; of ranges at an old revision far too many. */
void txn_estimate_read(const struct key_store *keys, struct key_space_id space,
                       const struct txn_request *request, size_t *out_work, size_t *out_bytes);
/* The value that it keeps, and the record that it answers. */
size_t put_estimate(const struct key_store *keys, struct key_space_id space,
                    const struct put_request *request);
size_t delete_estimate(const struct key_store *keys, struct key_space_id space,
                       const struct delete_request *request);

/* Bytes of long keys that deletions of ranges would leave behind in tombstones. Of many keys only
 * the first ones are looked at. */
size_t txn_long_keys(const struct key_store *keys, struct key_space_id space,
                     const struct txn_request *request);
size_t delete_long_keys(const struct key_store *keys, struct key_space_id space,
                        const struct delete_request *request);

#endif
