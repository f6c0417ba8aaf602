/* Group commit: what one iteration of the loop submits becomes one entry, and what arrives while
 * entries are on their way becomes the next. */
#include "base/clock.h"
#include "core/auth_command.h"
#include "core/cluster_version.h"
#include "core/txn_estimate.h"
#include "raft/raft_codec.h"
#include "replication/entry_check.h"
#include "replication/log_entry.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* What is kept of a proposal's room for the next one: a full entry, with what doubling adds. */
enum { FREE_COMMANDS_CAPACITY_MAX = 2 * LOG_ENTRY_COMMANDS_SIZE_MAX };

/* At most, what log_entry.h, raft_codec.h and peer_frames.h put around the commands. */
enum { ENVELOPE_SIZE_MAX = 4096 };
static_assert(LOG_ENTRY_COMMANDS_SIZE_MAX + ENTRY_COMMAND_SIZE_MAX + ENVELOPE_SIZE_MAX <=
                  RAFT_CODEC_SIZE_MAX,
              "every entry fits into a message");
static_assert((int)RAFT_CODEC_SIZE_MAX <= (int)PEER_FRAME_SIZE_MAX,
              "every message fits into a frame");
static_assert(PROPOSALS_IN_FLIGHT_BYTES_MAX >
                  PROPOSALS_IN_FLIGHT_MAX *
                      (LOG_ENTRY_COMMANDS_SIZE_MAX + COMMAND_SIZE_DEFAULT + ENTRY_COMMAND_OVERHEAD),
              "what members of earlier releases have on their way is within it");

/* Beyond this, what is submitted next waits for several entries to be written. */
enum { PROPOSALS_CONGESTED_BYTES = 1024 * 1024 };

/* How many ids ahead the table is asked to load what it will look at. */
enum { LEASE_IDS_NEAR = 2, LEASE_IDS_FAR = 4 };

void proposals_init(struct service *service) {
    list_init(&service->proposals.ready);
    list_init(&service->proposals.in_flight);
    buffer_init(&service->proposals.free_commands);
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        list_init(&service->proposals.refused[i]);
    }
    struct {
        uint64_t incarnation;
        uint32_t lease_id_prefix;
    } random;
    ssize_t n = getrandom(&random, sizeof random, 0);
    assert(n == (ssize_t)sizeof random);
    service->proposals.incarnation = random.incarnation;
    /* Positive, never 0, and close together, so that lists of ids are short in the log. */
    service->proposals.lease_id_prefix = (random.lease_id_prefix & 0x7fffffff) | 0x40000000;
}

static struct proposal *proposal_create(void) {
    struct proposal *proposal = calloc(1, sizeof *proposal);
    if (proposal == NULL) {
        abort();
    }
    proposal->submitted_ms = clock_boottime_ms();
    proposal->submitted_us = clock_stopwatch_us();
    buffer_init(&proposal->commands);
    list_init(&proposal->requests);
    list_init(&proposal->link);
    return proposal;
}

static void give_back_commands(struct service *service, struct buffer *commands) {
    if (service->proposals.free_commands.data != NULL ||
        commands->capacity > FREE_COMMANDS_CAPACITY_MAX) {
        buffer_clear(commands);
        return;
    }
    commands->size = 0;
    service->proposals.free_commands = *commands;
    buffer_init(commands);
}

static void proposal_destroy(struct proposal *proposal) {
    buffer_clear(&proposal->commands);
    free(proposal);
}

void proposals_clear(struct service *service) {
    assert(list_is_empty(&service->proposals.in_flight));
    assert(list_is_empty(&service->proposals.ready));
    assert(service->proposals.open == NULL);
    buffer_clear(&service->proposals.free_commands);
}

/* Tells every request of a proposal that it failed. */
static void proposal_fail(struct service *service, struct proposal *proposal, enum status status) {
    service->monitor.proposals_failed += proposal->n_commands;
    struct outcome outcome = {.status = status};
    for (struct list *node; (node = list_pop_first(&proposal->requests)) != NULL;) {
        struct service_request *request = list_entry(node, struct service_request, private.link);
        request->done(request, &outcome);
    }
}

enum status proposals_propose(struct service *service, struct log_entry_header *header,
                              struct bytes commands) {
    size_t size = 0;
    header->term = raft_engine_term(service->engine);
    header->index = raft_engine_last_index(service->engine) + 1;
    header->wall_ms = clock_wall_ms();
    uint8_t *entry = log_entry_encode(header, commands, &size);
    service->counters.entries++;
    service->counters.commands += header->n_commands;
    enum status status = raft_engine_propose(service->engine, entry, size, clock_boottime_ms());
    if (status != STATUS_OK) {
        free(entry);
    }
    return status;
}

void proposals_finish(struct service *service, struct proposal *proposal) {
    list_remove(&proposal->link);
    service->proposals.n_in_flight--;
    service->proposals.in_flight_bytes -= proposal->size;
    assert(list_is_empty(&proposal->requests));
    service->proposals.pending_work -= proposal->work;
    proposal_destroy(proposal);
}

static void fail_in_flight(struct service *service, struct proposal *proposal, enum status status) {
    proposal_fail(service, proposal, status);
    proposals_finish(service, proposal);
}

/* Hands a gathered proposal on: to raft, or to the leader. */
static void proposal_depart(struct service *service, struct proposal *proposal) {
    service->proposals.pending_bytes -= proposal->size;
    give_back_commands(service, &proposal->commands);
    list_append(&service->proposals.in_flight, &proposal->link);
    service->proposals.n_in_flight++;
    service->proposals.in_flight_bytes += proposal->size;
}

static void proposal_send(struct service *service, struct proposal *proposal) {
    proposal->sequence = ++service->proposals.sequence;
    service->proposals.forwards_to = 0;
    proposal->term = raft_engine_term(service->engine);
    struct log_entry_header header = {.incarnation = service->proposals.incarnation,
                                      .sequence = proposal->sequence,
                                      .acknowledged = service->proposals.sequence_applied,
                                      .n_commands = proposal->n_commands};
    struct buffer commands = proposal->commands;
    buffer_init(&proposal->commands);
    proposal_depart(service, proposal);
    enum status status =
        proposals_propose(service, &header, bytes_of(commands.data, commands.size));
    give_back_commands(service, &commands);
    if (status != STATUS_OK) {
        fail_in_flight(service, proposal, status);
    }
}

/* --- Through another node. --- */

/* The leader refuses what was sent before this node heard of a refusal (peer_proposals.c). A number
 * that is left out says that it has heard. Numbers without one between them went to one leader
 * in one term over one link. */
static void leave_a_number_out(struct service *service) {
    service->proposals.sequence_left_out = ++service->proposals.sequence;
}

/* What went before the number that was left out is applied as a rule, but the refusal of it may
 * have been lost with the leader's link to this node. */
static bool waits_for_earlier(const struct service *service) {
    const struct list *oldest = service->proposals.in_flight.next;
    if (oldest == &service->proposals.in_flight) {
        return false;
    }
    const struct proposal *proposal = list_entry(oldest, struct proposal, link);
    return proposal->forwarded_to != 0 && proposal->sequence < service->proposals.sequence_left_out;
}

static bool proposal_forward(struct service *service, struct proposal *proposal,
                             uint64_t leader_id) {
    uint64_t term = raft_engine_term(service->engine);
    if (service->proposals.forwards_to != leader_id || service->proposals.forwards_term != term) {
        service->proposals.forwards_to = leader_id;
        service->proposals.forwards_term = term;
        leave_a_number_out(service);
    }
    struct peer_frame frame = {.type = PEER_PROPOSE};
    frame.propose.incarnation = service->proposals.incarnation;
    frame.propose.sequence = service->proposals.sequence + 1;
    frame.propose.acknowledged = service->proposals.sequence_applied;
    frame.propose.n_commands = proposal->n_commands;
    frame.propose.commands = bytes_of(proposal->commands.data, proposal->commands.size);
    if (!cluster_send(service, leader_id, &frame)) {
        return false;
    }
    proposal->sequence = ++service->proposals.sequence;
    proposal->forwarded_to = leader_id;
    proposal->term = term;
    return true;
}

/* What went to the leader behind this number. */
static void fail_forwarded_behind(struct service *service, uint64_t leader_id, uint64_t sequence) {
    for (struct list *node = service->proposals.in_flight.next, *next;
         node != &service->proposals.in_flight; node = next) {
        struct proposal *proposal = list_entry(node, struct proposal, link);
        next = node->next;
        if (proposal->forwarded_to == leader_id && proposal->sequence > sequence) {
            fail_in_flight(service, proposal, STATUS_LEADER_CHANGED);
        }
    }
}

void proposals_refused_by_peer(struct service *service, uint64_t from_id, uint64_t sequence,
                               enum status status) {
    struct proposal *proposal = proposals_match(service, sequence);
    bool is_told_why = status == STATUS_REQUEST_TOO_LARGE || status == STATUS_TOO_MANY_REQUESTS;
    /* After one that is too large the leader goes on. A number that is left out for an older one
     * would let through what follows a newer one, which is not known here yet. */
    bool ends_order = status != STATUS_REQUEST_TOO_LARGE &&
                      from_id == service->proposals.forwards_to &&
                      sequence > service->proposals.sequence_left_out;
    if (proposal != NULL && proposal->forwarded_to == from_id) {
        fail_in_flight(service, proposal, is_told_why ? status : STATUS_LEADER_CHANGED);
    }
    if (ends_order) {
        /* These are refused as well. Their clients know it before anything is sent behind the
         * number that is left out. */
        leave_a_number_out(service);
        fail_forwarded_behind(service, from_id, sequence);
    }
}

void proposals_link_lost(struct service *service, uint64_t id) {
    if (id == service->proposals.forwards_to) {
        leave_a_number_out(service); /* refusals may have been on their way */
    }
    for (struct list *node = service->proposals.in_flight.next, *next;
         node != &service->proposals.in_flight; node = next) {
        struct proposal *proposal = list_entry(node, struct proposal, link);
        next = node->next;
        if (proposal->forwarded_to == id) {
            fail_in_flight(service, proposal, STATUS_LEADER_CHANGED);
        }
    }
}

void proposals_state_replaced(struct service *service) {
    service->proposals.is_state_replaced = true;
}

void proposals_poll(struct service *service, uint64_t leader_id, uint64_t now_ms) {
    for (struct list *node = service->proposals.in_flight.next, *next;
         node != &service->proposals.in_flight; node = next) {
        struct proposal *proposal = list_entry(node, struct proposal, link);
        next = node->next;
        if (proposal->forwarded_to != 0 &&
            clock_elapsed_ms(now_ms, proposal->submitted_ms) > PROPOSAL_TIMEOUT_MS) {
            fail_in_flight(service, proposal, STATUS_TIMED_OUT);
        }
    }
    struct list *oldest = service->proposals.ready.next;
    uint64_t since_ms = now_ms;
    if (oldest != &service->proposals.ready) {
        since_ms = list_entry(oldest, struct proposal, link)->submitted_ms;
    } else if (service->proposals.open != NULL) {
        since_ms = service->proposals.open->submitted_ms;
    }
    /* A leader that is heard need not be one that is reached. What waits for room while this node
     * leads is on its way. */
    if (clock_elapsed_ms(now_ms, since_ms) > PROPOSAL_TIMEOUT_MS &&
        leader_id != service->options.member_id) {
        proposals_fail_all(service, leader_id == 0 ? STATUS_NO_LEADER : STATUS_TIMED_OUT);
    }
}

static void proposals_close_open(struct service *service) {
    if (service->proposals.open != NULL) {
        list_append(&service->proposals.ready, &service->proposals.open->link);
        service->proposals.open = NULL;
    }
}

static void proposals_tell_refused(struct service *service) {
    if (!service->proposals.has_refused) {
        return;
    }
    service->proposals.has_refused = false;
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        struct outcome outcome = {.status = (enum status)i};
        for (struct list *node; (node = list_pop_first(&service->proposals.refused[i])) != NULL;) {
            struct service_request *request =
                list_entry(node, struct service_request, private.link);
            request->done(request, &outcome);
        }
    }
}

static void drop_empty(struct service *service, struct proposal *proposal) {
    assert(list_is_empty(&proposal->requests));
    service->proposals.pending_work -= proposal->work;
    proposal_destroy(proposal);
}

/* What an earlier leader was asked to propose may or may not have been. Waiting for it would leave
 * no room in flight, not even for the first entry of our own term. Nor need a leader that is
 * elected again have it still: in between another may have led. */
static void fail_forwarded_elsewhere(struct service *service, uint64_t leader_id,
                                     enum status status) {
    uint64_t term = raft_engine_term(service->engine);
    for (struct list *node = service->proposals.in_flight.next, *next;
         node != &service->proposals.in_flight; node = next) {
        struct proposal *proposal = list_entry(node, struct proposal, link);
        next = node->next;
        if (proposal->forwarded_to != 0 &&
            (proposal->forwarded_to != leader_id || proposal->term != term)) {
            fail_in_flight(service, proposal, status);
        }
    }
}

void proposals_flush(struct service *service) {
    proposals_tell_refused(service);
    if (service->failed || service->closing || service->transfer.is_under_way) {
        return;
    }
    uint64_t leader_id = cluster_is_alone(service) ? 0 : cluster_leader(service);
    if (service->proposals.is_state_replaced) {
        service->proposals.is_state_replaced = false;
        fail_forwarded_elsewhere(service, 0, STATUS_LEADER_CHANGED);
    }
    if (leader_id != 0) {
        fail_forwarded_elsewhere(service, leader_id, STATUS_LEADER_CHANGED);
    }
    while (service->proposals.n_in_flight < PROPOSALS_IN_FLIGHT_MAX &&
           service->proposals.in_flight_bytes < PROPOSALS_IN_FLIGHT_BYTES_MAX) {
        /* Looked at each time: a step of raft may end it. */
        bool leads = service->leadership.term != 0;
        if (!leads && (leader_id == 0 || waits_for_earlier(service))) {
            return;
        }
        if (list_is_empty(&service->proposals.ready)) {
            proposals_close_open(service);
        }
        struct list *node = list_pop_first(&service->proposals.ready);
        if (node == NULL) {
            return;
        }
        struct proposal *proposal = list_entry(node, struct proposal, link);
        proposal->size = proposal->commands.size;
        if (proposal->n_commands == 0) {
            drop_empty(service, proposal); /* all of it was withdrawn */
        } else if (leads) {
            proposal_send(service, proposal);
        } else if (proposal_forward(service, proposal, leader_id)) {
            proposal_depart(service, proposal);
        } else {
            list_prepend(&service->proposals.ready, node);
            return;
        }
    }
}

struct proposal *proposals_match(struct service *service, uint64_t sequence) {
    for (struct list *node = service->proposals.in_flight.next;
         node != &service->proposals.in_flight; node = node->next) {
        struct proposal *proposal = list_entry(node, struct proposal, link);
        if (proposal->sequence == sequence) {
            return proposal;
        }
    }
    return NULL;
}

void proposals_leadership_lost(struct service *service) {
    for (struct list *node = service->proposals.in_flight.next, *next;
         node != &service->proposals.in_flight; node = next) {
        struct proposal *proposal = list_entry(node, struct proposal, link);
        next = node->next;
        bool is_ours = proposal->forwarded_to == 0;
        if (is_ours && (raft_engine_role(service->engine) != ENGINE_LEADER ||
                        raft_engine_term(service->engine) != proposal->term)) {
            fail_in_flight(service, proposal, STATUS_LEADER_CHANGED);
        }
    }
}

void proposals_fail_all(struct service *service, enum status status) {
    if (service->closing) {
        /* Nobody will tell any more what became of them. */
        for (struct list *node;
             (node = service->proposals.in_flight.next) != &service->proposals.in_flight;) {
            fail_in_flight(service, list_entry(node, struct proposal, link), status);
        }
    }
    proposals_close_open(service);
    for (struct list *node; (node = list_pop_first(&service->proposals.ready)) != NULL;) {
        struct proposal *proposal = list_entry(node, struct proposal, link);
        service->proposals.pending_bytes -= proposal->commands.size;
        service->proposals.pending_work -= proposal->work;
        proposal_fail(service, proposal, status);
        proposal_destroy(proposal);
    }
    proposals_tell_refused(service);
}

void proposals_refuse(struct service *service, struct service_request *request,
                      enum status status) {
    list_append(&service->proposals.refused[status], &request->private.link);
    service->proposals.has_refused = true;
}

/* What a command may be in work; 0 for what is little. */
static size_t work_of(const struct service *service, const struct command *command) {
    const struct key_store *keys = state_machine_keys(service->machine);
    command = command_inner(command);
    size_t work = 0;
    switch (command->type) {
    case COMMAND_PUT:
        if (command->put.ignore_value || command->put.want_previous) {
            work = put_estimate(keys, KEY_SPACE_ETCD, &command->put);
        }
        break;
    case COMMAND_TXN:
        work = txn_estimate(keys, KEY_SPACE_ETCD, &command->txn);
        break;
    case COMMAND_DELETE:
        work = delete_estimate(keys, KEY_SPACE_ETCD, &command->delete);
        break;
    case COMMAND_LEASE_REVOKE:
        work = lease_table_end_work(state_machine_leases(service->machine), command->revoke.id);
        break;
    case COMMAND_RULE:
        work = state_machine_rule_work(service->machine, command);
        break;
    case COMMAND_AUTH:
        work = auth_change_work(state_machine_auth(service->machine), &command->auth);
        break;
    default:
        break;
    }
    return work < PROPOSALS_WORK_MUCH ? 0 : work;
}

size_t proposals_command_size_max(const struct service *service) {
    size_t size_max = service->options.request_size_max;
    /* A member of an earlier release, which may still be there, ends the link over a larger one. */
    if (size_max < COMMAND_SIZE_DEFAULT ||
        state_machine_cluster_version(service->machine) < CLUSTER_VERSION_RULES) {
        size_max = COMMAND_SIZE_DEFAULT;
    }
    return size_max + ENTRY_COMMAND_OVERHEAD;
}

static struct proposal *open_proposal(struct service *service) {
    if (service->proposals.open == NULL) {
        service->proposals.open = proposal_create();
        /* The room that an earlier one grew is used again. */
        service->proposals.open->commands = service->proposals.free_commands;
        buffer_init(&service->proposals.free_commands);
    }
    return service->proposals.open;
}

/* What was encoded last takes so many bytes that it gets an entry of its own: others do not wait
 * for it, and are not refused with it. */
static struct proposal *move_to_next(struct service *service, size_t size) {
    struct buffer *full = &service->proposals.open->commands;
    struct buffer large;
    buffer_init(&large);
    buffer_append(&large, full->data + full->size - size, size);
    full->size -= size;
    proposals_close_open(service);
    struct proposal *proposal = open_proposal(service);
    buffer_clear(&proposal->commands);
    proposal->commands = large;
    return proposal;
}

/* `work` is what the command may be: work_of(). */
static void gather(struct service *service, struct service_request *request,
                   const struct command *command, size_t work) {
    struct proposal *proposal = open_proposal(service);
    size_t before = proposal->commands.size;
    command_encode(&proposal->commands, command);
    size_t size = proposal->commands.size - before;
    if (size > proposals_command_size_max(service)) {
        proposal->commands.size = before;
        if (proposal->n_commands == 0) {
            service->proposals.open = NULL;
            drop_empty(service, proposal);
        }
        proposals_refuse(service, request, STATUS_REQUEST_TOO_LARGE);
        return;
    }
    if (size > LOG_ENTRY_COMMANDS_SIZE_MAX && proposal->n_commands > 0) {
        proposal = move_to_next(service, size);
    }
    service->proposals.pending_work += work;
    proposal->work += work;
    service->proposals.pending_bytes += size;
    proposal->n_commands++;
    request->private.size = (uint32_t)size;
    list_append(&proposal->requests, &request->private.link);
    if (proposal->commands.size >= LOG_ENTRY_COMMANDS_SIZE_MAX) {
        proposals_close_open(service);
    }
}

void proposals_submit(struct service *service, struct service_request *request,
                      const struct command *command) {
    gather(service, request, command, work_of(service, command));
}

/* A lease id that nobody has: the process's own prefix, then a counter. */
static int64_t choose_lease_id(struct service *service) {
    const struct lease_table *leases = state_machine_leases(service->machine);
    struct lease_facts ignored;
    int64_t id;
    do {
        service->proposals.lease_id_counter++;
        if (service->proposals.lease_id_counter == 0) {
            service->proposals.lease_id_prefix =
                ((service->proposals.lease_id_prefix + 1) & 0x7fffffff) | 0x40000000;
        }
        id = (int64_t)(((uint64_t)service->proposals.lease_id_prefix << 32) |
                       service->proposals.lease_id_counter);
    } while (lease_table_find(leases, id, &ignored));
    /* With many leases each look would wait for memory; the next ones are known already. */
    lease_table_prefetch(leases, id + LEASE_IDS_NEAR, true);
    lease_table_prefetch(leases, id + LEASE_IDS_FAR, false);
    return id;
}

/* Of reads on the loop in one iteration; beyond it they are refused. */
enum { READ_WORK_MAX = 1024 * 1024 };

bool service_allow_work(struct service *service, size_t work) {
    if (work < PROPOSALS_WORK_MUCH) {
        return true;
    }
    /* The first one may be more than that; it is bounded by itself. */
    if (service->read_work > 0 && service->read_work + work > READ_WORK_MAX) {
        return false;
    }
    service->read_work += work;
    return true;
}

/* One command may be more than all together: it is taken when there is no other. */
static bool is_too_much(const struct service *service, size_t work) {
    size_t pending = service->proposals.pending_work;
    return pending > 0 && pending + work > PROPOSALS_WORK_MAX;
}

static enum status check_submitted(struct service *service, const struct caller *caller,
                                   const struct command *command, size_t *out_work) {
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    enum status status = command_check(command);
    if (status == STATUS_OK) {
        status = versions_allow(service, command);
    }
    if (status != STATUS_OK) {
        return status;
    }
    size_t work = work_of(service, command);
    size_t kept = quota_work_of_kept(service, command);
    work = work > kept ? work : kept;
    if (service->proposals.pending_bytes > PROPOSALS_BYTES_MAX ||
        (work > 0 && is_too_much(service, work))) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    *out_work = work;
    const struct auth *auth = state_machine_auth(service->machine);
    if (auth_is_enabled(auth)) {
        status = refusals_note(
            service, caller,
            auth_check_command(auth, state_machine_leases(service->machine), caller, command),
            refusals_name_of(command));
    }
    /* Last: it may raise the alarm, for which one needs the right to write. */
    return status == STATUS_OK ? quota_check(service, command) : status;
}

/* While authentication is on, a command takes its caller along. */
static void submit_as(struct service *service, const struct caller *caller,
                      struct service_request *request, const struct command *command, size_t work) {
    if (auth_is_enabled(state_machine_auth(service->machine)) && !auth_is_server_command(command)) {
        const struct command as = {.type = COMMAND_AS,
                                   .as = {.caller = *caller, .command = command}};
        gather(service, request, &as, work);
    } else {
        gather(service, request, command, work);
    }
}

bool service_is_congested(const struct service *service) {
    return service->proposals.pending_bytes > PROPOSALS_CONGESTED_BYTES;
}

void service_submit(struct service *service, const struct caller *caller,
                    struct service_request *request, const struct command *command) {
    size_t work = 0;
    enum status status = check_submitted(service, caller, command, &work);
    if (status != STATUS_OK) {
        proposals_refuse(service, request, status);
        return;
    }
    if (command->type == COMMAND_LEASE_GRANT && command->grant.id == 0) {
        struct command with_id = *command;
        with_id.grant.id = choose_lease_id(service);
        submit_as(service, caller, request, &with_id, work);
        return;
    }
    submit_as(service, caller, request, command, work);
}

/* --- Taking back. --- */

/* Commands lie in the order of their requests. */
static bool withdraw_from(struct service *service, struct proposal *proposal,
                          struct service_request *request) {
    struct buffer *commands = &proposal->commands;
    size_t offset = 0;
    struct list *node = proposal->requests.next;
    while (node != &proposal->requests && node != &request->private.link) {
        offset += list_entry(node, struct service_request, private.link)->private.size;
        node = node->next;
    }
    if (node == &proposal->requests) {
        return false;
    }
    size_t size = request->private.size;
    assert(commands->size >= offset + size);
    memmove(commands->data + offset, commands->data + offset + size,
            commands->size - offset - size);
    commands->size -= size;
    service->proposals.pending_bytes -= size;
    proposal->n_commands--;
    list_remove(node);
    return true;
}

bool service_withdraw(struct service *service, struct service_request *request) {
    if (service->proposals.open != NULL &&
        withdraw_from(service, service->proposals.open, request)) {
        return true;
    }
    const struct list *ready = &service->proposals.ready;
    for (struct list *node = ready->next; node != ready; node = node->next) {
        if (withdraw_from(service, list_entry(node, struct proposal, link), request)) {
            return true;
        }
    }
    return false;
}
