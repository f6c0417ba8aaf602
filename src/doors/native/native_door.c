#include "doors/native/native_door.h"

#include "doors/native/native_call.h"
#include "doors/native/native_clock.h"
#include "doors/native/native_gateway.h"
#include "doors/native/native_rules.h"
#include "doors/native/native_settler.h"
#include "doors/native/native_wait.h"

#include <stdlib.h>

static void *open_door(const struct door_environment *environment) {
    struct native_door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->service = environment->service;
    door->loop = environment->loop;
    arena_init(&door->arena);
    leased_v1_api_init(&door->api, environment->service, native_error_of);
    door->clock = native_clock_create(environment->loop, environment->service);
    door->waits = native_waits_create(door);
    door->settler = native_settler_create(door);
    return door;
}

static void serve(void *opaque, struct net_scope *scope) {
    static const struct native_methods *const services[] = {
        &native_session_methods, &native_renew_methods,   &native_resource_methods,
        &native_acquire_methods, &native_observe_methods, &native_pool_methods,
        &native_fence_methods,   &native_history_methods, &native_event_methods,
    };
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++) {
        net_scope_add_methods(scope, services[i]->methods, services[i]->n_methods, opaque);
    }
    native_gateway_register(scope);
}

static void write_metrics(const void *door, struct buffer *out) {
    native_metrics_write(door, out);
}

static void close_door(void *opaque) {
    struct native_door *door = opaque;
    native_waits_destroy(door->waits);
    native_settler_destroy(door->settler);
    native_clock_destroy(door->clock);
    free(door->spare_renewal);
    leased_v1_api_clear(&door->api);
    arena_clear(&door->arena);
    free(door);
}

const struct door native_door = {
    .name = "native",
    .title = "native API",
    .api_version = "1",
    .default_port = 2379,
    .is_default = true,
    .requests = native_request_table,
    .rules = native_rules,
    .n_rules = NATIVE_N_RULES,
    .open = open_door,
    .serve = serve,
    .write_metrics = write_metrics,
    .close = close_door,
};
