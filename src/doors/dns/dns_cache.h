/*
 * The instances of services that were asked for, decoded: a service of a thousand instances is read
 * from the store when it has changed, not for every query. Bounded. What a service shows is that
 * of its newest revision; of a large one that of a moment ago, because a worker reads it, and never
 * what was old ten seconds ago.
 */
#ifndef LEASED_DOORS_DNS_DNS_CACHE_H
#define LEASED_DOORS_DNS_DNS_CACHE_H

#include "core/key_store.h"
#include "registry/registry_view.h"

struct dns_cache;
struct service;

/* Those that should be given work. Of an instance: service, id, address, node, port, weight, lease,
 * tags and metadata; the rest is empty, and so are its checks. */
struct dns_instances {
    size_t n;
    const struct registry_entry *entries;
};

/* Aborts when memory is out. */
struct dns_cache *dns_cache_create(struct service *service);
/* Accepts NULL. */
void dns_cache_destroy(struct dns_cache *cache);

/* What is known of the service as it is now. NULL: it has to be read. Valid until the next call. */
const struct dns_instances *dns_cache_find(struct dns_cache *cache, const struct key_store *keys,
                                           struct bytes service);
/* Reads it. */
const struct dns_instances *dns_cache_read(struct dns_cache *cache, const struct key_store *keys,
                                           struct bytes service);
/* Has a worker read it: a large one. What was read before, which may be older than the newest
 * revision; NULL: nothing yet, or it is too old. */
const struct dns_instances *dns_cache_read_later(struct dns_cache *cache, struct bytes service);

#endif
