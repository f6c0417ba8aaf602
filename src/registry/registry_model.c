#include "registry/registry_model.h"

#include "core/lease_table.h"
#include "registry/registry_text_model.h"

/* Of every record: another layout is another number. */
enum { FORMAT = 1 };

static void begin(struct reader *reader, struct bytes value) {
    reader_init(reader, value);
    if (reader_get_u8(reader) != FORMAT) {
        reader->failed = true;
    }
}

/* --- Instances. --- */

enum registry_state registry_instance_state(const struct registry_instance *instance) {
    return (enum registry_state)(instance->override_state != REGISTRY_STATE_NONE
                                     ? instance->override_state
                                     : instance->state);
}

static bool tags_are_valid(const struct registry_instance *instance) {
    bool are_valid = instance->n_tags <= REGISTRY_TAGS_MAX;
    for (size_t i = 0; i < instance->n_tags && are_valid; i++) {
        are_valid = instance->tags[i].size > 0 &&
                    registry_text_is_valid(instance->tags[i], REGISTRY_TEXT_SIZE_MAX);
        for (size_t j = 0; j < i && are_valid; j++) {
            are_valid = !bytes_equal(instance->tags[i], instance->tags[j]);
        }
    }
    return are_valid;
}

static bool ttl_is_valid(int64_t ttl_ms) {
    return (ttl_ms >= REGISTRY_TTL_MS_MIN && ttl_ms <= LEASE_TTL_MS_MAX) ||
           ttl_ms == LEASE_TTL_FOREVER;
}

/* Of all texts, as encoded; numbers are far less than what is added. */
static size_t size_of(const struct registry_instance *instance) {
    enum { LENGTHS = 4, NUMBERS = 256 };
    size_t size = NUMBERS + instance->address.size + instance->zone.size + instance->version.size +
                  instance->node.size + instance->owner.size + instance->extra.size;
    for (size_t i = 0; i < instance->n_tags; i++) {
        size += LENGTHS + instance->tags[i].size;
    }
    for (size_t i = 0; i < instance->n_metadata; i++) {
        size += 2 * LENGTHS + instance->metadata[i].key.size + instance->metadata[i].value.size;
    }
    return size;
}

bool registry_instance_is_valid(const struct registry_instance *instance) {
    return registry_name_is_valid(instance->service) && registry_name_is_valid(instance->id) &&
           instance->origin >= REGISTRY_ORIGIN_NATIVE && instance->origin < REGISTRY_ORIGINS &&
           instance->state >= REGISTRY_STARTING && instance->state < REGISTRY_STATES &&
           instance->override_state < REGISTRY_STATES && instance->weight <= REGISTRY_WEIGHT_MAX &&
           registry_text_is_valid(instance->address, REGISTRY_TEXT_SIZE_MAX) &&
           registry_word_is_valid(instance->zone) && registry_word_is_valid(instance->version) &&
           registry_word_is_valid(instance->node) && registry_word_is_valid(instance->owner) &&
           tags_are_valid(instance) &&
           registry_pairs_are_valid(instance->metadata, instance->n_metadata, false) &&
           instance->extra.size <= REGISTRY_EXTRA_SIZE_MAX && ttl_is_valid(instance->ttl_ms) &&
           size_of(instance) <= REGISTRY_INSTANCE_SIZE_MAX;
}

static void put_instance(struct buffer *out, const struct registry_instance *instance) {
    buffer_put_u8(out, instance->origin);
    buffer_put_u8(out, instance->state);
    buffer_put_u8(out, instance->override_state);
    buffer_put_varint(out, instance->port);
    buffer_put_varint(out, instance->weight);
    buffer_put_bytes(out, instance->address);
    buffer_put_bytes(out, instance->zone);
    buffer_put_bytes(out, instance->version);
    buffer_put_bytes(out, instance->node);
    buffer_put_bytes(out, instance->owner);
    buffer_put_varint(out, instance->n_tags);
    for (size_t i = 0; i < instance->n_tags; i++) {
        buffer_put_bytes(out, instance->tags[i]);
    }
    registry_put_pairs(out, instance->metadata, instance->n_metadata);
    buffer_put_bytes(out, instance->extra);
    buffer_put_zigzag(out, instance->ttl_ms);
    buffer_put_zigzag(out, instance->registered_wall_ms);
    buffer_put_zigzag(out, instance->state_wall_ms);
    buffer_put_varint(out, instance->user_id);
}

static void get_instance(struct reader *reader, struct arena *arena,
                         struct registry_instance *instance) {
    instance->origin = registry_get_choice(reader, REGISTRY_ORIGINS);
    instance->state = registry_get_choice(reader, REGISTRY_STATES);
    instance->override_state = registry_get_choice(reader, REGISTRY_STATES);
    instance->port = (uint16_t)registry_get_number(reader, UINT16_MAX);
    instance->weight = (uint32_t)registry_get_number(reader, REGISTRY_WEIGHT_MAX);
    instance->address = reader_get_bytes(reader);
    instance->zone = reader_get_bytes(reader);
    instance->version = reader_get_bytes(reader);
    instance->node = reader_get_bytes(reader);
    instance->owner = reader_get_bytes(reader);
    instance->n_tags = registry_get_count(reader, 1, REGISTRY_TAGS_MAX);
    struct bytes *tags = arena_calloc(arena, instance->n_tags, sizeof *tags);
    for (size_t i = 0; i < instance->n_tags; i++) {
        tags[i] = reader_get_bytes(reader);
    }
    instance->tags = tags;
    instance->metadata = registry_get_pairs(reader, arena, &instance->n_metadata);
    instance->extra = reader_get_bytes(reader);
    instance->ttl_ms = reader_get_zigzag(reader);
    instance->registered_wall_ms = reader_get_zigzag(reader);
    instance->state_wall_ms = reader_get_zigzag(reader);
    instance->user_id = reader_get_varint(reader);
}

void registry_instance_encode(struct buffer *out, const struct registry_instance *instance) {
    buffer_put_u8(out, FORMAT);
    put_instance(out, instance);
}

bool registry_instance_decode(struct bytes value, struct arena *arena,
                              struct registry_instance *out_instance) {
    struct reader reader;
    struct registry_instance instance = {0};
    begin(&reader, value);
    get_instance(&reader, arena, &instance);
    if (!registry_is_read(&reader)) {
        return false;
    }
    *out_instance = instance;
    return true;
}

bool registry_instance_metadata(const struct registry_instance *instance, const char *key,
                                struct bytes *out_value) {
    for (size_t i = 0; i < instance->n_metadata; i++) {
        if (bytes_equal(instance->metadata[i].key, bytes_from_text(key))) {
            *out_value = instance->metadata[i].value;
            return true;
        }
    }
    return false;
}

bool registry_instance_has_tag(const struct registry_instance *instance, struct bytes tag) {
    for (size_t i = 0; i < instance->n_tags; i++) {
        if (bytes_equal(instance->tags[i], tag)) {
            return true;
        }
    }
    return false;
}

/* --- Lost instances. --- */

void registry_lost_encode(struct buffer *out, const struct registry_lost *lost) {
    buffer_put_u8(out, FORMAT);
    buffer_put_varint(out, lost->round);
    buffer_put_u8(out, lost->health);
    buffer_put_zigzag(out, lost->instance.token);
    put_instance(out, &lost->instance);
}

bool registry_lost_decode(struct bytes value, struct arena *arena, struct registry_lost *out_lost) {
    struct reader reader;
    struct registry_lost lost = {0};
    begin(&reader, value);
    lost.round = reader_get_varint(&reader);
    lost.health = registry_get_choice(&reader, REGISTRY_HEALTHS);
    int64_t token = reader_get_zigzag(&reader);
    get_instance(&reader, arena, &lost.instance);
    lost.instance.token = token;
    if (!registry_is_read(&reader)) {
        return false;
    }
    *out_lost = lost;
    return true;
}

/* --- Services. --- */

bool registry_settings_are_valid(const struct registry_service_settings *settings) {
    return settings->grace_ms >= 0 && settings->grace_ms <= REGISTRY_SETTING_MS_MAX &&
           settings->guard_percent <= REGISTRY_GUARD_OFF &&
           (settings->guard_window_ms == 0 || settings->guard_window_ms >= REGISTRY_TTL_MS_MIN) &&
           settings->guard_window_ms <= REGISTRY_SETTING_MS_MAX &&
           (settings->guard_hold_ms == 0 || settings->guard_hold_ms >= REGISTRY_TTL_MS_MIN) &&
           settings->guard_hold_ms <= REGISTRY_SETTING_MS_MAX;
}

void registry_settings_put(struct buffer *out, const struct registry_service_settings *settings) {
    buffer_put_zigzag(out, settings->grace_ms);
    buffer_put_varint(out, settings->guard_percent);
    buffer_put_varint(out, settings->guard_minimum);
    buffer_put_zigzag(out, settings->guard_window_ms);
    buffer_put_zigzag(out, settings->guard_hold_ms);
}

struct registry_service_settings registry_settings_get(struct reader *reader) {
    struct registry_service_settings settings;
    settings.grace_ms = reader_get_zigzag(reader);
    settings.guard_percent = (uint32_t)registry_get_number(reader, UINT32_MAX);
    settings.guard_minimum = (uint32_t)registry_get_number(reader, UINT32_MAX);
    settings.guard_window_ms = reader_get_zigzag(reader);
    settings.guard_hold_ms = reader_get_zigzag(reader);
    return settings;
}

void registry_service_encode(struct buffer *out, const struct registry_service *service) {
    buffer_put_u8(out, FORMAT);
    registry_settings_put(out, &service->settings);
    buffer_put_varint(out, service->n_live);
    buffer_put_varint(out, service->n_lost);
    buffer_put_zigzag(out, service->guard_lease_id);
    buffer_put_zigzag(out, service->guard_wall_ms);
    buffer_put_varint(out, service->n_guarded);
    buffer_put_varint(out, service->round);
    buffer_put_varint(out, service->n_tombstones);
    buffer_put_zigzag(out, service->kept_lease_id);
}

bool registry_service_decode(struct bytes value, struct registry_service *out_service) {
    struct reader reader;
    struct registry_service service = {0};
    begin(&reader, value);
    service.settings = registry_settings_get(&reader);
    service.n_live = (uint32_t)registry_get_number(&reader, UINT32_MAX);
    service.n_lost = (uint32_t)registry_get_number(&reader, UINT32_MAX);
    service.guard_lease_id = reader_get_zigzag(&reader);
    service.guard_wall_ms = reader_get_zigzag(&reader);
    service.n_guarded = reader_get_varint(&reader);
    service.round = reader_get_varint(&reader);
    service.n_tombstones = (uint32_t)registry_get_number(&reader, UINT32_MAX);
    service.kept_lease_id = reader_get_zigzag(&reader);
    if (!registry_is_read(&reader)) {
        return false;
    }
    *out_service = service;
    return true;
}

struct registry_service_settings registry_service_settings(const struct registry_service *service) {
    struct registry_service_settings settings = service->settings;
    if (settings.guard_percent == 0) {
        settings.guard_percent = REGISTRY_GUARD_PERCENT;
    }
    if (settings.guard_minimum == 0) {
        settings.guard_minimum = REGISTRY_GUARD_MINIMUM;
    }
    if (settings.guard_window_ms == 0) {
        settings.guard_window_ms = REGISTRY_GUARD_WINDOW_MS;
    }
    if (settings.guard_hold_ms == 0) {
        settings.guard_hold_ms = REGISTRY_GUARD_HOLD_MS;
    }
    return settings;
}

/* --- What happened. --- */

void registry_event_encode(struct buffer *out, const struct registry_event *event) {
    buffer_put_u8(out, FORMAT);
    buffer_put_varint(out, event->number);
    buffer_put_u8(out, event->kind);
    buffer_put_bytes(out, event->service);
    buffer_put_bytes(out, event->id);
    buffer_put_varint(out, event->n_live);
    buffer_put_varint(out, event->n_lost);
    buffer_put_zigzag(out, event->revision);
    buffer_put_zigzag(out, event->wall_ms);
}

bool registry_event_decode(struct bytes value, struct registry_event *out_event) {
    struct reader reader;
    struct registry_event event = {0};
    begin(&reader, value);
    event.number = reader_get_varint(&reader);
    event.kind = registry_get_choice(&reader, REGISTRY_EVENT_KINDS);
    event.service = reader_get_bytes(&reader);
    event.id = reader_get_bytes(&reader);
    event.n_live = (uint32_t)registry_get_number(&reader, UINT32_MAX);
    event.n_lost = (uint32_t)registry_get_number(&reader, UINT32_MAX);
    event.revision = reader_get_zigzag(&reader);
    event.wall_ms = reader_get_zigzag(&reader);
    if (!registry_is_read(&reader)) {
        return false;
    }
    *out_event = event;
    return true;
}
