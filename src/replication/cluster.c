/* Several nodes as one: pings for the leader's lease, commits announced, members made known, and
 * who gets which frame of a peer. What is asked of the leader is in questions.c and proposals.c. */
#include "base/clock.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
    /* A majority elected it, and it steps down when it loses that. */
    expiry_leader_seen(service, clock_boottime_ms());
    struct peer_frame pong = {.type = PEER_PONG, .pong = frame->ping};
    (void)peers_send(service->peers, from_id, &pong);
}

/* A request's own mark that the leader told its sender to take over proves nothing: it may be late.
 * Only the leader's word frees a voter. */
bool cluster_may_vote(void *data, uint64_t candidate_id) {
    struct service *service = data;
    return cluster_is_alone(service) ||
           voter_promise_allows(&service->promise, candidate_id, clock_boottime_ms());
}

bool cluster_is_leaderless(void *data) {
    struct service *service = data;
    uint64_t silent_ms = clock_elapsed_ms(clock_boottime_ms(), service->guard.heard_ms);
    return !cluster_is_alone(service) && raft_state(&service->raft) != RAFT_LEADER &&
           silent_ms > service->options.election_ms;
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

/* A leader's heartbeats try its connections anyway. */
static void knock(struct service *service, uint64_t now_ms) {
    if (clock_elapsed_ms(now_ms, service->knock_ms) < service->options.election_ms ||
        raft_state(&service->raft) == RAFT_LEADER) {
        return;
    }
    service->knock_ms = now_ms;
    for (size_t i = 0; i < service->options.n_members; i++) {
        const struct replication_member *member = &service->options.members[i];
        if (member->id != service->options.member_id) {
            raft_guard_knock(&service->guard, member->id, member->address);
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
        questions_on_read(service, from_id, frame);
        return;
    case PEER_READ_RESULT:
        questions_on_read_result(service, frame);
        return;
    case PEER_RENEW:
        questions_on_renew(service, from_id, frame);
        return;
    case PEER_RENEW_RESULT:
        questions_on_renew_result(service, frame);
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
    questions_ask_again(service);
}

static void on_raft_accepted(void *data, uint64_t id, const char *address, uv_stream_t *stream) {
    peer_transport_accept(&((struct service *)data)->transport, id, address, stream);
}

static bool is_member(void *data, uint64_t id) {
    struct service *service = data;
    for (size_t i = 0; i < service->options.n_members; i++) {
        if (service->options.members[i].id == id) {
            return true;
        }
    }
    return false;
}

static const struct peers_callbacks peers_callbacks = {.raft_accepted = on_raft_accepted,
                                                       .is_member = is_member,
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
                                    .address = service->options.peer_address,
                                    .tls = service->options.peer_tls};
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
        questions_ask_again(service);
    }
    service->was_authority = cluster_is_authority(service, now_ms);
    if (service->was_authority && !cluster_is_alone(service)) {
        expiry_leader_seen(service, now_ms);
    }
    questions_turn(service, leader_id, now_ms);
    if (cluster_is_alone(service)) {
        return;
    }
    proposals_turn(service, leader_id, now_ms);
    announce_commit(service);
    knock(service, now_ms);
    if (service->lease.term != 0 &&
        clock_elapsed_ms(now_ms, service->ping_ms) >= service->options.heartbeat_ms) {
        send_pings(service, now_ms);
    }
    peers_flush(service->peers);
}
