/*
 * What the Consul API changes, as rules: requests, answers and their codec. Everything that one of
 * them changes is one revision.
 *
 * A session is a lease. Whatever ends it gives its keys back, or deletes them, in the same
 * revision, and begins their lock-delay: a lease that nobody holds, during which nobody can acquire
 * them. Releasing a key begins none.
 *
 * Rights, while authentication is on: to change a key needs the right to write its name, to read it
 * the right to read. A session belongs to the user who created it; others need the right to write
 * all keys.
 *
 * Every request is checked to the last byte: STATUS_MALFORMED, STATUS_INVALID. The statuses of
 * rule.h are possible for all.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_RULES_H
#define LEASED_DOORS_CONSUL_CONSUL_RULES_H

#include "core/rule.h"
#include "doors/consul/consul_model.h"

enum {
    CONSUL_RULE_KV = 20 * 65536 + 1,
    CONSUL_RULE_SESSION_CREATE = 20 * 65536 + 2,
    CONSUL_RULE_SESSION_DESTROY = 20 * 65536 + 3,
    CONSUL_RULE_SESSION_ENDED = 20 * 65536 + 4, /* the hook of a session's lease */
    CONSUL_RULE_EVENT = 20 * 65536 + 5,
    CONSUL_RULE_BEGIN = 20 * 65536 + 6, /* so that there is an index of at least 2 */
    CONSUL_RULE_TXN = 20 * 65536 + 7
};
extern const struct rule *const consul_rules[];
enum { CONSUL_N_RULES = 7 };

extern const struct rule consul_rule_kv;
extern const struct rule consul_rule_session_create;
extern const struct rule consul_rule_session_destroy;
extern const struct rule consul_rule_session_ended;
extern const struct rule consul_rule_event;
extern const struct rule consul_rule_begin;
extern const struct rule consul_rule_txn;

/* --- Keys: 1 to CONSUL_TXN_OPS_MAX operations, all or none of them. --- */

enum consul_verb {
    CONSUL_SET,
    CONSUL_CAS,
    CONSUL_LOCK,
    CONSUL_UNLOCK,
    CONSUL_DELETE,
    CONSUL_DELETE_CAS,
    CONSUL_DELETE_TREE,
    CONSUL_GET,
    CONSUL_GET_OR_EMPTY,
    CONSUL_GET_TREE,
    CONSUL_CHECK_SESSION,
    CONSUL_CHECK_INDEX,
    CONSUL_CHECK_NOT_EXISTS,
    CONSUL_VERBS
};

struct consul_op {
    uint8_t verb;
    struct bytes key; /* empty only of a tree: all keys */
    struct bytes value;
    uint64_t flags;
    uint64_t index;        /* of CAS, DELETE_CAS and CHECK_INDEX */
    struct bytes session;  /* of LOCK, UNLOCK and CHECK_SESSION; may be empty */
    struct bytes previous; /* of LOCK: its lock-delay does not hold this one up; may be empty */
};
void consul_ops_encode(struct buffer *out, const struct consul_op *ops, size_t n);

/* Why an operation was not done. */
enum consul_failure {
    CONSUL_FAILED_STALE = 1,      /* CAS, DELETE_CAS */
    CONSUL_FAILED_HELD,           /* LOCK: another session holds it */
    CONSUL_FAILED_DELAYED,        /* LOCK: a lock-delay */
    CONSUL_FAILED_NOT_HELD,       /* UNLOCK */
    CONSUL_FAILED_NO_SESSION,     /* LOCK: there is none of this id */
    CONSUL_FAILED_TOO_MANY_LOCKS, /* LOCK: CONSUL_SESSION_LOCKS_MAX */
    CONSUL_FAILED_MISSING,        /* GET, CHECK_…: no such key */
    CONSUL_FAILED_EXISTS,         /* CHECK_NOT_EXISTS */
    CONSUL_FAILED_SESSION,        /* CHECK_SESSION: another one, see `session` */
    CONSUL_FAILED_INDEX,          /* CHECK_INDEX: another one, see `modify_index` */
    CONSUL_FAILED_SESSION_EMPTY,  /* LOCK, UNLOCK: none is named */
    CONSUL_FAILURES
};
/* What an operation gave: a failure, or entries. */
struct consul_result {
    size_t op;
    uint8_t failure; /* 0: none */
    bool is_null;    /* of GET_OR_EMPTY: there is none */
    bool has_value;  /* what was written is answered without its value */
    struct consul_entry entry;
};
struct consul_results {
    size_t n;
    const struct consul_result *results; /* failures alone, if there is one */
    bool is_failed;
};
/* In arena memory; texts point into the answer. */
bool consul_results_decode(struct bytes answer, struct arena *arena,
                           struct consul_results *out_results);

/* --- Keys and the catalog: operations on keys as above, 0 to CONSUL_TXN_OPS_MAX, and steps that
 * change or show instances and checks, 0 to CONSUL_STEPS_MAX; all or none of them. --- */

enum { CONSUL_STEPS_MAX = 256 };
struct consul_step {
    /* Whose: an instance, or one of its checks. */
    struct bytes service;
    struct bytes id;
    struct bytes check; /* empty: the instance */
    /* A rule of the registry that registers, deregisters, puts or deletes just this; 0: none. One
     * that finds nothing to change is no failure. */
    uint32_t rule;
    struct bytes request;
    bool has_index; /* only if this is its index; 0: only if it is not there */
    uint64_t index;
    bool shows; /* afterwards it is part of the answer; without a rule, it must be there */
};
void consul_txn_encode(struct buffer *out, const struct consul_op *ops, size_t n_ops,
                       const struct consul_step *steps, size_t n_steps);
/* CONSUL_FAILED_STALE, CONSUL_FAILED_MISSING, or a record. */
struct consul_shown_record {
    size_t step;
    uint8_t failure; /* 0: none */
    int64_t create_index;
    int64_t modify_index;
    struct bytes value; /* of the instance, or the check */
};
struct consul_txn_results {
    struct consul_results keys;
    size_t n;
    const struct consul_shown_record *records; /* failures alone, if there is one */
    bool is_failed;
};
/* In arena memory; texts point into the answer. */
bool consul_txn_results_decode(struct bytes answer, struct arena *arena,
                               struct consul_txn_results *out_results);

/* --- Sessions. --- */

/* STATUS_LEASE_EXISTS (the id), STATUS_KEY_NOT_FOUND (a check that it names is not there),
 * STATUS_FENCED (one is critical). The id is the door's choice, and so is how long the session
 * lives without a renewal: up to CONSUL_TTL_MULTIPLIER_MAX times its TTL; 0: as long as that. */
void consul_session_create_encode(struct buffer *out, const struct consul_session *session);
/* STATUS_OK, also when there is no such session. With `only_if_critical` it is ended only when one
 * of the checks that it is bound to is critical or gone. */
struct consul_session_destroy {
    struct bytes id;
    bool only_if_critical;
};
void consul_session_destroy_encode(struct buffer *out,
                                   const struct consul_session_destroy *request);

/* --- Events of users: the last CONSUL_EVENTS_MAX are kept. --- */

enum { CONSUL_EVENTS_MAX = 256, CONSUL_EVENT_SIZE_MAX = 16 * 1024 };
struct consul_event {
    struct bytes id;
    struct bytes name;
    struct bytes payload;
    struct bytes node_filter;
    struct bytes service_filter;
    struct bytes tag_filter;
    uint64_t number; /* its LTime; set by the rule */
};
void consul_event_encode(struct buffer *out, const struct consul_event *event);
bool consul_event_decode(struct bytes bytes, struct consul_event *out_event);

#endif
