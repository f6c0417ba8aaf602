/* Changes of the members that clients ask for. Whoever is asked hands the question to the leader,
 * which looks whether the cluster can bear it and writes it into the log; the answer is given when
 * this node has applied it and its raft follows (reconfigure.c). */
#include "base/clock.h"
#include "base/log.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    /* etcd's own clients wait for five seconds. */
    CHANGE_TIMEOUT_MS = 4500
};

enum change_stage {
    CHANGE_WAITS,   /* for a leader */
    CHANGE_ASKED,   /* the leader has been asked */
    CHANGE_TAKEN,   /* the leader has said that it proposed it */
    CHANGE_IN_LOG,  /* we lead: proposed */
    CHANGE_SETTLING /* decided: until raft follows */
};

/* A change that another node asked for. */
struct peer_change {
    struct service_request request;
    struct service *service;
    uint64_t from_id;
    uint64_t request_id;
    uint64_t id;
};

static const struct member_table *table_of(const struct service *service) {
    return state_machine_members(service->machine);
}

/* --- The leader's part. --- */

static uint64_t new_id(const struct service *service) {
    uint64_t id = 0;
    while (id == 0 || member_table_find(table_of(service), id) != NULL ||
           member_table_is_removed(table_of(service), id)) {
        ssize_t n = getrandom(&id, sizeof id, 0);
        assert(n == (ssize_t)sizeof id);
    }
    return id;
}

static enum status check_add(struct service *service, const struct member_facts *facts) {
    if (facts->n_peer_urls == 0) {
        return STATUS_INVALID;
    }
    if (member_table_count(table_of(service)) == MEMBERS_MAX) {
        return STATUS_TOO_MANY_MEMBERS;
    }
    if (cluster_is_alone(service)) {
        /* Nobody could join if we did not listen. */
        char error[256] = "";
        if (cluster_open_peers(service, error, sizeof error) != STATUS_OK) {
            log_error("no member can be added", LOG_TEXT("reason", error));
            return STATUS_IO;
        }
    }
    return STATUS_OK;
}

static enum status check_remove(const struct service *service, const struct member *member,
                                uint64_t now_ms) {
    if (member->facts.role == MEMBER_VOTER && member_table_voters(table_of(service)) == 1) {
        return STATUS_MEMBERS_NOT_ENOUGH;
    }
    const struct raft_config_server *server = members_server(service, member->facts.id);
    bool votes = server != NULL && server->role == CONFIG_VOTER;
    if (votes && !reconfigure_can_lose(service, member->facts.id, now_ms)) {
        return STATUS_UNHEALTHY;
    }
    return STATUS_OK;
}

static enum status check_promote(const struct service *service, const struct member *member,
                                 uint64_t now_ms) {
    if (member->facts.role != MEMBER_LEARNER) {
        return STATUS_MEMBER_NOT_LEARNER;
    }
    const struct raft_config_server *server = members_server(service, member->facts.id);
    bool is_ready = server != NULL && server->role == CONFIG_STANDBY &&
                    !cluster_is_alone(service) &&
                    reconfigure_can_promote(service, member->facts.id, now_ms);
    return is_ready ? STATUS_OK : STATUS_MEMBER_NOT_READY;
}

/* Whether the cluster can bear it now. What the table itself refuses is found out when it is
 * applied. */
static enum status check(struct service *service, enum member_action action,
                         const struct member_facts *facts, uint64_t now_ms) {
    if (action == MEMBER_ADD) {
        return check_add(service, facts);
    }
    const struct member *member = member_table_find(table_of(service), facts->id);
    if (member == NULL) {
        return STATUS_MEMBER_NOT_FOUND;
    }
    switch (action) {
    case MEMBER_REMOVE:
        return check_remove(service, member, now_ms);
    case MEMBER_PROMOTE:
        return check_promote(service, member, now_ms);
    default:
        return STATUS_OK;
    }
}

/* Checks and proposes; gives the id that the member has or will have. */
static enum status propose(struct service *service, struct service_request *request,
                           enum member_action action, const struct member_facts *asked,
                           uint64_t now_ms, uint64_t *out_id) {
    struct member_facts facts = *asked;
    enum status status = check(service, action, &facts, now_ms);
    if (status != STATUS_OK) {
        return status;
    }
    if (action == MEMBER_ADD) {
        facts.id = new_id(service);
        facts.is_started = false;
        facts.name = bytes_of("", 0);
        facts.n_client_urls = 0;
    }
    struct command command = {.type = COMMAND_MEMBER,
                              .member = {.action = action, .facts = &facts}};
    if (command_check(&command) != STATUS_OK) {
        return STATUS_INVALID;
    }
    list_init(&request->link);
    *out_id = facts.id;
    service_submit(service, request, &command);
    return STATUS_PENDING;
}

static void send_result(struct service *service, const struct peer_change *change,
                        enum status status) {
    struct peer_frame frame = {.type = PEER_CHANGE_RESULT};
    frame.change_result.request_id = change->request_id;
    frame.change_result.status = status;
    frame.change_result.id = change->id;
    /* The entry that is being applied counts as applied. */
    frame.change_result.index = raft_engine_applied_index(service->engine);
    (void)cluster_send(service, change->from_id, &frame);
}

static void peer_change_done(struct service_request *request, const struct outcome *outcome) {
    struct peer_change *change = list_entry(request, struct peer_change, request);
    send_result(change->service, change, outcome->status);
    free(change);
}

void member_changes_of_peer(struct service *service, uint64_t from_id,
                            const struct peer_frame *frame) {
    /* An answer would be lost. It will ask again. */
    if (!peers_is_linked(service->peers, from_id)) {
        return;
    }
    struct peer_change *change = calloc(1, sizeof *change);
    if (change == NULL) {
        abort();
    }
    *change = (struct peer_change){.request.done = peer_change_done,
                                   .service = service,
                                   .from_id = from_id,
                                   .request_id = frame->change.request_id};
    uint64_t now_ms = clock_boottime_ms();
    enum status status = STATUS_NO_LEADER;
    if (cluster_is_authority(service, now_ms) && !service->transfer.is_under_way) {
        status = propose(service, &change->request, frame->change.action, frame->change.facts,
                         now_ms, &change->id);
    }
    send_result(service, change, status);
    if (status != STATUS_PENDING) {
        free(change);
    }
}

/* --- The part of whoever was asked. --- */

static void finish(struct service_change *change, enum status status) {
    list_remove(&change->link);
    buffer_clear(&change->facts);
    change->done(change, status);
}

static void settle(struct service_change *change, uint64_t index) {
    change->stage = CHANGE_SETTLING;
    change->index = index;
    change->service->members.checked_ms = 0; /* look at once */
}

static void proposed_done(struct service_request *request, const struct outcome *outcome) {
    struct service_change *change = list_entry(request, struct service_change, request);
    if (outcome->status != STATUS_OK) {
        finish(change, outcome->status);
        return;
    }
    settle(change, 0);
}

void member_changes_result(struct service *service, uint64_t from_id,
                           const struct peer_frame *frame) {
    for (struct list *node = service->changes.next; node != &service->changes; node = node->next) {
        struct service_change *change = list_entry(node, struct service_change, link);
        bool is_open = change->stage == CHANGE_ASKED || change->stage == CHANGE_TAKEN;
        if (!is_open || change->asked_id != from_id ||
            change->request_id != frame->change_result.request_id) {
            continue;
        }
        if (frame->change_result.id != 0) {
            change->id = frame->change_result.id;
        }
        if (frame->change_result.status == STATUS_PENDING) {
            change->stage = CHANGE_TAKEN;
        } else if (frame->change_result.status == STATUS_OK) {
            settle(change, frame->change_result.index);
        } else if (frame->change_result.status == STATUS_NO_LEADER) {
            change->stage = CHANGE_WAITS; /* nothing was proposed */
        } else {
            finish(change, frame->change_result.status);
        }
        return;
    }
}

/* Raft's configuration is what the change asked for. */
static bool is_settled(const struct service *service, const struct service_change *change) {
    if (raft_engine_applied_index(service->engine) < change->index) {
        return false;
    }
    const struct raft_config_server *server = members_server(service, change->id);
    bool is_committed = !raft_engine_has_uncommitted_change(service->engine);
    switch (change->action) {
    case MEMBER_ADD:
        return is_committed && server != NULL && server->role != CONFIG_SPARE;
    case MEMBER_PROMOTE:
        return is_committed && server != NULL && server->role == CONFIG_VOTER;
    case MEMBER_REMOVE:
        /* Who is removed itself is not told of it by raft. */
        if (change->id == service->options.member_id) {
            return raft_engine_role(service->engine) != ENGINE_LEADER;
        }
        return is_committed && server == NULL;
    case MEMBER_UPDATE:
    case MEMBER_PUBLISH:
        break;
    }
    return true;
}

static void ask(struct service *service, struct service_change *change, uint64_t leader_id,
                uint64_t now_ms) {
    struct member_facts facts;
    struct reader reader;
    reader_init(&reader, bytes_of(change->facts.data, change->facts.size));
    member_facts_decode(&reader, &facts);
    assert(!reader.failed);
    if (cluster_is_authority(service, now_ms) && !service->transfer.is_under_way) {
        change->request.done = proposed_done;
        change->stage = CHANGE_IN_LOG;
        enum status status =
            propose(service, &change->request, change->action, &facts, now_ms, &change->id);
        if (status != STATUS_PENDING) {
            finish(change, status);
        }
        return;
    }
    if (cluster_is_alone(service) || leader_id == 0 || leader_id == service->options.member_id) {
        return;
    }
    struct peer_frame frame = {.type = PEER_CHANGE};
    frame.change.request_id = ++service->forwarding.request_id;
    frame.change.action = change->action;
    frame.change.facts = &facts;
    if (cluster_send(service, leader_id, &frame)) {
        change->stage = CHANGE_ASKED;
        change->request_id = frame.change.request_id;
        change->sent_ms = now_ms;
        change->asked_id = leader_id;
    }
}

void member_changes_poll(struct service *service, uint64_t now_ms) {
    if (service->closing || service->failed) {
        return;
    }
    uint64_t leader_id = list_is_empty(&service->changes) ? 0 : cluster_leader(service);
    for (struct list *node = service->changes.next, *next; node != &service->changes; node = next) {
        struct service_change *change = list_entry(node, struct service_change, link);
        next = node->next;
        if (change->stage == CHANGE_SETTLING && is_settled(service, change)) {
            finish(change, STATUS_OK);
        } else if (change->stage != CHANGE_IN_LOG &&
                   clock_elapsed_ms(now_ms, change->since_ms) > CHANGE_TIMEOUT_MS) {
            finish(change, leader_id == 0 ? STATUS_NO_LEADER : STATUS_TIMED_OUT);
        } else if (change->stage == CHANGE_WAITS ||
                   (change->stage == CHANGE_ASKED &&
                    clock_elapsed_ms(now_ms, change->sent_ms) > service->options.election_ms)) {
            ask(service, change, leader_id, now_ms);
        }
    }
}

void member_changes_link_lost(struct service *service, uint64_t id) {
    for (struct list *node = service->changes.next, *next; node != &service->changes; node = next) {
        struct service_change *change = list_entry(node, struct service_change, link);
        next = node->next;
        bool is_open = change->stage == CHANGE_ASKED || change->stage == CHANGE_TAKEN;
        if (is_open && change->asked_id == id) {
            /* It may or may not have been proposed. */
            finish(change, STATUS_LEADER_CHANGED);
        }
    }
}

void member_changes_fail(struct service *service, enum status status) {
    for (struct list *node = service->changes.next, *next; node != &service->changes; node = next) {
        struct service_change *change = list_entry(node, struct service_change, link);
        next = node->next;
        if (change->stage != CHANGE_IN_LOG) {
            finish(change, status);
        }
    }
}

void service_change_members(struct service *service, struct service_change *change,
                            enum member_action action, const struct member_facts *facts) {
    struct member_facts asked = *facts;
    if (action == MEMBER_ADD) {
        asked.id = 1; /* any: the leader chooses */
    }
    change->service = service;
    change->id = facts->id;
    change->action = action;
    change->stage = CHANGE_WAITS;
    change->since_ms = clock_boottime_ms();
    change->index = 0;
    buffer_init(&change->facts);
    member_facts_encode(&change->facts, &asked);
    list_append(&service->changes, &change->link);
}
