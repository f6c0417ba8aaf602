/* A call whose key is first: its lease is renewed, the leader confirms, the client is told. */
#include "base/clock.h"
#include "doors/etcd/etcd_place.h"

/* A lease of the server is renewed so often in its time. */
enum { RENEWALS_A_TTL = 3 };

void etcd_place_answer(struct etcd_place *place, int64_t revision) {
    const struct etcd_place_facts facts = {.name = etcd_place_name(place),
                                           .key = etcd_place_key(place),
                                           .lease_id = place->joined.lease_id,
                                           .create_revision = place->joined.create_revision,
                                           .joined_revision = place->joined_revision,
                                           .revision = revision};
    if (grpc_call_is_over(place->call)) {
        /* Its client left, or its time is up, and on_close is still to come: nobody is told. */
        etcd_place_forget_call(place);
        etcd_place_leave(place);
        return;
    }
    place->kind->answer(place->call, &facts);
    etcd_place_forget_call(place);
    etcd_place_end(place);
}

static void answer_now(struct etcd_place *place) {
    etcd_place_answer(place, key_store_revision(etcd_keys(place->queues->door)));
}

/* The wait goes on when it is the cluster that cannot answer just now. */
static bool is_passing(enum status status) {
    return status == STATUS_NO_LEADER || status == STATUS_LEADER_CHANGED ||
           status == STATUS_TIMED_OUT || status == STATUS_TOO_MANY_REQUESTS ||
           status == STATUS_AUTH_OLD_REVISION;
}

void etcd_place_keep_session(struct etcd_place *place) {
    list_append(&place->queues->sessions, &place->session_link);
    etcd_queues_settle_ticker(place->queues);
}

static void renewed(struct etcd_place *place, enum status status) {
    place->renewed_ms = service_now_ms(etcd_place_service(place));
    if (place->state == PLACE_RENEWING) {
        if (place->call == NULL) {
            etcd_place_leave(place);
        } else if (status == STATUS_OK) {
            /* It may have taken long, and somebody may have deleted the key meanwhile. */
            place->state = PLACE_CONFIRMING;
            etcd_place_keep_session(place);
            etcd_place_wake(place);
        } else if (is_passing(status)) {
            etcd_place_wake_later(place);
        } else if (status == STATUS_LEASE_NOT_FOUND) {
            etcd_place_lose(place);
        } else {
            etcd_place_fail(place, status);
        }
        return;
    }
    if (place->state == PLACE_WAITING || place->state == PLACE_CONFIRMING) {
        etcd_place_keep_session(place);
    }
    etcd_place_destroy_if_over(place);
}

static void on_renewed(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct etcd_place *place = list_entry(renewal, struct etcd_place, renewal);
    (void)ttl_ms;
    place->is_renewing = false;
    renewed(place, status);
}

void etcd_place_renew(struct etcd_place *place) {
    if (place->is_renewing) {
        return; /* its answer counts */
    }
    list_remove(&place->session_link);
    place->renewal.id = place->joined.lease_id;
    place->renewal.owner = KEY_SPACE_ETCD;
    place->renewal.done = on_renewed;
    int64_t ttl_ms;
    enum status status =
        service_renew(etcd_place_service(place), &place->caller, &place->renewal, &ttl_ms);
    if (status == STATUS_PENDING) {
        place->is_renewing = true;
    } else {
        renewed(place, status);
    }
}

bool etcd_place_is_renewal_due(const struct etcd_place *place, uint64_t now_ms) {
    return clock_elapsed_ms(now_ms, place->renewed_ms) >= ETCD_SESSION_TTL_MS / RENEWALS_A_TTL;
}

const struct record *etcd_place_record(const struct etcd_place *place) {
    const struct record *record =
        key_store_find(etcd_keys(place->queues->door), KEY_SPACE_ETCD, etcd_place_key(place));
    return record != NULL && record->create_revision == place->joined.create_revision ? record
                                                                                      : NULL;
}

static void confirmed(struct etcd_place *place, enum status status) {
    if (place->call == NULL) {
        etcd_place_leave(place);
    } else if (is_passing(status)) {
        etcd_place_wake_later(place);
    } else if (status != STATUS_OK) {
        etcd_place_fail(place, status);
    } else if (etcd_place_record(place) == NULL) {
        etcd_place_lose(place);
    } else {
        answer_now(place);
    }
}

static void on_confirmed(struct service_read *read, enum status status) {
    struct etcd_place *place = list_entry(read, struct etcd_place, read);
    place->is_reading = false;
    confirmed(place, status);
}

/* This member may be behind: the lease may have ended meanwhile. A key that is still there is still
 * first: no key comes before one that exists. */
void etcd_place_confirm(struct etcd_place *place) {
    place->state = PLACE_CONFIRMING;
    place->read.ready = on_confirmed;
    const struct key_range range = {.space = KEY_SPACE_ETCD, .key = etcd_place_key(place)};
    enum status status =
        service_read(etcd_place_service(place), &place->caller, &place->read, &range, 1);
    if (status == STATUS_PENDING) {
        place->is_reading = true;
    } else {
        confirmed(place, status);
    }
}
