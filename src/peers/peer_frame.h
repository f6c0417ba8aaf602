/* Frames: the size of the body as u32, a type, the body, which is opaque here. */
#ifndef LEASED_PEERS_PEER_FRAME_H
#define LEASED_PEERS_PEER_FRAME_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PEER_FRAME_PREFIX_SIZE = 5,
    /* The whole of a frame's body is at most this. */
    PEER_FRAME_SIZE_MAX = 18 * 1024 * 1024 + 64 * 1024,
    /* Larger ones have requests above etcd's 1.5 MiB in them, and are few: see large_frames.h. */
    PEER_FRAME_USUAL_SIZE_MAX = 4 * 1024 * 1024 + 64 * 1024,
    /* Sent when a link has nothing else to say. Never handed on; others begin at 1. */
    PEER_FRAME_KEEPALIVE = 0
};

/* Appends the prefix and returns where the frame begins; the body is appended next. */
size_t peer_frame_begin(struct buffer *buffer, uint8_t type);
/* Writes the size of what was appended since; at most PEER_FRAME_SIZE_MAX. */
void peer_frame_end(struct buffer *buffer, size_t start);

/* The next frame of these bytes, which move on behind it; the body is a view. STATUS_PENDING: there
 * is more to come. STATUS_MALFORMED: the size is beyond the bound, or a keepalive has a body. */
enum status peer_frame_next(struct bytes *bytes, uint8_t *out_type, struct bytes *out_body);
/* These bytes, of which there are more to come, begin a frame larger than usual. */
bool peer_frame_is_large(struct bytes bytes);

#endif
