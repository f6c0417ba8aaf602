/*
 * SHA-1 (FIPS 180-4), for names that etcd derives with it: ids of members and clusters. It resists
 * no attacker and protects nothing here; what must be secret or authentic goes through OpenSSL.
 */
#ifndef LEASED_BASE_SHA1_H
#define LEASED_BASE_SHA1_H

#include "base/bytes.h"

#include <stdint.h>

enum { SHA1_SIZE = 20 };

/* The digest of all of `input`. */
void sha1(struct bytes input, uint8_t out_digest[SHA1_SIZE]);

/* The digest's first eight bytes as a big-endian number. */
uint64_t sha1_prefix(struct bytes input);

#endif
