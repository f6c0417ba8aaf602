#include "doors/consul/consul_call_internal.h"

#include "doors/consul/consul_model.h"
#include "doors/consul/consul_routes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { QUERY_FIELDS_MAX = 128 };

/* --- Life. --- */

static void free_if_done(struct consul_call *call) {
    if (call->exchange != NULL || call->n_pending > 0) {
        return;
    }
    json_decref(call->given);
    buffer_clear(&call->body);
    buffer_clear(&call->position.service);
    buffer_clear(&call->position.id);
    arena_clear(&call->filter_arena);
    arena_clear(&call->scratch);
    arena_clear(&call->arena);
    free(call);
}

/* Each tag and each pair of meta is looked for in every record of a list. */
static bool has_long_query(const struct consul_call *call) {
    size_t position = 0;
    size_t n = 0;
    struct http_field field;
    while (n <= QUERY_FIELDS_MAX && http_next_query(call->exchange, &position, &field)) {
        n++;
    }
    return n > QUERY_FIELDS_MAX;
}

void consul_call_on_body(struct http_exchange *exchange, struct bytes body, bool is_last) {
    struct consul_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        abort();
    }
    (void)is_last; /* no route streams its body */
    call->door = http_context(exchange);
    call->exchange = exchange;
    call->status = 200;
    call->content_type = "application/json";
    arena_init(&call->arena);
    arena_init(&call->scratch);
    arena_init(&call->filter_arena);
    buffer_init(&call->body);
    buffer_init(&call->position.service);
    buffer_init(&call->position.id);
    consul_json_init(&call->json, &call->body);
    http_set_data(exchange, call);
    call->door->n_requests++;
    if (has_long_query(call)) {
        consul_call_fail(call, 400, "Invalid query: more than %d parameters", QUERY_FIELDS_MAX);
        return;
    }
    consul_route_of(exchange)->handle(call, body);
}

void consul_call_on_close(struct http_exchange *exchange) {
    struct consul_call *call = http_data(exchange);
    if (call == NULL) {
        return;
    }
    http_set_data(exchange, NULL);
    call->exchange = NULL;
    consul_call_stop_waiting(call);
    consul_scan_stop(call);
    free_if_done(call);
}

void consul_call_on_writable(struct http_exchange *exchange) {
    struct consul_call *call = http_data(exchange);
    if (call != NULL) {
        consul_scan_go_on(call);
    }
}

/* A client that waits for a change and has closed its side is gone: its query would wait for its
 * whole time. */
void consul_call_on_input_end(struct http_exchange *exchange) {
    const struct consul_call *call = http_data(exchange);
    if (call != NULL && call->deadline_ms != 0) {
        http_abort(exchange);
    }
}

static bool shows_token(const struct http_exchange *exchange) {
    struct bytes ignored;
    return http_header(exchange, "x-consul-token", &ignored) ||
           http_header(exchange, "authorization", &ignored) ||
           http_query(exchange, "token", &ignored);
}

void consul_call_on_refused(struct http_exchange *exchange) {
    const char *text = shows_token(exchange) ? "ACL not found" : "Permission denied";
    http_reply(exchange, 403, "text/plain; charset=utf-8", bytes_from_text(text));
}

/* --- The request. --- */

struct bytes consul_call_keep(struct consul_call *call, struct bytes bytes) {
    return bytes_of(arena_copy(&call->arena, bytes.data, bytes.size), bytes.size);
}

static bool find_field(const struct http_field *fields, size_t n, const char *name,
                       struct bytes *out_value) {
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(fields[i].name, bytes_from_text(name))) {
            *out_value = fields[i].value;
            return true;
        }
    }
    return false;
}

static bool find_query(const struct consul_call *call, const char *name, struct bytes *out_value) {
    return call->is_detached ? find_field(call->fields + call->n_path_fields,
                                          call->n_fields - call->n_path_fields, name, out_value)
                             : http_query(call->exchange, name, out_value);
}

struct bytes consul_call_path(const struct consul_call *call, const char *name) {
    struct bytes value = {0};
    (void)(call->is_detached ? find_field(call->fields, call->n_path_fields, name, &value)
                             : http_parameter(call->exchange, name, &value));
    return value;
}

bool consul_call_has(const struct consul_call *call, const char *name) {
    struct bytes ignored;
    return find_query(call, name, &ignored);
}

struct bytes consul_call_text(const struct consul_call *call, const char *name) {
    struct bytes value = bytes_of("", 0);
    (void)find_query(call, name, &value);
    return value;
}

bool consul_call_next_query(const struct consul_call *call, size_t *position,
                            struct http_field *out_field) {
    if (!call->is_detached) {
        return http_next_query(call->exchange, position, out_field);
    }
    if (call->n_path_fields + *position >= call->n_fields) {
        return false;
    }
    *out_field = call->fields[call->n_path_fields + (*position)++];
    return true;
}

static void keep_field(struct consul_call *call, struct bytes name, struct bytes value) {
    call->fields[call->n_fields++] = (struct http_field){.name = consul_call_keep(call, name),
                                                         .value = consul_call_keep(call, value)};
}

void consul_call_detach(struct consul_call *call) {
    static const char *const names[] = {"check", "id", "key", "node", "service", "state"};
    size_t n_names = sizeof names / sizeof names[0];
    size_t position = 0;
    size_t n = 0;
    struct http_field field;
    struct bytes value;
    if (call->is_detached) {
        return;
    }
    while (http_next_query(call->exchange, &position, &field)) {
        n++;
    }
    call->fields = arena_calloc(&call->arena, n_names + n, sizeof *call->fields);
    for (size_t i = 0; i < n_names; i++) {
        if (http_parameter(call->exchange, names[i], &value)) {
            keep_field(call, bytes_from_text(names[i]), value);
        }
    }
    call->n_path_fields = call->n_fields;
    position = 0;
    while (http_next_query(call->exchange, &position, &field)) {
        keep_field(call, field.name, field.value);
    }
    call->is_detached = true;
}

static bool read_number(struct bytes text, uint64_t *out_value) {
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint64_t digit = (uint64_t)text.data[i] - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out_value = value;
    return text.size > 0;
}

bool consul_call_number(struct consul_call *call, const char *name, uint64_t *out_value) {
    struct bytes text;
    if (!http_query(call->exchange, name, &text) || read_number(text, out_value)) {
        return true;
    }
    consul_call_fail(call, 500, "strconv.ParseUint: parsing \"%.*s\": invalid syntax",
                     (int)(text.size < 64 ? text.size : 64), (const char *)text.data);
    return false;
}

bool consul_call_read_body(struct consul_call *call, struct bytes body) {
    char why[160];
    call->given = consul_json_parse(body, why, sizeof why);
    if (call->given != NULL && json_is_object(call->given)) {
        return true;
    }
    consul_call_fail(call, 400, "Request decode failed: %s",
                     call->given == NULL ? why : "expected an object");
    return false;
}

bool consul_call_check_dc(struct consul_call *call) {
    struct bytes dc = consul_call_text(call, "dc");
    if (dc.size == 0 || bytes_equal(dc, bytes_from_text(call->door->datacenter))) {
        return true;
    }
    consul_call_fail(call, 500, "No path to datacenter");
    return false;
}

/* --- The answer. --- */

static void add_field(struct http_field *fields, size_t *n, const char *name, const char *value) {
    fields[(*n)++] =
        (struct http_field){.name = bytes_from_text(name), .value = bytes_from_text(value)};
}

/* What every read says of itself. */
static void add_query_fields(const struct consul_call *call, struct http_field *fields, size_t *n,
                             char *index_text) {
    struct service_info info;
    service_info(call->door->service, &info);
    snprintf(index_text, 24, "%" PRIu64, consul_call_index(call));
    add_field(fields, n, "x-consul-index", index_text);
    add_field(fields, n, "x-consul-knownleader", info.leader_id != 0 ? "true" : "false");
    add_field(fields, n, "x-consul-lastcontact", "0");
    add_field(fields, n, "x-consul-effective-consistency",
              call->is_stale                        ? "stale"
              : consul_call_has(call, "consistent") ? "consistent"
                                                    : "leader");
    add_field(fields, n, "x-consul-query-backend", "blocking-query");
    if (call->is_cached) {
        add_field(fields, n, "x-cache", "HIT");
        add_field(fields, n, "age", "0");
    } else if (consul_call_has(call, "cached")) {
        add_field(fields, n, "x-cache", "MISS");
    }
}

enum { FIELDS_MAX = 16, INDEX_TEXT_SIZE = 24 };

static size_t make_fields(const struct consul_call *call, const char *type,
                          char index_text[INDEX_TEXT_SIZE],
                          struct http_field out_fields[FIELDS_MAX]) {
    size_t n = 0;
    add_field(out_fields, &n, "content-type", type);
    add_field(out_fields, &n, "vary", "Accept-Encoding");
    add_field(out_fields, &n, "x-consul-default-acl-policy", "allow");
    if (call->query != NULL && call->own_index + call->bound_index > 0) {
        add_query_fields(call, out_fields, &n, index_text);
    }
    if (strcmp(type, "text/plain") == 0) { /* somebody's value, not for browsers to run */
        add_field(out_fields, &n, "x-content-type-options", "nosniff");
        add_field(out_fields, &n, "content-security-policy", "sandbox");
    }
    return n;
}

static void send_answer(struct consul_call *call, unsigned status, const char *type,
                        struct bytes body) {
    struct http_field fields[FIELDS_MAX];
    char index_text[INDEX_TEXT_SIZE];
    size_t n = make_fields(call, type, index_text, fields);
    consul_call_stop_waiting(call);
    http_reply_fields(call->exchange, status, fields, n, body);
    /* It was copied, and the call lives until the client has taken it. */
    buffer_clear(&call->body);
    arena_clear(&call->scratch);
}

void consul_call_start(struct consul_call *call, unsigned status) {
    struct http_field fields[FIELDS_MAX];
    char index_text[INDEX_TEXT_SIZE];
    size_t n = make_fields(call, call->content_type, index_text, fields);
    http_start(call->exchange, status, fields, n);
}

/* As people want it who ask with ?pretty. */
static void make_pretty(struct consul_call *call) {
    json_error_t error;
    json_t *value = json_loadb((const char *)call->body.data, call->body.size,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    char *text = value != NULL ? json_dumps(value, JSON_INDENT(4) | JSON_ENCODE_ANY) : NULL;
    if (text != NULL) {
        call->body.size = 0;
        buffer_append(&call->body, text, strlen(text));
        buffer_put_u8(&call->body, '\n');
    }
    free(text);
    json_decref(value);
}

void consul_call_reply(struct consul_call *call, unsigned status) {
    if (call->exchange == NULL || consul_search_start(call)) {
        return;
    }
    if (call->has_unknown_selector) {
        consul_call_fail(call, 400,
                         "Failed to create boolean expression evaluator: a selector is not valid");
        return;
    }
    if (call->body.size > 0 && strcmp(call->content_type, "application/json") == 0 &&
        consul_call_has(call, "pretty")) {
        make_pretty(call);
    }
    send_answer(call, status, call->content_type, bytes_of(call->body.data, call->body.size));
}

void consul_call_reply_empty(struct consul_call *call, unsigned status) {
    call->body.size = 0;
    consul_call_reply(call, status);
}

void consul_call_reply_bool(struct consul_call *call, bool is_true) {
    consul_json_bool(&call->json, is_true);
    consul_call_reply(call, 200);
}

void consul_call_fail(struct consul_call *call, unsigned status, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (consul_search_start(call)) { /* what was looked for may be there */
        return;
    }
    if (call->exchange != NULL) {
        call->own_index = call->bound_index = 0;
        send_answer(call, status, "text/plain; charset=utf-8", bytes_from_text(text));
    }
}

void consul_call_fail_status(struct consul_call *call, enum status status) {
    switch (status) {
    case STATUS_PERMISSION_DENIED:
    case STATUS_USER_EMPTY:
        consul_call_fail(call, 403, "Permission denied");
        return;
    case STATUS_AUTH_TOKEN_INVALID:
    case STATUS_AUTH_OLD_REVISION:
        consul_call_fail(call, 403, "ACL not found");
        return;
    case STATUS_NO_LEADER:
    case STATUS_LEADER_CHANGED:
        consul_call_fail(call, 500, "No cluster leader");
        return;
    case STATUS_TOO_MANY_REQUESTS:
        consul_call_fail(call, 429,
                         "rate limit exceeded, try again later or against a different "
                         "server");
        return;
    case STATUS_REQUEST_TOO_LARGE:
        consul_call_fail(call, 413, "%s", status_text(status));
        return;
    default:
        consul_call_fail(call, 500, "%s", status_text(status));
    }
}

/* --- The service. --- */

static void on_done(struct service_request *request, const struct outcome *outcome) {
    struct consul_call *call = list_entry(request, struct consul_call, request);
    call->n_pending--;
    if (call->exchange == NULL) {
        free_if_done(call);
        return;
    }
    call->done(call, outcome);
}

void consul_call_submit(struct consul_call *call, uint32_t rule, const struct buffer *request,
                        void (*done)(struct consul_call *call, const struct outcome *outcome)) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = rule, .request = bytes_of(request->data, request->size)}};
    call->done = done;
    call->request.done = on_done;
    call->n_pending++;
    service_submit(call->door->service, http_caller(call->exchange), &call->request, &command);
}

static void on_renewed(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct consul_call *call = list_entry(renewal, struct consul_call, renewal);
    (void)ttl_ms;
    call->n_pending--;
    if (call->exchange == NULL) {
        free_if_done(call);
        return;
    }
    call->renewed(call, status);
}

void consul_call_renew(struct consul_call *call, int64_t lease_id, struct key_space_id owner,
                       void (*renewed)(struct consul_call *call, enum status status)) {
    int64_t ignored;
    call->renewed = renewed;
    call->renewal.id = lease_id;
    call->renewal.owner = owner;
    call->renewal.done = on_renewed;
    call->n_pending++;
    enum status status =
        service_renew(call->door->service, http_caller(call->exchange), &call->renewal, &ignored);
    if (status != STATUS_PENDING) {
        call->n_pending--;
        renewed(call, status);
    }
}

void consul_call_add_range(struct consul_call *call, struct key_range range) {
    if (call->n_ranges == CONSUL_RANGES_MAX) {
        abort();
    }
    call->ranges[call->n_ranges++] = range;
}

const struct key_store *consul_call_keys(const struct consul_call *call) {
    return state_view_keys(service_view(call->door->service));
}

void consul_call_unpend(struct consul_call *call) {
    call->n_pending--;
    free_if_done(call);
}

struct bytes consul_call_uuid(struct consul_call *call) {
    uint8_t random[16];
    size_t size = 0;
    while (size < sizeof random) {
        ssize_t got = getrandom(random + size, sizeof random - size, 0);
        if (got < 0 && errno != EINTR) {
            abort();
        }
        size += got > 0 ? (size_t)got : 0;
    }
    random[6] = (uint8_t)(0x40 | (random[6] & 0x0f));
    random[8] = (uint8_t)(0x80 | (random[8] & 0x3f));
    char *text = arena_alloc(&call->arena, CONSUL_UUID_SIZE + 1);
    char *at = text;
    for (size_t i = 0; i < sizeof random; i++) {
        at += snprintf(at, 4, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", random[i]);
    }
    return bytes_of(text, CONSUL_UUID_SIZE);
}
