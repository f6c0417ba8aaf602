/*
 * Reads, and reads that wait. The index of an answer is the greatest revision of what it shows, so
 * an unchanged thing keeps its index. What was deleted has none left; there is an upper bound for
 * it, which other deletions raise too. A blocking query whose index is below that bound alone is
 * therefore not answered at once: it watches from its own index on, and the store's history tells
 * whether anything of its own was deleted since.
 */
#include "doors/consul/consul_call_internal.h"

#include <stdlib.h>

enum { WAIT_MS_DEFAULT = 300 * 1000, WAIT_MS_MAX = 600 * 1000, JITTER = 16 };

int64_t consul_call_index(const struct consul_call *call) {
    int64_t revision = key_store_revision(consul_call_keys(call));
    int64_t index = call->own_index > call->bound_index ? call->own_index : call->bound_index;
    /* Nothing of its own has changed: the client's index is still the one. */
    if (call->is_timed_out && (int64_t)call->index <= revision) {
        index = (int64_t)call->index > call->own_index ? (int64_t)call->index : call->own_index;
    }
    return index > 0 ? index : 1;
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
        if (text.data[i] < '0' || text.data[i] > '9' || text.size > 19) {
            consul_call_fail(call, 400, "Invalid index");
            return false;
        }
        call->index = call->index * 10 + (uint64_t)(text.data[i] - '0');
    }
    if (call->index > INT64_MAX) {
        consul_call_fail(call, 400, "Invalid index");
        return false;
    }
    return true;
}

static bool read_consistency(struct consul_call *call) {
    call->is_stale = consul_call_has(call, "stale");
    if (call->is_stale && consul_call_has(call, "consistent")) {
        consul_call_fail(call, 400,
                         "Cannot specify ?stale with ?consistent, conflicting semantics.");
        return false;
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
    show_and_reply(call);
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

static void wait_from(struct consul_call *call, int64_t start_revision) {
    uint64_t wait_ms = call->wait_ms + (call->is_jittered ? 0 : jitter_ms(call->wait_ms));
    call->is_jittered = true;
    call->deadline_ms = service_now_ms(call->door->service) + wait_ms + 1;
    call->door->n_waiting++;
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

/* Shows, or waits. */
static void look(struct consul_call *call) {
    const struct key_store *keys = consul_call_keys(call);
    int64_t revision = key_store_revision(keys);
    int64_t index = (int64_t)call->index;
    call->body.size = 0;
    consul_json_init(&call->json, &call->body);
    call->query->show(call, keys);
    if (call->exchange == NULL || call->status == 0) {
        return; /* the query has answered itself */
    }
    bool has_history = index >= key_store_compacted_revision(keys) && index <= revision;
    bool is_news =
        index == 0 || call->own_index > index || (call->bound_index > index && !has_history);
    if (is_news) {
        consul_call_reply(call, call->status);
    } else {
        /* Only what may have been deleted needs the history, which takes time. */
        bool is_certain = call->bound_index <= index;
        wait_from(call, has_history && !is_certain ? index + 1 : revision + 1);
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
    call->query = query;
    read_ranges(call);
}

void consul_call_look(struct consul_call *call, const struct consul_query *query) {
    call->query = query;
    read_ranges(call);
}
