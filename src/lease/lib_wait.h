/*
 * Acquisitions under way and what became of them. lib_wait.c keeps them, lib_native_wait.c and
 * lib_etcd_wait.c carry them out in the words of each protocol.
 */
#ifndef LEASED_LEASE_LIB_WAIT_H
#define LEASED_LEASE_LIB_WAIT_H

#include "base/arena.h"
#include "lease/lib_session.h"

/* The grace: a wait that the server should have ended by its own clock is ended here. */
enum { LIB_REQUEST_ID_SIZE = 40, LIB_WAIT_GRACE_MS = 1000 };

/* In the words of etcd. */
struct lib_etcd_place {
    const char *key;  /* that is the lock; NULL: of leased.v1 */
    bool is_in_doubt; /* it may be made again when it has been given back */
};

struct lease_hold {
    struct lease_connection *connection;
    struct lease_session *session;
    struct arena arena; /* of what the acquisition points to */
    struct lease_acquisition acquisition;
    uint64_t limit_ms; /* not valid from then on, by its hold limit; UINT64_MAX: none */
    struct lib_etcd_place place;
    uint32_t n_ends;   /* how often somebody began to give it back or to hand it on */
    bool has_farewell; /* the library goes on giving it back */
};

struct lib_etcd_wait;

struct lease_wait {
    struct list link; /* in the connection's waits, until it is over */
    struct lease_connection *connection;
    struct lease_session *session; /* NULL: gone */
    struct arena arena;            /* of the options */
    struct lease_want *wants;
    size_t n_wants;
    char *value;
    int64_t hold_limit_ms;
    uint32_t queue_limit;
    bool waits;           /* false: LEASE_NO_WAIT */
    uint64_t deadline_ms; /* 0: none */
    char request_id[LIB_REQUEST_ID_SIZE];
    lease_progress_callback *on_progress;
    void *progress_context;
    lease_acquired *done;
    void *done_context;

    bool is_over;
    bool is_destroyed; /* its owner has gone; memory goes with the last notice */
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
    struct lease_hold *hold; /* until somebody took it */

    uint64_t begin_ms; /* when it is to be begun, again perhaps; UINT64_MAX: it has been */
    /* Of leased.v1: */
    struct lib_call *call;
    uint64_t asked_ms;      /* when the call was begun */
    bool is_answered;       /* the call has told its place, which is acquisition_id */
    int64_t acquisition_id; /* 0: not known */
    bool may_have_place;    /* a call was lost that may have a place, perhaps another one */
    bool asks_for_limit;    /* it has it, and wants to know what is left of its hold limit */
    bool was_authenticated_again;
    /* Of etcd: */
    struct lib_etcd_wait *etcd;
};

/* With the mutex held: */
void lib_waits_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_waits_wake_ms(const struct lease_connection *connection);
/* The session is over: its waits end with LEASE_LOST, and its farewells are given up soon. */
void lib_waits_lost(struct lease_session *session, const char *reason);

/* For the two protocols: the end of a wait, and what is told on the way. The arena's contents move
 * into the hold, which is valid until `limit_ms` at most (UINT64_MAX: no hold limit). */
void lib_wait_fail(struct lease_wait *wait, enum lease_status status, const char *text);
void lib_wait_succeed(struct lease_wait *wait, struct arena *arena,
                      const struct lease_acquisition *acquisition, struct lib_etcd_place place,
                      uint64_t limit_ms);
/* A lost connection: it is begun again in a moment. */
void lib_wait_again(struct lease_wait *wait);
/* `progress` is copied. */
void lib_wait_tell(struct lease_wait *wait, const struct lease_progress *progress);

/* ---- lib_native_wait.c ---- */

void lib_native_wait_begin(struct lease_wait *wait);
/* Leaves the queue, and gives back what may have been acquired meanwhile. */
void lib_native_wait_leave(struct lease_wait *wait);
void lib_native_encode_release(const struct lease_hold *hold, struct lib_request *out_request);

/* ---- lib_etcd_wait.c ---- */

void lib_etcd_wait_begin(struct lease_wait *wait);
void lib_etcd_wait_leave(struct lease_wait *wait);
void lib_etcd_wait_free(struct lib_etcd_wait *etcd);
void lib_etcd_encode_release(const struct lease_hold *hold, struct lib_request *out_request);
/* False: the answer is malformed. */
bool lib_etcd_decode_release(struct bytes message, bool *out_released);

#endif
