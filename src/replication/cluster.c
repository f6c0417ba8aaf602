/* Several nodes as one: pings for the leader's lease, commits announced, members made known, and
 * who gets which frame of a peer. What is asked of the leader is in questions.c and proposals.c. */
#include "base/clock.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A learner takes its leader for gone after so many election timeouts. */
    LEADER_SILENT_ELECTIONS = 3,
    /* Requests for votes that wait for the end of a promise are looked at so long after it. */
    HELD_VOTES_MS = 1
};

bool cluster_is_alone(const struct service *service) {
    return service->peers == NULL;
}

bool cluster_is_authority(const struct service *service, uint64_t now_ms) {
    return service->serving &&
           (cluster_is_alone(service) || leader_lease_is_valid(&service->lease, now_ms));
}

static uint64_t leader_of_raft(struct service *service) {
    raft_id id = 0;
    const char *address = NULL;
    raft_leader(&service->raft, &id, &address);
    return id;
}

/* Who does not vote does not stand for election when its leader goes silent, and raft goes on
 * naming that one: it is believed for as long as it can be heard. */
uint64_t cluster_leader(struct service *service) {
    uint64_t id = leader_of_raft(service);
    if (id == 0 || id == service->options.member_id || !members_is_learner(service)) {
        return id;
    }
    uint64_t silent_ms = clock_elapsed_ms(clock_boottime_ms(), service->leader_heard_ms);
    return silent_ms > LEADER_SILENT_ELECTIONS * (uint64_t)service->options.election_ms ? 0 : id;
}

/* --- The leader's lease. --- */

void cluster_lead(struct service *service, uint64_t term) {
    memset(service->announced, 0, sizeof service->announced);
    leader_lease_begin(&service->lease, term, service->options.election_ms, true, NULL, 0);
    members_count_voters(service);
    service->ping_ms = 0;
}

static void send_pings(struct service *service, uint64_t now_ms) {
    struct peer_frame ping = {.type = PEER_PING};
    ping.ping.term = service->lease.term;
    ping.ping.sent_ms = now_ms;
    for (unsigned i = 0; i < service->raft.configuration.n; i++) {
        (void)peers_send(service->peers, service->raft.configuration.servers[i].id, &ping);
    }
    service->ping_ms = now_ms;
}

static void on_ping(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    bool is_my_leader = raft_state(&service->raft) == RAFT_FOLLOWER &&
                        frame->ping.term == raft_current_term(&service->raft) &&
                        leader_of_raft(service) == from_id;
    if (!is_my_leader) {
        return;
    }
    service->leader_heard_ms = clock_boottime_ms();
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
    const struct raft_configuration *configuration = &service->raft.configuration;
    for (unsigned i = 0; i < configuration->n && i < 2 * MEMBERS_MAX; i++) {
        const struct raft_server *server = &configuration->servers[i];
        struct announced *announced = &service->announced[i];
        raft_index match = 0;
        if (announced->id != server->id) {
            *announced = (struct announced){.id = server->id};
        }
        if (server->id == service->options.member_id || announced->index >= index ||
            raft_match_index(&service->raft, server->id, &match) != 0 || match < index) {
            continue;
        }
        announced->index = index;
        raft_guard_announce(&service->guard,
                            &(struct raft_guard_commit){.to_id = server->id,
                                                        .to_address = server->address,
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
    for (unsigned i = 0; i < service->raft.configuration.n; i++) {
        const struct raft_server *server = &service->raft.configuration.servers[i];
        if (server->id != service->options.member_id && server->role == RAFT_VOTER) {
            raft_guard_knock(&service->guard, server->id, server->address);
        }
    }
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
    case PEER_CHANGE:
        member_changes_of_peer(service, from_id, frame);
        return;
    case PEER_CHANGE_RESULT:
        member_changes_result(service, frame);
        return;
    case PEER_MEMBERS:
        return; /* only who asks is told, and not on a link */
    }
}

static void on_link_lost(void *data, uint64_t id) {
    struct service *service = data;
    proposals_link_lost(service, id);
    member_changes_link_lost(service, id);
    questions_ask_again(service);
}

static void on_raft_accepted(void *data, uint64_t id, const char *address, uv_stream_t *stream) {
    struct service *service = data;
    /* raft_uv breaks its connection when it is told of another address than before: it is always
     * told the one of the configuration. Where a member really is, we look up by its id. */
    const struct raft_server *server = members_server(service, id);
    peer_transport_accept(&service->transport, id, server != NULL ? server->address : address,
                          stream);
}

static const struct peers_callbacks peers_callbacks = {.raft_accepted = on_raft_accepted,
                                                       .admit = members_admit,
                                                       .asked = members_asked,
                                                       .turned_away = members_turned_away,
                                                       .frame = on_frame,
                                                       .link_lost = on_link_lost};

/* Pings must go out while nothing else wakes the loop. */
static void ping_timer_fired(uv_timer_t *timer) {
    (void)timer;
}

/* raft_uv looks at the time once a heartbeat, which an election would wait for. */
static void election_timer_fired(uv_timer_t *timer) {
    struct service *service = timer->data;
    unsigned short state = service->raft.state;
    service->election_due_ms = 0;
    /* A leader that looks at the time too soon takes its followers for silent. */
    if (!service->is_raft_closing && (state == RAFT_FOLLOWER || state == RAFT_CANDIDATE)) {
        raft_guard_tick(&service->guard);
    }
}

/* A time that is put off, as each message of the leader does, is looked at when the old one comes.
 */
static void election_arm(struct service *service) {
    unsigned short state = service->raft.state;
    if (service->closing || (state != RAFT_FOLLOWER && state != RAFT_CANDIDATE)) {
        return;
    }
    uint64_t now_ms = service->guard.io.time(&service->guard.io);
    uint64_t due_ms = raft_timeout(&service->raft);
    if (service->guard.held_votes != NULL) {
        /* They wait for the end of a promise, and no longer than that. */
        uint64_t promise_ms = clock_elapsed_ms(service->promise.until_ms, clock_boottime_ms());
        uint64_t held_ms = now_ms + promise_ms + HELD_VOTES_MS;
        due_ms = held_ms < due_ms ? held_ms : due_ms;
    }
    if (due_ms <= now_ms) {
        due_ms = now_ms + 1;
    }
    if (service->election_due_ms == 0 || due_ms < service->election_due_ms) {
        service->election_due_ms = due_ms;
        uv_timer_start(&service->election_timer, election_timer_fired, due_ms - now_ms, 0);
    }
}

enum status cluster_open(struct service *service, char *out_error, size_t error_size) {
    list_init(&service->waiting_reads);
    list_init(&service->peer_reads);
    list_init(&service->held_renewals);
    list_init(&service->changes);
    uv_timer_init(service->loop, &service->ping_timer);
    service->ping_timer.data = service;
    uv_timer_init(service->loop, &service->election_timer);
    service->election_timer.data = service;
    voter_promise_init(&service->promise, service->options.election_ms, clock_boottime_ms());
    return service->options.n_members > 1 || service->options.is_joining
               ? cluster_open_peers(service, out_error, error_size)
               : STATUS_OK;
}

static void nothing_left(void *data) {
    (void)data;
}

enum status cluster_open_peers(struct service *service, char *out_error, size_t error_size) {
    struct peers_options options = {.cluster_id = service->options.cluster_id,
                                    .self_id = service->options.member_id,
                                    .birth = service->options.birth,
                                    .listen_host = service->options.peer_listen_host,
                                    .listen_port = service->options.peer_listen_port,
                                    .address = service->options.peer_address,
                                    .tls = service->options.peer_tls};
    enum status status = peers_open(service->loop, &options, &peers_callbacks, service,
                                    &service->peers, out_error, error_size);
    if (status != STATUS_OK) {
        peers_close(service->peers, nothing_left, NULL);
        service->peers = NULL;
        /* STATUS_IO is kept for the disk, which no restart cures. */
        return status == STATUS_IO ? STATUS_CANNOT_LISTEN : status;
    }
    service->transport.peers = service->peers;
    expiry_has_company(service);
    /* A leader that was alone until now goes on being sure of itself. */
    service->was_authority = service->serving;
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
    if (leader_of_raft(service) != service->last_leader_id) {
        service->last_leader_id = leader_of_raft(service);
        service->leader_heard_ms = now_ms;
        questions_ask_again(service);
    }
    uint64_t leader_id = cluster_leader(service);
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
    election_arm(service);
    peers_flush(service->peers);
}
