/*
 * Texts and bytes of JSON, written from pieces that are cut anywhere: what does not make a whole
 * character or group yet is carried over to the next piece. Quotes are the caller's. Pure.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_JSON_TEXT_H
#define LEASED_DOORS_ETCD_ETCD_JSON_TEXT_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

/* All zeros at first. */
struct etcd_json_carry {
    uint8_t bytes[4];
    size_t size;
};

void etcd_json_put_text(struct etcd_json_carry *carry, struct bytes piece, struct buffer *out);
void etcd_json_end_text(struct etcd_json_carry *carry, struct buffer *out);

void etcd_json_put_base64(struct etcd_json_carry *carry, struct bytes piece, struct buffer *out);
void etcd_json_end_base64(struct etcd_json_carry *carry, struct buffer *out);

/* The whole text, in quotes. Bytes that are not UTF-8 become replacement characters; <, > and & are
 * escaped, as Go does it. */
void etcd_json_write_text(struct buffer *out, struct bytes text);

#endif
