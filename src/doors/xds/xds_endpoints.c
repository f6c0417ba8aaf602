#include "doors/xds/xds_endpoints.h"

#include <arpa/inet.h>
#include <stdlib.h>

enum { ADDRESS_TEXT_SIZE = INET6_ADDRSTRLEN };

/* --- What is listed, and how. --- */

bool xds_endpoint_health(const struct registry_entry *entry, enum xds_health *out_health) {
    enum registry_state state = registry_instance_state(&entry->instance);
    if (state == REGISTRY_DRAINING || (state == REGISTRY_UP && entry->instance.weight == 0)) {
        *out_health = XDS_DRAINING;
    } else if (state != REGISTRY_UP) {
        return false;
    } else if (entry->health == REGISTRY_CRITICAL) {
        *out_health = XDS_UNHEALTHY;
    } else {
        *out_health = entry->is_kept ? XDS_UNKNOWN : XDS_HEALTHY;
    }
    return true;
}

static bool is_ip(struct bytes address) {
    char text[ADDRESS_TEXT_SIZE];
    struct in6_addr parsed;
    if (address.size == 0 || address.size >= sizeof text) {
        return false;
    }
    memcpy(text, address.data, address.size);
    text[address.size] = '\0';
    return strlen(text) == address.size &&
           (inet_pton(AF_INET, text, &parsed) == 1 || inet_pton(AF_INET6, text, &parsed) == 1);
}

static bool is_reachable(const struct registry_instance *instance) {
    return instance->port != 0 && is_ip(instance->address);
}

/* --- Order. --- */

static int compare_ids(const struct registry_instance *a, const struct registry_instance *b) {
    int order = bytes_compare(a->id, b->id);
    return order != 0 ? order : bytes_compare(a->service, b->service);
}

/* By address and port; of equal ones the best first. */
static int by_address(const void *left, const void *right) {
    const struct registry_entry *a = *(const struct registry_entry *const *)left;
    const struct registry_entry *b = *(const struct registry_entry *const *)right;
    int order = bytes_compare(a->instance.address, b->instance.address);
    if (order != 0) {
        return order;
    }
    if (a->instance.port != b->instance.port) {
        return a->instance.port < b->instance.port ? -1 : 1;
    }
    if (a->is_serving != b->is_serving) {
        return a->is_serving ? -1 : 1;
    }
    if (a->is_kept != b->is_kept) {
        return a->is_kept ? 1 : -1;
    }
    if (a->instance.token != b->instance.token) {
        return a->instance.token > b->instance.token ? -1 : 1;
    }
    return compare_ids(&a->instance, &b->instance);
}

static int by_zone(const void *left, const void *right) {
    const struct registry_entry *a = *(const struct registry_entry *const *)left;
    const struct registry_entry *b = *(const struct registry_entry *const *)right;
    int order = bytes_compare(a->instance.zone, b->instance.zone);
    return order != 0 ? order : compare_ids(&a->instance, &b->instance);
}

static bool has_same_address(const struct registry_entry *a, const struct registry_entry *b) {
    return a->instance.port == b->instance.port &&
           bytes_equal(a->instance.address, b->instance.address);
}

/* Those that are listed, in front, by zone and id. */
static size_t choose(const struct registry_entry **entries, size_t n_entries,
                     size_t *out_left_out) {
    size_t n = 0;
    *out_left_out = 0;
    for (size_t i = 0; i < n_entries; i++) {
        enum xds_health health = XDS_UNKNOWN;
        if (!xds_endpoint_health(entries[i], &health)) {
            continue;
        }
        if (is_reachable(&entries[i]->instance)) {
            entries[n++] = entries[i];
        } else {
            (*out_left_out)++;
        }
    }
    if (n == 0) {
        return 0;
    }
    qsort(entries, n, sizeof *entries, by_address);
    size_t kept = 1;
    for (size_t i = 1; i < n; i++) {
        if (!has_same_address(entries[i], entries[kept - 1])) {
            entries[kept++] = entries[i];
        }
    }
    *out_left_out += n - kept;
    qsort(entries, kept, sizeof *entries, by_zone);
    return kept;
}

/* --- Writing. --- */

/* Protocol buffers take no text that is not UTF-8, and a client would refuse all of it. */
static bool is_text(struct bytes text) {
    return registry_name_is_valid(text);
}

/* For Envoy's subset load balancing, which looks there. */
static void write_labels(struct xds_writer *writer, const struct registry_instance *instance) {
    struct xds_any labels = xds_entry(writer, 1, bytes_from_text("envoy.lb"));
    for (size_t i = 0; i < instance->n_metadata; i++) {
        const struct registry_pair *pair = &instance->metadata[i];
        if (is_text(pair->key) && is_text(pair->value) &&
            !bytes_equal(pair->key, bytes_from_text("version"))) {
            xds_put_struct_text(writer, pair->key, pair->value);
        }
    }
    if (is_text(instance->version)) {
        xds_put_struct_text(writer, bytes_from_text("version"), instance->version);
    }
    xds_entry_end(writer, &labels);
}

static void write_metadata(struct xds_writer *writer, const struct registry_entry *entry) {
    const struct registry_instance *instance = &entry->instance;
    size_t metadata = xds_begin(writer, 3, "metadata");
    xds_map(writer, "filter_metadata");
    struct xds_any own = xds_entry(writer, 1, bytes_from_text("leased"));
    if (is_text(instance->id)) {
        xds_put_struct_text(writer, bytes_from_text("id"), instance->id);
    }
    if (entry->is_kept) {
        xds_put_struct_true(writer, bytes_from_text("kept"));
    }
    xds_entry_end(writer, &own);
    if (instance->n_metadata > 0 || instance->version.size > 0) {
        write_labels(writer, instance);
    }
    xds_map_end(writer);
    xds_end(writer, metadata);
}

static const char *health_text(enum xds_health health) {
    static const char *const texts[] = {"UNKNOWN", "HEALTHY", "UNHEALTHY", "DRAINING"};
    return texts[health];
}

static void write_endpoint(struct xds_writer *writer, const struct registry_entry *entry) {
    enum xds_health health = XDS_UNKNOWN;
    (void)xds_endpoint_health(entry, &health);
    size_t lb_endpoint = xds_begin(writer, 2, NULL);
    size_t endpoint = xds_begin(writer, 1, "endpoint");
    size_t address = xds_begin(writer, 1, "address");
    size_t socket = xds_begin(writer, 1, "socket_address");
    xds_put_text(writer, 2, "address", entry->instance.address);
    xds_put_number(writer, 3, "port_value", entry->instance.port);
    xds_end(writer, socket);
    xds_end(writer, address);
    xds_end(writer, endpoint);
    xds_put_enum(writer, 2, "health_status", health, health_text(health));
    write_metadata(writer, entry);
    uint32_t weight = entry->instance.weight;
    xds_put_wrapped(writer, 4, "load_balancing_weight", weight > 0 ? weight : 1);
    xds_end(writer, lb_endpoint);
}

/* The share of a zone is what its instances can take together. gRPC leaves a zone without a weight
 * out; the sum over all zones must fit 32 bits. */
static uint32_t zone_weight(const struct registry_entry **entries, size_t n, size_t n_all) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += entries[i]->is_serving ? entries[i]->instance.weight : 0;
    }
    uint64_t divisor = (uint64_t)n_all * REGISTRY_WEIGHT_MAX / UINT32_MAX + 1;
    sum /= divisor;
    return sum > 0 ? (uint32_t)sum : 1;
}

static void write_zone(struct xds_writer *writer, const struct registry_entry **entries, size_t n,
                       size_t n_all, uint32_t priority) {
    size_t zone = xds_begin(writer, 2, NULL);
    size_t locality = xds_begin(writer, 1, "locality");
    xds_put_text(writer, 2, "zone", entries[0]->instance.zone);
    xds_end(writer, locality);
    xds_array(writer, "lb_endpoints");
    for (size_t i = 0; i < n; i++) {
        write_endpoint(writer, entries[i]);
    }
    xds_array_end(writer);
    xds_put_wrapped(writer, 3, "load_balancing_weight", zone_weight(entries, n, n_all));
    xds_put_number(writer, 5, "priority", priority);
    xds_end(writer, zone);
}

static bool has_zone(const struct registry_entry **entries, size_t n, struct bytes zone) {
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(entries[i]->instance.zone, zone)) {
            return true;
        }
    }
    return false;
}

size_t xds_endpoints_write(struct xds_writer *writer, const struct xds_assignment *assignment,
                           const struct registry_entry **entries, size_t n_entries) {
    size_t left_out = 0;
    size_t n = choose(entries, n_entries, &left_out);
    /* Priorities have no gaps: without a near zone all have the first. */
    bool has_near = assignment->near_zone.size > 0 && has_zone(entries, n, assignment->near_zone);
    xds_put_text(writer, 1, "cluster_name", assignment->name);
    xds_array(writer, "endpoints");
    for (size_t begin = 0, end = 0; begin < n; begin = end) {
        struct bytes zone = entries[begin]->instance.zone;
        while (end < n && bytes_equal(entries[end]->instance.zone, zone)) {
            end++;
        }
        bool is_far = has_near && !bytes_equal(zone, assignment->near_zone);
        write_zone(writer, entries + begin, end - begin, n, is_far ? 1 : 0);
    }
    xds_array_end(writer);
    return left_out;
}

/* --- Reading the registry. --- */

struct collection {
    struct arena *arena;
    const struct xds_name *name;
    const struct registry_entry **entries;
    size_t n;
    size_t capacity;
};

static bool collect(void *context, const struct registry_entry *entry) {
    struct collection *collection = context;
    for (size_t i = 0; i < collection->name->n_tags; i++) {
        if (!registry_instance_has_tag(&entry->instance, collection->name->tags[i])) {
            return true;
        }
    }
    if (collection->n == collection->capacity) {
        size_t capacity = collection->capacity == 0 ? 16 : 2 * collection->capacity;
        const struct registry_entry **grown =
            arena_calloc(collection->arena, capacity, sizeof(void *));
        if (collection->n > 0) {
            memcpy(grown, collection->entries, collection->n * sizeof(void *));
        }
        collection->entries = grown;
        collection->capacity = capacity;
    }
    collection->entries[collection->n++] = arena_copy(collection->arena, entry, sizeof *entry);
    return true;
}

void xds_endpoints_collect(const struct key_store *keys, struct arena *arena,
                           const struct xds_name *name, const struct registry_entry ***out_entries,
                           size_t *out_n) {
    struct collection collection = {.arena = arena, .name = name};
    (void)registry_view_visit(keys, arena, name->service, collect, &collection);
    *out_entries = collection.entries;
    *out_n = collection.n;
}
