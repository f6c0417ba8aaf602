#include "doors/redis/redis_door.h"

#include "base/clock.h"
#include "base/prometheus.h"
#include "core/auth.h"
#include "doors/redis/redis_cursors.h"
#include "doors/redis/redis_door_internal.h"

#include <stdlib.h>

int64_t redis_door_wall_ms(const struct redis_door *door) {
    (void)door;
    return clock_wall_ms();
}

/* SplitMix64, from a secret seed: what SPOP takes cannot be foreseen, and need not be more. */
uint64_t redis_door_random(struct redis_door *door) {
    uint64_t number = door->random += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

bool redis_door_asks_who(const struct redis_door *door) {
    return auth_is_enabled(state_view_auth(service_view(door->service)));
}

static void *open_door(const struct door_environment *environment) {
    struct redis_door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->environment = environment;
    door->service = environment->service;
    size_t request_max = environment->request_size_max;
    door->limits = (struct redis_parser_limits){
        .arguments_max = REDIS_ARGUMENTS_MAX,
        .bulk_max = request_max < RULE_REQUEST_SIZE_MAX ? request_max : RULE_REQUEST_SIZE_MAX};
    arena_init(&door->arena);
    buffer_init(&door->scratch);
    buffer_init(&door->converted);
    buffer_init(&door->encoded);
    list_init(&door->connections);
    hash_key_fill(&door->hash_key);
    door->random = door->hash_key.words[0];
    door->stats.started_ms = service_now_ms(door->service);
    redis_delays_open(door);
    door->output = redis_output_create(door);
    door->cursors = redis_cursors_create();
    door->pubsub = redis_pubsub_create(door);
    door->waits = redis_waits_create(door);
    return door;
}

static void serve(void *door, struct net_scope *scope) {
    net_scope_add_raw(scope, &redis_protocol, door);
}

static void close_door(void *opaque) {
    struct redis_door *door = opaque;
    redis_waits_destroy(door->waits);
    redis_pubsub_destroy(door->pubsub);
    redis_cursors_destroy(door->cursors);
    redis_output_destroy(door->output);
    redis_delays_close(door);
    buffer_clear(&door->encoded);
    buffer_clear(&door->converted);
    buffer_clear(&door->scratch);
    arena_clear(&door->arena);
    free(door);
}

static void write_metrics(const void *opaque, struct buffer *out) {
    const struct redis_door *door = opaque;
    prometheus_gauge(out, "leased_redis_connections", "Open connections of the Redis protocol.",
                     door->n_connections);
    prometheus_gauge(out, "leased_redis_blocked_clients",
                     "Clients of this member that wait for a key.", redis_waits_count(door->waits));
    prometheus_counter(out, "leased_redis_commands_total",
                       "Commands that this member's clients have sent.", door->stats.commands);
    prometheus_counter(out, "leased_redis_error_replies_total",
                       "Replies of this member that were errors.", door->stats.errors);
    prometheus_counter(out, "leased_redis_reads_total",
                       "Commands that were answered without a log entry.", door->stats.reads);
    prometheus_counter(out, "leased_redis_submitted_total",
                       "Commands, transactions and scripts that went through the log.",
                       door->stats.rules);
    prometheus_counter(out, "leased_redis_messages_total",
                       "Messages delivered to this member's subscribers.", door->stats.messages);
}

static const struct door_request requests[] = {
#define X(token, name, arity, right, ...) {name, DOOR_RIGHT_##right},
    REDIS_COMMANDS(X)
#undef X
        {NULL, 0}};
static const struct rule *const rules[] = {&redis_rule_exec};

const struct door redis_door = {.name = "redis",
                                .title = "Redis protocol",
                                .api_version = REDIS_VERSION_SHOWN,
                                .default_port = 6379,
                                .requests = requests,
                                .rules = rules,
                                .n_rules = 1,
                                .open = open_door,
                                .serve = serve,
                                .write_metrics = write_metrics,
                                .close = close_door};
