/* Instances of a service as A, AAAA, SRV and TXT: those that should be given work, in a random
 * order in which greater weights come first more often. */
#include "doors/dns/dns_door_internal.h"

#include "registry/registry_keys.h"
#include "registry/registry_select.h"
#include "registry/registry_view.h"

#include <stdlib.h>

enum {
    TXT_SIZE_MAX = 255, /* of one text */
    /* In looks at a record: one that is decoded and copied, and an instance that is put into its
     * place and written. */
    WORK_A_RECORD = 64,
    WORK_AN_INSTANCE = 48,
    WORK_A_TAG = 4, /* of an instance that is looked at for its tags */
    /* Records of a service that is read on the loop. */
    SMALL_RECORDS = 4096,
    /* As many addresses as the largest answer has room for. */
    COLLECTED_MAX = 4096,
    SETS_MIN = 16,
    PRIORITY_NEAR = 1,
    PRIORITY_FAR = 2
};

/* --- Collecting. --- */

struct collection {
    struct dns_door *door;
    const struct dns_lookup *lookup;
    const struct registry_entry **entries; /* arena memory */
    size_t n;
    size_t n_tagged; /* of them: have the tag, and not only the id */
    size_t n_near;   /* in order: so many at the front are in the client's zone */
};

static bool has_tag(const struct registry_instance *instance, struct bytes tag) {
    for (size_t i = 0; i < instance->n_tags; i++) {
        if (dns_label_equal(instance->tags[i], tag)) {
            return true;
        }
    }
    return false;
}

static void collect(struct collection *collection, const struct registry_entry *entry) {
    struct bytes tag = collection->lookup->tag;
    bool is_tagged = tag.size == 0 || has_tag(&entry->instance, tag);
    if (entry->instance.weight == 0 || (!is_tagged && !dns_label_equal(entry->instance.id, tag))) {
        return;
    }
    collection->entries[collection->n++] = entry;
    collection->n_tagged += is_tagged;
}

/* A tag goes before an id of the same text. */
static void drop_untagged(struct collection *collection) {
    if (collection->n_tagged == 0 || collection->n_tagged == collection->n) {
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < collection->n; i++) {
        if (has_tag(&collection->entries[i]->instance, collection->lookup->tag)) {
            collection->entries[n++] = collection->entries[i];
        }
    }
    collection->n = n;
}

/* xorshift64*: nobody gains by foreseeing an order. */
static uint64_t next_random(struct dns_door *door) {
    door->random ^= door->random >> 12;
    door->random ^= door->random << 25;
    door->random ^= door->random >> 27;
    return door->random * UINT64_C(0x2545f4914f6cdd1d);
}

/* Where the client is: as a resolver that asks for it says, else by its own address. Empty: nobody
 * knows. */
static struct bytes zone_of(struct dns_exchange *exchange) {
    const struct registry_zones *zones = exchange->door->zones;
    const struct dns_subnet *subnet = &exchange->query->subnet;
    if (registry_zones_is_empty(zones)) {
        return bytes_of("", 0);
    }
    /* RFC 7871 7.1.2: a prefix of length 0 is a client that does not want to be located. */
    if (subnet->size > 0 && subnet->n_bits > 0) {
        const struct registry_network network =
            registry_network_of(subnet->bytes, subnet->size, subnet->n_bits);
        exchange->writer->is_for_subnet = true;
        return registry_zones_find(zones, &network);
    }
    return exchange->client->has_network ? registry_zones_find(zones, &exchange->client->network)
                                         : bytes_of("", 0);
}

/* By weight, those of the client's zone before all others. */
static void put_in_order(struct dns_exchange *exchange, struct collection *collection) {
    const struct registry_query query = {.seed = next_random(collection->door) | 1,
                                         .near_zone = zone_of(exchange)};
    collection->n = registry_select(&query, collection->entries, collection->n);
    while (query.near_zone.size > 0 && collection->n_near < collection->n &&
           bytes_equal(collection->entries[collection->n_near]->instance.zone, query.near_zone)) {
        collection->n_near++;
    }
}

/* RFC 2782: a client goes to those of the least number that it can reach. */
static uint16_t priority_of(const struct collection *collection, size_t i) {
    bool is_far = collection->n_near > 0 && i >= collection->n_near;
    return is_far ? PRIORITY_FAR : PRIORITY_NEAR;
}

/* --- A set of what has been written: a record is given once. --- */

struct written {
    struct arena *arena;
    size_t n;
    size_t capacity; /* a power of two */
    struct bytes *slots;
};

static size_t slot_of(const struct written *written, struct bytes value) {
    uint64_t hash = keyed_hash_bytes(&hash_key_fixed, value);
    size_t slot = hash & (written->capacity - 1);
    while (written->slots[slot].size > 0 && !bytes_equal(written->slots[slot], value)) {
        slot = (slot + 1) & (written->capacity - 1);
    }
    return slot;
}

/* False: it has been there already. The value is copied. */
static bool written_add(struct written *written, struct bytes value) {
    if (2 * written->n >= written->capacity) {
        struct written larger = {.arena = written->arena,
                                 .capacity =
                                     written->capacity == 0 ? SETS_MIN : 2 * written->capacity};
        larger.slots = arena_calloc(written->arena, larger.capacity, sizeof *larger.slots);
        for (size_t i = 0; i < written->capacity; i++) {
            if (written->slots[i].size > 0) {
                larger.slots[slot_of(&larger, written->slots[i])] = written->slots[i];
            }
        }
        larger.n = written->n;
        *written = larger;
    }
    size_t slot = slot_of(written, value);
    if (written->slots[slot].size > 0) {
        return false;
    }
    written->slots[slot] = bytes_of(arena_copy(written->arena, value.data, value.size), value.size);
    written->n++;
    return true;
}

/* --- Writing. --- */

static uint32_t ttl_of(const struct collection *collection) {
    int64_t ttl_ms = collection->door->ttl_ms_max;
    for (size_t i = 0; i < collection->n && ttl_ms > 0; i++) {
        ttl_ms = dns_ttl_ms(collection->door, collection->entries[i]->instance.lease_id, ttl_ms);
    }
    return (uint32_t)(ttl_ms / 1000);
}

/* What an instance is reached by: its address, else its node, if that is an address or a name that
 * means the same everywhere. Empty: nothing is known. */
static struct bytes address_of(const struct registry_instance *instance) {
    struct dns_address address;
    struct bytes node = instance->node;
    if (instance->address.size > 0) {
        return instance->address;
    }
    bool is_place = dns_address_parse(node, &address) ||
                    (node.size > 0 && memchr(node.data, '.', node.size) != NULL);
    return is_place ? node : (struct bytes){0};
}

static void write_addresses(struct dns_exchange *exchange, const struct collection *collection,
                            uint32_t ttl_s) {
    struct written written = {.arena = &exchange->door->arena};
    size_t n_addresses = 0;
    for (size_t i = 0; i < collection->n; i++) {
        struct dns_address address;
        if (!dns_address_parse(address_of(&collection->entries[i]->instance), &address)) {
            continue;
        }
        n_addresses++;
        if (written_add(&written, bytes_of(address.bytes, address.size)) &&
            !dns_write_address(exchange, ttl_s, &address)) {
            exchange->writer->is_truncated = true;
            return;
        }
    }
    struct dns_name name;
    /* A host name is a CNAME, of which a name can have one and beside which it has nothing else. */
    for (size_t i = 0; i < collection->n && n_addresses == 0; i++) {
        if (dns_name_from_text(address_of(&collection->entries[i]->instance), &name) &&
            dns_writer_name(exchange->writer, DNS_ANSWER, exchange->owner, DNS_CNAME, ttl_s,
                            &name)) {
            return;
        }
    }
}

/* A target of SRV records whose address is to follow. */
struct target {
    struct dns_address address;
    uint16_t offset; /* where its name was written first; 0: too far behind */
};

/* False: it has no address. `out_address` has size 0 when it is a host name. */
static bool target_of(const struct dns_zone *zone, const struct registry_instance *instance,
                      struct dns_name *out_name, struct dns_address *out_address) {
    struct bytes text = address_of(instance);
    if (dns_address_parse(text, out_address)) {
        return dns_zone_address_name(zone, out_address, out_name);
    }
    out_address->size = 0;
    return dns_name_from_text(text, out_name);
}

static bool write_target(struct dns_exchange *exchange, const struct target *target,
                         uint32_t ttl_s) {
    struct dns_name name;
    const uint8_t *bytes = target->address.bytes;
    if (target->offset == 0 &&
        !dns_zone_address_name(&exchange->door->zone, &target->address, &name)) {
        return false;
    }
    const struct dns_owner owner = {.name = &name, .offset = target->offset};
    return target->address.size == 4
               ? dns_writer_a(exchange->writer, DNS_ADDITIONAL, owner, ttl_s, bytes)
               : dns_writer_aaaa(exchange->writer, DNS_ADDITIONAL, owner, ttl_s, bytes);
}

/* Port and target tell two records apart. */
static bool note_if_first(struct written *written, const struct dns_name *target, uint16_t port) {
    uint8_t value[sizeof port + DNS_NAME_SIZE_MAX];
    memcpy(value, &port, sizeof port);
    memcpy(value + sizeof port, target->wire, target->size);
    return written_add(written, bytes_of(value, sizeof port + target->size));
}

/* What does not fit here is left out: the client can ask for it (RFC 2181 9). */
static void write_targets(struct dns_exchange *exchange, const struct target *targets, size_t n,
                          uint32_t ttl_s) {
    struct written addresses = {.arena = &exchange->door->arena};
    for (size_t i = 0; i < n; i++) {
        struct bytes address = bytes_of(targets[i].address.bytes, targets[i].address.size);
        if (written_add(&addresses, address) && !write_target(exchange, &targets[i], ttl_s)) {
            return;
        }
    }
}

static void write_services(struct dns_exchange *exchange, const struct collection *collection,
                           uint32_t ttl_s) {
    struct dns_door *door = exchange->door;
    struct written records = {.arena = &door->arena};
    struct target *targets = arena_calloc(&door->arena, collection->n, sizeof *targets);
    size_t n_targets = 0;
    for (size_t i = 0; i < collection->n; i++) {
        const struct registry_instance *instance = &collection->entries[i]->instance;
        struct target *target = &targets[n_targets];
        struct dns_name name;
        if (!target_of(&door->zone, instance, &name, &target->address) ||
            !note_if_first(&records, &name, instance->port)) {
            continue;
        }
        const struct dns_srv srv = {
            .priority = priority_of(collection, i),
            .weight = instance->weight > UINT16_MAX ? UINT16_MAX : (uint16_t)instance->weight,
            .port = instance->port,
            .target = &name};
        if (!dns_writer_srv(exchange->writer, DNS_ANSWER, exchange->owner, ttl_s, &srv,
                            &target->offset)) {
            exchange->writer->is_truncated = true;
            return;
        }
        n_targets += target->address.size > 0;
    }
    write_targets(exchange, targets, n_targets, ttl_s);
}

/* Metadata as KEY=VALUE (RFC 1464); what does not fit into a text is left out. */
static size_t texts_of(struct arena *arena, const struct registry_instance *instance,
                       struct bytes out_texts[REGISTRY_PAIRS_MAX], struct buffer *out_all) {
    size_t n = 0;
    for (size_t i = 0; i < instance->n_metadata; i++) {
        const struct registry_pair *pair = &instance->metadata[i];
        size_t size = pair->key.size + 1 + pair->value.size;
        if (size > TXT_SIZE_MAX || n == REGISTRY_PAIRS_MAX) {
            continue;
        }
        uint8_t *text = arena_alloc(arena, size);
        memcpy(text, pair->key.data, pair->key.size);
        text[pair->key.size] = '=';
        if (pair->value.size > 0) {
            memcpy(text + pair->key.size + 1, pair->value.data, pair->value.size);
        }
        out_texts[n++] = bytes_of(text, size);
        buffer_put_bytes(out_all, out_texts[n - 1]);
    }
    return n;
}

static void write_texts(struct dns_exchange *exchange, const struct collection *collection,
                        uint32_t ttl_s) {
    struct written written = {.arena = &exchange->door->arena};
    struct bytes texts[REGISTRY_PAIRS_MAX];
    struct buffer all;
    buffer_init(&all);
    for (size_t i = 0; i < collection->n; i++) {
        all.size = 0;
        size_t n = texts_of(&exchange->door->arena, &collection->entries[i]->instance, texts, &all);
        if (n > 0 && written_add(&written, bytes_of(all.data, all.size)) &&
            !dns_writer_txt(exchange->writer, DNS_ANSWER, exchange->owner, ttl_s, texts, n)) {
            exchange->writer->is_truncated = true;
            break;
        }
    }
    buffer_clear(&all);
}

static void write_collection(struct dns_exchange *exchange, struct collection *collection) {
    put_in_order(exchange, collection);
    uint32_t ttl_s = ttl_of(collection);
    switch (exchange->query->type) {
    case DNS_A:
    case DNS_AAAA:
        write_addresses(exchange, collection, ttl_s);
        break;
    case DNS_SRV:
        write_services(exchange, collection, ttl_s);
        break;
    case DNS_TXT:
        write_texts(exchange, collection, ttl_s);
        break;
    default:
        break;
    }
}

/* NULL: others have had their share of this iteration of the loop. Names without a service take no
 * place of one. */
static const struct dns_instances *instances_of(struct dns_door *door, struct bytes service,
                                                struct bytes tag) {
    const struct key_store *keys = state_view_keys(service_view(door->service));
    static const struct dns_instances nothing = {0};
    const struct dns_instances *known = dns_cache_find(door->cache, keys, service);
    const struct key_range range = registry_service_range(&door->arena, service);
    size_t n = key_store_count(keys, range.space, range.key, range.range_end);
    if (n == 0) {
        return &nothing;
    }
    if (known == NULL && n > SMALL_RECORDS) {
        known = dns_cache_read_later(door->cache, service);
        if (known == NULL) {
            return NULL;
        }
    }
    if (known != NULL) {
        size_t n_collected = known->n < COLLECTED_MAX ? known->n : COLLECTED_MAX;
        size_t work = n_collected * WORK_AN_INSTANCE + (tag.size > 0 ? known->n * WORK_A_TAG : 0);
        return service_allow_work(door->service, work) ? known : NULL;
    }
    return service_allow_work(door->service, n * WORK_A_RECORD)
               ? dns_cache_read(door->cache, keys, service)
               : NULL;
}

enum dns_rcode dns_answer_service(struct dns_exchange *exchange, const struct dns_lookup *lookup) {
    struct dns_door *door = exchange->door;
    struct bytes service = dns_find_service(door, lookup->name);
    enum dns_rcode rcode = dns_check_service(exchange, service);
    if (rcode != DNS_NOERROR) {
        return rcode;
    }
    const struct dns_instances *instances = instances_of(door, service, lookup->tag);
    if (instances == NULL) {
        exchange->extended = DNS_NOT_READY;
        return DNS_SERVFAIL;
    }
    struct collection collection = {.door = door, .lookup = lookup};
    collection.entries =
        arena_calloc(&door->arena, instances->n < COLLECTED_MAX ? instances->n : COLLECTED_MAX,
                     sizeof *collection.entries);
    /* Of more than an answer has room for, those from anywhere on. */
    size_t first = instances->n > COLLECTED_MAX ? next_random(door) % instances->n : 0;
    for (size_t i = 0; i < instances->n && collection.n < COLLECTED_MAX; i++) {
        collect(&collection, &instances->entries[(first + i) % instances->n]);
    }
    drop_untagged(&collection);
    if (collection.n == 0) {
        return DNS_NXDOMAIN;
    }
    write_collection(exchange, &collection);
    return DNS_NOERROR;
}
