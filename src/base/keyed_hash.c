/* SipHash: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with one round a word
 * and three at the end, which is what hash tables elsewhere use. */
#include "base/keyed_hash.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Digits of pi. */
const struct hash_key hash_key_fixed = {
    {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344), UINT64_C(0xa4093822299f31d0),
     UINT64_C(0x082efa98ec4e6c89), UINT64_C(0x452821e638d01377), UINT64_C(0xbe5466cf34e90c6c)}};

void hash_key_fill(struct hash_key *key) {
    if (getrandom(key, sizeof *key, 0) != (ssize_t)sizeof *key) {
        abort();
    }
}

static uint64_t rotate(uint64_t word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

void keyed_hash_begin(struct keyed_hash *hash, const struct hash_key *key) {
    *hash = (struct keyed_hash){.state = {key->words[0] ^ UINT64_C(0x736f6d6570736575),
                                          key->words[1] ^ UINT64_C(0x646f72616e646f6d),
                                          key->words[0] ^ UINT64_C(0x6c7967656e657261),
                                          key->words[1] ^ UINT64_C(0x7465646279746573)}};
}

void keyed_hash_add(struct keyed_hash *hash, struct bytes bytes) {
    for (size_t i = 0; i < bytes.size;) {
        unsigned n = hash->size % sizeof(uint64_t);
        if (n == 0 && bytes.size - i >= sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, bytes.data + i, sizeof word);
            sip_word(hash->state, le64toh(word));
            hash->size += sizeof word;
            i += sizeof word;
            continue;
        }
        hash->tail |= (uint64_t)bytes.data[i++] << 8 * n;
        hash->size++;
        if (n + 1 == sizeof(uint64_t)) {
            sip_word(hash->state, hash->tail);
            hash->tail = 0;
        }
    }
}

uint64_t keyed_hash_value(const struct keyed_hash *hash) {
    uint64_t v[4];
    memcpy(v, hash->state, sizeof v);
    sip_word(v, hash->tail | hash->size << 56);
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Most texts are short: the tail is read at once. */
uint64_t keyed_hash_bytes(const struct hash_key *key, struct bytes bytes) {
    struct keyed_hash hash;
    size_t whole = bytes.size / sizeof(uint64_t) * sizeof(uint64_t);
    keyed_hash_begin(&hash, key);
    keyed_hash_add(&hash, bytes_of(bytes.data, whole));
    if (whole < bytes.size) {
        memcpy(&hash.tail, bytes.data + whole, bytes.size - whole);
        hash.tail = le64toh(hash.tail);
        hash.size = bytes.size;
    }
    return keyed_hash_value(&hash);
}
