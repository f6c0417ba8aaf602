/*
 * Routes by pattern: a tree of path segments. Filled at start, constant afterwards. A text is
 * preferred to a parameter and a parameter to the rest of the path; each node is visited at most
 * once, so a search costs at most as much as there are patterns.
 */
#ifndef LEASED_NET_ROUTE_TREE_H
#define LEASED_NET_ROUTE_TREE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "net/http.h"

#include <stdbool.h>
#include <stddef.h>

struct route_node;

struct route_tree {
    struct route_node *root; /* NULL: no route */
};

struct route_match {
    const struct http_route *route; /* NULL: no pattern, or none with this method */
    void *context;
    const struct route_node *node; /* NULL: no pattern has this path */
};

void route_tree_init(struct route_tree *tree);
void route_tree_clear(struct route_tree *tree);

/* The route is constant and outlives the tree. The same method and pattern again replaces it, and
 * true is returned. Asserts that the pattern is well-formed. */
bool route_tree_add(struct route_tree *tree, const struct http_route *route, void *context);

/* `path` is as sent, without the query. The values of parameters, decoded, are added to
 * `parameters` under their names. False: the path is malformed. */
bool route_tree_find(const struct route_tree *tree, const char *method, struct bytes path,
                     struct route_match *out_match, struct buffer *parameters);

/* The methods of a node as the value of "allow": "GET, HEAD, PUT". */
void route_tree_allowed(const struct route_node *node, struct buffer *out);

#endif
