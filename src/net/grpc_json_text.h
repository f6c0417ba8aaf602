/*
 * Texts and bytes of JSON, written from pieces that are cut anywhere: what does not make a whole
 * character or group yet is carried over to the next piece. Quotes are the caller's. Pure.
 */
#ifndef LEASED_NET_GRPC_JSON_TEXT_H
#define LEASED_NET_GRPC_JSON_TEXT_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

/* All zeros at first. */
struct grpc_json_carry {
    uint8_t bytes[4];
    size_t size;
};

void grpc_json_put_text(struct grpc_json_carry *carry, struct bytes piece, struct buffer *out);
void grpc_json_end_text(struct grpc_json_carry *carry, struct buffer *out);

void grpc_json_put_base64(struct grpc_json_carry *carry, struct bytes piece, struct buffer *out);
void grpc_json_end_base64(struct grpc_json_carry *carry, struct buffer *out);

/* The whole text, in quotes. Bytes that are not UTF-8 become replacement characters; <, > and & are
 * escaped, as Go does it. */
void grpc_json_write_text(struct buffer *out, struct bytes text);

#endif
