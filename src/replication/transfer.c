/* Giving leadership away, on request or because this node stops. */
#include "base/clock.h"
#include "replication/service_internal.h"

enum {
    /* From giving the lease up to asking raft for a transfer. */
    RELEASE_MS = 10
};

/* The other leads now, or did not take over in time. */
static void handed_over(struct service *service) {
    struct service_transfer *request = service->transfer.request;
    service->transfer.is_under_way = false;
    service->transfer.request = NULL;
    service->transfer.is_over = service->closing;
    bool still_leads = raft_engine_role(service->engine) == ENGINE_LEADER &&
                       raft_engine_term(service->engine) == service->leadership.term;
    if (still_leads && !service->closing) {
        cluster_lead(service, service->leadership.term);
    }
    if (request != NULL) {
        request->done(request, cluster_leader(service) == service->transfer.to_id
                                   ? STATUS_OK
                                   : STATUS_TIMED_OUT);
    }
}

/* A leader gives its lease up before anybody else may lead (safety rule 4): it tells the voters
 * that they are free, and asks raft a moment later, when they know. */
static void transfer(struct service *service, uint64_t to_id) {
    uint64_t now_ms = clock_boottime_ms();
    struct peer_frame release = {.type = PEER_RELEASE};
    release.release.term = service->leadership.term;
    release.release.sent_ms = now_ms;
    leader_lease_end(&service->leader_lease);
    service->cluster.was_authority = false;
    service->transfer.is_under_way = true;
    service->transfer.is_begun = false;
    service->transfer.to_id = to_id;
    service->transfer.since_ms = now_ms;
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    for (size_t i = 0; i < configuration->n; i++) {
        (void)cluster_send(service, configuration->servers[i].id, &release);
    }
    peers_flush(service->peers);
}

/* Raft is done with it: another leads, or this node still does. Between the two there is a moment
 * in which nobody does. */
static bool is_decided(struct service *service, uint64_t now_ms) {
    return cluster_leader(service) != 0 || clock_elapsed_ms(now_ms, service->transfer.since_ms) >
                                               2 * (uint64_t)service->options.election_ms;
}

/* Raft is asked once the voters have had time to hear that they are free. */
void transfer_poll(struct service *service, uint64_t now_ms) {
    if (!service->transfer.is_under_way) {
        return;
    }
    if (service->transfer.is_begun) {
        if (!raft_engine_is_transferring(service->engine) && is_decided(service, now_ms)) {
            handed_over(service);
        }
        return;
    }
    if (clock_elapsed_ms(now_ms, service->transfer.since_ms) < RELEASE_MS) {
        return;
    }
    service->transfer.is_begun = true;
    if (raft_engine_transfer(service->engine, service->transfer.to_id, now_ms) != STATUS_OK) {
        handed_over(service);
    }
}

enum status service_move_leader(struct service *service, const struct caller *caller,
                                struct service_transfer *transfer_request, uint64_t member_id) {
    enum status status = service_check_admin(service, caller, "transfer of leadership");
    if (status != STATUS_OK) {
        return status;
    }
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    if (raft_engine_role(service->engine) != ENGINE_LEADER || !service->leadership.serving) {
        return STATUS_NO_LEADER;
    }
    if (member_id == service->options.member_id) {
        return STATUS_OK;
    }
    const struct raft_config_server *server = members_server(service, member_id);
    if (server == NULL || server->role != CONFIG_VOTER) {
        return STATUS_INVALID;
    }
    if (service->transfer.is_under_way) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    service->transfer.request = transfer_request;
    transfer(service, member_id);
    return STATUS_PENDING;
}

/* Of the voters that stay, the one that answers and has most of the log; 0: none. */
static uint64_t most_fit(struct service *service) {
    const struct member_table *table = state_machine_members(service->machine);
    uint64_t best_id = 0;
    uint64_t best = 0;
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    for (size_t i = 0; i < configuration->n; i++) {
        const struct raft_config_server *server = &configuration->servers[i];
        uint64_t match = raft_engine_match_index(service->engine, server->id);
        if (server->role == CONFIG_VOTER && server->id != service->options.member_id &&
            member_table_find(table, server->id) != NULL &&
            peers_is_linked(service->peers, server->id) && match > best) {
            best = match;
            best_id = server->id;
        }
    }
    return best_id;
}

bool transfer_to_another(struct service *service) {
    uint64_t id = most_fit(service);
    if (id == 0 || service->transfer.is_under_way) {
        return false;
    }
    transfer(service, id);
    return true;
}

bool transfer_on_stop(struct service *service) {
    if (cluster_is_alone(service) || raft_engine_role(service->engine) != ENGINE_LEADER) {
        return false;
    }
    /* One that is under way will do, and raft takes no second one. */
    if (!service->transfer.is_under_way) {
        transfer(service, most_fit(service));
    }
    return true;
}

bool transfer_is_late(const struct service *service) {
    return service->transfer.is_under_way && clock_boottime_ms() - service->transfer.since_ms >
                                                 (uint64_t)service->options.election_ms * 2;
}
