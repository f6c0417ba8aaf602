#include "doors/dns/dns_door.h"

#include "base/prometheus.h"
#include "doors/dns/dns_door_internal.h"

#include <stdlib.h>
#include <sys/random.h>

static bool zone_init(const union door_value *values, struct dns_zone *out_zone,
                      struct dns_name *out_server, struct dns_name *out_mailbox) {
    return dns_zone_init(out_zone, values[DNS_FLAG_DOMAIN].text,
                         values[DNS_FLAG_DATACENTER].text) &&
           dns_zone_host(out_zone, "ns", out_server) &&
           dns_zone_host(out_zone, "hostmaster", out_mailbox);
}

static const char *check_flags(const union door_value *values) {
    struct dns_zone zone;
    struct dns_name name;
    if (!zone_init(values, &zone, &name, &name)) {
        return "--dns-domain has to be a domain name, and --dns-datacenter one label of one";
    }
    struct registry_zones *zones = registry_zones_create(values[DNS_FLAG_ZONES].text);
    bool is_list = zones != NULL;
    registry_zones_destroy(zones);
    return is_list ? NULL
                   : "--dns-zones has to be a list of NETWORK/BITS=ZONE with commas between them, "
                     "of at most 256";
}

static void *open_door(const struct door_environment *environment) {
    const union door_value *values = environment->values;
    struct dns_door *door = calloc(1, sizeof *door);
    if (door == NULL ||
        getrandom(&door->random, sizeof door->random, 0) != (ssize_t)sizeof door->random) {
        abort();
    }
    door->random |= 1; /* a generator that is 0 stays 0 */
    door->environment = environment;
    door->service = environment->service;
    door->ttl_ms_max = values[DNS_FLAG_TTL].duration_ms;
    door->udp_size = values[DNS_FLAG_UDP_SIZE].number;
    door->user = bytes_from_text(values[DNS_FLAG_USER].text);
    door->zones = registry_zones_create(values[DNS_FLAG_ZONES].text);
    if (door->zones == NULL || !zone_init(values, &door->zone, &door->server, &door->mailbox)) {
        abort(); /* check_flags() has looked at it */
    }
    door->datagrams = (struct datagram_handler){.name = "dns",
                                                .size_max = DNS_UDP_QUERY_SIZE_MAX,
                                                .rate_max = (uint32_t)values[DNS_FLAG_RATE].number,
                                                .on_datagram = dns_on_datagram};
    arena_init(&door->arena);
    door->cache = dns_cache_create(environment->service);
    door->index = dns_index_create(environment->loop, environment->service);
    return door;
}

static void serve(void *door, struct net_scope *scope) {
    net_scope_add_raw(scope, &dns_protocol, door);
}

static const struct datagram_handler *datagrams(void *opaque) {
    struct dns_door *door = opaque;
    return &door->datagrams;
}

static void write_rcodes(const struct dns_counters *counters, struct buffer *out) {
    static const char *const names[] = {"NOERROR",  "FORMERR", "SERVFAIL",
                                        "NXDOMAIN", "NOTIMP",  "REFUSED"};
    prometheus_family(out, "leased_dns_answers_total", PROMETHEUS_COUNTER,
                      "Answers by their code; FORMERR also has EDNS versions that nobody knows.");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct prometheus_label label = {.name = "code", .value = names[i]};
        prometheus_sample_u64(out, "leased_dns_answers_total", "", &label, 1, counters->rcodes[i]);
    }
}

static void write_metrics(const void *opaque, struct buffer *out) {
    const struct dns_door *door = opaque;
    const struct dns_counters *counters = &door->counters;
    prometheus_counter(out, "leased_dns_udp_queries_total", "Datagrams that came as queries.",
                       counters->queries_udp);
    prometheus_counter(out, "leased_dns_tcp_queries_total", "Queries over TCP.",
                       counters->queries_tcp);
    prometheus_counter(out, "leased_dns_dropped_total",
                       "Messages that were no queries and got no answer.", counters->dropped);
    prometheus_counter(out, "leased_dns_truncated_total",
                       "Answers that did not fit; the client asks again over TCP.",
                       counters->truncated);
    prometheus_gauge(out, "leased_dns_indexed_instances",
                     "Instances that can be found by address and node.",
                     dns_index_count(door->index));
    write_rcodes(counters, out);
}

static void close_door(void *opaque) {
    struct dns_door *door = opaque;
    dns_index_destroy(door->index);
    dns_cache_destroy(door->cache);
    registry_zones_destroy(door->zones);
    arena_clear(&door->arena);
    free(door);
}

static const struct door_flag flags[DNS_N_FLAGS] = {
    [DNS_FLAG_DOMAIN] = {.name = "dns-domain",
                         .kind = DOOR_FLAG_TEXT,
                         .fallback = "consul",
                         .help = "The domain below which services are found."},
    [DNS_FLAG_DATACENTER] = {.name = "dns-datacenter",
                             .kind = DOOR_FLAG_TEXT,
                             .fallback = "dc1",
                             .help = "The label of this cluster in names with a datacenter."},
    [DNS_FLAG_TTL] = {.name = "dns-ttl",
                      .kind = DOOR_FLAG_DURATION,
                      .fallback = "0s",
                      .help = "How long answers may be kept, at most; never beyond the leases of "
                              "the instances in them. 0s: not at all."},
    [DNS_FLAG_UDP_SIZE] = {.name = "dns-udp-size",
                           .kind = DOOR_FLAG_NUMBER,
                           .fallback = "1232",
                           .min = DNS_UDP_SIZE,
                           .max = DNS_UDP_SIZE_LIMIT,
                           .help = "Bytes of an answer over UDP, at most, to clients with EDNS."},
    [DNS_FLAG_RATE] = {.name = "dns-rate",
                       .kind = DOOR_FLAG_NUMBER,
                       .fallback = "5000",
                       .min = 1,
                       .max = 1000 * 1000,
                       .help = "Queries a second over UDP from one network (IPv4 /24, IPv6 /56); "
                               "more are dropped, because their senders may be forged."},
    [DNS_FLAG_USER] = {.name = "dns-user",
                       .kind = DOOR_FLAG_TEXT,
                       .fallback = "",
                       .shown = "none",
                       .help = "While authentication is on: the user whose rights queries have, "
                               "which carry no password themselves. Without it they are refused."},
    [DNS_FLAG_ZONES] = {.name = "dns-zones",
                        .kind = DOOR_FLAG_TEXT,
                        .fallback = "",
                        .shown = "none",
                        .help = "The zones of clients by their networks, NETWORK/BITS=ZONE,…: "
                                "instances of a client's zone come first."},
};

/* By what the name is; the type of the record changes nothing. */
static const struct door_request requests[] = {
    {"query SERVICE.service", DOOR_RIGHT_READ},
    {"query NODE.node", DOOR_RIGHT_READ},
    {"query in-addr.arpa", DOOR_RIGHT_READ},
    {"query ns", DOOR_RIGHT_USER},
    {"query HEX.addr", DOOR_RIGHT_NONE}, /* the name is the answer */
    {"query domain", DOOR_RIGHT_NONE},   /* SOA and NS */
    {NULL, DOOR_RIGHT_NONE},
};

const struct door dns_door = {
    .name = "dns",
    .title = "DNS",
    .default_port = 8600,
    .needs_own_port = true,
    .flags = flags,
    .n_flags = DNS_N_FLAGS,
    .requests = requests,
    .check = check_flags,
    .open = open_door,
    .serve = serve,
    .datagrams = datagrams,
    .write_metrics = write_metrics,
    .close = close_door,
};
