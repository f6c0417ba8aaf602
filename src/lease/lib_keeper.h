/*
 * When a session is to be renewed, how long it is certainly valid, and what its owner must be told:
 * pure, time is an argument. A renewal counts from the moment it was sent, less a tenth of the TTL
 * for clocks that run at different rates (as the server's leader lease, decision 0012), so the end
 * here is always before the end there (safety rule 2). What was once not valid never is again.
 */
#ifndef LEASED_LEASE_LIB_KEEPER_H
#define LEASED_LEASE_LIB_KEEPER_H

#include <lease.h>

enum { LIB_KEEPER_DRIFT_PARTS = 10 };

/* Longer ones are cut: no sum overflows. 31,688 years. */
#define LIB_KEEPER_TTL_MS_MAX INT64_C(1000000000000000)
#define LIB_KEEPER_NEVER UINT64_MAX

struct lib_keeper {
    enum lease_strategy strategy;
    enum lease_session_state state;
    int64_t ttl_ms;
    int64_t ttl_ms_max; /* longer ones are not believed: it was changed, or may have been */
    uint64_t sent_ms;   /* of the last success */
    bool is_asking;     /* a renewal is under way */
    uint64_t asked_ms;  /* since when */
    uint64_t retry_ms;  /* not before, after a failure */
    bool has_failed;    /* since the last success */
    bool was_touched;   /* since the last renewal was sent */
    bool wants_renewal; /* lease_session_renew() was called */
};

/* What the keeper's owner has to do; several at once. */
enum {
    LIB_KEEPER_RENEW = 1,    /* send one now, then lib_keeper_asked() */
    LIB_KEEPER_JEOPARDY = 2, /* tell it */
    LIB_KEEPER_RESTORED = 4,
    LIB_KEEPER_LOST = 8,
    LIB_KEEPER_LATE = 16 /* the server does not answer: try another */
};

/* The usual TTL and strategy of a class. */
int64_t lib_keeper_usual_ttl_ms(enum lease_class lease_class);
enum lease_strategy lib_keeper_usual_strategy(enum lease_class lease_class);

/* A session that was granted by a request sent at `sent_ms`. */
void lib_keeper_start(struct lib_keeper *keeper, enum lease_strategy strategy, int64_t ttl_ms,
                      uint64_t sent_ms);

/* The first moment in which it is not certainly valid. */
uint64_t lib_keeper_valid_until_ms(const struct lib_keeper *keeper);
/* 0: not valid. */
int64_t lib_keeper_valid_for_ms(const struct lib_keeper *keeper, uint64_t now_ms);

/* When lib_keeper_poll() has something to say at the latest; LIB_KEEPER_NEVER. */
uint64_t lib_keeper_wake_ms(const struct lib_keeper *keeper);
unsigned lib_keeper_poll(struct lib_keeper *keeper, uint64_t now_ms);

void lib_keeper_touch(struct lib_keeper *keeper);
/* A renewal is wanted whatever the strategy says. */
void lib_keeper_want(struct lib_keeper *keeper);

/* A renewal is sent. */
void lib_keeper_asked(struct lib_keeper *keeper, uint64_t now_ms);
/* It succeeded, with the TTL that the server said. */
unsigned lib_keeper_renewed(struct lib_keeper *keeper, int64_t ttl_ms, uint64_t now_ms);
/* It failed, and nobody knows whether the server renewed. */
unsigned lib_keeper_failed(struct lib_keeper *keeper, uint64_t now_ms);
/* The server says that the session has ended. */
unsigned lib_keeper_ended(struct lib_keeper *keeper);
/* Another TTL is about to be asked for: the server may count that one, anew, from now on. */
void lib_keeper_change(struct lib_keeper *keeper, int64_t ttl_ms, uint64_t now_ms);
/* The server took it, by a request sent at `sent_ms`. */
unsigned lib_keeper_changed(struct lib_keeper *keeper, int64_t ttl_ms, uint64_t sent_ms,
                            uint64_t now_ms);
/* The owner ended it: nothing is told any more. */
void lib_keeper_stop(struct lib_keeper *keeper);

#endif
