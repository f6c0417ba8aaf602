/*
 * Numbers in groups of seven bits, lowest first, with the highest bit of a byte set when another
 * follows. Eight groups are taken at once: ids of leases have nine or ten, and are in every grant
 * and renewal.
 */
#ifndef LEASED_BASE_VARINT_H
#define LEASED_BASE_VARINT_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of a number of 64 bits. */
enum { VARINT_SIZE_MAX = 10 };

#define VARINT_MORE UINT64_C(0x8080808080808080)

static inline size_t varint_size(uint64_t value) {
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}

/* The lowest 56 bits, seven in each byte. */
static inline uint64_t varint_spread(uint64_t bits) {
    bits = (bits & 0x000000000fffffff) | (bits & 0x00fffffff0000000) << 4;
    bits = (bits & 0x00003fff00003fff) | (bits & 0x0fffc0000fffc000) << 2;
    return (bits & 0x007f007f007f007f) | (bits & 0x3f803f803f803f80) << 1;
}

/* And back. */
static inline uint64_t varint_gather(uint64_t bytes) {
    bytes = (bytes & 0x007f007f007f007f) | (bytes & 0x7f007f007f007f00) >> 1;
    bytes = (bytes & 0x00003fff00003fff) | (bytes & 0x3fff00003fff0000) >> 2;
    return (bytes & 0x000000000fffffff) | (bytes & 0x0fffffff00000000) >> 4;
}

/* Writes a number where there is room for VARINT_SIZE_MAX bytes; returns its size. */
static inline size_t varint_write(uint8_t *to, uint64_t value) {
    if (value < 0x80) {
        to[0] = (uint8_t)value;
        return 1;
    }
    size_t size = varint_size(value);
    uint64_t bytes = htole64(varint_spread(value) | VARINT_MORE);
    memcpy(to, &bytes, sizeof bytes);
    if (size > sizeof bytes) {
        to[8] = (uint8_t)(value >> 56 | 0x80);
        to[9] = (uint8_t)(value >> 63);
    }
    to[size - 1] &= 0x7f;
    return size;
}

/* Reads a number from VARINT_SIZE_MAX bytes; returns its size, or 0 when it is longer than a number
 * can be or than this number need be: equal numbers have equal bytes. */
static inline size_t varint_read(const uint8_t *from, uint64_t *out_value) {
    if (from[0] < 0x80) {
        *out_value = from[0];
        return 1;
    }
    uint64_t bytes = 0;
    memcpy(&bytes, from, sizeof bytes);
    bytes = le64toh(bytes);
    uint64_t ends = ~bytes & VARINT_MORE;
    if (ends != 0) {
        size_t size = (size_t)__builtin_ctzll(ends) / 8 + 1;
        *out_value = varint_gather(bytes & (ends ^ (ends - 1)));
        return from[size - 1] != 0 ? size : 0;
    }
    *out_value = varint_gather(bytes) | (uint64_t)from[8] << 56;
    if (from[8] < 0x80) {
        return from[8] != 0 ? 9 : 0;
    }
    /* The highest bit of the ninth byte says that a tenth follows, which can only be the last bit.
     */
    return from[9] == 1 ? 10 : 0;
}

#endif
