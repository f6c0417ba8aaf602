/*
 * Which zone a client is in, by its network: the list that operators give with --dns-zones and
 * --consul-zones, "10.1.0.0/16=a,10.2.0.0/16=b,::/0=c". The longest prefix that holds the client
 * counts. An IPv4 address is looked up as ::ffff:A.B.C.D, so ::/0 is everybody. Pure.
 */
#ifndef LEASED_REGISTRY_REGISTRY_ZONES_H
#define LEASED_REGISTRY_REGISTRY_ZONES_H

#include "base/bytes.h"

enum {
    REGISTRY_ZONES_MAX = 256, /* networks of one list */
    REGISTRY_NETWORK_BITS = 128
};

/* An address, or all that begin with its first bits; those behind them are 0. */
struct registry_network {
    uint8_t bytes[REGISTRY_NETWORK_BITS / 8];
    unsigned n_bits;
};
/* Of 4 or 16 bytes. `n_bits` is of these: at most 32, or 128. */
struct registry_network registry_network_of(const uint8_t *address, size_t size, unsigned n_bits);
/* An address as text: "10.0.0.1", "fe80::1", both with a port ("[fe80::1]:80") or without. False:
 * it is none. */
bool registry_network_parse(const char *text, struct registry_network *out_network);

struct registry_zones;
/* NULL: it is no such list. An empty text is a list of nothing. */
struct registry_zones *registry_zones_create(const char *text);
void registry_zones_destroy(struct registry_zones *zones);
bool registry_zones_is_empty(const struct registry_zones *zones);
/* Of the longest prefix that holds all of the network; empty: there is none. Lives as long as the
 * list. */
struct bytes registry_zones_find(const struct registry_zones *zones,
                                 const struct registry_network *network);

#endif
