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
    for (size_t i = 0; i < service->options.n_members; i++) {
        (void)peers_send(service->peers, service->options.members[i].id, &release);
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

bool transfer_on_stop(struct service *service) {
    if (cluster_is_alone(service) || raft_state(&service->raft) != RAFT_LEADER) {
        return false;
    }
    /* One that is under way will do, and raft takes no second one. */
    if (!service->is_transferring) {
        transfer(service, 0);
    }
    return true;
}

bool transfer_is_late(const struct service *service) {
    return service->is_transferring && clock_boottime_ms() - service->transfer_since_ms >
                                           (uint64_t)service->options.election_ms * 2;
}
