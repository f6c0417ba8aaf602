/*
 * How much work a rule of the native API may be: by the pools that it looks at as a whole and the
 * acquisitions that it reads and writes, while the request has a few bytes. For struct rule's
 * `estimate`.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_ESTIMATE_RULES_H
#define LEASED_DOORS_NATIVE_NATIVE_ESTIMATE_RULES_H

#include "core/key_store.h"
#include "doors/native/native_model.h"

/* Reads a pool: its slots, those that are taken, and its queue. */
size_t native_estimate_pool(const struct key_store *keys, struct bytes name);
/* Asks for these. They are normalized; `session_id` is 0 when the request cannot be one that was
 * made before. */
size_t native_estimate_wants(const struct key_store *keys, const struct native_want *wants,
                             size_t n_wants, int64_t session_id, struct bytes request_id);
/* Writes the record of an acquisition. */
size_t native_estimate_proclaim(const struct key_store *keys, int64_t acquisition_id);
/* Takes it away, and looks at the pools that it is about. */
size_t native_estimate_release(const struct key_store *keys, int64_t acquisition_id);
/* The same, and looks for a successor: among the requests of a session, or, when that is 0, among
 * all that wait. */
size_t native_estimate_transfer(const struct key_store *keys, int64_t acquisition_id,
                                int64_t to_session_id);

#endif
