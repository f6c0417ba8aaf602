/* Giving leadership away, on request or because this node stops. */
#include "base/clock.h"
#include "replication/service_internal.h"

enum {
    /* From giving the lease up to asking raft for a transfer. */
    RELEASE_MS = 10
};

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

/* A leader gives its lease up before anybody else may lead (safety rule 4): it tells the voters
 * that they are free, and asks raft a moment later, when they know. */
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
    for (unsigned i = 0; i < service->raft.configuration.n; i++) {
        (void)peers_send(service->peers, service->raft.configuration.servers[i].id, &release);
    }
    peers_flush(service->peers);
}

/* Raft is asked once the voters have had time to hear that they are free. */
void transfer_turn(struct service *service, uint64_t now_ms) {
    if (!service->is_transferring || service->is_transfer_begun ||
        clock_elapsed_ms(now_ms, service->transfer_since_ms) < RELEASE_MS) {
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
    const struct raft_server *server = members_server(service, member_id);
    if (server == NULL || server->role != RAFT_VOTER) {
        return STATUS_INVALID;
    }
    if (service->is_transferring) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    service->transfer_request = transfer_request;
    transfer(service, member_id);
    return STATUS_PENDING;
}

/* Of the voters that stay, the one that answers and has most of the log; 0: none. */
static uint64_t most_fit(struct service *service) {
    const struct member_table *table = state_machine_members(service->machine);
    uint64_t best_id = 0;
    raft_index best = 0;
    for (unsigned i = 0; i < service->raft.configuration.n; i++) {
        const struct raft_server *server = &service->raft.configuration.servers[i];
        raft_index match = 0;
        if (server->role == RAFT_VOTER && server->id != service->options.member_id &&
            member_table_find(table, server->id) != NULL &&
            peers_is_linked(service->peers, server->id) &&
            raft_match_index(&service->raft, server->id, &match) == 0 && match > best) {
            best = match;
            best_id = server->id;
        }
    }
    return best_id;
}

void transfer_to_another(struct service *service) {
    uint64_t id = most_fit(service);
    if (id != 0 && !service->is_transferring) {
        transfer(service, id);
    }
}

bool transfer_on_stop(struct service *service) {
    if (cluster_is_alone(service) || raft_state(&service->raft) != RAFT_LEADER) {
        return false;
    }
    /* One that is under way will do, and raft takes no second one. */
    if (!service->is_transferring) {
        transfer(service, most_fit(service));
    }
    return true;
}

bool transfer_is_late(const struct service *service) {
    return service->is_transferring && clock_boottime_ms() - service->transfer_since_ms >
                                           (uint64_t)service->options.election_ms * 2;
}
