/*
 * Jute, the encoding of ZooKeeper's messages: integers with the highest byte first, buffers and
 * strings behind their length (-1: null), vectors behind their count. Writing appends to a buffer;
 * reading is bounds-checked and fails once for all. Pure: rules write their answers with it.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_JUTE_MODEL_H
#define LEASED_DOORS_ZOOKEEPER_ZK_JUTE_MODEL_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

static inline void zk_jute_store_int(uint8_t *out, int32_t value) {
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)((uint32_t)value >> (24 - 8 * i));
    }
}

static inline void zk_jute_put_int(struct buffer *out, int32_t value) {
    zk_jute_store_int(buffer_reserve(out, 4), value);
    out->size += 4;
}

static inline void zk_jute_put_long(struct buffer *out, int64_t value) {
    uint8_t *bytes = buffer_reserve(out, 8);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
    }
    out->size += 8;
}

static inline void zk_jute_put_bool(struct buffer *out, bool value) {
    buffer_put_u8(out, value);
}

/* A string, or a buffer that is not null. */
static inline void zk_jute_put_bytes(struct buffer *out, struct bytes bytes) {
    zk_jute_put_int(out, (int32_t)bytes.size);
    buffer_append(out, bytes.data, bytes.size);
}

/* These set reader->failed at the first byte that is missing, and give zeros from then on. */
int32_t zk_jute_get_int(struct reader *reader);
int64_t zk_jute_get_long(struct reader *reader);
bool zk_jute_get_bool(struct reader *reader);
/* A view into the reader's bytes. Null is empty; `out_is_null` may be NULL. Another negative length
 * fails. */
struct bytes zk_jute_get_bytes(struct reader *reader, bool *out_is_null);
/* The count of a vector whose elements have at least `element_min` bytes each: a greater count than
 * could follow fails. Null is 0. */
size_t zk_jute_get_count(struct reader *reader, size_t element_min);

#endif
