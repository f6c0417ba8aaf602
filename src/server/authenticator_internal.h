/*
 * Shared by authenticator.c (certificates, tokens, passwords) and request_caller.c (what a request
 * shows of them).
 */
#ifndef LEASED_SERVER_AUTHENTICATOR_INTERNAL_H
#define LEASED_SERVER_AUTHENTICATOR_INTERNAL_H

#include "base/list.h"
#include "server/auth_token.h"
#include "server/authenticator.h"
#include "server/jwt.h"

enum {
    KNOWN_TOKENS = 1024,
    KNOWN_JWTS = 256,
    KNOWN_PASSWORDS = 256,
    KNOWN_DIGEST_SIZE = 32,
    /* A client that shows a password with each request makes it be hashed so often. */
    KNOWN_PASSWORD_MS = 5 * 60 * 1000
};

/* A token whose signature has been computed. */
struct known_token {
    size_t size;
    char text[AUTH_TOKEN_TEXT_SIZE];
    struct auth_token token;
};

/* A JSON Web Token whose signature has been verified. */
struct known_jwt {
    uint8_t digest[KNOWN_DIGEST_SIZE]; /* of its text */
    struct jwt_claims claims;          /* an empty user: none is known */
};

/* A password that was right: a digest of it with a key of this process. */
struct known_password {
    uint8_t digest[KNOWN_DIGEST_SIZE];
    struct caller caller;
    uint64_t verified_ms;
};

struct authenticator {
    struct service *service;
    struct password_hasher *hasher;
    struct login_limits *limits;
    struct list pending; /* requests whose password is being verified */
    struct authenticator_stats stats;
    uint64_t logged_ms;
    uint64_t n_logged;
    uint8_t process_key[32];
    uint64_t tokens_generation;
    struct known_token tokens[KNOWN_TOKENS];
    const struct jwt *jwt; /* NULL: tokens are our own */
    struct known_jwt jwts[KNOWN_JWTS];
    struct known_password passwords[KNOWN_PASSWORDS];
};

bool authenticator_is_on(const struct authenticator *authenticator);
/* True when this very password was verified a moment ago. */
bool authenticator_knows_password(struct authenticator *authenticator, struct bytes name,
                                  struct bytes password, struct caller *out_caller);

#endif
