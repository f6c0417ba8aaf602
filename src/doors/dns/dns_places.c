/* Names that are found by an address or a node: NODE.node, PTR, and the members themselves. */
#include "doors/dns/dns_door_internal.h"

#include "base/host_port.h"
#include "registry/registry_view.h"

/* Instances that one query looks at; a node or an address that has more shows some of them. */
enum { PLACES_MAX = 256, SERVERS_MAX = 32 };

struct place {
    struct dns_exchange *exchange;
    enum dns_index_kind kind;
    struct bytes value;
    size_t n_looked_at;
    size_t n;
    struct registry_entry entries[PLACES_MAX];
    struct dns_address addresses[PLACES_MAX]; /* of the entries; of size 0: it has none */
};

static bool is_there(const struct place *place, const struct registry_instance *instance,
                     const struct dns_address *address) {
    return place->kind == DNS_INDEX_NODE
               ? dns_label_equal(instance->node, place->value)
               : address->size > 0 &&
                     bytes_equal(bytes_of(address->bytes, address->size), place->value);
}

static bool look_at(void *context, struct bytes service, struct bytes id) {
    struct place *place = context;
    struct dns_door *door = place->exchange->door;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct registry_entry *entry = &place->entries[place->n];
    struct dns_address *address = &place->addresses[place->n];
    if (dns_check_service(place->exchange, service) == DNS_NOERROR &&
        registry_view_find(keys, &door->arena, service, id, entry)) {
        if (!dns_address_parse(entry->instance.address, address)) {
            address->size = 0;
        }
        place->n += is_there(place, &entry->instance, address);
    }
    return ++place->n_looked_at < PLACES_MAX;
}

/* DNS_NXDOMAIN: nothing that the caller may see is there. */
static enum dns_rcode find_place(struct place *place) {
    struct dns_exchange *exchange = place->exchange;
    struct dns_door *door = exchange->door;
    if (service_check_user(door->service, &exchange->client->caller, "DNS query") != STATUS_OK) {
        exchange->extended = DNS_PROHIBITED;
        return DNS_REFUSED;
    }
    if (!service_allow_work(door->service, PLACES_MAX)) {
        exchange->extended = DNS_NOT_READY;
        return DNS_SERVFAIL;
    }
    dns_index_visit(door->index, place->kind, place->value, look_at, place);
    exchange->extended = DNS_EXTENDED_NONE; /* of what was left out */
    if (place->n == 0 && !dns_index_is_complete(door->index)) {
        exchange->extended = DNS_NOT_READY;
        return DNS_SERVFAIL;
    }
    return place->n == 0 ? DNS_NXDOMAIN : DNS_NOERROR;
}

static uint32_t ttl_of(const struct place *place) {
    const struct dns_door *door = place->exchange->door;
    int64_t ttl_ms = door->ttl_ms_max;
    for (size_t i = 0; i < place->n; i++) {
        ttl_ms = dns_ttl_ms(door, place->entries[i].instance.lease_id, ttl_ms);
    }
    return (uint32_t)(ttl_ms / 1000);
}

/* Few enough to be compared one with another. */
static bool is_address_again(const struct place *place, size_t i) {
    const struct dns_address *address = &place->addresses[i];
    for (size_t j = 0; j < i; j++) {
        const struct dns_address *other = &place->addresses[j];
        if (other->size == address->size &&
            memcmp(other->bytes, address->bytes, address->size) == 0) {
            return true;
        }
    }
    return false;
}

enum dns_rcode dns_answer_node(struct dns_exchange *exchange, const struct dns_lookup *lookup) {
    struct place *place = arena_calloc(&exchange->door->arena, 1, sizeof *place);
    place->exchange = exchange;
    place->kind = DNS_INDEX_NODE;
    place->value = lookup->name;
    enum dns_rcode rcode = find_place(place);
    uint32_t ttl_s = ttl_of(place);
    for (size_t i = 0; i < place->n; i++) {
        const struct dns_address *address = &place->addresses[i];
        if (address->size > 0 && !is_address_again(place, i) &&
            !dns_write_address(exchange, ttl_s, address)) {
            exchange->writer->is_truncated = true;
            break;
        }
    }
    return rcode;
}

static bool is_service_again(const struct place *place, size_t i) {
    for (size_t j = 0; j < i; j++) {
        if (bytes_equal(place->entries[j].instance.service, place->entries[i].instance.service)) {
            return true;
        }
    }
    return false;
}

static bool is_node_again(const struct place *place, size_t i) {
    for (size_t j = 0; j < i; j++) {
        if (dns_label_equal(place->entries[j].instance.node, place->entries[i].instance.node)) {
            return true;
        }
    }
    return false;
}

static void write_pointer(struct dns_exchange *exchange, struct bytes label, const char *kind,
                          uint32_t ttl_s) {
    struct dns_name name;
    if (dns_zone_name(&exchange->door->zone, label, kind, &name) &&
        !dns_writer_name(exchange->writer, DNS_ANSWER, exchange->owner, DNS_PTR, ttl_s, &name)) {
        exchange->writer->is_truncated = true;
    }
}

enum dns_rcode dns_answer_reverse(struct dns_exchange *exchange, const struct dns_lookup *lookup) {
    struct place *place = arena_calloc(&exchange->door->arena, 1, sizeof *place);
    place->exchange = exchange;
    place->kind = DNS_INDEX_ADDRESS;
    place->value = bytes_of(lookup->address.bytes, lookup->address.size);
    enum dns_rcode rcode = find_place(place);
    uint32_t ttl_s = ttl_of(place);
    bool is_asked = exchange->query->type == DNS_PTR;
    for (size_t i = 0; is_asked && i < place->n && !exchange->writer->is_truncated; i++) {
        struct bytes node = place->entries[i].instance.node;
        if (node.size > 0 && !is_node_again(place, i)) {
            write_pointer(exchange, node, "node", ttl_s);
        }
    }
    for (size_t i = 0; is_asked && i < place->n && !exchange->writer->is_truncated; i++) {
        if (!is_service_again(place, i)) {
            write_pointer(exchange, place->entries[i].instance.service, "service", ttl_s);
        }
    }
    return rcode;
}

/* --- The members. --- */

/* The address in "http://ADDRESS:PORT", if it is one. */
static bool address_of_url(const char *url, struct dns_address *out_address) {
    struct host_port place;
    const char *reason = NULL;
    const char *host = strstr(url, "://");
    return host != NULL &&
           host_port_parse(bytes_from_text(host + 3), 0, &place, &reason) == STATUS_OK &&
           dns_address_parse(bytes_from_text(place.host), out_address);
}

enum dns_rcode dns_answer_servers(struct dns_exchange *exchange) {
    struct service *service = exchange->door->service;
    struct service_member members[SERVERS_MAX];
    if (service_check_user(service, &exchange->client->caller, "DNS query") != STATUS_OK) {
        exchange->extended = DNS_PROHIBITED;
        return DNS_REFUSED;
    }
    size_t n = service_members(service, members, SERVERS_MAX);
    struct dns_address seen[SERVERS_MAX];
    size_t n_seen = 0;
    for (size_t i = 0; i < n && i < SERVERS_MAX; i++) {
        const char *const *urls = members[i].client_urls;
        struct dns_address address = {0};
        if (urls == NULL || urls[0] == NULL || !address_of_url(urls[0], &address)) {
            continue;
        }
        bool is_again = false;
        for (size_t j = 0; j < n_seen; j++) {
            is_again |= memcmp(&seen[j], &address, sizeof address) == 0;
        }
        if (!is_again) {
            seen[n_seen++] = address;
            (void)dns_write_address(exchange, 0, &address);
        }
    }
    return DNS_NOERROR;
}
