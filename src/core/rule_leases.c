/* Leases as a run sees and changes them, and the rules that run when one ends. */
#include "core/auth_command.h"
#include "core/rule_hook_key.h"
#include "core/rule_run.h"

/* Ids that are chosen here have this bit and none above it: a proposer chooses greater ones (see
 * proposals.c). */
static const uint64_t CHOSEN_ID_BIT = UINT64_C(1) << 61;

/* --- Finding and changing. --- */

static bool is_ours(const struct rule_run *run, struct key_space_id owner) {
    for (size_t i = 0; i < RULE_SPACES_MAX; i++) {
        if (key_space_equal(run->rule->spaces[i], owner)) {
            return true;
        }
    }
    return false;
}

/* A lease of any owner. */
static bool find_any(const struct rule_run *run, int64_t id, struct lease_facts *out_facts) {
    const struct rule_overlay_lease *changed = rule_overlay_lease(&run->overlay, id);
    if (changed != NULL) {
        *out_facts = changed->facts;
        return true;
    }
    return lease_table_find(run->scope->leases, id, out_facts);
}

bool rule_lease_find(struct rule_run *run, int64_t id, struct lease_facts *out_facts) {
    struct lease_facts facts;
    if (id == 0 || !rule_run_spend_records(run, 1) || !find_any(run, id, &facts) ||
        !is_ours(run, facts.owner) || rule_run_lease_is_gone(run, id)) {
        return false;
    }
    *out_facts = facts;
    return true;
}

/* A caller that uses a lease must be able to write what is attached to it, and one that ends it or
 * changes its time, also what is attached to those that descend from it. */
static bool find_to(struct rule_run *run, int64_t id, struct lease_facts *out_facts,
                    enum status (*check)(const struct auth *auth, struct lease_table *leases,
                                         const struct caller *caller, int64_t lease_id,
                                         struct auth_lease_checks *checks)) {
    const struct rule_scope *scope = run->scope;
    if (!rule_lease_find(run, id, out_facts)) {
        return false;
    }
    enum status status = STATUS_OK;
    if (rule_run_asks_rights(run)) {
        status = check(scope->auth, scope->leases, scope->caller, id, &run->lease_checks);
    }
    if (status != STATUS_OK) {
        rule_run_refuse(run, status);
    }
    return status == STATUS_OK;
}

bool rule_lease_use(struct rule_run *run, int64_t id) {
    struct lease_facts facts;
    return find_to(run, id, &facts, auth_check_lease_use);
}

size_t rule_lease_key_count(struct rule_run *run, int64_t id) {
    return rule_run_spend_records(run, 1) ? lease_table_key_count(run->scope->leases, id) : 0;
}

/* The finalizer of SplitMix64: every number becomes another one, far from those of its neighbours.
 */
static uint64_t mix(uint64_t number) {
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

/* From the count of grants and changes, so that it is the same on every replica. Clients choose ids
 * as well: were these in a row, a row of leases would keep every rule from finding a free one. */
static int64_t choose_id(struct rule_run *run) {
    uint64_t number = (uint64_t)lease_table_epoch(run->scope->leases) << 32;
    struct lease_facts ignored;
    int64_t id;
    do {
        id = (int64_t)((mix(++number) & (CHOSEN_ID_BIT - 1)) | CHOSEN_ID_BIT);
    } while (find_any(run, id, &ignored) && rule_run_spend_records(run, 1));
    return id;
}

/* The epoch that the next lease of this run will have; 0: the end of another one may take some. */
static uint32_t next_epoch(const struct rule_run *run) {
    return run->overlay.n_ended > 0
               ? 0
               : lease_table_epoch(run->scope->leases) + run->overlay.n_epochs + 1;
}

enum status rule_lease_grant(struct rule_run *run, const struct rule_lease *lease,
                             int64_t *out_id) {
    struct lease_facts facts = {.id = lease->id,
                                .ttl_ms = lease->ttl_ms,
                                .parent_id = lease->parent_id,
                                .class = lease->class,
                                .owner = key_space_is_valid(lease->owner) ? lease->owner
                                                                          : run->rule->spaces[0],
                                .epoch = next_epoch(run)};
    struct lease_facts other;
    enum status status = lease_ttl_check(facts.ttl_ms);
    if (status != STATUS_OK) {
        return status;
    }
    if (!is_ours(run, facts.owner)) {
        return STATUS_INVALID;
    }
    if (facts.parent_id != 0 && !rule_lease_use(run, facts.parent_id)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    if (facts.id == 0) {
        facts.id = choose_id(run);
    } else if (find_any(run, facts.id, &other)) {
        /* One that ended in this run has its id until the run is over. */
        return STATUS_LEASE_EXISTS;
    }
    if (!rule_run_spend_change(run, 0)) {
        return run->refused;
    }
    rule_overlay_grant(&run->overlay, &facts);
    *out_id = facts.id;
    return STATUS_OK;
}

enum status rule_lease_set_ttl(struct rule_run *run, int64_t id, int64_t ttl_ms) {
    struct lease_facts facts;
    enum status status = lease_ttl_check(ttl_ms);
    if (status != STATUS_OK) {
        return status;
    }
    if (!find_to(run, id, &facts, auth_check_lease_end)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    if (!rule_run_spend_change(run, 0)) {
        return run->refused;
    }
    rule_overlay_set_ttl(&run->overlay, &facts, ttl_ms);
    return STATUS_OK;
}

/* What goes with a lease and its family, in the one revision of the run. */
static void spend_keys(struct rule_run *run, int64_t id) {
    int64_t ids[LEASE_FAMILY_MAX];
    const struct rule_scope *scope = run->scope;
    size_t n = lease_table_family(scope->leases, id, ids);
    if (n > LEASE_FAMILY_MAX) {
        rule_run_refuse(run, STATUS_REQUEST_TOO_LARGE);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        /* Long keys count as many. */
        run->n_keys_ending += lease_table_end_work(scope->leases, ids[i]) / KEY_WORK_A_DELETE - 1;
    }
    if (!rule_run_spend_records(run, n)) {
        return;
    }
    if (scope->n_keys_ending + run->n_keys_ending > RULE_ENDED_KEYS_MAX) {
        rule_run_refuse(run, STATUS_TOO_MANY_KEYS);
    }
}

enum status rule_lease_end(struct rule_run *run, int64_t id, enum lease_end reason) {
    struct lease_facts facts;
    if (reason != LEASE_END_REVOKED && reason != LEASE_END_EXPIRED) {
        rule_run_refuse(run, STATUS_INVALID);
        return STATUS_INVALID;
    }
    if (!find_to(run, id, &facts, auth_check_lease_end)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    size_t n_hook_ends = run->scope->n_hook_ends + run->overlay.n_ended;
    if (run->hook != NULL &&
        (run->depth >= RULE_HOOK_DEPTH_MAX || n_hook_ends >= RULE_HOOK_ENDS_MAX)) {
        rule_run_refuse(run, STATUS_REQUEST_TOO_LARGE);
    }
    spend_keys(run, id);
    if (!rule_run_spend_change(run, 0)) {
        return run->refused;
    }
    rule_overlay_end(&run->overlay, &facts, reason);
    return STATUS_OK;
}

/* --- Hooks. --- */

static bool count_one(void *context, const struct record *record) {
    size_t *n = context;
    (void)record;
    (*n)++;
    return *n < RULE_HOOKS_OF_LEASE_MAX;
}

static size_t count_hooks(struct rule_run *run, int64_t lease_id) {
    struct rule_hook_key from;
    struct rule_hook_key to;
    size_t n = 0;
    rule_hook_key_init(&from, lease_id, 0, bytes_of(NULL, 0));
    rule_hook_key_init(&to, (int64_t)((uint64_t)lease_id + 1), 0, bytes_of(NULL, 0));
    /* After the last id comes the end of the space. */
    struct bytes end = lease_id == -1 ? bytes_of("", 1) : to.bytes;
    (void)rule_run_visit(run, KEY_SPACE_LEASE_HOOKS, from.bytes, end, count_one, &n);
    return n;
}

enum status rule_on_lease_end(struct rule_run *run, int64_t lease_id, uint32_t rule_number,
                              struct bytes request) {
    const struct rule *rule = rule_index_find(run->scope->rules, rule_number);
    if (rule == NULL || rule->since_version > run->scope->cluster_version ||
        request.size > RULE_HOOK_REQUEST_SIZE_MAX) {
        return STATUS_INVALID;
    }
    /* It runs with the rights of the server, and a lease has only so many. */
    if (!rule_lease_use(run, lease_id)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    struct rule_hook_key key;
    rule_hook_key_init(&key, lease_id, rule_number, request);
    if (rule_run_find(run, KEY_SPACE_LEASE_HOOKS, key.bytes) != NULL) {
        return STATUS_OK;
    }
    if (count_hooks(run, lease_id) >= RULE_HOOKS_OF_LEASE_MAX) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    return rule_run_put(run, KEY_SPACE_LEASE_HOOKS, key.bytes, bytes_of(NULL, 0), lease_id) == NULL
               ? run->refused
               : STATUS_OK;
}

bool rule_cancel_on_lease_end(struct rule_run *run, int64_t lease_id, uint32_t rule_number,
                              struct bytes request) {
    if (request.size > RULE_HOOK_REQUEST_SIZE_MAX || !rule_lease_use(run, lease_id)) {
        return false;
    }
    struct rule_hook_key key;
    rule_hook_key_init(&key, lease_id, rule_number, request);
    const struct record *record = rule_run_find(run, KEY_SPACE_LEASE_HOOKS, key.bytes);
    if (record == NULL || !rule_run_spend_change(run, key.bytes.size)) {
        return false;
    }
    rule_overlay_delete(&run->overlay, record);
    return true;
}

bool rule_ended_lease(const struct rule_run *run, struct lease_facts *out_facts,
                      enum lease_end *out_reason) {
    if (run->hook == NULL) {
        return false;
    }
    *out_facts = run->hook->facts;
    *out_reason = run->hook->reason;
    return true;
}

void rule_visit_ended_keys(struct rule_run *run,
                           bool (*visit)(void *context, const struct record *record),
                           void *context) {
    if (run->hook == NULL) {
        return;
    }
    bool go_on = true;
    for (size_t i = 0; i < run->hook->n_keys && go_on; i++) {
        if (is_ours(run, record_space(run->hook->keys[i]))) {
            go_on = visit(context, run->hook->keys[i]);
        }
    }
}
