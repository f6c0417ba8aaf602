/*
 * JSON Web Tokens (RFC 7519) as etcd makes and reads them: claims "username", "revision" (of users
 * and roles) and "exp", signed with a key that the operator gives to every member
 * (--auth-token jwt,pub-key=…,priv-key=…,sign-method=…,ttl=…). Other programs that have the key may
 * make them, too. See docs/decisions/0034.
 */
#ifndef LEASED_SERVER_JWT_H
#define LEASED_SERVER_JWT_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JWT_TEXT_SIZE = 4096, /* its end included */
    JWT_USER_SIZE_MAX = 256,
    JWT_ERROR_SIZE = 256,
};

struct jwt;

/* Of the value of --auth-token: "jwt," and settings, or "simple", for which there is none (NULL).
 * False: it cannot be used, for the reason in `out_error`. */
bool jwt_open(const char *auth_token, struct jwt **out_jwt, char out_error[JWT_ERROR_SIZE]);
void jwt_destroy(struct jwt *jwt);

/* False: there is no private key, or the name makes the token too long. */
bool jwt_write(const struct jwt *jwt, struct bytes user, uint64_t revision, int64_t now_s,
               char out_text[JWT_TEXT_SIZE]);

struct jwt_claims {
    char user[JWT_USER_SIZE_MAX];
    size_t user_size;
    uint64_t revision;
    int64_t expires_s; /* INT64_MAX: never */
};
/* False: malformed, signed in another way or with another key, or not good at this time. */
bool jwt_read(const struct jwt *jwt, struct bytes text, int64_t now_s,
              struct jwt_claims *out_claims);

#endif
