/*
 * The routes of the server itself: /health, /livez, /readyz, /version, /metrics, /debug/vars.
 */
#ifndef LEASED_SERVER_ROUTES_H
#define LEASED_SERVER_ROUTES_H

#include "doors/door.h"
#include "net/net_server.h"
#include "server/metrics.h"

/* All of them, with the right that each needs; ends with an entry without a name. */
extern const struct door_request routes_requests[];

/* The sources outlive the server. */
void routes_register(struct metrics_sources *sources, struct net_server *server);

#endif
