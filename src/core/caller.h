/*
 * The caller of a request. Made where the request came from its source: a door from a
 * certificate, a password or a token, replication from what another member sent, the server for its
 * own work. Every call of the service takes one; a command carries it into the log while
 * authentication is on, so that its rights are checked again when it is applied.
 */
#ifndef LEASED_CORE_CALLER_H
#define LEASED_CORE_CALLER_H

#include "base/buffer.h"

#include <stdint.h>

enum caller_kind {
    CALLER_CLIENT = 0, /* the least: a zeroed struct is an anonymous client */
    CALLER_MEMBER = 1, /* another member, for its own work, not for a client */
    CALLER_SERVER = 2  /* this server: expiry, checkpoints, housekeeping */
};

struct caller {
    uint64_t user_id; /* 0: anonymous */
    /* Of the user's credentials when they were shown. A change of the user's password makes another
     * one: what was asked with the old one is refused. */
    uint64_t auth_version;
    enum caller_kind kind;
};

extern const struct caller caller_anonymous;
extern const struct caller caller_server;

void caller_encode(struct buffer *buffer, const struct caller *caller);
/* Sets reader->failed when it is malformed. */
void caller_decode(struct reader *reader, struct caller *out_caller);

#endif
