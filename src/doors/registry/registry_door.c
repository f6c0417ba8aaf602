#include "doors/registry/registry_door.h"

#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_checks.h"
#include "registry/registry_rules.h"

#include <assert.h>
#include <stdlib.h>

static void count(struct leased_v1_api *api, enum status status) {
    struct registry_api *door = list_entry(api, struct registry_api, api);
    door->stats.fenced += status == STATUS_FENCED;
}

static void *open_door(const struct door_environment *environment) {
    struct registry_api *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->service = environment->service;
    arena_init(&door->arena);
    leased_v1_api_init(&door->api, environment->service, registry_api_error_of);
    door->api.count = count;
    registry_api_later_init(door, environment->loop);
    door->checks = registry_checks_open(environment);
    return door;
}

static void serve(void *opaque, struct net_scope *scope) {
    static const struct registry_api_methods *const parts[] = {
        &registry_api_change_methods, &registry_api_discover_methods, &registry_api_renew_methods,
        &registry_api_report_methods, &registry_api_watch_methods,
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        net_scope_add_methods(scope, parts[i]->methods, parts[i]->n_methods, opaque);
    }
    registry_api_gateway_register(scope);
}

static void stop_door(void *opaque) {
    struct registry_api *door = opaque;
    door->is_stopped = true;
    (void)uv_timer_stop(&door->timer);
    check_runner_halt(door->checks);
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void close_door(void *opaque) {
    struct registry_api *door = opaque;
    assert(list_is_empty(&door->later)); /* all calls are over */
    assert(list_is_empty(&door->large));
    assert(door->n_jobs == 0);
    check_runner_close(door->checks);
    free(door->spare_renewal);
    leased_v1_api_clear(&door->api);
    arena_clear(&door->arena);
    uv_close((uv_handle_t *)&door->timer, on_closed);
}

static void write_metrics(const void *opaque, struct buffer *out) {
    const struct registry_api *door = opaque;
    registry_api_metrics_write(door, out);
    check_runner_write_metrics(door->checks, out);
}

const struct door registry_door = {
    .name = "registry",
    .title = "registry API",
    .api_version = "1",
    .default_port = 2379,
    .is_default = true,
    .flags = registry_flags,
    .n_flags = REGISTRY_N_FLAGS,
    .requests = registry_api_requests,
    .rules = registry_rules,
    .n_rules = REGISTRY_N_RULES,
    .check = registry_checks_check,
    .open = open_door,
    .serve = serve,
    .write_metrics = write_metrics,
    .stop = stop_door,
    .close = close_door,
};
