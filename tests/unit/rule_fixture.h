/* A state machine that knows the trial rules, in a cluster that may use them. */
#ifndef LEASED_TESTS_RULE_FIXTURE_H
#define LEASED_TESTS_RULE_FIXTURE_H

#include "core/cluster_version.h"
#include "state_machine_fixture.h"
#include "trial_rules.h"

static inline void rule_fixture_init(struct fixture *fixture) {
    fixture_init(fixture);
    state_machine_destroy(fixture->machine);
    fixture->machine = state_machine_create(&(struct state_machine_options){.rules = &trial_rules});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &raise).status, STATUS_OK);
}

/* The request is cleared. */
static inline struct outcome run_rule(struct fixture *fixture, uint32_t number,
                                      struct buffer *request) {
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    assert_int_equal(command_check(&command), STATUS_OK);
    struct outcome outcome = fixture_apply(fixture, &command);
    buffer_clear(request);
    return outcome;
}

static inline struct outcome run_bad(struct fixture *fixture, enum trial_fault fault, uint64_t n) {
    struct buffer request;
    buffer_init(&request);
    trial_request_bad(&request, fault, n);
    return run_rule(fixture, TRIAL_BAD, &request);
}

static inline int64_t count(struct fixture *fixture, const char *name) {
    struct buffer request;
    int64_t number = 0;
    buffer_init(&request);
    trial_request_name(&request, name);
    struct outcome outcome = run_rule(fixture, TRIAL_COUNT, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(trial_answer_number(outcome.rule.answer, &number));
    return number;
}

static inline struct trial_locked lock(struct fixture *fixture, const char *name, int64_t lease_id,
                                       int64_t ttl_ms) {
    struct buffer request;
    struct trial_locked locked = {0};
    buffer_init(&request);
    trial_request_lock(&request, name, lease_id, ttl_ms);
    struct outcome outcome = run_rule(fixture, TRIAL_LOCK, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(trial_answer_locked(outcome.rule.answer, &locked));
    return locked;
}

static inline enum status unlock(struct fixture *fixture, const char *name, int64_t lease_id) {
    struct buffer request;
    buffer_init(&request);
    trial_request_unlock(&request, name, lease_id);
    return run_rule(fixture, TRIAL_UNLOCK, &request).status;
}

static inline enum status end_by_rule(struct fixture *fixture, int64_t lease_id) {
    struct buffer request;
    buffer_init(&request);
    trial_request_end(&request, lease_id);
    return run_rule(fixture, TRIAL_END, &request).status;
}

static inline const struct record *find_trial(struct fixture *fixture, const char *key) {
    return key_store_find(state_machine_keys(fixture->machine), TRIAL_SPACE, bytes_from_text(key));
}

/* The lease of whoever has the lock; 0: nobody. */
static inline int64_t holder_of(struct fixture *fixture, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "holder/%s", name);
    const struct record *record = find_trial(fixture, key);
    return record == NULL ? 0 : record->lease_id;
}

static inline size_t count_space(struct fixture *fixture, struct key_space_id space) {
    return key_store_count(state_machine_keys(fixture->machine), space, bytes_of("", 1),
                           bytes_of("", 1));
}

static inline void snapshot_of(struct fixture *fixture, struct buffer *out_snapshot) {
    struct snapshot_view *view = snapshot_view_open(fixture->machine);
    buffer_init(out_snapshot);
    snapshot_view_write(view, out_snapshot);
    snapshot_view_close(view);
}

#endif
