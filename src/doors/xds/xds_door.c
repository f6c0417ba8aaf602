#include "doors/xds/xds_door.h"

#include "base/log.h"
#include "doors/xds/xds_shared.h"
#include "doors/xds/xds_state.h"

#include <stdlib.h>

enum {
    WATCHDOG_MS = 500,
    /* A member that is cut off from the others ends its streams: clients keep what they have, and
     * go on at another member. */
    LEADERLESS_MS = 3000
};

static const struct xds_error error_leaderless = {GRPC_UNAVAILABLE,
                                                  "this member has no leader: ask another member"};

static void watch_leader(uv_timer_t *timer) {
    struct xds_door *door = timer->data;
    struct service_info info;
    service_info(door->service, &info);
    uint64_t now_ms = service_now_ms(door->service);
    if (info.leader_id != 0 || list_is_empty(&door->streams)) {
        door->leaderless_since_ms = 0;
    } else if (door->leaderless_since_ms == 0) {
        door->leaderless_since_ms = now_ms;
    } else if (now_ms - door->leaderless_since_ms >= LEADERLESS_MS) {
        log_warning("xDS streams are ended: this member has no leader",
                    LOG_NUMBER("streams", door->stats.streams));
        door->leaderless_since_ms = 0;
        xds_stream_end_all(door, &error_leaderless);
    }
}

static void *open_door(const struct door_environment *environment) {
    struct xds_door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->service = environment->service;
    door->loop = environment->loop;
    arena_init(&door->arena);
    arena_init(&door->request_arena);
    buffer_init(&door->scratch);
    list_init(&door->streams);
    list_init(&door->stale);
    list_init(&door->behind);
    door->shared = xds_shared_table_create();
    uv_idle_init(door->loop, &door->idle);
    uv_timer_init(door->loop, &door->watchdog);
    uv_timer_init(door->loop, &door->retry);
    door->idle.data = door;
    door->watchdog.data = door;
    door->retry.data = door;
    uv_timer_start(&door->watchdog, watch_leader, WATCHDOG_MS, WATCHDOG_MS);
    uv_unref((uv_handle_t *)&door->idle);
    uv_unref((uv_handle_t *)&door->watchdog);
    uv_unref((uv_handle_t *)&door->retry);
    return door;
}

static void serve(void *opaque, struct net_scope *scope) {
    net_scope_add_methods(scope, xds_stream_methods.methods, xds_stream_methods.n_methods, opaque);
    net_scope_add_methods(scope, xds_fetch_methods.methods, xds_fetch_methods.n_methods, opaque);
    xds_fetch_register(scope, opaque);
}

static void write_metrics(const void *door, struct buffer *out) {
    xds_metrics_write(door, out);
}

static void stop_door(void *opaque) {
    struct xds_door *door = opaque;
    door->is_stopped = true;
    uv_timer_stop(&door->watchdog);
    uv_timer_stop(&door->retry);
    uv_idle_stop(&door->idle);
}

/* One handle after the other. */
static void on_closed(uv_handle_t *handle) {
    struct xds_door *door = handle->data;
    if (!uv_is_closing((uv_handle_t *)&door->watchdog)) {
        uv_close((uv_handle_t *)&door->watchdog, on_closed);
    } else if (!uv_is_closing((uv_handle_t *)&door->retry)) {
        uv_close((uv_handle_t *)&door->retry, on_closed);
    } else {
        free(door);
    }
}

static void close_door(void *opaque) {
    struct xds_door *door = opaque;
    xds_shared_table_destroy(door->shared);
    buffer_clear(&door->scratch);
    arena_clear(&door->request_arena);
    arena_clear(&door->arena);
    uv_close((uv_handle_t *)&door->idle, on_closed);
}

const struct door xds_door = {
    .name = "xds",
    .title = "xDS API",
    .api_version = "3",
    .default_port = 18000,
    .requests = xds_request_table,
    .open = open_door,
    .serve = serve,
    .write_metrics = write_metrics,
    .stop = stop_door,
    .close = close_door,
};
