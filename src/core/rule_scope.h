/*
 * What rules and the ends of leases are carried out on, within one command: the state, the known
 * rules, and the hooks that ended leases have set off and that have yet to run.
 */
#ifndef LEASED_CORE_RULE_SCOPE_H
#define LEASED_CORE_RULE_SCOPE_H

#include "core/apply_context.h"
#include "core/auth.h"
#include "core/key_store.h"
#include "core/lease_table.h"
#include "core/rule_index.h"

/* A rule that is to run because a lease has ended. */
struct rule_hook {
    struct rule_hook *next;
    const struct rule *rule;
    struct bytes request;
    struct lease_facts facts; /* of the lease */
    enum lease_end reason;
    struct record **keys; /* that went with it, in the order of stored keys, hooks among them */
    size_t n_keys;
    unsigned depth; /* 1: set off by the command itself */
};

struct rule_scope {
    struct key_store *keys;
    struct lease_table *leases;
    const struct rule_index *rules;
    uint32_t cluster_version;
    bool is_full; /* what would make the state larger is refused */
    const struct apply_context *context;
    const struct auth *auth;     /* NULL: rights are not checked */
    const struct caller *caller; /* on whose behalf a command runs; hooks run for the server */
    struct arena *arena;
    struct buffer *answer; /* scratch */
    /* The rest begins as zero. */
    struct rule_hook *hooks_first;
    struct rule_hook *hooks_last;
    size_t n_hook_ends;
    size_t n_keys_ending; /* of leases that runs and hooks have ended */
    size_t work;          /* of runs and hooks so far, in units of key_work.h */
    int64_t ending_id;    /* whose family is being ended; 0: none, or it has ended by now */
};

enum {
    /* When ending leases has been so much work, the rest of them, or of a family, is left to
     * another entry of the log. Some milliseconds. */
    RULE_SCOPE_WORK_MUCH = 256 * 1024
};

/* Carries out a rule, and the hooks that it sets off, in one revision. STATUS_UNSUPPORTED before
 * the cluster's version; what the rule returns; the statuses of rule.h. The answer is arena memory,
 * and empty unless STATUS_OK. */
enum status rule_scope_run(struct rule_scope *scope, uint32_t number, struct bytes request,
                           struct bytes *out_answer);

/* Ends a lease and its children, children first, each with its keys and hooks in one revision of
 * its own. What is left of a large family has a millisecond to live: the leader proposes its end.
 * STATUS_LEASE_NOT_FOUND. */
enum status rule_scope_end_lease(struct rule_scope *scope, int64_t id, enum lease_end reason);

#endif
