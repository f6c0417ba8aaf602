/*
 * What the native API changes, as rules: one struct for each request and each answer, with its
 * codec. Everything that one of them changes is one revision. Every end of a holder, whatever ends
 * it (release, end of the session, expiry, hold limit, transfer), hands over in the same revision,
 * in the order of the queues.
 *
 * The order. A resource is granted to a waiter when no holder and no earlier waiter conflicts with
 * it: a shared one does not overtake an exclusive one. A pool is granted to the first of its queue
 * when enough slots are free. First come those that wait for this pool alone and whose owner has
 * fewer slots than its share, then all others, both by age. The share of an owner is its weight's
 * part of the slots, rounded down and at least one, among all owners that have or wait for some.
 * Whoever wants several things is granted all of them at once, when it is first in every queue.
 * Only those go before older ones that wait for nothing but slots of this one pool; therefore
 * nobody waits in a circle.
 *
 * Rights, while authentication is on: to acquire needs the right to write every name that is wanted
 * (core/auth_names.h); to use a session, in any way, the right to write the keys that are
 * attached to it. What is handed over to others needs no right of the one that gives.
 *
 * Every request is checked to the last byte: STATUS_MALFORMED, STATUS_INVALID (a name, a size or a
 * number that is out of bounds). STATUS_PERMISSION_DENIED and the other statuses of rule.h are
 * possible for all.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_RULES_H
#define LEASED_DOORS_NATIVE_NATIVE_RULES_H

#include "core/rule.h"
#include "doors/native/native_model.h"

/* 1 is rule_native_acquire of core. */
enum {
    NATIVE_RULE_SESSION_CREATE = 18 * 65536 + 2,
    NATIVE_RULE_SESSION_CHANGE,
    NATIVE_RULE_SESSION_END,
    NATIVE_RULE_SESSION_ENDED, /* the hook of a session's lease */
    NATIVE_RULE_ACQUIRE,
    NATIVE_RULE_RELEASE,
    NATIVE_RULE_HOLD_LIMIT, /* the hook of a lease that counts a hold limit */
    NATIVE_RULE_PROCLAIM,
    NATIVE_RULE_TRANSFER,
    NATIVE_RULE_POOL_SET,
    NATIVE_RULE_POOL_REMOVE,
    NATIVE_RULE_FENCE_CHECK,
    NATIVE_RULE_SETTLE
};

extern const struct rule native_rule_session_create;
extern const struct rule native_rule_session_change;
extern const struct rule native_rule_session_end;
extern const struct rule native_rule_session_ended;
extern const struct rule native_rule_acquire;
extern const struct rule native_rule_release;
extern const struct rule native_rule_hold_limit;
extern const struct rule native_rule_proclaim;
extern const struct rule native_rule_transfer;
extern const struct rule native_rule_pool_set;
extern const struct rule native_rule_pool_remove;
extern const struct rule native_rule_fence_check;
extern const struct rule native_rule_settle;
/* All of them: for the table of the door. */
enum { NATIVE_N_RULES = NATIVE_RULE_SETTLE - NATIVE_RULE_SESSION_CREATE + 1 };
extern const struct rule *const native_rules[NATIVE_N_RULES];

/* --- Sessions. --- */

/* STATUS_LEASE_EXISTS, _LEASE_NOT_FOUND (the parent), _LEASE_TTL_TOO_LARGE. */
struct native_session_create {
    struct bytes owner; /* not empty */
    struct bytes note;
    uint8_t class;
    uint8_t strategy;
    int64_t id;     /* 0: chosen */
    int64_t ttl_ms; /* NATIVE_TTL_MS_MIN to LEASE_TTL_MS_MAX */
    int64_t parent_id;
};
void native_session_create_encode(struct buffer *out, const struct native_session_create *create);
struct native_session_created {
    int64_t id;
};
bool native_session_created_decode(struct bytes answer, struct native_session_created *out_created);

/* Counts anew from now. STATUS_LEASE_NOT_FOUND. The answer is empty. */
struct native_session_change {
    int64_t session_id;
    int64_t ttl_ms;
};
void native_session_change_encode(struct buffer *out, const struct native_session_change *change);

/* Ends it and gives back all that it has. STATUS_LEASE_NOT_FOUND. The answer is empty. */
struct native_session_end {
    int64_t session_id;
    bool is_revoked; /* by somebody else than its holder: the record of its end says so */
};
void native_session_end_encode(struct buffer *out, const struct native_session_end *end);

/* --- Resources. --- */

/* STATUS_LEASE_NOT_FOUND (the session), STATUS_KEY_NOT_FOUND (a pool), STATUS_INVALID (also more
 * slots than the pool has), STATUS_TOO_MANY_REQUESTS (NATIVE_WAITERS_MAX wait, or
 * NATIVE_POOL_WAITERS_MAX), STATUS_TOO_MANY_KEYS (NATIVE_SESSION_KEYS_MAX), and those of a session
 * that is created. */
struct native_acquire {
    int64_t session_id;                   /* 0: one is created */
    struct native_session_create session; /* then */
    size_t n_wants;
    struct native_want wants[NATIVE_WANTS_MAX]; /* in any order */
    bool waits;                                 /* false: refused when it is not free now */
    uint32_t queue_limit; /* refused when so many or more wait before it; 0: no limit */
    struct bytes value;
    struct bytes request_id;
    int64_t hold_limit_ms; /* 0: none but the pools' */
};
void native_acquire_encode(struct buffer *out, const struct native_acquire *acquire);

enum native_acquire_result {
    NATIVE_RESULT_REFUSED = 0, /* not free, and it does not wait, or too many do: no change */
    NATIVE_RESULT_QUEUED = 1,
    NATIVE_RESULT_ACQUIRED = 2
};
struct native_acquired {
    enum native_acquire_result result;
    bool is_repeated;  /* it was there already, and has the answer of its first place */
    uint32_t n_before; /* that wait before it, at the want where most do */
    int64_t session_id;
    /* Unless it was refused; as of this revision. */
    struct native_acquisition acquisition;
};
bool native_acquired_decode(struct bytes answer, struct arena *arena,
                            struct native_acquired *out_acquired);

/* Gives back what was acquired, or leaves the queue. Only by the session that has it: a stale
 * holder frees nothing of a newer one. A call that goes away says which one it was; then only the
 * last one that came to share the place gives it back, and none of them what was acquired: another
 * one may have been told. */
struct native_release {
    int64_t acquisition_id;
    int64_t session_id;
    uint32_t call;    /* 0: whatever other calls share it */
    bool end_session; /* and all that it has; also when there is no such acquisition any more */
};
void native_release_encode(struct buffer *out, const struct native_release *release);
struct native_released {
    bool is_released; /* false: it was not there, or another call shares it */
    bool was_acquired;
};
bool native_released_decode(struct bytes answer, struct native_released *out_released);

/* Another value. The answer says whether there is such an acquisition of this session. */
struct native_proclaim {
    int64_t acquisition_id;
    int64_t session_id;
    struct bytes value;
};
void native_proclaim_encode(struct buffer *out, const struct native_proclaim *proclaim);
bool native_proclaimed_decode(struct bytes answer, bool *out_is_done);

/* Hands all that an acquisition has to another session, before everybody that waits: to its first
 * waiting acquisition of the same wants, if there is one, or else at once, as a new one; then both
 * sessions must be of the same user. STATUS_KEY_NOT_FOUND: there is no such acquisition, or it has
 * nothing yet; nobody of that owner waits for the same. STATUS_LEASE_NOT_FOUND: no such session. */
struct native_transfer {
    int64_t acquisition_id;
    int64_t session_id;
    int64_t to_session_id; /* 0: */
    struct bytes to_owner; /* the first that waits for the same */
};
void native_transfer_encode(struct buffer *out, const struct native_transfer *transfer);
struct native_transferred {
    struct native_acquisition acquisition; /* that has it now */
};
bool native_transferred_decode(struct bytes answer, struct arena *arena,
                               struct native_transferred *out_transferred);

/* --- Pools. --- */

/* Creates or changes it. Slots that are taken and not named any more go when they are given back.
 * The answer is empty. */
struct native_pool_set {
    struct bytes name;
    struct native_pool pool;
};
void native_pool_set_encode(struct buffer *out, const struct native_pool_set *set);

struct native_pool_remove {
    struct bytes name;
};
void native_pool_remove_encode(struct buffer *out, const struct native_pool_remove *remove);
enum native_pool_removal {
    NATIVE_POOL_REMOVED = 0,
    NATIVE_POOL_NOT_FOUND = 1,
    NATIVE_POOL_IN_USE = 2 /* somebody has a slot or waits: no change */
};
bool native_pool_removed_decode(struct bytes answer, enum native_pool_removal *out_removal);

/* --- Fences. --- */

/* Remembers the highest token that was shown for a resource, and refuses a lower one. The caller
 * needs the right to read and write the fence's key of etcd's space (native_fence_key()). */
struct native_fence_check {
    struct bytes resource;
    int64_t token; /* at least 1 */
};
void native_fence_check_encode(struct buffer *out, const struct native_fence_check *check);
struct native_fence_checked {
    bool is_accepted;
    int64_t highest;
};
bool native_fence_checked_decode(struct bytes answer, struct native_fence_checked *out_checked);

/* --- What is left to do. --- */

/* An end that concerns more queues or waiters than one run may look at leaves keys of the kind 'm'
 * (native_records()). Whoever sees one submits this rule, with an empty request, until the answer
 * says that nothing is left. It may be submitted by anybody at any time. The service's caller for
 * it is the server. */
bool native_settled_decode(struct bytes answer, bool *out_has_more);

#endif
