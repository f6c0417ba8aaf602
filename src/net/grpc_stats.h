/*
 * What the calls of one gRPC method came to: begun, ended by code, messages, and how long calls
 * took. Counted by grpc_call.c; fixed memory, no strings.
 */
#ifndef LEASED_NET_GRPC_STATS_H
#define LEASED_NET_GRPC_STATS_H

#include "base/latency.h"
#include "net/grpc.h"

#include <stddef.h>
#include <stdint.h>

enum { GRPC_CODES = GRPC_UNAUTHENTICATED + 1 };

struct grpc_stats {
    uint64_t started;
    uint64_t received; /* messages */
    uint64_t sent;
    uint64_t handled[GRPC_CODES]; /* by the code that the call ended with */
    struct latency handling;      /* from the headers to the status */
};

/* "OK", "DeadlineExceeded": the names that gRPC's libraries give their metrics. */
const char *grpc_code_name(enum grpc_code code);

/* Adds what `more` counted. */
void grpc_stats_add(struct grpc_stats *stats, const struct grpc_stats *more);

#endif
