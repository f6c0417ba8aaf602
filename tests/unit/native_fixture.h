/* A state machine that knows the native rules, and short ways to ask them. */
#ifndef LEASED_TESTS_NATIVE_FIXTURE_H
#define LEASED_TESTS_NATIVE_FIXTURE_H

#include "core/cluster_version.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_rules.h"
#include "state_machine_fixture.h"

enum { NATIVE_TTL_MS = 60 * 1000 };

static const struct rule_set native_rule_set = {native_rules, NATIVE_N_RULES};

static inline void native_fixture_init(struct fixture *fixture) {
    fixture_init(fixture);
    state_machine_destroy(fixture->machine);
    fixture->machine =
        state_machine_create(&(struct state_machine_options){.rules = &native_rule_set});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &raise).status, STATUS_OK);
}

/* Validating every structure after every command takes long when there are thousands. */
static bool native_is_quick;

/* The request is cleared. */
static inline struct outcome native_run(struct fixture *fixture, uint32_t number,
                                        struct buffer *request) {
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    struct outcome outcome;
    if (native_is_quick) {
        command.rule.request =
            bytes_of(arena_copy(&fixture->arena, request->data, request->size), request->size);
        state_machine_apply(fixture->machine, &command, &fixture->context, &fixture->arena,
                            &outcome);
    } else {
        outcome = fixture_apply(fixture, &command);
    }
    buffer_clear(request);
    return outcome;
}

/* --- Sessions. --- */

static inline struct native_session_create session_of(const char *owner) {
    return (struct native_session_create){
        .owner = bytes_from_text(owner), .class = NATIVE_CLASS_LOCK, .ttl_ms = NATIVE_TTL_MS};
}

static inline enum status try_session(struct fixture *fixture,
                                      const struct native_session_create *create, int64_t *out_id) {
    struct native_session_created created = {0};
    struct buffer request;
    buffer_init(&request);
    native_session_create_encode(&request, create);
    struct outcome outcome = native_run(fixture, NATIVE_RULE_SESSION_CREATE, &request);
    if (outcome.status == STATUS_OK) {
        assert_true(native_session_created_decode(outcome.rule.answer, &created));
        *out_id = created.id;
    }
    return outcome.status;
}

static inline int64_t session(struct fixture *fixture, const char *owner) {
    struct native_session_create create = session_of(owner);
    int64_t id = 0;
    assert_int_equal(try_session(fixture, &create, &id), STATUS_OK);
    return id;
}

static inline enum status end_session(struct fixture *fixture, int64_t id) {
    struct buffer request;
    buffer_init(&request);
    native_session_end_encode(&request, &(struct native_session_end){.session_id = id});
    return native_run(fixture, NATIVE_RULE_SESSION_END, &request).status;
}

/* --- Acquiring. --- */

static inline struct native_want exclusive(const char *name) {
    return (struct native_want){.name = bytes_from_text(name)};
}

static inline struct native_want shared(const char *name) {
    return (struct native_want){.name = bytes_from_text(name), .mode = NATIVE_SHARED};
}

static inline struct native_want slots(const char *pool, uint32_t n) {
    return (struct native_want){.is_pool = true, .name = bytes_from_text(pool), .n_slots = n};
}

static inline struct native_acquire wanting(int64_t session_id, struct native_want want) {
    return (struct native_acquire){
        .session_id = session_id, .n_wants = 1, .wants = {want}, .waits = true};
}

static inline enum status try_acquire(struct fixture *fixture, const struct native_acquire *acquire,
                                      struct native_acquired *out_acquired) {
    struct buffer request;
    buffer_init(&request);
    native_acquire_encode(&request, acquire);
    struct outcome outcome = native_run(fixture, NATIVE_RULE_ACQUIRE, &request);
    if (outcome.status == STATUS_OK) {
        assert_true(native_acquired_decode(outcome.rule.answer, &fixture->arena, out_acquired));
    }
    return outcome.status;
}

static inline struct native_acquired acquire_all(struct fixture *fixture,
                                                 const struct native_acquire *acquire) {
    struct native_acquired acquired = {0};
    assert_int_equal(try_acquire(fixture, acquire, &acquired), STATUS_OK);
    return acquired;
}

static inline struct native_acquired acquire(struct fixture *fixture, int64_t session_id,
                                             struct native_want want) {
    struct native_acquire request = wanting(session_id, want);
    return acquire_all(fixture, &request);
}

static inline struct native_released release_with(struct fixture *fixture,
                                                  const struct native_release *release) {
    struct native_released released = {0};
    struct buffer request;
    buffer_init(&request);
    native_release_encode(&request, release);
    struct outcome outcome = native_run(fixture, NATIVE_RULE_RELEASE, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(native_released_decode(outcome.rule.answer, &released));
    return released;
}

static inline struct native_released release(struct fixture *fixture,
                                             const struct native_acquired *acquired) {
    const struct native_release request = {.acquisition_id = acquired->acquisition.id,
                                           .session_id = acquired->session_id};
    return release_with(fixture, &request);
}

/* --- Looking. --- */

static inline const struct record *find_record(struct fixture *fixture, struct bytes key) {
    return key_store_find(state_machine_keys(fixture->machine), KEY_SPACE_NATIVE_RECORDS, key);
}

/* False: there is none. */
static inline bool look(struct fixture *fixture, int64_t id,
                        struct native_acquisition *out_acquisition) {
    const struct record *record = find_record(fixture, native_key_acquisition(&fixture->arena, id));
    if (record == NULL) {
        return false;
    }
    assert_true(native_acquisition_decode(record_value(record), &fixture->arena, out_acquisition));
    return true;
}

/* Its token; 0: it waits; -1: there is none. */
static inline int64_t token_of(struct fixture *fixture, const struct native_acquired *acquired) {
    struct native_acquisition acquisition;
    return look(fixture, acquired->acquisition.id, &acquisition) ? acquisition.token : -1;
}

static inline size_t count_in(struct fixture *fixture, struct key_range range) {
    return key_store_count(state_machine_keys(fixture->machine), range.space, range.key,
                           range.range_end);
}

static inline size_t count_all(struct fixture *fixture, struct key_space_id space) {
    return key_store_count(state_machine_keys(fixture->machine), space, bytes_of("", 1),
                           bytes_of("", 1));
}

struct ended_search {
    struct fixture *fixture;
    uint64_t number;
    struct native_ended found;
    size_t n;
};

static inline bool note_ended(void *context, const struct record *record) {
    struct ended_search *search = context;
    struct native_ended ended;
    assert_true(native_ended_decode(record_value(record), &search->fixture->arena, &ended));
    search->n++;
    if (ended.number > search->number) {
        search->number = ended.number;
        search->found = ended;
    }
    return true;
}

/* The newest end, and how many are remembered. */
static inline struct ended_search newest_end(struct fixture *fixture) {
    struct ended_search search = {.fixture = fixture};
    struct key_range range = native_records('e');
    key_store_visit(state_machine_keys(fixture->machine), range.space, range.key, range.range_end,
                    note_ended, &search);
    return search;
}

/* How many runs of "settle" it takes until nothing is left. */
static inline size_t settle(struct fixture *fixture) {
    size_t n = 0;
    bool has_more = true;
    while (has_more) {
        struct buffer request;
        buffer_init(&request);
        struct outcome outcome = native_run(fixture, NATIVE_RULE_SETTLE, &request);
        assert_int_equal(outcome.status, STATUS_OK);
        assert_true(native_settled_decode(outcome.rule.answer, &has_more));
        n++;
        assert_true(n < 10000);
    }
    return n;
}

static inline size_t n_unsettled(struct fixture *fixture) {
    return count_in(fixture, native_records('m'));
}

/* --- Pools. --- */

static inline enum status set_pool(struct fixture *fixture, const char *name, const char *names,
                                   const struct native_share *shares, size_t n_shares,
                                   int64_t hold_limit_ms) {
    /* One letter a slot. */
    struct bytes slot_names[64];
    struct native_pool_set set = {.name = bytes_from_text(name),
                                  .pool = {.n_slots = strlen(names),
                                           .slots = slot_names,
                                           .hold_limit_ms = hold_limit_ms,
                                           .n_shares = n_shares,
                                           .shares = (struct native_share *)shares}};
    struct buffer request;
    for (size_t i = 0; i < set.pool.n_slots; i++) {
        slot_names[i] = bytes_of(names + i, 1);
    }
    buffer_init(&request);
    native_pool_set_encode(&request, &set);
    return native_run(fixture, NATIVE_RULE_POOL_SET, &request).status;
}

/* The names of the slots that an acquisition has, in their order. */
static inline const char *slots_of(struct fixture *fixture,
                                   const struct native_acquired *acquired) {
    struct native_acquisition acquisition;
    if (!look(fixture, acquired->acquisition.id, &acquisition)) {
        return "gone";
    }
    char *text = arena_calloc(&fixture->arena, 1, acquisition.n_slots + 1);
    for (size_t i = 0; i < acquisition.n_slots; i++) {
        text[i] = (char)acquisition.slots[i].name.data[0];
    }
    return text;
}

#endif
