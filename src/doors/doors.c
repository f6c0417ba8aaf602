/* The only list of doors. A new one: its include, its line. The order is that of --help. */
#include "doors/doors.h"

#include "doors/consul/consul_door.h"
#include "doors/dns/dns_door.h"
#include "doors/etcd/etcd_door.h"
#include "doors/eureka/eureka_door.h"
#include "doors/native/native_door.h"
#include "doors/redis/redis_door.h"
#include "doors/registry/registry_door.h"
#include "doors/xds/xds_door.h"
#include "doors/zookeeper/zk_door.h"

static const struct door *const doors[] = {
    &consul_door, &dns_door,      &etcd_door, &eureka_door, &native_door,
    &redis_door,  &registry_door, &xds_door,  &zk_door,
};

const struct door_list all_doors = {.doors = doors, .n_doors = sizeof doors / sizeof doors[0]};
