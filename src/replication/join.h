/*
 * Asking a running cluster who belongs to it, before this node is anybody: a node that joins learns
 * its id so, and one that lost its disk learns that it may not go on as if nothing had happened.
 */
#ifndef LEASED_REPLICATION_JOIN_H
#define LEASED_REPLICATION_JOIN_H

#include "base/arena.h"
#include "base/bytes.h"
#include "core/member.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* How members prove themselves to each other. */
struct join_options {
    struct tls_context *tls;        /* NULL: plain text */
    struct bytes secret;            /* empty: none */
    uint32_t cluster_version_known; /* for tests: 0 is the newest */
};

struct join_answer {
    bool is_there;      /* somebody answered at this address */
    const char *reason; /* why not; a constant text */
    uint64_t cluster_id;
    uint64_t token_hash;
    bool is_removed; /* the id that was asked for */
    size_t n;        /* 0: its cluster has not begun yet */
    const struct member_facts *members;
    uint32_t cluster_version;
    /* What this release knows, if that is less; else 0. */
    uint32_t cluster_version_known;
};

/* Asks all of the addresses (host:port) at once and runs the loop until each has answered or was
 * not reached within a few seconds; nothing else may be on the loop. What the answers refer to lies
 * in the arena. */
void join_ask(uv_loop_t *loop, const struct join_options *options, const char *const *addresses,
              size_t n, uint64_t id, struct arena *arena, struct join_answer *out_answers);

/* Never 0. */
uint64_t join_token_hash(const char *token);

#endif
