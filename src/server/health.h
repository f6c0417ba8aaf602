/*
 * /health, /livez and /readyz, in etcd's words: which checks there are, what they say, which of
 * them a request leaves out.
 */
#ifndef LEASED_SERVER_HEALTH_H
#define LEASED_SERVER_HEALTH_H

#include "net/http.h"

/* Their context is struct metrics_sources. */
void health_serve(struct http_exchange *exchange);       /* /health */
void health_serve_livez(struct http_exchange *exchange); /* /livez and /livez/{check} */
void health_serve_readyz(struct http_exchange *exchange);

#endif
