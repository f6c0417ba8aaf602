/*
 * The few primitives that others need of OpenSSL: random bytes, a keyed hash and a comparison whose
 * time tells nothing.
 */
#ifndef LEASED_TLS_TLS_CRYPTO_H
#define LEASED_TLS_TLS_CRYPTO_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TLS_HMAC_SIZE = 32 };

/* From the system's generator; aborts when there is none. */
void tls_random(void *out_bytes, size_t size);

/* HMAC-SHA256 over the parts, one after the other. The caller makes sure that no two lists of parts
 * give the same bytes. */
void tls_hmac(struct bytes key, const struct bytes *parts, size_t n_parts,
              uint8_t out_hmac[TLS_HMAC_SIZE]);

/* Takes as long for equal bytes as for different ones. */
bool tls_equal(const void *a, const void *b, size_t size);

/* Overwrites a secret; not optimised away. */
void tls_wipe(void *bytes, size_t size);

#endif
