/* --force-new-cluster: raft's configuration was cut down to this member when the log was opened;
 * here the replicated table of members follows. Until it has, this node keeps no links, opens no
 * port for peers and adds nobody to raft's configuration: the old table names members that are
 * gone. */
#include "base/log.h"
#include "core/auth.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const struct member_table *table_of(const struct service *service) {
    return state_machine_members(service->machine);
}

bool force_new_cluster_is_pending(const struct service *service) {
    return service->options.force_new_cluster && !service->force_new_cluster.is_done;
}

static void removed(struct service_request *request, const struct outcome *outcome) {
    struct service *service = list_entry(request, struct service, force_new_cluster.request);
    struct force_new_cluster *force = &service->force_new_cluster;
    force->is_asked = false;
    force->has_new_key |= force->request_is_key && outcome->status == STATUS_OK;
    force->request_is_key = false;
    service->members.checked_ms = 0; /* look again at once */
    if (outcome->status != STATUS_OK && outcome->status != STATUS_MEMBER_NOT_FOUND &&
        !service->closing) {
        log_warning("--force-new-cluster: a change was not made; trying again",
                    LOG_TEXT("reason", status_text(outcome->status)));
    }
}

static void submit_command(struct service *service, const struct command *command) {
    service->force_new_cluster.is_asked = true;
    service->force_new_cluster.request.done = removed;
    service_submit(service, &caller_server, &service->force_new_cluster.request, command);
}

/* What the old cluster did after this directory's last entry is lost, and its users among it: a
 * token of then must not count for whoever gets the same number now. */
static void submit_token_key(struct service *service) {
    uint8_t key[AUTH_TOKEN_KEY_SIZE];
    ssize_t n = getrandom(key, sizeof key, 0);
    assert(n == (ssize_t)sizeof key);
    log_warning("--force-new-cluster: tokens of the old cluster end");
    const struct command command = {
        .type = COMMAND_AUTH,
        .auth = {.action = AUTH_TOKEN_KEY, .token_key = bytes_of(key, sizeof key)}};
    service->force_new_cluster.request_is_key = true;
    submit_command(service, &command);
}

static void submit(struct service *service, enum member_action action, uint64_t id) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, id);
    log_warning(action == MEMBER_REMOVE ? "--force-new-cluster: removing a member"
                                        : "--force-new-cluster: this learner becomes a voter",
                LOG_TEXT("id", text));
    struct member_facts facts = {.id = id};
    struct command command = {.type = COMMAND_MEMBER,
                              .member = {.action = action, .facts = &facts}};
    submit_command(service, &command);
}

void force_new_cluster_poll(struct service *service, uint64_t now_ms) {
    if (!force_new_cluster_is_pending(service) || service->force_new_cluster.is_asked ||
        !cluster_is_authority(service, now_ms) || member_table_count(table_of(service)) == 0) {
        return;
    }
    uint64_t self_id = service->options.member_id;
    const struct member *self = member_table_find(table_of(service), self_id);
    if (self == NULL) {
        service_fail(service, STATUS_INVALID,
                     "--force-new-cluster: the data in this directory ends before this member was "
                     "added to the cluster, so it is not complete. Use the directory of another "
                     "member");
        return;
    }
    if (self->facts.role == MEMBER_LEARNER) {
        submit(service, MEMBER_PROMOTE, self_id);
        return;
    }
    for (size_t i = 0; i < member_table_count(table_of(service)); i++) {
        uint64_t id = member_table_at(table_of(service), i)->facts.id;
        if (id != self_id) {
            submit(service, MEMBER_REMOVE, id);
            return;
        }
    }
    if (!service->force_new_cluster.has_new_key &&
        auth_token_key(state_machine_auth(service->machine)).size > 0) {
        submit_token_key(service);
        return;
    }
    service->force_new_cluster.is_done = true;
    log_warning(
        "--force-new-cluster: this member is the only one of its cluster now. Start without "
        "the flag from now on, never start the old members again with their old data, and "
        "add new ones with etcdctl member add");
}
