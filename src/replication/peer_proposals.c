/* Commands that another node's clients submitted and this node, the leader, proposes. Every byte is
 * a peer's: checked as a client's would be, and bounded until it is committed, because whoever is
 * taken for a member may send more than the disks take. */
#include "core/cluster_version.h"
#include "replication/entry_check.h"
#include "replication/log_entry.h"
#include "replication/service_internal.h"

#include <assert.h>

static_assert(PEER_PROPOSALS_MAX > MEMBERS_MAX * PROPOSALS_IN_FLIGHT_MAX,
              "members that keep to their bound are not refused");

/* Nobody may expire or checkpoint through another node (safety rule 7), and who belongs to the
 * cluster is for the leader to look into; but a member may say who it is. What some member may not
 * know is not proposed. */
static bool may_be_forwarded(void *context, const struct command *command) {
    struct service *service = context;
    if (versions_allow(service, command) != STATUS_OK) {
        return false;
    }
    command = command_inner(command);
    switch (command->type) {
    case COMMAND_LEASE_EXPIRE:
    case COMMAND_LEASE_CHECKPOINT:
    case COMMAND_BARRIER:
    case COMMAND_MEMBERS_BEGIN:
    case COMMAND_CLUSTER_VERSION:
        return false;
    case COMMAND_MEMBER:
        return command->member.action == MEMBER_PUBLISH;
    default:
        return true;
    }
}

static bool can_propose(const struct service *service) {
    return service->leadership.term != 0 && raft_engine_role(service->engine) == ENGINE_LEADER &&
           !service->transfer.is_under_way &&
           raft_engine_last_index(service->engine) - raft_engine_commit_index(service->engine) <
               PEER_PROPOSALS_MAX;
}

static struct peer_proposal *place_of(struct peer_proposals *pending, size_t i) {
    return &pending->ring[(pending->first + i) % PEER_PROPOSALS_MAX];
}

/* Forgets what is committed, or was proposed in an earlier term. */
static void forget_committed(struct service *service) {
    struct peer_proposals *pending = &service->peer_proposals;
    uint64_t committed = raft_engine_commit_index(service->engine);
    if (pending->term != service->leadership.term) {
        pending->term = service->leadership.term;
        pending->n = 0;
        pending->bytes = 0;
    }
    while (pending->n > 0 && place_of(pending, 0)->index <= committed) {
        pending->bytes -= place_of(pending, 0)->bytes;
        pending->first = (pending->first + 1) % PEER_PROPOSALS_MAX;
        pending->n--;
    }
}

static size_t bytes_of_member(struct peer_proposals *pending, uint64_t from_id) {
    size_t bytes = 0;
    for (size_t i = 0; i < pending->n; i++) {
        bytes += place_of(pending, i)->from_id == from_id ? place_of(pending, i)->bytes : 0;
    }
    return bytes;
}

static enum status check(struct service *service, uint64_t from_id,
                         const struct peer_frame *frame) {
    if (!can_propose(service)) {
        return STATUS_NO_LEADER;
    }
    /* A proposal is closed when it is full; a large command is one by itself. */
    size_t command_size_max = proposals_command_size_max(service);
    size_t size = frame->propose.commands.size;
    size_t others_size_max = frame->propose.n_commands > 1 ? LOG_ENTRY_COMMANDS_SIZE_MAX : 0;
    if (size > command_size_max + others_size_max) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    /* Outcomes go to the requests of whoever has this number: nobody has ours. */
    if (frame->propose.incarnation == service->proposals.incarnation) {
        return STATUS_MALFORMED;
    }
    struct peer_proposals *pending = &service->peer_proposals;
    forget_committed(service);
    if (bytes_of_member(pending, from_id) >= PROPOSALS_IN_FLIGHT_BYTES_MAX ||
        pending->bytes + size > PEER_PROPOSALS_BYTES_MAX) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    return entry_check_commands(frame->propose.commands, frame->propose.n_commands,
                                command_size_max, may_be_forwarded, service, &service->arena)
               ? STATUS_OK
               : STATUS_MALFORMED;
}

static void note(struct peer_proposals *pending, const struct peer_proposal *proposal) {
    assert(pending->n < PEER_PROPOSALS_MAX);
    *place_of(pending, pending->n++) = *proposal;
    pending->bytes += proposal->bytes;
}

static void refuse(struct service *service, uint64_t to_id, uint64_t sequence, enum status status) {
    bool is_told_why = state_machine_cluster_version(service->machine) >= CLUSTER_VERSION_RULES &&
                       (status == STATUS_REQUEST_TOO_LARGE || status == STATUS_TOO_MANY_REQUESTS);
    struct peer_frame refused = {.type = PEER_PROPOSE_REFUSED};
    refused.propose_refused.sequence = sequence;
    refused.propose_refused.status = is_told_why ? status : STATUS_NO_LEADER;
    (void)cluster_send(service, to_id, &refused);
}

/* --- Order. --- */

static struct peer_order *order_of(struct service *service, uint64_t from_id) {
    struct peer_order *orders = service->peer_proposals.orders;
    struct peer_order *free_place = &orders[0];
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        if (orders[i].from_id == from_id) {
            return &orders[i];
        }
        /* Nobody has it, or a member that is gone. */
        free_place = members_server(service, orders[i].from_id) == NULL ? &orders[i] : free_place;
    }
    return free_place;
}

/* A member of release 0.2 leaves no number out. Which version the cluster has is known when an
 * entry of this term has been applied; until then nobody suffers for long. */
static bool keeps_order(const struct service *service) {
    return !service->leadership.serving ||
           state_machine_cluster_version(service->machine) >= CLUSTER_VERSION_RULES;
}

/* A client's requests are applied in the order in which it sent them, so what was sent before its
 * member heard that one is refused is refused as well; whoever heard leaves a number out. What was
 * taken in an earlier term may have been cut off the log by another leader. */
static bool follows_lost(const struct peer_order *order, const struct service *service,
                         uint64_t from_id, const struct peer_frame *frame) {
    return order->from_id == from_id && order->incarnation == frame->propose.incarnation &&
           order->sequence + 1 == frame->propose.sequence &&
           order->term != service->leadership.term && keeps_order(service);
}

void peer_proposals_take(struct service *service, uint64_t from_id,
                         const struct peer_frame *frame) {
    /* Its place among the orders may be another's by now. */
    if (members_server(service, from_id) == NULL) {
        refuse(service, from_id, frame->propose.sequence, STATUS_NO_LEADER);
        return;
    }
    struct log_entry_header header = {.incarnation = frame->propose.incarnation,
                                      .sequence = frame->propose.sequence,
                                      .acknowledged = frame->propose.acknowledged,
                                      .n_commands = frame->propose.n_commands};
    struct peer_proposal proposal = {.index = raft_engine_last_index(service->engine) + 1,
                                     .from_id = from_id,
                                     .bytes = frame->propose.commands.size};
    struct peer_order *order = order_of(service, from_id);
    enum status status = follows_lost(order, service, from_id, frame)
                             ? STATUS_NO_LEADER
                             : check(service, from_id, frame);
    if (status == STATUS_OK) {
        status = proposals_propose(service, &header, frame->propose.commands);
    }
    if (status == STATUS_OK) {
        note(&service->peer_proposals, &proposal);
    } else {
        refuse(service, from_id, frame->propose.sequence, status);
    }
    /* A large command is alone in its proposal, and no two members need allow the same size: others
     * do not suffer for it. */
    bool is_kept = status == STATUS_OK || status == STATUS_REQUEST_TOO_LARGE;
    *order = (struct peer_order){.from_id = from_id,
                                 .incarnation = frame->propose.incarnation,
                                 .sequence = frame->propose.sequence,
                                 .term = is_kept ? service->leadership.term : 0};
}
