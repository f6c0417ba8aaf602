/* ZooKeeper's admin server: a few figures as JSON, for whoever may administer leased. */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_ADMIN_H
#define LEASED_DOORS_ZOOKEEPER_ZK_ADMIN_H

#include "doors/zookeeper/zk_connection.h"

/* Adds GET /commands and GET /commands/{command}. */
void zk_admin_serve(struct zk_door *door, struct net_scope *scope);

#endif
