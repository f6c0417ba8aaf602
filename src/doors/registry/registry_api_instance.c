/* Registrations and checks as the wire has them. */
#include "core/lease_table.h"
#include "doors/registry/registry_api_fields.h"
#include "doors/registry/registry_api_request.h"

#include <string.h>

/* --- Checks. --- */

/* Program and arguments with NUL between, as the model has them. */
static bool read_command(struct bytes message, struct arena *arena, struct bytes *out_target) {
    enum { COMMAND_FIELD = 6, ARGUMENTS_MAX = 64 };
    const struct bytes *words = NULL;
    size_t n = 0;
    if (!registry_api_fields_texts(message, COMMAND_FIELD, ARGUMENTS_MAX, arena, &words, &n)) {
        return false;
    }
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        if (words[i].size > 0 && memchr(words[i].data, 0, words[i].size) != NULL) {
            return false;
        }
        size += words[i].size + 1;
    }
    if (n == 0) {
        return true;
    }
    uint8_t *joined = arena_alloc(arena, size);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0) {
            joined[at++] = 0;
        }
        if (words[i].size > 0) {
            memcpy(joined + at, words[i].data, words[i].size);
        }
        at += words[i].size;
    }
    *out_target = bytes_of(joined, at);
    return true;
}

static void read_check_field(struct pb_reader *reader, struct registry_check *check) {
    switch (reader->field) {
    case 1:
        check->id = pb_reader_bytes(reader);
        break;
    case 2:
        check->name = pb_reader_bytes(reader);
        break;
    case 3:
        check->kind = registry_api_fields_choice(reader, REGISTRY_CHECK_KINDS);
        break;
    case 4:
        check->notes = pb_reader_bytes(reader);
        break;
    case 5:
        check->target = pb_reader_bytes(reader);
        break;
    case 7:
        check->method = pb_reader_bytes(reader);
        break;
    case 9:
        check->body = pb_reader_bytes(reader);
        break;
    case 10:
        check->body_match = pb_reader_bytes(reader);
        break;
    case 11:
        check->status_min = registry_api_fields_number16(reader);
        break;
    case 12:
        check->status_max = registry_api_fields_number16(reader);
        break;
    case 13:
        check->server_name = pb_reader_bytes(reader);
        break;
    case 14:
        check->is_tls = pb_reader_bool(reader);
        break;
    case 15:
        check->skips_verification = pb_reader_bool(reader);
        break;
    case 16:
        check->alias_service = pb_reader_bytes(reader);
        break;
    case 17:
        check->alias_id = pb_reader_bytes(reader);
        break;
    case 18:
        check->interval_ms = pb_reader_int64(reader);
        break;
    case 19:
        check->timeout_ms = pb_reader_int64(reader);
        break;
    case 20:
        check->ttl_ms = pb_reader_int64(reader);
        break;
    case 21:
        check->rises = registry_api_fields_number32(reader);
        break;
    case 22:
        check->falls = registry_api_fields_number32(reader);
        break;
    case 23:
        check->deregister_after_ms = pb_reader_int64(reader);
        break;
    case 24:
        check->health = registry_api_fields_choice(reader, REGISTRY_HEALTHS);
        break;
    case 25:
        check->output = pb_reader_bytes(reader);
        break;
    default:
        pb_reader_skip(reader);
    }
}

static const struct leased_v1_error *read_check(struct bytes message, struct arena *arena,
                                                struct registry_check *out_check) {
    enum { HEADERS_FIELD = 8 };
    struct pb_reader reader;
    *out_check = (struct registry_check){.origin = REGISTRY_ORIGIN_NATIVE};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        read_check_field(&reader, out_check);
    }
    if (reader.failed ||
        !registry_api_fields_pairs(message, HEADERS_FIELD, arena, &out_check->headers,
                                   &out_check->n_headers) ||
        (out_check->kind == REGISTRY_CHECK_COMMAND &&
         !read_command(message, arena, &out_check->target))) {
        return &registry_api_error_check;
    }
    if (!registry_name_is_valid(out_check->id) ||
        !registry_api_fields_is_time(out_check->interval_ms) ||
        !registry_api_fields_is_time(out_check->timeout_ms) ||
        !registry_api_fields_is_time(out_check->ttl_ms) ||
        !registry_api_fields_is_time(out_check->deregister_after_ms) ||
        !registry_check_is_valid(out_check)) {
        return &registry_api_error_check;
    }
    return NULL;
}

static const struct leased_v1_error *read_checks(struct bytes instance, struct arena *arena,
                                                 struct registry_register *request) {
    enum { CHECKS_FIELD = 14 };
    const struct bytes *messages = NULL;
    size_t n = 0;
    if (!registry_api_fields_texts(instance, CHECKS_FIELD, REGISTRY_CHECKS_MAX, arena, &messages,
                                   &n)) {
        return &registry_api_error_checks;
    }
    struct registry_check *checks = arena_calloc(arena, n, sizeof *checks);
    for (size_t i = 0; i < n; i++) {
        const struct leased_v1_error *error = read_check(messages[i], arena, &checks[i]);
        if (error != NULL) {
            return error;
        }
        for (size_t j = 0; j < i; j++) {
            if (bytes_equal(checks[i].id, checks[j].id)) {
                return &registry_api_error_checks;
            }
        }
    }
    request->checks = checks;
    request->n_checks = n;
    return NULL;
}

/* --- Registering. --- */

/* 0 means 1, and -1 that it is never chosen. */
static uint32_t read_weight(struct pb_reader *reader) {
    int64_t weight = pb_reader_int64(reader);
    reader->failed |= weight < -1 || weight > REGISTRY_WEIGHT_MAX;
    return weight == 0 ? 1 : weight < 0 ? 0 : (uint32_t)weight;
}

/* 0 means the default, and -1 until it is deregistered. */
static int64_t read_ttl(struct pb_reader *reader) {
    int64_t ttl_ms = pb_reader_int64(reader);
    reader->failed |= ttl_ms < -1 || ttl_ms > REGISTRY_API_TIME_MS_MAX;
    return ttl_ms == 0 ? REGISTRY_API_TTL_MS : ttl_ms < 0 ? LEASE_TTL_FOREVER : ttl_ms;
}

static void read_instance_field(struct pb_reader *reader, struct registry_instance *instance) {
    switch (reader->field) {
    case 1:
        instance->service = pb_reader_bytes(reader);
        break;
    case 2:
        instance->id = pb_reader_bytes(reader);
        break;
    case 3:
        instance->address = pb_reader_bytes(reader);
        break;
    case 4:
        instance->port = registry_api_fields_number16(reader);
        break;
    case 7:
        instance->zone = pb_reader_bytes(reader);
        break;
    case 8:
        instance->version = pb_reader_bytes(reader);
        break;
    case 9:
        instance->weight = read_weight(reader);
        break;
    case 10:
        instance->state = registry_api_fields_choice(reader, REGISTRY_STATES);
        break;
    case 11:
        instance->ttl_ms = read_ttl(reader);
        break;
    case 12:
        instance->node = pb_reader_bytes(reader);
        break;
    case 13:
        instance->owner = pb_reader_bytes(reader);
        break;
    default:
        pb_reader_skip(reader);
    }
}

static const struct leased_v1_error *read_instance(struct bytes message, struct arena *arena,
                                                   struct registry_register *request) {
    enum { TAGS_FIELD = 5, METADATA_FIELD = 6 };
    struct registry_instance *instance = &request->instance;
    struct pb_reader reader;
    *instance = (struct registry_instance){
        .origin = REGISTRY_ORIGIN_NATIVE, .weight = 1, .ttl_ms = REGISTRY_API_TTL_MS};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        read_instance_field(&reader, instance);
    }
    if (reader.failed ||
        !registry_api_fields_texts(message, TAGS_FIELD, REGISTRY_TAGS_MAX, arena, &instance->tags,
                                   &instance->n_tags) ||
        !registry_api_fields_pairs(message, METADATA_FIELD, arena, &instance->metadata,
                                   &instance->n_metadata)) {
        return &registry_api_error_instance;
    }
    if (!registry_name_is_valid(instance->service) || !registry_name_is_valid(instance->id)) {
        return &registry_api_error_name;
    }
    if (instance->state == REGISTRY_STATE_NONE) {
        instance->state = REGISTRY_UP;
    }
    if (instance->ttl_ms < REGISTRY_TTL_MS_MIN || !registry_instance_is_valid(instance)) {
        return &registry_api_error_instance;
    }
    return read_checks(message, arena, request);
}

const struct leased_v1_error *registry_api_request_register(struct bytes message,
                                                            struct arena *arena,
                                                            struct registry_register *out_request) {
    struct bytes instance = {NULL, 0};
    struct pb_reader reader;
    *out_request = (struct registry_register){0};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            instance = pb_reader_bytes(&reader);
            break;
        case 2:
            out_request->keeps_checks = pb_reader_bool(&reader);
            break;
        case 3:
            out_request->is_idempotent = pb_reader_bool(&reader);
            break;
        case 4:
            out_request->previous_token = pb_reader_int64(&reader);
            break;
        case 5:
            out_request->lease_id = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || out_request->previous_token < 0 || out_request->lease_id < 0) {
        return &registry_api_error_malformed;
    }
    return read_instance(instance, arena, out_request);
}

/* --- A check of an instance that is there. --- */

const struct leased_v1_error *
registry_api_request_put_check(struct bytes message, struct arena *arena,
                               struct registry_put_check *out_request) {
    struct bytes check = {NULL, 0};
    struct pb_reader reader;
    *out_request = (struct registry_put_check){0};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            out_request->service = pb_reader_bytes(&reader);
        } else if (reader.field == 2) {
            out_request->id = pb_reader_bytes(&reader);
        } else if (reader.field == 3) {
            check = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &registry_api_error_malformed;
    }
    if (!registry_name_is_valid(out_request->service) || !registry_name_is_valid(out_request->id)) {
        return &registry_api_error_name;
    }
    return read_check(check, arena, &out_request->check);
}
