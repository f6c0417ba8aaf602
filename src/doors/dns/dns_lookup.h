/*
 * What a name asks for. Pure. Below the domain (--dns-domain, "consul") and, where people say it,
 * the datacenter, names are those of Consul:
 *
 *     [TAG.]SERVICE.service[.DC].DOMAIN       instances of a service, with a tag or of one id
 *     _SERVICE._tcp[.TAG].service[.DC].DOMAIN, _SERVICE._TAG.service…   the same (RFC 2782)
 *     NODE.node[.DC].DOMAIN                   addresses of the instances on a node
 *     HEX.addr[.DC].DOMAIN                    the address that the 8 or 32 digits are
 *     ns.DOMAIN                               the members
 *     …in-addr.arpa, …ip6.arpa                who has an address
 */
#ifndef LEASED_DOORS_DNS_DNS_LOOKUP_H
#define LEASED_DOORS_DNS_DNS_LOOKUP_H

#include "doors/dns/dns_name.h"

struct dns_zone {
    struct dns_name domain;     /* small letters */
    struct dns_name datacenter; /* one label, small letters */
};
/* False: the domain is no name, or the datacenter no label. */
bool dns_zone_init(struct dns_zone *zone, const char *domain, const char *datacenter);

enum dns_lookup_kind {
    DNS_LOOKUP_OUTSIDE, /* a name of another zone */
    DNS_LOOKUP_MISSING, /* there is no such name, whatever is registered */
    DNS_LOOKUP_APEX,    /* the domain itself */
    DNS_LOOKUP_EMPTY,   /* a name between others, which has no records */
    DNS_LOOKUP_SERVERS,
    DNS_LOOKUP_SERVICE,
    DNS_LOOKUP_NODE,
    DNS_LOOKUP_ADDRESS,
    DNS_LOOKUP_REVERSE
};

struct dns_address {
    size_t size; /* 4 or 16 */
    uint8_t bytes[16];
};

/* Texts are in small letters. */
struct dns_lookup {
    enum dns_lookup_kind kind;
    struct bytes name;          /* of the service, or the node */
    struct bytes tag;           /* of a service; empty: none */
    struct dns_address address; /* of DNS_LOOKUP_ADDRESS and _REVERSE */
    /* What the texts point into. */
    struct dns_name folded;
    uint8_t tag_text[DNS_NAME_SIZE_MAX];
};

/* Must not be copied afterwards. */
void dns_lookup_parse(const struct dns_zone *zone, const struct dns_name *name,
                      struct dns_lookup *out_lookup);

/* The text of an IPv4 or IPv6 address. False: it is none. */
bool dns_address_parse(struct bytes text, struct dns_address *out_address);

/* --- Names that answers give. False: they would be too long. --- */

/* LABEL.KIND.DC.DOMAIN; `kind` is "service" or "node". */
bool dns_zone_name(const struct dns_zone *zone, struct bytes label, const char *kind,
                   struct dns_name *out_name);
/* HEX.addr.DC.DOMAIN. */
bool dns_zone_address_name(const struct dns_zone *zone, const struct dns_address *address,
                           struct dns_name *out_name);
/* LABEL.DOMAIN. */
bool dns_zone_host(const struct dns_zone *zone, const char *label, struct dns_name *out_name);

#endif
