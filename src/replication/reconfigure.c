/* Raft's configuration follows the table of members, one change at a time, by the leader's hand:
 * who was added becomes a standby, gets everything, and votes once it has caught up; who was
 * removed goes. A leader that was removed gives its place to another first. Whoever leads goes on
 * where the last one stopped. */
#include "base/clock.h"
#include "base/log.h"
#include "replication/service_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    /* How many entries a learner may lack to be in sync: what is on its way at any moment. */
    IN_SYNC_ENTRIES = 256,
    /* A change that is refused is tried again all the time. */
    REFUSED_LOG_MS = 10 * 1000
};

static const struct member_table *table_of(const struct service *service) {
    return state_machine_members(service->machine);
}

/* A voter that answered a ping not long ago. */
static bool is_active(const struct service *service, uint64_t id, uint64_t now_ms) {
    if (id == service->options.member_id) {
        return true;
    }
    uint64_t heard_ms = leader_lease_heard_ms(&service->leader_lease, id);
    return heard_ms != 0 && peers_is_linked(service->peers, id) &&
           clock_elapsed_ms(now_ms, heard_ms) <= 2 * (uint64_t)service->options.election_ms;
}

/* Would a majority be there without this voter? */
bool reconfigure_can_lose(const struct service *service, uint64_t id, uint64_t now_ms) {
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    size_t n_voters = 0;
    size_t n_active = 0;
    for (size_t i = 0; i < configuration->n; i++) {
        const struct raft_config_server *server = &configuration->servers[i];
        if (server->role == CONFIG_VOTER && server->id != id) {
            n_voters++;
            n_active += is_active(service, server->id, now_ms);
        }
    }
    return n_voters > 0 && n_active >= n_voters / 2 + 1;
}

/* Has this standby nearly everything, and would a majority be there with it? */
bool reconfigure_can_promote(const struct service *service, uint64_t id, uint64_t now_ms) {
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    uint64_t match = raft_engine_match_index(service->engine, id);
    if (match == 0 || raft_engine_last_index(service->engine) - match > IN_SYNC_ENTRIES ||
        !peers_is_linked(service->peers, id)) {
        return false;
    }
    size_t n_voters = 1;
    size_t n_active = 1;
    for (size_t i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].role == CONFIG_VOTER) {
            n_voters++;
            n_active += is_active(service, configuration->servers[i].id, now_ms);
        }
    }
    return n_active >= n_voters / 2 + 1;
}

static void begun(struct service *service, const char *what, uint64_t id, enum status status) {
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, id);
    if (status != STATUS_OK) {
        uint64_t now_ms = clock_boottime_ms();
        uint64_t *logged_ms = &service->monitor.change_refused_ms;
        if (*logged_ms != 0 && clock_elapsed_ms(now_ms, *logged_ms) < REFUSED_LOG_MS) {
            return;
        }
        *logged_ms = now_ms;
        log_warning("members cannot be changed", LOG_TEXT("change", what), LOG_TEXT("id", text),
                    LOG_TEXT("reason", status_text(status)));
        return;
    }
    log_info("members change", LOG_TEXT("change", what), LOG_TEXT("id", text));
    /* From here on the new configuration counts. */
    members_count_voters(service);
}

/* A removal may have to wait until every other voter knows that it is one. Where one of those that
 * are to go is dead, it can go first. */
static bool remove_one(struct service *service, uint64_t now_ms) {
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    uint64_t refused_id = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < configuration->n; i++) {
        const struct raft_config_server *server = &configuration->servers[i];
        if (member_table_find(table_of(service), server->id) != NULL) {
            continue;
        }
        if (server->id == service->options.member_id) {
            /* Whether or not the others are a majority: a voter that knows of the removal refuses
             * this member, and is with the others only when one of them leads. */
            if (transfer_to_another(service)) {
                return true;
            }
            continue;
        }
        if (server->role == CONFIG_VOTER && !reconfigure_can_lose(service, server->id, now_ms)) {
            continue;
        }
        uint64_t id = server->id;
        status = raft_engine_change(service->engine, ENGINE_REMOVE, id, NULL, now_ms);
        if (status == STATUS_OK) {
            begun(service, "remove", id, status);
            return true;
        }
        refused_id = id;
    }
    if (refused_id != 0) {
        begun(service, "remove", refused_id, status);
    }
    return refused_id != 0;
}

static enum status add(struct service *service, uint64_t id, uint64_t now_ms) {
    char address[PEER_ADDRESS_SIZE_MAX + 32];
    if (!members_address(service, id, address)) {
        return STATUS_INVALID;
    }
    enum status status = raft_engine_change(service->engine, ENGINE_ADD, id, address, now_ms);
    if (status == STATUS_INVALID) {
        /* Raft knows another member by an address that has changed since. Ours are looked up by id,
         * so any text will do. */
        size_t size = strlen(address);
        snprintf(address + size, sizeof address - size, "#%016" PRIx64, id);
        status = raft_engine_change(service->engine, ENGINE_ADD, id, address, now_ms);
    }
    return status;
}

static bool add_one(struct service *service, uint64_t now_ms) {
    for (size_t i = 0; i < member_table_count(table_of(service)); i++) {
        uint64_t id = member_table_at(table_of(service), i)->facts.id;
        if (members_server(service, id) == NULL &&
            raft_engine_configuration(service->engine)->n < MEMBERS_MAX) {
            begun(service, "add", id, add(service, id, now_ms));
            return true;
        }
    }
    return false;
}

static bool assign_one(struct service *service, uint64_t now_ms) {
    for (size_t i = 0; i < member_table_count(table_of(service)); i++) {
        const struct member_facts *facts = &member_table_at(table_of(service), i)->facts;
        const struct raft_config_server *server = members_server(service, facts->id);
        if (server == NULL) {
            continue;
        }
        if (server->role != CONFIG_VOTER && facts->role == MEMBER_VOTER &&
            reconfigure_can_promote(service, facts->id, now_ms)) {
            begun(service, "voter", facts->id,
                  raft_engine_change(service->engine, ENGINE_PROMOTE, facts->id, NULL, now_ms));
            return true;
        }
    }
    return false;
}

void reconfigure_poll(struct service *service, uint64_t now_ms) {
    /* Only with an entry of this term committed: a change on top of one that is not, of an earlier
     * leader's, could give two majorities that do not meet. */
    if (!cluster_is_authority(service, now_ms) || cluster_is_alone(service) ||
        force_new_cluster_is_pending(service) || service->transfer.is_under_way ||
        member_table_count(table_of(service)) == 0) {
        return;
    }
    if (raft_engine_is_changing(service->engine)) {
        return;
    }
    (void)(remove_one(service, now_ms) || add_one(service, now_ms) || assign_one(service, now_ms));
}
