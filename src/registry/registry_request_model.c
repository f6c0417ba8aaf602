#include "registry/registry_request_model.h"

#include "registry/registry_text_model.h"

/* --- Values in values. --- */

static void put_instance(struct buffer *out, const struct registry_instance *instance) {
    struct buffer value;
    buffer_init(&value);
    registry_instance_encode(&value, instance);
    buffer_put_bytes(out, instance->service);
    buffer_put_bytes(out, instance->id);
    buffer_put_bytes(out, bytes_of(value.data, value.size));
    buffer_clear(&value);
}

static void get_instance(struct reader *reader, struct arena *arena,
                         struct registry_instance *instance) {
    struct bytes service = reader_get_bytes(reader);
    struct bytes id = reader_get_bytes(reader);
    if (!registry_instance_decode(reader_get_bytes(reader), arena, instance)) {
        reader->failed = true;
    }
    instance->service = service;
    instance->id = id;
}

static void put_check(struct buffer *out, const struct registry_check *check) {
    struct buffer value;
    buffer_init(&value);
    registry_check_encode(&value, check);
    buffer_put_bytes(out, check->id);
    buffer_put_bytes(out, bytes_of(value.data, value.size));
    buffer_clear(&value);
}

static void get_check(struct reader *reader, struct arena *arena, struct registry_check *check) {
    struct bytes id = reader_get_bytes(reader);
    if (!registry_check_decode(reader_get_bytes(reader), arena, check)) {
        reader->failed = true;
    }
    check->id = id;
}

/* --- Register. --- */

void registry_register_encode(struct buffer *out, const struct registry_register *request) {
    put_instance(out, &request->instance);
    buffer_put_varint(out, request->n_checks);
    for (size_t i = 0; i < request->n_checks; i++) {
        put_check(out, &request->checks[i]);
    }
    buffer_put_u8(out, request->keeps_checks);
    buffer_put_u8(out, request->is_idempotent);
    buffer_put_zigzag(out, request->previous_token);
    buffer_put_zigzag(out, request->lease_id);
}

bool registry_register_decode(struct bytes request, struct arena *arena,
                              struct registry_register *out_request) {
    struct reader reader;
    struct registry_register read = {0};
    reader_init(&reader, request);
    get_instance(&reader, arena, &read.instance);
    read.n_checks = registry_get_count(&reader, 2, REGISTRY_CHECKS_MAX);
    struct registry_check *checks = arena_calloc(arena, read.n_checks, sizeof *checks);
    for (size_t i = 0; i < read.n_checks; i++) {
        get_check(&reader, arena, &checks[i]);
    }
    read.checks = checks;
    read.keeps_checks = registry_get_flag(&reader);
    read.is_idempotent = registry_get_flag(&reader);
    read.previous_token = reader_get_zigzag(&reader);
    read.lease_id = reader_get_zigzag(&reader);
    *out_request = read;
    return registry_is_read(&reader);
}

void registry_registered_encode(struct buffer *out, const struct registry_registered *registered) {
    buffer_put_zigzag(out, registered->token);
    buffer_put_zigzag(out, registered->lease_id);
    buffer_put_zigzag(out, registered->ttl_ms);
    buffer_put_zigzag(out, registered->replaced_token);
}

bool registry_registered_decode(struct bytes answer, struct registry_registered *out_registered) {
    struct reader reader;
    reader_init(&reader, answer);
    out_registered->token = reader_get_zigzag(&reader);
    out_registered->lease_id = reader_get_zigzag(&reader);
    out_registered->ttl_ms = reader_get_zigzag(&reader);
    out_registered->replaced_token = reader_get_zigzag(&reader);
    return registry_is_read(&reader);
}

/* --- Deregister, state, metadata. --- */

void registry_deregister_encode(struct buffer *out, const struct registry_deregister *request) {
    buffer_put_bytes(out, request->service);
    buffer_put_bytes(out, request->id);
    buffer_put_zigzag(out, request->token);
    buffer_put_zigzag(out, request->drain_ms);
}

bool registry_deregister_decode(struct bytes request, struct registry_deregister *out_request) {
    struct reader reader;
    reader_init(&reader, request);
    out_request->service = reader_get_bytes(&reader);
    out_request->id = reader_get_bytes(&reader);
    out_request->token = reader_get_zigzag(&reader);
    out_request->drain_ms = reader_get_zigzag(&reader);
    return registry_is_read(&reader);
}

void registry_set_state_encode(struct buffer *out, const struct registry_set_state *request) {
    buffer_put_bytes(out, request->service);
    buffer_put_bytes(out, request->id);
    buffer_put_zigzag(out, request->token);
    buffer_put_u8(out, request->is_override);
    buffer_put_u8(out, request->state);
}

bool registry_set_state_decode(struct bytes request, struct registry_set_state *out_request) {
    struct reader reader;
    reader_init(&reader, request);
    out_request->service = reader_get_bytes(&reader);
    out_request->id = reader_get_bytes(&reader);
    out_request->token = reader_get_zigzag(&reader);
    out_request->is_override = registry_get_flag(&reader);
    out_request->state = reader_get_u8(&reader);
    return registry_is_read(&reader);
}

void registry_set_metadata_encode(struct buffer *out, const struct registry_set_metadata *request) {
    buffer_put_bytes(out, request->service);
    buffer_put_bytes(out, request->id);
    buffer_put_zigzag(out, request->token);
    registry_put_pairs(out, request->pairs, request->n_pairs);
    buffer_put_u8(out, request->replaces_extra);
    buffer_put_bytes(out, request->extra);
}

bool registry_set_metadata_decode(struct bytes request, struct arena *arena,
                                  struct registry_set_metadata *out_request) {
    struct reader reader;
    reader_init(&reader, request);
    out_request->service = reader_get_bytes(&reader);
    out_request->id = reader_get_bytes(&reader);
    out_request->token = reader_get_zigzag(&reader);
    out_request->pairs = registry_get_pairs(&reader, arena, &out_request->n_pairs);
    out_request->replaces_extra = registry_get_flag(&reader);
    out_request->extra = reader_get_bytes(&reader);
    return registry_is_read(&reader);
}

/* --- Checks. --- */

void registry_put_check_encode(struct buffer *out, const struct registry_put_check *request) {
    buffer_put_bytes(out, request->service);
    buffer_put_bytes(out, request->id);
    put_check(out, &request->check);
}

bool registry_put_check_decode(struct bytes request, struct arena *arena,
                               struct registry_put_check *out_request) {
    struct reader reader;
    struct registry_put_check read = {0};
    reader_init(&reader, request);
    read.service = reader_get_bytes(&reader);
    read.id = reader_get_bytes(&reader);
    get_check(&reader, arena, &read.check);
    *out_request = read;
    return registry_is_read(&reader);
}

void registry_delete_check_encode(struct buffer *out, const struct registry_delete_check *request) {
    buffer_put_bytes(out, request->service);
    buffer_put_bytes(out, request->id);
    buffer_put_bytes(out, request->check);
}

bool registry_delete_check_decode(struct bytes request, struct registry_delete_check *out_request) {
    struct reader reader;
    reader_init(&reader, request);
    out_request->service = reader_get_bytes(&reader);
    out_request->id = reader_get_bytes(&reader);
    out_request->check = reader_get_bytes(&reader);
    return registry_is_read(&reader);
}

/* The output without the rest of a letter that does not fit. */
static struct bytes cut(struct bytes output) {
    if (output.size > REGISTRY_TEXT_SIZE_MAX) {
        output.size = REGISTRY_TEXT_SIZE_MAX;
        while (output.size > 0 && (output.data[output.size] & 0xc0) == 0x80) {
            output.size--;
        }
    }
    return output;
}

void registry_reports_encode(struct buffer *out, const struct registry_report *reports, size_t n) {
    buffer_put_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        const struct registry_report *report = &reports[i];
        buffer_put_bytes(out, report->service);
        buffer_put_bytes(out, report->id);
        buffer_put_bytes(out, report->check);
        buffer_put_zigzag(out, report->token);
        buffer_put_u8(out, report->health);
        buffer_put_u8(out, report->keeps_output);
        buffer_put_bytes(out, cut(report->output));
    }
}

bool registry_reports_decode(struct bytes request, struct arena *arena,
                             const struct registry_report **out_reports, size_t *out_n) {
    enum { SIZE_MIN = 7 };
    struct reader reader;
    reader_init(&reader, request);
    size_t n = registry_get_count(&reader, SIZE_MIN, REGISTRY_REPORTS_MAX);
    struct registry_report *reports = arena_calloc(arena, n, sizeof *reports);
    for (size_t i = 0; i < n; i++) {
        reports[i].service = reader_get_bytes(&reader);
        reports[i].id = reader_get_bytes(&reader);
        reports[i].check = reader_get_bytes(&reader);
        reports[i].token = reader_get_zigzag(&reader);
        reports[i].health = registry_get_choice(&reader, REGISTRY_HEALTHS);
        reports[i].keeps_output = registry_get_flag(&reader);
        reports[i].output = cut(reader_get_bytes(&reader));
    }
    *out_reports = reports;
    *out_n = n;
    return registry_is_read(&reader);
}

void registry_reported_encode(struct buffer *out, const struct registry_reported *reported) {
    buffer_put_varint(out, reported->n_done);
    buffer_put_varint(out, reported->n_found);
}

bool registry_reported_decode(struct bytes answer, struct registry_reported *out_reported) {
    struct reader reader;
    reader_init(&reader, answer);
    out_reported->n_done = (size_t)registry_get_number(&reader, REGISTRY_REPORTS_MAX);
    out_reported->n_found = (size_t)registry_get_number(&reader, REGISTRY_REPORTS_MAX);
    return registry_is_read(&reader);
}

/* --- Settings, runners. --- */

void registry_settings_encode(struct buffer *out, const struct registry_settings *request) {
    buffer_put_bytes(out, request->service);
    registry_settings_put(out, &request->settings);
}

bool registry_settings_decode(struct bytes request, struct registry_settings *out_request) {
    struct reader reader;
    reader_init(&reader, request);
    out_request->service = reader_get_bytes(&reader);
    out_request->settings = registry_settings_get(&reader);
    return registry_is_read(&reader);
}

void registry_runner_encode(struct buffer *out, const struct registry_runner *request) {
    buffer_put_u64(out, request->member_id);
    buffer_put_zigzag(out, request->ttl_ms);
}

bool registry_runner_decode(struct bytes request, struct registry_runner *out_request) {
    struct reader reader;
    reader_init(&reader, request);
    out_request->member_id = reader_get_u64(&reader);
    out_request->ttl_ms = reader_get_zigzag(&reader);
    return registry_is_read(&reader);
}
