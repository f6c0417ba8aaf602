/*
 * Random use of a lease table against a plain array of leases. The seed is printed; give it as the
 * first argument to replay a run.
 */
#include "../storage/thorough.h"
#include "core/lease_table.h"

#include "model_random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LEASES = 1500, RECORDS = 400, VIEWS = 4, STEPS = 30000, ROUNDS = THOROUGH(20), BATCH = 64 };

struct lease {
    bool exists;
    struct lease_facts facts;
    uint64_t due_ms;         /* 0: never */
    uint64_t put_off_ms;     /* it is not given out before this */
    uint64_t counted_due_ms; /* while not leading, from its checkpoint; 0: none */
    bool is_expiring;
    bool is_being_noted;
};

struct view {
    struct lease_view *view;
    struct lease_facts facts[LEASES]; /* id 0: did not exist */
    size_t count;
    struct lease_ended ended[LEASE_ENDED_MAX];
    size_t n_ended;
};

struct model {
    struct lease_table *table;
    struct lease leases[LEASES];
    struct record records[RECORDS];
    bool is_attached[RECORDS];
    struct view views[VIEWS];
    struct lease_ended ended[LEASE_ENDED_MAX]; /* oldest first */
    size_t n_ended;
    size_t count;
    bool is_leading;
    uint64_t now_ms;
};

static struct model *model;

/* Ids of either sign, spread over the whole range; index and id give each other. */
static int64_t id_of(size_t index) {
    int64_t id = (int64_t)index + 1;
    return index % 3 == 0 ? -id : index % 3 == 1 ? id : id << 40;
}

static size_t index_of(int64_t id) {
    int64_t index = (id < 0 ? -id : id < (INT64_C(1) << 40) ? id : id >> 40) - 1;
    assert(index >= 0);
    assert(index < LEASES);
    assert(id_of((size_t)index) == id);
    return (size_t)index;
}

static void count_from_now(struct lease *lease, int64_t ttl_ms) {
    lease->due_ms = ttl_ms == LEASE_TTL_FOREVER ? 0 : model->now_ms + 1 + (uint64_t)ttl_ms;
    lease->put_off_ms = 0;
}

static int64_t random_ttl_ms(void) {
    return random_one_in(20) ? LEASE_TTL_FOREVER
                             : 1 + (int64_t)(random_next() >> (44 + random_below(20)));
}

static struct key_space_id random_owner(void) {
    return random_one_in(3) ? KEY_SPACE_SAMPLE : KEY_SPACE_ETCD;
}

static void do_grant(void) {
    size_t index = random_below(LEASES);
    struct lease *lease = &model->leases[index];
    struct lease_facts facts = {
        .owner = random_owner(), .id = id_of(index), .ttl_ms = random_ttl_ms()};
    bool has_parent = random_one_in(4);
    size_t parent = random_below(LEASES);
    if (has_parent) {
        facts.parent_id = id_of(parent);
    }
    if (random_one_in(10)) {
        facts.class = (lease_class)random_below(256);
    }
    enum status expected = STATUS_OK;
    if (lease->exists) {
        expected = STATUS_LEASE_EXISTS;
    } else if (has_parent && !model->leases[parent].exists) {
        expected = STATUS_LEASE_NOT_FOUND;
    }
    assert(lease_table_grant(model->table, &facts, model->now_ms) == expected);
    if (expected == STATUS_OK) {
        *lease = (struct lease){.exists = true, .facts = facts};
        count_from_now(lease, facts.ttl_ms);
        model->count++;
    }
}

static void push_ended(const struct lease_ended *ended) {
    if (model->n_ended == LEASE_ENDED_MAX) {
        memmove(model->ended, model->ended + 1, sizeof model->ended - sizeof model->ended[0]);
        model->n_ended--;
    }
    model->ended[model->n_ended++] = *ended;
}

static size_t first_child(size_t parent) {
    size_t first = LEASES;
    for (size_t i = 0; i < LEASES; i++) {
        const struct lease *lease = &model->leases[i];
        if (lease->exists && lease->facts.parent_id == id_of(parent) &&
            (first == LEASES || id_of(i) < id_of(first))) {
            first = i;
        }
    }
    return first;
}

static void end_lease(size_t index, enum lease_end reason) {
    struct lease *lease = &model->leases[index];
    int64_t wall_ms = (int64_t)random_below(1000);
    if (!lease->exists) {
        assert(lease_table_end(model->table, id_of(index), reason, wall_ms) ==
               STATUS_LEASE_NOT_FOUND);
        return;
    }
    size_t child;
    while ((child = first_child(index)) != LEASES) {
        assert(lease_table_first_child(model->table, id_of(index)) == id_of(child));
        end_lease(child, LEASE_END_PARENT);
    }
    assert(lease_table_first_child(model->table, id_of(index)) == 0);
    struct record *record;
    while ((record = lease_table_first_key(model->table, id_of(index))) != NULL) {
        size_t i = (size_t)(record - model->records);
        assert(model->is_attached[i]);
        lease_table_detach(model->table, record);
        model->is_attached[i] = false;
    }
    assert(lease_table_end(model->table, id_of(index), reason, wall_ms) == STATUS_OK);
    push_ended(&(struct lease_ended){
        .id = id_of(index), .ttl_ms = lease->facts.ttl_ms, .wall_ms = wall_ms, .reason = reason});
    lease->exists = false;
    model->count--;
}

/* What a checkpoint does: while not leading, it is counted from now. */
static void note(struct lease *lease, int64_t remaining_ms) {
    if (remaining_ms > lease->facts.ttl_ms) {
        remaining_ms = lease->facts.ttl_ms;
    }
    uint64_t due_ms = model->now_ms + 1 + (uint64_t)remaining_ms;
    if (remaining_ms == 0 || lease->facts.ttl_ms == LEASE_TTL_FOREVER) {
        lease->counted_due_ms = 0;
    } else if (!model->is_leading &&
               (lease->counted_due_ms == 0 || due_ms < lease->counted_due_ms)) {
        lease->counted_due_ms = due_ms;
    }
    lease->facts.checkpoint_ms = remaining_ms;
}

static void do_change(void) {
    size_t index = random_below(LEASES);
    struct lease *lease = &model->leases[index];
    enum status expected = lease->exists ? STATUS_OK : STATUS_LEASE_NOT_FOUND;
    if (random_one_in(2)) {
        int64_t ttl_ms = random_ttl_ms();
        assert(lease_table_set_ttl(model->table, id_of(index), ttl_ms, model->now_ms) == expected);
        lease->facts.ttl_ms = ttl_ms;
        lease->facts.checkpoint_ms = 0;
        lease->counted_due_ms = 0;
        lease->is_expiring = false;
        lease->is_being_noted = false;
        count_from_now(lease, ttl_ms);
    } else {
        int64_t remaining_ms = random_one_in(2) ? 0 : 1 + (int64_t)random_below(1000);
        assert(lease_table_checkpoint(model->table, id_of(index), remaining_ms, model->now_ms) ==
               expected);
        note(lease, remaining_ms);
    }
}

static void do_begin_term(void) {
    lease_table_checkpoint_all(model->table, 0, model->now_ms, model->now_ms);
    for (size_t i = 0; i < LEASES; i++) {
        struct lease *lease = &model->leases[i];
        if (lease->exists && lease->facts.checkpoint_ms == 0 &&
            lease->facts.ttl_ms != LEASE_TTL_FOREVER) {
            note(lease, lease->facts.ttl_ms);
        }
    }
}

static void do_attach(void) {
    size_t i = random_below(RECORDS);
    struct record *record = &model->records[i];
    if (model->is_attached[i]) {
        lease_table_detach(model->table, record);
        model->is_attached[i] = false;
        return;
    }
    size_t index = random_below(LEASES);
    *record = (struct record){.lease_id = id_of(index)};
    enum status expected = model->leases[index].exists ? STATUS_OK : STATUS_LEASE_NOT_FOUND;
    assert(lease_table_attach(model->table, record) == expected);
    model->is_attached[i] = expected == STATUS_OK;
}

static void do_renew(void) {
    size_t index = random_below(LEASES);
    struct lease *lease = &model->leases[index];
    int64_t ttl_ms = -1;
    bool is_checkpointed = false;
    enum status expected = !model->is_leading   ? STATUS_NO_LEADER
                           : !lease->exists     ? STATUS_LEASE_NOT_FOUND
                           : lease->is_expiring ? STATUS_PENDING
                                                : STATUS_OK;
    assert(lease_table_renew(model->table, id_of(index), model->now_ms, &ttl_ms,
                             &is_checkpointed) == expected);
    if (expected == STATUS_OK) {
        assert(ttl_ms == lease->facts.ttl_ms);
        assert(is_checkpointed == (lease->facts.checkpoint_ms != 0 || lease->is_being_noted));
        count_from_now(lease, ttl_ms);
    }
}

static bool is_due(const struct lease *lease) {
    return lease->exists && !lease->is_expiring && lease->due_ms != 0 &&
           lease->due_ms <= model->now_ms && lease->put_off_ms <= model->now_ms;
}

/* Leases to be checkpointed have passed a half of their time, or some of their checkpoint. */
static void take_overdue(void) {
    struct lease_overdue overdue[BATCH];
    size_t n = lease_table_take_overdue(model->table, model->now_ms, overdue, BATCH);
    for (size_t i = 0; i < n; i++) {
        struct lease *lease = &model->leases[index_of(overdue[i].id)];
        assert(i == 0 || overdue[i - 1].id < overdue[i].id);
        assert(model->is_leading);
        assert(lease->exists);
        assert(!lease->is_expiring);
        assert(!lease->is_being_noted);
        int64_t before_ms = lease->facts.checkpoint_ms;
        assert(overdue[i].remaining_ms > 0);
        assert(before_ms != 0 ? overdue[i].remaining_ms < before_ms
                              : overdue[i].remaining_ms <= lease->facts.ttl_ms / 2);
        assert(model->now_ms + (uint64_t)overdue[i].remaining_ms <= lease->due_ms);
        lease->is_being_noted = random_one_in(2);
        if (!lease->is_being_noted) {
            lease_table_noted(model->table, overdue[i].id, overdue[i].epoch);
        }
    }
}

static void do_expire(void) {
    model->now_ms += random_next() >> (50 + random_below(14));
    int64_t ids[BATCH];
    size_t n;
    do {
        n = lease_table_claim_expired(model->table, model->now_ms, ids, BATCH);
        for (size_t i = 0; i < n; i++) {
            size_t index = index_of(ids[i]);
            assert(i == 0 || ids[i - 1] < ids[i]);
            assert(model->is_leading);
            assert(is_due(&model->leases[index]));
            assert(lease_table_due_ms(model->table, ids[i]) == model->leases[index].due_ms);
            model->leases[index].is_expiring = true;
        }
        /* Some proposals succeed, some fail, some are still on their way. */
        for (size_t i = 0; i < n; i++) {
            if (random_one_in(2)) {
                end_lease(index_of(ids[i]), LEASE_END_EXPIRED);
            }
        }
    } while (n == BATCH || lease_table_next_ms(model->table) <= model->now_ms);
    take_overdue();
    for (size_t i = 0; model->is_leading && i < LEASES; i++) {
        assert(!is_due(&model->leases[i]));
    }
    for (size_t i = 0; i < LEASES; i++) {
        if (model->leases[i].exists && model->leases[i].is_expiring && random_one_in(3)) {
            model->leases[i].put_off_ms = random_one_in(2) ? 0 : model->now_ms + random_below(1000);
            if (model->leases[i].put_off_ms == 0) {
                lease_table_unclaim(model->table, id_of(i));
            } else {
                lease_table_put_off(model->table, id_of(i), model->leases[i].put_off_ms);
            }
            model->leases[i].is_expiring = false;
        }
    }
}

static void do_lead_or_follow(void) {
    bool was_leading = model->is_leading;
    if (model->is_leading && random_one_in(2)) {
        lease_table_follow(model->table);
        model->is_leading = false;
    } else {
        lease_table_lead(model->table, model->now_ms);
        model->is_leading = true;
    }
    for (size_t i = 0; i < LEASES; i++) {
        struct lease *lease = &model->leases[i];
        lease->is_expiring = false;
        lease->is_being_noted = false;
        if (was_leading) {
            lease->counted_due_ms = lease->facts.checkpoint_ms != 0 ? lease->due_ms : 0;
        }
        if (!model->is_leading) {
            continue;
        }
        bool is_noted = lease->facts.checkpoint_ms != 0 && lease->facts.ttl_ms != LEASE_TTL_FOREVER;
        count_from_now(lease, is_noted ? lease->facts.checkpoint_ms : lease->facts.ttl_ms);
        if (is_noted && lease->counted_due_ms != 0 && lease->counted_due_ms < lease->due_ms) {
            lease->due_ms = lease->counted_due_ms;
        }
        lease->counted_due_ms = 0;
    }
}

static bool facts_equal(const struct lease_facts *a, const struct lease_facts *b) {
    return a->id == b->id && a->ttl_ms == b->ttl_ms && a->parent_id == b->parent_id &&
           a->checkpoint_ms == b->checkpoint_ms && a->class == b->class &&
           key_space_equal(a->owner, b->owner);
}

static bool visit_view(void *context, const struct lease_facts *facts) {
    struct view *view = context;
    assert(facts_equal(&view->facts[index_of(facts->id)], facts));
    view->count--;
    return true;
}

static bool ended_equal(const struct lease_ended *a, const struct lease_ended *b) {
    return a->id == b->id && a->ttl_ms == b->ttl_ms && a->wall_ms == b->wall_ms &&
           a->reason == b->reason;
}

static void close_view(struct view *view) {
    static struct lease_ended ended[LEASE_ENDED_MAX];
    assert(lease_view_count(view->view) == view->count);
    assert(lease_view_visit(view->view, visit_view, view));
    assert(view->count == 0);
    assert(lease_view_ended(view->view, ended, LEASE_ENDED_MAX) == view->n_ended);
    for (size_t i = 0; i < view->n_ended; i++) {
        assert(ended_equal(&ended[i], &view->ended[i]));
    }
    lease_view_close(view->view);
    view->view = NULL;
}

static void open_view(struct view *view) {
    view->view = lease_view_open(model->table);
    for (size_t i = 0; i < LEASES; i++) {
        view->facts[i] = model->leases[i].exists ? model->leases[i].facts : (struct lease_facts){0};
    }
    view->count = model->count;
    memcpy(view->ended, model->ended, sizeof view->ended);
    view->n_ended = model->n_ended;
}

static void do_view(void) {
    struct view *view = &model->views[random_below(VIEWS)];
    if (view->view != NULL) {
        close_view(view);
    } else {
        open_view(view);
    }
}

static bool restore_one(void *context, const struct lease_facts *facts) {
    return lease_table_restore(context, facts) == STATUS_OK;
}

/* Goes on with a copy of the table, as after installing a snapshot. */
static void do_restore(void) {
    struct lease_table *copy = lease_table_create(NULL);
    struct lease_view *view = lease_view_open(model->table);
    assert(lease_view_visit(view, restore_one, copy));
    assert(lease_table_restore_end(copy, 1) == STATUS_OK);
    lease_view_close(view);
    for (size_t i = 0; i < model->n_ended; i++) {
        lease_table_restore_ended(copy, &model->ended[i]);
    }
    lease_table_destroy(model->table);
    model->table = copy;
    for (size_t i = 0; i < RECORDS; i++) {
        if (model->is_attached[i]) {
            assert(lease_table_attach(copy, &model->records[i]) == STATUS_OK);
        }
    }
    model->is_leading = false;
    for (size_t i = 0; i < LEASES; i++) {
        model->leases[i].counted_due_ms = 0;
    }
    do_lead_or_follow();
}

static void check_one(size_t index) {
    const struct lease *lease = &model->leases[index];
    struct lease_facts facts;
    assert(lease_table_find(model->table, id_of(index), &facts) == lease->exists);
    if (!lease->exists) {
        return;
    }
    assert(facts_equal(&facts, &lease->facts));
    size_t n_keys = 0;
    for (size_t i = 0; i < RECORDS; i++) {
        n_keys += model->is_attached[i] && model->records[i].lease_id == id_of(index);
    }
    assert(lease_table_key_count(model->table, id_of(index)) == n_keys);
    int64_t remaining_ms = -1;
    enum status status =
        lease_table_remaining(model->table, id_of(index), model->now_ms, &remaining_ms);
    if (!model->is_leading) {
        assert(status == STATUS_NO_LEADER);
    } else if (lease->due_ms == 0) {
        assert(remaining_ms == LEASE_TTL_FOREVER);
    } else {
        assert(remaining_ms >= 0);
        assert(remaining_ms <= lease->facts.ttl_ms);
        assert(model->now_ms + (uint64_t)remaining_ms <= lease->due_ms ||
               lease->due_ms <= model->now_ms);
        assert(lease_table_due_ms(model->table, id_of(index)) == lease->due_ms);
    }
}

static void check_all(void) {
    static struct lease_ended ended[LEASE_ENDED_MAX];
    lease_table_validate(model->table);
    assert(lease_table_count(model->table) == model->count);
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < LEASES; i++) {
        const struct lease *lease = &model->leases[i];
        check_one(i);
        uint64_t at_ms = lease->due_ms > lease->put_off_ms ? lease->due_ms : lease->put_off_ms;
        if (lease->exists && !lease->is_expiring && lease->due_ms != 0 && at_ms < next_ms) {
            next_ms = at_ms;
        }
    }
    if (model->is_leading) {
        assert(lease_table_next_ms(model->table) <=
               (next_ms < model->now_ms ? model->now_ms : next_ms));
    }
    size_t n;
    int64_t *ids = lease_table_ids(model->table, &n);
    assert(n == model->count);
    for (size_t i = 0; i < n; i++) {
        assert(i == 0 || ids[i - 1] < ids[i]);
        assert(model->leases[index_of(ids[i])].exists);
    }
    free(ids);
    assert(lease_table_ended(model->table, ended, LEASE_ENDED_MAX) == model->n_ended);
    for (size_t i = 0; i < model->n_ended; i++) {
        assert(ended_equal(&ended[i], &model->ended[model->n_ended - 1 - i]));
    }
}

static void step(void) {
    uint64_t choice = random_below(1000);
    if (choice < 350) {
        do_grant();
    } else if (choice < 450) {
        end_lease(random_below(LEASES), LEASE_END_REVOKED);
    } else if (choice < 600) {
        do_change();
    } else if (choice < 750) {
        do_attach();
    } else if (choice < 950) {
        do_renew();
    } else if (choice < 980) {
        do_expire();
    } else if (choice < 995) {
        do_view();
    } else if (choice < 997) {
        do_begin_term();
    } else if (choice < 999) {
        do_lead_or_follow();
    } else {
        do_restore();
    }
    check_one(random_below(LEASES));
}

static void run(void) {
    model = calloc(1, sizeof *model);
    assert(model != NULL);
    model->table = lease_table_create(NULL);
    model->now_ms = random_below(1000000);
    for (unsigned i = 0; i < STEPS; i++) {
        step();
        if (i % 500 == 0) {
            check_all();
        }
    }
    check_all();
    lease_table_destroy(model->table);
    for (size_t i = 0; i < VIEWS; i++) {
        if (model->views[i].view != NULL) {
            close_view(&model->views[i]);
        }
    }
    free(model);
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    for (unsigned round = 0; round < ROUNDS; round++) {
        run();
    }
    return 0;
}
