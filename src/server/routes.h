/*
 * The routes of the server itself: /health, /livez, /readyz, /version, /metrics.
 */
#ifndef LEASED_SERVER_ROUTES_H
#define LEASED_SERVER_ROUTES_H

#include "net/net_server.h"
#include "server/metrics.h"

/* The sources outlive the server. */
void routes_register(struct metrics_sources *sources, struct net_server *server);

#endif
