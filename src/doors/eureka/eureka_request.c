#include "doors/eureka/eureka_internal.h"

#include "base/list.h"
#include "doors/eureka/eureka_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- Its life. --- */

static void destroy(struct eureka_request *request) {
    arena_clear(&request->arena);
    free(request);
}

static struct bytes copy(struct arena *arena, struct bytes bytes) {
    return bytes_of(arena_copy(arena, bytes.data, bytes.size), bytes.size);
}

struct eureka_request *eureka_request_create(struct http_exchange *exchange) {
    struct eureka_request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        eureka_http_status(exchange, STATUS_NO_MEMORY);
        return NULL;
    }
    struct bytes name;
    request->door = http_context(exchange);
    request->exchange = exchange;
    request->caller = *http_caller(exchange);
    arena_init(&request->arena);
    if (http_parameter(exchange, "app", &name)) {
        request->service_name = copy(&request->arena, name);
    }
    if (http_parameter(exchange, "id", &name)) {
        request->id = copy(&request->arena, name);
    }
    http_set_data(exchange, request);
    return request;
}

void eureka_request_closed(struct http_exchange *exchange) {
    struct eureka_request *request = http_data(exchange);
    if (request == NULL) {
        return;
    }
    request->exchange = NULL;
    if (!request->is_waiting) {
        destroy(request);
    }
}

/* Takes the exchange out of the request, to be answered; NULL: the client is gone. */
static struct http_exchange *end(struct eureka_request *request) {
    struct http_exchange *exchange = request->exchange;
    assert(!request->is_waiting);
    if (exchange != NULL) {
        http_set_data(exchange, NULL);
    }
    return exchange;
}

void eureka_request_finish(struct eureka_request *request, unsigned http_status) {
    struct http_exchange *exchange = end(request);
    if (exchange != NULL) {
        http_reply_fields(exchange, http_status, NULL, 0, bytes_of(NULL, 0));
    }
    destroy(request);
}

void eureka_request_answer(struct eureka_request *request, enum eureka_format format,
                           struct bytes document) {
    eureka_http_document(end(request), format, document);
    destroy(request);
}

void eureka_request_fail(struct eureka_request *request, unsigned http_status, const char *text) {
    struct http_exchange *exchange = end(request);
    if (exchange != NULL) {
        eureka_http_error(exchange, http_status, text);
    }
    destroy(request);
}

void eureka_request_fail_status(struct eureka_request *request, enum status status) {
    struct http_exchange *exchange = end(request);
    if (exchange != NULL) {
        eureka_http_status(exchange, status);
    }
    destroy(request);
}

/* --- Its steps. --- */

static void go_on(struct eureka_request *request, enum status status) {
    request->is_waiting = false;
    request->next(request, status);
}

static void submitted(struct service_request *call, const struct outcome *outcome) {
    go_on(list_entry(call, struct eureka_request, call.submit), outcome->status);
}

void eureka_request_submit(struct eureka_request *request, uint32_t rule, const struct buffer *body,
                           void (*next)(struct eureka_request *request, enum status status)) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = rule, .request = bytes_of(body->data, body->size)}};
    request->next = next;
    request->is_waiting = true;
    request->call.submit = (struct service_request){.done = submitted};
    service_submit(request->door->service, &request->caller, &request->call.submit, &command);
}

static void read_ready(struct service_read *call, enum status status) {
    go_on(list_entry(call, struct eureka_request, call.read), status);
}

void eureka_request_read(struct eureka_request *request, const struct key_range *range,
                         void (*next)(struct eureka_request *request, enum status status)) {
    request->next = next;
    request->is_waiting = true;
    request->call.read = (struct service_read){.ready = read_ready};
    enum status status =
        service_read(request->door->service, range != NULL ? &request->caller : &caller_server,
                     &request->call.read, range, range != NULL ? 1 : 0);
    if (status != STATUS_PENDING) {
        go_on(request, status);
    }
}

static void renewed(struct service_renewal *call, enum status status, int64_t ttl_ms) {
    (void)ttl_ms;
    go_on(list_entry(call, struct eureka_request, call.renewal), status);
}

void eureka_request_renew(struct eureka_request *request, int64_t lease_id,
                          void (*next)(struct eureka_request *request, enum status status)) {
    int64_t ttl_ms;
    request->next = next;
    request->is_waiting = true;
    request->call.renewal =
        (struct service_renewal){.id = lease_id, .owner = KEY_SPACE_REGISTRY, .done = renewed};
    enum status status =
        service_renew(request->door->service, &request->caller, &request->call.renewal, &ttl_ms);
    if (status != STATUS_PENDING) {
        go_on(request, status);
    }
}

/* --- The instance that it names. --- */

/* Another protocol may have registered it under a name with capitals. */
bool eureka_request_find(struct eureka_request *request, struct registry_entry *out_entry) {
    const struct key_store *keys = eureka_door_keys(request->door);
    struct bytes asked = request->service_name;
    uint8_t *lower = arena_alloc(&request->arena, asked.size);
    uint8_t *upper = arena_alloc(&request->arena, asked.size);
    eureka_text_lower(lower, asked);
    eureka_text_upper(upper, asked);
    const struct bytes names[] = {bytes_of(lower, asked.size), asked, bytes_of(upper, asked.size)};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (registry_view_find(keys, &request->arena, names[i], request->id, out_entry)) {
            request->service_name = names[i];
            return true;
        }
    }
    request->service_name = names[0];
    return false;
}
