/* One execution of a rule from inside: for the files that carry out rule.h. */
#ifndef LEASED_CORE_RULE_RUN_H
#define LEASED_CORE_RULE_RUN_H

#include "core/auth_command.h"
#include "core/rule_overlay.h"
#include "core/rule_scope.h"

struct rule_run {
    const struct rule_scope *scope;
    const struct rule *rule;
    const struct rule_hook *hook; /* NULL: a command */
    unsigned depth;               /* of the hook; 0: a command */
    struct rule_overlay overlay;
    const struct buffer *answer;
    enum status refused; /* the first reason; STATUS_OK: none */
    size_t n_records;    /* looked at */
    size_t added_work;   /* rule_add_work() */
    size_t records_left;
    size_t changes_left;
    size_t n_keys_ending; /* that go with leases which it ends */
    size_t bytes_left;
    bool is_visiting;
    bool is_for_server; /* rights do not count any more */
    struct auth_lease_checks lease_checks;
};

/* With the bounds of a command, or of a hook when there is one. */
void rule_run_init(struct rule_run *run, const struct rule_scope *scope, const struct rule *rule,
                   const struct rule_hook *hook);
/* Runs it; the changes are in the overlay, of no use unless STATUS_OK. */
enum status rule_run_execute(struct rule_run *run, struct bytes request, struct buffer *answer);

/* The run is refused, whatever else happens. The first reason stays. */
void rule_run_refuse(struct rule_run *run, enum status status);
/* Counts; false when the bound is met, and the run is refused. */
bool rule_run_spend_records(struct rule_run *run, size_t n);
bool rule_run_spend_change(struct rule_run *run, size_t bytes);

/* As rule_get(), rule_put() and rule_visit(), without asking for spaces. */
const struct record *rule_run_find(struct rule_run *run, struct key_space_id space,
                                   struct bytes key);
const struct record *rule_run_put(struct rule_run *run, struct key_space_id space, struct bytes key,
                                  struct bytes value, int64_t lease_id);
bool rule_run_visit(struct rule_run *run, struct key_space_id space, struct bytes key,
                    struct bytes range_end,
                    bool (*visit)(void *context, const struct record *record), void *context);
/* The rights of a client count in this run. */
bool rule_run_asks_rights(const struct rule_run *run);
/* The lease is ending, or one that it descends from: for the run it is gone. */
bool rule_run_lease_is_gone(struct rule_run *run, int64_t id);

#endif
