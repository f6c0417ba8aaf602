/*
 * Carries out doors/authenticator.h, and gives net the caller of every HTTP request and gRPC call
 * from its headers and its connection's certificate:
 *
 *     token: T · authorization: T (gRPC, as etcd's clients send it)
 *     authorization: Bearer T · x-consul-token: T · x-vault-token: T
 *     authorization: Basic base64(user:password)
 *     a verified client certificate
 *
 * The first that is there counts; one that is wrong is refused and not passed over. While
 * authentication is off every caller is anonymous.
 */
#ifndef LEASED_SERVER_AUTHENTICATOR_H
#define LEASED_SERVER_AUTHENTICATOR_H

#include "core/service.h"
#include "doors/authenticator.h"
#include "net/net_server.h"

#include <uv.h>

struct jwt;

/* Loop, service and `jwt` outlive it; with `jwt` tokens are JSON Web Tokens, without (NULL) our
 * own. Aborts when memory is out. */
struct authenticator *authenticator_create(uv_loop_t *loop, struct service *service,
                                           const struct jwt *jwt);
/* After every connection is closed. The loop must run on until workers have come back. NULL is
 * fine. */
void authenticator_destroy(struct authenticator *authenticator);

/* For net_server_set_authenticator(), with the authenticator as its context. */
extern const struct net_authenticator authenticator_of_requests;

struct authenticator_stats {
    uint64_t logins;   /* passwords that were right */
    uint64_t failures; /* passwords and tokens that were not */
    uint64_t limited;  /* attempts that were not looked at, because there were too many */
};
void authenticator_stats(const struct authenticator *authenticator,
                         struct authenticator_stats *out_stats);

#endif
