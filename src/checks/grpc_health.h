/*
 * One call of grpc.health.v1.Health/Check (gRPC's health checking protocol), without sockets: bytes
 * of the server go in, bytes for the server come out. HTTP/2 by nghttp2. The answer is bounded, and
 * no byte of it is trusted.
 */
#ifndef LEASED_CHECKS_GRPC_HEALTH_H
#define LEASED_CHECKS_GRPC_HEALTH_H

#include "base/buffer.h"
#include "checks/check_result.h"

#include <stdbool.h>

struct grpc_health;

struct grpc_health_options {
    const char *authority; /* host:port */
    bool is_tls;
    struct bytes service; /* empty: the server as a whole */
};

/* NULL: out of memory, or nghttp2 refuses. */
struct grpc_health *grpc_health_create(const struct grpc_health_options *options);
/* Accepts NULL. */
void grpc_health_destroy(struct grpc_health *health);

/* Appends what is to be sent. */
void grpc_health_fill(struct grpc_health *health, struct buffer *out);
/* True: it is over, and grpc_health_result() may be asked. */
bool grpc_health_receive(struct grpc_health *health, struct bytes bytes);
/* The connection ended, for this reason. */
void grpc_health_end(struct grpc_health *health, const char *reason);

/* Passing for SERVING alone. */
void grpc_health_result(const struct grpc_health *health, struct check_result *out_result);

#endif
