/*
 * Messages between members as bytes. Every byte received is untrusted: lengths, counts, kinds and
 * indices are checked before anybody else sees the message.
 */
#ifndef LEASED_RAFT_RAFT_CODEC_H
#define LEASED_RAFT_RAFT_CODEC_H

#include "base/buffer.h"
#include "base/status.h"
#include "raft/raft_message.h"

/* The whole of a message is at most this: one entry of the largest size must fit. */
enum { RAFT_CODEC_SIZE_MAX = 18 * 1024 * 1024 };

/* Appends to the buffer (no length in front: the link frames it). The items of an append must be
 * filled in. */
void raft_codec_encode(struct buffer *buffer, const struct raft_message_view *message);

/* STATUS_MALFORMED: nothing is to be done but to end the connection. What it allocates (items,
 * their array, the metadata) is freed by raft_codec_clear(); chunks are views into `bytes`. Checked
 * besides the lengths: kinds; terms and indices below 2^62 and no sum of them overflows; entries'
 * terms not decreasing, not 0 and not above the message's; index of the items = prev_index + 1 + i;
 * types known; a LOG_CHANGE decodes as a configuration of at most 64 servers without duplicates (by
 * a checker of our own: raft_config_decode()); sizes bounded; no bytes left over. */
enum status raft_codec_decode(struct bytes bytes, struct raft_message_view *out_message);
void raft_codec_clear(struct raft_message_view *message);

#endif
