/*
 * HashKV: the same number as etcd gives for the same data, so that a migration can be verified.
 */
#ifndef LEASED_DOORS_ETCD_HASH_H
#define LEASED_DOORS_ETCD_HASH_H

#include "base/status.h"
#include "core/key_store.h"

#include <stdint.h>

/* Of what a view shows of etcd's space at `revision`; 0: the newest; a negative one shows nothing.
 * Looks at everything.
 * STATUS_REVISION_COMPACTED, STATUS_REVISION_FUTURE. */
enum status etcd_hash(const struct key_view *view, int64_t revision, uint32_t *out_hash);

#endif
