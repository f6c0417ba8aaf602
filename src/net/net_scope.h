/*
 * What is spoken on a listener: HTTP and gRPC with their routes, raw protocols, or both. The main
 * scope is that of listeners that name no other; a door that listens of its own has a scope with
 * nothing else in it. Filled at start, constant afterwards.
 */
#ifndef LEASED_NET_NET_SCOPE_H
#define LEASED_NET_NET_SCOPE_H

#include "base/bytes.h"
#include "base/list.h"
#include "net/net_server.h"
#include "net/protocol.h"
#include "net/raw_session.h"
#include "net/route_table.h"

#include <stdbool.h>
#include <stddef.h>

enum { NET_SCOPE_RAW_MAX = 16 };

struct net_scope {
    struct list in_server;
    struct route_table *routes; /* of the main scope: those of net_shared */
    struct route_table own_routes;
    bool has_http;
    struct net_request
        *requests; /* every method and route, in the order in which they were added */
    size_t n_requests;
    struct raw_route raws[NET_SCOPE_RAW_MAX];
    size_t n_raws;
};

/* `routes` NULL: the scope has its own. */
void net_scope_init(struct net_scope *scope, struct route_table *routes);
void net_scope_clear(struct net_scope *scope);

/* The protocol of a connection that begins with these bytes. HTTP is asked first, then raw
 * protocols in the order in which they were added. One that needs more bytes is waited for,
 * although a later one may say yes already. A scope of one raw protocol and nothing else needs no
 * bytes. `out_raw` is NULL for HTTP. */
enum sniff_result net_scope_sniff(const struct net_scope *scope, struct bytes first,
                                  const struct protocol **out_protocol,
                                  const struct raw_route **out_raw);

#endif
