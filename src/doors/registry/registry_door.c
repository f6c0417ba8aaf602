#include "doors/registry/registry_door.h"

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
    .serve = serve,
};
