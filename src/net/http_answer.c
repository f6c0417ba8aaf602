/* The answers that routes give (http.h): a whole one, or a stream. */
#include "net/http_exchange.h"
#include "net/route_table.h"

#include <assert.h>
#include <string.h>

enum {
    FIELDS_MAX = HTTP_ANSWER_FIELDS_MAX - 2,
    OWN_FIELDS_MAX = FIELDS_MAX - HTTP_FILTER_FIELDS_MAX
};

/* RFC 9110, 15.3.5 and 15.4.5: these never have a body. */
static bool is_without_body(unsigned status) {
    return status == 204 || status == 304;
}

static bool is_name(struct bytes name) {
    for (size_t i = 0; i < name.size; i++) {
        uint8_t character = name.data[i];
        bool is_valid = (character >= 'a' && character <= 'z') ||
                        (character >= '0' && character <= '9') || character == '-' ||
                        character == '_' || character == '.';
        if (!is_valid) {
            return false;
        }
    }
    return name.size > 0;
}

static bool is_control(uint8_t character) {
    return (character < 0x20 && character != '\t') || character == 0x7f;
}

static bool has_control(struct bytes value) {
    for (size_t i = 0; i < value.size; i++) {
        if (is_control(value.data[i])) {
            return true;
        }
    }
    return false;
}

/* A value may hold a text of a client, which must not become a header of its own. */
static struct bytes without_control(struct bytes value, struct buffer *storage) {
    uint8_t *to = buffer_reserve(storage, value.size);
    for (size_t i = 0; i < value.size; i++) {
        to[i] = is_control(value.data[i]) ? ' ' : value.data[i];
    }
    storage->size += value.size;
    return bytes_of(to, value.size);
}

/* The fields of the answer and those that every answer of the listener has. */
static size_t gather(struct http_exchange *exchange, const struct http_field *fields,
                     size_t n_fields, struct http_field *out) {
    const struct route_table *routes = exchange->session->routes;
    assert(n_fields <= OWN_FIELDS_MAX);
    if (n_fields > 0) {
        memcpy(out, fields, n_fields * sizeof *fields);
    }
    return routes->filter == NULL ? n_fields
                                  : n_fields + routes->filter->fields(routes->filter_context,
                                                                      exchange, out + n_fields);
}

static void start(struct http_exchange *exchange, unsigned status,
                  const struct http_field *own_fields, size_t n_own_fields, uint64_t length) {
    struct http_field fields[FIELDS_MAX];
    struct http_field clean[FIELDS_MAX];
    size_t n_fields = gather(exchange, own_fields, n_own_fields, fields);
    assert(n_fields <= FIELDS_MAX);
    size_t dirty_size = 0;
    for (size_t i = 0; i < n_fields; i++) {
        assert(is_name(fields[i].name));
        assert(!bytes_equal(fields[i].name, bytes_from_text("content-length")));
        dirty_size += has_control(fields[i].value) ? fields[i].value.size : 0;
    }
    struct buffer storage;
    buffer_init(&storage);
    if (dirty_size > 0) {
        buffer_reserve(&storage, dirty_size); /* at once, so that nothing moves */
    }
    for (size_t i = 0; i < n_fields; i++) {
        clean[i] = fields[i];
        if (has_control(fields[i].value)) {
            clean[i].value = without_control(fields[i].value, &storage);
            clean[i].is_constant = false;
        }
    }
    if (is_without_body(status)) {
        exchange->is_bodyless = true;
        length = HTTP_LENGTH_UNKNOWN;
    }
    const struct http_answer answer = {
        .status = status,
        .fields = clean,
        .n_fields = n_fields,
        .length = length,
        .has_body = !exchange->is_bodyless && length > 0,
    };
    http_exchange_start(exchange, &answer);
    buffer_clear(&storage);
}

void http_start(struct http_exchange *exchange, unsigned status, const struct http_field *fields,
                size_t n_fields) {
    if (http_exchange_is_over(exchange)) {
        return;
    }
    assert(!exchange->is_response_started);
    start(exchange, status, fields, n_fields, HTTP_LENGTH_UNKNOWN);
}

void http_send(struct http_exchange *exchange, struct bytes bytes) {
    if (http_exchange_is_over(exchange) || bytes.size == 0) {
        return;
    }
    assert(exchange->is_response_started);
    memcpy(http_exchange_reserve(exchange, bytes.size), bytes.data, bytes.size);
    http_exchange_commit(exchange, bytes.size);
}

void http_finish(struct http_exchange *exchange) {
    if (http_exchange_is_over(exchange)) {
        return;
    }
    assert(exchange->is_response_started);
    http_exchange_finish(exchange);
}

void http_abort(struct http_exchange *exchange) {
    if (!http_exchange_is_over(exchange)) {
        http_exchange_cut_off(exchange);
    }
}

void http_reply_fields(struct http_exchange *exchange, unsigned status,
                       const struct http_field *fields, size_t n_fields, struct bytes body) {
    if (http_exchange_is_over(exchange)) {
        return;
    }
    assert(!exchange->is_response_started);
    start(exchange, status, fields, n_fields, body.size);
    http_send(exchange, body);
    http_exchange_finish(exchange);
}

void http_reply(struct http_exchange *exchange, unsigned status, const char *content_type,
                struct bytes body) {
    const struct http_field type = {.name = bytes_from_text("content-type"),
                                    .value = bytes_from_text(content_type)};
    http_reply_fields(exchange, status, &type, 1, body);
}

bool http_is_writable(struct http_exchange *exchange) {
    const struct http_route *route = http_route_of(exchange);
    return http_exchange_is_writable(exchange, route != NULL && route->on_writable != NULL);
}

bool http_has_room(const struct http_exchange *exchange) {
    return http_exchange_has_room(exchange);
}

bool http_has_spare_room(const struct http_exchange *exchange) {
    return http_session_has_spare_room(exchange->session);
}

bool http_hold(struct http_exchange *exchange, size_t size) {
    return http_exchange_hold(exchange, size);
}

void http_release(struct http_exchange *exchange, size_t size) {
    http_exchange_release(exchange, size);
}
