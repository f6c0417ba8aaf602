/*
 * Keys of the native API carry the name of a resource or a pool. The right to a name is the right
 * to a key of etcd's space that nobody need write: `leased/resources/NAME`, `leased/pools/NAME`. So
 * roles are given and shown by the tools that people have, and are part of every backup. The right
 * to a path of the ZooKeeper API is that to `leased/zookeeper/PATH` in the same way, that to a key
 * of the Consul API the one to `leased/consul/kv/KEY`, that to a service of the registry the one to
 * `leased/services/NAME`.
 */
#ifndef LEASED_CORE_AUTH_NAMES_H
#define LEASED_CORE_AUTH_NAMES_H

#include "core/permission.h"

#include <stdbool.h>
#include <stdint.h>

/* Longer names there are not (native_model.h: 256 bytes); longer paths are for root alone. */
enum { AUTH_NAME_KEY_SIZE = 1024 };

struct auth_name_range {
    uint8_t key[AUTH_NAME_KEY_SIZE];
    uint8_t range_end[AUTH_NAME_KEY_SIZE];
};

/* Keys of the Redis protocol are a byte for the database and a name (doors/redis/redis_keys.h). The
 * right to one is the right to `leased/redis/DATABASE/NAME`. */
enum { AUTH_REDIS_KEY_SIZE = 16 * 1024 + 32, AUTH_REDIS_DATABASES = 16 };

struct auth_redis_range {
    uint8_t key[AUTH_REDIS_KEY_SIZE];
    uint8_t range_end[AUTH_REDIS_KEY_SIZE];
};

/* As auth_names_map(), for a range of KEY_SPACE_REDIS: of one key, or of keys of one database. */
bool auth_names_map_redis(const struct key_range *range, struct auth_redis_range *memory,
                          struct key_range *out_range);

/* Whether rights to keys of a space are rights to such names. */
bool auth_names_has(struct key_space_id space);

/* The range of etcd's space whose right counts for a range of KEY_SPACE_NATIVE or
 * KEY_SPACE_REGISTRY: of keys of one name, or of all names that begin so; or of
 * KEY_SPACE_ZOOKEEPER: of one path, or of all that are between two. It points into the memory.
 * False: it is no such range, and only root has the right to it. */
bool auth_names_map(const struct key_range *range, struct auth_name_range *memory,
                    struct key_range *out_range);

#endif
