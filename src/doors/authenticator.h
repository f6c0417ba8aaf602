/*
 * Passwords, tokens and certificates, made into callers. Declared here for the doors and carried
 * out by the server, because it needs OpenSSL and threads that may hash. HTTP and gRPC requests
 * come with their caller already (http_caller(), grpc_call_caller()); what is here is for a door
 * whose protocol has its own way to log in.
 *
 * Everything happens on the loop's thread; hashing does not.
 */
#ifndef LEASED_DOORS_AUTHENTICATOR_H
#define LEASED_DOORS_AUTHENTICATOR_H

#include "base/bytes.h"
#include "base/status.h"
#include "core/caller.h"

#include <stdbool.h>
#include <stddef.h>

struct authenticator;
struct password_job;
struct tls_identity;

/* The user that a verified certificate names: its common name, else the first of its alternative
 * names (DNS names, then URIs) that is a user. False: none is; `identity` may be NULL. */
bool authenticator_certificate(struct authenticator *authenticator,
                               const struct tls_identity *identity, struct caller *out_caller);

/* STATUS_AUTH_TOKEN_INVALID: not made by this cluster, too old, or of a user that was changed
 * since. */
enum status authenticator_token(struct authenticator *authenticator, struct bytes token,
                                struct caller *out_caller);

/* A text of at most so many bytes, its end included. */
enum { AUTHENTICATOR_TOKEN_SIZE = 4096 };
/* Good on every member, until the user's password is changed, the user is deleted, authentication
 * is switched off, or its time has passed (--auth-token-ttl, or the ttl of JSON Web Tokens). False:
 * this member cannot make tokens, because it has no private key. */
bool authenticator_make_token(struct authenticator *authenticator, const struct caller *caller,
                              char out_token[AUTHENTICATOR_TOKEN_SIZE]);

/* Somebody shows a password. */
struct authenticator_login {
    /* STATUS_OK with the caller; STATUS_AUTH_FAILED: no such user, or another password;
     * STATUS_TOO_MANY_REQUESTS: too many attempts for this user or from this address, or by all
     * together; STATUS_AUTH_NOT_ENABLED. Called once, later, unless it is canceled. */
    void (*done)(struct authenticator_login *login, enum status status,
                 const struct caller *caller);
    struct {
        struct authenticator *authenticator;
        struct password_job *job; /* NULL: it is done */
        struct caller caller;     /* if the password is right */
        char name[65];            /* of the user, as it is logged */
        char address[64];
        bool is_counted;    /* as an attempt: the password was not known */
        uint64_t attempt;   /* for login_limits_succeeded() */
        uint8_t digest[32]; /* of user and password, for the next time */
    } private;
};
/* `address` is the client's, for limits and logs; name and password are borrowed for
 * the call. False: it is refused at once, for the reason in `out_status`, and done() is not
 * called. */
bool authenticator_log_in(struct authenticator *authenticator, struct authenticator_login *login,
                          struct bytes name, struct bytes password, const char *address,
                          enum status *out_status);
/* done() is not called any more. */
void authenticator_cancel(struct authenticator_login *login);

/* A password becomes what core keeps of it. */
struct authenticator_hash {
    /* The hash is borrowed for the call. STATUS_OK or STATUS_INVALID. */
    void (*done)(struct authenticator_hash *hash, enum status status, struct bytes password_hash);
    struct {
        struct password_job *job;
    } private;
};
/* STATUS_PENDING: done() is called later. STATUS_INVALID: longer than what can be hashed, or with a
 * zero byte. STATUS_TOO_MANY_REQUESTS. */
enum status authenticator_hash_password(struct authenticator *authenticator,
                                        struct authenticator_hash *hash, struct bytes password);
void authenticator_cancel_hash(struct authenticator_hash *hash);

#endif
