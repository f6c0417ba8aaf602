#include "net/grpc_framing.h"

#include <assert.h>
#include <string.h>

/* An idle stream keeps no more than this for its next cut message. */
enum { KEPT_CAPACITY_MAX = 1024 };

void grpc_framing_init(struct grpc_framing *framing) {
    *framing = (struct grpc_framing){0};
}

void grpc_framing_clear(struct grpc_framing *framing) {
    buffer_clear(&framing->partial);
    grpc_framing_init(framing);
}

void grpc_framing_reset(struct grpc_framing *framing) {
    if (framing->partial.capacity > KEPT_CAPACITY_MAX) {
        buffer_clear(&framing->partial);
    }
    framing->partial.size = 0;
    framing->announced_size = 0;
    framing->prefix_size = 0;
    framing->is_delivered = false;
}

static void take(struct bytes *input, size_t size) {
    input->data += size;
    input->size -= size;
}

static uint32_t announced(const uint8_t prefix[GRPC_PREFIX_SIZE]) {
    return (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 |
           prefix[4];
}

/* False: the input ended before the prefix did. */
static bool read_prefix(struct grpc_framing *framing, struct bytes *input) {
    if (framing->prefix_size == 0 && input->size >= GRPC_PREFIX_SIZE) {
        memcpy(framing->prefix, input->data, GRPC_PREFIX_SIZE);
        take(input, GRPC_PREFIX_SIZE);
        framing->prefix_size = GRPC_PREFIX_SIZE;
        framing->announced_size = announced(framing->prefix);
        return true;
    }
    size_t wanted = (size_t)GRPC_PREFIX_SIZE - framing->prefix_size;
    size_t size = input->size < wanted ? input->size : wanted;
    if (size > 0) {
        memcpy(framing->prefix + framing->prefix_size, input->data, size);
        take(input, size);
    }
    framing->prefix_size = (uint8_t)(framing->prefix_size + size);
    if (framing->prefix_size < GRPC_PREFIX_SIZE) {
        return false;
    }
    framing->announced_size = announced(framing->prefix);
    return true;
}

enum grpc_framing_result grpc_framing_next(struct grpc_framing *framing, size_t message_size_max,
                                           struct bytes *input, struct bytes *out_message) {
    if (framing->is_delivered) {
        grpc_framing_reset(framing);
    }
    if (framing->prefix_size < GRPC_PREFIX_SIZE) {
        if (!read_prefix(framing, input)) {
            return GRPC_FRAMING_MORE;
        }
        if (framing->prefix[0] > 1) {
            return GRPC_FRAMING_MALFORMED;
        }
        if (framing->announced_size > message_size_max) {
            return GRPC_FRAMING_TOO_LARGE;
        }
        if (framing->prefix[0] == 1 && !framing->takes_compressed) {
            return GRPC_FRAMING_COMPRESSED;
        }
    }
    size_t size = framing->announced_size;
    if (framing->partial.size == 0 && input->size >= size) {
        *out_message = bytes_of(input->data, size);
        take(input, size);
        framing->prefix_size = 0;
        return GRPC_FRAMING_MESSAGE;
    }
    assert(framing->partial.size <= size);
    size_t wanted = size - framing->partial.size;
    size_t part = input->size < wanted ? input->size : wanted;
    buffer_append(&framing->partial, input->data, part);
    take(input, part);
    if (part < wanted) {
        return GRPC_FRAMING_MORE;
    }
    *out_message = bytes_of(framing->partial.data, size);
    framing->is_delivered = true;
    return GRPC_FRAMING_MESSAGE;
}

bool grpc_framing_is_between_messages(const struct grpc_framing *framing) {
    return framing->prefix_size == 0 || framing->is_delivered;
}

bool grpc_framing_peek(struct bytes input, size_t *at, struct bytes *out_message) {
    if (input.size - *at < GRPC_PREFIX_SIZE) {
        return false;
    }
    const uint8_t *prefix = input.data + *at;
    size_t size = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 |
                  (size_t)prefix[4];
    if (prefix[0] != 0 || input.size - *at - GRPC_PREFIX_SIZE < size) {
        return false;
    }
    *out_message = bytes_of(prefix + GRPC_PREFIX_SIZE, size);
    *at += GRPC_PREFIX_SIZE + size;
    return true;
}
