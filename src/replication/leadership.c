/* When this node may serve: it leads, and an entry of its own term has been applied (safety
 * rule 5). Alone, it leads as soon as it has started. */
#include "base/clock.h"
#include "base/log.h"
#include "replication/service_internal.h"

static void serve_reads(struct service *service, enum status status) {
    struct list reads;
    list_init(&reads);
    list_append_all(&reads, &service->waiting_reads);
    for (struct list *node; (node = list_pop_first(&reads)) != NULL;) {
        struct service_read *read = list_entry(node, struct service_read, link);
        read->ready(read, status);
    }
}

void leadership_fail_reads(struct service *service, enum status status) {
    serve_reads(service, status);
}

static void barrier_done(struct service_request *request, const struct outcome *outcome) {
    struct service *service = list_entry(request, struct service, barrier);
    if (outcome->status != STATUS_OK) {
        service->barrier_term = 0;
        return;
    }
    service->serving = true;
    lease_table_lead(state_machine_leases(service->machine), clock_boottime_ms());
    log_info("leading", LOG_NUMBER("term", service->barrier_term),
             LOG_NUMBER("leases", lease_table_count(state_machine_leases(service->machine))));
    serve_reads(service, STATUS_OK);
}

void leadership_poll(struct service *service) {
    if (service->closing || service->failed) {
        return;
    }
    bool leads = raft_state(&service->raft) == RAFT_LEADER;
    uint64_t term = raft_current_term(&service->raft);
    if (leads && service->barrier_term != term) {
        service->barrier_term = term;
        service->barrier.done = barrier_done;
        struct command command = {.type = COMMAND_BARRIER};
        proposals_submit(service, &service->barrier, &command);
    } else if (!leads && service->barrier_term != 0) {
        service->barrier_term = 0;
        service->serving = false;
        lease_table_follow(state_machine_leases(service->machine));
        log_warning("no longer leading", LOG_NUMBER("term", term));
    }
}

enum status service_read(struct service *service, struct service_read *read) {
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    if (service->serving) {
        return STATUS_OK;
    }
    list_append(&service->waiting_reads, &read->link);
    return STATUS_PENDING;
}
