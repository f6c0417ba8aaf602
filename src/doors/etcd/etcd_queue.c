#include "doors/etcd/etcd_queue.h"

#include "base/clock.h"
#include "doors/etcd/etcd_queue_call.h"
#include "doors/etcd/etcd_queue_rules.h"

#include <assert.h>
#include <stdlib.h>

/* A call that may wait is made of this, and its keys are kept here and in two watches. */
enum { PLACE_BYTES = 1024, PLACE_KEY_COPIES = 4 };
/* Renewed so often in the time of its lease. */
enum { RENEWALS_A_TTL = 3 };
/* Withdrawals are tried again at every tick for at most as long as most leases live. */
enum { WITHDRAWALS_MAX = ETCD_SESSION_TTL_MS / ETCD_TICK_MS };
/* A cluster that has just started learns within a second that all its members know rules. */
enum { JOINS_MAX = 5000 / ETCD_TICK_MS };
/* Finding the key before one's own looks at all keys of the queue: so many in one iteration of the
 * loop, but at least one queue. */
enum { SEEK_RECORDS_MAX = 64 * 1024, SEEK_PAUSE_MS = 1 };

enum place_state {
    PLACE_JOINING,
    PLACE_WAITING,    /* for the key before it */
    PLACE_RENEWING,   /* it is first here: its own lease, before it is answered */
    PLACE_CONFIRMING, /* is it so for the leader? */
    PLACE_LEAVING,
    PLACE_OVER
};

struct etcd_place {
    struct grpc_call *call; /* NULL: the client is gone or was answered */
    struct etcd_queues *queues;
    const struct etcd_place_kind *kind;
    struct caller caller;
    enum place_state state;
    enum status refused; /* why its watches ended */
    struct list link;
    struct list woken_link; /* of those that are woken now or at the next tick */
    struct list session_link;
    struct service_request request;
    struct service_read read;
    struct service_renewal renewal;
    bool is_submitted; /* it is with the service */
    bool is_reading;
    bool is_renewing;
    bool owns_lease; /* it was granted for this call */
    bool is_watching_own;
    struct service_watch own;
    struct service_watch before;
    struct etcd_joined joined;
    int64_t joined_revision;
    uint64_t renewed_ms;
    struct buffer join; /* the request, until it was carried out */
    size_t n_joins;
    size_t n_withdrawals;
    size_t name_size;
    size_t key_size;
    uint8_t *key; /* its name is its beginning */
    size_t held;
};

struct etcd_queues {
    struct etcd_door *door;
    struct list places;
    size_t n_places;
    struct list woken;
    struct list later;    /* to be woken at the next tick */
    struct list sessions; /* by renewed_ms: their leases are renewed here */
    uv_timer_t timer;     /* runs those that were woken */
    size_t n_sought;      /* records looked at in this iteration */
    struct etcd_ticker ticker;
    bool is_ticking;
};

static struct bytes name_of(const struct etcd_place *place) {
    return bytes_of(place->key, place->name_size);
}

static struct bytes key_of(const struct etcd_place *place) {
    return bytes_of(place->key, place->key_size);
}

static struct service *service_of(const struct etcd_place *place) {
    return place->queues->door->service;
}

/* --- Waking. --- */

static void on_woken(uv_timer_t *timer);

/* Callbacks of watches must not begin or end any: what they set off runs in the next iteration. */
static void wake(struct etcd_place *place) {
    struct etcd_queues *queues = place->queues;
    list_remove(&place->woken_link);
    list_append(&queues->woken, &place->woken_link);
    if (!uv_is_active((uv_handle_t *)&queues->timer)) {
        uv_timer_start(&queues->timer, on_woken, 0, 0);
    }
}

static void settle_ticker(struct etcd_queues *queues) {
    bool is_needed = !list_is_empty(&queues->later) || !list_is_empty(&queues->sessions);
    if (is_needed && !queues->is_ticking) {
        etcd_ticker_start(queues->door, &queues->ticker);
    } else if (!is_needed && queues->is_ticking) {
        etcd_ticker_stop(queues->door, &queues->ticker);
    }
    queues->is_ticking = is_needed;
}

static void wake_later(struct etcd_place *place) {
    list_remove(&place->woken_link);
    list_append(&place->queues->later, &place->woken_link);
    settle_ticker(place->queues);
}

/* --- The end of a place. --- */

static void stop_waiting(struct etcd_place *place) {
    service_unwatch(service_of(place), &place->own);
    service_unwatch(service_of(place), &place->before);
    list_remove(&place->woken_link);
    list_remove(&place->session_link);
    settle_ticker(place->queues);
}

static void destroy_if_over(struct etcd_place *place) {
    if (place->state != PLACE_OVER || place->is_submitted || place->is_reading ||
        place->is_renewing) {
        return;
    }
    assert(place->call == NULL);
    list_remove(&place->link);
    place->queues->n_places--;
    buffer_clear(&place->join);
    free(place->key);
    free(place);
}

static void forget_call(struct etcd_place *place) {
    if (place->call != NULL) {
        grpc_call_set_data(place->call, NULL);
        grpc_call_release(place->call, place->held);
        place->call = NULL;
    }
}

static void end(struct etcd_place *place) {
    stop_waiting(place);
    place->state = PLACE_OVER;
    destroy_if_over(place);
}

static void withdrawn(struct service_request *request, const struct outcome *outcome);

static void submit_withdrawal(struct etcd_place *place) {
    const struct etcd_withdrawal withdrawal = {.name = name_of(place),
                                               .lease_id = place->joined.lease_id,
                                               .create_revision = place->joined.create_revision,
                                               .version = place->joined.version,
                                               .epoch = place->joined.epoch,
                                               .ends_lease = place->owns_lease};
    struct buffer request;
    buffer_init(&request);
    etcd_withdrawal_encode(&request, &withdrawal);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = ETCD_RULE_WITHDRAW, .request = bytes_of(request.data, request.size)}};
    place->request.done = withdrawn;
    place->is_submitted = true;
    place->n_withdrawals++;
    /* The server's own work: a client whose rights were taken away still leaves nothing behind. */
    service_submit(service_of(place), &caller_server, &place->request, &command);
    buffer_clear(&request);
}

static void withdrawn(struct service_request *request, const struct outcome *outcome) {
    struct etcd_place *place = list_entry(request, struct etcd_place, request);
    place->is_submitted = false;
    if (outcome->status == STATUS_OK || outcome->status == STATUS_STOPPED ||
        place->n_withdrawals >= WITHDRAWALS_MAX) {
        end(place);
    } else {
        wake_later(place);
    }
}

/* The call is over, and was not told that it is first. */
static void leave(struct etcd_place *place) {
    stop_waiting(place);
    place->state = PLACE_LEAVING;
    submit_withdrawal(place);
}

static void finish(struct etcd_place *place, const struct etcd_error *error) {
    if (place->call != NULL) {
        etcd_error_finish(place->call, error);
    }
    forget_call(place);
}

static void fail(struct etcd_place *place, enum status status) {
    finish(place, etcd_queue_error_of(status));
    leave(place);
}

static void lose(struct etcd_place *place) {
    finish(place, place->kind->lost);
    if (place->owns_lease) {
        leave(place); /* the lease may be there without its key */
    } else {
        end(place);
    }
}

/* --- First. --- */

static void answer(struct etcd_place *place, int64_t revision) {
    const struct etcd_place_facts facts = {.name = name_of(place),
                                           .key = key_of(place),
                                           .lease_id = place->joined.lease_id,
                                           .create_revision = place->joined.create_revision,
                                           .joined_revision = place->joined_revision,
                                           .revision = revision};
    if (grpc_call_is_over(place->call)) {
        /* Its client left, or its time is up, and on_close is still to come: nobody is told. */
        forget_call(place);
        leave(place);
        return;
    }
    place->kind->answer(place->call, &facts);
    forget_call(place);
    end(place);
}

static void answer_now(struct etcd_place *place) {
    answer(place, key_store_revision(etcd_keys(place->queues->door)));
}

/* The wait goes on when it is the cluster that cannot answer just now. */
static bool is_passing(enum status status) {
    return status == STATUS_NO_LEADER || status == STATUS_LEADER_CHANGED ||
           status == STATUS_TIMED_OUT || status == STATUS_TOO_MANY_REQUESTS ||
           status == STATUS_AUTH_OLD_REVISION;
}

static void keep_session(struct etcd_place *place) {
    list_append(&place->queues->sessions, &place->session_link);
    settle_ticker(place->queues);
}

static void renewed(struct etcd_place *place, enum status status) {
    place->renewed_ms = service_now_ms(service_of(place));
    if (place->state == PLACE_RENEWING) {
        if (place->call == NULL) {
            leave(place);
        } else if (status == STATUS_OK) {
            /* It may have taken long, and somebody may have deleted the key meanwhile. */
            place->state = PLACE_CONFIRMING;
            keep_session(place);
            wake(place);
        } else if (is_passing(status)) {
            wake_later(place);
        } else if (status == STATUS_LEASE_NOT_FOUND) {
            lose(place);
        } else {
            fail(place, status);
        }
        return;
    }
    if (place->state == PLACE_WAITING || place->state == PLACE_CONFIRMING) {
        keep_session(place);
    }
    destroy_if_over(place);
}

static void on_renewed(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct etcd_place *place = list_entry(renewal, struct etcd_place, renewal);
    (void)ttl_ms;
    place->is_renewing = false;
    renewed(place, status);
}

static void renew(struct etcd_place *place) {
    if (place->is_renewing) {
        return; /* its answer counts */
    }
    list_remove(&place->session_link);
    place->renewal.id = place->joined.lease_id;
    place->renewal.owner = KEY_SPACE_ETCD;
    place->renewal.done = on_renewed;
    int64_t ttl_ms;
    enum status status = service_renew(service_of(place), &place->caller, &place->renewal, &ttl_ms);
    if (status == STATUS_PENDING) {
        place->is_renewing = true;
    } else {
        renewed(place, status);
    }
}

static const struct record *own_record(const struct etcd_place *place) {
    const struct record *record =
        key_store_find(etcd_keys(place->queues->door), KEY_SPACE_ETCD, key_of(place));
    return record != NULL && record->create_revision == place->joined.create_revision ? record
                                                                                      : NULL;
}

static void confirmed(struct etcd_place *place, enum status status) {
    if (place->call == NULL) {
        leave(place);
    } else if (is_passing(status)) {
        wake_later(place);
    } else if (status != STATUS_OK) {
        fail(place, status);
    } else if (own_record(place) == NULL) {
        lose(place);
    } else {
        answer_now(place);
    }
}

static void on_confirmed(struct service_read *read, enum status status) {
    struct etcd_place *place = list_entry(read, struct etcd_place, read);
    place->is_reading = false;
    confirmed(place, status);
}

/* This member may be behind: the lease may have ended meanwhile. A key that is still there is still
 * first: no key comes before one that exists. */
static void confirm(struct etcd_place *place) {
    place->state = PLACE_CONFIRMING;
    place->read.ready = on_confirmed;
    const struct key_range range = {.space = KEY_SPACE_ETCD, .key = key_of(place)};
    enum status status = service_read(service_of(place), &place->caller, &place->read, &range, 1);
    if (status == STATUS_PENDING) {
        place->is_reading = true;
    } else {
        confirmed(place, status);
    }
}

/* --- Waiting. --- */

static bool deliver_own(struct service_watch *watch, const struct watch_batch *batch) {
    (void)batch;
    wake(list_entry(watch, struct etcd_place, own));
    return true;
}

static bool deliver_before(struct service_watch *watch, const struct watch_batch *batch) {
    (void)batch;
    wake(list_entry(watch, struct etcd_place, before));
    return true;
}

static void own_compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct etcd_place *place = list_entry(watch, struct etcd_place, own);
    (void)compacted_revision;
    place->is_watching_own = false;
    wake(place);
}

static void before_compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    wake(list_entry(watch, struct etcd_place, before));
}

static void own_revoked(struct service_watch *watch, enum status status) {
    struct etcd_place *place = list_entry(watch, struct etcd_place, own);
    place->refused = status;
    wake(place);
}

static void before_revoked(struct service_watch *watch, enum status status) {
    struct etcd_place *place = list_entry(watch, struct etcd_place, before);
    place->refused = status;
    wake(place);
}

static enum status watch_for_end(struct etcd_place *place, struct service_watch *watch,
                                 struct bytes key) {
    const struct service_watch_options options = {.range = {.space = KEY_SPACE_ETCD, .key = key},
                                                  .without_puts = true};
    return service_watch(service_of(place), &place->caller, watch, &options);
}

/* Finds what to wait for. What is read and what is watched from now on is the same state. */
static void seek(struct etcd_place *place) {
    struct etcd_door *door = place->queues->door;
    service_unwatch(door->service, &place->before);
    if (place->refused != STATUS_OK) {
        fail(place, place->refused);
        return;
    }
    if (own_record(place) == NULL) {
        lose(place);
        return;
    }
    size_t work = etcd_queue_count(door, name_of(place));
    place->queues->n_sought += work;
    if (work > ETCD_QUEUE_RECORDS_MAX) {
        fail(place, STATUS_TOO_MANY_REQUESTS);
        return;
    }
    const struct record *before =
        etcd_queue_before(door, name_of(place), place->joined.create_revision);
    if (before == NULL && place->owns_lease) {
        /* Whoever is told has most of the time of the lease before it. */
        place->state = PLACE_RENEWING;
        renew(place);
        return;
    }
    if (before == NULL) {
        confirm(place);
        return;
    }
    enum status status = STATUS_OK;
    if (!place->is_watching_own) {
        status = watch_for_end(place, &place->own, key_of(place));
        place->is_watching_own = status == STATUS_OK;
    }
    if (status == STATUS_OK) {
        status = watch_for_end(place, &place->before, record_key(before));
    }
    if (status != STATUS_OK) {
        fail(place, status);
    }
}

static void joined(struct service_request *request, const struct outcome *outcome);

static void submit_join(struct etcd_place *place) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = ETCD_RULE_JOIN,
                 .request = bytes_of(place->join.data, place->join.size)}};
    place->request.done = joined;
    place->is_submitted = true;
    place->n_joins++;
    service_submit(service_of(place), &place->caller, &place->request, &command);
}

static void go_on(struct etcd_place *place) {
    switch (place->state) {
    case PLACE_WAITING:
        seek(place);
        break;
    case PLACE_CONFIRMING:
        if (!place->is_reading) {
            confirm(place);
        }
        break;
    case PLACE_RENEWING:
        renew(place);
        break;
    case PLACE_LEAVING:
        if (!place->is_submitted) {
            submit_withdrawal(place);
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
    settle_ticker(queues);
}

static bool is_renewal_due(const struct etcd_place *place, uint64_t now_ms) {
    return clock_elapsed_ms(now_ms, place->renewed_ms) >= ETCD_SESSION_TTL_MS / RENEWALS_A_TTL;
}

/* Places are only woken here: a tick must not end a ticker. Each is renewed once at most: who is
 * renewed at once joins the list again, with a time that may be later than that of the tick. */
static void on_tick(struct etcd_ticker *ticker, uint64_t now_ms) {
    struct etcd_queues *queues = list_entry(ticker, struct etcd_queues, ticker);
    struct list *link;
    while ((link = list_pop_first(&queues->later)) != NULL) {
        wake(list_entry(link, struct etcd_place, woken_link));
    }
    struct list sessions;
    list_init(&sessions);
    list_append_all(&sessions, &queues->sessions);
    while (!list_is_empty(&sessions)) {
        struct etcd_place *place = list_entry(sessions.next, struct etcd_place, session_link);
        if (!is_renewal_due(place, now_ms)) {
            break;
        }
        renew(place);
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
        wake_later(place);
        return;
    }
    if (outcome->status != STATUS_OK) {
        finish(place, etcd_queue_error_of(outcome->status));
        end(place);
        return;
    }
    buffer_clear(&place->join);
    buffer_init(&place->join);
    bool is_readable = etcd_joined_decode(outcome->rule.answer, &place->joined);
    assert(is_readable);
    place->joined_revision = outcome->revision;
    place->renewed_ms = service_now_ms(service_of(place));
    if (place->call == NULL) {
        leave(place);
    } else if (!complete_key(place)) {
        fail(place, STATUS_NO_MEMORY);
    } else if (place->joined.is_first) {
        answer(place, outcome->revision);
    } else {
        place->state = PLACE_WAITING;
        if (place->owns_lease) {
            keep_session(place);
        }
        wake(place);
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
    place->own.deliver = deliver_own;
    place->own.compacted = own_compacted;
    place->own.revoked = own_revoked;
    place->before.deliver = deliver_before;
    place->before.compacted = before_compacted;
    place->before.revoked = before_revoked;
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
    forget_call(place);
    /* In any other state an answer of the service is due, which finds that the call is gone. */
    if (place->state == PLACE_JOINING && !place->is_submitted) {
        end(place);
    } else if (place->state == PLACE_WAITING ||
               (place->state == PLACE_CONFIRMING && !place->is_reading) ||
               (place->state == PLACE_RENEWING && !place->is_renewing)) {
        leave(place);
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
        end(list_entry(queues->places.next, struct etcd_place, link));
    }
    assert(queues->n_places == 0);
    uv_close((uv_handle_t *)&queues->timer, on_timer_closed);
}

size_t etcd_queues_count(const struct etcd_queues *queues) {
    return queues->n_places;
}
