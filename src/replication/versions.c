/* The version of the cluster: what each member knows is heard with its pongs, and the leader raises
 * the version when every member of the table knows more (core/cluster_version.h).
 *
 * A pong of release 0.2 gives the ping's lease_ms back, and its leader does not look at it. So a
 * member that knows more says so in that place, with a number that no lease has. */
#include "base/clock.h"
#include "base/log.h"
#include "core/cluster_version.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Above every length of a promise. */
static const uint32_t VERSION_MARK = UINT32_C(0xfe000000);
static_assert(PROMISE_MS_MAX < 0xfe000000, "no lease is so long");

enum {
    /* A pong that is older says nothing of the process that runs there now. */
    HEARD_ELECTIONS_MAX = 2
};

uint32_t versions_known(const struct service *service) {
    return service->options.cluster_version_known != 0 ? service->options.cluster_version_known
                                                       : CLUSTER_VERSION_KNOWN;
}

uint32_t versions_pong(const struct service *service, uint32_t lease_ms) {
    uint32_t known = versions_known(service);
    return known > CLUSTER_VERSION_FIRST ? VERSION_MARK + known : lease_ms;
}

void versions_heard(struct service *service, uint64_t from_id, uint32_t lease_ms) {
    struct versions *versions = &service->versions;
    size_t i = 0;
    while (i < versions->n && versions->heard[i].id != from_id) {
        i++;
    }
    if (i == LINKS_MAX) {
        return;
    }
    bool is_new = i == versions->n;
    uint32_t version = lease_ms > VERSION_MARK ? lease_ms - VERSION_MARK : CLUSTER_VERSION_FIRST;
    versions->n += is_new;
    versions->heard[i] =
        (struct heard_version){.id = from_id, .version = version, .heard_ms = clock_boottime_ms()};
    if (is_new && version < state_machine_cluster_version(service->machine)) {
        char id[17];
        snprintf(id, sizeof id, "%016" PRIx64, from_id);
        log_warning(
            "a member runs a release that is too old for this cluster and cannot take part: "
            "start a newer release there",
            LOG_TEXT("member", id), LOG_NUMBER("version it knows", version),
            LOG_NUMBER("version of the cluster", state_machine_cluster_version(service->machine)));
    }
}

void versions_forget(struct service *service, uint64_t id) {
    struct versions *versions = &service->versions;
    for (size_t i = 0; i < versions->n; i++) {
        if (versions->heard[i].id == id) {
            versions->heard[i] = versions->heard[--versions->n];
            return;
        }
    }
}

/* What a member knows; 0: it has not been heard of late. */
static uint32_t version_of(const struct service *service, uint64_t id, uint64_t now_ms) {
    if (id == service->options.member_id) {
        return versions_known(service);
    }
    for (size_t i = 0; i < service->versions.n; i++) {
        const struct heard_version *heard = &service->versions.heard[i];
        if (heard->id == id && clock_elapsed_ms(now_ms, heard->heard_ms) <=
                                   HEARD_ELECTIONS_MAX * (uint64_t)service->options.election_ms) {
            return heard->version;
        }
    }
    return 0;
}

/* What all members know, learners included. */
static uint32_t common_version(const struct service *service, uint64_t now_ms) {
    const struct member_table *members = state_machine_members(service->machine);
    uint32_t common = versions_known(service);
    for (size_t i = 0; i < member_table_count(members); i++) {
        uint32_t version = version_of(service, member_table_at(members, i)->facts.id, now_ms);
        common = version < common ? version : common;
    }
    return member_table_count(members) == 0 ? 0 : common;
}

struct raise {
    struct service_request request;
    struct service *service;
};

static void raised(struct service_request *request, const struct outcome *outcome) {
    struct raise *raise = list_entry(request, struct raise, request);
    raise->service->versions.is_raising = false;
    if (outcome->status == STATUS_OK) {
        log_info("cluster version raised",
                 LOG_NUMBER("version", state_machine_cluster_version(raise->service->machine)));
    }
    free(raise);
}

/* For the members that were heard, and no others: one whose addition is on its way may know less.
 */
static void raise_to(struct service *service, uint32_t version) {
    const struct member_table *members = state_machine_members(service->machine);
    uint64_t ids[MEMBERS_MAX] = {service->options.member_id};
    size_t n = member_table_count(members);
    for (size_t i = 0; i < n; i++) {
        ids[i] = member_table_at(members, i)->facts.id;
    }
    struct raise *raise = calloc(1, sizeof *raise);
    if (raise == NULL) {
        abort();
    }
    *raise = (struct raise){.request.done = raised, .service = service};
    struct command command = {
        .type = COMMAND_CLUSTER_VERSION,
        .cluster_version = {.version = version, .n = n > 0 ? n : 1, .member_ids = ids}};
    service->versions.is_raising = true;
    proposals_submit(service, &raise->request, &command);
}

static bool can_raise(const struct service *service) {
    return !service->versions.is_raising &&
           state_machine_cluster_version(service->machine) < versions_known(service);
}

void versions_lead(struct service *service) {
    service->versions.n = 0;
    if (can_raise(service) && cluster_is_alone(service) &&
        member_table_count(state_machine_members(service->machine)) <= 1) {
        raise_to(service, versions_known(service));
    }
}

void versions_poll(struct service *service, uint64_t now_ms) {
    if (service->leadership.serving && can_raise(service)) {
        uint32_t common = common_version(service, now_ms);
        if (common > state_machine_cluster_version(service->machine)) {
            raise_to(service, common);
        }
    }
}

enum status versions_allow(const struct service *service, const struct command *command) {
    return state_machine_allows(service->machine, command) ? STATUS_OK : STATUS_UNSUPPORTED;
}

uint32_t service_cluster_version(struct service *service) {
    return state_machine_cluster_version(service->machine);
}
