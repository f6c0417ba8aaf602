#include "doors/eureka/eureka_door.h"

#include "base/prometheus.h"
#include "doors/eureka/eureka_internal.h"
#include "doors/eureka/eureka_tree.h"

#include <stdlib.h>

const struct key_store *eureka_door_keys(const struct eureka_door *door) {
    return state_view_keys(service_view(door->service));
}

void eureka_door_note(struct eureka_door *door) {
    eureka_moments_note(&door->moments, service_now_ms(door->service),
                        key_store_revision(eureka_door_keys(door)));
}

/* --- Routes. --- */

#define LIST(route_pattern, function)                                                              \
    {                                                                                              \
        .method = "GET", .pattern = (route_pattern), .time_max_ms = HTTP_NO_TIME_LIMIT,            \
        .on_request = (function), .on_writable = eureka_listing_writable,                          \
        .on_close = eureka_listing_closed                                                          \
    }
/* Some clients send bodies that mean nothing. */
#define CHANGE(route_method, route_pattern, function)                                              \
    {                                                                                              \
        .method = (route_method), .pattern = (route_pattern), .body_max = EUREKA_BODY_SIZE_MAX,    \
        .on_request = (function), .on_close = eureka_request_closed                                \
    }
#define ROUTES(prefix)                                                                             \
    LIST(prefix "/apps", eureka_on_all), LIST(prefix "/apps/", eureka_on_all),                     \
        LIST(prefix "/apps/delta", eureka_on_delta),                                               \
        LIST(prefix "/apps/{app}", eureka_on_application),                                         \
        LIST(prefix "/vips/{vip}", eureka_on_vip),                                                 \
        LIST(prefix "/svips/{vip}", eureka_on_secure_vip),                                         \
        {.method = "POST",                                                                         \
         .pattern = prefix "/apps/{app}",                                                          \
         .body_max = EUREKA_BODY_SIZE_MAX,                                                         \
         .on_body = eureka_on_register,                                                            \
         .on_close = eureka_request_closed},                                                       \
        CHANGE("GET", prefix "/apps/{app}/{id}", eureka_on_instance),                              \
        CHANGE("PUT", prefix "/apps/{app}/{id}", eureka_on_renew),                                 \
        CHANGE("DELETE", prefix "/apps/{app}/{id}", eureka_on_cancel),                             \
        CHANGE("PUT", prefix "/apps/{app}/{id}/status", eureka_on_status),                         \
        CHANGE("DELETE", prefix "/apps/{app}/{id}/status", eureka_on_delete_status),               \
        CHANGE("PUT", prefix "/apps/{app}/{id}/metadata", eureka_on_metadata),                     \
        CHANGE("GET", prefix "/instances/{id}", eureka_on_instance_by_id),                         \
        CHANGE(NULL, prefix "/peerreplication/{rest...}", eureka_on_replication)

static const struct http_route routes[] = {ROUTES("/eureka"), ROUTES("/eureka/v2")};

/* --- The table. --- */

static void *open_door(const struct door_environment *environment) {
    struct eureka_door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->environment = environment;
    door->service = environment->service;
    eureka_door_note(door);
    return door;
}

static void serve(void *door, struct net_scope *scope) {
    net_scope_add_routes(scope, routes, sizeof routes / sizeof routes[0], door);
}

static void write_metrics(const void *opaque, struct buffer *out) {
    static const char name[] = "leased_eureka_requests_total";
    static const char *const kinds[EUREKA_COUNTERS] = {
        [EUREKA_COUNT_REGISTER] = "register",
        [EUREKA_COUNT_RENEW] = "renew",
        [EUREKA_COUNT_RENEW_NOT_FOUND] = "renew_not_found",
        [EUREKA_COUNT_CANCEL] = "cancel",
        [EUREKA_COUNT_STATUS] = "status",
        [EUREKA_COUNT_METADATA] = "metadata",
        [EUREKA_COUNT_LIST] = "list",
        [EUREKA_COUNT_DELTA] = "delta",
        [EUREKA_COUNT_INSTANCE] = "instance",
    };
    const struct eureka_door *door = opaque;
    prometheus_family(out, name, PROMETHEUS_COUNTER, "Requests of the Eureka API, by kind.");
    for (size_t i = 0; i < EUREKA_COUNTERS; i++) {
        const struct prometheus_label label = {.name = "kind", .value = kinds[i]};
        prometheus_sample_u64(out, name, "", &label, 1, door->counters[i]);
    }
}

static void close_door(void *door) {
    free(door);
}

const struct door eureka_door = {
    .name = "eureka",
    .title = "Eureka API",
    .api_version = "2",
    .default_port = 8761,
    .requests = eureka_requests,
    .open = open_door,
    .serve = serve,
    .write_metrics = write_metrics,
    .close = close_door,
};
