/* Changes of the members that clients ask for. Whoever is asked hands the question to the leader,
 * which looks whether the cluster can bear it and writes it into the log; the answer is given when
 * this node has applied it and its raft follows (reconfigure.c). */
#include "base/clock.h"
#include "base/log.h"
#include "core/auth.h"
#include "core/member_id.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* etcd's own clients wait for five seconds. */
    CHANGE_TIMEOUT_MS = 4500,
    /* Of other nodes, on their way: far more than operators ask for at once. */
    PEER_CHANGES_MAX = 64
};

enum change_stage {
    CHANGE_WAITS,   /* for a leader */
    CHANGE_ASKED,   /* the leader has been asked */
    CHANGE_TAKEN,   /* the leader has said that it proposed it */
    CHANGE_IN_LOG,  /* we lead: proposed */
    CHANGE_SETTLING /* decided: until raft follows */
};

/* A change that a client of this node asked for. */
struct own_change {
    struct list link; /* of service->changes */
    struct service_change *change;
    struct caller caller;
    struct service_request request;
    struct service *service;
    enum member_action action;
    struct buffer facts; /* encoded */
    enum change_stage stage;
    uint64_t since_ms;
    uint64_t sent_ms;
    uint64_t request_id;
    uint64_t asked_id; /* the leader that was asked */
    uint64_t index;    /* what must be applied first */
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

/* As etcd makes it, of the URLs and the time of day. An id that is or was in use is passed over. */
static uint64_t new_id(const struct service *service, const struct member_facts *facts) {
    uint64_t id;
    uint64_t seconds = (uint64_t)(clock_wall_ms() / 1000);
    do {
        char suffix[24];
        snprintf(suffix, sizeof suffix, "%" PRIu64, seconds++);
        id = member_id_derive(facts->peer_urls, facts->n_peer_urls, bytes_from_text(suffix));
    } while (member_table_find(table_of(service), id) != NULL ||
             member_table_is_removed(table_of(service), id));
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
static enum status propose(struct service *service, const struct caller *caller,
                           struct service_request *request, enum member_action action,
                           const struct member_facts *asked, uint64_t now_ms, uint64_t *out_id) {
    struct member_facts facts = *asked;
    enum status status = service_check_admin(service, caller, "change of the members");
    if (status == STATUS_OK) {
        status = check(service, action, &facts, now_ms);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (action == MEMBER_ADD) {
        facts.id = new_id(service, &facts);
        facts.is_started = false;
        facts.name = bytes_of("", 0);
        facts.n_client_urls = 0;
    }
    struct command command = {.type = COMMAND_MEMBER,
                              .member = {.action = action, .facts = &facts}};
    if (command_check(&command) != STATUS_OK) {
        return STATUS_INVALID;
    }
    *out_id = facts.id;
    service_submit(service, caller, request, &command);
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
    change->service->n_peer_changes--;
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
        status = service->n_peer_changes >= PEER_CHANGES_MAX
                     ? STATUS_TOO_MANY_REQUESTS
                     : propose(service, &frame->change.caller, &change->request,
                               frame->change.action, frame->change.facts, now_ms, &change->id);
    }
    send_result(service, change, status);
    if (status == STATUS_PENDING) {
        service->n_peer_changes++;
    } else {
        free(change);
    }
}

/* --- The part of whoever was asked. --- */

static void finish(struct own_change *own, enum status status) {
    struct service_change *change = own->change;
    list_remove(&own->link);
    buffer_clear(&own->facts);
    free(own);
    change->done(change, status);
}

static void settle(struct own_change *own, uint64_t index) {
    own->stage = CHANGE_SETTLING;
    own->index = index;
    own->service->members.checked_ms = 0; /* look at once */
}

static void proposed_done(struct service_request *request, const struct outcome *outcome) {
    struct own_change *own = list_entry(request, struct own_change, request);
    if (outcome->status != STATUS_OK) {
        finish(own, outcome->status);
        return;
    }
    settle(own, 0);
}

void member_changes_result(struct service *service, uint64_t from_id,
                           const struct peer_frame *frame) {
    for (struct list *node = service->changes.next; node != &service->changes; node = node->next) {
        struct own_change *own = list_entry(node, struct own_change, link);
        bool is_open = own->stage == CHANGE_ASKED || own->stage == CHANGE_TAKEN;
        if (!is_open || own->asked_id != from_id ||
            own->request_id != frame->change_result.request_id) {
            continue;
        }
        if (frame->change_result.id != 0) {
            own->change->id = frame->change_result.id;
        }
        if (frame->change_result.status == STATUS_PENDING) {
            own->stage = CHANGE_TAKEN;
        } else if (frame->change_result.status == STATUS_OK) {
            settle(own, frame->change_result.index);
        } else if (frame->change_result.status == STATUS_NO_LEADER) {
            own->stage = CHANGE_WAITS; /* nothing was proposed */
        } else {
            finish(own, frame->change_result.status);
        }
        return;
    }
}

/* Raft's configuration is what the change asked for. */
static bool is_settled(const struct service *service, const struct own_change *own) {
    if (raft_engine_applied_index(service->engine) < own->index) {
        return false;
    }
    const struct raft_config_server *server = members_server(service, own->change->id);
    bool is_committed = !raft_engine_has_uncommitted_change(service->engine);
    switch (own->action) {
    case MEMBER_ADD:
        return is_committed && server != NULL && server->role != CONFIG_SPARE;
    case MEMBER_PROMOTE:
        return is_committed && server != NULL && server->role == CONFIG_VOTER;
    case MEMBER_REMOVE:
        /* Who is removed itself is not told of it by raft. */
        if (own->change->id == service->options.member_id) {
            return raft_engine_role(service->engine) != ENGINE_LEADER;
        }
        return is_committed && server == NULL;
    case MEMBER_UPDATE:
    case MEMBER_PUBLISH:
        break;
    }
    return true;
}

static void ask(struct service *service, struct own_change *own, uint64_t leader_id,
                uint64_t now_ms) {
    struct member_facts facts;
    struct reader reader;
    reader_init(&reader, bytes_of(own->facts.data, own->facts.size));
    member_facts_decode(&reader, &facts);
    assert(!reader.failed);
    if (cluster_is_authority(service, now_ms) && !service->transfer.is_under_way) {
        own->request.done = proposed_done;
        own->stage = CHANGE_IN_LOG;
        enum status status = propose(service, &own->caller, &own->request, own->action, &facts,
                                     now_ms, &own->change->id);
        if (status != STATUS_PENDING) {
            finish(own, status);
        }
        return;
    }
    if (cluster_is_alone(service) || leader_id == 0 || leader_id == service->options.member_id) {
        return;
    }
    bool has_caller = auth_is_enabled(state_machine_auth(service->machine));
    struct peer_frame frame = {.type = has_caller ? PEER_CHANGE_AS : PEER_CHANGE};
    frame.change.caller = own->caller;
    frame.change.request_id = ++service->forwarding.request_id;
    frame.change.action = own->action;
    frame.change.facts = &facts;
    if (cluster_send(service, leader_id, &frame)) {
        own->stage = CHANGE_ASKED;
        own->request_id = frame.change.request_id;
        own->sent_ms = now_ms;
        own->asked_id = leader_id;
    }
}

void member_changes_poll(struct service *service, uint64_t now_ms) {
    if (service->closing || service->failed) {
        return;
    }
    uint64_t leader_id = list_is_empty(&service->changes) ? 0 : cluster_leader(service);
    for (struct list *node = service->changes.next, *next; node != &service->changes; node = next) {
        struct own_change *own = list_entry(node, struct own_change, link);
        next = node->next;
        if (own->stage == CHANGE_SETTLING && is_settled(service, own)) {
            finish(own, STATUS_OK);
        } else if (own->stage != CHANGE_IN_LOG &&
                   clock_elapsed_ms(now_ms, own->since_ms) > CHANGE_TIMEOUT_MS) {
            finish(own, leader_id == 0 ? STATUS_NO_LEADER : STATUS_TIMED_OUT);
        } else if (own->stage == CHANGE_WAITS ||
                   (own->stage == CHANGE_ASKED &&
                    clock_elapsed_ms(now_ms, own->sent_ms) > service->options.election_ms)) {
            ask(service, own, leader_id, now_ms);
        }
    }
}

void member_changes_link_lost(struct service *service, uint64_t id) {
    for (struct list *node = service->changes.next, *next; node != &service->changes; node = next) {
        struct own_change *own = list_entry(node, struct own_change, link);
        next = node->next;
        bool is_open = own->stage == CHANGE_ASKED || own->stage == CHANGE_TAKEN;
        if (is_open && own->asked_id == id) {
            /* It may or may not have been proposed. */
            finish(own, STATUS_LEADER_CHANGED);
        }
    }
}

void member_changes_fail(struct service *service, enum status status) {
    for (struct list *node = service->changes.next, *next; node != &service->changes; node = next) {
        struct own_change *own = list_entry(node, struct own_change, link);
        next = node->next;
        if (own->stage != CHANGE_IN_LOG) {
            finish(own, status);
        }
    }
}

void service_change_members(struct service *service, const struct caller *caller,
                            struct service_change *change, enum member_action action,
                            const struct member_facts *facts) {
    struct member_facts asked = *facts;
    if (action == MEMBER_ADD) {
        asked.id = 1; /* any: the leader chooses */
    }
    struct own_change *own = calloc(1, sizeof *own);
    if (own == NULL) {
        abort();
    }
    change->id = facts->id;
    own->change = change;
    own->caller = *caller;
    own->service = service;
    own->action = action;
    own->stage = CHANGE_WAITS;
    own->since_ms = clock_boottime_ms();
    buffer_init(&own->facts);
    member_facts_encode(&own->facts, &asked);
    list_append(&service->changes, &own->link);
}
