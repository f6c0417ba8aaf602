/* A state machine that knows the rules of the Consul door and of the registry, and short ways to
 * ask them. Sessions are named by a letter. */
#ifndef LEASED_TESTS_CONSUL_FIXTURE_H
#define LEASED_TESTS_CONSUL_FIXTURE_H

#include "doors/consul/consul_check_rules.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_rules.h"
#include "registry_fixture.h"

static inline void consul_fixture_init(struct fixture *fixture) {
    static const struct rule *rules[CONSUL_N_RULES + REGISTRY_N_RULES];
    static const struct rule_set set = {rules, CONSUL_N_RULES + REGISTRY_N_RULES};
    for (size_t i = 0; i < CONSUL_N_RULES; i++) {
        rules[i] = consul_rules[i];
    }
    for (size_t i = 0; i < REGISTRY_N_RULES; i++) {
        rules[CONSUL_N_RULES + i] = registry_rules[i];
    }
    fixture_init(fixture);
    state_machine_destroy(fixture->machine);
    fixture->machine = state_machine_create(&(struct state_machine_options){.rules = &set});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &raise).status, STATUS_OK);
}

/* --- Sessions. --- */

static inline struct bytes consul_id(struct fixture *fixture, char letter) {
    char text[CONSUL_UUID_SIZE + 1];
    snprintf(text, sizeof text, "%c0000000-0000-0000-0000-000000000000", letter);
    return bytes_of(arena_copy(&fixture->arena, text, CONSUL_UUID_SIZE), CONSUL_UUID_SIZE);
}

static inline enum status consul_create(struct fixture *fixture, struct consul_session session) {
    struct buffer request;
    buffer_init(&request);
    consul_session_create_encode(&request, &session);
    return registry_run(fixture, CONSUL_RULE_SESSION_CREATE, &request).status;
}

static inline struct consul_session consul_session_with(struct fixture *fixture, char letter,
                                                        int64_t lock_delay_ms, bool deletes) {
    return (struct consul_session){.id = consul_id(fixture, letter),
                                   .node = bytes_from_text("n1"),
                                   .ttl_ms = 10000,
                                   .lock_delay_ms = lock_delay_ms,
                                   .deletes = deletes};
}

/* The lease of the new session. */
static inline int64_t consul_begin(struct fixture *fixture, char letter, int64_t lock_delay_ms,
                                   bool deletes) {
    struct consul_session session = consul_session_with(fixture, letter, lock_delay_ms, deletes);
    assert_int_equal(consul_create(fixture, session), STATUS_OK);
    assert_true(consul_keys_session(store_of(fixture), &fixture->arena, session.id, &session));
    return session.lease_id;
}

static inline bool consul_has_session(struct fixture *fixture, char letter) {
    struct consul_session session;
    return consul_keys_session(store_of(fixture), &fixture->arena, consul_id(fixture, letter),
                               &session);
}

static inline enum status consul_destroy(struct fixture *fixture, char letter,
                                         bool only_if_critical) {
    const struct consul_session_destroy request = {.id = consul_id(fixture, letter),
                                                   .only_if_critical = only_if_critical};
    struct buffer buffer;
    buffer_init(&buffer);
    consul_session_destroy_encode(&buffer, &request);
    return registry_run(fixture, CONSUL_RULE_SESSION_DESTROY, &buffer).status;
}

/* --- Operations. --- */

static inline struct consul_op consul_op_of(enum consul_verb verb, const char *key) {
    return (struct consul_op){.verb = (uint8_t)verb, .key = bytes_from_text(key)};
}

static inline struct consul_op consul_set_of(const char *key, const char *value) {
    struct consul_op op = consul_op_of(CONSUL_SET, key);
    op.value = bytes_from_text(value);
    return op;
}

static inline struct consul_op consul_index_of(enum consul_verb verb, const char *key,
                                               int64_t index) {
    struct consul_op op = consul_op_of(verb, key);
    op.index = (uint64_t)index;
    op.value = bytes_from_text("cas");
    return op;
}

static inline struct consul_op consul_lock_of(struct fixture *fixture, enum consul_verb verb,
                                              const char *key, char letter) {
    struct consul_op op = consul_op_of(verb, key);
    op.session = consul_id(fixture, letter);
    op.value = bytes_from_text("held");
    return op;
}

static inline struct consul_results consul_ask(struct fixture *fixture, const struct consul_op *ops,
                                               size_t n) {
    struct consul_results results;
    struct buffer request;
    buffer_init(&request);
    consul_ops_encode(&request, ops, n);
    struct outcome outcome = registry_run(fixture, CONSUL_RULE_KV, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    struct bytes answer = outcome.rule.answer;
    answer.data = arena_copy(&fixture->arena, answer.data, answer.size);
    assert_true(consul_results_decode(answer, &fixture->arena, &results));
    return results;
}

/* 0, or why it was not done. */
static inline int consul_do(struct fixture *fixture, struct consul_op op) {
    struct consul_results results = consul_ask(fixture, &op, 1);
    return results.is_failed ? results.results[0].failure : 0;
}

static inline int consul_lock(struct fixture *fixture, const char *key, char letter) {
    return consul_do(fixture, consul_lock_of(fixture, CONSUL_LOCK, key, letter));
}

static inline int consul_unlock(struct fixture *fixture, const char *key, char letter) {
    return consul_do(fixture, consul_lock_of(fixture, CONSUL_UNLOCK, key, letter));
}

static inline int consul_lock_as_heir(struct fixture *fixture, const char *key, char letter,
                                      char previous) {
    struct consul_op op = consul_lock_of(fixture, CONSUL_LOCK, key, letter);
    op.previous = consul_id(fixture, previous);
    return consul_do(fixture, op);
}

/* --- Keys. --- */

struct consul_seen {
    bool is_there;
    struct consul_entry entry;
};

static inline bool consul_note_entry(void *context, const struct consul_entry *entry) {
    struct consul_seen *seen = context;
    *seen = (struct consul_seen){.is_there = true, .entry = *entry};
    return true;
}

static inline struct consul_seen consul_look(struct fixture *fixture, const char *key) {
    struct consul_seen seen = {0};
    struct key_range range = consul_key_range(&fixture->arena, bytes_from_text(key));
    consul_keys_visit(store_of(fixture), &range, consul_note_entry, &seen);
    return seen;
}

static inline bool consul_has(struct fixture *fixture, const char *key) {
    return consul_look(fixture, key).is_there;
}

static inline int64_t consul_index(struct fixture *fixture, const char *key) {
    return consul_look(fixture, key).entry.modify_index;
}

/* The letter of who holds it; '-': nobody. */
static inline char consul_holder(struct fixture *fixture, const char *key) {
    struct bytes session = consul_look(fixture, key).entry.lock.session;
    return session.size > 0 ? (char)session.data[0] : '-';
}

/* The lease of its lock-delay, whether the key is there or not; 0: none. */
static inline int64_t consul_delay_of(struct fixture *fixture, const char *key) {
    struct consul_lock lock;
    const struct record *record =
        key_store_find(store_of(fixture), KEY_SPACE_CONSUL,
                       consul_key_lock(&fixture->arena, bytes_from_text(key)));
    if (record == NULL || !consul_lock_decode(record_value(record), &lock)) {
        return 0;
    }
    return epoch_of(fixture, lock.delay_lease_id) != 0 ? lock.delay_lease_id : 0;
}

static inline size_t consul_count_held(struct fixture *fixture) {
    return count_in(fixture, consul_held_range(&fixture->arena, bytes_of("", 0)));
}

#endif
