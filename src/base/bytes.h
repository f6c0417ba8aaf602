/*
 * A borrowed run of bytes. It owns nothing: the function that hands one over says how long it stays
 * valid.
 */
#ifndef LEASED_BASE_BYTES_H
#define LEASED_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t size;
};

static inline struct bytes bytes_of(const void *data, size_t size) {
    return (struct bytes){.data = data, .size = size};
}

static inline struct bytes bytes_from_text(const char *text) {
    return bytes_of(text, strlen(text));
}

static inline bool bytes_equal(struct bytes a, struct bytes b) {
    /* The second is often a constant, whose size the compiler knows. */
    return a.size == b.size && (b.size == 0 || memcmp(a.data, b.data, b.size) == 0);
}

/* Lexical order of unsigned bytes; a prefix sorts before what it is a prefix of. */
static inline int bytes_compare(struct bytes a, struct bytes b) {
    size_t shared = a.size < b.size ? a.size : b.size;
    int order = shared == 0 ? 0 : memcmp(a.data, b.data, shared);
    if (order != 0) {
        return order;
    }
    return (a.size > b.size) - (a.size < b.size);
}

#endif
