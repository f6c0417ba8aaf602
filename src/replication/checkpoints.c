/* What the next leader must know of leases that nobody renews, and what a renewal of such a lease
 * has to take back through the log before it is acknowledged (safety rule 6). Clients that renew in
 * time never come here. */
#include "replication/service_internal.h"

#include <stdlib.h>

struct checkpoint_batch {
    struct service_request request;
    struct service *service;
    size_t n;
    int64_t ids[EXPIRY_BATCH_MAX];
    uint32_t epochs[EXPIRY_BATCH_MAX];
    int64_t remaining_ms[EXPIRY_BATCH_MAX]; /* all 0 in a batch that clears */
    struct list renewals;                   /* that wait for it */
};

static struct checkpoint_batch *batch_create(struct service *service) {
    struct checkpoint_batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL) {
        abort();
    }
    batch->service = service;
    list_init(&batch->renewals);
    return batch;
}

static void batch_submit(struct checkpoint_batch *batch) {
    struct command command = {.type = COMMAND_LEASE_CHECKPOINT};
    command.checkpoint.term = raft_current_term(&batch->service->raft);
    command.checkpoint.n = batch->n;
    command.checkpoint.ids = batch->ids;
    command.checkpoint.epochs = batch->epochs;
    command.checkpoint.remaining_ms = batch->remaining_ms;
    proposals_submit(batch->service, &batch->request, &command);
}

/* --- Noting. --- */

static void batch_noted(struct service_request *request, const struct outcome *outcome) {
    struct checkpoint_batch *batch = list_entry(request, struct checkpoint_batch, request);
    struct service *service = batch->service;
    (void)outcome; /* the next stage says it again, or the next leader gives more than it had to */
    for (size_t i = 0; i < batch->n; i++) {
        lease_table_noted(state_machine_leases(service->machine), batch->ids[i], batch->epochs[i]);
    }
    service->is_noting = false;
    free(batch);
}

void checkpoints_note(struct service *service, uint64_t lease_now_ms) {
    struct lease_table *leases = state_machine_leases(service->machine);
    if (service->is_noting || !lease_table_has_overdue(leases)) {
        return;
    }
    struct lease_overdue *overdue = calloc(EXPIRY_BATCH_MAX, sizeof *overdue);
    if (overdue == NULL) {
        abort();
    }
    size_t n = lease_table_take_overdue(leases, lease_now_ms, overdue, EXPIRY_BATCH_MAX);
    if (n > 0) {
        struct checkpoint_batch *batch = batch_create(service);
        for (size_t i = 0; i < n; i++) {
            batch->ids[i] = overdue[i].id;
            batch->epochs[i] = overdue[i].epoch;
            batch->remaining_ms[i] = overdue[i].remaining_ms;
        }
        batch->n = n;
        batch->request.done = batch_noted;
        service->is_noting = true;
        service->counters.checkpoints += n;
        batch_submit(batch);
    }
    free(overdue);
}

/* --- Clearing. --- */

/* Asked anew: the lease has no checkpoint any more and is renewed from memory; or this node lost
 * its word, and another is asked; or the expiry of the lease is on its way. */
static void batch_cleared(struct service_request *request, const struct outcome *outcome) {
    struct checkpoint_batch *batch = list_entry(request, struct checkpoint_batch, request);
    (void)outcome;
    for (struct list *node; (node = list_pop_first(&batch->renewals)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, link);
        int64_t ttl_ms = 0;
        enum status status = service_ask(batch->service, renewal, &ttl_ms);
        if (status != STATUS_PENDING) {
            renewal->done(renewal, status, ttl_ms);
        }
    }
    free(batch);
}

void checkpoints_clear(struct service *service, struct service_renewal *renewal, uint32_t epoch) {
    if (service->clearing == NULL) {
        service->clearing = batch_create(service);
    }
    struct checkpoint_batch *batch = service->clearing;
    batch->ids[batch->n] = renewal->id;
    batch->epochs[batch->n] = epoch;
    batch->n++;
    list_append(&batch->renewals, &renewal->link);
    if (batch->n == EXPIRY_BATCH_MAX) {
        checkpoints_flush(service);
    }
}

void checkpoints_flush(struct service *service) {
    struct checkpoint_batch *batch = service->clearing;
    if (batch == NULL) {
        return;
    }
    service->clearing = NULL;
    batch->request.done = batch_cleared;
    batch_submit(batch);
}
