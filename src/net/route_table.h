/*
 * What a path leads to: gRPC methods by hash, routes by pattern. Filled at start, constant
 * afterwards.
 */
#ifndef LEASED_NET_ROUTE_TABLE_H
#define LEASED_NET_ROUTE_TABLE_H

#include "base/bytes.h"
#include "net/grpc.h"
#include "net/grpc_stats.h"
#include "net/route_tree.h"

#include <stdbool.h>
#include <stddef.h>

struct method_route {
    const struct grpc_method *method; /* NULL: an empty slot */
    struct bytes path;
    void *context;
    struct grpc_stats *stats; /* its own */
};

struct route_table {
    struct method_route *slots; /* open addressing, a power of two, at most half full */
    size_t n_slots;
    size_t n_methods;
    struct route_tree tree;
    const struct http_filter *filter; /* NULL: none */
    void *filter_context;
};

void route_table_init(struct route_table *table);
void route_table_clear(struct route_table *table);

/* A path that is there already is replaced, and true is returned. */
bool route_table_add_method(struct route_table *table, const struct grpc_method *method,
                            void *context);

/* NULL: not there. */
const struct method_route *route_table_find_method(const struct route_table *table,
                                                   struct bytes path);

/* Whether any method of the service is there; the name as in "/service/method". */
bool route_table_has_service(const struct route_table *table, struct bytes service);

/* Why a path leads to no method, as the text of an UNIMPLEMENTED status. */
void route_table_explain(const struct route_table *table, struct bytes path, char *out_text,
                         size_t text_size);

#endif
