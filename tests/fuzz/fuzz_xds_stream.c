/* Streams of the xDS API. An input is a run of steps, each a byte that says what happens, two of
 * length, and so many bytes: a request of a client, a change of the registry, a client that does
 * not read, a read that has to wait, an end. What is sent must be a response whose parts can be
 * read, and nothing may be left behind. */
#include "base/log.h"
#include "doors/xds/xds_name.h"
#include "doors/xds/xds_request.h"
#include "doors/xds/xds_stream.h"
#include "net/grpc_json_reader.h"
#include "proto/xds.pb-c.h"
#include "registry/registry_keys.h"
#include "registry/registry_model.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HELD_MAX = 1024 * 1024, STREAMS = 2, HEAD = 3 };

struct grpc_call {
    void *data;
    struct xds_door *door;
    bool is_delta;
    bool is_blocked;
    bool is_finished;
    size_t held;
    size_t n_sent;
};

struct service {
    uint64_t iteration;
    struct key_store *keys;
    struct watch_hub *hub;
    bool reads_wait;
    struct list reads;
};

/* --- The network. --- */

void grpc_call_set_data(struct grpc_call *call, void *data) {
    call->data = data;
}

void *grpc_call_data(const struct grpc_call *call) {
    return call->data;
}

void *grpc_call_context(const struct grpc_call *call) {
    return call->door;
}

const struct caller *grpc_call_caller(const struct grpc_call *call) {
    (void)call;
    return &caller_anonymous;
}

bool grpc_call_is_writable(struct grpc_call *call) {
    return !call->is_blocked && !call->is_finished;
}

bool grpc_call_hold(struct grpc_call *call, size_t size) {
    if (call->held + size > HELD_MAX) {
        return false;
    }
    call->held += size;
    return true;
}

void grpc_call_release(struct grpc_call *call, size_t size) {
    assert(call->held >= size);
    call->held -= size;
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *text) {
    (void)code;
    (void)text;
    call->is_finished = true;
}

static void check_resource(const Envoy__Service__Discovery__V3__Any *any) {
    enum xds_type type = XDS_CLUSTERS;
    assert(xds_type_find(bytes_from_text(any->type_url), &type));
    static const ProtobufCMessageDescriptor *const descriptors[XDS_TYPES] = {
        [XDS_CLUSTERS] = &envoy__service__discovery__v3__cluster__descriptor,
        [XDS_ENDPOINTS] = &envoy__service__discovery__v3__cluster_load_assignment__descriptor,
        [XDS_LISTENERS] = &envoy__service__discovery__v3__listener__descriptor,
        [XDS_ROUTES] = &envoy__service__discovery__v3__route_configuration__descriptor,
    };
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptors[type], NULL, any->value.len, any->value.data);
    assert(message != NULL);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void check_delta(struct bytes message) {
    Envoy__Service__Discovery__V3__DeltaDiscoveryResponse *read =
        envoy__service__discovery__v3__delta_discovery_response__unpack(NULL, message.size,
                                                                        message.data);
    assert(read != NULL);
    for (size_t i = 0; i < read->n_resources; i++) {
        assert(read->resources[i]->version[0] != '\0');
        check_resource(read->resources[i]->resource);
    }
    envoy__service__discovery__v3__delta_discovery_response__free_unpacked(read, NULL);
}

static void check_whole(struct bytes message) {
    Envoy__Service__Discovery__V3__DiscoveryResponse *read =
        envoy__service__discovery__v3__discovery_response__unpack(NULL, message.size, message.data);
    assert(read != NULL);
    for (size_t i = 0; i < read->n_resources; i++) {
        check_resource(read->resources[i]);
    }
    envoy__service__discovery__v3__discovery_response__free_unpacked(read, NULL);
}

void grpc_call_send(struct grpc_call *call, struct bytes message) {
    assert(!call->is_finished);
    call->n_sent++;
    if (call->is_delta) {
        check_delta(message);
    } else {
        check_whole(message);
    }
}

/* --- The service. --- */

enum status service_read(struct service *service, const struct caller *caller,
                         struct service_read *read, const struct key_range *ranges,
                         size_t n_ranges) {
    (void)caller;
    (void)ranges;
    (void)n_ranges;
    if (!service->reads_wait) {
        return STATUS_OK;
    }
    list_append(&service->reads, &read->private.link);
    return STATUS_PENDING;
}

enum status service_read_local(struct service *service, const struct caller *caller,
                               const struct key_range *ranges, size_t n_ranges) {
    (void)service;
    (void)caller;
    (void)ranges;
    (void)n_ranges;
    return STATUS_OK;
}

enum status service_check_user(struct service *service, const struct caller *caller,
                               const char *what) {
    (void)service;
    (void)caller;
    (void)what;
    return STATUS_OK;
}

uint64_t service_iteration(const struct service *service) {
    return service->iteration;
}

const struct state_view *service_view(const struct service *service) {
    return (const void *)service;
}

const struct key_store *state_view_keys(const struct state_view *view) {
    return ((const struct service *)(const void *)view)->keys;
}

static bool fake_deliver(void *data, const struct watch_batch *batch) {
    struct service_watch *watch = data;
    return watch->deliver(watch, batch);
}

static void fake_compacted(void *data, int64_t compacted_revision) {
    struct service_watch *watch = data;
    watch->private.watcher = NULL;
    watch->compacted(watch, compacted_revision);
}

enum status service_watch(struct service *service, const struct caller *caller,
                          struct service_watch *watch,
                          const struct service_watch_options *options) {
    static const struct watcher_callbacks callbacks = {.deliver = fake_deliver,
                                                       .compacted = fake_compacted};
    (void)caller;
    assert(watch->private.watcher == NULL);
    watch->private.watcher =
        watch_hub_add(service->hub, &(struct watcher_options){.space = options->range.space,
                                                              .key = options->range.key,
                                                              .range_end = options->range.range_end,
                                                              .callbacks = &callbacks,
                                                              .data = watch});
    return STATUS_OK;
}

void service_unwatch(struct service *service, struct service_watch *watch) {
    if (watch->private.watcher != NULL) {
        watch_hub_remove(service->hub, watch->private.watcher);
        watch->private.watcher = NULL;
    }
}

/* No service is so large that a worker reads it. */
enum status service_scan_start(struct service *service, const struct caller *caller,
                               struct service_scan *scan, const struct key_range *ranges,
                               size_t n_ranges) {
    (void)service;
    (void)caller;
    (void)scan;
    (void)ranges;
    (void)n_ranges;
    abort();
}

bool service_scan_end(struct service_scan *scan) {
    (void)scan;
    abort();
}

const struct key_view *snapshot_view_keys(const struct snapshot_view *view) {
    (void)view;
    abort();
}

/* --- Steps. --- */

static void put(struct service *service, struct key_space_id space, struct bytes key,
                struct bytes value) {
    key_store_begin(service->keys);
    (void)key_store_put(service->keys, space, key, value, 0, NULL);
    (void)key_store_end(service->keys);
}

static void delete (struct service *service, struct key_space_id space, struct bytes key) {
    struct record *record = key_store_find(service->keys, space, key);
    if (record != NULL) {
        key_store_begin(service->keys);
        (void)key_store_delete(service->keys, record);
        (void)key_store_end(service->keys);
    }
}

/* A service comes, changes or goes, and with it its name; its instance has what the input says. */
static void change(struct service *service, unsigned step, struct bytes input) {
    struct arena arena;
    arena_init(&arena);
    static const char *const names[] = {"web", "a", "b?tag=x", "\xff"};
    struct bytes name = bytes_from_text(names[step % 4]);
    if (step & 4) {
        delete (service, KEY_SPACE_REGISTRY_RECORDS, registry_key_name(&arena, name));
        delete (service, KEY_SPACE_REGISTRY, registry_key_service(&arena, name));
        delete (service, KEY_SPACE_REGISTRY,
                registry_key_instance(&arena, name, bytes_from_text("1")));
    } else {
        const struct registry_instance instance = {
            .state = REGISTRY_UP,
            .weight = step,
            .port = (uint16_t)input.size,
            .address = bytes_from_text("10.0.0.1"),
            .zone = input,
            .version = input,
        };
        struct buffer value;
        buffer_init(&value);
        registry_instance_encode(&value, &instance);
        put(service, KEY_SPACE_REGISTRY,
            registry_key_instance(&arena, name, bytes_from_text(step & 8 ? "1" : "2")),
            bytes_of(value.data, value.size));
        put(service, KEY_SPACE_REGISTRY, registry_key_service(&arena, name), input);
        put(service, KEY_SPACE_REGISTRY_RECORDS, registry_key_name(&arena, name), bytes_of("", 0));
        buffer_clear(&value);
    }
    arena_clear(&arena);
    watch_hub_begin_iteration(service->hub);
    watch_hub_publish(service->hub);
}

static void finish_reads(struct service *service) {
    struct list *link = NULL;
    while ((link = list_pop_first(&service->reads)) != NULL) {
        struct service_read *read = list_entry(link, struct service_read, private.link);
        read->ready(read, STATUS_OK);
    }
}

static void ask(struct grpc_call *call, const struct grpc_method *method, bool is_json,
                struct bytes input) {
    struct buffer message;
    char error[GRPC_JSON_ERROR_SIZE];
    buffer_init(&message);
    if (!is_json) {
        method->on_message(call, input);
    } else if (grpc_json_read(
                   input,
                   call->is_delta
                       ? &envoy__service__discovery__v3__delta_discovery_request__descriptor
                       : &envoy__service__discovery__v3__discovery_request__descriptor,
                   &message, error)) {
        method->on_message(call, bytes_of(message.data, message.size));
    }
    buffer_clear(&message);
}

static void play(struct xds_door *door, struct grpc_call *calls, struct bytes input) {
    struct service *service = door->service;
    while (input.size >= HEAD) {
        service->iteration += 2; /* before a poll and after it */
        unsigned step = input.data[0];
        size_t size = input.data[1] + 256U * input.data[2];
        size = size < input.size - HEAD ? size : input.size - HEAD;
        struct bytes part = bytes_of(input.data + HEAD, size);
        input = bytes_of(part.data + size, input.size - HEAD - size);
        size_t which = step / 128 % STREAMS;
        switch (step % 8) {
        case 0:
        case 1:
        case 2:
            ask(&calls[which], &xds_stream_methods.methods[which], step % 8 == 1, part);
            break;
        case 3:
        case 4:
            change(service, step / 8, part);
            break;
        case 5:
            calls[which].is_blocked = !calls[which].is_blocked;
            xds_stream_methods.methods[which].on_writable(&calls[which]);
            break;
        case 6:
            service->reads_wait = !service->reads_wait;
            break;
        default:
            finish_reads(service);
            xds_stream_run_stale(door);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    struct service service = {.keys = key_store_create()};
    service.hub = watch_hub_create(service.keys, NULL);
    list_init(&service.reads);
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct xds_door door = {.service = &service, .loop = &loop};
    arena_init(&door.arena);
    arena_init(&door.request_arena);
    buffer_init(&door.scratch);
    list_init(&door.streams);
    list_init(&door.stale);
    list_init(&door.behind);
    uv_idle_init(&loop, &door.idle);
    door.idle.data = &door;
    uv_timer_init(&loop, &door.retry);
    door.retry.data = &door;
    door.shared = xds_shared_table_create();
    struct grpc_call calls[STREAMS] = {{.door = &door}, {.door = &door, .is_delta = true}};
    for (size_t i = 0; i < STREAMS; i++) {
        xds_stream_methods.methods[i].on_open(&calls[i]);
    }
    play(&door, calls, bytes_of(data, size));
    finish_reads(&service);
    xds_stream_run_stale(&door);
    for (size_t i = 0; i < STREAMS; i++) {
        xds_stream_methods.methods[i].on_close(&calls[i]);
        assert(calls[i].held == 0);
    }
    finish_reads(&service);
    assert(door.stats.streams == 0 && door.stats.subscriptions == 0);
    assert(watch_hub_count(service.hub) == 0);
    xds_shared_table_destroy(door.shared);
    uv_close((uv_handle_t *)&door.idle, NULL);
    uv_close((uv_handle_t *)&door.retry, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    buffer_clear(&door.scratch);
    arena_clear(&door.request_arena);
    arena_clear(&door.arena);
    watch_hub_destroy(service.hub);
    key_store_destroy(service.keys);
    return 0;
}
