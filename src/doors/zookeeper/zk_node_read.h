/*
 * Nodes as the state has them now, for reads and watches.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_NODE_READ_H
#define LEASED_DOORS_ZOOKEEPER_ZK_NODE_READ_H

#include "doors/zookeeper/zk_connection.h"

struct zk_shown_node {
    struct zk_node node;
    struct zk_children children;
    int64_t n_children;
};

/* False: there is no such node. Uses the door's arena; views are good until the iteration ends. */
bool zk_node_find(struct zk_door *door, struct bytes path, struct zk_shown_node *out_node);
void zk_node_write_stat(const struct zk_shown_node *node, struct buffer *out);
/* Whether the connection's ids have one of the permissions. */
bool zk_node_allows(struct zk_connection *connection, const struct zk_shown_node *node,
                    int permissions);

/* Tells the connection what watches of these kinds have missed since a revision, as far as the node
 * shows it. Gives the kinds that are over by it. */
unsigned zk_node_missed(struct zk_connection *connection, struct bytes path, unsigned kinds,
                        int64_t since);

#endif
