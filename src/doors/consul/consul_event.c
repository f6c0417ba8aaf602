/* /v1/event: events of users, the last CONSUL_EVENTS_MAX of them. */
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_rules.h"

#include <stdlib.h>

static void write_event(struct consul_json *json, const struct consul_event *event) {
    consul_json_begin(json, '{');
    consul_json_set_text(json, "ID", event->id);
    consul_json_set_text(json, "Name", event->name);
    consul_json_name(json, "Payload");
    consul_json_base64(json, event->payload);
    consul_json_set_text(json, "NodeFilter", event->node_filter);
    consul_json_set_text(json, "ServiceFilter", event->service_filter);
    consul_json_set_text(json, "TagFilter", event->tag_filter);
    consul_json_set_number(json, "Version", 1);
    consul_json_set_number(json, "LTime", (int64_t)event->number);
    consul_json_end(json, '}');
}

/* --- Fire. --- */

static void reply_fired(struct consul_call *call, const struct outcome *outcome) {
    struct consul_event *event = call->data;
    if (outcome->status != STATUS_OK) {
        consul_call_fail_status(call, outcome->status);
        return;
    }
    write_event(&call->json, event); /* its LTime is not known to the sender, as in Consul */
    consul_call_reply(call, 200);
}

void consul_event_fire(struct consul_call *call, struct bytes body) {
    struct consul_event *event = arena_calloc(&call->arena, 1, sizeof *event);
    struct buffer request;
    if (!consul_call_check_dc(call)) {
        return;
    }
    event->id = consul_call_uuid(call);
    event->name = consul_call_path(call, "name");
    event->payload = bytes_of(arena_copy(&call->arena, body.data, body.size), body.size);
    event->node_filter = consul_call_text(call, "node");
    event->service_filter = consul_call_text(call, "service");
    event->tag_filter = consul_call_text(call, "tag");
    if (event->name.size == 0) {
        consul_call_fail(call, 400, "Missing name");
        return;
    }
    buffer_init(&request);
    consul_event_encode(&request, event);
    if (request.size > CONSUL_EVENT_SIZE_MAX) {
        consul_call_fail(call, 413, "the event is larger than %d bytes", CONSUL_EVENT_SIZE_MAX);
    } else {
        call->data = event;
        consul_call_submit(call, CONSUL_RULE_EVENT, &request, reply_fired);
    }
    buffer_clear(&request);
}

/* --- List. --- */

/* Consul's index of an event: one half of its id's bits over the other. */
static uint64_t index_of(struct bytes id) {
    uint64_t halves[2] = {0};
    size_t n = 0;
    for (size_t i = 0; i < id.size && n < 32; i++) {
        uint8_t c = id.data[i];
        if (c == '-') {
            continue;
        }
        uint64_t digit = c <= '9' ? (uint64_t)(c - '0') : (uint64_t)((c | 0x20) - 'a' + 10);
        halves[n / 16] = halves[n / 16] << 4 | digit;
        n++;
    }
    return halves[0] ^ halves[1];
}

struct listing {
    struct consul_event events[CONSUL_EVENTS_MAX];
    size_t n;
    struct bytes name; /* empty: of all */
    struct consul_call *call;
};

static bool note_event(void *context, const struct record *record) {
    struct listing *listing = context;
    struct consul_event *event = &listing->events[listing->n];
    if (consul_event_decode(record_value(record), event) &&
        (listing->name.size == 0 || bytes_equal(event->name, listing->name))) {
        listing->n += listing->n + 1 < CONSUL_EVENTS_MAX ? 1 : 0;
        if (record->mod_revision > listing->call->own_index) {
            listing->call->own_index = record->mod_revision;
        }
    }
    return true;
}

static int compare(const void *a, const void *b) {
    const struct consul_event *first = a;
    const struct consul_event *second = b;
    return (first->number > second->number) - (first->number < second->number);
}

static void show_events(struct consul_call *call, const struct key_store *keys) {
    struct listing *listing = arena_calloc(&call->arena, 1, sizeof *listing);
    struct key_range range = consul_events_range();
    listing->call = call;
    listing->name = consul_call_text(call, "name");
    call->own_index = 0;
    call->bound_index = 1;
    (void)key_store_visit(keys, range.space, range.key, range.range_end, note_event, listing);
    qsort(listing->events, listing->n, sizeof listing->events[0], compare);
    call->has_named_index = true;
    call->named_index = listing->n > 0 ? index_of(listing->events[listing->n - 1].id) : 1;
    call->named_index += call->named_index == 0 ? 1 : 0;
    consul_json_begin(&call->json, '[');
    for (size_t i = 0; i < listing->n; i++) {
        write_event(&call->json, &listing->events[i]);
    }
    consul_json_end(&call->json, ']');
}

/* Events of other names wake nobody. */
static bool concerns(struct consul_call *call, const struct record *record) {
    struct consul_event event;
    struct bytes name = consul_call_text(call, "name");
    return name.size == 0 ||
           (!record_is_tombstone(record) && consul_event_decode(record_value(record), &event) &&
            bytes_equal(event.name, name));
}

static const struct consul_query events = {.show = show_events, .concerns = concerns};

void consul_event_list(struct consul_call *call, struct bytes body) {
    (void)body;
    consul_call_add_range(call, consul_events_range());
    consul_call_query(call, &events);
}
