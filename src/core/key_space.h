/*
 * Key spaces: ordered sets of keys under one line of revisions. Each protocol has its own, so that
 * a range, a watch or a deletion never reaches the keys of another, whatever bounds it names.
 *
 * The number of a space is the first byte of the stored key (stored_key.h): a space is one
 * contiguous range of the tree and costs one byte a key. Numbers are in snapshots and in the log,
 * so a number that was released never changes its meaning.
 */
#ifndef LEASED_CORE_KEY_SPACE_H
#define LEASED_CORE_KEY_SPACE_H

#include <stdbool.h>
#include <stdint.h>

struct key_space_id {
    uint8_t value; /* 0: none, which no request may name */
};

#define KEY_SPACE_NONE ((struct key_space_id){.value = 0})
#define KEY_SPACE_ETCD ((struct key_space_id){.value = 1})
/* Of core itself, never shown to clients: rules that run when a lease ends (rule.h), and users,
 * roles and permissions. */
#define KEY_SPACE_LEASE_HOOKS ((struct key_space_id){.value = 2})
#define KEY_SPACE_AUTH ((struct key_space_id){.value = 3})
#define KEY_SPACE_REDIS ((struct key_space_id){.value = 16})
#define KEY_SPACE_ZOOKEEPER ((struct key_space_id){.value = 17})
#define KEY_SPACE_NATIVE ((struct key_space_id){.value = 18})
#define KEY_SPACE_REGISTRY ((struct key_space_id){.value = 19})
#define KEY_SPACE_CONSUL ((struct key_space_id){.value = 20})
#define KEY_SPACE_KUBERNETES ((struct key_space_id){.value = 21})
#define KEY_SPACE_EUREKA ((struct key_space_id){.value = 22})
#define KEY_SPACE_AZURE ((struct key_space_id){.value = 23})
#define KEY_SPACE_VAULT ((struct key_space_id){.value = 24})
/* Sessions, acquisitions and ends of the native API: see key_space_is_of_records(). */
#define KEY_SPACE_NATIVE_RECORDS ((struct key_space_id){.value = 25})
/* Elements, scripts, messages and settings of the Redis protocol. */
#define KEY_SPACE_REDIS_RECORDS ((struct key_space_id){.value = 26})
/* Beside the services of the registry: names, indexes, events (registry/registry_keys.h). */
#define KEY_SPACE_REGISTRY_RECORDS ((struct key_space_id){.value = 27})
/* Sessions and indexes of the Consul API. */
#define KEY_SPACE_CONSUL_RECORDS ((struct key_space_id){.value = 28})
/* Of the sample door in the tests. */
#define KEY_SPACE_SAMPLE ((struct key_space_id){.value = 250})

/* The number after a space is the end of its range, so the greatest one is never used. */
enum { KEY_SPACE_MAX = 254 };

static inline bool key_space_is_valid(struct key_space_id space) {
    return space.value != 0 && space.value <= KEY_SPACE_MAX;
}

static inline bool key_space_equal(struct key_space_id a, struct key_space_id b) {
    return a.value == b.value;
}

/* Records that a door keeps beside the keys that carry the names of things. No permission names
 * them: every user may, and the door shows and changes of them what the caller's rights to those
 * names allow. */
static inline bool key_space_is_of_records(struct key_space_id space) {
    return key_space_equal(space, KEY_SPACE_NATIVE_RECORDS) ||
           key_space_equal(space, KEY_SPACE_REDIS_RECORDS) ||
           key_space_equal(space, KEY_SPACE_REGISTRY_RECORDS) ||
           key_space_equal(space, KEY_SPACE_CONSUL_RECORDS);
}

#endif
