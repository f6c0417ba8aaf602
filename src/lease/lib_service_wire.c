#include "lease/lib_service_wire.h"

#include "lease/lib_error.h"
#include "lease/lib_message.h"
#include "lease/lib_read.h"

#include <string.h>

enum lease_status lib_service_check_name(const char *what, const char *name) {
    if (name == NULL || name[0] == '\0' || strlen(name) > LIB_SERVICE_NAME_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "%s has 1 to %d bytes", what, LIB_SERVICE_NAME_SIZE_MAX);
    }
    return LEASE_OK;
}

/* ---- what is asked ---- */

static void put_pairs(struct buffer *out, uint32_t field, const struct lease_pair *pairs,
                      size_t n) {
    struct buffer pair;
    buffer_init(&pair);
    for (size_t i = 0; i < n; i++) {
        lib_put_text(&pair, 1, pairs[i].key);
        lib_put_text(&pair, 2, pairs[i].value);
        lib_put_message(out, field, &pair);
    }
    buffer_clear(&pair);
}

/* "service" or "service/id". */
static void put_alias(struct buffer *out, const char *target) {
    const char *slash = strchr(target, '/');
    size_t size = slash == NULL ? strlen(target) : (size_t)(slash - target);
    lib_put_bytes(out, 16, bytes_of(target, size));
    lib_put_text(out, 17, slash == NULL ? NULL : slash + 1);
}

static void put_check(struct buffer *out, const struct lease_check *check) {
    lib_put_text(out, 1, check->id);
    lib_put_int(out, 3, check->kind);
    if (check->kind == LEASE_CHECK_ALIAS && check->target != NULL) {
        put_alias(out, check->target);
    } else {
        lib_put_text(out, 5, check->target);
    }
    for (size_t i = 0; i < check->n_command; i++) {
        lib_put_text(out, 6, check->command[i]);
    }
    lib_put_text(out, 7, check->method);
    put_pairs(out, 8, check->headers, check->n_headers);
    lib_put_text(out, 10, check->body_match);
    lib_put_int(out, 14, check->tls);
    lib_put_int(out, 15, check->skip_verification);
    lib_put_int(out, 18, check->interval_ms);
    lib_put_int(out, 19, check->timeout_ms);
    lib_put_int(out, 20, check->ttl_ms);
    lib_put_int(out, 21, check->rises);
    lib_put_int(out, 22, check->falls);
    lib_put_int(out, 23, check->deregister_after_ms);
    lib_put_int(out, 24, check->health);
}

void lib_service_encode_instance(const struct lease_register_options *options, const char *id,
                                 const char *node, const char *owner, struct buffer *out) {
    struct buffer check;
    buffer_init(&check);
    lib_put_text(out, 1, options->service);
    lib_put_text(out, 2, id);
    lib_put_text(out, 3, options->address);
    lib_put_int(out, 4, options->port);
    for (size_t i = 0; i < options->n_tags; i++) {
        lib_put_text(out, 5, options->tags[i]);
    }
    put_pairs(out, 6, options->metadata, options->n_metadata);
    lib_put_text(out, 7, options->zone);
    lib_put_text(out, 8, options->version);
    lib_put_int(out, 9, options->weight);
    lib_put_int(out, 11, options->ttl_ms);
    lib_put_text(out, 12, node);
    lib_put_text(out, 13, owner);
    for (size_t i = 0; i < options->n_checks; i++) {
        put_check(&check, &options->checks[i]);
        lib_put_message(out, 14, &check);
    }
    buffer_clear(&check);
}

void lib_service_encode_register(const struct lib_register_wire *request, struct buffer *out) {
    struct buffer instance;
    buffer_init(&instance);
    buffer_append(&instance, request->instance.data, request->instance.size);
    lib_put_int(&instance, 10, request->state);
    lib_put_message(out, 1, &instance);
    lib_put_int(out, 4, request->previous_token);
    lib_put_int(out, 5, request->lease_id);
    buffer_clear(&instance);
}

bool lib_service_decode_registered(struct bytes message, int64_t *out_token, int64_t *out_ttl_ms) {
    struct pb_reader reader;
    *out_token = 0;
    *out_ttl_ms = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2) {
            *out_token = pb_reader_int64(&reader);
        } else if (reader.field == 4) {
            *out_ttl_ms = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed && *out_token > 0 && *out_ttl_ms > 0;
}

void lib_service_encode_renew(int64_t lease_id, struct buffer *out) {
    lib_put_int(out, 1, lease_id);
}

bool lib_service_decode_renewed(struct bytes message, bool *out_has_ended) {
    struct pb_reader reader;
    uint64_t n_renewed = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 3) {
            n_renewed = pb_reader_uint64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    *out_has_ended = n_renewed == 0;
    return !reader.failed;
}

/* ---- what it says ---- */

static bool read_pair_item(struct arena *arena, struct bytes message, void *out) {
    struct lease_pair *pair = out;
    struct pb_reader reader;
    *pair = (struct lease_pair){"", ""};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            pair->key = lib_read_text_field(arena, &reader);
        } else if (reader.field == 2) {
            pair->value = lib_read_text_field(arena, &reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static void read_fact(struct arena *arena, struct pb_reader *reader, struct lease_instance *out,
                      enum lease_instance_state *override) {
    int64_t weight = 0;
    switch (reader->field) {
    case 4:
        out->port = lib_read_uint32(reader);
        break;
    case 9:
        weight = pb_reader_int64(reader);
        out->weight = weight < 0 ? 0 : weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
        break;
    case 10:
        out->state = (enum lease_instance_state)pb_reader_enum(reader);
        break;
    case 11:
        out->ttl_ms = pb_reader_int64(reader);
        break;
    case 13:
        out->owner = lib_read_text_field(arena, reader);
        break;
    case 15:
        *override = (enum lease_instance_state)pb_reader_enum(reader);
        break;
    case 16:
        out->health = (enum lease_health)pb_reader_enum(reader);
        break;
    case 17:
        out->is_serving = pb_reader_bool(reader);
        break;
    case 18:
        out->is_kept = pb_reader_bool(reader);
        break;
    case 19:
        out->token = pb_reader_int64(reader);
        break;
    case 20:
        out->lease_id = pb_reader_int64(reader);
        break;
    case 21:
        out->revision = pb_reader_int64(reader);
        break;
    case 23:
        out->registered_wall_ms = pb_reader_int64(reader);
        break;
    default:
        pb_reader_skip(reader);
    }
}

static void read_field(struct arena *arena, struct pb_reader *reader, struct lease_instance *out,
                       enum lease_instance_state *override) {
    switch (reader->field) {
    case 1:
        out->service = lib_read_text_field(arena, reader);
        break;
    case 2:
        out->id = lib_read_text_field(arena, reader);
        break;
    case 3:
        out->address = lib_read_text_field(arena, reader);
        break;
    case 7:
        out->zone = lib_read_text_field(arena, reader);
        break;
    case 8:
        out->version = lib_read_text_field(arena, reader);
        break;
    case 12:
        out->node = lib_read_text_field(arena, reader);
        break;
    default:
        read_fact(arena, reader, out, override);
    }
}

bool lib_service_read_instance(struct arena *arena, struct bytes message,
                               struct lease_instance *out) {
    enum lease_instance_state override = LEASE_INSTANCE_DEFAULT;
    struct lib_array tags;
    struct lib_array pairs;
    struct pb_reader reader;
    *out = (struct lease_instance){.service = "",
                                   .id = "",
                                   .address = "",
                                   .zone = "",
                                   .version = "",
                                   .node = "",
                                   .owner = "",
                                   .weight = 1};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        read_field(arena, &reader, out, &override);
    }
    if (reader.failed || (unsigned)out->health > LEASE_CRITICAL ||
        !lib_read_texts(arena, message, 5, &tags) ||
        !lib_read_array(arena, message, 6, sizeof(struct lease_pair), read_pair_item, &pairs)) {
        return false;
    }
    out->tags = tags.items;
    out->n_tags = tags.n_items;
    out->metadata = pairs.items;
    out->n_metadata = pairs.n_items;
    out->is_overridden = override != LEASE_INSTANCE_DEFAULT;
    out->state = out->is_overridden ? override : out->state;
    return true;
}

static bool read_settings(struct bytes message, struct lease_service_settings *out) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            out->grace_ms = pb_reader_int64(&reader);
            break;
        case 2:
            out->guard_percent = lib_read_uint32(&reader);
            break;
        case 3:
            out->guard_minimum = lib_read_uint32(&reader);
            break;
        case 4:
            out->guard_window_ms = pb_reader_int64(&reader);
            break;
        case 5:
            out->guard_hold_ms = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

bool lib_service_read_info(struct arena *arena, struct bytes message,
                           struct lease_service_info *out) {
    struct pb_reader reader;
    bool is_well = true;
    *out = (struct lease_service_info){.name = ""};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            out->name = lib_read_text_field(arena, &reader);
            break;
        case 2:
            out->n_live = lib_read_uint32(&reader);
            break;
        case 3:
            out->n_lost = lib_read_uint32(&reader);
            break;
        case 4:
            out->is_guarded = pb_reader_bool(&reader);
            break;
        case 5:
            out->guarded_wall_ms = pb_reader_int64(&reader);
            break;
        case 6:
            out->n_guarded = pb_reader_uint64(&reader);
            break;
        case 7:
            is_well &= read_settings(pb_reader_bytes(&reader), &out->settings);
            break;
        case 8:
            out->revision = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}
