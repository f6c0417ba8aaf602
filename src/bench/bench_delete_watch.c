#include "bench/bench_delete_watch.h"

#include "base/clock.h"
#include "client/lease_hot.h"

#include <string.h>

static void on_message(void *context, struct bytes message) {
    struct bench_delete_watch *watch = context;
    struct lease_hot_watch seen;
    struct lease_hot_event event;
    uint64_t now_ns = clock_boottime_ns();
    if (!lease_hot_watch_decode(message, &seen)) {
        bench_die("the watch sent what cannot be decoded");
    }
    if (seen.canceled) {
        bench_die("the watch was cancelled: %.*s", (int)seen.cancel_reason.size,
                  (const char *)seen.cancel_reason.data);
    }
    watch->created = watch->created || seen.created;
    while (lease_hot_watch_next(&seen, &event)) {
        uint64_t index;
        if (event.is_delete && bench_key_index(watch->bench, event.key, &index)) {
            watch->on_deleted(watch->context, index, now_ns);
        }
    }
    if (seen.is_malformed) {
        bench_die("the watch sent what cannot be decoded");
    }
}

static void on_end(void *context, enum grpc_code code, const char *text) {
    (void)context;
    bench_die("the watch ended: %s (gRPC status %d)", text, (int)code);
}

static const struct lease_watch_events events = {.on_message = on_message, .on_end = on_end};

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
        uv_run(watch->bench->loop, UV_RUN_ONCE);
    }
}
