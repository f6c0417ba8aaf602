#include "doors/zookeeper/zk_door.h"

#include "doors/zookeeper/zk_admin.h"
#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_delays.h"
#include "doors/zookeeper/zk_rules.h"
#include "doors/zookeeper/zk_tellings.h"

#include <openssl/rand.h>
#include <stdlib.h>

static void *open_door(const struct door_environment *environment) {
    struct zk_door *door = calloc(1, sizeof *door);
    if (door == NULL ||
        RAND_bytes((unsigned char *)&door->next_number, sizeof door->next_number) != 1) {
        abort();
    }
    door->environment = environment;
    door->service = environment->service;
    arena_init(&door->arena);
    buffer_init(&door->scratch);
    buffer_init(&door->reply);
    list_init(&door->connections);
    hash_key_fill(&door->key);
    zk_watches_init(&door->watches);
    zk_delays_open(door);
    zk_tellings_open(door);
    return door;
}

static void serve(void *door, struct net_scope *scope) {
    net_scope_add_raw(scope, &zk_protocol, door);
    zk_admin_serve(door, scope);
}

static void write_metrics(const void *door, struct buffer *out) {
    zk_metrics_write(door, out);
}

static void stop(void *door) {
    zk_delays_stop(door);
}

static void close_door(void *opaque) {
    struct zk_door *door = opaque;
    zk_delays_close(door);
    zk_tellings_close(door);
    zk_watches_clear(&door->watches);
    zk_hash_clear(&door->sessions);
    buffer_clear(&door->scratch);
    buffer_clear(&door->reply);
    arena_clear(&door->arena);
    free(door);
}

static const struct door_flag flags[ZK_N_FLAGS] = {
    [ZK_FLAG_TIMEOUT_MIN] = {.name = "zookeeper-min-session-timeout",
                             .kind = DOOR_FLAG_DURATION,
                             .fallback = "100ms",
                             .help = "The shortest session timeout that a client may have."},
    [ZK_FLAG_TIMEOUT_MAX] = {.name = "zookeeper-max-session-timeout",
                             .kind = DOOR_FLAG_DURATION,
                             .fallback = "40s",
                             .help = "The longest session timeout that a client may have."},
    [ZK_FLAG_CONTAINER_CHECK] = {.name = "zookeeper-container-check-interval",
                                 .kind = DOOR_FLAG_DURATION,
                                 .fallback = "60s",
                                 .help = "How long a container may be empty before it goes."},
    [ZK_FLAG_SUPER_DIGEST] = {.name = "zookeeper-super-digest",
                              .kind = DOOR_FLAG_TEXT,
                              .fallback = "",
                              .shown = "none",
                              .help = "USER:DIGEST that no access list of a node binds, as "
                                      "ZooKeeper's superDigest."},
};

/* While authentication is on, a client connects first and shows its password then: what needs no
 * right touches nothing but its own session. */
static const struct door_request requests[] = {
    {"ruok", DOOR_RIGHT_NONE},
    {"isro", DOOR_RIGHT_NONE},
    {"srvr", DOOR_RIGHT_NONE},
    {"mntr", DOOR_RIGHT_NONE},
    {"wchs", DOOR_RIGHT_NONE},
    {"stat", DOOR_RIGHT_ROOT},
    {"cons", DOOR_RIGHT_ROOT},
    {"dump", DOOR_RIGHT_ROOT},
    {"wchc", DOOR_RIGHT_ROOT},
    {"wchp", DOOR_RIGHT_ROOT},
    {"conf", DOOR_RIGHT_ROOT},
    {"envi", DOOR_RIGHT_ROOT},
    {"crst", DOOR_RIGHT_ROOT},
    {"srst", DOOR_RIGHT_ROOT},
    {"GET /commands", DOOR_RIGHT_ROOT},
    {"GET /commands/{command}", DOOR_RIGHT_ROOT},
    {"connect", DOOR_RIGHT_NONE},
    {"ping", DOOR_RIGHT_NONE},
    {"auth", DOOR_RIGHT_NONE},
    {"closeSession", DOOR_RIGHT_NONE},
    {"whoAmI", DOOR_RIGHT_USER},
    {"getEphemerals", DOOR_RIGHT_USER},
    {"removeWatches", DOOR_RIGHT_USER},
    {"checkWatches", DOOR_RIGHT_USER},
    {"create", DOOR_RIGHT_WRITE},
    {"create2", DOOR_RIGHT_WRITE},
    {"createContainer", DOOR_RIGHT_WRITE},
    {"createTTL", DOOR_RIGHT_WRITE},
    {"delete", DOOR_RIGHT_WRITE},
    {"setData", DOOR_RIGHT_WRITE},
    {"setACL", DOOR_RIGHT_WRITE},
    {"multi", DOOR_RIGHT_READ_WRITE},
    {"check", DOOR_RIGHT_READ},
    {"exists", DOOR_RIGHT_READ},
    {"getData", DOOR_RIGHT_READ},
    {"getACL", DOOR_RIGHT_READ},
    {"getChildren", DOOR_RIGHT_READ},
    {"getChildren2", DOOR_RIGHT_READ},
    {"getAllChildrenNumber", DOOR_RIGHT_READ},
    {"multiRead", DOOR_RIGHT_READ},
    {"sync", DOOR_RIGHT_READ},
    {"reconfig", DOOR_RIGHT_USER}, /* refused */
    {"sasl", DOOR_RIGHT_USER},     /* refused */
    {"setWatches", DOOR_RIGHT_READ},
    {"setWatches2", DOOR_RIGHT_READ},
    {"addWatch", DOOR_RIGHT_READ},
    {NULL, DOOR_RIGHT_NONE},
};

const struct door zk_door = {
    .name = "zookeeper",
    .title = "ZooKeeper API",
    .api_version = "3.8",
    .default_port = 2181,
    .flags = flags,
    .n_flags = ZK_N_FLAGS,
    .requests = requests,
    .rules = zk_rules,
    .n_rules = ZK_N_RULES,
    .open = open_door,
    .serve = serve,
    .write_metrics = write_metrics,
    .stop = stop,
    .close = close_door,
};
