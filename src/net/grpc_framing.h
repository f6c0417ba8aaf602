/*
 * gRPC's length-prefixed messages out of a stream of bytes cut anywhere. A message that is whole
 * in the input is handed out without a copy; only what arrived of an unfinished one is kept, so a
 * prefix that announces gigabytes costs nothing.
 */
#ifndef LEASED_NET_GRPC_FRAMING_H
#define LEASED_NET_GRPC_FRAMING_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRPC_PREFIX_SIZE = 5 };

enum grpc_framing_result {
    GRPC_FRAMING_MORE,       /* the input is used up */
    GRPC_FRAMING_MESSAGE,    /* one whole message */
    GRPC_FRAMING_COMPRESSED, /* a message with the compressed flag, and none is taken */
    GRPC_FRAMING_TOO_LARGE,  /* announces more than the limit; see announced_size */
    GRPC_FRAMING_MALFORMED   /* a flag that is neither 0 nor 1 */
};

struct grpc_framing {
    struct buffer partial; /* what arrived of the current message */
    uint32_t announced_size;
    uint8_t prefix[GRPC_PREFIX_SIZE];
    uint8_t prefix_size;
    bool is_delivered;     /* `partial` was handed out and goes with the next call */
    bool takes_compressed; /* set by the owner, who then looks at grpc_framing_is_compressed() */
};

void grpc_framing_init(struct grpc_framing *framing);
void grpc_framing_clear(struct grpc_framing *framing);
/* Starts over but keeps a small buffer for the next stream. */
void grpc_framing_reset(struct grpc_framing *framing);

/* Takes bytes off `input` until there is a message or nothing left. The message is valid until
 * the next call. After anything but MORE and MESSAGE the stream cannot be followed any more. */
enum grpc_framing_result grpc_framing_next(struct grpc_framing *framing, size_t message_size_max,
                                           struct bytes *input, struct bytes *out_message);

/* The message that is whole at `*at` in the input, between messages; moves `*at` behind it.
 * Nothing is taken off the input. False: none, or not whole. */
bool grpc_framing_peek(struct bytes input, size_t *at, struct bytes *out_message);

/* Between messages, and nothing is held of the last one. */
static inline bool grpc_framing_is_idle(const struct grpc_framing *framing) {
    return framing->prefix_size == 0 && !framing->is_delivered;
}

/* Of the message that was handed out last. */
static inline bool grpc_framing_is_compressed(const struct grpc_framing *framing) {
    return framing->prefix[0] == 1;
}

/* True when the stream may end here: no message has begun. */
bool grpc_framing_is_between_messages(const struct grpc_framing *framing);

/* Bytes held for an unfinished message. */
static inline size_t grpc_framing_held_bytes(const struct grpc_framing *framing) {
    return framing->is_delivered ? 0 : framing->partial.size;
}

static inline void grpc_framing_write_prefix(uint8_t *to, uint32_t message_size) {
    to[0] = 0;
    to[1] = (uint8_t)(message_size >> 24);
    to[2] = (uint8_t)(message_size >> 16);
    to[3] = (uint8_t)(message_size >> 8);
    to[4] = (uint8_t)message_size;
}

#endif
