/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_rules.h"

void consul_event_encode(struct buffer *out, const struct consul_event *event) {
    buffer_put_bytes(out, event->id);
    buffer_put_bytes(out, event->name);
    buffer_put_bytes(out, event->payload);
    buffer_put_bytes(out, event->node_filter);
    buffer_put_bytes(out, event->service_filter);
    buffer_put_bytes(out, event->tag_filter);
    buffer_put_varint(out, event->number);
}

bool consul_event_decode(struct bytes bytes, struct consul_event *out_event) {
    struct reader reader;
    reader_init(&reader, bytes);
    out_event->id = reader_get_bytes(&reader);
    out_event->name = reader_get_bytes(&reader);
    out_event->payload = reader_get_bytes(&reader);
    out_event->node_filter = reader_get_bytes(&reader);
    out_event->service_filter = reader_get_bytes(&reader);
    out_event->tag_filter = reader_get_bytes(&reader);
    out_event->number = reader_get_varint(&reader);
    return !reader.failed && reader_left(&reader) == 0;
}

static enum status run_event(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct consul_event event;
    if (request.size > CONSUL_EVENT_SIZE_MAX || !consul_event_decode(request, &event) ||
        !consul_uuid_is_valid(event.id) || event.name.size == 0) {
        return STATUS_INVALID;
    }
    int64_t number = rule_count_up(run, KEY_SPACE_CONSUL_RECORDS, consul_key_event_count());
    event.number = (uint64_t)number;
    struct buffer value;
    buffer_init(&value);
    consul_event_encode(&value, &event);
    (void)rule_put(run, KEY_SPACE_CONSUL_RECORDS,
                   consul_key_event(rule_arena(run), event.number % CONSUL_EVENTS_MAX),
                   bytes_of(value.data, value.size), 0);
    buffer_clear(&value);
    buffer_put_varint(answer, event.number);
    return STATUS_OK;
}

const struct rule consul_rule_event = {.number = CONSUL_RULE_EVENT,
                                       .name = "consul_event",
                                       .since_version = CLUSTER_VERSION_RULES,
                                       .spaces = {KEY_SPACE_CONSUL, KEY_SPACE_CONSUL_RECORDS},
                                       .run = run_event};

/* Clients of Consul take an index below 2 for that of a server which has not begun. */
static enum status run_begin(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    if (request.size > 0) {
        return STATUS_MALFORMED;
    }
    if (rule_get(run, KEY_SPACE_CONSUL_RECORDS, consul_key_deleted()) == NULL) {
        (void)rule_put(run, KEY_SPACE_CONSUL_RECORDS, consul_key_deleted(), bytes_of("", 0), 0);
    }
    return STATUS_OK;
}

const struct rule consul_rule_begin = {.number = CONSUL_RULE_BEGIN,
                                       .name = "consul_begin",
                                       .since_version = CLUSTER_VERSION_RULES,
                                       .spaces = {KEY_SPACE_CONSUL, KEY_SPACE_CONSUL_RECORDS},
                                       .run = run_begin};
