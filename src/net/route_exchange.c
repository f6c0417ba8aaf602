#include "net/route_exchange.h"

#include "net/http_fields.h"
#include "net/http_target.h"
#include "net/route_tree.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct route_exchange {
    struct http_exchange exchange;
    const struct http_route *route; /* NULL: refused */
    char method[HTTP_METHOD_SIZE_MAX + 1];
    struct bytes path; /* in `target` */
    struct buffer target;
    struct buffer parameters;
    struct buffer query;
    struct buffer body; /* whole, or what came while the caller was being authenticated */
    uint64_t body_size; /* what came in all */
    struct net_timer timer;
    void (*fired)(struct http_exchange *exchange);
    const struct route_node *node; /* whose methods a 405 names; NULL: those of gRPC */
    const char *refusal_text;      /* NULL: what the status says */
    unsigned refusal;              /* answered when the request is complete; 0: none */
    bool is_opened;                /* the door knows it */
    bool is_waiting;               /* for the authenticator */
    bool is_request_due;           /* on_request comes when it is sure that there is no body */
    bool expects_continue;
    bool is_complete; /* the request has no body */
};

static const struct http_handler route_handler;

static struct route_exchange *route_exchange_of(struct http_exchange *exchange) {
    assert(exchange->handler == &route_handler);
    return list_entry(exchange, struct route_exchange, exchange);
}

static const struct route_exchange *const_route_exchange_of(const struct http_exchange *exchange) {
    assert(exchange->handler == &route_handler);
    return (const struct route_exchange *)exchange;
}
_Static_assert(offsetof(struct route_exchange, exchange) == 0, "the exchange comes first");

static struct net_shared *shared_of(const struct route_exchange *serving) {
    return serving->exchange.session->shared;
}

/* --- life ---------------------------------------------------------------------------------- */

static void on_timer(struct net_timer *timer) {
    struct route_exchange *serving = list_entry(timer, struct route_exchange, timer);
    if (!http_exchange_is_over(&serving->exchange)) {
        serving->fired(&serving->exchange);
    }
}

static void swap(struct buffer *a, struct buffer *b) {
    struct buffer kept = *a;
    *a = *b;
    *b = kept;
}

struct http_exchange *route_exchange_create(struct http_session *session,
                                            struct http_request *request, int32_t stream_id) {
    struct route_exchange *serving = calloc(1, sizeof *serving);
    if (serving == NULL) {
        abort();
    }
    struct http_exchange *exchange = &serving->exchange;
    http_exchange_init(exchange, session, &route_handler, stream_id);
    net_timer_init(&serving->timer, on_timer);
    memcpy(serving->method, request->method, sizeof serving->method);
    swap(&serving->target, &request->target);
    swap(&exchange->fields, &request->fields);
    exchange->has_length = request->has_length;
    exchange->length_left = request->has_length ? request->length : 0;
    exchange->is_bodyless = strcmp(serving->method, "HEAD") == 0;
    serving->refusal = request->refusal;
    serving->refusal_text = request->refusal_text;
    serving->expects_continue = request->expects_continue;
    serving->is_complete = request->is_complete;
    return exchange;
}

static void release_body(struct route_exchange *serving) {
    buffer_clear(&serving->body);
    http_exchange_count_partial(&serving->exchange, 0);
}

static void on_close(struct http_exchange *exchange) {
    struct route_exchange *serving = route_exchange_of(exchange);
    struct net_shared *shared = shared_of(serving);
    net_timers_disarm(shared->timers, &serving->timer);
    release_body(serving);
    if (serving->is_waiting) {
        serving->is_waiting = false;
        shared->authenticator->cancel(shared->authenticator_context, exchange);
    }
    if (serving->is_opened && serving->route->on_close != NULL) {
        serving->route->on_close(exchange);
    }
}

static void give_back(struct http_exchange *exchange) {
    struct route_exchange *serving = route_exchange_of(exchange);
    http_exchange_leave(exchange);
    http_exchange_clear(exchange);
    buffer_clear(&serving->target);
    buffer_clear(&serving->parameters);
    buffer_clear(&serving->query);
    buffer_clear(&serving->body);
    free(serving);
}

/* --- refusals ------------------------------------------------------------------------------ */

static const char *text_of(unsigned status) {
    switch (status) {
    case 400:
        return "the path or the query of the request is malformed\n";
    case 401:
        return "authentication is needed\n";
    case 404:
        return "404 page not found\n";
    case 405:
        return "method not allowed\n";
    case 408:
        return "the request did not arrive in time\n";
    case 413:
        return "the body of the request is too large\n";
    case 414:
        return "the path and query of the request are too long\n";
    case 415:
        return "the content type of the body is not one that is served here\n";
    case 417:
        return "only \"100-continue\" can be expected\n";
    case 431:
        return "the headers of the request are too large\n";
    case 501:
        return "the method is not known\n";
    case 505:
        return "gRPC needs HTTP/2\n";
    default:
        return "the server cannot answer this request now\n";
    }
}

static void answer_refusal(struct route_exchange *serving, unsigned status) {
    static const struct http_field type = HTTP_FIELD("content-type", "text/plain; charset=utf-8");
    struct http_field fields[2] = {type};
    size_t n = 1;
    struct buffer allowed;
    buffer_init(&allowed);
    if (status == 405 && serving->node != NULL) {
        route_tree_allowed(serving->node, &allowed);
        fields[n++] = (struct http_field){.name = bytes_from_text("allow"),
                                          .value = bytes_of(allowed.data, allowed.size)};
    } else if (status == 405) {
        fields[n++] = HTTP_FIELD("allow", "POST");
    } else if (status == 401) {
        fields[n++] = HTTP_FIELD("www-authenticate", "Basic realm=\"leased\"");
    }
    const char *text = serving->refusal_text != NULL ? serving->refusal_text : text_of(status);
    http_reply_fields(&serving->exchange, status, fields, n, bytes_from_text(text));
    buffer_clear(&allowed);
}

/* A client that is still sending may not read yet, and HTTP/1 can go on with the next request only
 * behind the body. So a small body is awaited, unless the client waits for us. */
static void refuse(struct route_exchange *serving, unsigned status) {
    const struct http_exchange *exchange = &serving->exchange;
    serving->refusal = status;
    if (serving->is_complete || exchange->is_half_closed || serving->expects_continue ||
        status == 431 || exchange->length_left > HTTP_DROPPED_BODY_MAX) {
        answer_refusal(serving, status);
    }
}

void route_exchange_fail(struct http_exchange *exchange, unsigned status, const char *text) {
    struct route_exchange *serving = route_exchange_of(exchange);
    if (http_exchange_is_over(exchange)) {
        return;
    }
    if (exchange->is_response_started) {
        http_exchange_cut_off(exchange);
        return;
    }
    serving->refusal_text = text;
    answer_refusal(serving, status);
}

/* --- opening ------------------------------------------------------------------------------- */

static bool has_wrong_type(const struct route_exchange *serving) {
    struct bytes type;
    const char *wanted = serving->route->body_type;
    if (wanted == NULL || serving->is_complete ||
        !http_fields_find(&serving->exchange.fields, "content-type", &type)) {
        return false;
    }
    size_t size = strlen(wanted);
    return type.size < size || strncasecmp((const char *)type.data, wanted, size) != 0 ||
           (type.size > size && type.data[size] != ';' && type.data[size] != ' ');
}

/* The HTTP status of a refusal; 0: none. */
static unsigned find_route(struct route_exchange *serving) {
    struct bytes query;
    http_target_split(bytes_of(serving->target.data, serving->target.size), &serving->path, &query);
    struct route_match match;
    if (!route_tree_find(&serving->exchange.session->routes->tree, serving->method, serving->path,
                         &match, &serving->parameters) ||
        !http_target_parse_query(query, &serving->query)) {
        return 400;
    }
    serving->node = match.node;
    serving->route = match.route;
    serving->exchange.context = match.context;
    if (match.node == NULL) {
        return 404;
    }
    if (match.route == NULL) {
        return 405;
    }
    if (serving->exchange.length_left > match.route->body_max) {
        return 413;
    }
    return has_wrong_type(serving) ? 415 : 0;
}

/* The HTTP status of an answer that needs no route; 0: none. */
static unsigned filter(struct route_exchange *serving) {
    const struct route_table *routes = serving->exchange.session->routes;
    return routes->filter != NULL
               ? routes->filter->check(routes->filter_context, &serving->exchange,
                                       &serving->refusal_text)
               : 0;
}

static void request(struct route_exchange *serving) {
    serving->is_request_due = false;
    if (serving->route->on_request != NULL) {
        serving->is_opened = true;
        serving->route->on_request(&serving->exchange);
    }
}

/* The caller is known: the door gets the request. */
static void serve(struct route_exchange *serving) {
    struct http_exchange *exchange = &serving->exchange;
    if (serving->expects_continue && !exchange->is_half_closed) {
        exchange->session->wire->want_body(exchange);
    }
    if (serving->route->body_max == 0 && !serving->is_complete && !exchange->is_half_closed) {
        serving->is_request_due = true;
    } else {
        request(serving);
    }
}

static void refuse_caller(struct route_exchange *serving) {
    if (serving->route->on_refused != NULL) {
        serving->is_opened = true;
        serving->route->on_refused(&serving->exchange);
        return;
    }
    refuse(serving, 401);
}

static void authenticate(struct route_exchange *serving) {
    const struct net_shared *shared = shared_of(serving);
    if (serving->route->is_public || shared->authenticator == NULL) {
        serve(serving);
        return;
    }
    switch (shared->authenticator->begin(shared->authenticator_context, &serving->exchange,
                                         serving->exchange.caller)) {
    case NET_AUTHENTICATED:
        serve(serving);
        return;
    case NET_REFUSED:
        refuse_caller(serving);
        return;
    case NET_PENDING:
        serving->is_waiting = true;
        return;
    }
}

void route_exchange_open(struct http_exchange *exchange) {
    struct route_exchange *serving = route_exchange_of(exchange);
    unsigned status = serving->refusal != 0 ? serving->refusal : filter(serving);
    if (status == 0) {
        status = find_route(serving);
    }
    uint64_t time_max_ms = serving->route != NULL ? serving->route->time_max_ms : 0;
    if (time_max_ms != HTTP_NO_TIME_LIMIT) {
        http_exchange_set_timeout(exchange,
                                  time_max_ms != 0 ? time_max_ms : HTTP_TIME_MAX_MS_DEFAULT);
    }
    if (status == 0 && !http_exchange_has_room(exchange)) {
        status = 503;
    }
    if (status != 0) {
        refuse(serving, status);
    } else {
        authenticate(serving);
    }
}

/* --- the body ------------------------------------------------------------------------------ */

static void deliver(struct route_exchange *serving, struct bytes bytes, bool is_last) {
    if (serving->route->on_body != NULL && !http_exchange_is_over(&serving->exchange)) {
        serving->is_opened = true;
        serving->route->on_body(&serving->exchange, bytes, is_last);
    }
}

static void on_overflow(struct http_exchange *exchange) {
    answer_refusal(route_exchange_of(exchange), 503);
}

static void hold(struct route_exchange *serving, struct bytes bytes) {
    buffer_append(&serving->body, bytes.data, bytes.size);
    if (!http_exchange_count_partial(&serving->exchange, serving->body.size)) {
        answer_refusal(serving, 503);
    }
}

static void on_bytes(struct http_exchange *exchange, struct bytes bytes) {
    struct route_exchange *serving = route_exchange_of(exchange);
    if (http_exchange_is_over(exchange)) {
        return;
    }
    serving->body_size += bytes.size;
    if (serving->refusal != 0) {
        if (serving->body_size > HTTP_DROPPED_BODY_MAX) {
            answer_refusal(serving, serving->refusal);
        }
        return;
    }
    if (serving->body_size > serving->route->body_max ||
        (serving->is_waiting && serving->body_size > HTTP_HELD_BODY_MAX)) {
        answer_refusal(serving, 413);
    } else if (serving->is_waiting || !serving->route->is_streaming_body) {
        hold(serving, bytes);
    } else {
        deliver(serving, bytes, false);
    }
}

static void deliver_last(struct route_exchange *serving) {
    struct buffer body = serving->body;
    buffer_init(&serving->body);
    deliver(serving, bytes_of(body.data, body.size), true);
    buffer_clear(&body);
    release_body(serving);
}

static void on_half_close(struct http_exchange *exchange) {
    struct route_exchange *serving = route_exchange_of(exchange);
    if (http_exchange_is_over(exchange)) {
        return;
    }
    if (serving->refusal != 0) {
        answer_refusal(serving, serving->refusal);
    } else if (!serving->is_waiting) {
        if (serving->is_request_due) {
            request(serving);
        }
        deliver_last(serving);
    }
}

void http_authenticated(struct http_exchange *exchange, bool is_authenticated, const void *caller,
                        size_t caller_size) {
    struct route_exchange *serving = route_exchange_of(exchange);
    assert(serving->is_waiting);
    assert(caller_size <= sizeof exchange->caller);
    serving->is_waiting = false;
    if (!is_authenticated) {
        refuse_caller(serving);
        return;
    }
    memcpy(exchange->caller, caller, caller_size);
    serve(serving);
    if (serving->route->is_streaming_body && serving->body.size > 0) {
        deliver(serving, bytes_of(serving->body.data, serving->body.size), false);
        release_body(serving);
    }
    if (exchange->is_half_closed) {
        deliver_last(serving);
    }
}

/* --- time ---------------------------------------------------------------------------------- */

static void on_writable(struct http_exchange *exchange) {
    route_exchange_of(exchange)->route->on_writable(exchange);
}

static void on_deadline(struct http_exchange *exchange) {
    struct route_exchange *serving = route_exchange_of(exchange);
    if (exchange->is_response_started) {
        http_exchange_cut_off(exchange);
    } else {
        answer_refusal(serving, exchange->is_half_closed ? 503 : 408);
    }
}

static void on_drain(struct http_exchange *exchange) {
    struct route_exchange *serving = route_exchange_of(exchange);
    if (net_timer_is_armed(&serving->timer)) {
        net_timers_disarm(shared_of(serving)->timers, &serving->timer);
        serving->fired(exchange);
    } else if (serving->is_opened && serving->route->on_drain != NULL) {
        serving->route->on_drain(exchange);
    }
}

static void on_input_end(struct http_exchange *exchange) {
    const struct route_exchange *serving = route_exchange_of(exchange);
    if (!exchange->is_half_closed) {
        http_exchange_cut_off(exchange);
    } else if (serving->is_opened && serving->route->on_input_end != NULL) {
        serving->route->on_input_end(exchange);
    }
}

static const struct http_handler route_handler = {
    .on_bytes = on_bytes,
    .on_half_close = on_half_close,
    .on_writable = on_writable,
    .on_close = on_close,
    .on_deadline = on_deadline,
    .on_drain = on_drain,
    .on_input_end = on_input_end,
    .on_overflow = on_overflow,
    .give_back = give_back,
};

void http_set_timer(struct http_exchange *exchange, uint64_t after_ms,
                    void (*fired)(struct http_exchange *exchange)) {
    struct route_exchange *serving = route_exchange_of(exchange);
    struct net_timers *timers = shared_of(serving)->timers;
    if (http_exchange_is_over(exchange)) {
        return;
    }
    serving->fired = fired;
    net_timers_arm(timers, &serving->timer, net_timers_now_ms(timers) + after_ms);
}

/* --- the request, for doors ---------------------------------------------------------------- */

void *http_context(const struct http_exchange *exchange) {
    return exchange->context;
}

void http_set_data(struct http_exchange *exchange, void *data) {
    exchange->data = data;
}

void *http_data(const struct http_exchange *exchange) {
    return exchange->data;
}

const struct http_route *http_route_of(const struct http_exchange *exchange) {
    return exchange->handler == &route_handler ? const_route_exchange_of(exchange)->route : NULL;
}

const struct caller *http_caller(const struct http_exchange *exchange) {
    return (const void *)exchange->caller;
}

const struct tls_identity *http_identity(const struct http_exchange *exchange) {
    return net_connection_identity(exchange->session->host);
}

bool http_is_encrypted(const struct http_exchange *exchange) {
    return exchange->session->host->is_encrypted;
}

void http_address(const struct http_exchange *exchange, char out_text[HTTP_ADDRESS_SIZE]) {
    net_connection_address(exchange->session->host, out_text);
}

struct bytes http_method(const struct http_exchange *exchange) {
    return bytes_from_text(const_route_exchange_of(exchange)->method);
}

struct bytes http_path(const struct http_exchange *exchange) {
    return const_route_exchange_of(exchange)->path;
}

bool http_parameter(const struct http_exchange *exchange, const char *name,
                    struct bytes *out_value) {
    return http_fields_find(&const_route_exchange_of(exchange)->parameters, name, out_value);
}

bool http_query(const struct http_exchange *exchange, const char *name, struct bytes *out_value) {
    return http_fields_find(&const_route_exchange_of(exchange)->query, name, out_value);
}

bool http_next_query(const struct http_exchange *exchange, size_t *position,
                     struct http_field *out_field) {
    *out_field = (struct http_field){0};
    return http_fields_next(&const_route_exchange_of(exchange)->query, position, &out_field->name,
                            &out_field->value);
}

bool http_header(const struct http_exchange *exchange, const char *name, struct bytes *out_value) {
    return http_fields_find(&exchange->fields, name, out_value);
}

bool http_next_header(const struct http_exchange *exchange, size_t *position,
                      struct http_field *out_field) {
    *out_field = (struct http_field){0};
    return http_fields_next(&exchange->fields, position, &out_field->name, &out_field->value);
}
