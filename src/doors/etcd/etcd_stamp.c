#include "doors/etcd/etcd_stamp.h"

#include "base/crc32.h"

#include <stddef.h>

void etcd_stamp_init(struct etcd_stamp *stamp) {
    stamp->crc = 0;
}

void etcd_stamp_add(struct etcd_stamp *stamp, struct bytes key, struct bytes value) {
    const uint8_t sizes[] = {(uint8_t)key.size, (uint8_t)(key.size >> 8), (uint8_t)value.size,
                             (uint8_t)(value.size >> 8), (uint8_t)(value.size >> 16)};
    stamp->crc = crc32c(stamp->crc, sizes, sizeof sizes);
    stamp->crc = crc32c(stamp->crc, key.data, key.size);
    stamp->crc = crc32c(stamp->crc, value.data, value.size);
}

void etcd_stamp_write(const struct etcd_stamp *stamp, uint8_t out_bytes[ETCD_STAMP_SIZE]) {
    for (size_t i = 0; i < ETCD_STAMP_SIZE; i++) {
        out_bytes[i] = (uint8_t)(stamp->crc >> (8 * i));
    }
}
