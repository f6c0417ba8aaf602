/*
 * A request's body as a tree, the same for JSON and for XML, so that what is in it is read in one
 * place. An attribute of XML is a child with "@" in front of its name, as Eureka's JSON writes it;
 * an array of JSON is its elements under one name. What the body may hold is bounded before memory
 * is taken for it.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_TREE_H
#define LEASED_DOORS_EUREKA_EUREKA_TREE_H

#include "base/arena.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EUREKA_BODY_SIZE_MAX = 64 * 1024, EUREKA_TREE_DEPTH_MAX = 16, EUREKA_TREE_NODES_MAX = 1024 };

struct eureka_node {
    struct bytes name;
    struct bytes text; /* numbers and truth values as text; empty for null and for what has children
                        */
    bool is_null;
    struct eureka_node *first;
    struct eureka_node *last;
    struct eureka_node *next;
};

struct eureka_tree {
    struct arena *arena; /* of all nodes and texts */
    size_t n_nodes;
    struct eureka_node *root;
};

/* The body becomes a tree. On failure `out_error` says why, for people; constant. The root of JSON
 * is the only member of the outermost object. */
bool eureka_tree_read_json(struct eureka_tree *tree, struct arena *arena, struct bytes body,
                           const char **out_error);
/* Without document types and entities of its own: they are refused. */
bool eureka_tree_read_xml(struct eureka_tree *tree, struct arena *arena, struct bytes body,
                          const char **out_error);

/* A new child, the last one; NULL: too many nodes. With parent NULL it is the root. Name and text
 * are copied. */
struct eureka_node *eureka_tree_add(struct eureka_tree *tree, struct eureka_node *parent,
                                    struct bytes name, struct bytes text);

/* The last child of this name that is not null; NULL: there is none, or `node` is NULL. */
const struct eureka_node *eureka_node_child(const struct eureka_node *node, const char *name);
/* Its text; empty when there is none. */
struct bytes eureka_node_text(const struct eureka_node *node, const char *name);

#endif
