#include "doors/native/native_wait.h"

#include "base/clock.h"
#include "base/pb_append.h"
#include "doors/native/native_clock.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* Calls of all clients; further ones are refused. */
    WAITS_MAX = 100 * 1000,
    /* A call that may wait is made of this, and of its request. */
    WAIT_BYTES = 2048,
    /* What could not be done is tried again after this time … */
    RETRY_MS = 100,
    /* … to give a place back for as long as most sessions live, … */
    RELEASES_MAX = 60 * 1000 / RETRY_MS,
    /* … and to acquire, while a cluster that has just started learns that all members know rules.
     */
    UNSUPPORTED_MAX = 5000 / RETRY_MS,
    /* A session is renewed so often in its time. */
    RENEWALS_A_TTL = 3
};

enum wait_state {
    WAIT_ASKING,
    WAIT_QUEUED,
    WAIT_RENEWING,   /* it has it: its own session, before it is told */
    WAIT_CONFIRMING, /* is it so for the leader? */
    WAIT_LIMIT,      /* it has it since an earlier call: how much of its hold limit is left? */
    WAIT_LEAVING,
    WAIT_OVER
};

struct native_wait {
    struct grpc_call *call; /* NULL: the client is gone or was answered */
    struct native_door *door;
    struct caller caller;
    enum wait_state state;
    bool is_stream;
    bool is_submitted; /* it is with the service */
    bool is_reading;
    bool is_renewing;
    bool is_watching;
    bool owns_session;   /* it was created for this call */
    enum status refused; /* why its watch ended */
    struct list link;
    struct net_timer step;     /* what is to be done next */
    struct net_timer deadline; /* the end of the wait */
    struct service_request request;
    struct service_read read;
    struct service_renewal renewal;
    struct service_watch watch;
    struct native_times *times;            /* being asked for; NULL: none */
    const struct leased_v1_error *leaving; /* why: told when the place is given back */
    struct buffer acquire;                 /* the request, until it was carried out */
    size_t held;
    size_t n_tries;
    int64_t wait_ms;
    int64_t session_id;
    int64_t session_ttl_ms;
    int64_t acquisition_id;
    uint32_t call_number; /* of those that share the place */
    uint32_t position;
    uint64_t asked_ms;
    uint64_t renewed_ms;
};

struct native_waits {
    struct native_door *door;
    struct list waits;
    size_t n_waits;
};

static struct service *service_of(const struct native_wait *wait) {
    return wait->door->service;
}

/* The wait goes on when it is the cluster that cannot answer just now. */
static bool is_passing(enum status status) {
    return status == STATUS_NO_LEADER || status == STATUS_LEADER_CHANGED ||
           status == STATUS_TIMED_OUT || status == STATUS_TOO_MANY_REQUESTS ||
           status == STATUS_AUTH_OLD_REVISION;
}

/* Callbacks of watches must not begin or end any: what they set off runs in the next iteration. */
static void wake(struct native_wait *wait, uint64_t after_ms) {
    native_clock_arm(wait->door->clock, &wait->step, after_ms);
}

/* --- The end of a wait. --- */

static void stop_waiting(struct native_wait *wait) {
    service_unwatch(service_of(wait), &wait->watch);
    wait->is_watching = false;
    native_clock_disarm(wait->door->clock, &wait->step);
    native_clock_disarm(wait->door->clock, &wait->deadline);
    native_times_forget(wait->times);
    wait->times = NULL;
}

static void destroy_if_over(struct native_wait *wait) {
    if (wait->state != WAIT_OVER || wait->is_submitted || wait->is_reading || wait->is_renewing) {
        return;
    }
    assert(wait->call == NULL);
    list_remove(&wait->link);
    wait->door->waits->n_waits--;
    buffer_clear(&wait->acquire);
    free(wait);
}

static void forget_call(struct native_wait *wait) {
    if (wait->call != NULL) {
        grpc_call_set_data(wait->call, NULL);
        grpc_call_release(wait->call, wait->held);
        wait->call = NULL;
    }
}

static void finish(struct native_wait *wait, const struct leased_v1_error *error) {
    if (wait->call != NULL) {
        leased_v1_error_finish(wait->call, error);
    }
    forget_call(wait);
}

static void end(struct native_wait *wait) {
    stop_waiting(wait);
    wait->state = WAIT_OVER;
    destroy_if_over(wait);
}

static void released(struct service_request *request, const struct outcome *outcome) {
    struct native_wait *wait = list_entry(request, struct native_wait, request);
    wait->is_submitted = false;
    if (outcome->status == STATUS_TOO_MANY_REQUESTS) {
        wait->n_tries = 0; /* its turn comes: others are much work, or are as many */
    }
    if (outcome->status != STATUS_OK && is_passing(outcome->status) &&
        wait->n_tries < RELEASES_MAX) {
        wake(wait, RETRY_MS);
        return;
    }
    finish(wait, wait->leaving);
    end(wait);
}

static void submit_release(struct native_wait *wait) {
    const struct native_release release = {.acquisition_id = wait->acquisition_id,
                                           .session_id = wait->session_id,
                                           .call = wait->call_number,
                                           .end_session = wait->owns_session};
    struct buffer request;
    buffer_init(&request);
    native_release_encode(&request, &release);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = NATIVE_RULE_RELEASE, .request = bytes_of(request.data, request.size)}};
    wait->request.done = released;
    wait->is_submitted = true;
    wait->n_tries++;
    /* The server's own work: a client whose rights were taken away still leaves nothing behind. */
    service_submit(service_of(wait), &caller_server, &wait->request, &command);
    buffer_clear(&request);
}

/* The call was not told that it has it, and will not be. It is told why when the place is given
 * back: whoever asks again at once must not meet its own old place. */
static void leave(struct native_wait *wait, const struct leased_v1_error *error) {
    stop_waiting(wait);
    wait->state = WAIT_LEAVING;
    wait->leaving = error;
    wait->n_tries = 0;
    wait->door->stats.left++;
    submit_release(wait);
}

static void lose(struct native_wait *wait) {
    struct lease_facts facts;
    bool has_session = lease_table_find(native_leases(wait->door), wait->session_id, &facts);
    finish(wait, has_session ? &native_error_lost : &native_error_session_lost);
    if (wait->owns_session && has_session) {
        leave(wait, &native_error_lost);
    } else {
        end(wait);
    }
}

/* --- Answers. --- */

/* An AcquireResponse. The time left is the holder's while the acquisition waits, and then of its
 * own hold limit. */
static void send_answer(struct native_wait *wait, const struct native_acquisition *acquisition,
                        int64_t remaining_ms) {
    struct native_door *door = wait->door;
    struct buffer *out = native_answer_begin(door);
    (void)native_show_acquisition(out, 2, door, &wait->caller, acquisition);
    pb_append_int64(out, 3, wait->session_ttl_ms);
    if (acquisition->stage == NATIVE_QUEUED) {
        int64_t ids[NATIVE_HOLDERS_SHOWN_MAX];
        size_t n = native_find_blockers(door, acquisition, ids, NATIVE_HOLDERS_SHOWN_MAX);
        pb_append_uint64(out, 4, wait->position);
        native_show_acquisitions(out, 5, door, &wait->caller, ids, n);
        pb_append_int64(out, 6, remaining_ms);
    } else if (remaining_ms > 0) {
        pb_append_int64(out, 7, remaining_ms);
    }
    leased_v1_answer_send(wait->call, out);
    arena_reset(&door->arena);
}

static void count_acquired(struct native_wait *wait, bool has_waited) {
    struct native_stats *stats = &wait->door->stats;
    stats->acquired++;
    stats->acquired_at_once += !has_waited;
    if (has_waited) {
        uint64_t now_ms = service_now_ms(service_of(wait));
        latency_add(&stats->wait, clock_elapsed_ms(now_ms, wait->asked_ms) * 1000);
    }
}

static void answer(struct native_wait *wait, const struct native_acquisition *acquisition,
                   int64_t hold_remaining_ms, bool has_waited) {
    if (grpc_call_is_over(wait->call)) {
        /* Its client left, or its time is up, and on_close is still to come: nobody is told. */
        forget_call(wait);
        leave(wait, NULL);
        return;
    }
    count_acquired(wait, has_waited);
    send_answer(wait, acquisition, hold_remaining_ms);
    grpc_call_finish(wait->call, GRPC_OK, NULL);
    forget_call(wait);
    end(wait);
}

/* --- It has it. --- */

/* Its own record; false: it is gone. */
static bool find_own(struct native_wait *wait, struct native_acquisition *out) {
    return native_find_acquisition(wait->door, wait->acquisition_id, out) &&
           out->session_id == wait->session_id;
}

static void confirmed(struct native_wait *wait, enum status status) {
    struct native_acquisition acquisition;
    if (wait->call == NULL) {
        leave(wait, NULL);
    } else if (is_passing(status)) {
        wake(wait, RETRY_MS);
    } else if (status != STATUS_OK) {
        leave(wait, native_error_of(status));
    } else if (!find_own(wait, &acquisition) || acquisition.stage != NATIVE_ACQUIRED) {
        arena_reset(&wait->door->arena);
        lose(wait);
    } else {
        /* Nobody knows when this will be heard: what is left of the limit then must be asked for.
         */
        answer(wait, &acquisition, 0, true);
    }
}

static void on_confirmed(struct service_read *read, enum status status) {
    struct native_wait *wait = list_entry(read, struct native_wait, read);
    wait->is_reading = false;
    if (wait->state == WAIT_CONFIRMING) {
        confirmed(wait, status);
    } else {
        destroy_if_over(wait);
    }
}

/* This member may be behind: the session may have ended meanwhile. */
static void confirm(struct native_wait *wait) {
    wait->state = WAIT_CONFIRMING;
    wait->read.ready = on_confirmed;
    enum status status = service_read(service_of(wait), &wait->caller, &wait->read, NULL, 0);
    if (status == STATUS_PENDING) {
        wait->is_reading = true;
    } else {
        confirmed(wait, status);
    }
}

/* --- The session of the call's own. --- */

static void look(struct native_wait *wait);

static void renewed(struct native_wait *wait, enum status status) {
    wait->renewed_ms = service_now_ms(service_of(wait));
    if (wait->state == WAIT_RENEWING) {
        if (wait->call == NULL) {
            leave(wait, NULL);
        } else if (status == STATUS_OK) {
            confirm(wait);
        } else if (is_passing(status)) {
            wake(wait, RETRY_MS);
        } else {
            lose(wait);
        }
    } else if (wait->state == WAIT_QUEUED) {
        wake(wait, is_passing(status) ? RETRY_MS : (uint64_t)wait->session_ttl_ms / RENEWALS_A_TTL);
    } else {
        destroy_if_over(wait);
    }
}

static void on_renewed(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct native_wait *wait = list_entry(renewal, struct native_wait, renewal);
    (void)ttl_ms;
    wait->is_renewing = false;
    renewed(wait, status);
}

static void renew(struct native_wait *wait) {
    if (wait->is_renewing) {
        return; /* its answer counts */
    }
    wait->renewal.id = wait->session_id;
    wait->renewal.owner = KEY_SPACE_NATIVE;
    wait->renewal.done = on_renewed;
    int64_t ttl_ms;
    enum status status = service_renew(service_of(wait), &wait->caller, &wait->renewal, &ttl_ms);
    if (status == STATUS_PENDING) {
        wait->is_renewing = true;
    } else {
        renewed(wait, status);
    }
}

static void renew_if_due(struct native_wait *wait) {
    uint64_t now_ms = service_now_ms(service_of(wait));
    uint64_t pause_ms = (uint64_t)wait->session_ttl_ms / RENEWALS_A_TTL;
    uint64_t elapsed_ms = clock_elapsed_ms(now_ms, wait->renewed_ms);
    if (elapsed_ms >= pause_ms) {
        renew(wait);
    } else {
        wake(wait, pause_ms - elapsed_ms);
    }
}

/* --- Waiting. --- */

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    (void)batch;
    wake(list_entry(watch, struct native_wait, watch), 0);
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct native_wait *wait = list_entry(watch, struct native_wait, watch);
    (void)compacted_revision;
    wait->is_watching = false;
    wake(wait, 0);
}

static void revoked(struct service_watch *watch, enum status status) {
    struct native_wait *wait = list_entry(watch, struct native_wait, watch);
    wait->is_watching = false;
    wait->refused = status;
    wake(wait, 0);
}

static enum status watch_own(struct native_wait *wait) {
    const struct service_watch_options options = {
        .range = {.space = KEY_SPACE_NATIVE_RECORDS,
                  .key = native_key_acquisition(&wait->door->arena, wait->acquisition_id)}};
    enum status status = service_watch(service_of(wait), &wait->caller, &wait->watch, &options);
    wait->is_watching = status == STATUS_OK;
    return status;
}

/* What is read and what is watched from now on is the same state. */
static void look(struct native_wait *wait) {
    struct native_acquisition acquisition;
    enum status status = wait->refused;
    if (status == STATUS_OK && !wait->is_watching) {
        status = watch_own(wait);
    }
    bool is_there = find_own(wait, &acquisition);
    arena_reset(&wait->door->arena);
    if (status != STATUS_OK) {
        leave(wait, native_error_of(status));
    } else if (!is_there) {
        lose(wait);
    } else if (acquisition.stage == NATIVE_ACQUIRED && wait->owns_session) {
        /* Whoever is told has most of the time of the session before it. */
        wait->state = WAIT_RENEWING;
        renew(wait);
    } else if (acquisition.stage == NATIVE_ACQUIRED) {
        confirm(wait);
    } else if (wait->owns_session) {
        renew_if_due(wait);
    }
}

/* The first answer of a stream: its place. */
static void tell_place(void *context, const int64_t *remaining_ms, size_t n) {
    struct native_wait *wait = context;
    struct native_acquisition acquisition;
    wait->times = NULL;
    if (wait->call == NULL || wait->state != WAIT_QUEUED || !find_own(wait, &acquisition) ||
        acquisition.stage != NATIVE_QUEUED) {
        arena_reset(&wait->door->arena);
        return;
    }
    send_answer(wait, &acquisition, n > 0 ? remaining_ms[0] : -1);
}

static void ask_for_place(struct native_wait *wait, const struct native_acquisition *acquisition) {
    int64_t holder_id = 0;
    struct native_acquisition holder = {0};
    if (native_find_blockers(wait->door, acquisition, &holder_id, 1) > 0) {
        (void)native_find_acquisition(wait->door, holder_id, &holder);
    }
    wait->times =
        native_times_ask(wait->door, &wait->caller, &holder.session_id, 1, tell_place, wait);
}

static void on_deadline(struct net_timer *timer) {
    struct native_wait *wait = list_entry(timer, struct native_wait, deadline);
    if (wait->state == WAIT_QUEUED) {
        leave(wait, &native_error_wait_over);
    }
}

static void begin_wait(struct native_wait *wait, const struct native_acquisition *acquisition) {
    wait->state = WAIT_QUEUED;
    if (wait->is_stream) {
        ask_for_place(wait, acquisition);
    }
    if (wait->wait_ms > 0) {
        uint64_t elapsed_ms = clock_elapsed_ms(service_now_ms(service_of(wait)), wait->asked_ms);
        uint64_t wait_ms = (uint64_t)wait->wait_ms;
        native_clock_arm(wait->door->clock, &wait->deadline,
                         wait_ms > elapsed_ms ? wait_ms - elapsed_ms : 0);
    }
    look(wait);
}

/* --- Asking. --- */

static void acquired(struct service_request *request, const struct outcome *outcome);

static void submit_acquire(struct native_wait *wait) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = NATIVE_RULE_ACQUIRE,
                 .request = bytes_of(wait->acquire.data, wait->acquire.size)}};
    wait->request.done = acquired;
    wait->is_submitted = true;
    wait->n_tries++;
    service_submit(service_of(wait), &wait->caller, &wait->request, &command);
}

/* A request that may have been carried out is repeated only where it finds its own place again. */
static bool may_repeat(const struct native_wait *wait, enum status status) {
    if (wait->call == NULL || grpc_call_is_over(wait->call)) {
        return false;
    }
    if (status == STATUS_UNSUPPORTED) {
        return wait->n_tries < UNSUPPORTED_MAX;
    }
    uint64_t elapsed_ms = clock_elapsed_ms(service_now_ms(service_of(wait)), wait->asked_ms);
    bool has_time = wait->wait_ms < 0 || elapsed_ms < (uint64_t)wait->wait_ms;
    return is_passing(status) && !wait->owns_session && has_time;
}

static void limit_known(void *context, const int64_t *remaining_ms, size_t n) {
    struct native_wait *wait = context;
    struct native_acquisition acquisition;
    wait->times = NULL;
    if (!find_own(wait, &acquisition)) {
        arena_reset(&wait->door->arena);
        lose(wait);
        return;
    }
    answer(wait, &acquisition, n > 0 ? remaining_ms[0] : 0, false);
}

/* A request that is repeated may find that it has it since long ago. */
static void tell_acquired(struct native_wait *wait, const struct native_acquired *result) {
    const struct native_acquisition *acquisition = &result->acquisition;
    if (result->is_repeated && acquisition->hold_lease_id != 0) {
        wait->state = WAIT_LIMIT;
        struct native_times *times = native_times_ask(
            wait->door, &wait->caller, &acquisition->hold_lease_id, 1, limit_known, wait);
        if (times != NULL) {
            wait->times = times; /* else it was answered, and may be gone */
        }
    } else {
        answer(wait, acquisition, acquisition->hold_limit_ms, false);
    }
}

static void go_on_acquired(struct native_wait *wait, const struct native_acquired *result) {
    struct native_door *door = wait->door;
    struct lease_facts facts = {0};
    (void)lease_table_find(native_leases(door), result->session_id, &facts);
    wait->session_id = result->session_id;
    wait->session_ttl_ms = facts.ttl_ms;
    wait->acquisition_id = result->acquisition.id;
    wait->call_number = result->acquisition.call;
    wait->position = result->n_before + 1;
    wait->renewed_ms = service_now_ms(door->service);
    if (wait->call == NULL && result->is_repeated && result->result == NATIVE_RESULT_ACQUIRED) {
        end(wait); /* an earlier call may have been told that it has it */
    } else if (wait->call == NULL) {
        leave(wait, NULL);
    } else if (result->result == NATIVE_RESULT_ACQUIRED) {
        tell_acquired(wait, result);
    } else {
        begin_wait(wait, &result->acquisition);
    }
}

static void acquired(struct service_request *request, const struct outcome *outcome) {
    struct native_wait *wait = list_entry(request, struct native_wait, request);
    struct native_door *door = wait->door;
    struct native_acquired result;
    wait->is_submitted = false;
    if (outcome->status != STATUS_OK) {
        if (may_repeat(wait, outcome->status)) {
            wake(wait, RETRY_MS);
            return;
        }
        finish(wait, native_error_of(outcome->status));
        end(wait);
        return;
    }
    bool is_readable = native_acquired_decode(outcome->rule.answer, &door->arena, &result);
    assert(is_readable);
    buffer_clear(&wait->acquire);
    buffer_init(&wait->acquire);
    if (result.result == NATIVE_RESULT_REFUSED) {
        finish(wait, wait->wait_ms == 0 ? &native_error_busy : &native_error_queue_limit);
        end(wait);
    } else {
        go_on_acquired(wait, &result);
    }
    arena_reset(&door->arena); /* and `wait` may be gone */
}

static void on_step(struct net_timer *timer) {
    struct native_wait *wait = list_entry(timer, struct native_wait, step);
    switch (wait->state) {
    case WAIT_ASKING:
        if (!wait->is_submitted) {
            submit_acquire(wait);
        }
        break;
    case WAIT_QUEUED:
        look(wait);
        break;
    case WAIT_RENEWING:
        renew(wait);
        break;
    case WAIT_CONFIRMING:
        if (!wait->is_reading) {
            confirm(wait);
        }
        break;
    case WAIT_LEAVING:
        if (!wait->is_submitted) {
            submit_release(wait);
        }
        break;
    case WAIT_LIMIT:
    case WAIT_OVER:
        break;
    }
}

/* --- Calls. --- */

static struct native_wait *create(struct grpc_call *call, size_t cost) {
    struct native_door *door = native_door_of(call);
    if (door->waits->n_waits >= WAITS_MAX || !grpc_call_hold(call, cost)) {
        leased_v1_error_finish(call, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return NULL;
    }
    struct native_wait *wait = calloc(1, sizeof *wait);
    if (wait == NULL) {
        grpc_call_release(call, cost);
        leased_v1_error_finish(call, native_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    wait->call = call;
    wait->door = door;
    wait->caller = *grpc_call_caller(call);
    wait->held = cost;
    wait->asked_ms = service_now_ms(door->service);
    buffer_init(&wait->acquire);
    net_timer_init(&wait->step, on_step);
    net_timer_init(&wait->deadline, on_deadline);
    wait->watch.deliver = deliver;
    wait->watch.compacted = compacted;
    wait->watch.revoked = revoked;
    list_append(&door->waits->waits, &wait->link);
    door->waits->n_waits++;
    grpc_call_set_data(call, wait);
    return wait;
}

static void enter(struct grpc_call *call, struct bytes message, bool is_stream) {
    struct native_acquire_request request;
    char address[GRPC_ADDRESS_SIZE];
    grpc_call_address(call, address);
    const struct leased_v1_error *error =
        native_request_acquire(message, bytes_from_text(address), &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct native_wait *wait = create(call, WAIT_BYTES + message.size);
    if (wait == NULL) {
        return;
    }
    wait->is_stream = is_stream;
    wait->owns_session = request.acquire.session_id == 0;
    wait->wait_ms = request.wait_ms;
    native_acquire_encode(&wait->acquire, &request.acquire);
    submit_acquire(wait);
}

static void on_acquire(struct grpc_call *call, struct bytes message) {
    enter(call, message, true);
}

static void on_wait(struct grpc_call *call, struct bytes message) {
    enter(call, message, false);
}

static void on_close(struct grpc_call *call) {
    struct native_wait *wait = grpc_call_data(call);
    if (wait == NULL) {
        return;
    }
    forget_call(wait);
    /* In any other state an answer of the service is due, which finds that the call is gone. */
    if ((wait->state == WAIT_ASKING && !wait->is_submitted) || wait->state == WAIT_LIMIT) {
        end(wait); /* in WAIT_LIMIT an earlier call may have been told that it has it */
    } else if (wait->state == WAIT_QUEUED ||
               (wait->state == WAIT_CONFIRMING && !wait->is_reading) ||
               (wait->state == WAIT_RENEWING && !wait->is_renewing)) {
        leave(wait, NULL);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.Resources/Acquire",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_acquire,
     .on_close = on_close},
    {.path = "/leased.v1.Resources/Wait",
     .is_prompt = true,
     .answers_refused = true,
     .waits = true,
     .kind = GRPC_UNARY,
     .on_message = on_wait,
     .on_close = on_close},
};
const struct native_methods native_acquire_methods = {methods, sizeof methods / sizeof methods[0]};

/* --- All of them. --- */

struct native_waits *native_waits_create(struct native_door *door) {
    struct native_waits *waits = calloc(1, sizeof *waits);
    if (waits == NULL) {
        abort();
    }
    waits->door = door;
    list_init(&waits->waits);
    return waits;
}

void native_waits_destroy(struct native_waits *waits) {
    while (!list_is_empty(&waits->waits)) {
        end(list_entry(waits->waits.next, struct native_wait, link));
    }
    assert(waits->n_waits == 0);
    free(waits);
}

size_t native_waits_count(const struct native_waits *waits) {
    return waits->n_waits;
}
