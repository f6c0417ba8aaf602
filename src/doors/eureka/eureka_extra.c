#include "doors/eureka/eureka_instance.h"

enum { EXTRA_FORMAT = 1 };
enum {
    FLAG_PORT = 1,
    FLAG_SECURE_PORT = 2,
    FLAG_COORDINATING = 4,
    FLAG_UNKNOWN = 8 /* its own status is UNKNOWN */
};

static uint64_t flags_of(const struct eureka_instance *instance) {
    uint64_t flags = 0;
    flags |= instance->port.is_enabled ? FLAG_PORT : 0;
    flags |= instance->secure_port.is_enabled ? FLAG_SECURE_PORT : 0;
    flags |= instance->is_coordinating ? FLAG_COORDINATING : 0;
    flags |= instance->status == EUREKA_UNKNOWN ? FLAG_UNKNOWN : 0;
    return flags;
}

void eureka_extra_encode(struct buffer *out, const struct eureka_instance *instance) {
    buffer_put_u8(out, EXTRA_FORMAT);
    buffer_put_varint(out, flags_of(instance));
    buffer_put_varint(out, instance->port.number);
    buffer_put_varint(out, instance->secure_port.number);
    buffer_put_zigzag(out, instance->country_id);
    buffer_put_varint(out, (uint64_t)instance->lease.renewal_interval_s);
    buffer_put_zigzag(out, instance->dirty_ms);
    for (size_t i = 0; i < EUREKA_FIELDS; i++) {
        buffer_put_bytes(out, instance->fields[i]);
    }
    buffer_put_varint(out, instance->n_data_center);
    for (size_t i = 0; i < instance->n_data_center; i++) {
        buffer_put_bytes(out, instance->data_center[i].key);
        buffer_put_bytes(out, instance->data_center[i].value);
    }
}

static void decode_pairs(struct reader *reader, struct arena *arena,
                         struct eureka_instance *instance) {
    uint64_t n = reader_get_varint(reader);
    if (reader->failed || n > REGISTRY_PAIRS_MAX) {
        reader->failed = true;
        return;
    }
    struct registry_pair *pairs = arena_calloc(arena, (size_t)n, sizeof *pairs);
    for (size_t i = 0; i < n; i++) {
        pairs[i].key = reader_get_bytes(reader);
        pairs[i].value = reader_get_bytes(reader);
    }
    instance->n_data_center = (size_t)n;
    instance->data_center = pairs;
}

static void decode_flags(uint64_t flags, struct eureka_instance *instance) {
    instance->port.is_enabled = (flags & FLAG_PORT) != 0;
    instance->secure_port.is_enabled = (flags & FLAG_SECURE_PORT) != 0;
    instance->is_coordinating = (flags & FLAG_COORDINATING) != 0;
}

bool eureka_extra_is_unknown(struct bytes extra) {
    struct reader reader;
    reader_init(&reader, extra);
    return reader_get_u8(&reader) == EXTRA_FORMAT &&
           (reader_get_varint(&reader) & FLAG_UNKNOWN) != 0;
}

bool eureka_extra_decode(struct bytes extra, struct arena *arena,
                         struct eureka_instance *out_instance) {
    struct reader reader;
    struct eureka_instance instance = *out_instance;
    reader_init(&reader, extra);
    if (reader_get_u8(&reader) != EXTRA_FORMAT) {
        return false;
    }
    decode_flags(reader_get_varint(&reader), &instance);
    instance.port.number = (uint16_t)reader_get_varint(&reader);
    instance.secure_port.number = (uint16_t)reader_get_varint(&reader);
    instance.country_id = reader_get_zigzag(&reader);
    instance.lease.renewal_interval_s = (int64_t)reader_get_varint(&reader);
    instance.dirty_ms = reader_get_zigzag(&reader);
    for (size_t i = 0; i < EUREKA_FIELDS; i++) {
        instance.fields[i] = reader_get_bytes(&reader);
    }
    decode_pairs(&reader, arena, &instance);
    if (reader.failed || reader_left(&reader) != 0) {
        return false;
    }
    *out_instance = instance;
    return true;
}
