/* The end of a call in a queue: its key is taken away, through changes of the leader too. */
#include "doors/etcd/etcd_place.h"
#include "doors/etcd/etcd_queue_call.h"

#include <assert.h>
#include <stdlib.h>

/* Withdrawals are tried again at every tick for at most as long as most leases live. */
enum { WITHDRAWALS_MAX = ETCD_SESSION_TTL_MS / ETCD_TICK_MS };

static void stop_waiting(struct etcd_place *place) {
    service_unwatch(etcd_place_service(place), &place->own);
    service_unwatch(etcd_place_service(place), &place->before);
    list_remove(&place->woken_link);
    list_remove(&place->session_link);
    etcd_queues_settle_ticker(place->queues);
}

void etcd_place_destroy_if_over(struct etcd_place *place) {
    if (place->state != PLACE_OVER || place->is_submitted || place->is_reading ||
        place->is_renewing) {
        return;
    }
    assert(place->call == NULL);
    list_remove(&place->link);
    place->queues->n_places--;
    buffer_clear(&place->join);
    free(place->key);
    free(place);
}

void etcd_place_forget_call(struct etcd_place *place) {
    if (place->call != NULL) {
        grpc_call_set_data(place->call, NULL);
        grpc_call_release(place->call, place->held);
        place->call = NULL;
    }
}

void etcd_place_end(struct etcd_place *place) {
    stop_waiting(place);
    place->state = PLACE_OVER;
    etcd_place_destroy_if_over(place);
}

static void withdrawn(struct service_request *request, const struct outcome *outcome);

void etcd_place_withdraw(struct etcd_place *place) {
    const struct etcd_withdrawal withdrawal = {.name = etcd_place_name(place),
                                               .lease_id = place->joined.lease_id,
                                               .create_revision = place->joined.create_revision,
                                               .version = place->joined.version,
                                               .epoch = place->joined.epoch,
                                               .ends_lease = place->owns_lease};
    struct buffer request;
    buffer_init(&request);
    etcd_withdrawal_encode(&request, &withdrawal);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = ETCD_RULE_WITHDRAW, .request = bytes_of(request.data, request.size)}};
    place->request.done = withdrawn;
    place->is_submitted = true;
    place->n_withdrawals++;
    /* The server's own work: a client whose rights were taken away still leaves nothing behind. */
    service_submit(etcd_place_service(place), &caller_server, &place->request, &command);
    buffer_clear(&request);
}

static void withdrawn(struct service_request *request, const struct outcome *outcome) {
    struct etcd_place *place = list_entry(request, struct etcd_place, request);
    place->is_submitted = false;
    if (outcome->status == STATUS_OK || outcome->status == STATUS_STOPPED ||
        place->n_withdrawals >= WITHDRAWALS_MAX) {
        etcd_place_end(place);
    } else {
        etcd_place_wake_later(place);
    }
}

void etcd_place_leave(struct etcd_place *place) {
    stop_waiting(place);
    place->state = PLACE_LEAVING;
    etcd_place_withdraw(place);
}

void etcd_place_finish(struct etcd_place *place, const struct etcd_error *error) {
    if (place->call != NULL) {
        etcd_error_finish(place->call, error);
    }
    etcd_place_forget_call(place);
}

void etcd_place_fail(struct etcd_place *place, enum status status) {
    etcd_place_finish(place, etcd_queue_error_of(status));
    etcd_place_leave(place);
}

void etcd_place_lose(struct etcd_place *place) {
    etcd_place_finish(place, place->kind->lost);
    if (place->owns_lease) {
        etcd_place_leave(place); /* the lease may be there without its key */
    } else {
        etcd_place_end(place);
    }
}
