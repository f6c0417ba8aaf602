/*
 * The bytes of a snapshot: a magic word and a version, leases by ascending id, the last ended
 * leases, alarms, members, keys in order with their history, and a checksum of all of it at the
 * end. Equal states give equal bytes.
 */
#ifndef LEASED_CORE_SNAPSHOT_H
#define LEASED_CORE_SNAPSHOT_H

#include "base/buffer.h"
#include "base/status.h"
#include "core/key_store.h"
#include "core/lease_table.h"
#include "core/snapshot_sink.h"
#include "core/state_machine.h"

struct snapshot_parts {
    const struct key_view *keys;
    const struct lease_view *leases;
    const struct alarm_entry *alarms;
    size_t n_alarms;
    struct bytes members; /* as member_table_encode() wrote them */
};

/* In pieces of about SNAPSHOT_SINK_SIZE. */
void snapshot_encode(const struct snapshot_sink *sink, const struct snapshot_parts *parts);

/* Whether these can be the bytes of a snapshot: magic word, checksum, then the version.
 * STATUS_CORRUPT, STATUS_UNSUPPORTED. */
enum status snapshot_check(struct bytes bytes);

/* Fills a new, empty store and tables. STATUS_CORRUPT, STATUS_UNSUPPORTED (a newer version); they
 * are then of no use but to be destroyed. */
enum status snapshot_decode(struct bytes bytes, struct key_store *keys, struct lease_table *leases,
                            struct member_table *members,
                            struct alarm_entry out_alarms[STATE_MACHINE_ALARMS_MAX],
                            size_t *out_n_alarms);

#endif
