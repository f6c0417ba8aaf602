/*
 * Reads the write-ahead log that `etcdutl snapshot restore` (`etcdctl snapshot restore` in etcd
 * 3.4) writes beside a database: who the member is and who the members of its new cluster are. Any
 * other log is refused, because what it holds beyond that is not in the database. Pure; every byte
 * is hostile.
 *
 * Such a log is one file: frames of a length, a record and padding to eight bytes. Records carry a
 * CRC-32C that goes on from the record before. A restore writes, in this order: the start of the
 * checksum, the ids of member and cluster, an empty snapshot, one entry for each member that adds
 * it, term and commit index, a snapshot at that index; zeros follow.
 */
#ifndef LEASED_DOORS_ETCD_WAL_H
#define LEASED_DOORS_ETCD_WAL_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/status.h"
#include "core/member.h"

#include <stddef.h>
#include <stdint.h>

/* The name of the file of a log that has never been cut. */
#define ETCD_WAL_FIRST_NAME "0000000000000000-0000000000000000.wal"

struct etcd_wal {
    uint64_t member_id;
    uint64_t cluster_id;
    size_t n_members; /* this one among them */
    struct member_facts members[MEMBERS_MAX];
};

/* Names and URLs are in the arena. STATUS_CORRUPT: damaged, or no log of etcd's.
 * STATUS_UNSUPPORTED: one that a restore did not write, or that etcd has gone on with. `out_error`
 * says what is wrong. */
enum status etcd_wal_read(struct bytes file, struct arena *arena, struct etcd_wal *out_wal,
                          char *out_error, size_t error_size);

#endif
