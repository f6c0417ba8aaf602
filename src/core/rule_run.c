/* What a run knows, counts and reads. */
#include "core/rule_run.h"

#include "core/reserved_keys.h"
#include "core/stored_key.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

void rule_run_init(struct rule_run *run, const struct rule_scope *scope, const struct rule *rule,
                   const struct rule_hook *hook) {
    *run = (struct rule_run){.scope = scope,
                             .rule = rule,
                             .hook = hook,
                             .refused = STATUS_OK,
                             .records_left = RULE_RECORDS_MAX,
                             .changes_left = RULE_CHANGES_MAX,
                             .bytes_left = RULE_BYTES_MAX};
    rule_overlay_init(&run->overlay, scope->arena);
    if (hook != NULL) {
        run->depth = hook->depth;
        run->records_left = smaller(RULE_RECORDS_MAX, RULE_HOOK_RECORDS_MAX + 4 * hook->n_keys);
        run->changes_left = smaller(RULE_CHANGES_MAX, RULE_HOOK_CHANGES_MAX + hook->n_keys);
    }
}

enum status rule_run_execute(struct rule_run *run, struct bytes request, struct buffer *answer) {
    run->answer = answer;
    enum status status = run->rule->run(run, request, answer);
    if (run->refused != STATUS_OK) {
        return run->refused;
    }
    if (status == STATUS_OK && answer->size > RULE_ANSWER_SIZE_MAX) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    return status;
}

void rule_run_refuse(struct rule_run *run, enum status status) {
    if (run->refused == STATUS_OK) {
        run->refused = status;
    }
}

static bool spend(struct rule_run *run, size_t *left, size_t n) {
    if (run->refused != STATUS_OK) {
        return false;
    }
    if (n > *left) {
        rule_run_refuse(run, STATUS_REQUEST_TOO_LARGE);
        return false;
    }
    *left -= n;
    return true;
}

bool rule_run_spend_records(struct rule_run *run, size_t n) {
    run->n_records += n;
    return spend(run, &run->records_left, n);
}

bool rule_run_spend_change(struct rule_run *run, size_t bytes) {
    if (run->is_visiting) {
        rule_run_refuse(run, STATUS_INVALID);
    }
    return spend(run, &run->changes_left, 1) && spend(run, &run->bytes_left, bytes);
}

const struct caller *rule_caller(const struct rule_run *run) {
    return run->hook != NULL ? &caller_server : run->scope->caller;
}

int64_t rule_wall_ms(const struct rule_run *run) {
    return run->scope->context->wall_ms;
}

int64_t rule_revision(const struct rule_run *run) {
    return key_store_revision(run->scope->keys) + 1;
}

struct arena *rule_arena(struct rule_run *run) {
    return run->scope->arena;
}

size_t rule_records_left(const struct rule_run *run) {
    return run->records_left;
}

size_t rule_changes_left(const struct rule_run *run) {
    return run->changes_left;
}

size_t rule_bytes_left(const struct rule_run *run) {
    return run->bytes_left;
}

void rule_add_work(struct rule_run *run, size_t work) {
    run->added_work += work;
}

/* --- Rights. --- */

static bool is_own_space(const struct rule_run *run, struct key_space_id space) {
    for (size_t i = 0; i < RULE_SPACES_MAX; i++) {
        if (key_space_is_valid(space) && key_space_equal(run->rule->spaces[i], space)) {
            return true;
        }
    }
    return false;
}

bool rule_run_asks_rights(const struct rule_run *run) {
    return run->hook == NULL && !run->is_for_server && run->scope->auth != NULL &&
           auth_is_enabled(run->scope->auth) && run->scope->caller->kind == CALLER_CLIENT;
}

/* A rule that reaches outside its spaces is wrong; it is refused rather than followed. */
static bool may_use(struct rule_run *run, enum right right, struct key_space_id space,
                    struct bytes key, struct bytes range_end) {
    enum status status = STATUS_OK;
    if (!is_own_space(run, space)) {
        status = STATUS_INVALID;
    } else if (right == RIGHT_WRITE) {
        status = reserved_keys_check_rule(run->rule->spaces[0], space, key);
    }
    if (status == STATUS_OK && rule_run_asks_rights(run)) {
        const struct key_range range = {.space = space, .key = key, .range_end = range_end};
        status = auth_check_range(run->scope->auth, run->scope->caller, right, &range);
    }
    if (status != STATUS_OK) {
        rule_run_refuse(run, status);
    }
    return status == STATUS_OK;
}

bool rule_may(struct rule_run *run, enum right right, const struct key_range *range) {
    return may_use(run, right, range->space, range->key, range->range_end);
}

void rule_act_for_server(struct rule_run *run) {
    run->is_for_server = true;
}

/* --- Keys. --- */

static const struct bytes one_key = {0};

bool rule_run_lease_is_gone(struct rule_run *run, int64_t id) {
    const struct rule_scope *scope = run->scope;
    if (run->overlay.n_ended == 0 && scope->ending_id == 0) {
        return false;
    }
    while (id != 0) {
        const struct rule_overlay_lease *changed = rule_overlay_lease(&run->overlay, id);
        struct lease_facts facts;
        if (id == scope->ending_id || (changed != NULL && changed->is_ended) ||
            !rule_run_spend_records(run, 1)) {
            return true;
        }
        if (changed != NULL) {
            id = changed->facts.parent_id;
        } else if (lease_table_find(scope->leases, id, &facts)) {
            id = facts.parent_id;
        } else {
            return true;
        }
    }
    return false;
}

static bool is_gone(struct rule_run *run, const struct record *record) {
    return record->lease_id != 0 && rule_run_lease_is_gone(run, record->lease_id);
}

const struct record *rule_run_find(struct rule_run *run, struct key_space_id space,
                                   struct bytes key) {
    struct stored_key stored;
    const struct record *record;
    stored_key_init(&stored, space, key);
    const struct rule_overlay_key *changed = rule_overlay_key(&run->overlay, stored.bytes);
    stored_key_clear(&stored);
    record = changed != NULL ? changed->record : key_store_find(run->scope->keys, space, key);
    return record == NULL || is_gone(run, record) ? NULL : record;
}

const struct record *rule_get(struct rule_run *run, struct key_space_id space, struct bytes key) {
    if (!may_use(run, RIGHT_READ, space, key, one_key) || key.size == 0 ||
        !rule_run_spend_records(run, 1)) {
        return NULL;
    }
    return rule_run_find(run, space, key);
}

/* A walk over the store and the overlay at once. */
struct walk {
    struct rule_run *run;
    size_t at; /* in the overlay's keys */
    bool (*visit)(void *context, const struct record *record);
    void *context;
    bool is_stopped;
};

static bool walk_show(struct walk *walk, const struct record *record) {
    struct rule_run *run = walk->run;
    if (!rule_run_spend_records(run, 1)) {
        walk->is_stopped = true;
    } else if (record != NULL && !is_gone(run, record)) {
        walk->is_stopped = !walk->visit(walk->context, record);
        if (run->answer->size > RULE_ANSWER_SIZE_MAX) {
            rule_run_refuse(run, STATUS_REQUEST_TOO_LARGE);
        }
    }
    walk->is_stopped = walk->is_stopped || run->refused != STATUS_OK;
    return !walk->is_stopped;
}

/* Shows what the run has written below a key. */
static void walk_show_below(struct walk *walk, struct bytes stored_key) {
    const struct rule_overlay *overlay = &walk->run->overlay;
    while (!walk->is_stopped && walk->at < overlay->keys.n &&
           bytes_compare(overlay->keys.at[walk->at].stored_key, stored_key) < 0) {
        walk_show(walk, overlay->keys.at[walk->at++].record);
    }
}

static bool walk_meets(void *context, const struct record *record) {
    struct walk *walk = context;
    const struct rule_overlay *overlay = &walk->run->overlay;
    struct bytes stored_key = record_stored_key(record);
    walk_show_below(walk, stored_key);
    if (walk->is_stopped) {
        return false;
    }
    if (walk->at < overlay->keys.n &&
        bytes_equal(overlay->keys.at[walk->at].stored_key, stored_key)) {
        record = overlay->keys.at[walk->at++].record;
    }
    return walk_show(walk, record);
}

bool rule_run_visit(struct rule_run *run, struct key_space_id space, struct bytes key,
                    struct bytes range_end,
                    bool (*visit)(void *context, const struct record *record), void *context) {
    struct stored_key from;
    struct stored_key to;
    stored_key_init(&from, space, key);
    stored_key_init_end(&to, space, range_end);
    struct walk walk = {.run = run,
                        .at = rule_overlay_seek(&run->overlay, from.bytes),
                        .visit = visit,
                        .context = context};
    bool was_visiting = run->is_visiting;
    run->is_visiting = true;
    if (bytes_compare(from.bytes, to.bytes) < 0) {
        key_store_visit(run->scope->keys, space, key, range_end, walk_meets, &walk);
        walk_show_below(&walk, to.bytes);
    }
    run->is_visiting = was_visiting;
    stored_key_clear(&from);
    stored_key_clear(&to);
    return run->refused == STATUS_OK;
}

bool rule_visit(struct rule_run *run, struct key_space_id space, struct bytes key,
                struct bytes range_end, bool (*visit)(void *context, const struct record *record),
                void *context) {
    if (range_end.size == 0) {
        const struct record *record = rule_get(run, space, key);
        if (record != NULL) {
            (void)visit(context, record);
        }
        return run->refused == STATUS_OK;
    }
    return may_use(run, RIGHT_READ, space, key, range_end) && rule_run_spend_records(run, 1) &&
           rule_run_visit(run, space, key, range_end, visit, context);
}

size_t rule_count(struct rule_run *run, struct key_space_id space, struct bytes key,
                  struct bytes range_end) {
    return may_use(run, RIGHT_READ, space, key, range_end) && rule_run_spend_records(run, 1)
               ? key_store_count(run->scope->keys, space, key, range_end)
               : 0;
}

const struct record *rule_run_put(struct rule_run *run, struct key_space_id space, struct bytes key,
                                  struct bytes value, int64_t lease_id) {
    if (!rule_run_spend_change(run, key.size + value.size)) {
        return NULL;
    }
    const struct record *previous = rule_run_find(run, space, key);
    struct record *record =
        arena_alloc(run->scope->arena, sizeof *record + 1 + key.size + value.size);
    *record = (struct record){.create_revision =
                                  previous != NULL ? previous->create_revision : rule_revision(run),
                              .mod_revision = rule_revision(run),
                              .version = previous != NULL ? previous->version + 1 : 1,
                              .lease_id = lease_id,
                              .key_size = (uint32_t)key.size + 1,
                              .value_size = (uint32_t)value.size};
    record->bytes[0] = space.value;
    memcpy(record->bytes + 1, key.data, key.size);
    if (value.size > 0) {
        memcpy(record->bytes + 1 + key.size, value.data, value.size);
    }
    rule_overlay_put(&run->overlay, record);
    return record;
}

static bool is_attached(struct rule_run *run, struct key_space_id space, struct bytes key,
                        int64_t lease_id) {
    const struct record *record = rule_run_find(run, space, key);
    return record != NULL && record->lease_id == lease_id;
}

int64_t rule_put(struct rule_run *run, struct key_space_id space, struct bytes key,
                 struct bytes value, int64_t lease_id) {
    if (!may_use(run, RIGHT_WRITE, space, key, one_key)) {
        return 0;
    }
    if (key.size == 0) {
        rule_run_refuse(run, STATUS_KEY_EMPTY);
        return 0;
    }
    if (lease_id != 0 && !rule_lease_use(run, lease_id)) {
        rule_run_refuse(run, STATUS_LEASE_NOT_FOUND);
        return 0;
    }
    /* What is attached already may be written again. A hook may anything: the owner of a lease must
     * not be able to make the end of another one fail. */
    if (lease_id != 0 && run->hook == NULL &&
        lease_table_is_full(run->scope->leases, lease_id, key) &&
        !is_attached(run, space, key, lease_id)) {
        rule_run_refuse(run, STATUS_TOO_MANY_KEYS);
        return 0;
    }
    const struct record *record = rule_run_put(run, space, key, value, lease_id);
    return record == NULL ? 0 : record->create_revision;
}

bool rule_delete(struct rule_run *run, struct key_space_id space, struct bytes key) {
    if (!may_use(run, RIGHT_WRITE, space, key, one_key) || !rule_run_spend_records(run, 1)) {
        return false;
    }
    const struct record *record = rule_run_find(run, space, key);
    if (record == NULL || !rule_run_spend_change(run, key.size)) {
        return false;
    }
    rule_overlay_delete(&run->overlay, record);
    return true;
}

int64_t rule_count_up(struct rule_run *run, struct key_space_id space, struct bytes key) {
    const struct record *record = rule_get(run, space, key);
    uint8_t bytes[8] = {0};
    uint64_t number = 0;
    if (record != NULL && record->value_size != sizeof bytes) {
        rule_run_refuse(run, STATUS_INVALID);
        return 0;
    }
    for (size_t i = 0; record != NULL && i < sizeof bytes; i++) {
        number = number << 8 | record_value(record).data[i];
    }
    if (number >= INT64_MAX) {
        rule_run_refuse(run, STATUS_INVALID);
        return 0;
    }
    number++;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(number >> (56 - 8 * i));
    }
    int64_t lease_id = record != NULL ? record->lease_id : 0;
    return rule_put(run, space, key, bytes_of(bytes, sizeof bytes), lease_id) == 0
               ? 0
               : (int64_t)number;
}
