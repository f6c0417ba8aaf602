/* What a node asks of the leader, and what a leader answers: reads here, renewals in renewals.c.
 * Everything may be asked twice. */
#include "base/clock.h"
#include "core/auth.h"
#include "replication/service_internal.h"

#include <stdlib.h>

enum {
    /* Whoever was asked did not lead, or not yet: it is not asked in a circle. */
    ASK_PAUSE_MS = 10,
    /* Questions of other nodes that wait here at once. They ask again what was not answered. */
    PEER_READS_MAX = 4096,
    /* For so long reads are answered in one iteration. */
    READS_US_MAX = 10 * 1000
};

/* A read that another node asked for. */
struct peer_read {
    struct list link;
    uint64_t from_id;
    uint64_t request_id;
    uint64_t asked_ms;
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

enum status service_read_now(struct service *service, const struct caller *caller,
                             const struct key_range *ranges, size_t n_ranges) {
    enum status status = service_read_local(service, caller, ranges, n_ranges);
    if (status != STATUS_OK) {
        return status;
    }
    uint64_t now_ms = clock_boottime_ms();
    return service->leadership.serving && read_is_safe(service, now_ms, now_ms, false)
               ? STATUS_OK
               : STATUS_PENDING;
}

enum status service_read(struct service *service, const struct caller *caller,
                         struct service_read *read, const struct key_range *ranges,
                         size_t n_ranges) {
    enum status status = service_read_now(service, caller, ranges, n_ranges);
    if (status != STATUS_PENDING) {
        return status;
    }
    wait_to_read(service, read, clock_boottime_ms());
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

bool forwarding_is_overdue(const struct service *service, uint64_t sent_ms, uint64_t now_ms) {
    return clock_elapsed_ms(now_ms, sent_ms) >= service->options.election_ms;
}

bool forwarding_may_ask(uint64_t request_id, uint64_t sent_ms, uint64_t now_ms) {
    return request_id == 0 && (sent_ms == 0 || clock_elapsed_ms(now_ms, sent_ms) >= ASK_PAUSE_MS);
}

static bool ask_to_read(struct service *service, uint64_t leader_id, uint64_t request_id) {
    struct peer_frame frame = {.type = PEER_READ, .read.request_id = request_id};
    return !cluster_is_alone(service) && leader_id != 0 && cluster_send(service, leader_id, &frame);
}

static void reads_poll(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    service->forwarding.has_ready_reads = false;
    if (list_is_empty(&service->forwarding.waiting_reads)) {
        return;
    }
    uint64_t end_us = clock_boottime_us() + READS_US_MAX;
    bool is_late = false;
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
            /* Many become safe at once, and each may take a while: what is left waits for the next
             * iteration, so that everybody else goes on. */
            if (is_late) {
                service->forwarding.has_ready_reads = true;
                continue;
            }
            answer_read(service, read, STATUS_OK);
            is_late = clock_boottime_us() >= end_us;
        } else if (clock_elapsed_ms(now_ms, read->private.asked_ms) > FORWARDING_TIMEOUT_MS) {
            answer_read(service, read, leader_id == 0 ? STATUS_NO_LEADER : STATUS_TIMED_OUT);
        } else if (forwarding_may_ask(read->private.request_id, read->private.sent_ms, now_ms)) {
            read->private.request_id = service->forwarding.request_id + 1;
            read->private.sent_ms = now_ms;
            asks = true;
        } else if (!service->leadership.serving && read->private.request_id != 0 &&
                   read->private.index == 0 &&
                   forwarding_is_overdue(service, read->private.sent_ms, now_ms)) {
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

bool forwarding_is_of_leader(const struct service *service, uint64_t from_id) {
    return from_id == raft_engine_leader_id(service->engine);
}

void forwarding_on_read_result(struct service *service, uint64_t from_id,
                               const struct peer_frame *frame) {
    if (!forwarding_is_of_leader(service, from_id)) {
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
        } else if (clock_elapsed_ms(now_ms, read->asked_ms) > FORWARDING_TIMEOUT_MS) {
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
    renewals_ask_again(service);
}

void forwarding_fail(struct service *service, enum status status) {
    for (struct list *node; (node = list_pop_first(&service->forwarding.waiting_reads)) != NULL;) {
        struct service_read *read = list_entry(node, struct service_read, private.link);
        read->ready(read, status);
    }
    renewals_fail(service, status);
    for (struct list *node; (node = list_pop_first(&service->forwarding.peer_reads)) != NULL;) {
        free(list_entry(node, struct peer_read, link));
    }
    service->forwarding.n_peer_reads = 0;
}
