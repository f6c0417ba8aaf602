/*
 * Reads, and reads that wait. The index of an answer is the greatest revision of what it shows, so
 * an unchanged thing keeps its index. What was deleted has none left; there is an upper bound for
 * it, which other deletions raise too. A blocking query whose index is below that bound alone is
 * therefore not answered at once: it watches from its own index on, and the store's history tells
 * whether anything of its own was deleted since.
 */
#include "doors/consul/consul_call_internal.h"
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_list.h"

#include <stdlib.h>

enum {
    WAIT_MS_DEFAULT = 300 * 1000,
    WAIT_MS_MAX = 600 * 1000,
    JITTER = 16,
    /* Records of a list that is written on the loop, and how large its answer may be when much
     * waits to be sent. */
    SHORT_RECORDS_MAX = 1000,
    NEAR_WORK = 2, /* of ?near=: a list is gone through several times, and written once */
    SMALL_SIZE = 16 * 1024,
    /* How often a list looks whether there is room for it, and how long. */
    DEFER_MS = 1,
    DEFER_MS_MAX = 10 * 1000
};

static void look_at_list(struct consul_call *call);

uint64_t consul_call_index(const struct consul_call *call) {
    if (call->has_named_index) {
        return call->named_index;
    }
    int64_t revision = key_store_revision(consul_call_keys(call));
    int64_t index = call->own_index > call->bound_index ? call->own_index : call->bound_index;
    /* Nothing of its own has changed: the client's index is still the one. */
    if (call->is_timed_out && call->index <= (uint64_t)revision) {
        index = (int64_t)call->index > call->own_index ? (int64_t)call->index : call->own_index;
    }
    return index > 0 ? (uint64_t)index : 1;
}

/* --- Parameters. --- */

static bool read_wait(struct consul_call *call) {
    struct bytes text = consul_call_text(call, "wait");
    int64_t wait_ms = WAIT_MS_DEFAULT;
    if (text.size > 0 && (!consul_duration_read(text, &wait_ms) || wait_ms < 0)) {
        consul_call_fail(call, 400, "Invalid wait time");
        return false;
    }
    if (wait_ms == 0) {
        wait_ms = WAIT_MS_DEFAULT;
    }
    call->wait_ms = (uint64_t)(wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX);
    return true;
}

static bool read_index(struct consul_call *call) {
    struct bytes text = consul_call_text(call, "index");
    for (size_t i = 0; i < text.size; i++) {
        uint64_t digit = (uint64_t)text.data[i] - '0';
        if (digit > 9 || call->index > (UINT64_MAX - digit) / 10) {
            consul_call_fail(call, 400, "Invalid index");
            return false;
        }
        call->index = call->index * 10 + digit;
    }
    return true;
}

/* The cache of a member is its own copy of the data, which the leader keeps up to date. Without a
 * leader nobody knows how old it is. */
static bool read_cached(struct consul_call *call) {
    struct service_info info;
    if (consul_call_has(call, "consistent")) {
        consul_call_fail(call, 400,
                         "Cannot specify ?cached with ?consistent, conflicting semantics.");
        return false;
    }
    service_info(call->door->service, &info);
    call->is_cached = info.leader_id != 0;
    call->is_stale = call->is_stale || call->is_cached;
    return true;
}

static bool read_consistency(struct consul_call *call) {
    call->is_stale = consul_call_has(call, "stale");
    if (call->is_stale && consul_call_has(call, "consistent")) {
        consul_call_fail(call, 400,
                         "Cannot specify ?stale with ?consistent, conflicting semantics.");
        return false;
    }
    if (consul_call_has(call, "cached")) {
        return read_cached(call);
    }
    return true;
}

/* --- Waiting. --- */

void consul_call_stop_waiting(struct consul_call *call) {
    if (call->deadline_ms == 0) {
        return;
    }
    for (size_t i = 0; i < call->n_ranges; i++) {
        service_unwatch(call->door->service, &call->watches[i].watch);
    }
    call->door->n_waiting--;
    call->deadline_ms = 0;
}

static void show_and_reply(struct consul_call *call) {
    call->body.size = 0;
    consul_json_init(&call->json, &call->body);
    call->query->show(call, consul_call_keys(call));
    if (call->exchange != NULL && call->status != 0) {
        consul_call_reply(call, call->status);
    }
}

/* Woken, out of time, or the server stops. Rights may have changed meanwhile. */
static void on_timer(struct http_exchange *exchange) {
    struct consul_call *call = http_data(exchange);
    struct service *service = call->door->service;
    bool is_woken = call->is_woken;
    consul_call_stop_waiting(call);
    enum status status =
        service_read_local(service, http_caller(exchange), call->ranges, call->n_ranges);
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
        return;
    }
    call->door->n_woken += is_woken ? 1 : 0;
    call->is_timed_out = !is_woken;
    if (call->query->list != NULL) {
        call->may_wait = false;
        look_at_list(call);
    } else {
        show_and_reply(call);
    }
}

/* A watch must not be ended while it delivers. */
static void wake(struct consul_call *call) {
    if (!call->is_woken) {
        call->is_woken = true;
        http_set_timer(call->exchange, 0, on_timer);
    }
}

static struct consul_call *call_of(struct service_watch *watch) {
    return list_entry(watch, struct consul_watch, watch)->call;
}

static bool on_events(struct service_watch *watch, const struct watch_batch *batch) {
    struct consul_call *call = call_of(watch);
    for (size_t i = 0; i < batch->n_events; i++) {
        if (call->query->concerns == NULL || call->query->concerns(call, batch->events[i])) {
            wake(call);
            break;
        }
    }
    return true;
}

static void on_compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    wake(call_of(watch));
}

static void on_revoked(struct service_watch *watch, enum status status) {
    (void)status;
    wake(call_of(watch));
}

static enum status watch_range(struct consul_call *call, size_t i, int64_t start_revision) {
    struct consul_watch *place = &call->watches[i];
    const struct service_watch_options options = {.range = call->ranges[i],
                                                  .start_revision = start_revision};
    memset(place, 0, sizeof *place);
    place->call = call;
    place->watch.deliver = on_events;
    place->watch.compacted = on_compacted;
    place->watch.revoked = on_revoked;
    return service_watch(call->door->service, http_caller(call->exchange), &place->watch, &options);
}

/* All at once come back at once, unless they are spread. */
static uint64_t jitter_ms(uint64_t wait_ms) {
    return wait_ms < JITTER ? 0 : (uint64_t)random() % (wait_ms / JITTER);
}

void consul_call_wait(struct consul_call *call, int64_t start_revision) {
    uint64_t wait_ms = call->wait_ms + (call->is_jittered ? 0 : jitter_ms(call->wait_ms));
    call->is_jittered = true;
    call->deadline_ms = service_now_ms(call->door->service) + wait_ms + 1;
    call->door->n_waiting++;
    call->searches = NULL;
    call->n_looked_at = 0;
    consul_filter_forget(call);
    arena_clear(&call->scratch);
    buffer_clear(&call->body);
    for (size_t i = 0; i < call->n_ranges; i++) {
        enum status status = watch_range(call, i, start_revision);
        if (status != STATUS_OK) {
            consul_call_fail_status(call, status);
            return;
        }
    }
    http_set_timer(call->exchange, wait_ms, on_timer);
}

bool consul_call_is_news(const struct consul_call *call, const struct key_store *keys,
                         int64_t *out_revision) {
    int64_t revision = key_store_revision(keys);
    int64_t index = call->index < INT64_MAX ? (int64_t)call->index : INT64_MAX;
    if (call->has_named_index) {
        *out_revision = revision + 1;
        return call->index == 0 || call->index != call->named_index;
    }
    bool has_history = index >= key_store_compacted_revision(keys) && index <= revision;
    /* Only what may have been deleted needs the history, which takes time. */
    bool is_certain = call->bound_index <= index;
    *out_revision = has_history && !is_certain ? index + 1 : revision + 1;
    return index == 0 || call->own_index > index || (call->bound_index > index && !has_history);
}

/* --- Lists. --- */

static void look_again(struct http_exchange *exchange) {
    struct consul_call *call = http_data(exchange);
    enum status status = service_read_local(call->door->service, http_caller(exchange),
                                            call->ranges, call->n_ranges);
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
    } else {
        look_at_list(call);
    }
}

/* Others have had this iteration's share. */
static void defer(struct consul_call *call) {
    uint64_t now_ms = service_now_ms(call->door->service);
    if (!call->is_deferred) {
        call->is_deferred = true;
        call->deferred_since_ms = now_ms;
    }
    if (now_ms - call->deferred_since_ms > DEFER_MS_MAX) {
        consul_call_fail_status(call, STATUS_TOO_MANY_REQUESTS);
    } else {
        http_set_timer(call->exchange, DEFER_MS, look_again);
    }
}

static void write_short(struct consul_call *call, const struct key_store *keys) {
    const struct consul_list *list = call->query->list;
    bool is_whole = list->part(call, keys);
    arena_reset(&call->scratch);
    if (!is_whole) {
        consul_scan_start(call); /* few, but large */
    } else if (call->body.size > SMALL_SIZE && !http_has_room(call->exchange)) {
        consul_call_fail_status(call, STATUS_TOO_MANY_REQUESTS);
    } else {
        consul_call_reply(call, call->status);
    }
}

static void look_at_list(struct consul_call *call) {
    const struct key_store *keys = consul_call_keys(call);
    const struct consul_list *list = call->query->list;
    const struct key_range *range = &call->ranges[0];
    size_t n = key_store_count(keys, range->space, range->key, range->range_end);
    bool is_short = n <= SHORT_RECORDS_MAX;
    size_t work = n * list->work * (call->near.is_asked ? NEAR_WORK : 1);
    bool has_room = is_short && service_allow_work(call->door->service, work);
    int64_t revision;
    consul_list_begin(call);
    if (has_room || list->is_index_cheap) {
        list->index(call, keys);
        if (call->may_wait && !consul_call_is_news(call, keys, &revision)) {
            consul_call_wait(call, revision);
            return;
        }
    }
    if (has_room) {
        write_short(call, keys);
    } else if (is_short) {
        defer(call);
    } else {
        consul_scan_start(call);
    }
}

/* --- Shows, or waits. --- */

static void look(struct consul_call *call) {
    const struct key_store *keys = consul_call_keys(call);
    int64_t revision;
    if (call->query->list != NULL) {
        call->may_wait = true;
        look_at_list(call);
        return;
    }
    call->body.size = 0;
    consul_json_init(&call->json, &call->body);
    call->query->show(call, keys);
    if (call->exchange == NULL || call->status == 0) {
        return; /* the query has answered itself */
    }
    if (consul_call_is_news(call, keys, &revision)) {
        consul_call_reply(call, call->status);
    } else {
        consul_call_wait(call, revision);
    }
}

void consul_call_look_again(struct consul_call *call) {
    enum status status = service_read_local(call->door->service, http_caller(call->exchange),
                                            call->ranges, call->n_ranges);
    call->query = call->look;
    call->status = 200;
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
    } else if (call->is_woken || call->is_timed_out) {
        show_and_reply(call);
    } else {
        look(call);
    }
}

/* --- Reading. --- */

static void on_ready(struct service_read *read, enum status status) {
    struct consul_call *call = list_entry(read, struct consul_call, read);
    if (call->exchange == NULL) {
        consul_call_unpend(call);
        return;
    }
    call->n_pending--;
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
        return;
    }
    look(call);
}

static void read_ranges(struct consul_call *call) {
    struct service *service = call->door->service;
    const struct caller *caller = http_caller(call->exchange);
    call->read.ready = on_ready;
    call->n_pending++;
    enum status status =
        call->is_stale ? service_read_local(service, caller, call->ranges, call->n_ranges)
                       : service_read(service, caller, &call->read, call->ranges, call->n_ranges);
    if (status == STATUS_PENDING) {
        return;
    }
    call->n_pending--;
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
        return;
    }
    look(call);
}

void consul_call_query(struct consul_call *call, const struct consul_query *query) {
    if (!consul_call_check_dc(call) || !read_wait(call) || !read_index(call) ||
        !read_consistency(call)) {
        return;
    }
    call->query = call->look = query;
    read_ranges(call);
}

void consul_call_look(struct consul_call *call, const struct consul_query *query) {
    call->query = call->look = query;
    read_ranges(call);
}
