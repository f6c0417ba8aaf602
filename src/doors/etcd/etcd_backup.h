/*
 * A backup of the whole state as a file of etcd's database, which etcdctl and etcdutl take: etcd's
 * buckets with what etcd's clients see, and one of ours with all that etcd has no place for
 * (other protocols' keys and leases, times below a second), which etcd leaves alone. Restored by
 * etcd_import.h, or by etcdutl.
 *
 * Made by a worker from a view, in parts. Memory: a pointer a version of a key, and what
 * bolt_writer.h needs.
 */
#ifndef LEASED_DOORS_ETCD_BACKUP_H
#define LEASED_DOORS_ETCD_BACKUP_H

#include "base/buffer.h"
#include "core/state_machine.h"

#include <stdbool.h>
#include <stdint.h>

struct etcd_backup;

/* Measures it: looks at everything. The view outlives it. */
struct etcd_backup *etcd_backup_create(const struct snapshot_view *view);
void etcd_backup_destroy(struct etcd_backup *backup);

/* Of the file in bytes. */
uint64_t etcd_backup_size(const struct etcd_backup *backup);
/* Appends the next SNAPSHOT_SINK_SIZE bytes or a little more. False: that was the last of it. */
bool etcd_backup_next(struct etcd_backup *backup, struct buffer *buffer);

#endif
