/*
 * A number over what etcd may have changed since a backup of ours was written: users and roles, the
 * last revision, leases; in the order of the file. It tells whether the part that only leased keeps
 * still belongs to the rest.
 */
#ifndef LEASED_DOORS_ETCD_STAMP_H
#define LEASED_DOORS_ETCD_STAMP_H

#include "base/bytes.h"

#include <stdint.h>

enum { ETCD_STAMP_SIZE = 4 };

struct etcd_stamp {
    uint32_t crc;
};

void etcd_stamp_init(struct etcd_stamp *stamp);
void etcd_stamp_add(struct etcd_stamp *stamp, struct bytes key, struct bytes value);
void etcd_stamp_write(const struct etcd_stamp *stamp, uint8_t out_bytes[ETCD_STAMP_SIZE]);

#endif
