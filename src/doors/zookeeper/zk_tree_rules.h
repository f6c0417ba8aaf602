/*
 * The nodes that one run of a rule looks at, in memory of the run: loaded once, changed there, and
 * written back together at the end. So a multi that fails has changed nothing and can still say
 * which operation it was, and its later operations see what the earlier ones did. Pure.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_TREE_RULES_H
#define LEASED_DOORS_ZOOKEEPER_ZK_TREE_RULES_H

#include "core/rule.h"
#include "doors/zookeeper/zk_model.h"

struct zk_tree_node {
    struct zk_tree_node *next_in_bucket;
    struct zk_tree_node *next; /* in the order in which they were loaded or last changed */
    struct zk_tree_node *previous;
    struct bytes path;
    uint64_t hash;
    bool existed; /* before the run */
    bool exists;
    bool is_new;               /* created by the run, perhaps where another was deleted */
    bool is_changed;           /* the node itself */
    bool children_changed;     /* its struct zk_children */
    bool children_existed;     /* that had a record */
    bool wants_sweep;          /* emptied, and to be removed if it stays so */
    bool rearms_ttl;           /* its TTL counts anew */
    int64_t ttl_lease_over;    /* the lease of a node that was deleted; 0: none */
    int64_t n_children_before; /* -1: not counted yet */
    int64_t n_children_added;
    struct zk_node node;
    struct zk_children children;
};

enum { ZK_TREE_BUCKETS = 512 };

struct zk_tree {
    struct rule_run *run;
    struct zk_tree_node *first;
    struct zk_tree_node *last;
    struct zk_tree_node *buckets[ZK_TREE_BUCKETS];
};

void zk_tree_init(struct zk_tree *tree, struct rule_run *run);
/* Loads a node; it may not exist. The path is borrowed for the run. */
struct zk_tree_node *zk_tree_find(struct zk_tree *tree, struct bytes path);
int64_t zk_tree_n_children(struct zk_tree *tree, struct zk_tree_node *node);

/* A node that does not exist becomes one; its parent exists. */
void zk_tree_create(struct zk_tree *tree, struct zk_tree_node *node, struct zk_tree_node *parent,
                    const struct zk_node *content);
void zk_tree_delete(struct zk_tree *tree, struct zk_tree_node *node, struct zk_tree_node *parent);
/* The node itself was changed. Changes are written, and so told to watches, in this order. */
void zk_tree_changed(struct zk_tree *tree, struct zk_tree_node *node);
/* A child has gone in another way (its lease ended). */
void zk_tree_lost_child(struct zk_tree *tree, struct zk_tree_node *parent);

/* Writes all that was changed. Anything but STATUS_OK: the run is to be refused. */
enum status zk_tree_flush(struct zk_tree *tree);

#endif
