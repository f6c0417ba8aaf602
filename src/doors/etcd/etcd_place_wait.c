/* A call that waits for the key before its own, and watches its own. */
#include "doors/etcd/etcd_place.h"
#include "doors/etcd/etcd_queue_call.h"

static bool deliver_own(struct service_watch *watch, const struct watch_batch *batch) {
    (void)batch;
    etcd_place_wake(list_entry(watch, struct etcd_place, own));
    return true;
}

static bool deliver_before(struct service_watch *watch, const struct watch_batch *batch) {
    (void)batch;
    etcd_place_wake(list_entry(watch, struct etcd_place, before));
    return true;
}

static void own_compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct etcd_place *place = list_entry(watch, struct etcd_place, own);
    (void)compacted_revision;
    place->is_watching_own = false;
    etcd_place_wake(place);
}

static void before_compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    etcd_place_wake(list_entry(watch, struct etcd_place, before));
}

static void own_revoked(struct service_watch *watch, enum status status) {
    struct etcd_place *place = list_entry(watch, struct etcd_place, own);
    place->refused = status;
    etcd_place_wake(place);
}

static void before_revoked(struct service_watch *watch, enum status status) {
    struct etcd_place *place = list_entry(watch, struct etcd_place, before);
    place->refused = status;
    etcd_place_wake(place);
}

void etcd_place_init_watches(struct etcd_place *place) {
    place->own.deliver = deliver_own;
    place->own.compacted = own_compacted;
    place->own.revoked = own_revoked;
    place->before.deliver = deliver_before;
    place->before.compacted = before_compacted;
    place->before.revoked = before_revoked;
}

static enum status watch_for_end(struct etcd_place *place, struct service_watch *watch,
                                 struct bytes key) {
    const struct service_watch_options options = {.range = {.space = KEY_SPACE_ETCD, .key = key},
                                                  .without_puts = true};
    return service_watch(etcd_place_service(place), &place->caller, watch, &options);
}

/* Finds what to wait for. What is read and what is watched from now on is the same state. */
void etcd_place_seek(struct etcd_place *place) {
    struct etcd_door *door = place->queues->door;
    service_unwatch(door->service, &place->before);
    if (place->refused != STATUS_OK) {
        etcd_place_fail(place, place->refused);
        return;
    }
    if (etcd_place_record(place) == NULL) {
        etcd_place_lose(place);
        return;
    }
    size_t work = etcd_queue_count(door, etcd_place_name(place));
    place->queues->n_sought += work;
    if (work > ETCD_QUEUE_RECORDS_MAX) {
        etcd_place_fail(place, STATUS_TOO_MANY_REQUESTS);
        return;
    }
    const struct record *before =
        etcd_queue_before(door, etcd_place_name(place), place->joined.create_revision);
    if (before == NULL && place->owns_lease) {
        /* Whoever is told has most of the time of the lease before it. */
        place->state = PLACE_RENEWING;
        etcd_place_renew(place);
        return;
    }
    if (before == NULL) {
        etcd_place_confirm(place);
        return;
    }
    enum status status = STATUS_OK;
    if (!place->is_watching_own) {
        status = watch_for_end(place, &place->own, etcd_place_key(place));
        place->is_watching_own = status == STATUS_OK;
    }
    if (status == STATUS_OK) {
        status = watch_for_end(place, &place->before, record_key(before));
    }
    if (status != STATUS_OK) {
        etcd_place_fail(place, status);
    }
}
