/* A query becomes an answer: what the name means, who asks, which section. */
#include "doors/dns/dns_door_internal.h"

#include "registry/registry_keys.h"
#include "registry/registry_view.h"

enum {
    /* Of the zone as a whole: secondaries there are none, so these are mere form. */
    SOA_REFRESH_S = 3600,
    SOA_RETRY_S = 600,
    SOA_EXPIRE_S = 86400,
    /* That a name is missing is true now: it must not be kept. */
    SOA_MINIMUM_S = 0,
    META_TYPES_FIRST = 128, /* RFC 6895 3.1: questions only */
    META_TYPES_END = 256
};

/* --- What several kinds of names need. --- */

bool dns_write_address(struct dns_exchange *exchange, uint32_t ttl_s,
                       const struct dns_address *address) {
    bool is_ipv4 = address->size == 4;
    if (exchange->query->type != (is_ipv4 ? DNS_A : DNS_AAAA)) {
        return true;
    }
    return is_ipv4
               ? dns_writer_a(exchange->writer, DNS_ANSWER, exchange->owner, ttl_s, address->bytes)
               : dns_writer_aaaa(exchange->writer, DNS_ANSWER, exchange->owner, ttl_s,
                                 address->bytes);
}

static bool take_service(void *context, struct bytes service, struct bytes id) {
    (void)id;
    *(struct bytes *)context = service;
    return false;
}

struct bytes dns_find_service(struct dns_door *door, struct bytes folded) {
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct registry_service service;
    struct bytes found = {0};
    if (registry_view_service(keys, &door->arena, folded, &service)) {
        return folded;
    }
    dns_index_visit(door->index, DNS_INDEX_SERVICE, folded, take_service, &found);
    if (found.size == 0 || !dns_label_equal(found, folded)) {
        return folded;
    }
    return bytes_of(arena_copy(&door->arena, found.data, found.size), found.size);
}

enum dns_rcode dns_check_service(struct dns_exchange *exchange, struct bytes service) {
    struct dns_door *door = exchange->door;
    const struct key_range range = registry_service_range(&door->arena, service);
    switch (service_read_local(door->service, &exchange->client->caller, &range, 1)) {
    case STATUS_OK:
        return DNS_NOERROR;
    case STATUS_USER_EMPTY:
    case STATUS_AUTH_TOKEN_INVALID:
    case STATUS_PERMISSION_DENIED:
        exchange->extended = DNS_PROHIBITED;
        return DNS_REFUSED;
    default:
        exchange->extended = DNS_NOT_READY;
        return DNS_SERVFAIL;
    }
}

int64_t dns_ttl_ms(const struct dns_door *door, int64_t lease_id, int64_t ttl_ms) {
    const struct lease_table *leases = state_view_leases(service_view(door->service));
    int64_t left_ms = 0;
    if (ttl_ms == 0 || lease_table_remaining(leases, lease_id, service_now_ms(door->service),
                                             &left_ms) != STATUS_OK) {
        return 0; /* only the leader knows how long a lease lasts */
    }
    return left_ms < ttl_ms ? left_ms : ttl_ms;
}

/* --- The zone itself. --- */

static void write_soa(struct dns_exchange *exchange, enum dns_section section) {
    struct dns_door *door = exchange->door;
    const struct dns_soa soa = {
        .server = &door->server,
        .mailbox = &door->mailbox,
        .serial = (uint32_t)key_store_revision(state_view_keys(service_view(door->service))),
        .refresh_s = SOA_REFRESH_S,
        .retry_s = SOA_RETRY_S,
        .expire_s = SOA_EXPIRE_S,
        .minimum_s = SOA_MINIMUM_S};
    const struct dns_owner owner = {.name = &door->zone.domain};
    if (!dns_writer_soa(exchange->writer, section, owner, SOA_MINIMUM_S, &soa)) {
        exchange->writer->is_truncated = true;
    }
}

static enum dns_rcode answer_apex(struct dns_exchange *exchange) {
    if (exchange->query->type == DNS_SOA) {
        write_soa(exchange, DNS_ANSWER);
    } else if (exchange->query->type == DNS_NS) {
        (void)dns_writer_name(exchange->writer, DNS_ANSWER, exchange->owner, DNS_NS, 0,
                              &exchange->door->server);
    }
    return DNS_NOERROR;
}

/* --- Any query. --- */

static enum dns_rcode answer_lookup(struct dns_exchange *exchange,
                                    const struct dns_lookup *lookup) {
    switch (lookup->kind) {
    case DNS_LOOKUP_APEX:
        return answer_apex(exchange);
    case DNS_LOOKUP_EMPTY:
        return DNS_NOERROR;
    case DNS_LOOKUP_SERVERS:
        return dns_answer_servers(exchange);
    case DNS_LOOKUP_SERVICE:
        return dns_answer_service(exchange, lookup);
    case DNS_LOOKUP_NODE:
        return dns_answer_node(exchange, lookup);
    case DNS_LOOKUP_ADDRESS:
        /* The name is the address: it never changes. */
        (void)dns_write_address(exchange, (uint32_t)(exchange->door->ttl_ms_max / 1000),
                                &lookup->address);
        return DNS_NOERROR;
    case DNS_LOOKUP_REVERSE:
        return dns_answer_reverse(exchange, lookup);
    case DNS_LOOKUP_MISSING:
        return DNS_NXDOMAIN;
    default:
        exchange->extended = DNS_PROHIBITED; /* nothing is forwarded */
        return DNS_REFUSED;
    }
}

static enum dns_rcode answer_query(struct dns_exchange *exchange) {
    const struct dns_query *query = exchange->query;
    struct dns_lookup lookup;
    bool is_meta = query->type >= META_TYPES_FIRST && query->type < META_TYPES_END;
    if (query->class != DNS_CLASS_IN || is_meta || query->type == DNS_OPT) {
        /* ANY, above all: it would be a large answer to a small question (RFC 8482). */
        exchange->extended = DNS_NOT_SUPPORTED;
        return DNS_REFUSED;
    }
    dns_lookup_parse(&exchange->door->zone, &query->name, &lookup);
    enum dns_rcode rcode = answer_lookup(exchange, &lookup);
    bool is_ours = rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN;
    exchange->writer->is_authoritative = is_ours;
    if (is_ours && lookup.kind != DNS_LOOKUP_REVERSE &&
        exchange->writer->n_records[DNS_ANSWER] == 0 && !exchange->writer->is_truncated) {
        write_soa(exchange, DNS_AUTHORITY); /* RFC 2308 3 */
    }
    return rcode;
}

static size_t answer_size_max(const struct dns_door *door, const struct dns_query *query,
                              bool is_udp) {
    if (!is_udp) {
        return DNS_MESSAGE_SIZE_MAX;
    }
    return query->udp_size < door->udp_size ? query->udp_size : door->udp_size;
}

size_t dns_answer(struct dns_door *door, const struct dns_client *client, struct bytes message,
                  bool is_udp, uint8_t *out_answer) {
    struct dns_query query;
    struct dns_writer writer;
    enum dns_rcode rcode = DNS_NOERROR;
    *(is_udp ? &door->counters.queries_udp : &door->counters.queries_tcp) += 1;
    if (!dns_query_read(message, &query, &rcode)) {
        door->counters.dropped++;
        return 0;
    }
    struct dns_exchange exchange = {.door = door,
                                    .client = client,
                                    .query = &query,
                                    .writer = &writer,
                                    .owner = {.name = &query.name},
                                    .extended = DNS_EXTENDED_NONE};
    dns_writer_begin(&writer, out_answer, answer_size_max(door, &query, is_udp), &query);
    if (rcode == DNS_NOERROR) {
        rcode = answer_query(&exchange);
        arena_reset(&door->arena);
    }
    door->counters.truncated += writer.is_truncated;
    door->counters.rcodes[rcode <= DNS_REFUSED ? rcode : DNS_FORMERR]++;
    return dns_writer_end(&writer, rcode, exchange.extended, (uint16_t)door->udp_size);
}
