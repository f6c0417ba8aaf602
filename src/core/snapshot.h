/*
 * The bytes of a snapshot: a magic word and a format, leases by ascending id, the last ended
 * leases, alarms, members, keys in order with their history, and a checksum of all of it at the
 * end. Equal states give equal bytes.
 *
 * The format follows the cluster's version (cluster_version.h), so that every member can read what
 * another one sends: format 3 has the cluster's version, users and roles (behind the
 * members), the owners of leases and the spaces of keys; format 2, before that, can have nothing
 * but etcd's.
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
    uint32_t cluster_version;
    const struct key_view *keys;
    const struct lease_view *leases;
    const struct alarm_entry *alarms;
    size_t n_alarms;
    struct bytes members; /* as member_table_encode() wrote them */
    struct bytes auth;    /* as auth_encode() wrote it */
    /* The keys of this space are written elsewhere; KEY_SPACE_NONE: all of them are here. */
    struct key_space_id left_out;
};

/* Piece by piece, so that one may stop and go on later. The parts outlive the encoder. */
struct snapshot_encoder;
struct snapshot_encoder *snapshot_encoder_create(const struct snapshot_parts *parts);
/* Appends the next SNAPSHOT_SINK_SIZE bytes or a little more. False: that was the last of it. */
bool snapshot_encoder_next(struct snapshot_encoder *encoder, struct buffer *buffer);
void snapshot_encoder_destroy(struct snapshot_encoder *encoder);

/* In pieces of about SNAPSHOT_SINK_SIZE. */
void snapshot_encode(const struct snapshot_sink *sink, const struct snapshot_parts *parts);

/* Whether these can be the bytes of a snapshot: magic word, checksum, then the format.
 * STATUS_CORRUPT, STATUS_UNSUPPORTED. */
enum status snapshot_check(struct bytes bytes);

/* What a snapshot is read into: a new, empty store and tables, which the caller owns. */
struct snapshot_target {
    uint32_t cluster_version;
    struct key_store *keys;
    struct lease_table *leases;
    struct member_table *members;
    struct auth *auth;
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n_alarms;
};

/* The store may hold what key_store_restore() gave it before, of a space that was left out and is
 * less than all others: its leases are not attached then. STATUS_CORRUPT, STATUS_UNSUPPORTED (a
 * newer format); store and tables are then of no use but to be destroyed. */
enum status snapshot_decode(struct bytes bytes, struct snapshot_target *target);

#endif
