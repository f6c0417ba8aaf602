/*
 * Asking one address who belongs to the cluster, before this node is anybody in it. Where a secret
 * or certificates are configured, both sides prove themselves first; the answer is covered by it.
 */
#ifndef LEASED_PEERS_PEER_ASK_H
#define LEASED_PEERS_PEER_ASK_H

#include "base/bytes.h"
#include "tls/tls_context.h"

#include <stdint.h>
#include <uv.h>

struct peer_ask;

struct peer_ask_options {
    const char *address;     /* host:port */
    uint64_t id;             /* of the one who asks; 0: none yet */
    struct tls_context *tls; /* NULL: plain text. Outlives it */
    struct bytes secret;     /* empty: none. Outlives it */
    /* From the start on, looking up the name included; 0: PEER_ASK_TIMEOUT_MS. */
    uint64_t timeout_ms;
};

enum { PEER_ASK_TIMEOUT_MS = 4000 };

/* `done` is called exactly once unless cancelled, never from inside: the body of the answer
 * (borrowed; what the other side's `asked` gave), or reason != NULL, a constant text. It is gone
 * then, and the loop holds nothing of it soon after. */
struct peer_ask *peer_ask_start(uv_loop_t *loop, const struct peer_ask_options *options,
                                void (*done)(void *data, struct bytes body, const char *reason),
                                void *data);
/* Nothing is called any more. */
void peer_ask_cancel(struct peer_ask *ask);

#endif
