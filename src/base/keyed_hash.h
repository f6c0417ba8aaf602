/*
 * Hashes for tables whose keys others choose. The key is random and secret to the process, so that
 * nobody can prepare keys that meet in one bucket. What comes out is for tables in memory alone:
 * it differs from process to process and must reach neither disk nor wire nor replicated state.
 */
#ifndef LEASED_BASE_KEYED_HASH_H
#define LEASED_BASE_KEYED_HASH_H

#include "base/bytes.h"

#include <stdint.h>

struct hash_key {
    uint64_t words[6];
};

/* For tests and for tables that hold nothing of others. */
extern const struct hash_key hash_key_fixed;

/* From the system's random numbers. Aborts without them. */
void hash_key_fill(struct hash_key *key);

/* SipHash-1-3 of any bytes. */
uint64_t keyed_hash_bytes(const struct hash_key *key, struct bytes bytes);

/* The same in parts: keyed_hash_value() is that of all that was added, and more may follow. So
 * every beginning of a text is hashed by reading it once. */
struct keyed_hash {
    uint64_t state[4];
    uint64_t tail; /* the last size % 8 bytes */
    uint64_t size;
};
void keyed_hash_begin(struct keyed_hash *hash, const struct hash_key *key);
void keyed_hash_add(struct keyed_hash *hash, struct bytes bytes);
uint64_t keyed_hash_value(const struct keyed_hash *hash);

/* Of a number, in a dozen instructions. (a·x + b) mod 2^128, of which the upper half is taken, is a
 * strongly universal family (Dietzfelbinger 1996): whatever numbers are chosen without knowing the
 * key, they meet no more often than random ones. A folded multiplication by two more secret words
 * hides that it is linear from whoever would measure how long an answer takes. */
static inline uint64_t keyed_hash_number(const struct hash_key *key, uint64_t number) {
    __extension__ typedef unsigned __int128 wide;
    wide a = (wide)key->words[0] << 64 | key->words[1];
    uint64_t high = (uint64_t)((a * number + ((wide)key->words[2] << 64 | key->words[3])) >> 64);
    wide folded = (wide)(high ^ key->words[4]) * (key->words[5] | 1);
    return (uint64_t)(folded >> 64) ^ (uint64_t)folded;
}

#endif
