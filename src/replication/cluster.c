/* Several nodes as one: pings for the leader's lease, commits announced, members made known, and
 * who gets which frame of a peer. What is asked of the leader is in forwarding.c, renewals.c and
 * proposals.c.
 */
#include "base/clock.h"
#include "base/log.h"
#include "replication/monitor.h"
#include "replication/service_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A learner takes its leader for gone after so many election timeouts. */
enum { LEADER_SILENT_ELECTIONS = 3 };

bool cluster_is_alone(const struct service *service) {
    return service->peers == NULL;
}

bool cluster_is_authority(const struct service *service, uint64_t now_ms) {
    return service->leadership.serving &&
           (cluster_is_alone(service) || leader_lease_is_valid(&service->leader_lease, now_ms));
}

/* Who does not vote does not stand for election when its leader goes silent, and raft goes on
 * naming that one: it is believed for as long as it can be heard. */
uint64_t cluster_leader(struct service *service) {
    uint64_t id = raft_engine_leader_id(service->engine);
    if (id == 0 || id == service->options.member_id || !members_is_learner(service)) {
        return id;
    }
    uint64_t silent_ms = clock_elapsed_ms(clock_boottime_ms(), service->cluster.leader_heard_ms);
    return silent_ms > LEADER_SILENT_ELECTIONS * (uint64_t)service->options.election_ms ? 0 : id;
}

/* --- The leader's lease. --- */

void cluster_lead(struct service *service, uint64_t term) {
    memset(service->cluster.announced, 0, sizeof service->cluster.announced);
    leader_lease_begin(&service->leader_lease, term, service->options.election_ms,
                       clock_boottime_ms(), true, NULL, 0);
    members_count_voters(service);
    service->cluster.ping_ms = 0;
}

static void send_pings(struct service *service, uint64_t now_ms) {
    struct peer_frame ping = {.type = PEER_PING};
    ping.ping.term = service->leader_lease.term;
    ping.ping.sent_ms = now_ms;
    ping.ping.lease_ms = service->leader_lease.election_ms;
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    monitor_pinged(service, now_ms);
    for (size_t i = 0; i < configuration->n; i++) {
        uint64_t id = configuration->servers[i].id;
        if (id != service->options.member_id && !cluster_send(service, id, &ping)) {
            service->monitor.ping_failures++;
        }
    }
    service->cluster.ping_ms = now_ms;
}

static void on_ping(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    bool is_my_leader = raft_engine_role(service->engine) == ENGINE_FOLLOWER &&
                        frame->ping.term == raft_engine_term(service->engine) &&
                        raft_engine_leader_id(service->engine) == from_id;
    if (!is_my_leader) {
        return;
    }
    uint64_t now_ms = clock_boottime_ms();
    service->cluster.leader_heard_ms = now_ms;
    /* A majority elected it, and it steps down when it loses that. */
    expiry_leader_seen(service, now_ms);
    /* A promise that is too long is refused; the leader then has no lease, and asks a majority each
     * time. So is one to a leader that is not known as a member: this node is behind, or it is
     * none, and the promise would keep the members from electing one. */
    if (frame->ping.lease_ms > PROMISE_MS_MAX || members_server(service, from_id) == NULL) {
        return;
    }
    int error = promise_file_note(&service->promise_file, frame->ping.lease_ms, now_ms);
    if (error != 0) {
        char reason[256];
        snprintf(reason, sizeof reason, "writing the length of a promise failed: %s",
                 strerror(error));
        service_fail(service, error == ENOSPC ? STATUS_NO_SPACE : STATUS_IO, reason);
        return;
    }
    struct leader_word word = {from_id, frame->ping.term, frame->ping.sent_ms};
    /* Counted from now: writing may have taken a while. */
    voter_promise_make(&service->promise, &word, frame->ping.lease_ms, clock_boottime_ms());
    struct peer_frame pong = {.type = PEER_PONG, .pong = frame->ping};
    pong.pong.lease_ms = versions_pong(service, frame->ping.lease_ms);
    (void)cluster_send(service, from_id, &pong);
}

/* A request's own mark that the leader told its sender to take over proves nothing: it may be late.
 * Only the leader's word frees a voter. */
bool cluster_may_vote(void *data, uint64_t candidate_id) {
    struct service *service = data;
    members_note_candidate(service, candidate_id);
    return cluster_is_alone(service) ||
           voter_promise_allows(&service->promise, candidate_id, clock_boottime_ms());
}

bool cluster_is_leaderless(void *data) {
    struct service *service = data;
    uint64_t heard_ms = raft_engine_heard_ms(service->engine);
    uint64_t silent_ms = clock_elapsed_ms(clock_boottime_ms(), heard_ms);
    return !cluster_is_alone(service) && raft_engine_role(service->engine) != ENGINE_LEADER &&
           silent_ms > service->options.election_ms;
}

static void on_release(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    struct leader_word word = {from_id, frame->release.term, frame->release.sent_ms};
    voter_promise_release(&service->promise, &word);
}

static void on_pong(struct service *service, uint64_t from_id, const struct peer_frame *frame) {
    /* An answer to what was never sent is none. */
    if (frame->pong.sent_ms <= clock_boottime_ms()) {
        leader_lease_answered(&service->leader_lease, from_id, frame->pong.term,
                              frame->pong.sent_ms);
        versions_heard(service, from_id, frame->pong.lease_ms);
    }
}

/* Followers answer their clients when they have applied: they are told of a commit at once, unless
 * entries that follow will tell them anyway. */
static void announce_commit(struct service *service) {
    uint64_t index = raft_engine_commit_index(service->engine);
    if (!service->leadership.serving || raft_engine_last_index(service->engine) > index) {
        return;
    }
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    for (size_t i = 0; i < configuration->n && i < 2 * MEMBERS_MAX; i++) {
        uint64_t id = configuration->servers[i].id;
        struct announced *announced = &service->cluster.announced[i];
        if (announced->id != id) {
            *announced = (struct announced){.id = id};
        }
        if (id == service->options.member_id || announced->index >= index ||
            raft_engine_match_index(service->engine, id) < index) {
            continue;
        }
        announced->index = index;
        raft_engine_announce_commit(service->engine, id);
    }
}

/* --- Everything else. --- */

bool cluster_send(struct service *service, uint64_t to_id, const struct peer_frame *frame) {
    if (service->peers == NULL) {
        return false;
    }
    /* A member that does not hear of a refusal goes on as if there were none (proposals.c). */
    bool is_urgent = frame->type == PEER_PING || frame->type == PEER_PONG ||
                     frame->type == PEER_RELEASE || frame->type == PEER_PROPOSE_REFUSED;
    struct buffer *buffer =
        peers_frame_begin(service->peers, to_id, (uint8_t)frame->type, is_urgent);
    if (buffer == NULL) {
        return false;
    }
    peer_frame_encode(buffer, frame);
    peers_frame_end(service->peers, to_id);
    return true;
}

size_t cluster_room(void *data, uint64_t to_id) {
    struct service *service = data;
    return service->peers == NULL ? 0 : peers_room(service->peers, to_id);
}

struct buffer *cluster_frame_begin(void *data, uint64_t to_id, bool is_urgent) {
    struct service *service = data;
    return service->peers == NULL ? NULL
                                  : peers_frame_begin(service->peers, to_id, PEER_RAFT, is_urgent);
}

void cluster_frame_end(void *data, uint64_t to_id) {
    struct service *service = data;
    peers_frame_end(service->peers, to_id);
}

static void handle_frame(struct service *service, uint64_t from_id,
                         const struct peer_frame *frame) {
    switch (frame->type) {
    case PEER_PING:
        on_ping(service, from_id, frame);
        return;
    case PEER_PONG:
        on_pong(service, from_id, frame);
        monitor_answered(service, from_id, frame->pong.sent_ms);
        return;
    case PEER_RELEASE:
        on_release(service, from_id, frame);
        return;
    case PEER_PROPOSE:
        peer_proposals_take(service, from_id, frame);
        return;
    case PEER_PROPOSE_REFUSED:
        proposals_refused_by_peer(service, from_id, frame->propose_refused.sequence,
                                  frame->propose_refused.status);
        return;
    case PEER_READ:
        forwarding_on_read(service, from_id, frame);
        return;
    case PEER_READ_RESULT:
        forwarding_on_read_result(service, from_id, frame);
        return;
    case PEER_RENEW:
    case PEER_RENEW_AS:
        renewals_on_renew(service, from_id, frame);
        return;
    case PEER_RENEW_RESULT:
        renewals_on_result(service, from_id, frame);
        return;
    case PEER_CHANGE:
    case PEER_CHANGE_AS:
        member_changes_of_peer(service, from_id, frame);
        return;
    case PEER_CHANGE_RESULT:
        member_changes_result(service, from_id, frame);
        return;
    case PEER_MEMBERS: /* only who asks is told, and not on a link */
    case PEER_RAFT:
        return;
    }
}

static bool on_frame(void *data, uint64_t from_id, uint8_t type, struct bytes body) {
    struct service *service = data;
    if (service->is_node_closing || service->failed) {
        return true;
    }
    /* A leader that stops hands over once its successor has acknowledged all of the log. */
    if (type == PEER_RAFT) {
        return raft_node_receive(service->node, from_id, body);
    }
    struct peer_frame frame;
    struct arena arena; /* what the frame leads to uses the service's */
    arena_init(&arena);
    bool is_good = peer_frame_decode(type, body, &arena, &frame) == STATUS_OK;
    /* Whoever forwards to a leader that stops is refused, and asks its successor. */
    if (is_good && (!service->closing || frame.type == PEER_PROPOSE)) {
        handle_frame(service, from_id, &frame);
    }
    arena_clear(&arena);
    return is_good;
}

static void on_link_lost(void *data, uint64_t id) {
    struct service *service = data;
    raft_node_link_lost(service->node, id);
    versions_forget(service, id);
    proposals_link_lost(service, id);
    member_changes_link_lost(service, id);
    forwarding_ask_again(service);
}

static const struct peers_callbacks peers_callbacks = {.admit = members_admit,
                                                       .asked = members_asked,
                                                       .turned_away = members_turned_away,
                                                       .frame = on_frame,
                                                       .link_lost = on_link_lost};

/* Pings must go out while nothing else wakes the loop. */
static void ping_timer_fired(uv_timer_t *timer) {
    (void)timer;
}

static void raft_timer_fired(uv_timer_t *timer) {
    struct service *service = timer->data;
    service->cluster.raft_timer_ms = UINT64_MAX; /* the work is done before polling */
}

/* A time that is put off, as each message of the leader does, is looked at when the old one comes.
 */
static void arm_raft_timer(struct service *service, uint64_t now_ms) {
    uint64_t due_ms = raft_node_deadline_ms(service->node, now_ms);
    if (due_ms <= now_ms) {
        due_ms = now_ms + 1;
    }
    if (due_ms < service->cluster.raft_timer_ms) {
        service->cluster.raft_timer_ms = due_ms;
        uv_update_time(service->loop);
        uv_timer_start(&service->cluster.raft_timer, raft_timer_fired, due_ms - now_ms, 0);
    }
}

enum status cluster_open(struct service *service, char *out_error, size_t error_size) {
    list_init(&service->forwarding.waiting_reads);
    list_init(&service->forwarding.peer_reads);
    renewals_init(service);
    list_init(&service->changes);
    /* An answer to an earlier process on this node, which may come over a new link, must not be
     * taken for one to this process: the numbers of their questions do not meet. */
    service->forwarding.request_id = service->proposals.incarnation >> 16;
    uv_timer_init(service->loop, &service->cluster.ping_timer);
    service->cluster.ping_timer.data = service;
    uv_timer_init(service->loop, &service->cluster.raft_timer);
    service->cluster.raft_timer.data = service;
    service->cluster.raft_timer_ms = UINT64_MAX;
    uint64_t now_ms = clock_boottime_ms();
    enum status status =
        promise_file_open(&service->promise_file, &service->files, service->options.election_ms,
                          now_ms, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    uint32_t longest_ms = service->promise_file.longest_ms;
    voter_promise_init(&service->promise,
                       longest_ms > service->options.election_ms ? longest_ms
                                                                 : service->options.election_ms,
                       now_ms);
    return STATUS_OK;
}

bool cluster_has_company(const struct service *service) {
    return service->options.n_members > 1 || service->options.is_joining;
}

static enum status open_peers(struct service *service, struct peers **out_peers, char *out_error,
                              size_t error_size) {
    struct peers_options options = {.cluster_id = service->options.cluster_id,
                                    .self_id = service->options.member_id,
                                    .data_dir_id = service->options.data_dir_id,
                                    .heartbeat_ms = service->options.heartbeat_ms,
                                    .election_ms = service->options.election_ms,
                                    .listen_host = service->options.peer_listen_host,
                                    .listen_port = service->options.peer_listen_port,
                                    .more_places = service->options.peer_more_places,
                                    .n_more_places = service->options.peer_n_more_places,
                                    .address = service->options.peer_address,
                                    .tls = service->options.peer_tls,
                                    .secret = service->options.peer_secret};
    enum status status = peers_open(service->loop, &options, &peers_callbacks, service, out_peers,
                                    out_error, error_size);
    if (status != STATUS_OK) {
        *out_peers = NULL;
        /* STATUS_IO is kept for the disk, which no restart cures. */
        return status == STATUS_IO ? STATUS_CANNOT_LISTEN : status;
    }
    return STATUS_OK;
}

void cluster_listen_alone(struct service *service) {
    char error[256] = "";
    if (service->options.listens_alone &&
        open_peers(service, &service->cluster.lone_peers, error, sizeof error) != STATUS_OK) {
        log_warning("no member can be added while the peer port cannot be opened",
                    LOG_TEXT("reason", error));
    }
}

enum status cluster_open_peers(struct service *service, char *out_error, size_t error_size) {
    enum status status = STATUS_OK;
    if (service->cluster.lone_peers != NULL) {
        service->peers = service->cluster.lone_peers;
        service->cluster.lone_peers = NULL;
    } else {
        status = open_peers(service, &service->peers, out_error, error_size);
    }
    if (status != STATUS_OK) {
        return status;
    }
    expiry_has_company(service);
    /* A leader that was alone until now goes on being sure of itself. */
    service->cluster.was_authority = service->leadership.serving;
    uv_timer_start(&service->cluster.ping_timer, ping_timer_fired, service->options.heartbeat_ms,
                   service->options.heartbeat_ms);
    return STATUS_OK;
}

void cluster_poll(struct service *service) {
    uint64_t now_ms = clock_boottime_ms();
    transfer_poll(service, now_ms);
    if (raft_engine_leader_id(service->engine) != service->cluster.last_leader_id) {
        service->cluster.last_leader_id = raft_engine_leader_id(service->engine);
        service->cluster.leader_heard_ms = now_ms;
        monitor_leader_changed(service, service->cluster.last_leader_id);
        forwarding_ask_again(service);
    }
    uint64_t leader_id = cluster_leader(service);
    service->cluster.was_authority = cluster_is_authority(service, now_ms);
    if (service->cluster.was_authority && !cluster_is_alone(service)) {
        expiry_leader_seen(service, now_ms);
    }
    forwarding_poll(service, leader_id, now_ms);
    if (!cluster_is_alone(service)) {
        proposals_poll(service, leader_id, now_ms);
        announce_commit(service);
        if (service->leader_lease.term != 0 &&
            clock_elapsed_ms(now_ms, service->cluster.ping_ms) >= service->options.heartbeat_ms) {
            send_pings(service, now_ms);
        }
    }
    versions_poll(service, now_ms);
    raft_node_poll(service->node, now_ms);
    arm_raft_timer(service, now_ms);
    if (!cluster_is_alone(service)) {
        peers_flush(service->peers);
    }
}
