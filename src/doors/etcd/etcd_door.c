#include "doors/etcd/etcd_door.h"

#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_gateway.h"
#include "doors/etcd/etcd_queue.h"
#include "doors/etcd/etcd_queue_rules.h"
#include "doors/etcd/etcd_renewal_turns.h"

#include <assert.h>
#include <stdlib.h>

/* As in etcd, a fragment has room for the largest request and for what is around it. */
enum { FRAGMENT_EXTRA = 512 * 1024 };

const struct etcd_door_options etcd_door_options_default = {
    .request_size_max = COMMAND_SIZE_DEFAULT,
    .progress_interval_ms = 10 * 60 * 1000, /* etcd's */
    .watches_per_stream_max = 100 * 1000,
    .progress_at_once_watches_max = 100,
    .watch_bytes_per_stream_max = (size_t)16 * 1024 * 1024,
    .renewals_per_stream_max = 100 * 1000,
    .renewals_asked_max = 1024,
    .fragment_size = COMMAND_SIZE_DEFAULT + FRAGMENT_EXTRA,
    .previous_bytes_max = (size_t)16 * 1024 * 1024,
    .queued_calls_max = 100 * 1000,
};

/* --- The timer. --- */

static void on_timer(uv_timer_t *timer);

static void set_pace(struct etcd_door *door) {
    if (list_is_empty(&door->tickers)) {
        uv_timer_stop(&door->timer);
        return;
    }
    uint64_t pace_ms = door->n_urgent > 0 ? ETCD_TICK_URGENT_MS : ETCD_TICK_MS;
    if (!uv_is_active((uv_handle_t *)&door->timer) ||
        uv_timer_get_repeat(&door->timer) != pace_ms) {
        uv_timer_start(&door->timer, on_timer, pace_ms, pace_ms);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct etcd_door *door = list_entry(timer, struct etcd_door, timer);
    uint64_t now_ms = service_now_ms(door->service);
    for (struct list *link = door->tickers.next; link != &door->tickers; link = link->next) {
        struct etcd_ticker *ticker = list_entry(link, struct etcd_ticker, link);
        ticker->tick(ticker, now_ms);
    }
}

void etcd_ticker_init(struct etcd_ticker *ticker,
                      void (*tick)(struct etcd_ticker *ticker, uint64_t now_ms)) {
    ticker->tick = tick;
    list_init(&ticker->link);
}

void etcd_ticker_start(struct etcd_door *door, struct etcd_ticker *ticker) {
    if (list_is_empty(&ticker->link)) {
        list_append(&door->tickers, &ticker->link);
        set_pace(door);
    }
}

void etcd_ticker_stop(struct etcd_door *door, struct etcd_ticker *ticker) {
    list_remove(&ticker->link);
    set_pace(door);
}

void etcd_ticker_hurry(struct etcd_door *door, bool hurry) {
    assert(hurry || door->n_urgent > 0);
    door->n_urgent += hurry ? 1 : (size_t)-1;
    set_pace(door);
}

/* --- The door. --- */

struct etcd_door *etcd_door_create(uv_loop_t *loop, struct service *service,
                                   struct authenticator *authenticator,
                                   const struct etcd_door_options *options) {
    struct etcd_door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->service = service;
    door->authenticator = authenticator;
    door->options = options != NULL ? *options : etcd_door_options_default;
    arena_init(&door->arena);
    hash_key_fill(&door->hash_key);
    list_init(&door->free_calls);
    list_init(&door->tickers);
    int result = uv_timer_init(loop, &door->timer);
    assert(result == 0);
    door->queues = etcd_queues_create(door, loop);
    door->renewal_turns = etcd_renewal_turns_create(loop);
    return door;
}

void etcd_door_register(struct etcd_door *door, struct net_scope *scope) {
    static const struct etcd_methods *const services[] = {
        &etcd_kv_methods,         &etcd_lease_methods,       &etcd_keepalive_methods,
        &etcd_watch_methods,      &etcd_maintenance_methods, &etcd_snapshot_methods,
        &etcd_cluster_methods,    &etcd_auth_methods,        &etcd_health_methods,
        &etcd_reflection_methods, &etcd_lock_methods,        &etcd_election_methods,
        &etcd_observe_methods,
    };
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++) {
        net_scope_add_methods(scope, services[i]->methods, services[i]->n_methods, door);
    }
}

static void on_timer_closed(uv_handle_t *handle) {
    struct etcd_door *door = list_entry((uv_timer_t *)handle, struct etcd_door, timer);
    free(door);
}

void etcd_door_destroy(struct etcd_door *door) {
    if (door == NULL) {
        return;
    }
    etcd_queues_destroy(door->queues);
    etcd_renewal_turns_destroy(door->renewal_turns);
    assert(list_is_empty(&door->tickers));
    assert(door->stats.requests == 0);
    struct list *link;
    while ((link = list_pop_first(&door->free_calls)) != NULL) {
        free(list_entry(link, struct etcd_call, free_link));
    }
    free(door->spare_renewal);
    arena_clear(&door->arena);
    uv_close((uv_handle_t *)&door->timer, on_timer_closed);
}

void etcd_door_stats(const struct etcd_door *door, struct etcd_door_stats *out_stats) {
    *out_stats = door->stats;
}

/* --- As the server sees it. --- */

static const struct rule *const rules[] = {&etcd_rule_join, &etcd_rule_withdraw, &etcd_rule_release,
                                           &etcd_rule_proclaim};

enum { FLAG_PROGRESS_INTERVAL, FLAG_CORS, FLAG_HOST_WHITELIST, FLAG_ENABLE_GATEWAY };

static const struct door_flag flags[] = {
    [FLAG_PROGRESS_INTERVAL] =
        {.name = "experimental-watch-progress-notify-interval",
         .kind = DOOR_FLAG_DURATION,
         .fallback = "10m",
         .help = "Interval of progress notifications to idle watches that asked for them."},
    [FLAG_CORS] =
        {.name = "cors",
         .kind = DOOR_FLAG_TEXT,
         .fallback = "*",
         .help = "Origins of web pages that may use the HTTP routes, with commas; * for all."},
    [FLAG_HOST_WHITELIST] =
        {.name = "host-whitelist",
         .kind = DOOR_FLAG_TEXT,
         .fallback = "*",
         .help =
             "Host names by which HTTP requests without TLS may call this server, with commas; * "
             "for all."},
    [FLAG_ENABLE_GATEWAY] = {.name = "enable-grpc-gateway",
                             .kind = DOOR_FLAG_SWITCH,
                             .fallback = "true",
                             .help = "Serve the etcd API as JSON over HTTP too, below /v3."},
};

static void *open_door(const struct door_environment *environment) {
    struct etcd_door_options options = etcd_door_options_default;
    const union door_value *values = environment->values;
    options.request_size_max = environment->request_size_max;
    options.fragment_size = environment->request_size_max + FRAGMENT_EXTRA;
    if (values[FLAG_PROGRESS_INTERVAL].duration_ms > 0) {
        options.progress_interval_ms = (uint64_t)values[FLAG_PROGRESS_INTERVAL].duration_ms;
    }
    struct etcd_door *door = etcd_door_create(environment->loop, environment->service,
                                              environment->authenticator, &options);
    door->net = environment->net;
    door->quota_bytes = environment->quota_bytes;
    door->access = (struct etcd_access){.origins = values[FLAG_CORS].text,
                                        .hosts = values[FLAG_HOST_WHITELIST].text};
    door->has_gateway = values[FLAG_ENABLE_GATEWAY].is_on;
    return door;
}

static void serve(void *opaque, struct net_scope *scope) {
    struct etcd_door *door = opaque;
    etcd_door_register(door, scope);
    net_scope_set_filter(scope, &etcd_access_filter, &door->access);
    if (door->has_gateway) {
        etcd_gateway_register(scope);
    }
}

static void write_metrics(const void *door, struct buffer *out) {
    etcd_metrics_write(door, out);
}

static void close_door(void *door) {
    etcd_door_destroy(door);
}

const struct door etcd_door = {
    .name = "etcd",
    .title = "etcd API",
    .api_version = ETCD_VERSION,
    .default_port = 2379,
    .is_default = true,
    .flags = flags,
    .n_flags = sizeof flags / sizeof flags[0],
    .requests = etcd_requests,
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
    .open = open_door,
    .serve = serve,
    .write_metrics = write_metrics,
    .close = close_door,
};
