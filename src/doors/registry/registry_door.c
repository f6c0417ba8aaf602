#include "doors/registry/registry_door.h"

#include "doors/registry/registry_checks.h"
#include "registry/registry_rules.h"

#include <stdlib.h>

struct registry_api {
    struct check_runner *checks;
};

static const struct door_request requests[] = {{NULL, DOOR_RIGHT_NONE}};

static void *open_door(const struct door_environment *environment) {
    struct registry_api *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->checks = registry_checks_open(environment);
    return door;
}

static void serve(void *door, struct net_scope *scope) {
    (void)door;
    (void)scope;
}

static void write_metrics(const void *opaque, struct buffer *out) {
    const struct registry_api *door = opaque;
    check_runner_write_metrics(door->checks, out);
}

static void close_door(void *opaque) {
    struct registry_api *door = opaque;
    check_runner_close(door->checks);
    free(door);
}

const struct door registry_door = {
    .name = "registry",
    .title = "registry API",
    .api_version = "1",
    .default_port = 2379,
    .is_default = true,
    .flags = registry_flags,
    .n_flags = REGISTRY_N_FLAGS,
    .requests = requests,
    .rules = registry_rules,
    .n_rules = REGISTRY_N_RULES,
    .check = registry_checks_check,
    .open = open_door,
    .serve = serve,
    .write_metrics = write_metrics,
    .close = close_door,
};
