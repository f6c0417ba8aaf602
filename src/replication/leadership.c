/* When this node may serve: it leads, and an entry of its own term has been applied (safety
 * rule 5). Alone, it leads as soon as it has started; in company it must also hold the leader's
 * lease (cluster.c). */
#include "base/clock.h"
#include "base/log.h"
#include "replication/service_internal.h"

static void barrier_done(struct service_request *request, const struct outcome *outcome) {
    struct service *service = list_entry(request, struct service, barrier);
    if (outcome->status != STATUS_OK) {
        service->barrier_term = 0;
        return;
    }
    service->serving = true;
    expiry_leader_seen(service, clock_boottime_ms());
    lease_table_lead(state_machine_leases(service->machine), expiry_now_ms(service));
    log_info("leading", LOG_NUMBER("term", service->barrier_term),
             LOG_NUMBER("leases", lease_table_count(state_machine_leases(service->machine))));
}

/* The first members are known: if not, the next leader sees to it. */
static void members_begun(struct service_request *request, const struct outcome *outcome) {
    (void)request;
    (void)outcome;
}

void leadership_poll(struct service *service) {
    if (service->closing || service->failed) {
        return;
    }
    bool leads = raft_state(&service->raft) == RAFT_LEADER;
    uint64_t term = raft_current_term(&service->raft);
    if (leads && service->barrier_term != term) {
        /* It may have led before, in another term, without anybody having looked in between. */
        service->serving = false;
        service->was_authority = false;
        service->barrier_term = term;
        cluster_lead(service, term);
        service->barrier.done = barrier_done;
        struct command command;
        if (members_begin(service, &service->arena, &command)) {
            service->begin.done = members_begun;
            proposals_submit(service, &service->begin, &command);
            arena_reset(&service->arena);
        }
        command = (struct command){.type = COMMAND_BARRIER};
        command.barrier.term = term;
        command.barrier.committed = raft_commit_index(&service->raft);
        proposals_submit(service, &service->barrier, &command);
    } else if (!leads && service->barrier_term != 0) {
        service->barrier_term = 0;
        service->serving = false;
        service->was_authority = false;
        leader_lease_end(&service->lease);
        lease_table_follow(state_machine_leases(service->machine));
        log_warning("no longer leading", LOG_NUMBER("term", term));
    }
}
