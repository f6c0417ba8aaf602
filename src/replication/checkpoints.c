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
    command.checkpoint.term = raft_engine_term(batch->service->engine);
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
    service->checkpoints.n_noting--;
    free(batch);
}

static void submit_overdue(struct service *service, const struct lease_overdue *overdue, size_t n) {
    if (n == 0) {
        return;
    }
    struct checkpoint_batch *batch = batch_create(service);
    for (size_t i = 0; i < n; i++) {
        batch->ids[i] = overdue[i].id;
        batch->epochs[i] = overdue[i].epoch;
        batch->remaining_ms[i] = overdue[i].remaining_ms;
    }
    batch->n = n;
    batch->request.done = batch_noted;
    service->checkpoints.n_noting++;
    service->counters.checkpoints += n;
    batch_submit(batch);
}

/* Needs no leader lease: what it says is true whoever leads next, and in another term it says
 * nothing. So a new leader can tell at once what it has counted down, before it may answer anybody:
 * leaders that live for a moment only do not keep a lease alive. */
static void note(struct service *service) {
    struct lease_table *leases = state_machine_leases(service->machine);
    /* What ends now goes first. */
    bool has_to_wait = service->checkpoints.n_noting > 0 || expiry_is_under_way(service);
    if (!service->leadership.serving || has_to_wait || !lease_table_has_overdue(leases)) {
        return;
    }
    struct lease_overdue *overdue = calloc(EXPIRY_BATCH_MAX, sizeof *overdue);
    if (overdue == NULL) {
        abort();
    }
    submit_overdue(
        service, overdue,
        lease_table_take_overdue(leases, expiry_now_ms(service), overdue, EXPIRY_BATCH_MAX));
    free(overdue);
}

/* --- Clearing. --- */

/* Asked anew: the lease has no checkpoint any more and is renewed from memory; or this node lost
 * its word, and another is asked; or the expiry of the lease is on its way. */
static void batch_cleared(struct service_request *request, const struct outcome *outcome) {
    struct checkpoint_batch *batch = list_entry(request, struct checkpoint_batch, request);
    (void)outcome;
    for (struct list *node; (node = list_pop_first(&batch->renewals)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        int64_t ttl_ms = 0;
        enum status status = service_ask(batch->service, renewal, &ttl_ms);
        if (status != STATUS_PENDING) {
            renewal->done(renewal, status, ttl_ms);
        }
    }
    free(batch);
}

void checkpoints_clear(struct service *service, struct service_renewal *renewal, uint32_t epoch) {
    if (service->checkpoints.clearing == NULL) {
        service->checkpoints.clearing = batch_create(service);
    }
    struct checkpoint_batch *batch = service->checkpoints.clearing;
    batch->ids[batch->n] = renewal->id;
    batch->epochs[batch->n] = epoch;
    batch->n++;
    list_append(&batch->renewals, &renewal->private.link);
    if (batch->n == EXPIRY_BATCH_MAX) {
        checkpoints_flush(service);
    }
}

void checkpoints_flush(struct service *service) {
    struct checkpoint_batch *batch = service->checkpoints.clearing;
    if (batch == NULL) {
        return;
    }
    service->checkpoints.clearing = NULL;
    batch->request.done = batch_cleared;
    batch_submit(batch);
}

void checkpoints_poll(struct service *service) {
    if (service->closing || service->failed) {
        return;
    }
    note(service);
    checkpoints_flush(service);
}
