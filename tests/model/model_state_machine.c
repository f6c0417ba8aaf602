/*
 * Random commands against a state machine and against a reference: every outcome, ranges at random
 * revisions, leases with their keys, expiries by a clock of our own, watchers of all kinds. A
 * second machine is kept in step and must give equal snapshots, and both are restored from
 * snapshots in between. The seed is printed; give it as the first argument to replay a run.
 */
#include "../storage/thorough.h"
#include "model_random.h"
#include "state_machine_reference.h"

enum {
    ROUNDS = THOROUGH(60),
    STEPS = 3000,
    WATCHES = 12,
    LEASE_IDS = 24,
    OPERATIONS_MAX = 4,
    DEPTH_MAX = 3,
    BATCH = 7
};

static unsigned round_number;
static unsigned step_number;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s is false in round %u, step %u\n", __FILE__, __LINE__,       \
                    #condition, round_number, step_number);                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct watch {
    struct watcher *watcher; /* NULL: not in use */
    struct bytes key, range_end;
    bool without_puts, without_deletes;
    bool is_stalled;
    int64_t start;
    int64_t known; /* what the watcher said it has been given */
    size_t next;   /* event of the reference */
};

static struct model {
    struct reference ref;
    struct state_machine *machine;
    struct state_machine *second;
    struct apply_context context;
    struct arena requests;
    struct arena arena;
    struct buffer log;
    struct watch watches[WATCHES];
    bool is_patient; /* watchers take everything */
} model;

/* --- Comparing. --- */

static bool is_same(const struct record *record, const struct ref_event *event) {
    return bytes_equal(record_key(record), model.ref.keys[event->key]) &&
           bytes_equal(record_value(record), bytes_of(event->value, event->value_size)) &&
           record->create_revision == event->create && record->mod_revision == event->mod &&
           record->version == event->version && record->lease_id == event->lease &&
           record->sub_revision == event->sub;
}

static void check_range(const struct range_request *request, const struct range_outcome *outcome) {
    struct ref_range expected;
    ref_range(&model.ref, request, &expected);
    CHECK(outcome->count == (int64_t)expected.count);
    CHECK(outcome->more == expected.more);
    CHECK(outcome->n_records == expected.n);
    for (size_t i = 0; i < expected.n; i++) {
        CHECK(is_same(outcome->records[i], expected.events[i]));
    }
}

static void check_put(const struct put_request *request, const struct put_outcome *outcome) {
    const struct ref_event *old = ref_at(&model.ref, ref_key(&model.ref, request->key), INT64_MAX);
    CHECK((outcome->previous != NULL) == (request->want_previous && old != NULL));
    CHECK(outcome->previous == NULL || is_same(outcome->previous, old));
    ref_put(&model.ref, request);
}

static void check_delete(const struct delete_request *request,
                         const struct delete_outcome *outcome) {
    struct ref_range before;
    struct range_request range = {.key = request->key, .range_end = request->range_end};
    ref_range(&model.ref, &range, &before);
    CHECK(outcome->n_previous == (request->want_previous ? before.n : 0));
    for (size_t i = 0; i < outcome->n_previous; i++) {
        CHECK(is_same(outcome->previous[i], before.events[i]));
    }
    CHECK(outcome->deleted == ref_delete(&model.ref, request));
}

static void check_txn(const struct txn_request *request, const struct txn_outcome *outcome) {
    bool succeeds = ref_succeeds(&model.ref, request);
    const struct operation *operations = succeeds ? request->success : request->failure;
    CHECK(outcome->succeeded == succeeds);
    CHECK(outcome->n_outcomes == (succeeds ? request->n_success : request->n_failure));
    for (size_t i = 0; i < outcome->n_outcomes; i++) {
        const struct operation_outcome *one = &outcome->outcomes[i];
        CHECK(one->type == operations[i].type);
        switch (one->type) {
        case OPERATION_RANGE:
            check_range(&operations[i].range, &one->range);
            break;
        case OPERATION_PUT:
            check_put(&operations[i].put, &one->put);
            break;
        case OPERATION_DELETE:
            check_delete(&operations[i].delete, &one->delete);
            break;
        case OPERATION_TXN:
            check_txn(&operations[i].txn, &one->txn);
            break;
        }
        CHECK(one->revision == model.ref.revision + (model.ref.n_changes > 0));
    }
}

/* --- Watching. --- */

static bool is_wanted(const struct watch *watch, const struct ref_event *event) {
    return event->mod >= watch->start &&
           ref_in_range(model.ref.keys[event->key], watch->key, watch->range_end) &&
           !(event->version == 0 ? watch->without_deletes : watch->without_puts);
}

/* The next event that the watcher is owed; NULL: none. */
static const struct ref_event *owed(struct watch *watch) {
    for (; watch->next < model.ref.n_events; watch->next++) {
        if (is_wanted(watch, &model.ref.events[watch->next])) {
            return &model.ref.events[watch->next];
        }
    }
    return NULL;
}

static const struct ref_event *version_before(const struct ref_event *event) {
    for (size_t i = (size_t)(event - model.ref.events); i > 0; i--) {
        if (model.ref.events[i - 1].key == event->key) {
            return model.ref.events[i - 1].version == 0 ? NULL : &model.ref.events[i - 1];
        }
    }
    return NULL;
}

static bool deliver(void *data, const struct watch_batch *batch) {
    struct watch *watch = data;
    const struct key_store *keys = state_machine_keys(model.machine);
    CHECK(!watch->is_stalled);
    if (!model.is_patient && random_one_in(10)) {
        watch->is_stalled = true;
        return false;
    }
    for (size_t i = 0; i < batch->n_events; i++) {
        const struct ref_event *event = owed(watch);
        CHECK(event != NULL);
        CHECK(is_same(batch->events[i], event));
        if (event->mod > model.ref.compacted) {
            const struct record *previous = key_store_previous(keys, batch->events[i]);
            const struct ref_event *before = version_before(event);
            CHECK((previous == NULL) == (before == NULL));
            CHECK(previous == NULL || is_same(previous, before));
        }
        watch->next++;
    }
    /* Whatever comes later is of a later revision: no revision is split, nothing is left out. */
    CHECK(owed(watch) == NULL || owed(watch)->mod > batch->revision);
    CHECK(batch->revision <= model.ref.revision);
    return true;
}

static void compacted(void *data, int64_t compacted_revision) {
    struct watch *watch = data;
    CHECK(compacted_revision == model.ref.compacted);
    CHECK(watch->start < compacted_revision);
    CHECK(watch->known + 1 < compacted_revision);
    watch->watcher = NULL;
}

static void check_watchers_caught_up(void) {
    struct watch_hub *hub = state_machine_watches(model.machine);
    model.is_patient = true;
    for (size_t i = 0; i < WATCHES; i++) {
        if (model.watches[i].is_stalled && model.watches[i].watcher != NULL) {
            model.watches[i].is_stalled = false;
            watch_hub_resume(hub, model.watches[i].watcher);
        }
    }
    watch_hub_publish(hub);
    while (watch_hub_work(hub, 50)) {
        watch_hub_validate(hub);
    }
    CHECK(!watch_hub_has_work(hub));
    size_t n = 0;
    for (size_t i = 0; i < WATCHES; i++) {
        struct watch *watch = &model.watches[i];
        if (watch->watcher != NULL) {
            n++;
            CHECK(owed(watch) == NULL);
            CHECK(watch->start > model.ref.revision || watcher_is_current(hub, watch->watcher));
        }
    }
    CHECK(watch_hub_count(hub) == n);
    model.is_patient = false;
}

/* --- Random requests. --- */

static struct bytes random_key(void) {
    return model.ref.keys[random_below(model.ref.n_keys)];
}

static struct bytes random_end(void) {
    return random_one_in(3)   ? bytes_of(NULL, 0)
           : random_one_in(4) ? bytes_of("\0", 1)
                              : random_key();
}

static struct bytes random_value(void) {
    uint8_t value[4] = {(uint8_t)('0' + random_below(4)), (uint8_t)random_below(256)};
    size_t size = random_below(3);
    return bytes_of(arena_copy(&model.requests, value, size), size);
}

static int64_t random_lease_id(void) {
    int64_t i = (int64_t)random_below(LEASE_IDS) + 1;
    return i % 4 == 0 ? INT64_MIN + i : i % 4 == 1 ? INT64_MAX - i : i % 4 == 2 ? -i : i;
}

static int64_t random_revision(void) {
    int64_t revision =
        model.ref.compacted - 1 +
        (int64_t)random_below((uint64_t)(model.ref.revision - model.ref.compacted) + 4);
    return random_one_in(2) ? 0 : revision;
}

static struct put_request random_put(void) {
    struct put_request put = {.key = random_key(), .want_previous = random_one_in(2)};
    put.ignore_value = random_one_in(12);
    put.ignore_lease = random_one_in(12);
    put.value = put.ignore_value ? bytes_of(NULL, 0) : random_value();
    if (!put.ignore_lease && random_one_in(2)) {
        bool is_living = model.ref.n_leases > 0 && !random_one_in(10);
        put.lease_id = is_living ? model.ref.leases[random_below(model.ref.n_leases)].facts.id
                                 : random_lease_id();
    }
    return put;
}

static struct delete_request random_delete(void) {
    struct bytes end = random_one_in(2) ? bytes_of(NULL, 0) : random_key();
    return (struct delete_request){
        .key = random_key(), .range_end = end, .want_previous = random_one_in(2)};
}

static struct range_request random_range(void) {
    struct range_request range = {.key = random_key(),
                                  .range_end = random_end(),
                                  .revision = random_revision(),
                                  .limit = random_one_in(2) ? 0 : (int64_t)random_below(6),
                                  .order = (enum sort_order)random_below(3),
                                  .target = (enum sort_target)random_below(5),
                                  .count_only = random_one_in(8),
                                  .keys_only = random_one_in(8)};
    int64_t *const bounds[] = {&range.mod_revision_min, &range.mod_revision_max,
                               &range.create_revision_min, &range.create_revision_max};
    for (size_t i = 0; i < 4; i++) {
        if (random_one_in(8)) {
            *bounds[i] = (int64_t)random_below((uint64_t)model.ref.revision + 2);
        }
    }
    return range;
}

static struct compare random_compare(void) {
    struct compare compare = {.key = random_key(),
                              .range_end = random_one_in(4) ? random_end() : bytes_of(NULL, 0),
                              .result = (enum compare_result)random_below(4),
                              .target = (enum compare_target)random_below(5)};
    const struct ref_event *event = ref_at(&model.ref, ref_key(&model.ref, compare.key), INT64_MAX);
    if (compare.target == COMPARE_VALUE) {
        compare.value = event != NULL && random_one_in(2)
                            ? bytes_of(arena_copy(&model.requests, event->value, event->value_size),
                                       event->value_size)
                            : random_value();
    } else if (compare.target == COMPARE_LEASE) {
        compare.number = event != NULL ? event->lease : 0;
    } else if (event != NULL) {
        int64_t number = compare.target == COMPARE_VERSION  ? event->version
                         : compare.target == COMPARE_CREATE ? event->create
                                                            : event->mod;
        compare.number = number + (int64_t)random_below(3) - 1;
    }
    return compare;
}

static struct txn_request random_txn(unsigned depth);

static struct operation *random_operations(unsigned depth, size_t *out_n) {
    *out_n = random_below(OPERATIONS_MAX);
    struct operation *operations = arena_calloc(&model.requests, *out_n, sizeof *operations);
    for (size_t i = 0; i < *out_n; i++) {
        uint64_t dice = random_below(10);
        if (dice < 4) {
            operations[i] = (struct operation){.type = OPERATION_PUT, .put = random_put()};
        } else if (dice < 6) {
            operations[i] = (struct operation){.type = OPERATION_DELETE, .delete = random_delete()};
        } else if (dice < 8 || depth == DEPTH_MAX) {
            operations[i] = (struct operation){.type = OPERATION_RANGE, .range = random_range()};
            /* Too often in the past or future, and no transaction would get through. */
            operations[i].range.revision = random_one_in(8) ? operations[i].range.revision : 0;
        } else {
            operations[i] = (struct operation){.type = OPERATION_TXN, .txn = random_txn(depth + 1)};
        }
    }
    return operations;
}

static struct txn_request random_txn(unsigned depth) {
    struct txn_request txn = {.n_compares = random_below(3)};
    txn.compares = arena_calloc(&model.requests, txn.n_compares, sizeof *txn.compares);
    for (size_t i = 0; i < txn.n_compares; i++) {
        txn.compares[i] = random_compare();
    }
    txn.success = random_operations(depth, &txn.n_success);
    txn.failure = random_operations(depth, &txn.n_failure);
    return txn;
}

/* --- Carrying out. --- */

/* On both machines, through the encoding. The outcome is the first machine's; it stays valid until
 * the next step. */
static struct outcome apply(const struct command *command) {
    struct outcome outcome;
    struct outcome other;
    struct command decoded;
    struct reader reader;
    struct apply_context context = model.context;
    CHECK(command_check(command) == STATUS_OK);
    model.log.size = 0;
    command_encode(&model.log, command);
    reader_init(&reader, bytes_of(model.log.data, model.log.size));
    CHECK(command_decode(&reader, &model.arena, &decoded) == STATUS_OK);
    CHECK(reader_left(&reader) == 0);
    state_machine_apply(model.machine, &decoded, &context, &model.arena, &outcome);
    context.now_ms = random_next();
    state_machine_apply(model.second, &decoded, &context, &model.arena, &other);
    CHECK(outcome.status == other.status);
    CHECK(outcome.revision == other.revision);
    return outcome;
}

static void finish(const struct outcome *outcome) {
    ref_finish(&model.ref);
    CHECK(outcome->revision == model.ref.revision);
}

static void step_put(void) {
    struct command command = {.type = COMMAND_PUT, .put = random_put()};
    struct outcome outcome = apply(&command);
    enum status expected = ref_put_check(&model.ref, &command.put, true);
    CHECK(outcome.status == expected);
    if (expected == STATUS_OK) {
        check_put(&command.put, &outcome.put);
    }
    finish(&outcome);
}

static void step_delete(void) {
    struct command command = {.type = COMMAND_DELETE, .delete = random_delete()};
    struct outcome outcome = apply(&command);
    CHECK(outcome.status == STATUS_OK);
    check_delete(&command.delete, &outcome.delete);
    finish(&outcome);
}

static void step_txn(void) {
    struct command command = {.type = COMMAND_TXN, .txn = random_txn(1)};
    if (ref_has_duplicates(&command.txn)) {
        CHECK(command_check(&command) == STATUS_KEY_DUPLICATE);
        return;
    }
    struct outcome outcome = apply(&command);
    CHECK(outcome.status == ref_txn_check(&model.ref, &command.txn));
    if (outcome.status == STATUS_OK) {
        check_txn(&command.txn, &outcome.txn);
    }
    finish(&outcome);
}

static void step_range(void) {
    struct range_request request = random_range();
    struct range_outcome outcome;
    enum status status =
        key_store_range(state_machine_keys(model.machine), KEY_SPACE_ETCD, &request,
                        &(struct key_work){.left = SIZE_MAX}, &model.arena, &outcome);
    CHECK(status == ref_range_check(&model.ref, request.revision));
    if (status == STATUS_OK) {
        check_range(&request, &outcome);
    }
}

static void step_compact(void) {
    int64_t revision =
        random_one_in(3) ? random_revision() : model.ref.compacted + (int64_t)random_below(20);
    struct command command = {.type = COMMAND_COMPACT, .compact = {.revision = revision}};
    bool is_none = revision == 0 && model.ref.compacted == 0;
    enum status expected = revision <= model.ref.compacted && !is_none ? STATUS_REVISION_COMPACTED
                           : revision > model.ref.revision             ? STATUS_REVISION_FUTURE
                                                                       : STATUS_OK;
    struct outcome outcome = apply(&command);
    CHECK(outcome.status == expected);
    if (expected == STATUS_OK) {
        model.ref.compacted = revision;
    }
    finish(&outcome);
}

static void step_grant(void) {
    struct command command = {
        .type = COMMAND_LEASE_GRANT,
        .grant = {.id = random_lease_id(),
                  .ttl_ms = random_one_in(10) ? LEASE_TTL_FOREVER : (int64_t)random_below(3000) + 1,
                  .parent_id = random_one_in(3) ? random_lease_id() : 0,
                  .class = (lease_class)random_below(3)}};
    struct outcome outcome = apply(&command);
    CHECK(outcome.status == ref_grant(&model.ref, &command.grant));
    CHECK(outcome.grant.id == command.grant.id);
    finish(&outcome);
}

static void step_revoke(void) {
    struct command command = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = random_lease_id()}};
    struct outcome outcome = apply(&command);
    CHECK(outcome.status == ref_end(&model.ref, command.revoke.id, LEASE_END_REVOKED));
    finish(&outcome);
}

static void step_set_ttl(void) {
    int64_t ttl_ms = random_one_in(8) ? LEASE_TTL_FOREVER : (int64_t)random_below(5000) + 1;
    struct command command = {.type = COMMAND_LEASE_SET_TTL,
                              .set_ttl = {.id = random_lease_id(), .ttl_ms = ttl_ms}};
    struct ref_lease *lease = ref_lease(&model.ref, command.set_ttl.id);
    struct outcome outcome = apply(&command);
    CHECK(outcome.status == (lease == NULL ? STATUS_LEASE_NOT_FOUND : STATUS_OK));
    if (lease != NULL) {
        lease->facts.ttl_ms = ttl_ms;
        lease->facts.checkpoint_ms = 0;
        lease->counted_due_ms = 0;
        ref_count_from_now(&model.ref, lease, ttl_ms);
    }
    finish(&outcome);
}

static uint32_t epoch_of(int64_t id) {
    struct lease_facts facts = {0};
    (void)lease_table_find(state_machine_leases(model.machine), id, &facts);
    return facts.epoch;
}

static void step_checkpoint(void) {
    int64_t ids[2] = {random_lease_id(), random_lease_id()};
    uint32_t epochs[2] = {epoch_of(ids[0]), epoch_of(ids[1])};
    int64_t remaining_ms[2] = {(int64_t)random_below(1000), 0};
    bool is_ours = !random_one_in(4);
    struct command command = {.type = COMMAND_LEASE_CHECKPOINT,
                              .checkpoint = {.term = model.context.term - !is_ours,
                                             .n = 2,
                                             .ids = ids,
                                             .epochs = epochs,
                                             .remaining_ms = remaining_ms}};
    struct outcome outcome = apply(&command);
    for (size_t i = 0; i < 2; i++) {
        struct ref_lease *lease = ref_lease(&model.ref, ids[i]);
        if (lease != NULL && is_ours) {
            ref_note(&model.ref, lease, remaining_ms[i]);
        }
    }
    finish(&outcome);
}

static void step_begin_term(void) {
    bool is_ours = !random_one_in(4);
    struct command command = {.type = COMMAND_BARRIER,
                              .barrier = {.term = model.context.term - !is_ours}};
    struct outcome outcome = apply(&command);
    for (size_t i = 0; i < model.ref.n_leases && is_ours; i++) {
        struct ref_lease *lease = &model.ref.leases[i];
        if (lease->facts.checkpoint_ms == 0 && lease->facts.ttl_ms != LEASE_TTL_FOREVER) {
            ref_note(&model.ref, lease, lease->facts.ttl_ms);
        }
    }
    finish(&outcome);
}

/* --- Time. --- */

static void expire(const int64_t *ids, size_t n, uint64_t term) {
    uint32_t epochs[REF_LEASES_MAX];
    bool is_meant[REF_LEASES_MAX];
    for (size_t i = 0; i < n; i++) {
        /* Now and then the expiry of another lease that had the same id. */
        is_meant[i] = !random_one_in(8);
        epochs[i] = epoch_of(ids[i]) - !is_meant[i];
    }
    struct command command = {.type = COMMAND_LEASE_EXPIRE,
                              .expire = {.term = term, .n = n, .ids = ids, .epochs = epochs}};
    size_t n_ended = 0;
    struct outcome outcome = apply(&command);
    for (size_t i = 0; i < n && term == model.context.term; i++) {
        if (!is_meant[i]) {
            lease_table_unclaim(state_machine_leases(model.machine), ids[i]);
            continue;
        }
        n_ended += ref_end(&model.ref, ids[i], LEASE_END_EXPIRED) == STATUS_OK;
    }
    CHECK(outcome.expire.n_ended == n_ended);
    finish(&outcome);
}

static void step_advance(void) {
    struct lease_table *leases = state_machine_leases(model.machine);
    int64_t ids[REF_LEASES_MAX];
    size_t n = 0;
    size_t n_due = 0;
    uint64_t before_ms = model.ref.now_ms;
    model.ref.now_ms = model.context.now_ms += random_below(random_one_in(10) ? 5000 : 200);
    model.ref.wall_ms = model.context.wall_ms = (int64_t)random_below(1000000);
    for (size_t i = 0; i < model.ref.n_leases; i++) {
        uint64_t due_ms = model.ref.leases[i].due_ms;
        n_due += model.ref.is_leading && due_ms != 0 && due_ms <= model.ref.now_ms;
        /* Whoever waits until then is not late. */
        CHECK(!model.ref.is_leading || due_ms == 0 ||
              lease_table_next_ms(leases) <= (due_ms > before_ms ? due_ms : before_ms));
    }
    for (;;) {
        CHECK(n + BATCH <= sizeof ids / sizeof ids[0]);
        size_t n_taken = lease_table_claim_expired(leases, model.ref.now_ms, ids + n, BATCH);
        n += n_taken;
        if (n_taken < BATCH && lease_table_next_ms(leases) > model.ref.now_ms) {
            break;
        }
    }
    CHECK(n == n_due); /* none missing */
    for (size_t i = 0; i < n; i++) {
        struct ref_lease *lease = ref_lease(&model.ref, ids[i]);
        int64_t ttl_ms;
        bool is_checkpointed;
        CHECK(lease != NULL);
        CHECK(lease->due_ms != 0 && lease->due_ms <= model.ref.now_ms); /* none early */
        CHECK(lease_table_renew(leases, ids[i], model.ref.now_ms, &ttl_ms, &is_checkpointed) ==
              STATUS_PENDING);
    }
    if (random_one_in(5)) {
        for (size_t i = 0; i < n; i++) {
            lease_table_unclaim(leases, ids[i]); /* due again */
        }
    } else {
        expire(ids, n, model.context.term);
    }
}

static void step_renew(void) {
    struct lease_table *leases = state_machine_leases(model.machine);
    int64_t id = random_lease_id();
    struct ref_lease *lease = ref_lease(&model.ref, id);
    int64_t ttl_ms;
    int64_t left_ms;
    bool is_checkpointed;
    enum status status = lease_table_renew(leases, id, model.ref.now_ms, &ttl_ms, &is_checkpointed);
    CHECK(status == (!model.ref.is_leading ? STATUS_NO_LEADER
                     : lease == NULL       ? STATUS_LEASE_NOT_FOUND
                                           : STATUS_OK));
    if (status == STATUS_OK) {
        CHECK(ttl_ms == lease->facts.ttl_ms);
        CHECK(is_checkpointed == (lease->facts.checkpoint_ms != 0));
        ref_count_from_now(&model.ref, lease, ttl_ms);
        CHECK(lease_table_remaining(leases, id, model.ref.now_ms, &left_ms) == STATUS_OK);
        CHECK(left_ms == ttl_ms);
    }
}

static void step_late_expiry(void) {
    int64_t id = random_lease_id();
    expire(&id, 1, model.context.term + 1 - random_below(2) * 2);
}

static void lead(void) {
    lease_table_lead(state_machine_leases(model.machine), model.ref.now_ms);
    model.context.term++;
    ref_lead(&model.ref);
}

static void step_leader(void) {
    if (model.ref.is_leading) {
        lease_table_follow(state_machine_leases(model.machine));
        ref_follow(&model.ref);
    } else {
        lead();
    }
}

/* --- Watchers, snapshots, memory. --- */

static void step_watch(void) {
    static const struct watcher_callbacks callbacks = {.deliver = deliver, .compacted = compacted};
    struct watch_hub *hub = state_machine_watches(model.machine);
    struct watch *watch = &model.watches[random_below(WATCHES)];
    if (watch->watcher != NULL) {
        if (random_one_in(3)) {
            watch_hub_remove(hub, watch->watcher);
            watch->watcher = NULL;
        } else if (watch->is_stalled) {
            watch->is_stalled = false;
            watch_hub_resume(hub, watch->watcher);
        }
        return;
    }
    *watch = (struct watch){.key = random_key(),
                            .range_end = random_end(),
                            .without_puts = random_one_in(6),
                            .without_deletes = random_one_in(6)};
    struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                      .key = watch->key,
                                      .range_end = watch->range_end,
                                      .without_puts = watch->without_puts,
                                      .without_deletes = watch->without_deletes,
                                      .callbacks = &callbacks,
                                      .data = watch};
    if (random_one_in(2)) {
        int64_t first = model.ref.compacted > 0 ? model.ref.compacted : 1;
        options.start_revision =
            first + (int64_t)random_below((uint64_t)(model.ref.revision - first) + 6);
    }
    watch->start = options.start_revision > 0 ? options.start_revision : model.ref.revision + 1;
    watch->watcher = watch_hub_add(hub, &options);
}

static void take_snapshot(struct state_machine *machine, struct buffer *buffer) {
    struct snapshot_view *view = snapshot_view_open(machine);
    snapshot_view_write(view, buffer);
    snapshot_view_close(view);
}

static void step_snapshot(void) {
    struct buffer first;
    struct buffer second;
    buffer_init(&first);
    buffer_init(&second);
    take_snapshot(model.machine, &first);
    take_snapshot(model.second, &second);
    struct bytes bytes = bytes_of(first.data, first.size);
    CHECK(bytes_equal(bytes, bytes_of(second.data, second.size)));
    if (random_one_in(3)) {
        state_machine_destroy(model.second);
        model.second = state_machine_create(NULL);
        CHECK(state_machine_restore(model.second, bytes) == STATUS_OK);
    } else if (random_one_in(3)) {
        CHECK(state_machine_restore(model.machine, bytes) == STATUS_OK);
        model.ref.is_leading = false;
        for (size_t i = 0; i < model.ref.n_leases; i++) {
            model.ref.leases[i].counted_due_ms = 0;
        }
        if (random_one_in(2)) {
            lead();
        }
    }
    buffer_clear(&first);
    buffer_clear(&second);
}

static void step_reclaim(void) {
    key_store_reclaim(state_machine_keys(random_one_in(2) ? model.machine : model.second),
                      random_below(20));
}

static void check_leases(void) {
    struct lease_table *leases = state_machine_leases(model.machine);
    size_t n;
    int64_t *ids = lease_table_ids(leases, &n);
    CHECK(n == model.ref.n_leases);
    for (size_t i = 0; i < n; i++) {
        struct lease_facts facts;
        const struct ref_lease *lease = ref_lease(&model.ref, ids[i]);
        size_t n_keys = 0;
        size_t n_expected = 0;
        CHECK(i == 0 || ids[i] > ids[i - 1]);
        CHECK(lease != NULL);
        CHECK(lease_table_find(leases, ids[i], &facts));
        CHECK(facts.ttl_ms == lease->facts.ttl_ms);
        CHECK(facts.parent_id == lease->facts.parent_id);
        CHECK(facts.checkpoint_ms == lease->facts.checkpoint_ms);
        CHECK(facts.class == lease->facts.class);
        for (const struct record *record = lease_table_first_key(leases, ids[i]); record != NULL;
             record = record->lease_next) {
            const struct ref_event *event =
                ref_at(&model.ref, ref_key(&model.ref, record_key(record)), INT64_MAX);
            CHECK(event != NULL);
            CHECK(is_same(record, event));
            CHECK(event->lease == ids[i]);
            n_keys++;
        }
        for (size_t key = 0; key < model.ref.n_keys; key++) {
            const struct ref_event *event = ref_at(&model.ref, key, INT64_MAX);
            n_expected += event != NULL && event->lease == ids[i];
        }
        CHECK(n_keys == n_expected);
        CHECK(lease_table_key_count(leases, ids[i]) == n_keys);
    }
    free(ids);
    static struct lease_ended ended[LEASE_ENDED_MAX];
    CHECK(lease_table_ended(leases, ended, LEASE_ENDED_MAX) == model.ref.n_ended);
    for (size_t i = 0; i < model.ref.n_ended; i++) {
        const struct lease_ended *expected = &model.ref.ended[model.ref.n_ended - 1 - i];
        CHECK(ended[i].id == expected->id);
        CHECK(ended[i].ttl_ms == expected->ttl_ms);
        CHECK(ended[i].wall_ms == expected->wall_ms);
        CHECK(ended[i].reason == expected->reason);
    }
}

static void check_all(void) {
    key_store_validate(state_machine_keys(model.machine));
    key_store_validate(state_machine_keys(model.second));
    lease_table_validate(state_machine_leases(model.machine));
    lease_table_validate(state_machine_leases(model.second));
    watch_hub_validate(state_machine_watches(model.machine));
    check_leases();
    CHECK(key_store_compacted_revision(state_machine_keys(model.machine)) == model.ref.compacted);
}

/* --- Rounds. --- */

static const struct {
    unsigned weight;
    void (*step)(void);
} steps[] = {
    {300, step_put},        {100, step_delete},   {200, step_txn},    {120, step_range},
    {15, step_compact},     {90, step_grant},     {30, step_revoke},  {20, step_set_ttl},
    {20, step_checkpoint},  {5, step_begin_term}, {80, step_advance}, {40, step_renew},
    {10, step_late_expiry}, {5, step_leader},     {80, step_watch},   {10, step_snapshot},
    {30, step_reclaim},
};

static void random_step(void) {
    unsigned total = 0;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        total += steps[i].weight;
    }
    uint64_t dice = random_below(total);
    size_t i = 0;
    while (dice >= steps[i].weight) {
        dice -= steps[i].weight;
        i++;
    }
    steps[i].step();
}

static void step(void) {
    struct watch_hub *hub = state_machine_watches(model.machine);
    random_step();
    /* Often several commands make one entry, after which watchers are told. */
    if (random_one_in(2)) {
        watch_hub_publish(hub);
        watch_hub_work(hub, random_below(20));
    }
    for (size_t i = 0; i < WATCHES; i++) {
        if (model.watches[i].watcher != NULL) {
            model.watches[i].known = watcher_revision(model.watches[i].watcher);
        }
    }
    if (step_number % 50 == 0) {
        check_all();
    }
    if (step_number % 200 == 0) {
        check_watchers_caught_up();
    }
    arena_reset(&model.requests);
    arena_reset(&model.arena);
}

static int compare_keys(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Short and long, prefixes of each other, with zeros and high bytes; numbered in their order. */
static void make_keys(char texts[REF_KEYS_MAX][16]) {
    model.ref.n_keys = 2 + random_below(REF_KEYS_MAX - 2);
    for (size_t i = 0; i < model.ref.n_keys; i++) {
        memset(texts[i], i % 3 == 0 ? 0 : 'a', 16);
        texts[i][0] = (char)(i % 5 == 0 ? 0xff : 'k');
        texts[i][1 + i % 4] = (char)i;
        texts[i][2 + i % 4] = (char)('A' + i);
        model.ref.keys[i] = bytes_of(texts[i], 3 + i % 4 + i % 7);
    }
    qsort(model.ref.keys, model.ref.n_keys, sizeof model.ref.keys[0], compare_keys);
    for (size_t i = 1; i < model.ref.n_keys; i++) {
        CHECK(compare_keys(&model.ref.keys[i - 1], &model.ref.keys[i]) < 0);
    }
}

static void run_round(void) {
    static char texts[REF_KEYS_MAX][16];
    model = (struct model){.ref = {.revision = 1},
                           .machine = state_machine_create(NULL),
                           .second = state_machine_create(NULL),
                           .context = {.term = 2}};
    arena_init(&model.requests);
    arena_init(&model.arena);
    buffer_init(&model.log);
    make_keys(texts);
    for (step_number = 1; step_number <= STEPS; step_number++) {
        step();
    }
    check_watchers_caught_up();
    check_all();
    step_snapshot();
    state_machine_destroy(model.machine);
    state_machine_destroy(model.second);
    arena_clear(&model.requests);
    arena_clear(&model.arena);
    buffer_clear(&model.log);
    free(model.ref.events);
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    for (round_number = 1; round_number <= ROUNDS; round_number++) {
        run_round();
    }
    return 0;
}
