#include "net/grpc_bridge.h"

#include "net/grpc_call.h"
#include "net/grpc_timeout.h"
#include "net/http_fields.h"
#include "net/route_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /* Bytes of answers given to the door at a time; then it is asked whether more can be sent. */
    PIECE_SIZE_MAX = 64 * 1024
};

/* The call lives in a session of its own, whose wire ends here. */
struct grpc_bridge {
    struct http_session session;
    struct protocol_host host;
    struct http_exchange *exchange; /* the outer one */
    struct grpc_call *call;
    const struct grpc_bridge_events *events;
    struct net_timer timer; /* armed: something has to be settled */
    struct list in_waiting; /* linked while is_waiting and there is no place */
    size_t counted;         /* what the call holds, as far as the outer session knows of it */
    size_t counted_queued;  /* the same of its answers that wait */
    uint8_t prefix[GRPC_PREFIX_SIZE];
    size_t prefix_size;
    size_t message_left; /* of the message whose prefix was read */
    bool is_ended;       /* on_end was called, or the exchange cut off */
    bool is_closing;
    bool is_waiting;  /* to be opened */
    bool is_admitted; /* takes one of the places */
};

static struct grpc_bridge *bridge_of(struct http_exchange *inner) {
    return list_entry(inner->session, struct grpc_bridge, session);
}

/* --- shares -------------------------------------------------------------------------------- */

/* What the call holds counts for the connection that asked for it, beside all that it holds. */
static void count_for_connection(struct grpc_bridge *bridge) {
    struct http_session *outer = bridge->exchange->session;
    size_t held = bridge->call->exchange.held_bytes;
    outer->held_bytes = outer->held_bytes - bridge->counted + held;
    bridge->counted = held;
    bridge->session.held_bytes = outer->held_bytes;
}

/* So do its answers that the client has no room for: who does not take them is not read from. */
static void count_queued(struct grpc_bridge *bridge) {
    size_t queued = http_exchange_queued_bytes(&bridge->call->exchange);
    bridge->exchange->session->bridged_bytes += queued - bridge->counted_queued;
    bridge->counted_queued = queued;
}

/* --- places -------------------------------------------------------------------------------- */

static bool has_place(const struct net_shared *shared) {
    return shared->limits.bridged_max == 0 || shared->n_bridged < shared->limits.bridged_max;
}

static void admit(struct grpc_bridge *bridge) {
    bridge->is_admitted = true;
    bridge->host.shared->n_bridged++;
}

/* Gives the place to whoever has waited longest, and who is told when nobody is inside of it. */
static void leave_place(struct grpc_bridge *bridge) {
    struct net_shared *shared = bridge->host.shared;
    list_remove(&bridge->in_waiting);
    if (!bridge->is_admitted) {
        return;
    }
    bridge->is_admitted = false;
    shared->n_bridged--;
    struct list *node = has_place(shared) ? list_pop_first(&shared->waiting_bridges) : NULL;
    if (node != NULL) {
        struct grpc_bridge *next = list_entry(node, struct grpc_bridge, in_waiting);
        admit(next);
        next->host.wake(&next->host);
    }
}

/* --- answers ------------------------------------------------------------------------------- */

/* Takes the prefix of a message off the bytes, or as much of it as there is. */
static size_t take_prefix(struct grpc_bridge *bridge, struct bytes bytes) {
    size_t size = GRPC_PREFIX_SIZE - bridge->prefix_size;
    size = size < bytes.size ? size : bytes.size;
    memcpy(bridge->prefix + bridge->prefix_size, bytes.data, size);
    bridge->prefix_size += size;
    if (bridge->prefix_size == GRPC_PREFIX_SIZE) {
        const uint8_t *prefix = bridge->prefix;
        bridge->message_left = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 |
                               (size_t)prefix[3] << 8 | (size_t)prefix[4];
        bridge->events->on_message(bridge->exchange, bridge->message_left);
        if (bridge->message_left == 0) {
            bridge->prefix_size = 0;
            bridge->events->on_piece(bridge->exchange, bytes_of("", 0), true);
        }
    }
    return size;
}

static size_t take(struct grpc_bridge *bridge, struct bytes bytes) {
    if (bridge->prefix_size < GRPC_PREFIX_SIZE) {
        return take_prefix(bridge, bytes);
    }
    size_t size = bytes.size < bridge->message_left ? bytes.size : bridge->message_left;
    size = size < PIECE_SIZE_MAX ? size : PIECE_SIZE_MAX;
    bridge->message_left -= size;
    if (bridge->message_left == 0) {
        bridge->prefix_size = 0;
    }
    bridge->events->on_piece(bridge->exchange, bytes_of(bytes.data, size),
                             bridge->message_left == 0);
    return size;
}

static void end(struct grpc_bridge *bridge) {
    const struct grpc_call *call = bridge->call;
    bridge->is_ended = true;
    leave_place(bridge);
    if (call->exchange.is_cut_off || bridge->prefix_size > 0) {
        http_abort(bridge->exchange);
        return;
    }
    bridge->events->on_end(bridge->exchange, call->code, call->text != NULL ? call->text : "");
}

/* Hands on what the method has answered, as far as the client takes it. */
static void pump(struct grpc_bridge *bridge) {
    struct http_exchange *inner = &bridge->call->exchange;
    while (http_exchange_queued_bytes(inner) > 0 && http_is_writable(bridge->exchange)) {
        size_t size = take(
            bridge, bytes_of(inner->out.data + inner->out_sent, http_exchange_queued_bytes(inner)));
        http_exchange_drop_sent(inner, size);
    }
    count_queued(bridge);
    if (http_exchange_queued_bytes(inner) > 0) {
        return;
    }
    if (!inner->is_finished) {
        inner->is_deferred = true;
    } else if (!bridge->is_ended) {
        end(bridge);
    }
}

/* --- the wire of the inner session --------------------------------------------------------- */

static void start(struct http_exchange *inner, const struct http_answer *answer) {
    (void)answer; /* the status is in the call */
    inner->is_deferred = true;
}

static void want_body(struct http_exchange *inner) {
    (void)inner;
}

static void resume(struct http_exchange *inner) {
    pump(bridge_of(inner));
}

static void reset(struct http_exchange *inner) {
    struct grpc_bridge *bridge = bridge_of(inner);
    bridge->is_ended = true;
    http_abort(bridge->exchange);
}

static const struct http_wire bridge_wire = {
    .start = start, .want_body = want_body, .resume = resume, .reset = reset};

/* --- its host ------------------------------------------------------------------------------ */

/* What has to be settled is settled when nobody is inside of the call. */
static void wake(struct protocol_host *host) {
    struct grpc_bridge *bridge = list_entry(host, struct grpc_bridge, host);
    struct net_timers *timers = host->shared->timers;
    if (!bridge->is_closing && !net_timer_is_armed(&bridge->timer)) {
        net_timers_arm(timers, &bridge->timer, net_timers_now_ms(timers));
    }
}

static const struct tls_identity *identity(struct protocol_host *host) {
    return http_identity(list_entry(host, struct grpc_bridge, host)->exchange);
}

static void address(const struct protocol_host *host, char out_text[NET_ADDRESS_SIZE]) {
    http_address(list_entry((struct protocol_host *)host, struct grpc_bridge, host)->exchange,
                 out_text);
}

static void settle(struct grpc_bridge *bridge) {
    if (bridge->session.state == SESSION_FAILED) {
        http_abort(bridge->exchange);
        return;
    }
    pump(bridge);
    http_session_settle(&bridge->session);
}

static void open_call(struct grpc_bridge *bridge) {
    bridge->is_waiting = false;
    grpc_call_open(bridge->call);
    count_for_connection(bridge);
}

static void on_timer(struct net_timer *timer) {
    struct grpc_bridge *bridge = list_entry(timer, struct grpc_bridge, timer);
    if (bridge->is_waiting && bridge->is_admitted &&
        !http_exchange_is_over(&bridge->call->exchange)) {
        open_call(bridge);
        bridge->events->on_admitted(bridge->exchange);
    }
    settle(bridge);
}

/* --- life ---------------------------------------------------------------------------------- */

static void copy_metadata(const struct http_exchange *exchange, struct buffer *fields) {
    static const char prefix[] = "grpc-metadata-";
    const size_t prefix_size = sizeof prefix - 1;
    struct bytes name;
    struct bytes value;
    size_t position = 0;
    while (http_fields_next(&exchange->fields, &position, &name, &value)) {
        if (bytes_equal(name, bytes_from_text("authorization"))) {
            http_fields_add(fields, name, value);
        } else if (name.size > prefix_size && memcmp(name.data, prefix, prefix_size) == 0) {
            http_fields_add(fields, bytes_of(name.data + prefix_size, name.size - prefix_size),
                            value);
        }
    }
}

static void set_timeout(struct grpc_bridge *bridge) {
    struct bytes text;
    uint64_t timeout_ms = 0;
    if (http_header(bridge->exchange, "grpc-timeout", &text) &&
        grpc_timeout_parse(text, &timeout_ms)) {
        http_exchange_set_timeout(&bridge->call->exchange, timeout_ms);
    }
}

struct grpc_bridge *grpc_bridge_create(struct http_exchange *exchange, const char *method_path,
                                       const struct grpc_bridge_events *events) {
    const struct method_route *route =
        route_table_find_method(exchange->session->routes, bytes_from_text(method_path));
    if (route == NULL) {
        return NULL;
    }
    struct grpc_bridge *bridge = calloc(1, sizeof *bridge);
    if (bridge == NULL) {
        abort();
    }
    bridge->exchange = exchange;
    bridge->events = events;
    bridge->host = (struct protocol_host){.shared = exchange->session->shared,
                                          .wake = wake,
                                          .identity = identity,
                                          .address = address,
                                          .scope = exchange->session->host->scope,
                                          .is_encrypted = http_is_encrypted(exchange)};
    http_session_init(&bridge->session, &bridge_wire, &bridge->host);
    bridge->session.state = SESSION_OPEN;
    net_timer_init(&bridge->timer, on_timer);
    list_init(&bridge->in_waiting);
    bridge->call = grpc_call_create(&bridge->session, 0);
    bridge->call->method = route->method;
    bridge->call->exchange.context = route->context;
    grpc_call_count(bridge->call, route->stats);
    copy_metadata(exchange, &bridge->call->exchange.fields);
    count_for_connection(bridge);
    return bridge;
}

void grpc_bridge_open(struct grpc_bridge *bridge) {
    if (grpc_call_authenticate(bridge->call)) {
        set_timeout(bridge);
        struct net_shared *shared = bridge->host.shared;
        if (has_place(shared)) {
            admit(bridge);
            open_call(bridge);
        } else {
            bridge->is_waiting = true;
            list_append(&shared->waiting_bridges, &bridge->in_waiting);
        }
    }
}

bool grpc_bridge_is_waiting(const struct grpc_bridge *bridge) {
    return bridge->is_waiting;
}

void grpc_bridge_destroy(struct grpc_bridge *bridge) {
    if (bridge == NULL) {
        return;
    }
    bridge->is_closing = true;
    leave_place(bridge);
    net_timers_disarm(bridge->host.shared->timers, &bridge->timer);
    http_session_close_exchanges(&bridge->session);
    bridge->exchange->session->held_bytes -= bridge->counted;
    bridge->exchange->session->bridged_bytes -= bridge->counted_queued;
    free(bridge);
}

/* --- the request --------------------------------------------------------------------------- */

enum grpc_kind grpc_bridge_kind(const struct grpc_bridge *bridge) {
    return bridge->call->method->kind;
}

size_t grpc_bridge_message_max(const struct grpc_bridge *bridge) {
    return bridge->host.shared->limits.message_size_max;
}

bool grpc_bridge_is_open(const struct grpc_bridge *bridge) {
    return !http_exchange_is_over(&bridge->call->exchange);
}

void grpc_bridge_begin(struct buffer *message) {
    message->size = 0;
    buffer_reserve(message, GRPC_PREFIX_SIZE);
    message->size = GRPC_PREFIX_SIZE;
}

void grpc_bridge_send(struct grpc_bridge *bridge, struct buffer *message) {
    struct http_exchange *inner = &bridge->call->exchange;
    assert(message->size >= GRPC_PREFIX_SIZE);
    assert(message->size - GRPC_PREFIX_SIZE <= UINT32_MAX);
    if (http_exchange_is_over(inner)) {
        return;
    }
    grpc_framing_write_prefix(message->data, (uint32_t)(message->size - GRPC_PREFIX_SIZE));
    count_for_connection(bridge);
    inner->handler->on_bytes(inner, bytes_of(message->data, message->size));
    count_for_connection(bridge);
    count_queued(bridge);
}

void grpc_bridge_half_close(struct grpc_bridge *bridge) {
    struct http_exchange *inner = &bridge->call->exchange;
    if (!http_exchange_is_over(inner) && !inner->is_half_closed) {
        inner->is_half_closed = true;
        inner->handler->on_half_close(inner);
    }
}

void grpc_bridge_finish(struct grpc_bridge *bridge, enum grpc_code code, const char *text) {
    grpc_call_finish(bridge->call, code, text);
}

void grpc_bridge_count_partial(struct grpc_bridge *bridge, size_t held) {
    struct http_exchange *inner = &bridge->call->exchange;
    if (!http_exchange_count_partial(inner, held)) {
        inner->handler->on_overflow(inner);
    }
}

void grpc_bridge_writable(struct grpc_bridge *bridge) {
    settle(bridge);
}

void grpc_bridge_input_end(struct grpc_bridge *bridge) {
    struct http_exchange *inner = &bridge->call->exchange;
    if (!http_exchange_is_over(inner)) {
        inner->handler->on_input_end(inner);
    }
}

void grpc_bridge_drain(struct grpc_bridge *bridge) {
    struct http_exchange *inner = &bridge->call->exchange;
    if (!http_exchange_is_over(inner)) {
        inner->handler->on_drain(inner);
    }
}
