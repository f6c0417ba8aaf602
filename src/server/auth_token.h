/*
 * Tokens: a user's id, the version of its credentials and the epoch, signed with a key that all
 * members have (core/auth.h). So a token is good on every member, costs no log entry, and ends with
 * a change of the password or with its epoch. The signature also covers the hash of the password:
 * where a cluster goes on from an older state (a restored backup), ids and versions are given
 * again, and a token of before fits no user that was added since. See docs/decisions/0029.
 */
#ifndef LEASED_SERVER_AUTH_TOKEN_H
#define LEASED_SERVER_AUTH_TOKEN_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* As text, its end included. */
enum { AUTH_TOKEN_TEXT_SIZE = 128 };

struct auth_token {
    uint64_t user_id;
    uint64_t version;
    uint64_t epoch;
};

/* `key` has AUTH_TOKEN_KEY_SIZE bytes; `password_hash` is the user's. */
void auth_token_write(const struct auth_token *token, struct bytes key, struct bytes password_hash,
                      char out_text[AUTH_TOKEN_TEXT_SIZE]);
/* What a text claims to be; to be verified. False: it is no token at all. */
bool auth_token_read(struct bytes text, struct auth_token *out_token);
/* False: it was not made with this key for this password. Takes the same time wherever it differs.
 */
bool auth_token_verify(struct bytes text, struct bytes key, struct bytes password_hash);

#endif
