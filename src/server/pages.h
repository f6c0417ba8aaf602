/*
 * The pages that need no gRPC: /health, /livez, /readyz, /version, /metrics.
 */
#ifndef LEASED_SERVER_PAGES_H
#define LEASED_SERVER_PAGES_H

#include "net/net_server.h"
#include "server/metrics.h"

/* Why clients should look elsewhere, in etcd's words; NULL: they need not. */
const char *pages_unhealthy_reason(struct service *service);

/* The sources outlive the server. */
void pages_register(struct metrics_sources *sources, struct net_server *server);

#endif
