/* Renewals, and questions for the time that is left, that only the leader can answer: held until
 * there is one, asked for in frames of many, and answered to other nodes. Everything here may be
 * asked twice. */
#include "base/clock.h"
#include "core/auth.h"
#include "replication/service_internal.h"

#include <stdlib.h>

enum {
    /* Of other nodes, that wait here at once. They ask again what was not answered. */
    PEER_QUESTIONS_MAX = 256 * 1024,
    /* The leader is asked for so many at a time. */
    ASKED_MAX = 8 * PEER_RENEWALS_MAX,
    /* Between two looks at all that wait. */
    LOOK_MS = 20
};

/* A renewal that another node asked for. */
struct peer_question {
    struct service_renewal renewal;
    struct service *service;
    uint64_t from_id;
    uint64_t request_id;
};

void renewals_init(struct service *service) {
    list_init(&service->renewals.held);
    for (size_t i = 0; i < RENEWAL_SLOTS; i++) {
        list_init(&service->renewals.asked[i]);
    }
}

void renewals_hold(struct service *service, struct service_renewal *renewal) {
    renewal->private.asked_ms = clock_boottime_ms();
    renewal->private.sent_ms = 0;
    renewal->private.request_id = 0;
    list_append(&service->renewals.held, &renewal->private.link);
}

static struct list *asked_slot(struct service *service, uint64_t request_id) {
    return &service->renewals.asked[request_id % RENEWAL_SLOTS];
}

/* All that were asked of a leader, to be asked again, in no order. */
static void take_asked(struct service *service, struct list *out_renewals) {
    for (size_t i = 0; service->renewals.n_asked > 0 && i < RENEWAL_SLOTS; i++) {
        list_append_all(out_renewals, &service->renewals.asked[i]);
    }
    service->renewals.n_asked = 0;
}

/* Renewals that go to the leader in one frame. */
struct renewal_batch {
    size_t n;
    bool has_callers;
    struct peer_renewal renewals[PEER_RENEWALS_MAX];
};

static void batch_add(struct renewal_batch *batch, const struct service_renewal *renewal) {
    batch->renewals[batch->n++] = (struct peer_renewal){.request_id = renewal->private.request_id,
                                                        .id = renewal->id,
                                                        .owner = renewal->owner,
                                                        .caller = renewal->private.caller,
                                                        .shows_keys = renewal->shows_keys,
                                                        .only_ask = renewal->private.only_ask};
    batch->has_callers |= !key_space_equal(renewal->owner, KEY_SPACE_ETCD);
}

/* False: it could not be sent, and everything is asked for once more. */
static bool batch_send(struct service *service, uint64_t leader_id, struct renewal_batch *batch) {
    /* Where users are, or leases of another owner, every member knows the longer form. */
    bool has_callers = batch->has_callers || auth_is_enabled(state_machine_auth(service->machine));
    struct peer_frame frame = {.type = has_callers ? PEER_RENEW_AS : PEER_RENEW,
                               .renew = {.n = batch->n, .renewals = batch->renewals}};
    bool is_sent = batch->n == 0 || cluster_send(service, leader_id, &frame);
    batch->n = 0;
    batch->has_callers = false;
    if (!is_sent) {
        forwarding_ask_again(service);
    }
    return is_sent;
}

static void send_renewals(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    struct renewals *renewals = &service->renewals;
    struct renewal_batch batch = {.n = 0};
    while (!list_is_empty(&renewals->held) && renewals->n_asked < ASKED_MAX) {
        struct list *node = renewals->held.next;
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        if (!forwarding_may_ask(renewal->private.request_id, renewal->private.sent_ms, now_ms)) {
            break; /* whoever was asked did not lead, which holds for all */
        }
        renewal->private.request_id = ++service->forwarding.request_id;
        renewal->private.sent_ms = now_ms;
        list_remove(node);
        list_append(asked_slot(service, renewal->private.request_id), node);
        renewals->n_asked++;
        batch_add(&batch, renewal);
        if (batch.n == PEER_RENEWALS_MAX && !batch_send(service, leader_id, &batch)) {
            return;
        }
    }
    (void)batch_send(service, leader_id, &batch);
}

/* Those that were asked and not answered for long are asked again. */
static void send_overdue(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    struct renewal_batch batch = {.n = 0};
    for (size_t i = 0; service->renewals.n_asked > 0 && i < RENEWAL_SLOTS; i++) {
        const struct list *slot = &service->renewals.asked[i];
        for (struct list *node = slot->next; node != slot; node = node->next) {
            struct service_renewal *renewal =
                list_entry(node, struct service_renewal, private.link);
            if (!forwarding_is_overdue(service, renewal->private.sent_ms, now_ms)) {
                continue;
            }
            renewal->private.sent_ms = now_ms;
            batch_add(&batch, renewal);
            if (batch.n == PEER_RENEWALS_MAX && !batch_send(service, leader_id, &batch)) {
                return;
            }
        }
    }
    (void)batch_send(service, leader_id, &batch);
}

/* Moves those that have waited for too long. */
static size_t take_late(struct list *renewals, uint64_t now_ms, struct list *out_late) {
    size_t n = 0;
    for (struct list *node = renewals->next, *next; node != renewals; node = next) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        next = node->next;
        if (clock_elapsed_ms(now_ms, renewal->private.asked_ms) > FORWARDING_TIMEOUT_MS) {
            list_remove(node);
            list_append(out_late, node);
            n++;
        }
    }
    return n;
}

static void fail_late(struct service *service, uint64_t now_ms) {
    struct list late;
    list_init(&late);
    for (size_t i = 0; service->renewals.n_asked > 0 && i < RENEWAL_SLOTS; i++) {
        service->renewals.n_asked -= take_late(&service->renewals.asked[i], now_ms, &late);
    }
    (void)take_late(&service->renewals.held, now_ms, &late);
    for (struct list *node; (node = list_pop_first(&late)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        renewal->done(renewal, STATUS_NO_LEADER, 0);
    }
}

/* This node has come to lead, or leads again: it answers itself. */
static void answer_renewals(struct service *service) {
    struct list held;
    list_init(&held);
    take_asked(service, &held);
    list_append_all(&held, &service->renewals.held);
    for (struct list *node; (node = list_pop_first(&held)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        int64_t ttl_ms = 0;
        enum status status = expiry_answer(service, renewal, clock_boottime_ms(), &ttl_ms);
        if (status != STATUS_PENDING) { /* else expiry.c has it now */
            renewal->done(renewal, status, ttl_ms);
        }
    }
}

void renewals_poll(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    struct renewals *renewals = &service->renewals;
    if (list_is_empty(&renewals->held) && renewals->n_asked == 0) {
        return;
    }
    if (cluster_is_authority(service, now_ms)) {
        answer_renewals(service);
        return;
    }
    bool can_ask = !service->leadership.serving && !cluster_is_alone(service) && leader_id != 0;
    if (clock_elapsed_ms(now_ms, renewals->looked_ms) >= LOOK_MS) {
        renewals->looked_ms = now_ms;
        fail_late(service, now_ms);
        if (can_ask) {
            send_overdue(service, leader_id, now_ms);
        }
    }
    if (can_ask) {
        send_renewals(service, leader_id, now_ms);
    }
}

static void send_results(struct service *service, uint64_t to_id,
                         const struct peer_renewal_result *results, size_t n) {
    struct peer_frame frame = {.type = PEER_RENEW_RESULT,
                               .renew_result = {.n = n, .results = results}};
    (void)cluster_send(service, to_id, &frame);
}

static void question_done(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct peer_question *question = list_entry(renewal, struct peer_question, renewal);
    const struct peer_renewal_result result = {
        .request_id = question->request_id, .status = status, .ttl_ms = ttl_ms};
    send_results(question->service, question->from_id, &result, 1);
    question->service->renewals.n_peer_questions--;
    free(question);
}

static struct peer_question *question_create(void) {
    struct peer_question *question = malloc(sizeof *question);
    if (question == NULL) {
        abort();
    }
    return question;
}

void renewals_on_renew(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    struct peer_renewal_result results[PEER_RENEWALS_MAX];
    struct peer_question *question = question_create();
    size_t n = 0;
    for (size_t i = 0; i < frame->renew.n; i++) {
        const struct peer_renewal *asked = &frame->renew.renewals[i];
        if (service->renewals.n_peer_questions >= PEER_QUESTIONS_MAX) {
            break;
        }
        *question = (struct peer_question){
            .renewal = {.id = asked->id,
                        .owner = asked->owner,
                        .done = question_done,
                        .shows_keys = asked->shows_keys,
                        .private = {.only_ask = asked->only_ask, .caller = asked->caller}},
            .service = service,
            .from_id = from_id,
            .request_id = asked->request_id};
        list_init(&question->renewal.private.link);
        int64_t ttl_ms = 0;
        /* Only the leader answers, as soon as it serves: a question must not travel in circles. */
        enum status status = service->leadership.term != 0 && !service->closing
                                 ? service_ask(service, &question->renewal, &ttl_ms)
                                 : STATUS_NO_LEADER;
        if (status == STATUS_PENDING) {
            service->renewals.n_peer_questions++;
            question = question_create();
        } else {
            results[n++] = (struct peer_renewal_result){
                .request_id = asked->request_id, .status = status, .ttl_ms = ttl_ms};
        }
    }
    free(question);
    if (n > 0) {
        send_results(service, from_id, results, n);
    }
}

static struct service_renewal *find_asked(struct service *service, uint64_t request_id) {
    const struct list *slot = asked_slot(service, request_id);
    for (struct list *node = slot->next; node != slot; node = node->next) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        if (renewal->private.request_id == request_id) {
            return renewal;
        }
    }
    return NULL;
}

void renewals_on_result(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    if (!forwarding_is_of_leader(service, from_id)) {
        return;
    }
    for (size_t i = 0; i < frame->renew_result.n; i++) {
        const struct peer_renewal_result *result = &frame->renew_result.results[i];
        struct service_renewal *renewal = find_asked(service, result->request_id);
        if (renewal == NULL) {
            continue;
        }
        list_remove(&renewal->private.link);
        service->renewals.n_asked--;
        if (result->status == STATUS_NO_LEADER || result->status == STATUS_STOPPED) {
            renewal->private.request_id = 0; /* another will lead */
            list_prepend(&service->renewals.held, &renewal->private.link);
        } else {
            renewal->done(renewal, expiry_check_shown(service, renewal, result->status),
                          result->ttl_ms);
        }
    }
}

void renewals_ask_again(struct service *service) {
    struct list again;
    list_init(&again);
    take_asked(service, &again);
    list_append_all(&again, &service->renewals.held);
    for (struct list *node; (node = list_pop_first(&again)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        renewal->private.request_id = 0;
        renewal->private.sent_ms = 0;
        list_append(&service->renewals.held, node);
    }
}

void renewals_fail(struct service *service, enum status status) {
    struct list renewals;
    list_init(&renewals);
    take_asked(service, &renewals);
    list_append_all(&renewals, &service->renewals.held);
    for (struct list *node; (node = list_pop_first(&renewals)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        renewal->done(renewal, status, 0);
    }
}
