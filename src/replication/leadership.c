/* When this node may serve: it leads, and an entry of its own term has been applied (safety
 * rule 5). Alone, it leads as soon as it has started; in company it must also hold the leader's
 * lease (cluster.c). What it was is over in the very step in which raft says so. */
#include "base/clock.h"
#include "base/log.h"
#include "replication/service_internal.h"

#include <stdlib.h>

/* The first entry of a term. An object of its own for each term: leadership may be lost and won
 * again while the entry of an earlier term still waits. */
struct barrier {
    struct service_request request;
    struct service *service;
    uint64_t term;
};

static void barrier_done(struct service_request *request, const struct outcome *outcome) {
    struct barrier *barrier = list_entry(request, struct barrier, request);
    struct service *service = barrier->service;
    bool is_current = service->leadership.term == barrier->term;
    free(barrier);
    if (!is_current) {
        return; /* led in another term since, or not at all */
    }
    if (outcome->status != STATUS_OK) {
        service->leadership.term = 0; /* tried again by the next poll */
        return;
    }
    service->leadership.serving = true;
    expiry_leader_seen(service, clock_boottime_ms());
    lease_table_lead(state_machine_leases(service->machine), expiry_now_ms(service));
    log_info("became leader", LOG_NUMBER("term", service->leadership.term),
             LOG_NUMBER("leases", lease_table_count(state_machine_leases(service->machine))));
}

/* The first members are known: if not, the next leader sees to it. */
static void members_begun(struct service_request *request, const struct outcome *outcome) {
    (void)outcome;
    free(request);
}

static void *request_create(size_t size) {
    void *request = calloc(1, size);
    if (request == NULL) {
        abort();
    }
    return request;
}

static void begin(struct service *service, uint64_t term) {
    service->leadership.term = term;
    cluster_lead(service, term);
    struct command command;
    if (members_begin(service, &service->arena, &command)) {
        struct service_request *request = request_create(sizeof *request);
        request->done = members_begun;
        proposals_submit(service, request, &command);
        arena_reset(&service->arena);
    }
    struct barrier *barrier = request_create(sizeof *barrier);
    *barrier = (struct barrier){.request.done = barrier_done, .service = service, .term = term};
    command = (struct command){.type = COMMAND_BARRIER};
    command.barrier.term = term;
    /* As it was when this node was elected: what follows may be committed, and somebody answered,
     * only now. 0 where that was before the service was open. */
    command.barrier.committed =
        service->leadership.elected_term == term ? service->leadership.elected_commit : 0;
    proposals_submit(service, &barrier->request, &command);
    versions_lead(service);
}

static void note_election(struct service *service) {
    uint64_t term = raft_engine_term(service->engine);
    if (raft_engine_role(service->engine) == ENGINE_LEADER &&
        service->leadership.elected_term != term) {
        service->leadership.elected_term = term;
        service->leadership.elected_commit = raft_engine_commit_index(service->engine);
    }
}

void leadership_role_changed(void *data) {
    struct service *service = data;
    if (service->engine == NULL) {
        return; /* raft is being started */
    }
    note_election(service);
    if (service->leadership.term == 0) {
        return;
    }
    bool still_leads = raft_engine_role(service->engine) == ENGINE_LEADER &&
                       raft_engine_term(service->engine) == service->leadership.term;
    if (still_leads) {
        return;
    }
    uint64_t term = service->leadership.term;
    service->leadership.term = 0;
    service->leadership.serving = false;
    service->cluster.was_authority = false;
    leader_lease_end(&service->leader_lease);
    lease_table_follow(state_machine_leases(service->machine));
    log_warning("no longer leading", LOG_NUMBER("term", term));
}

void leadership_poll(struct service *service) {
    if (service->closing || service->failed) {
        return;
    }
    proposals_leadership_lost(service);
    if (raft_engine_role(service->engine) == ENGINE_LEADER && service->leadership.term == 0) {
        begin(service, raft_engine_term(service->engine));
    }
}
