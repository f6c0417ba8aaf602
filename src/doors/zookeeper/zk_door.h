/* The ZooKeeper API: docs/doors/zookeeper.md. */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_DOOR_H
#define LEASED_DOORS_ZOOKEEPER_ZK_DOOR_H

#include "doors/door.h"

extern const struct door zk_door;

#endif
