/*
 * Appends the protocol buffers encoding to a buffer that grows: for messages inside of messages
 * that would be laborious to measure first (pb_writer.h is for those that are sent often). Fields
 * with the default value are left out, as proto3 does.
 *
 *     size_t session = pb_append_begin(out, 2);
 *     pb_append_int64(out, 1, id);
 *     pb_append_end(out, session);
 */
#ifndef LEASED_BASE_PB_APPEND_H
#define LEASED_BASE_PB_APPEND_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void pb_append_uint64(struct buffer *out, uint32_t field, uint64_t value);
void pb_append_int64(struct buffer *out, uint32_t field, int64_t value);
void pb_append_bool(struct buffer *out, uint32_t field, bool value);
void pb_append_bytes(struct buffer *out, uint32_t field, struct bytes bytes);
/* One element of a repeated field of bytes or text: appended even when empty. */
void pb_append_element(struct buffer *out, uint32_t field, struct bytes bytes);

/* A message: what is appended until its end belongs to it. Never left out. The mark that begin
 * returns is for end; messages end in the reverse order of their begin. */
size_t pb_append_begin(struct buffer *out, uint32_t field);
void pb_append_end(struct buffer *out, size_t mark);

#endif
