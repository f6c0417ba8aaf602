#include "base/sha1.h"

#include <string.h>

enum { BLOCK_SIZE = 64, LENGTH_SIZE = 8, ROUNDS = 80 };

static uint32_t rotate_left(uint32_t word, unsigned bits) {
    return (word << bits) | (word >> (32 - bits));
}

static uint32_t load_u32(const uint8_t *data) {
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

static void store_u32(uint8_t *data, uint32_t word) {
    for (unsigned i = 0; i < 4; i++) {
        data[i] = (uint8_t)(word >> (24 - 8 * i));
    }
}

/* Section 6.1.2. */
static void digest_block(uint32_t hash[5], const uint8_t *block) {
    uint32_t schedule[ROUNDS];
    for (unsigned t = 0; t < ROUNDS; t++) {
        schedule[t] = t < 16 ? load_u32(block + 4 * t)
                             : rotate_left(schedule[t - 3] ^ schedule[t - 8] ^ schedule[t - 14] ^
                                               schedule[t - 16],
                                           1);
    }
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];
    for (unsigned t = 0; t < ROUNDS; t++) {
        uint32_t mixed;
        uint32_t constant;
        if (t < 20) {
            mixed = (b & c) | (~b & d);
            constant = 0x5a827999;
        } else if (t < 40) {
            mixed = b ^ c ^ d;
            constant = 0x6ed9eba1;
        } else if (t < 60) {
            mixed = (b & c) | (b & d) | (c & d);
            constant = 0x8f1bbcdc;
        } else {
            mixed = b ^ c ^ d;
            constant = 0xca62c1d6;
        }
        uint32_t next = rotate_left(a, 5) + mixed + e + constant + schedule[t];
        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

void sha1(struct bytes input, uint8_t out_digest[SHA1_SIZE]) {
    uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    size_t whole = input.size / BLOCK_SIZE * BLOCK_SIZE;
    for (size_t at = 0; at < whole; at += BLOCK_SIZE) {
        digest_block(hash, input.data + at);
    }
    /* The rest, a one bit, zeros, and the length in bits at the end of a block (section 5.1.1). */
    uint8_t tail[2 * BLOCK_SIZE] = {0};
    size_t rest = input.size - whole;
    if (rest > 0) {
        memcpy(tail, input.data + whole, rest);
    }
    tail[rest] = 0x80;
    size_t tail_size = rest + 1 + LENGTH_SIZE <= BLOCK_SIZE ? BLOCK_SIZE : 2 * BLOCK_SIZE;
    uint64_t bits = (uint64_t)input.size * 8;
    store_u32(tail + tail_size - 8, (uint32_t)(bits >> 32));
    store_u32(tail + tail_size - 4, (uint32_t)bits);
    for (size_t at = 0; at < tail_size; at += BLOCK_SIZE) {
        digest_block(hash, tail + at);
    }
    for (size_t i = 0; i < 5; i++) {
        store_u32(out_digest + 4 * i, hash[i]);
    }
}

uint64_t sha1_prefix(struct bytes input) {
    uint8_t digest[SHA1_SIZE];
    sha1(input, digest);
    return (uint64_t)load_u32(digest) << 32 | load_u32(digest + 4);
}
