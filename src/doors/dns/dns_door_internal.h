/* What the files of this folder share: the door, and its way from a query to an answer. */
#ifndef LEASED_DOORS_DNS_DNS_DOOR_INTERNAL_H
#define LEASED_DOORS_DNS_DNS_DOOR_INTERNAL_H

#include "doors/dns/dns_cache.h"
#include "doors/dns/dns_index.h"
#include "doors/dns/dns_lookup.h"
#include "doors/dns/dns_message.h"
#include "doors/door.h"
#include "net/datagram.h"
#include "net/raw_protocol.h"
#include "registry/registry_zones.h"

enum {
    DNS_FLAG_DOMAIN,
    DNS_FLAG_DATACENTER,
    DNS_FLAG_TTL,
    DNS_FLAG_UDP_SIZE,
    DNS_FLAG_RATE,
    DNS_FLAG_USER,
    DNS_FLAG_ZONES,
    DNS_N_FLAGS
};

enum {
    DNS_QUERY_SIZE_MAX = 4096,     /* over TCP; names have 255 bytes, the rest is options */
    DNS_UDP_QUERY_SIZE_MAX = 1232, /* larger datagrams are dropped */
    DNS_UDP_SIZE_DEFAULT = 1232,   /* fits every path without fragments */
    DNS_UDP_SIZE_LIMIT = 8192
};

struct dns_counters {
    uint64_t queries_udp;
    uint64_t queries_tcp;
    uint64_t dropped; /* no queries */
    uint64_t truncated;
    uint64_t rcodes[6]; /* DNS_NOERROR to DNS_REFUSED */
};

struct dns_door {
    const struct door_environment *environment;
    struct service *service;
    struct dns_zone zone;
    struct dns_name server;  /* ns.DOMAIN */
    struct dns_name mailbox; /* hostmaster.DOMAIN */
    int64_t ttl_ms_max;
    size_t udp_size;
    struct bytes user; /* empty: queries are of nobody */
    struct registry_zones *zones;
    struct dns_index *index;
    struct dns_cache *cache;
    struct datagram_handler datagrams;
    uint64_t random;    /* of the order of answers */
    struct arena arena; /* of one query */
    struct dns_counters counters;
    uint8_t reply[2 + DNS_MESSAGE_SIZE_MAX]; /* two bytes for the length, over TCP */
};

extern const struct raw_protocol dns_protocol;
/* Of UDP; the context is the door. */
void dns_on_datagram(void *context, struct datagram_socket *socket,
                     const struct datagram_source *source, struct bytes bytes);

/* Who asks. */
struct dns_client {
    struct caller caller;
    bool has_network; /* not over a Unix socket */
    struct registry_network network;
};

/* Writes the answer to a message into `out_answer`, at most DNS_MESSAGE_SIZE_MAX bytes, over UDP as
 * many as the client takes. Gives its size; 0: it gets none. */
size_t dns_answer(struct dns_door *door, const struct dns_client *client, struct bytes message,
                  bool is_udp, uint8_t *out_answer);

/* One query while it is answered. */
struct dns_exchange {
    struct dns_door *door;
    const struct dns_client *client;
    const struct dns_query *query;
    struct dns_writer *writer;
    struct dns_owner owner; /* the name of the question */
    enum dns_extended extended;
};

/* The answers of each kind of name that depends on what is registered (dns_service.c,
 * dns_places.c). DNS_NOERROR without a record written means that there is no data of this type. */
enum dns_rcode dns_answer_service(struct dns_exchange *exchange, const struct dns_lookup *lookup);
enum dns_rcode dns_answer_node(struct dns_exchange *exchange, const struct dns_lookup *lookup);
enum dns_rcode dns_answer_reverse(struct dns_exchange *exchange, const struct dns_lookup *lookup);
enum dns_rcode dns_answer_servers(struct dns_exchange *exchange);

/* One address as an answer, if its kind is asked for. False: there is no more room. */
bool dns_write_address(struct dns_exchange *exchange, uint32_t ttl_s,
                       const struct dns_address *address);
/* The name under which a service is registered that is this one but for the case of letters; if
 * there is none, the name itself. */
struct bytes dns_find_service(struct dns_door *door, struct bytes folded);
/* DNS_NOERROR: the caller may read the service. */
enum dns_rcode dns_check_service(struct dns_exchange *exchange, struct bytes service);
/* How long an answer with an instance of this lease may be kept, at most `ttl_ms`. */
int64_t dns_ttl_ms(const struct dns_door *door, int64_t lease_id, int64_t ttl_ms);

#endif
