/*
 * An exchange that a route serves (http.h), or that is refused because none does. It finds the
 * route, has the caller authenticated, collects the body within its limits, and keeps the time.
 */
#ifndef LEASED_NET_ROUTE_EXCHANGE_H
#define LEASED_NET_ROUTE_EXCHANGE_H

#include "net/http_exchange.h"
#include "net/http_request.h"

#include <stdint.h>

enum {
    /* A body that no route takes is read and dropped up to this size; more closes HTTP/1. */
    HTTP_DROPPED_BODY_MAX = 64 * 1024,
    /* Held while the caller is being authenticated. */
    HTTP_HELD_BODY_MAX = 256 * 1024
};

/* Joins the session; the request's buffers are taken over. */
struct http_exchange *route_exchange_create(struct http_session *session,
                                            struct http_request *request, int32_t stream_id);
/* Serves or refuses it; once after create, when the session knows the exchange. */
void route_exchange_open(struct http_exchange *exchange);

/* The request cannot be read to its end: answers with this, or cuts the exchange off when an
 * answer has begun. `text`: constant; NULL: what the status says. */
void route_exchange_fail(struct http_exchange *exchange, unsigned status, const char *text);

#endif
