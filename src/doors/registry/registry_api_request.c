#include "doors/registry/registry_api_request.h"

#include "doors/registry/registry_api_fields.h"

/* --- Changes of one instance. --- */

/* Service, id and token are fields 1 to 3 of every one of them. True: it was one of those. */
static bool read_target(struct pb_reader *reader, struct bytes *service, struct bytes *id,
                        int64_t *token) {
    if (reader->field == 1) {
        *service = pb_reader_bytes(reader);
    } else if (reader->field == 2) {
        *id = pb_reader_bytes(reader);
    } else if (reader->field == 3 && token != NULL) {
        *token = pb_reader_int64(reader);
    } else {
        return false;
    }
    return true;
}

static const struct leased_v1_error *
check_target(const struct pb_reader *reader, struct bytes service, struct bytes id, int64_t token) {
    if (reader->failed || token < 0) {
        return &registry_api_error_malformed;
    }
    return registry_name_is_valid(service) && registry_name_is_valid(id) ? NULL
                                                                         : &registry_api_error_name;
}

const struct leased_v1_error *
registry_api_request_deregister(struct bytes message, struct registry_deregister *out_request) {
    struct registry_deregister request = {.token = 0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (read_target(&reader, &request.service, &request.id, &request.token)) {
            continue;
        }
        if (reader.field == 4) {
            request.drain_ms = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    *out_request = request;
    if (!registry_api_fields_is_time(request.drain_ms)) {
        return &registry_api_error_time;
    }
    return check_target(&reader, request.service, request.id, request.token);
}

const struct leased_v1_error *
registry_api_request_set_state(struct bytes message, struct registry_set_state *out_request) {
    struct registry_set_state request = {.token = 0};
    struct pb_reader reader;
    int32_t state = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (read_target(&reader, &request.service, &request.id, &request.token)) {
            continue;
        }
        if (reader.field == 4) {
            state = pb_reader_enum(&reader);
        } else if (reader.field == 5) {
            request.is_override = pb_reader_bool(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (state < 0 || state >= REGISTRY_STATES ||
        (state == REGISTRY_STATE_NONE && !request.is_override)) {
        return &registry_api_error_state;
    }
    request.state = (uint8_t)state;
    *out_request = request;
    return check_target(&reader, request.service, request.id, request.token);
}

const struct leased_v1_error *
registry_api_request_set_metadata(struct bytes message, struct arena *arena,
                                  struct registry_set_metadata *out_request) {
    struct registry_set_metadata request = {.token = 0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (!read_target(&reader, &request.service, &request.id, &request.token)) {
            pb_reader_skip(&reader);
        }
    }
    if (!registry_api_fields_pairs(message, 4, arena, &request.pairs, &request.n_pairs) ||
        request.n_pairs == 0) {
        return &registry_api_error_metadata;
    }
    *out_request = request;
    return check_target(&reader, request.service, request.id, request.token);
}

/* --- Checks of an instance that is there. --- */

const struct leased_v1_error *
registry_api_request_delete_check(struct bytes message, struct registry_delete_check *out_request) {
    struct pb_reader reader;
    *out_request = (struct registry_delete_check){.check = {NULL, 0}};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (read_target(&reader, &out_request->service, &out_request->id, NULL)) {
            continue;
        }
        if (reader.field == 3) {
            out_request->check = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (!registry_name_is_valid(out_request->check)) {
        return &registry_api_error_name;
    }
    return check_target(&reader, out_request->service, out_request->id, 0);
}

/* --- Reports. --- */

static const struct leased_v1_error *read_report(struct bytes message,
                                                 struct registry_report *out_report) {
    struct pb_reader reader;
    *out_report = (struct registry_report){.token = 0};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            out_report->service = pb_reader_bytes(&reader);
            break;
        case 2:
            out_report->id = pb_reader_bytes(&reader);
            break;
        case 3:
            out_report->check = pb_reader_bytes(&reader);
            break;
        case 4:
            out_report->token = pb_reader_int64(&reader);
            break;
        case 5:
            out_report->health = registry_api_fields_choice(&reader, REGISTRY_HEALTHS);
            break;
        case 6:
            out_report->output = pb_reader_bytes(&reader);
            break;
        case 7:
            out_report->keeps_output = pb_reader_bool(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &registry_api_error_reports;
    }
    if (!registry_name_is_valid(out_report->check)) {
        return &registry_api_error_name;
    }
    return check_target(&reader, out_report->service, out_report->id, out_report->token);
}

const struct leased_v1_error *registry_api_request_reports(struct bytes message,
                                                           struct arena *arena,
                                                           struct registry_report **out_reports,
                                                           size_t *out_n) {
    const struct bytes *messages = NULL;
    size_t n = 0;
    if (!registry_api_fields_texts(message, 1, REGISTRY_REPORTS_MAX, arena, &messages, &n) ||
        n == 0) {
        return &registry_api_error_reports;
    }
    struct registry_report *reports = arena_calloc(arena, n, sizeof *reports);
    for (size_t i = 0; i < n; i++) {
        const struct leased_v1_error *error = read_report(messages[i], &reports[i]);
        if (error != NULL) {
            return error;
        }
    }
    *out_reports = reports;
    *out_n = n;
    return NULL;
}

/* --- Services. --- */

static bool read_settings(struct bytes message, struct registry_service_settings *out_settings) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            out_settings->grace_ms = pb_reader_int64(&reader);
            break;
        case 2:
            out_settings->guard_percent = registry_api_fields_number32(&reader);
            break;
        case 3:
            out_settings->guard_minimum = registry_api_fields_number32(&reader);
            break;
        case 4:
            out_settings->guard_window_ms = pb_reader_int64(&reader);
            break;
        case 5:
            out_settings->guard_hold_ms = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed && registry_api_fields_is_time(out_settings->grace_ms) &&
           registry_api_fields_is_time(out_settings->guard_window_ms) &&
           registry_api_fields_is_time(out_settings->guard_hold_ms) &&
           out_settings->guard_percent <= REGISTRY_GUARD_OFF;
}

const struct leased_v1_error *registry_api_request_settings(struct bytes message,
                                                            struct registry_settings *out_request) {
    struct bytes settings = {NULL, 0};
    struct pb_reader reader;
    *out_request = (struct registry_settings){.service = {NULL, 0}};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            out_request->service = pb_reader_bytes(&reader);
        } else if (reader.field == 2) {
            settings = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &registry_api_error_malformed;
    }
    if (!registry_name_is_valid(out_request->service)) {
        return &registry_api_error_name;
    }
    return read_settings(settings, &out_request->settings) ? NULL : &registry_api_error_settings;
}

/* --- Discovery. --- */

static void read_discover_field(struct pb_reader *reader, struct registry_api_discover *request) {
    struct registry_query *query = &request->query;
    switch (reader->field) {
    case 1:
        request->service = pb_reader_bytes(reader);
        break;
    case 4:
        query->only_zone = pb_reader_bytes(reader);
        break;
    case 5:
        query->version = pb_reader_bytes(reader);
        break;
    case 6:
        query->with_unhealthy = pb_reader_bool(reader);
        break;
    case 7:
        query->near_zone = pb_reader_bytes(reader);
        break;
    case 8:
        query->subset_of = pb_reader_bytes(reader);
        break;
    case 9:
        query->limit = registry_api_fields_number32(reader);
        break;
    case 10:
        query->seed = pb_reader_uint64(reader);
        break;
    case 11:
        request->with_checks = pb_reader_bool(reader);
        break;
    case 12:
        request->is_local = pb_reader_bool(reader);
        break;
    default:
        pb_reader_skip(reader);
    }
}

const struct leased_v1_error *
registry_api_request_discover(struct bytes message, struct arena *arena,
                              struct registry_api_discover *out_request) {
    enum { TAGS_FIELD = 2, METADATA_FIELD = 3 };
    struct pb_reader reader;
    struct registry_query *query = &out_request->query;
    *out_request = (struct registry_api_discover){.with_checks = false};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        read_discover_field(&reader, out_request);
    }
    if (reader.failed) {
        return &registry_api_error_malformed;
    }
    if (!registry_api_fields_texts(message, TAGS_FIELD, REGISTRY_TAGS_MAX, arena, &query->tags,
                                   &query->n_tags) ||
        !registry_api_fields_pairs(message, METADATA_FIELD, arena, &query->metadata,
                                   &query->n_metadata)) {
        return &registry_api_error_query;
    }
    return registry_name_is_valid(out_request->service) ? NULL : &registry_api_error_name;
}

static void read_second(struct pb_reader *reader, enum registry_api_name_kind kind,
                        struct registry_api_name *request) {
    switch (kind) {
    case REGISTRY_API_NAME_OF_WATCH:
        request->with_checks = pb_reader_bool(reader);
        break;
    case REGISTRY_API_NAME_OF_LIST:
        request->after = pb_reader_bytes(reader);
        break;
    case REGISTRY_API_NAME_OF_EVENTS:
        request->number = pb_reader_uint64(reader);
        break;
    case REGISTRY_API_NAME_OF_SERVICE:
        pb_reader_skip(reader);
    }
}

const struct leased_v1_error *registry_api_request_name(struct bytes message,
                                                        enum registry_api_name_kind kind,
                                                        struct registry_api_name *out_request) {
    bool has_limit = kind == REGISTRY_API_NAME_OF_LIST || kind == REGISTRY_API_NAME_OF_EVENTS;
    struct pb_reader reader;
    *out_request = (struct registry_api_name){.limit = 0};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            out_request->service = pb_reader_bytes(&reader);
        } else if (reader.field == 2) {
            read_second(&reader, kind, out_request);
        } else if (reader.field == 3 && has_limit) {
            out_request->limit = registry_api_fields_number32(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &registry_api_error_malformed;
    }
    if (out_request->limit == 0 || out_request->limit > REGISTRY_API_LIST_MAX) {
        out_request->limit = REGISTRY_API_LIST_MAX;
    }
    /* Of these it is a prefix or a choice, and may be empty. */
    bool may_be_empty = has_limit && out_request->service.size == 0;
    bool is_after_well = out_request->after.size == 0 || registry_name_is_valid(out_request->after);
    return is_after_well && (may_be_empty || registry_name_is_valid(out_request->service))
               ? NULL
               : &registry_api_error_name;
}

/* --- Renewals. --- */

/* Numbers of a repeated field, one by one or packed. False: malformed or too many. */
static bool read_lease_ids(struct pb_reader *reader, size_t max,
                           struct registry_api_renewals *out) {
    struct pb_reader packed = *reader;
    if (reader->wire_type == PB_BYTES) {
        pb_reader_init(&packed, pb_reader_bytes(reader));
        packed.wire_type = PB_VARINT;
        while (!reader->failed && !packed.failed && packed.at < packed.end && out->n < max) {
            out->lease_ids[out->n++] = pb_reader_int64(&packed);
        }
        return !packed.failed && packed.at >= packed.end;
    }
    if (out->n >= max) {
        return false;
    }
    out->lease_ids[out->n++] = pb_reader_int64(reader);
    return true;
}

const struct leased_v1_error *registry_api_request_renewals(struct bytes message,
                                                            struct arena *arena,
                                                            struct registry_api_renewals *out) {
    struct pb_reader reader;
    /* A number has at least one byte. */
    size_t max =
        message.size < REGISTRY_API_RENEWALS_MAX ? message.size : REGISTRY_API_RENEWALS_MAX;
    *out = (struct registry_api_renewals){.lease_ids =
                                              arena_alloc(arena, max * sizeof out->lease_ids[0])};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            if (!read_lease_ids(&reader, max, out)) {
                return &registry_api_error_renewals;
            }
        } else if (reader.field == 2) {
            out->sequence = pb_reader_uint64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return reader.failed ? &registry_api_error_malformed : NULL;
}
