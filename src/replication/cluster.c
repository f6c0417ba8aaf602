/* Several nodes as one: pings for the leader's lease, and what a node that does not lead asks of the
 * one that does: proposals, reads, renewals. Everything asked twice is harmless but proposals,
 * which are sent once and never again. */
#include "base/clock.h"
#include "base/log.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Renewals in one frame. */
    RENEW_BATCH_MAX = 1024,
    /* A question that found no leader for so long is given up. */
    ASK_TIMEOUT_MS = 5000,
    /* From giving the lease up to asking raft for a transfer. */
    RELEASE_MS = 10
};

/* A read that another node asked for. */
struct peer_read {
    struct list link;
    uint64_t from_id;
    uint64_t token;
    uint64_t asked_ms;
};

/* A renewal that another node asked for. */
struct peer_question {
    struct service_renewal renewal;
    struct service *service;
    uint64_t from_id;
    uint64_t token;
};

bool cluster_is_alone(const struct service *service) {
    return service->peers == NULL;
}

bool cluster_is_authority(const struct service *service, uint64_t now_ms) {
    return service->serving &&
           (cluster_is_alone(service) || leader_lease_is_valid(&service->lease, now_ms));
}

uint64_t cluster_leader(struct service *service) {
    raft_id id = 0;
    const char *address = NULL;
    raft_leader(&service->raft, &id, &address);
    return id;
}

/* --- The leader's lease. --- */

void cluster_lead(struct service *service, uint64_t term) {
    uint64_t others[LEADER_LEASE_VOTERS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < service->options.n_members; i++) {
        if (service->options.members[i].id != service->options.member_id) {
            assert(n < LEADER_LEASE_VOTERS_MAX);
            others[n++] = service->options.members[i].id;
        }
    }
    memset(service->announced_index, 0, sizeof service->announced_index);
    leader_lease_begin(&service->lease, term, service->options.election_ms, true, others, n);
    service->ping_ms = 0;
}

static void send_pings(struct service *service, uint64_t now_ms) {
    struct peer_frame ping = {.type = PEER_PING};
    ping.ping.term = service->lease.term;
    ping.ping.sent_ms = now_ms;
    for (size_t i = 0; i < service->lease.n_others; i++) {
        (void)peers_send(service->peers, service->lease.voters[i].id, &ping);
    }
    service->ping_ms = now_ms;
}

static void on_ping(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    bool is_my_leader = raft_state(&service->raft) == RAFT_FOLLOWER &&
                        frame->ping.term == raft_current_term(&service->raft) &&
                        cluster_leader(service) == from_id;
    if (!is_my_leader) {
        return;
    }
    struct leader_word word = {from_id, frame->ping.term, frame->ping.sent_ms};
    voter_promise_make(&service->promise, &word, clock_boottime_ms());
    struct peer_frame pong = {.type = PEER_PONG, .pong = frame->ping};
    (void)peers_send(service->peers, from_id, &pong);
}

/* A request's own mark that the leader told its sender to take over proves nothing: it may be late.
 * Only the leader's word frees a voter. */
bool cluster_may_vote(void *data, uint64_t candidate_id) {
    struct service *service = data;
    return cluster_is_alone(service) || voter_promise_allows(&service->promise, candidate_id,
                                                             clock_boottime_ms());
}

static void on_release(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    struct leader_word word = {from_id, frame->release.term, frame->release.sent_ms};
    voter_promise_release(&service->promise, &word);
}

static void on_pong(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    /* An answer to what was never sent is none. */
    if (frame->pong.sent_ms <= clock_boottime_ms()) {
        leader_lease_answered(&service->lease, from_id, frame->pong.term, frame->pong.sent_ms);
    }
}

/* Followers answer their clients when they have applied: they are told of a commit at once, unless
 * entries that follow will tell them anyway. */
static void announce_commit(struct service *service) {
    raft_index index = raft_commit_index(&service->raft);
    if (!service->serving || raft_last_index(&service->raft) > index) {
        return;
    }
    for (size_t i = 0; i < service->options.n_members; i++) {
        const struct replication_member *member = &service->options.members[i];
        raft_index match = 0;
        if (member->id == service->options.member_id || service->announced_index[i] >= index ||
            raft_match_index(&service->raft, member->id, &match) != 0 || match < index) {
            continue;
        }
        service->announced_index[i] = index;
        raft_guard_announce(&service->guard,
                            &(struct raft_guard_commit){.to_id = member->id,
                                                        .to_address = member->address,
                                                        .term = service->barrier_term,
                                                        .index = index});
    }
}

/* --- Reads. --- */

static bool read_is_safe(const struct service *service, uint64_t asked_ms, uint64_t now_ms) {
    if (!service->options.strict_reads && cluster_is_authority(service, now_ms)) {
        return true;
    }
    /* A round that began after the question and was answered by a majority. */
    return service->serving && leader_lease_confirmed_ms(&service->lease) > asked_ms;
}

enum status service_read(struct service *service, struct service_read *read) {
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    uint64_t now_ms = clock_boottime_ms();
    if (service->serving && read_is_safe(service, now_ms, now_ms)) {
        return STATUS_OK;
    }
    read->asked_ms = now_ms;
    read->token = 0;
    read->index = 0;
    list_append(&service->waiting_reads, &read->link);
    return STATUS_PENDING;
}

static void answer_read(struct service_read *read, enum status status) {
    list_remove(&read->link);
    read->ready(read, status);
}

/* An answer is lost when the leader has no link to us yet, or no room on it: the question is asked
 * once more, under the same number, so that a late answer counts too. */
static bool is_answer_overdue(const struct service *service, uint64_t sent_ms, uint64_t now_ms) {
    return now_ms - sent_ms >= service->options.election_ms;
}

static bool ask_to_read(struct service *service, uint64_t leader_id, uint64_t token) {
    struct peer_frame frame = {.type = PEER_READ, .read.token = token};
    return !cluster_is_alone(service) && leader_id != 0 &&
           peers_send(service->peers, leader_id, &frame);
}

static void reads_turn(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    bool asks = false;
    bool is_sent = true;
    uint64_t overdue_token = 0; /* shared by reads that stand side by side */
    for (struct list *node = service->waiting_reads.next, *next; node != &service->waiting_reads;
         node = next) {
        struct service_read *read = list_entry(node, struct service_read, link);
        next = node->next;
        if (service->serving ? read_is_safe(service, read->asked_ms, now_ms)
                             : read->index != 0 &&
                                   raft_last_applied(&service->raft) >= read->index) {
            answer_read(read, STATUS_OK);
        } else if (now_ms - read->asked_ms > ASK_TIMEOUT_MS) {
            answer_read(read, leader_id == 0 ? STATUS_NO_LEADER : STATUS_TIMED_OUT);
        } else if (read->token == 0) {
            read->token = service->token + 1;
            read->sent_ms = now_ms;
            asks = true;
        } else if (!service->serving && read->index == 0 &&
                   is_answer_overdue(service, read->sent_ms, now_ms)) {
            read->sent_ms = now_ms;
            if (read->token != overdue_token) {
                overdue_token = read->token;
                is_sent &= ask_to_read(service, leader_id, overdue_token);
            }
        }
    }
    /* One question for all reads of this turn. */
    if (asks && !service->serving) {
        is_sent &= ask_to_read(service, leader_id, ++service->token);
    } else if (asks) {
        ++service->token;
        service->ping_ms = 0; /* a round now, not at the next heartbeat */
    }
    if (!is_sent) {
        cluster_ask_again(service);
    }
}

static void on_read_result(struct service *service, const struct peer_frame *frame) {
    for (struct list *node = service->waiting_reads.next; node != &service->waiting_reads;
         node = node->next) {
        struct service_read *read = list_entry(node, struct service_read, link);
        if (read->token != frame->read_result.token) {
            continue;
        }
        if (frame->read_result.status == STATUS_OK) {
            read->index = frame->read_result.index;
        } else {
            read->token = 0;
        }
    }
}

static void on_read(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    struct peer_read *read = malloc(sizeof *read);
    if (read == NULL) {
        abort();
    }
    *read = (struct peer_read){.from_id = from_id,
                               .token = frame->read.token,
                               .asked_ms = clock_boottime_ms()};
    list_append(&service->peer_reads, &read->link);
}

static void peer_reads_turn(struct service *service, uint64_t now_ms) {
    for (struct list *node = service->peer_reads.next, *next; node != &service->peer_reads;
         node = next) {
        struct peer_read *read = list_entry(node, struct peer_read, link);
        next = node->next;
        enum status status = STATUS_PENDING;
        if (!service->serving && service->barrier_term == 0) {
            status = STATUS_NO_LEADER;
        } else if (read_is_safe(service, read->asked_ms, now_ms)) {
            status = STATUS_OK;
        } else if (now_ms - read->asked_ms > ASK_TIMEOUT_MS) {
            status = STATUS_TIMED_OUT;
        }
        if (status == STATUS_PENDING) {
            continue;
        }
        struct peer_frame result = {.type = PEER_READ_RESULT};
        result.read_result.token = read->token;
        result.read_result.status = status;
        result.read_result.index = raft_commit_index(&service->raft);
        (void)peers_send(service->peers, read->from_id, &result);
        list_remove(&read->link);
        free(read);
    }
}

/* --- Renewals and questions for the time left. --- */

void cluster_hold_renewal(struct service *service, struct service_renewal *renewal) {
    renewal->asked_ms = clock_boottime_ms();
    renewal->token = 0;
    list_append(&service->held_renewals, &renewal->link);
}

static void send_renewals(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    struct peer_renewal batch[RENEW_BATCH_MAX];
    size_t n = 0;
    for (struct list *node = service->held_renewals.next; node != &service->held_renewals;
         node = node->next) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, link);
        bool is_overdue =
            renewal->token != 0 && is_answer_overdue(service, renewal->sent_ms, now_ms);
        if ((renewal->token == 0 || is_overdue) && n < RENEW_BATCH_MAX) {
            renewal->token = is_overdue ? renewal->token : ++service->token;
            renewal->sent_ms = now_ms;
            batch[n++] = (struct peer_renewal){
                .token = renewal->token, .id = renewal->id, .only_ask = renewal->only_ask};
        }
    }
    if (n == 0) {
        return;
    }
    struct peer_frame frame = {.type = PEER_RENEW, .renew = {.n = n, .renewals = batch}};
    if (!peers_send(service->peers, leader_id, &frame)) {
        cluster_ask_again(service);
    }
}

static void renewals_turn(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    bool is_authority = cluster_is_authority(service, now_ms);
    struct list held;
    list_init(&held);
    list_append_all(&held, &service->held_renewals);
    for (struct list *node; (node = list_pop_first(&held)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, link);
        int64_t ttl_ms = 0;
        enum status status = STATUS_PENDING;
        if (is_authority) {
            status = expiry_answer(service, renewal, &ttl_ms);
            if (status == STATUS_PENDING) {
                continue; /* expiry.c has it now */
            }
        } else if (now_ms - renewal->asked_ms > ASK_TIMEOUT_MS) {
            status = STATUS_NO_LEADER;
        }
        if (status == STATUS_PENDING) {
            list_append(&service->held_renewals, &renewal->link);
        } else {
            renewal->done(renewal, status, ttl_ms);
        }
    }
    if (!service->serving && !cluster_is_alone(service) && leader_id != 0) {
        send_renewals(service, leader_id, now_ms);
    }
}

static void send_result(struct service *service, uint64_t to_id,
                        const struct peer_renewal_result *result) {
    struct peer_frame frame = {.type = PEER_RENEW_RESULT,
                               .renew_result = {.n = 1, .results = result}};
    (void)peers_send(service->peers, to_id, &frame);
}

static void question_done(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct peer_question *question = list_entry(renewal, struct peer_question, renewal);
    send_result(question->service, question->from_id,
                &(struct peer_renewal_result){
                    .token = question->token, .status = status, .ttl_ms = ttl_ms});
    free(question);
}

static void on_renew(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    for (size_t i = 0; i < frame->renew.n; i++) {
        const struct peer_renewal *asked = &frame->renew.renewals[i];
        struct peer_question *question = calloc(1, sizeof *question);
        if (question == NULL) {
            abort();
        }
        *question = (struct peer_question){.renewal = {.id = asked->id,
                                                       .done = question_done,
                                                       .only_ask = asked->only_ask},
                                           .service = service,
                                           .from_id = from_id,
                                           .token = asked->token};
        list_init(&question->renewal.link);
        int64_t ttl_ms = 0;
        /* Only the leader answers: a question must not travel in circles. */
        enum status status = service->serving && !service->closing
                                 ? service_ask(service, &question->renewal, &ttl_ms)
                                 : STATUS_NO_LEADER;
        if (status != STATUS_PENDING) {
            question_done(&question->renewal, status, ttl_ms);
        }
    }
}

static void on_renew_result(struct service *service, const struct peer_frame *frame) {
    for (size_t i = 0; i < frame->renew_result.n; i++) {
        const struct peer_renewal_result *result = &frame->renew_result.results[i];
        for (struct list *node = service->held_renewals.next; node != &service->held_renewals;
             node = node->next) {
            struct service_renewal *renewal = list_entry(node, struct service_renewal, link);
            if (renewal->token != result->token) {
                continue;
            }
            if (result->status == STATUS_NO_LEADER || result->status == STATUS_STOPPED) {
                renewal->token = 0; /* another will lead */
            } else {
                list_remove(&renewal->link);
                renewal->done(renewal, result->status, result->ttl_ms);
            }
            break;
        }
    }
}

/* --- Who the others are. --- */

static void tell_client_urls(struct service *service, uint64_t to_id) {
    struct peer_frame frame = {.type = PEER_MEMBER};
    for (const char *const *url = service->options.client_urls;
         *url != NULL && frame.member.n_urls < PEER_URLS_MAX; url++) {
        frame.member.urls[frame.member.n_urls++] = bytes_from_text(*url);
    }
    (void)peers_send(service->peers, to_id, &frame);
}

static void on_member(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    for (size_t i = 0; i < service->options.n_members; i++) {
        if (service->options.members[i].id != from_id) {
            continue;
        }
        struct member_urls *urls = &service->member_urls[i];
        size_t size = 0;
        for (size_t u = 0; u < frame->member.n_urls; u++) {
            size += frame->member.urls[u].size + 1;
        }
        free(urls->text);
        *urls = (struct member_urls){.text = calloc(size + 1, 1)};
        if (urls->text == NULL) {
            abort();
        }
        char *at = urls->text;
        for (size_t u = 0; u < frame->member.n_urls; u++) {
            memcpy(at, frame->member.urls[u].data, frame->member.urls[u].size);
            urls->urls[u] = at;
            at += frame->member.urls[u].size + 1;
        }
    }
}

const char *const *cluster_client_urls(const struct service *service, size_t member) {
    return service->options.members[member].id == service->options.member_id
               ? service->options.client_urls
               : service->member_urls[member].urls;
}

void cluster_clear(struct service *service) {
    for (size_t i = 0; i < service->options.n_members; i++) {
        free(service->member_urls[i].text);
    }
    free(service->member_urls);
}

/* --- Everything else. --- */

void cluster_ask_again(struct service *service) {
    for (struct list *node = service->waiting_reads.next; node != &service->waiting_reads;
         node = node->next) {
        struct service_read *read = list_entry(node, struct service_read, link);
        if (read->index == 0) {
            read->token = 0;
        }
    }
    for (struct list *node = service->held_renewals.next; node != &service->held_renewals;
         node = node->next) {
        list_entry(node, struct service_renewal, link)->token = 0;
    }
}

static void on_frame(void *data, uint64_t from_id, const struct peer_frame *frame) {
    struct service *service = data;
    if (service->closing || service->failed) {
        return;
    }
    switch (frame->type) {
    case PEER_PING:
        on_ping(service, from_id, frame);
        return;
    case PEER_PONG:
        on_pong(service, from_id, frame);
        return;
    case PEER_RELEASE:
        on_release(service, from_id, frame);
        return;
    case PEER_PROPOSE:
        proposals_of_peer(service, from_id, frame);
        return;
    case PEER_PROPOSE_REFUSED:
        proposals_refused_by_peer(service, frame->propose_refused.sequence);
        return;
    case PEER_READ:
        on_read(service, from_id, frame);
        return;
    case PEER_READ_RESULT:
        on_read_result(service, frame);
        return;
    case PEER_RENEW:
        on_renew(service, from_id, frame);
        return;
    case PEER_RENEW_RESULT:
        on_renew_result(service, frame);
        return;
    case PEER_MEMBER:
        on_member(service, from_id, frame);
        return;
    }
}

static void on_link_opened(void *data, uint64_t id) {
    tell_client_urls(data, id);
}

static void on_link_lost(void *data, uint64_t id) {
    struct service *service = data;
    proposals_link_lost(service, id);
    cluster_ask_again(service);
}

static void on_raft_accepted(void *data, uint64_t id, const char *address, uv_stream_t *stream) {
    peer_transport_accept(&((struct service *)data)->transport, id, address, stream);
}

static const struct peers_callbacks peers_callbacks = {
    .raft_accepted = on_raft_accepted,
    .frame = on_frame,
    .link_opened = on_link_opened,
    .link_lost = on_link_lost};

/* Pings must go out while nothing else wakes the loop. */
static void ping_timer_fired(uv_timer_t *timer) {
    (void)timer;
}

enum status cluster_open(struct service *service, char *out_error, size_t error_size) {
    list_init(&service->waiting_reads);
    list_init(&service->peer_reads);
    list_init(&service->held_renewals);
    service->member_urls = calloc(service->options.n_members + 1, sizeof *service->member_urls);
    if (service->member_urls == NULL) {
        abort();
    }
    uv_timer_init(service->loop, &service->ping_timer);
    service->ping_timer.data = service;
    voter_promise_init(&service->promise, service->options.election_ms, clock_boottime_ms());
    if (service->options.n_members < 2) {
        return STATUS_OK;
    }
    struct peers_options options = {.cluster_id = service->options.cluster_id,
                                    .self_id = service->options.member_id,
                                    .listen_host = service->options.peer_listen_host,
                                    .listen_port = service->options.peer_listen_port,
                                    .address = service->options.peer_address};
    enum status status = peers_open(service->loop, &options, &peers_callbacks, service,
                                    &service->peers, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < service->options.n_members; i++) {
        const struct replication_member *member = &service->options.members[i];
        if (member->id != service->options.member_id) {
            peers_set_member(service->peers, member->id, member->address);
        }
    }
    uv_timer_start(&service->ping_timer, ping_timer_fired, service->options.heartbeat_ms,
                   service->options.heartbeat_ms);
    return STATUS_OK;
}

static void transfer_turn(struct service *service, uint64_t now_ms);

void cluster_turn(struct service *service) {
    if (cluster_is_alone(service) && list_is_empty(&service->waiting_reads) &&
        list_is_empty(&service->held_renewals)) {
        return;
    }
    uint64_t now_ms = clock_boottime_ms();
    transfer_turn(service, now_ms);
    uint64_t leader_id = cluster_leader(service);
    if (leader_id != service->last_leader_id) {
        service->last_leader_id = leader_id;
        cluster_ask_again(service);
    }
    /* While there was no quorum nobody could renew, so nothing ran out (safety rule 9). */
    bool is_authority = cluster_is_authority(service, now_ms);
    if (is_authority && !service->was_authority) {
        lease_table_lead(state_machine_leases(service->machine), now_ms);
    }
    service->was_authority = is_authority;
    reads_turn(service, leader_id, now_ms);
    renewals_turn(service, leader_id, now_ms);
    if (cluster_is_alone(service)) {
        return;
    }
    peer_reads_turn(service, now_ms);
    proposals_turn(service, leader_id, now_ms);
    announce_commit(service);
    if (service->lease.term != 0 && now_ms - service->ping_ms >= service->options.heartbeat_ms) {
        send_pings(service, now_ms);
    }
    peers_flush(service->peers);
}

void cluster_fail_waiting(struct service *service, enum status status) {
    for (struct list *node; (node = list_pop_first(&service->waiting_reads)) != NULL;) {
        struct service_read *read = list_entry(node, struct service_read, link);
        read->ready(read, status);
    }
    for (struct list *node; (node = list_pop_first(&service->held_renewals)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, link);
        renewal->done(renewal, status, 0);
    }
    for (struct list *node; (node = list_pop_first(&service->peer_reads)) != NULL;) {
        free(list_entry(node, struct peer_read, link));
    }
}

/* The other leads now, or did not take over in time. */
static void handed_over(struct raft_transfer *transfer) {
    struct service *service = transfer->data;
    struct service_transfer *request = service->transfer_request;
    service->is_transferring = false;
    service->transfer_request = NULL;
    service->is_handed_over = service->closing;
    bool still_leads = raft_state(&service->raft) == RAFT_LEADER &&
                       raft_current_term(&service->raft) == service->barrier_term;
    if (still_leads && !service->closing) {
        cluster_lead(service, service->barrier_term);
    }
    if (request != NULL) {
        request->done(request, cluster_leader(service) == service->transfer_to ? STATUS_OK
                                                                               : STATUS_TIMED_OUT);
    }
}

/* A leader gives its lease up before anybody else may lead (safety rule 4): it tells the voters that
 * they are free, and asks raft a moment later, when they know. */
static void transfer(struct service *service, uint64_t to_id) {
    uint64_t now_ms = clock_boottime_ms();
    struct peer_frame release = {.type = PEER_RELEASE};
    release.release.term = service->barrier_term;
    release.release.sent_ms = now_ms;
    leader_lease_end(&service->lease);
    service->was_authority = false;
    service->is_transferring = true;
    service->is_transfer_begun = false;
    service->transfer.data = service;
    service->transfer_to = to_id;
    service->transfer_since_ms = now_ms;
    for (size_t i = 0; i < service->options.n_members; i++) {
        (void)peers_send(service->peers, service->options.members[i].id, &release);
    }
    peers_flush(service->peers);
}

/* Raft is asked once the voters have had time to hear that they are free. */
static void transfer_turn(struct service *service, uint64_t now_ms) {
    if (!service->is_transferring || service->is_transfer_begun ||
        now_ms - service->transfer_since_ms < RELEASE_MS) {
        return;
    }
    service->is_transfer_begun = true;
    if (raft_transfer(&service->raft, &service->transfer, service->transfer_to, handed_over) != 0) {
        handed_over(&service->transfer);
    }
}

enum status service_move_leader(struct service *service, struct service_transfer *transfer_request,
                                uint64_t member_id) {
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    if (raft_state(&service->raft) != RAFT_LEADER || !service->serving) {
        return STATUS_NO_LEADER;
    }
    if (member_id == service->options.member_id) {
        return STATUS_OK;
    }
    bool is_member = false;
    for (size_t i = 0; i < service->options.n_members; i++) {
        is_member |= service->options.members[i].id == member_id;
    }
    if (!is_member) {
        return STATUS_INVALID;
    }
    if (service->is_transferring) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    service->transfer_request = transfer_request;
    transfer(service, member_id);
    return STATUS_PENDING;
}

bool cluster_hand_over(struct service *service) {
    if (cluster_is_alone(service) || raft_state(&service->raft) != RAFT_LEADER) {
        return false;
    }
    /* One that is under way will do, and raft takes no second one. */
    if (!service->is_transferring) {
        transfer(service, 0);
    }
    return true;
}

bool cluster_hand_over_is_late(const struct service *service) {
    return service->is_transferring && clock_boottime_ms() - service->transfer_since_ms >
                                           (uint64_t)service->options.election_ms * 2;
}
