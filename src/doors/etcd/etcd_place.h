/*
 * One call in the queue of a lock or an election, from its entry to its end, for the files that
 * carry it on: etcd_queue.c (entering, and who is to go on), etcd_place_wait.c (for the key before
 * its own), etcd_place_first.c (renewing its lease, confirming, answering) and etcd_place_leave.c
 * (its end, and the withdrawal of its key).
 *
 * Any of the functions here may end the place, and free it: the caller does not look at it again.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_PLACE_H
#define LEASED_DOORS_ETCD_ETCD_PLACE_H

#include "doors/etcd/etcd_queue.h"
#include "doors/etcd/etcd_queue_rules.h"

enum place_state {
    PLACE_JOINING,
    PLACE_WAITING,    /* for the key before it */
    PLACE_RENEWING,   /* it is first here: its own lease, before it is answered */
    PLACE_CONFIRMING, /* is it so for the leader? */
    PLACE_LEAVING,
    PLACE_OVER
};

struct etcd_place {
    struct grpc_call *call; /* NULL: the client is gone or was answered */
    struct etcd_queues *queues;
    const struct etcd_place_kind *kind;
    struct caller caller;
    enum place_state state;
    enum status refused; /* why its watches ended */
    struct list link;
    struct list woken_link; /* of those that are woken now or at the next tick */
    struct list session_link;
    struct service_request request;
    struct service_read read;
    struct service_renewal renewal;
    bool is_submitted; /* it is with the service */
    bool is_reading;
    bool is_renewing;
    bool owns_lease; /* it was granted for this call */
    bool is_watching_own;
    struct service_watch own;
    struct service_watch before;
    struct etcd_joined joined;
    int64_t joined_revision;
    uint64_t renewed_ms;
    struct buffer join; /* the request, until it was carried out */
    size_t n_joins;
    size_t n_withdrawals;
    size_t name_size;
    size_t key_size;
    uint8_t *key; /* its name is its beginning */
    size_t held;
};

struct etcd_queues {
    struct etcd_door *door;
    struct list places;
    size_t n_places;
    struct list woken;
    struct list later;    /* to be woken at the next tick */
    struct list sessions; /* by renewed_ms: their leases are renewed here */
    uv_timer_t timer;     /* runs those that were woken */
    size_t n_sought;      /* records looked at in this iteration */
    struct etcd_ticker ticker;
    bool is_ticking;
};

static inline struct bytes etcd_place_name(const struct etcd_place *place) {
    return bytes_of(place->key, place->name_size);
}

static inline struct bytes etcd_place_key(const struct etcd_place *place) {
    return bytes_of(place->key, place->key_size);
}

static inline struct service *etcd_place_service(const struct etcd_place *place) {
    return place->queues->door->service;
}

/* --- etcd_queue.c --- */

/* It goes on in the next iteration of the loop. Callbacks of watches must not begin or end any. */
void etcd_place_wake(struct etcd_place *place);
/* The same, at the next tick. */
void etcd_place_wake_later(struct etcd_place *place);
/* The ticker runs while somebody needs it. */
void etcd_queues_settle_ticker(struct etcd_queues *queues);

/* --- etcd_place_wait.c --- */

void etcd_place_init_watches(struct etcd_place *place);
/* Finds what to wait for, or that it is first. */
void etcd_place_seek(struct etcd_place *place);

/* --- etcd_place_first.c --- */

/* Tells the client that it is first; what was seen is of this revision. */
void etcd_place_answer(struct etcd_place *place, int64_t revision);
/* Asks the leader whether it is first, and then answers. */
void etcd_place_confirm(struct etcd_place *place);
/* The lease that was granted for the call is renewed from now on. */
void etcd_place_keep_session(struct etcd_place *place);
bool etcd_place_is_renewal_due(const struct etcd_place *place, uint64_t now_ms);
void etcd_place_renew(struct etcd_place *place);
/* Its key, as this member has it; NULL: it is gone. */
const struct record *etcd_place_record(const struct etcd_place *place);

/* --- etcd_place_leave.c --- */

/* The call is over, and was not told that it is first: its key is taken away. */
void etcd_place_leave(struct etcd_place *place);
/* Tries again to take it away. */
void etcd_place_withdraw(struct etcd_place *place);
/* Ends the call with an error; the place goes on. */
void etcd_place_finish(struct etcd_place *place, const struct etcd_error *error);
/* The call no longer belongs to the place. */
void etcd_place_forget_call(struct etcd_place *place);
/* Ends the call with an error, and leaves. */
void etcd_place_fail(struct etcd_place *place, enum status status);
/* Its key is gone: the lease has ended. */
void etcd_place_lose(struct etcd_place *place);
/* Nothing of it is in the queue any more. Freed when the service has given everything back. */
void etcd_place_end(struct etcd_place *place);
void etcd_place_destroy_if_over(struct etcd_place *place);

#endif
