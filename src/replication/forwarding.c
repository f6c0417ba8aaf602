/* What a node asks of the leader, and what a leader answers: reads, renewals, the time that is
 * left. Everything here may be asked twice. */
#include "base/clock.h"
#include "core/auth.h"
#include "replication/service_internal.h"

#include <stdlib.h>

enum {
    /* A question that found no leader for so long is given up. */
    ASK_TIMEOUT_MS = 5000,
    /* Whoever was asked did not lead, or not yet: it is not asked in a circle. */
    ASK_PAUSE_MS = 10,
    /* Questions of other nodes that wait here at once. They ask again what was not answered. */
    PEER_READS_MAX = 4096,
    PEER_QUESTIONS_MAX = 256 * 1024
};

/* A read that another node asked for. */
struct peer_read {
    struct list link;
    uint64_t from_id;
    uint64_t request_id;
    uint64_t asked_ms;
};

/* A renewal that another node asked for. */
struct peer_question {
    struct service_renewal renewal;
    struct service *service;
    uint64_t from_id;
    uint64_t request_id;
};

/* --- Reads. --- */

static bool read_is_safe(const struct service *service, uint64_t asked_ms, uint64_t now_ms,
                         bool asks_majority) {
    if (!asks_majority && !service->options.strict_reads && cluster_is_authority(service, now_ms)) {
        return true;
    }
    /* A round that began after the question and was answered by a majority. */
    return service->leadership.serving &&
           leader_lease_confirmed_ms(&service->leader_lease) > asked_ms;
}

static void wait_to_read(struct service *service, struct service_read *read, uint64_t now_ms) {
    read->private.asked_ms = now_ms;
    read->private.sent_ms = 0;
    read->private.request_id = 0;
    read->private.index = 0;
    read->private.is_of_client = false;
    read->private.asks_majority = false;
    read->private.auth_generation = auth_generation(state_machine_auth(service->machine));
    list_append(&service->forwarding.waiting_reads, &read->private.link);
}

enum status service_read(struct service *service, const struct caller *caller,
                         struct service_read *read, const struct key_range *ranges,
                         size_t n_ranges) {
    enum status status = service_read_local(service, caller, ranges, n_ranges);
    if (status != STATUS_OK) {
        return status;
    }
    uint64_t now_ms = clock_boottime_ms();
    if (service->leadership.serving && read_is_safe(service, now_ms, now_ms, false)) {
        return STATUS_OK;
    }
    wait_to_read(service, read, now_ms);
    read->private.is_of_client = caller->kind == CALLER_CLIENT;
    return STATUS_PENDING;
}

enum status service_confirm(struct service *service, struct service_read *read) {
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    if (cluster_is_alone(service) && service->leadership.serving) {
        return STATUS_OK;
    }
    wait_to_read(service, read, clock_boottime_ms());
    read->private.asks_majority = true;
    return STATUS_PENDING;
}

enum status service_read_local(struct service *service, const struct caller *caller,
                               const struct key_range *ranges, size_t n_ranges) {
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    const struct auth *auth = state_machine_auth(service->machine);
    if (!auth_is_enabled(auth)) {
        return STATUS_OK;
    }
    enum status status = auth_check_user(auth, caller);
    for (size_t i = 0; i < n_ranges && status == STATUS_OK; i++) {
        status = auth_check_range(auth, caller, RIGHT_READ, &ranges[i]);
    }
    return refusals_note(service, caller, status, "read");
}

/* What was checked when it was asked for may not hold any more. The server's own reads, such as
 * that of a login, need no rights. */
static bool is_right_old(const struct service *service, const struct service_read *read) {
    const struct auth *auth = state_machine_auth(service->machine);
    return read->private.is_of_client && auth_is_enabled(auth) &&
           auth_generation(auth) != read->private.auth_generation;
}

static void answer_read(struct service *service, struct service_read *read, enum status status) {
    list_remove(&read->private.link);
    if (status == STATUS_OK && is_right_old(service, read)) {
        status = STATUS_AUTH_OLD_REVISION;
    }
    read->ready(read, status);
}

/* An answer is lost when the leader has no link to us yet, or no room on it: the question is asked
 * once more, under the same number, so that a late answer counts too. */
static bool is_answer_overdue(const struct service *service, uint64_t sent_ms, uint64_t now_ms) {
    return clock_elapsed_ms(now_ms, sent_ms) >= service->options.election_ms;
}

/* A question that is not on its way. */
static bool may_ask(uint64_t request_id, uint64_t sent_ms, uint64_t now_ms) {
    return request_id == 0 && (sent_ms == 0 || clock_elapsed_ms(now_ms, sent_ms) >= ASK_PAUSE_MS);
}

static bool ask_to_read(struct service *service, uint64_t leader_id, uint64_t request_id) {
    struct peer_frame frame = {.type = PEER_READ, .read.request_id = request_id};
    return !cluster_is_alone(service) && leader_id != 0 && cluster_send(service, leader_id, &frame);
}

static void reads_poll(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    bool asks = false;
    bool is_sent = true;
    uint64_t overdue_id = 0; /* shared by reads that stand side by side */
    for (struct list *node = service->forwarding.waiting_reads.next, *next;
         node != &service->forwarding.waiting_reads; node = next) {
        struct service_read *read = list_entry(node, struct service_read, private.link);
        next = node->next;
        if (service->leadership.serving
                ? read_is_safe(service, read->private.asked_ms, now_ms, read->private.asks_majority)
                : read->private.index != 0 &&
                      raft_engine_applied_index(service->engine) >= read->private.index) {
            answer_read(service, read, STATUS_OK);
        } else if (clock_elapsed_ms(now_ms, read->private.asked_ms) > ASK_TIMEOUT_MS) {
            answer_read(service, read, leader_id == 0 ? STATUS_NO_LEADER : STATUS_TIMED_OUT);
        } else if (may_ask(read->private.request_id, read->private.sent_ms, now_ms)) {
            read->private.request_id = service->forwarding.request_id + 1;
            read->private.sent_ms = now_ms;
            asks = true;
        } else if (!service->leadership.serving && read->private.request_id != 0 &&
                   read->private.index == 0 &&
                   is_answer_overdue(service, read->private.sent_ms, now_ms)) {
            read->private.sent_ms = now_ms;
            if (read->private.request_id != overdue_id) {
                overdue_id = read->private.request_id;
                is_sent &= ask_to_read(service, leader_id, overdue_id);
            }
        }
    }
    /* One question for all reads of this iteration. */
    if (asks && !service->leadership.serving) {
        is_sent &= ask_to_read(service, leader_id, ++service->forwarding.request_id);
    } else if (asks) {
        ++service->forwarding.request_id;
        service->cluster.ping_ms = 0; /* a round now, not at the next heartbeat */
    }
    if (!is_sent) {
        forwarding_ask_again(service);
    }
}

/* Only the leader was asked. */
static bool is_of_leader(const struct service *service, uint64_t from_id) {
    return from_id == raft_engine_leader_id(service->engine);
}

void forwarding_on_read_result(struct service *service, uint64_t from_id,
                               const struct peer_frame *frame) {
    if (!is_of_leader(service, from_id)) {
        return;
    }
    for (struct list *node = service->forwarding.waiting_reads.next;
         node != &service->forwarding.waiting_reads; node = node->next) {
        struct service_read *read = list_entry(node, struct service_read, private.link);
        if (read->private.request_id != frame->read_result.request_id) {
            continue;
        }
        if (frame->read_result.status == STATUS_OK) {
            read->private.index = frame->read_result.index;
        } else {
            read->private.request_id = 0;
        }
    }
}

void forwarding_on_read(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    if (service->forwarding.n_peer_reads >= PEER_READS_MAX) {
        return;
    }
    struct peer_read *read = malloc(sizeof *read);
    if (read == NULL) {
        abort();
    }
    service->forwarding.n_peer_reads++;
    *read = (struct peer_read){
        .from_id = from_id, .request_id = frame->read.request_id, .asked_ms = clock_boottime_ms()};
    list_append(&service->forwarding.peer_reads, &read->link);
}

static void peer_reads_poll(struct service *service, uint64_t now_ms) {
    for (struct list *node = service->forwarding.peer_reads.next, *next;
         node != &service->forwarding.peer_reads; node = next) {
        struct peer_read *read = list_entry(node, struct peer_read, link);
        next = node->next;
        enum status status = STATUS_PENDING;
        if (!service->leadership.serving && service->leadership.term == 0) {
            status = STATUS_NO_LEADER;
        } else if (read_is_safe(service, read->asked_ms, now_ms, false)) {
            status = STATUS_OK;
        } else if (clock_elapsed_ms(now_ms, read->asked_ms) > ASK_TIMEOUT_MS) {
            status = STATUS_TIMED_OUT;
        }
        if (status == STATUS_PENDING) {
            continue;
        }
        struct peer_frame result = {.type = PEER_READ_RESULT};
        result.read_result.request_id = read->request_id;
        result.read_result.status = status;
        result.read_result.index = raft_engine_commit_index(service->engine);
        (void)cluster_send(service, read->from_id, &result);
        list_remove(&read->link);
        service->forwarding.n_peer_reads--;
        free(read);
    }
}

/* --- Renewals and questions for the time left. --- */

void forwarding_hold_renewal(struct service *service, struct service_renewal *renewal) {
    renewal->private.asked_ms = clock_boottime_ms();
    renewal->private.sent_ms = 0;
    renewal->private.request_id = 0;
    list_append(&service->forwarding.held_renewals, &renewal->private.link);
}

static void send_renewals(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    struct peer_renewal batch[PEER_RENEWALS_MAX];
    size_t n = 0;
    bool has_callers = auth_is_enabled(state_machine_auth(service->machine));
    for (struct list *node = service->forwarding.held_renewals.next;
         node != &service->forwarding.held_renewals; node = node->next) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        bool is_overdue = renewal->private.request_id != 0 &&
                          is_answer_overdue(service, renewal->private.sent_ms, now_ms);
        if ((may_ask(renewal->private.request_id, renewal->private.sent_ms, now_ms) ||
             is_overdue) &&
            n < PEER_RENEWALS_MAX) {
            renewal->private.request_id =
                is_overdue ? renewal->private.request_id : ++service->forwarding.request_id;
            renewal->private.sent_ms = now_ms;
            batch[n++] = (struct peer_renewal){.request_id = renewal->private.request_id,
                                               .id = renewal->id,
                                               .owner = renewal->owner,
                                               .caller = renewal->private.caller,
                                               .shows_keys = renewal->shows_keys,
                                               .only_ask = renewal->private.only_ask};
            has_callers = has_callers || !key_space_equal(renewal->owner, KEY_SPACE_ETCD);
        }
    }
    if (n == 0) {
        return;
    }
    /* Where users are, or leases of another owner, every member knows the longer form. */
    struct peer_frame frame = {.type = has_callers ? PEER_RENEW_AS : PEER_RENEW,
                               .renew = {.n = n, .renewals = batch}};
    if (!cluster_send(service, leader_id, &frame)) {
        forwarding_ask_again(service);
    }
}

static void renewals_poll(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    bool is_authority = cluster_is_authority(service, now_ms);
    struct list held;
    list_init(&held);
    list_append_all(&held, &service->forwarding.held_renewals);
    for (struct list *node; (node = list_pop_first(&held)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        int64_t ttl_ms = 0;
        enum status status = STATUS_PENDING;
        if (is_authority) {
            status = expiry_answer(service, renewal, &ttl_ms);
            if (status == STATUS_PENDING) {
                continue; /* expiry.c has it now */
            }
        } else if (clock_elapsed_ms(now_ms, renewal->private.asked_ms) > ASK_TIMEOUT_MS) {
            status = STATUS_NO_LEADER;
        }
        if (status == STATUS_PENDING) {
            list_append(&service->forwarding.held_renewals, &renewal->private.link);
        } else {
            renewal->done(renewal, status, ttl_ms);
        }
    }
    if (!service->leadership.serving && !cluster_is_alone(service) && leader_id != 0) {
        send_renewals(service, leader_id, now_ms);
    }
}

static void send_result(struct service *service, uint64_t to_id,
                        const struct peer_renewal_result *result) {
    struct peer_frame frame = {.type = PEER_RENEW_RESULT,
                               .renew_result = {.n = 1, .results = result}};
    (void)cluster_send(service, to_id, &frame);
}

static void question_done(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct peer_question *question = list_entry(renewal, struct peer_question, renewal);
    send_result(question->service, question->from_id,
                &(struct peer_renewal_result){
                    .request_id = question->request_id, .status = status, .ttl_ms = ttl_ms});
    question->service->forwarding.n_peer_questions--;
    free(question);
}

void forwarding_on_renew(struct service *service, uint64_t from_id,
                         const struct peer_frame *frame) {
    for (size_t i = 0; i < frame->renew.n; i++) {
        const struct peer_renewal *asked = &frame->renew.renewals[i];
        if (service->forwarding.n_peer_questions >= PEER_QUESTIONS_MAX) {
            return;
        }
        service->forwarding.n_peer_questions++;
        struct peer_question *question = calloc(1, sizeof *question);
        if (question == NULL) {
            abort();
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
        if (status != STATUS_PENDING) {
            question_done(&question->renewal, status, ttl_ms);
        }
    }
}

void forwarding_on_renew_result(struct service *service, uint64_t from_id,
                                const struct peer_frame *frame) {
    if (!is_of_leader(service, from_id)) {
        return;
    }
    for (size_t i = 0; i < frame->renew_result.n; i++) {
        const struct peer_renewal_result *result = &frame->renew_result.results[i];
        for (struct list *node = service->forwarding.held_renewals.next;
             node != &service->forwarding.held_renewals; node = node->next) {
            struct service_renewal *renewal =
                list_entry(node, struct service_renewal, private.link);
            if (renewal->private.request_id != result->request_id) {
                continue;
            }
            if (result->status == STATUS_NO_LEADER || result->status == STATUS_STOPPED) {
                renewal->private.request_id = 0; /* another will lead */
            } else {
                list_remove(&renewal->private.link);
                renewal->done(renewal, expiry_check_shown(service, renewal, result->status),
                              result->ttl_ms);
            }
            break;
        }
    }
}

void forwarding_poll(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    reads_poll(service, leader_id, now_ms);
    renewals_poll(service, leader_id, now_ms);
    if (!cluster_is_alone(service)) {
        peer_reads_poll(service, now_ms);
    }
}

/* --- Both. --- */

void forwarding_ask_again(struct service *service) {
    for (struct list *node = service->forwarding.waiting_reads.next;
         node != &service->forwarding.waiting_reads; node = node->next) {
        struct service_read *read = list_entry(node, struct service_read, private.link);
        if (read->private.index == 0) {
            read->private.request_id = 0;
            read->private.sent_ms = 0;
        }
    }
    for (struct list *node = service->forwarding.held_renewals.next;
         node != &service->forwarding.held_renewals; node = node->next) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        renewal->private.request_id = 0;
        renewal->private.sent_ms = 0;
    }
}

void forwarding_fail(struct service *service, enum status status) {
    for (struct list *node; (node = list_pop_first(&service->forwarding.waiting_reads)) != NULL;) {
        struct service_read *read = list_entry(node, struct service_read, private.link);
        read->ready(read, status);
    }
    for (struct list *node; (node = list_pop_first(&service->forwarding.held_renewals)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        renewal->done(renewal, status, 0);
    }
    for (struct list *node; (node = list_pop_first(&service->forwarding.peer_reads)) != NULL;) {
        free(list_entry(node, struct peer_read, link));
    }
    service->forwarding.n_peer_reads = 0;
}
