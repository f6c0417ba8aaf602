/*
 * What a simulated client asks of a node: one call of service.h, with a way to the node and a way
 * back. A call is answered exactly once: by the node, by its end, or by the client's own patience.
 */
#ifndef LEASED_SIM_CALL_H
#define LEASED_SIM_CALL_H

#include "core/service.h"

#include <stdbool.h>
#include <stdint.h>

struct node;

enum call_type {
    CALL_GRANT,
    CALL_REVOKE,
    CALL_RENEW,
    CALL_TIME_LEFT,
    CALL_LOCK,   /* create the key, tied to the lease, unless it exists */
    CALL_UNLOCK, /* delete the key, if it is still the one created at that revision */
    CALL_PUT,
    CALL_GET,      /* linearizable */
    CALL_IS_FIRST, /* linearizable: of all keys with its first letter, by create revision */
    CALL_LOOK,     /* linearizable: what `look` sees */
    CALL_MOVE_LEADER,
    CALL_CHANGE_MEMBERS,
    CALL_SNAPSHOT, /* the whole state */
    CALL_COMPACT,
    CALL_RULE, /* core/rule.h */
    CALL_AUTH, /* a change of users */
    CALL_TYPES
};

enum { CALL_RULE_ANSWER_SIZE_MAX = 512 }; /* more is cut off */

struct call {
    /* What is asked. */
    enum call_type type;
    char key[40];
    uint64_t value;
    int64_t lease_id;
    struct key_space_id lease_owner; /* CALL_RENEW; none: etcd's clients */
    int64_t ttl_ms;
    uint64_t member_id; /* CALL_CHANGE_MEMBERS: also the answer */
    enum member_action action;
    struct member_facts facts;   /* texts outlive the call */
    size_t padding;              /* CALL_PUT: so many bytes behind the value */
    const struct caller *caller; /* NULL: users_worker() */
    const struct auth_change *auth_change;
    uint32_t rule_number;
    struct buffer rule_request;
    uint64_t patience_us;
    /* CALL_LOOK, CALL_RULE: NULL, or looks at the node's state when it has read or applied, and may
     * set lease_id, revision, found and succeeded. Others may have changed something by then. */
    void (*look)(struct call *call);
    void (*answered)(struct call *call);
    void *data;
    /* What came back. */
    uint64_t sent_us; /* true time */
    uint64_t done_us; /* CALL_RULE: when the node had applied it */
    enum status status;
    bool is_certain; /* that a failed call had and will have no effect */
    bool succeeded;
    /* CALL_UNLOCK, CALL_COMPACT: the one asked about. CALL_IS_FIRST: of the key's creation. */
    int64_t revision;
    uint64_t found; /* the value, 0: no such key */
    uint8_t rule_answer[CALL_RULE_ANSWER_SIZE_MAX];
    size_t rule_answer_size;
    /* On its way. */
    struct node *node;
    uint64_t arrived_us;
    uint64_t arrived_term; /* of the leader that it arrived at; 0: at none */
    bool is_answered;
    struct service_request request;
    struct service_read read;
    struct service_renewal renewal;
    struct service_transfer transfer;
    struct service_change change;
    struct service_scan snapshot;
    struct buffer snapshot_bytes;
};

struct call *call_make(enum call_type type);
void call_send(struct call *call, struct node *node);
/* How long a way between a client and a node takes. */
void call_set_delays(uint64_t typical_us, uint64_t worst_us);
uint64_t calls_succeeded(enum call_type type);

#endif
