/*
 * What etcd asks of every HTTP request of its listeners, gRPC aside: without TLS the Host header
 * must name a host of --host-whitelist, so that a page that made its own name point here
 * (DNS rebinding) gets nothing; and web pages of the origins of --cors may use the answers
 * (https://fetch.spec.whatwg.org, "CORS protocol"). OPTIONS is answered here, for any path.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_ACCESS_H
#define LEASED_DOORS_ETCD_ETCD_ACCESS_H

#include "net/http.h"

struct etcd_access {
    const char *origins; /* of --cors: "*" or origins with commas */
    const char *hosts;   /* of --host-whitelist: "*" or names with commas */
};

/* Its context is a struct etcd_access. */
extern const struct http_filter etcd_access_filter;

/* True when the list has the name, or "*". Letters' case does not matter, nor do spaces around a
 * name. */
bool etcd_access_is_listed(const char *list, struct bytes name);
/* A Host header without its port and without the brackets of an IPv6 address. */
struct bytes etcd_access_host(struct bytes host);

#endif
