#include "doors/etcd/etcd_queue_call.h"

const struct etcd_error *etcd_queue_error_of(enum status status) {
    static const struct etcd_error lease_not_found = {GRPC_UNKNOWN,
                                                      "etcdserver: requested lease not found"};
    static const struct etcd_error key_empty = {GRPC_UNKNOWN, "etcdserver: key is not provided"};
    /* Members of an older release are there, or this one has just started: ask again. */
    static const struct etcd_error not_capable = {GRPC_UNAVAILABLE, "etcdserver: not capable"};
    switch (status) {
    case STATUS_UNSUPPORTED:
        return &not_capable;
    case STATUS_LEASE_NOT_FOUND:
        return &lease_not_found;
    case STATUS_KEY_EMPTY:
        return &key_empty;
    default:
        return etcd_error_of_command(status);
    }
}

/* --- The order, as this member knows it. --- */

enum {
    /* Looking at so many records costs little beside telling what was found. */
    QUEUE_SHORT = 32,
    /* The service lets what is less than this pass uncounted, but thousands of observers may look
     * at a little each: such looks are added up. */
    QUEUE_RECORDS_COUNTED = 1024
};

struct search {
    int64_t below;
    const struct record *found;
};

static bool look_for_before(void *context, const struct record *record) {
    struct search *search = context;
    if (record->create_revision < search->below &&
        (search->found == NULL || record->create_revision > search->found->create_revision)) {
        search->found = record;
    }
    return true;
}

static bool look_for_first(void *context, const struct record *record) {
    struct search *search = context;
    if (search->found == NULL || record->create_revision < search->found->create_revision) {
        search->found = record;
    }
    return true;
}

size_t etcd_queue_count(struct etcd_door *door, struct bytes name) {
    struct key_range range = etcd_queue_range(&door->arena, name);
    size_t n = key_store_count(etcd_keys(door), range.space, range.key, range.range_end);
    arena_reset(&door->arena);
    return n;
}

bool etcd_queue_may_look(struct etcd_door *door, struct bytes name) {
    size_t work = etcd_queue_count(door, name);
    if (work > ETCD_QUEUE_RECORDS_MAX) {
        return false;
    }
    size_t counted = work <= QUEUE_SHORT ? work : door->queue_records + work;
    if (!service_allow_work(door->service, counted)) {
        return false;
    }
    if (work > QUEUE_SHORT) {
        door->queue_records = counted < QUEUE_RECORDS_COUNTED ? counted : 0;
    }
    return true;
}

static const struct record *find(struct etcd_door *door, struct bytes name, struct search *search,
                                 bool (*visit)(void *context, const struct record *record)) {
    struct key_range range = etcd_queue_range(&door->arena, name);
    key_store_visit(etcd_keys(door), range.space, range.key, range.range_end, visit, search);
    arena_reset(&door->arena);
    return search->found;
}

const struct record *etcd_queue_before(struct etcd_door *door, struct bytes name,
                                       int64_t create_revision) {
    return find(door, name, &(struct search){.below = create_revision}, look_for_before);
}

const struct record *etcd_queue_first(struct etcd_door *door, struct bytes name) {
    return find(door, name, &(struct search){0}, look_for_first);
}

/* --- Calls. --- */

void etcd_queue_run(struct grpc_call *call, uint32_t rule_number, struct buffer *request,
                    void (*reply)(struct etcd_call *waiting, const struct outcome *outcome)) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = rule_number, .request = bytes_of(request->data, request->size)}};
    struct etcd_call *waiting = etcd_call_submit(call, &command, reply);
    if (waiting != NULL) {
        waiting->error_of = etcd_queue_error_of;
    }
    buffer_clear(request);
}

void etcd_queue_reply_header(struct etcd_call *waiting, const struct outcome *outcome) {
    etcd_answer_header(waiting->call, etcd_header_at(waiting->door, outcome->revision));
}

void etcd_queue_release(struct grpc_call *call, const struct etcd_release *release) {
    struct buffer request;
    buffer_init(&request);
    etcd_release_encode(&request, release);
    etcd_queue_run(call, ETCD_RULE_RELEASE, &request, etcd_queue_reply_header);
}

/* The record has the number that it has in the answer of a range. */
void etcd_queue_send_leader(struct grpc_call *call, struct etcd_header header,
                            const struct record *record) {
    size_t size = etcd_header_size(&header) + etcd_range_record_size(record, false);
    struct pb_writer writer;
    if (etcd_answer_begin(call, size, &writer)) {
        etcd_header_write(&writer, &header);
        etcd_range_record_write(&writer, record, false);
        etcd_answer_end(call, &writer);
    }
}
