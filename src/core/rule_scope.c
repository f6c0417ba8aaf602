/* Carrying out what a run has decided, the ends of leases, and the hooks that these set off. */
#include "core/rule_scope.h"

#include "core/cluster_version.h"
#include "core/key_work.h"
#include "core/rule_hook_key.h"
#include "core/rule_run.h"
#include "core/txn.h"

#include <assert.h>
#include <stdlib.h>

/* What is kept of the room for answers. */
enum { ANSWER_CAPACITY_KEPT = 64 * 1024 };

/* What one change or one hook costs, in records looked at, and how many bytes that are written cost
 * as much as one record. */
enum { WORK_A_CHANGE = KEY_WORK_A_VERSION, WORK_BYTES = 256 };

/* What is left of a family that is too large to end at once lives so long. */
enum { REST_OF_FAMILY_MS = 1 };

/* --- The end of one lease. --- */

static int compare_records(const void *a, const void *b) {
    return bytes_compare(record_stored_key(*(struct record *const *)a),
                         record_stored_key(*(struct record *const *)b));
}

static bool is_hook(const struct record *record) {
    return key_space_equal(record_space(record), KEY_SPACE_LEASE_HOOKS);
}

/* The keys of a lease. The list's order depends on what a replica has been through (a restored one
 * lists keys in key order); key order is the same everywhere. */
static struct record **keys_of_lease(const struct rule_scope *scope, int64_t id, size_t *out_n) {
    size_t n = lease_table_key_count(scope->leases, id);
    struct record **records = arena_alloc(scope->arena, n * sizeof(records[0]));
    struct record *record = lease_table_first_key(scope->leases, id);
    for (size_t i = 0; i < n; i++, record = record->lease_next) {
        records[i] = record;
    }
    qsort(records, n, sizeof(records[0]), compare_records);
    *out_n = n;
    return records;
}

static void set_off(struct rule_scope *scope, const struct rule_hook *ended,
                    const struct record *record) {
    uint32_t number;
    struct rule_hook *hook = arena_copy(scope->arena, ended, sizeof *ended);
    bool is_whole = rule_hook_key_decode(record_key(record), &number, &hook->request);
    assert(is_whole);
    /* A run puts none that it does not know, and a snapshot with such a one is refused: who passed
     * over it would differ from the others. */
    hook->rule = rule_index_find(scope->rules, number);
    assert(hook->rule != NULL);
    if (scope->hooks_last == NULL) {
        scope->hooks_first = hook;
    } else {
        scope->hooks_last->next = hook;
    }
    scope->hooks_last = hook;
}

/* Within the revision that is open. The lease has no children any more. */
static void end_one(struct rule_scope *scope, const struct lease_facts *facts,
                    enum lease_end reason, unsigned depth) {
    if (scope->cluster_version >= CLUSTER_VERSION_RULES) {
        scope->work += lease_table_end_work(scope->leases, facts->id);
    }
    struct record *first = lease_table_first_key(scope->leases, facts->id);
    struct rule_hook ended = {.facts = *facts, .reason = reason, .depth = depth};
    if (first != NULL && first->lease_next == NULL && !is_hook(first)) {
        txn_erase(scope->keys, scope->leases, first);
    } else if (first != NULL) {
        ended.keys = keys_of_lease(scope, facts->id, &ended.n_keys);
        for (size_t i = 0; i < ended.n_keys; i++) {
            txn_erase(scope->keys, scope->leases, ended.keys[i]);
        }
    }
    lease_table_end(scope->leases, facts->id, reason, scope->context->wall_ms);
    if (facts->id == scope->ending_id) {
        scope->ending_id = 0; /* its id is free, and its family is gone */
    }
    for (size_t i = 0; i < ended.n_keys; i++) {
        if (is_hook(ended.keys[i])) {
            set_off(scope, &ended, ended.keys[i]);
        }
    }
}

static void run_hooks(struct rule_scope *scope);

/* Ends a family. Children go first, and theirs before them: down to one without children, end it,
 * go on at its parent. A parent must exist when a child is granted, so there are no circles; and a
 * family as deep as it likes needs no stack. False: the rest of it was left when there was as much
 * work as `work_max`. */
static bool end_family(struct rule_scope *scope, int64_t id, enum lease_end reason, unsigned depth,
                       bool has_own_revisions, size_t work_max) {
    for (int64_t at = id;;) {
        int64_t child = lease_table_first_child(scope->leases, at);
        if (child != 0) {
            at = child;
            continue;
        }
        struct lease_facts facts;
        bool is_found = lease_table_find(scope->leases, at, &facts);
        assert(is_found);
        if (has_own_revisions) {
            key_store_begin(scope->keys);
        }
        end_one(scope, &facts, at == id ? reason : LEASE_END_PARENT, depth);
        if (has_own_revisions) {
            run_hooks(scope);
            key_store_end(scope->keys);
        }
        /* A hook that has ended what the family descends from has ended all of it. */
        if (at == id || (has_own_revisions && scope->ending_id != id)) {
            return true;
        }
        if (scope->work >= work_max) {
            return false;
        }
        at = facts.parent_id;
    }
}

enum status rule_scope_end_lease(struct rule_scope *scope, int64_t id, enum lease_end reason) {
    struct lease_facts facts;
    if (!lease_table_find(scope->leases, id, &facts)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    scope->ending_id = id;
    scope->n_hook_ends = 0;
    scope->n_keys_ending = 0;
    /* In a cluster of version 2 every member must do as release 0.2 does. */
    bool is_bounded = scope->cluster_version >= CLUSTER_VERSION_RULES;
    if (!end_family(scope, id, reason, 1, true, is_bounded ? RULE_SCOPE_WORK_MUCH : SIZE_MAX)) {
        /* The rest is due at once, and goes with other entries of the log. Who renews it meanwhile
         * is told that no time is left. */
        scope->ending_id = 0;
        enum status status =
            lease_table_set_ttl(scope->leases, id, REST_OF_FAMILY_MS, scope->context->now_ms);
        assert(status == STATUS_OK);
    }
    assert(scope->ending_id == 0);
    return STATUS_OK;
}

/* --- What a run has decided. --- */

static void commit_end(struct rule_scope *scope, const struct rule_change *change, unsigned depth) {
    scope->n_hook_ends += depth > 0;
    (void)end_family(scope, change->end.id, change->end.reason, depth + 1, false, SIZE_MAX);
}

static void commit_put(struct rule_scope *scope, const struct record *record) {
    /* A key of a lease that is about to go with its family was gone for the run already. */
    if (scope->ending_id != 0 && record->version == 1) {
        struct record *live = key_store_find(scope->keys, record_space(record), record_key(record));
        if (live != NULL) {
            txn_erase(scope->keys, scope->leases, live);
        }
    }
    txn_write(scope->keys, scope->leases, record);
}

/* Everything was checked when the run decided it. */
static void commit(struct rule_scope *scope, const struct rule_run *run) {
    scope->n_keys_ending += run->n_keys_ending;
    for (size_t i = 0; i < run->overlay.changes.n; i++) {
        const struct rule_change *change = &run->overlay.changes.at[i];
        enum status status = STATUS_OK;
        switch (change->type) {
        case RULE_CHANGE_PUT:
            commit_put(scope, change->put);
            break;
        case RULE_CHANGE_DELETE:
            txn_erase(scope->keys, scope->leases,
                      key_store_find(scope->keys, change->delete.space, change->delete.key));
            break;
        case RULE_CHANGE_GRANT:
            status = lease_table_grant(scope->leases, &change->grant, scope->context->now_ms);
            assert(change->grant.epoch == 0 ||
                   change->grant.epoch == lease_table_epoch(scope->leases));
            break;
        case RULE_CHANGE_SET_TTL:
            status = lease_table_set_ttl(scope->leases, change->set_ttl.id, change->set_ttl.ttl_ms,
                                         scope->context->now_ms);
            break;
        case RULE_CHANGE_END:
            commit_end(scope, change, run->depth);
            break;
        }
        assert(status == STATUS_OK);
    }
}

static void count_work(struct rule_scope *scope, const struct rule_run *run) {
    scope->work += run->n_records + run->added_work + WORK_A_CHANGE * (run->overlay.changes.n + 1) +
                   (RULE_BYTES_MAX - run->bytes_left) / WORK_BYTES;
}

static void trim_answer(struct buffer *answer) {
    if (answer->capacity > ANSWER_CAPACITY_KEPT) {
        buffer_clear(answer);
        buffer_init(answer);
    }
    answer->size = 0;
}

/* A hook that fails changes nothing, and what set it off stays done. */
static void run_hooks(struct rule_scope *scope) {
    while (scope->hooks_first != NULL) {
        struct rule_hook *hook = scope->hooks_first;
        scope->hooks_first = hook->next;
        if (scope->hooks_first == NULL) {
            scope->hooks_last = NULL;
        }
        struct rule_run run;
        rule_run_init(&run, scope, hook->rule, hook);
        trim_answer(scope->answer);
        enum status status = rule_run_execute(&run, hook->request, scope->answer);
        count_work(scope, &run);
        if (status == STATUS_OK) {
            commit(scope, &run);
        }
    }
}

enum status rule_scope_run(struct rule_scope *scope, uint32_t number, struct bytes request,
                           struct bytes *out_answer) {
    const struct rule *rule = rule_index_find(scope->rules, number);
    *out_answer = bytes_of(NULL, 0);
    if (rule == NULL || rule->since_version > scope->cluster_version) {
        return STATUS_UNSUPPORTED;
    }
    struct rule_run run;
    rule_run_init(&run, scope, rule, NULL);
    trim_answer(scope->answer);
    enum status status = rule_run_execute(&run, request, scope->answer);
    count_work(scope, &run);
    if (status == STATUS_OK && scope->is_full && run.overlay.has_grown && !rule->runs_when_full) {
        status = STATUS_NO_SPACE;
    }
    if (status != STATUS_OK) {
        return status;
    }
    size_t size = scope->answer->size;
    *out_answer =
        bytes_of(size > 0 ? arena_copy(scope->arena, scope->answer->data, size) : NULL, size);
    key_store_begin(scope->keys);
    commit(scope, &run);
    run_hooks(scope);
    key_store_end(scope->keys);
    return STATUS_OK;
}
