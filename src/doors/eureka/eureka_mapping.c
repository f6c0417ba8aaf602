/* Between Eureka's instances and those of the registry. */
#include "doors/eureka/eureka_instance.h"

#include "core/lease_table.h"
#include "doors/eureka/eureka_text.h"

#include <string.h>

/* --- Into the registry. --- */

static bool find_pair(const struct registry_pair *pairs, size_t n, const char *key,
                      struct bytes *out_value) {
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(pairs[i].key, bytes_from_text(key))) {
            *out_value = pairs[i].value;
            return true;
        }
    }
    return false;
}

/* Spring's zone, else that of Amazon. */
static struct bytes zone_of(const struct eureka_instance *instance) {
    struct bytes zone = bytes_of(NULL, 0);
    if (!find_pair(instance->metadata, instance->n_metadata, "zone", &zone)) {
        (void)find_pair(instance->data_center, instance->n_data_center, "availability-zone", &zone);
    }
    return zone.size <= REGISTRY_NAME_SIZE_MAX ? zone : bytes_of(NULL, 0);
}

static struct bytes version_of(const struct eureka_instance *instance) {
    struct bytes version = bytes_of(NULL, 0);
    (void)find_pair(instance->metadata, instance->n_metadata, "version", &version);
    return version.size <= REGISTRY_NAME_SIZE_MAX ? version : bytes_of(NULL, 0);
}

/* The one that is switched on; that without TLS first. */
static uint16_t port_of(const struct eureka_instance *instance) {
    if (instance->port.is_given && instance->port.is_enabled) {
        return instance->port.number;
    }
    if (instance->secure_port.is_enabled) {
        return instance->secure_port.number;
    }
    return instance->port.is_given ? instance->port.number : 0;
}

static struct bytes first_of(struct bytes a, struct bytes b) {
    return a.size > 0 ? a : b;
}

/* What one client names in JSON another one must find under the same name in XML. */
static bool is_name(struct bytes name) {
    return registry_name_is_valid(name) && eureka_text_fits_xml(name);
}

static bool check(const struct registry_instance *record, const char **out_error) {
    if (!is_name(record->service) || !is_name(record->id)) {
        *out_error = "app and instanceId have at most 255 bytes of UTF-8, without control "
                     "characters, U+FFFE and U+FFFF";
        return false;
    }
    if (record->extra.size > REGISTRY_EXTRA_SIZE_MAX) {
        *out_error = "the URLs, addresses and dataCenterInfo.metadata are too long";
        return false;
    }
    if (!registry_instance_is_valid(record)) {
        *out_error = "hostName, ipAddr or metadata is too long or has characters that are refused";
        return false;
    }
    return true;
}

bool eureka_instance_register(const struct eureka_instance *instance, struct arena *arena,
                              struct registry_instance *out_record, const char **out_error) {
    struct buffer extra;
    uint8_t *service = arena_alloc(arena, instance->app.size);
    eureka_text_lower(service, instance->app);
    buffer_init(&extra);
    eureka_extra_encode(&extra, instance);
    struct registry_instance record = {
        .service = bytes_of(service, instance->app.size),
        .id = instance->id,
        .origin = REGISTRY_ORIGIN_EUREKA,
        .state = (uint8_t)eureka_status_state(instance->status),
        .override_state = (uint8_t)eureka_status_state(instance->override),
        .port = port_of(instance),
        .weight = 1,
        .address = first_of(instance->fields[EUREKA_FIELD_IP_ADDRESS],
                            instance->fields[EUREKA_FIELD_HOST_NAME]),
        .zone = zone_of(instance),
        .version = version_of(instance),
        .node = instance->fields[EUREKA_FIELD_HOST_NAME],
        .n_metadata = instance->n_metadata,
        .metadata = instance->metadata,
        .extra = bytes_of(arena_copy(arena, extra.data, extra.size), extra.size),
        .ttl_ms = instance->lease.duration_s * 1000,
    };
    /* UNKNOWN is no state of the registry; it must not be given work. */
    if (record.state == REGISTRY_STATE_NONE) {
        record.state = REGISTRY_STARTING;
    }
    buffer_clear(&extra);
    if (!check(&record, out_error)) {
        return false;
    }
    *out_record = record;
    return true;
}

/* --- And back. --- */

static enum eureka_status status_of_state(enum registry_state state) {
    switch (state) {
    case REGISTRY_STARTING:
        return EUREKA_STARTING;
    case REGISTRY_UP:
        return EUREKA_UP;
    case REGISTRY_DRAINING:
    case REGISTRY_OUT_OF_SERVICE:
        return EUREKA_OUT_OF_SERVICE;
    case REGISTRY_DOWN:
        return EUREKA_DOWN;
    default:
        return EUREKA_UNKNOWN;
    }
}

static bool is_unknown(const struct registry_instance *record) {
    return record->origin == REGISTRY_ORIGIN_EUREKA && record->override_state == 0 &&
           record->state == REGISTRY_STARTING && eureka_extra_is_unknown(record->extra);
}

enum eureka_status eureka_instance_status(const struct registry_entry *entry) {
    const struct registry_instance *record = &entry->instance;
    enum eureka_status status = status_of_state(registry_instance_state(record));
    if (status == EUREKA_UP && entry->health == REGISTRY_CRITICAL) {
        return EUREKA_DOWN;
    }
    return is_unknown(record) ? EUREKA_UNKNOWN : status;
}

static bool has_extra(const struct registry_instance *record, struct arena *arena,
                      struct eureka_instance *out_instance) {
    return record->origin == REGISTRY_ORIGIN_EUREKA &&
           eureka_extra_decode(record->extra, arena, out_instance);
}

int64_t eureka_instance_dirty_ms(const struct registry_instance *record) {
    struct eureka_instance instance = {0};
    struct arena arena;
    arena_init(&arena);
    int64_t dirty_ms = has_extra(record, &arena, &instance) ? instance.dirty_ms : 0;
    arena_clear(&arena);
    return dirty_ms;
}

/* Of an instance that another protocol registered. */
static void show_foreign(const struct registry_instance *record, struct eureka_instance *out) {
    struct bytes address = first_of(record->address, record->node);
    out->fields[EUREKA_FIELD_HOST_NAME] = first_of(address, record->id);
    out->fields[EUREKA_FIELD_IP_ADDRESS] = address;
    out->fields[EUREKA_FIELD_VIP] = record->service;
    out->fields[EUREKA_FIELD_SECURE_VIP] = record->service;
    out->fields[EUREKA_FIELD_DATA_CENTER] = bytes_from_text("MyOwn");
    out->port = (struct eureka_port){.number = record->port, .is_enabled = record->port != 0};
    out->secure_port = (struct eureka_port){.number = 443};
    out->country_id = 1;
}

static struct bytes join_tags(const struct registry_instance *record, struct arena *arena) {
    size_t size = 0;
    for (size_t i = 0; i < record->n_tags; i++) {
        size += record->tags[i].size + 1;
    }
    uint8_t *text = arena_alloc(arena, size);
    uint8_t *at = text;
    for (size_t i = 0; i < record->n_tags; i++) {
        if (i > 0) {
            *at++ = ',';
        }
        memcpy(at, record->tags[i].data, record->tags[i].size);
        at += record->tags[i].size;
    }
    return bytes_of(text, (size_t)(at - text));
}

static void add_pair(struct registry_pair *pairs, size_t *n, const char *key, struct bytes value) {
    struct bytes ignored;
    if (value.size > 0 && !find_pair(pairs, *n, key, &ignored)) {
        pairs[(*n)++] = (struct registry_pair){.key = bytes_from_text(key), .value = value};
    }
}

/* Its own, then what Eureka has no other place for. */
static void show_metadata(const struct registry_entry *entry, struct arena *arena,
                          struct eureka_instance *out) {
    enum { ADDED_MAX = 4 };
    const struct registry_instance *record = &entry->instance;
    size_t n = record->n_metadata;
    struct registry_pair *pairs = arena_calloc(arena, n + ADDED_MAX, sizeof *pairs);
    if (n > 0) {
        memcpy(pairs, record->metadata, n * sizeof *pairs);
    }
    if (record->origin != REGISTRY_ORIGIN_EUREKA) {
        add_pair(pairs, &n, "zone", record->zone);
        add_pair(pairs, &n, "version", record->version);
        add_pair(pairs, &n, "tags", join_tags(record, arena));
    }
    if (entry->is_kept) {
        add_pair(pairs, &n, "leased.kept", bytes_from_text("true"));
    }
    out->n_metadata = n;
    out->metadata = pairs;
}

static void show_lease(const struct registry_instance *record, struct eureka_instance *out) {
    struct eureka_lease_info *lease = &out->lease;
    bool is_forever = record->ttl_ms == LEASE_TTL_FOREVER;
    lease->duration_s = is_forever ? INT32_MAX : (record->ttl_ms + 999) / 1000;
    if (lease->renewal_interval_s == 0) {
        lease->renewal_interval_s =
            is_forever ? EUREKA_RENEWAL_INTERVAL_S : (lease->duration_s + 2) / 3;
    }
    lease->registered_ms = record->registered_wall_ms;
    lease->renewed_ms = record->registered_wall_ms;
    lease->up_ms = out->status == EUREKA_UP ? record->state_wall_ms : 0;
    out->updated_ms = record->state_wall_ms;
    if (out->dirty_ms == 0) {
        out->dirty_ms = record->registered_wall_ms;
    }
}

void eureka_instance_show(const struct registry_entry *entry, struct arena *arena,
                          struct eureka_instance *out_instance) {
    const struct registry_instance *record = &entry->instance;
    struct eureka_instance instance = {.id = record->id};
    uint8_t *app = arena_alloc(arena, record->service.size);
    eureka_text_upper(app, record->service);
    instance.app = bytes_of(app, record->service.size);
    if (!has_extra(record, arena, &instance)) {
        show_foreign(record, &instance);
    }
    instance.status = eureka_instance_status(entry);
    instance.override = status_of_state(record->override_state);
    show_metadata(entry, arena, &instance);
    show_lease(record, &instance);
    *out_instance = instance;
}
