/* Checks of an instance: validity and codec. */
#include "core/lease_table.h"
#include "registry/registry_text_model.h"

enum { FORMAT = 1 };

static bool texts_are_valid(const struct registry_check *check) {
    return registry_text_is_valid(check->name, REGISTRY_TEXT_SIZE_MAX) &&
           registry_text_is_valid(check->notes, REGISTRY_TEXT_SIZE_MAX) &&
           check->target.size <= REGISTRY_TEXT_SIZE_MAX &&
           (check->kind == REGISTRY_CHECK_COMMAND ||
            registry_text_is_valid(check->target, REGISTRY_TEXT_SIZE_MAX)) &&
           registry_text_is_valid(check->method, REGISTRY_TEXT_SIZE_MAX) &&
           check->body.size <= REGISTRY_TEXT_SIZE_MAX &&
           check->body_match.size <= REGISTRY_TEXT_SIZE_MAX &&
           registry_word_is_valid(check->server_name) &&
           registry_word_is_valid(check->alias_service) &&
           registry_word_is_valid(check->alias_id) && check->output.size <= REGISTRY_TEXT_SIZE_MAX;
}

static bool has_target(const struct registry_check *check) {
    switch (check->kind) {
    case REGISTRY_CHECK_HTTP:
    case REGISTRY_CHECK_TCP:
    case REGISTRY_CHECK_GRPC:
    case REGISTRY_CHECK_COMMAND:
        return check->target.size > 0;
    case REGISTRY_CHECK_ALIAS:
        return check->alias_service.size > 0;
    default:
        return true;
    }
}

static bool is_run_by_server(const struct registry_check *check) {
    return check->kind >= REGISTRY_CHECK_HTTP && check->kind <= REGISTRY_CHECK_COMMAND;
}

static bool is_span(int64_t ms, int64_t min) {
    return ms >= min && ms <= LEASE_TTL_MS_MAX;
}

static bool times_are_valid(const struct registry_check *check) {
    return (is_run_by_server(check) ? is_span(check->interval_ms, REGISTRY_INTERVAL_MS_MIN)
                                    : is_span(check->interval_ms, 0)) &&
           is_span(check->timeout_ms, 0) &&
           is_span(check->ttl_ms, check->kind == REGISTRY_CHECK_TTL ? REGISTRY_TTL_MS_MIN : 0) &&
           (check->deregister_after_ms == 0 ||
            is_span(check->deregister_after_ms, REGISTRY_TTL_MS_MIN));
}

static size_t size_of(const struct registry_check *check) {
    enum { LENGTHS = 4, NUMBERS = 256 };
    size_t size = NUMBERS + check->name.size + check->notes.size + check->target.size +
                  check->method.size + check->body.size + check->body_match.size +
                  check->server_name.size + check->alias_service.size + check->alias_id.size +
                  REGISTRY_TEXT_SIZE_MAX; /* its output may grow */
    for (size_t i = 0; i < check->n_headers; i++) {
        size += 2 * LENGTHS + check->headers[i].key.size + check->headers[i].value.size;
    }
    return size;
}

bool registry_check_is_valid(const struct registry_check *check) {
    return registry_name_is_valid(check->id) && check->kind >= REGISTRY_CHECK_TTL &&
           check->kind < REGISTRY_CHECK_KINDS && check->origin >= REGISTRY_ORIGIN_NATIVE &&
           check->origin < REGISTRY_ORIGINS && check->health < REGISTRY_HEALTHS &&
           texts_are_valid(check) && has_target(check) &&
           registry_pairs_are_valid(check->headers, check->n_headers, true) &&
           times_are_valid(check) && size_of(check) <= REGISTRY_INSTANCE_SIZE_MAX;
}

void registry_check_encode(struct buffer *out, const struct registry_check *check) {
    buffer_put_u8(out, FORMAT);
    buffer_put_u8(out, check->kind);
    buffer_put_u8(out, check->origin);
    buffer_put_bytes(out, check->name);
    buffer_put_bytes(out, check->notes);
    buffer_put_bytes(out, check->target);
    buffer_put_bytes(out, check->method);
    registry_put_pairs(out, check->headers, check->n_headers);
    buffer_put_bytes(out, check->body);
    buffer_put_bytes(out, check->body_match);
    buffer_put_varint(out, check->status_min);
    buffer_put_varint(out, check->status_max);
    buffer_put_bytes(out, check->server_name);
    buffer_put_u8(out, check->is_tls);
    buffer_put_u8(out, check->skips_verification);
    buffer_put_bytes(out, check->alias_service);
    buffer_put_bytes(out, check->alias_id);
    buffer_put_zigzag(out, check->interval_ms);
    buffer_put_zigzag(out, check->timeout_ms);
    buffer_put_zigzag(out, check->ttl_ms);
    buffer_put_varint(out, check->rises);
    buffer_put_varint(out, check->falls);
    buffer_put_zigzag(out, check->deregister_after_ms);
    buffer_put_u8(out, check->health);
    buffer_put_bytes(out, check->output);
    buffer_put_zigzag(out, check->changed_wall_ms);
    buffer_put_zigzag(out, check->ttl_lease_id);
    buffer_put_zigzag(out, check->deregister_lease_id);
}

static void get_question(struct reader *reader, struct arena *arena, struct registry_check *check) {
    check->kind = registry_get_choice(reader, REGISTRY_CHECK_KINDS);
    check->origin = registry_get_choice(reader, REGISTRY_ORIGINS);
    check->name = reader_get_bytes(reader);
    check->notes = reader_get_bytes(reader);
    check->target = reader_get_bytes(reader);
    check->method = reader_get_bytes(reader);
    check->headers = registry_get_pairs(reader, arena, &check->n_headers);
    check->body = reader_get_bytes(reader);
    check->body_match = reader_get_bytes(reader);
    check->status_min = (uint16_t)registry_get_number(reader, UINT16_MAX);
    check->status_max = (uint16_t)registry_get_number(reader, UINT16_MAX);
    check->server_name = reader_get_bytes(reader);
    check->is_tls = registry_get_flag(reader);
    check->skips_verification = registry_get_flag(reader);
    check->alias_service = reader_get_bytes(reader);
    check->alias_id = reader_get_bytes(reader);
}

bool registry_check_decode(struct bytes value, struct arena *arena,
                           struct registry_check *out_check) {
    struct reader reader;
    struct registry_check check = {0};
    reader_init(&reader, value);
    if (reader_get_u8(&reader) != FORMAT) {
        return false;
    }
    get_question(&reader, arena, &check);
    check.interval_ms = reader_get_zigzag(&reader);
    check.timeout_ms = reader_get_zigzag(&reader);
    check.ttl_ms = reader_get_zigzag(&reader);
    check.rises = (uint32_t)registry_get_number(&reader, UINT32_MAX);
    check.falls = (uint32_t)registry_get_number(&reader, UINT32_MAX);
    check.deregister_after_ms = reader_get_zigzag(&reader);
    check.health = registry_get_choice(&reader, REGISTRY_HEALTHS);
    check.output = reader_get_bytes(&reader);
    check.changed_wall_ms = reader_get_zigzag(&reader);
    check.ttl_lease_id = reader_get_zigzag(&reader);
    check.deregister_lease_id = reader_get_zigzag(&reader);
    if (!registry_is_read(&reader)) {
        return false;
    }
    *out_check = check;
    return true;
}
