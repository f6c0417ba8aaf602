#include "doors/etcd/etcd_queue.h"

#include "doors/etcd/etcd_place.h"
#include "doors/etcd/etcd_queue_call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A call that may wait is made of this, and its keys are kept here and in two watches. */
enum { PLACE_BYTES = 1024, PLACE_KEY_COPIES = 4 };
/* A cluster that has just started learns within a second that all its members know rules. */
enum { JOINS_MAX = 5000 / ETCD_TICK_MS };
/* Finding the key before one's own looks at all keys of the queue: so many in one iteration of the
 * loop, but at least one queue. */
enum { SEEK_RECORDS_MAX = 64 * 1024, SEEK_PAUSE_MS = 1 };

/* --- Waking. --- */

static void on_woken(uv_timer_t *timer);

/* Callbacks of watches must not begin or end any: what they set off runs in the next iteration. */
void etcd_place_wake(struct etcd_place *place) {
    struct etcd_queues *queues = place->queues;
    list_remove(&place->woken_link);
    list_append(&queues->woken, &place->woken_link);
    if (!uv_is_active((uv_handle_t *)&queues->timer)) {
        uv_timer_start(&queues->timer, on_woken, 0, 0);
    }
}

void etcd_queues_settle_ticker(struct etcd_queues *queues) {
    bool is_needed = !list_is_empty(&queues->later) || !list_is_empty(&queues->sessions);
    if (is_needed && !queues->is_ticking) {
        etcd_ticker_start(queues->door, &queues->ticker);
    } else if (!is_needed && queues->is_ticking) {
        etcd_ticker_stop(queues->door, &queues->ticker);
    }
    queues->is_ticking = is_needed;
}

void etcd_place_wake_later(struct etcd_place *place) {
    list_remove(&place->woken_link);
    list_append(&place->queues->later, &place->woken_link);
    etcd_queues_settle_ticker(place->queues);
}

/* --- Going on. --- */

static void joined(struct service_request *request, const struct outcome *outcome);

static void submit_join(struct etcd_place *place) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = ETCD_RULE_JOIN,
                 .request = bytes_of(place->join.data, place->join.size)}};
    place->request.done = joined;
    place->is_submitted = true;
    place->n_joins++;
    service_submit(etcd_place_service(place), &place->caller, &place->request, &command);
}

static void go_on(struct etcd_place *place) {
    switch (place->state) {
    case PLACE_WAITING:
        etcd_place_seek(place);
        break;
    case PLACE_CONFIRMING:
        if (!place->is_reading) {
            etcd_place_confirm(place);
        }
        break;
    case PLACE_RENEWING:
        etcd_place_renew(place);
        break;
    case PLACE_LEAVING:
        if (!place->is_submitted) {
            etcd_place_withdraw(place);
        }
        break;
    case PLACE_JOINING:
        if (!place->is_submitted) {
            submit_join(place);
        }
        break;
    case PLACE_OVER:
        break;
    }
}

static void on_woken(uv_timer_t *timer) {
    struct etcd_queues *queues = list_entry(timer, struct etcd_queues, timer);
    struct list woken;
    struct list *link;
    list_init(&woken);
    list_append_all(&woken, &queues->woken);
    queues->n_sought = 0;
    while (queues->n_sought < SEEK_RECORDS_MAX && (link = list_pop_first(&woken)) != NULL) {
        go_on(list_entry(link, struct etcd_place, woken_link));
    }
    if (!list_is_empty(&woken)) {
        list_append_all(&woken, &queues->woken);
        list_append_all(&queues->woken, &woken);
        uv_timer_start(&queues->timer, on_woken, SEEK_PAUSE_MS, 0);
    }
    etcd_queues_settle_ticker(queues);
}

/* Places are only woken here: a tick must not end a ticker. Each is renewed once at most: who is
 * renewed at once joins the list again, with a time that may be later than that of the tick. */
static void on_tick(struct etcd_ticker *ticker, uint64_t now_ms) {
    struct etcd_queues *queues = list_entry(ticker, struct etcd_queues, ticker);
    struct list *link;
    while ((link = list_pop_first(&queues->later)) != NULL) {
        etcd_place_wake(list_entry(link, struct etcd_place, woken_link));
    }
    struct list sessions;
    list_init(&sessions);
    list_append_all(&sessions, &queues->sessions);
    while (!list_is_empty(&sessions)) {
        struct etcd_place *place = list_entry(sessions.next, struct etcd_place, session_link);
        if (!etcd_place_is_renewal_due(place, now_ms)) {
            break;
        }
        etcd_place_renew(place);
    }
    list_append_all(&sessions, &queues->sessions);
    list_append_all(&queues->sessions, &sessions);
}

/* --- Entering. --- */

static bool keep_key(struct etcd_place *place, struct bytes name) {
    struct etcd_door *door = place->queues->door;
    struct bytes key = etcd_queue_key(&door->arena, name, place->joined.lease_id);
    place->key = malloc(key.size);
    if (place->key != NULL) {
        memcpy(place->key, key.data, key.size);
        place->key_size = key.size;
        place->name_size = name.size;
    }
    arena_reset(&door->arena);
    return place->key != NULL;
}

/* Until the lease is known, only the name is kept. */
static bool complete_key(struct etcd_place *place) {
    uint8_t *name = place->key;
    bool is_kept = keep_key(place, bytes_of(name, place->name_size));
    if (is_kept) {
        free(name);
    } else {
        place->key = name;
    }
    return is_kept;
}

static void joined(struct service_request *request, const struct outcome *outcome) {
    struct etcd_place *place = list_entry(request, struct etcd_place, request);
    place->is_submitted = false;
    if (outcome->status == STATUS_UNSUPPORTED && place->call != NULL &&
        place->n_joins < JOINS_MAX) {
        etcd_place_wake_later(place);
        return;
    }
    if (outcome->status != STATUS_OK) {
        etcd_place_finish(place, etcd_queue_error_of(outcome->status));
        etcd_place_end(place);
        return;
    }
    buffer_clear(&place->join);
    buffer_init(&place->join);
    bool is_readable = etcd_joined_decode(outcome->rule.answer, &place->joined);
    assert(is_readable);
    place->joined_revision = outcome->revision;
    place->renewed_ms = service_now_ms(etcd_place_service(place));
    if (place->call == NULL) {
        etcd_place_leave(place);
    } else if (!complete_key(place)) {
        etcd_place_fail(place, STATUS_NO_MEMORY);
    } else if (place->joined.is_first) {
        etcd_place_answer(place, outcome->revision);
    } else {
        place->state = PLACE_WAITING;
        if (place->owns_lease) {
            etcd_place_keep_session(place);
        }
        etcd_place_wake(place);
    }
}

static struct etcd_place *place_create(struct etcd_queues *queues, struct bytes name,
                                       int64_t lease_id) {
    struct etcd_place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return NULL;
    }
    place->queues = queues;
    place->joined.lease_id = lease_id;
    place->owns_lease = lease_id == 0;
    if (!keep_key(place, name)) {
        free(place);
        return NULL;
    }
    buffer_init(&place->join);
    list_init(&place->woken_link);
    list_init(&place->session_link);
    etcd_place_init_watches(place);
    list_append(&queues->places, &place->link);
    queues->n_places++;
    return place;
}

void etcd_queue_enter(struct grpc_call *call, const struct etcd_place_kind *kind, struct bytes name,
                      struct bytes value, int64_t lease_id) {
    struct etcd_door *door = etcd_door_of(call);
    size_t cost = PLACE_BYTES + PLACE_KEY_COPIES * name.size + value.size;
    if (door->queues->n_places >= door->options.queued_calls_max || !grpc_call_hold(call, cost)) {
        etcd_error_finish(call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    struct etcd_place *place = place_create(door->queues, name, lease_id);
    if (place == NULL) {
        grpc_call_release(call, cost);
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    place->call = call;
    place->held = cost;
    place->kind = kind;
    place->caller = *etcd_caller(call);
    grpc_call_set_data(call, place);
    etcd_join_encode(&place->join, &(struct etcd_join){.name = name,
                                                       .value = value,
                                                       .lease_id = lease_id,
                                                       .ttl_ms = ETCD_SESSION_TTL_MS,
                                                       .keeps_value = kind->keeps_value});
    submit_join(place);
}

void etcd_queue_closed(struct grpc_call *call) {
    struct etcd_place *place = grpc_call_data(call);
    if (place == NULL) {
        return;
    }
    etcd_place_forget_call(place);
    /* In any other state an answer of the service is due, which finds that the call is gone. */
    if (place->state == PLACE_JOINING && !place->is_submitted) {
        etcd_place_end(place);
    } else if (place->state == PLACE_WAITING ||
               (place->state == PLACE_CONFIRMING && !place->is_reading) ||
               (place->state == PLACE_RENEWING && !place->is_renewing)) {
        etcd_place_leave(place);
    }
}

/* --- All of them. --- */

struct etcd_queues *etcd_queues_create(struct etcd_door *door, uv_loop_t *loop) {
    struct etcd_queues *queues = calloc(1, sizeof *queues);
    if (queues == NULL) {
        abort();
    }
    queues->door = door;
    list_init(&queues->places);
    list_init(&queues->woken);
    list_init(&queues->later);
    list_init(&queues->sessions);
    etcd_ticker_init(&queues->ticker, on_tick);
    int result = uv_timer_init(loop, &queues->timer);
    assert(result == 0);
    return queues;
}

static void on_timer_closed(uv_handle_t *handle) {
    free(list_entry((uv_timer_t *)handle, struct etcd_queues, timer));
}

void etcd_queues_destroy(struct etcd_queues *queues) {
    while (!list_is_empty(&queues->places)) {
        etcd_place_end(list_entry(queues->places.next, struct etcd_place, link));
    }
    assert(queues->n_places == 0);
    uv_close((uv_handle_t *)&queues->timer, on_timer_closed);
}

size_t etcd_queues_count(const struct etcd_queues *queues) {
    return queues->n_places;
}
