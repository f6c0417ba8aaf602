/* Shared by jwt.c (the tokens) and jwt_key.c (settings, keys and signatures). */
#ifndef LEASED_SERVER_JWT_INTERNAL_H
#define LEASED_SERVER_JWT_INTERNAL_H

#include "server/jwt.h"

#include <openssl/evp.h>

enum {
    JWT_SECRET_SIZE_MAX = 16 * 1024,
    JWT_SIGNATURE_SIZE_MAX = 1024, /* of an RSA key of 8,192 bits */
};

enum jwt_family { JWT_HMAC, JWT_RSA, JWT_RSA_PSS, JWT_ECDSA };

/* A "sign-method" of RFC 7518. */
struct jwt_method {
    const char *name;
    enum jwt_family family;
    const EVP_MD *(*digest)(void);
    size_t coordinate_size; /* of JWT_ECDSA: a signature is two numbers of this size */
    int curve_bits;         /* of JWT_ECDSA */
};

struct jwt {
    const struct jwt_method *method;
    EVP_PKEY *public_key;
    EVP_PKEY *private_key; /* NULL: tokens are only read */
    uint8_t *secret;       /* of JWT_HMAC */
    size_t secret_size;
    int64_t ttl_s;
};

/* False: it cannot be signed. */
bool jwt_sign(const struct jwt *jwt, struct bytes message,
              uint8_t out_signature[JWT_SIGNATURE_SIZE_MAX], size_t *out_size);
bool jwt_verify(const struct jwt *jwt, struct bytes message, struct bytes signature);

#endif
