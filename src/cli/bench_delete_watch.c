#include "cli/bench_delete_watch.h"

#include "base/clock.h"

#include <string.h>

static void on_response(void *context, const Etcdserverpb__WatchResponse *response) {
    struct bench_delete_watch *watch = context;
    uint64_t now_ns = clock_boottime_ns();
    if (response->canceled) {
        bench_die("the watch was cancelled: %s", response->cancel_reason);
    }
    watch->created = watch->created || response->created;
    for (size_t i = 0; i < response->n_events; i++) {
        const Mvccpb__Event *event = response->events[i];
        uint64_t index;
        if (event->type == MVCCPB__EVENT__EVENT_TYPE__DELETE && event->kv != NULL &&
            bench_key_index(watch->bench, bytes_of(event->kv->key.data, event->kv->key.len),
                            &index)) {
            watch->on_deleted(watch->context, index, now_ns);
        }
    }
}

static void on_end(void *context, enum grpc_code code, const char *text) {
    (void)context;
    bench_die("the watch ended: %s (gRPC status %d)", text, (int)code);
}

static const struct lease_watch_events events = {.on_response = on_response, .on_end = on_end};

void bench_delete_watch_start(struct bench_delete_watch *watch, struct lease_client *client) {
    struct bytes prefix = bytes_from_text(watch->bench->prefix);
    uint8_t end[BENCH_KEY_SIZE_MAX];
    /* The puts are ours; hearing of them would only cost time. */
    Etcdserverpb__WatchCreateRequest__FilterType filter =
        ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    create.key = (ProtobufCBinaryData){.data = (uint8_t *)prefix.data, .len = prefix.size};
    create.range_end = (ProtobufCBinaryData){
        .data = end,
        .len = lease_client_prefix_end(prefix, end),
    };
    create.filters = &filter;
    create.n_filters = 1;
    if (lease_client_watch(client, &create, &events, watch) == NULL) {
        bench_die("watch: the connection is closed");
    }
    while (!watch->created) {
        uv_run(&watch->bench->cli->loop, UV_RUN_ONCE);
    }
}
