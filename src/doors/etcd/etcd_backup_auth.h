/* Users and roles in etcd's buckets; a part of etcd_backup.c. */
#ifndef LEASED_DOORS_ETCD_BACKUP_AUTH_H
#define LEASED_DOORS_ETCD_BACKUP_AUTH_H

#include "base/buffer.h"
#include "bolt/bolt_writer.h"
#include "core/auth.h"
#include "doors/etcd/etcd_stamp.h"

struct etcd_backup_auth {
    const struct auth *auth;
    struct bolt_writer *writer;
    struct etcd_stamp *stamp;
    struct buffer *message; /* scratch */
};

/* The three buckets. Hashes of passwords are written as they are: etcd verifies bcrypt's alone.
 * Permissions on the keys of other protocols are left out. */
void etcd_backup_write_auth(struct etcd_backup_auth *backup);

#endif
