#include "doors/registry/registry_door.h"

#include "registry/registry_rules.h"

static const struct door_request requests[] = {{NULL, DOOR_RIGHT_NONE}};

static void serve(void *door, struct net_scope *scope) {
    (void)door;
    (void)scope;
}

const struct door registry_door = {
    .name = "registry",
    .title = "registry API",
    .api_version = "1",
    .default_port = 2379,
    .is_default = true,
    .requests = requests,
    .rules = registry_rules,
    .n_rules = REGISTRY_N_RULES,
    .serve = serve,
};
