/*
 * A state machine and short ways to give it commands, for the unit tests of core. Every command
 * goes through its encoding first, as it does through the log, and every structure is validated
 * after it.
 */
#ifndef LEASED_TESTS_STATE_MACHINE_FIXTURE_H
#define LEASED_TESTS_STATE_MACHINE_FIXTURE_H

#include "core/state_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

struct fixture {
    struct state_machine *machine;
    struct arena arena;
    struct buffer log; /* keeps the bytes that outcomes may point to */
    struct apply_context context;
};

static inline void fixture_init(struct fixture *fixture) {
    *fixture = (struct fixture){.machine = state_machine_create(NULL), .context = {.term = 1}};
    arena_init(&fixture->arena);
    buffer_init(&fixture->log);
}

static inline void fixture_clear(struct fixture *fixture) {
    state_machine_destroy(fixture->machine);
    arena_clear(&fixture->arena);
    buffer_clear(&fixture->log);
}

static inline struct outcome fixture_apply(struct fixture *fixture, const struct command *command) {
    struct command decoded;
    struct reader reader;
    fixture->log.size = 0;
    command_encode(&fixture->log, command);
    reader_init(&reader, bytes_of(fixture->log.data, fixture->log.size));
    assert_int_equal(command_decode(&reader, &fixture->arena, &decoded), STATUS_OK);
    struct outcome outcome;
    state_machine_apply(fixture->machine, &decoded, &fixture->context, &fixture->arena, &outcome);
    key_store_validate(state_machine_keys(fixture->machine));
    lease_table_validate(state_machine_leases(fixture->machine));
    assert_int_equal(outcome.revision, key_store_revision(state_machine_keys(fixture->machine)));
    return outcome;
}

static inline struct outcome put_with(struct fixture *fixture, struct put_request put) {
    struct command command = {.type = COMMAND_PUT, .put = put};
    return fixture_apply(fixture, &command);
}

static inline struct outcome put(struct fixture *fixture, const char *key, const char *value,
                                 int64_t lease_id) {
    return put_with(fixture, (struct put_request){.key = bytes_from_text(key),
                                                  .value = bytes_from_text(value),
                                                  .lease_id = lease_id,
                                                  .want_previous = true});
}

static inline struct outcome del(struct fixture *fixture, const char *key, const char *range_end) {
    struct command command = {.type = COMMAND_DELETE,
                              .delete = {.key = bytes_from_text(key),
                                         .range_end = bytes_from_text(range_end),
                                         .want_previous = true}};
    return fixture_apply(fixture, &command);
}

static inline struct outcome grant_child(struct fixture *fixture, int64_t id, int64_t ttl_ms,
                                         int64_t parent_id) {
    struct command command = {.type = COMMAND_LEASE_GRANT,
                              .grant = {.id = id, .ttl_ms = ttl_ms, .parent_id = parent_id}};
    return fixture_apply(fixture, &command);
}

static inline struct outcome grant(struct fixture *fixture, int64_t id, int64_t ttl_ms) {
    return grant_child(fixture, id, ttl_ms, 0);
}

static inline struct outcome revoke(struct fixture *fixture, int64_t id) {
    struct command command = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = id}};
    return fixture_apply(fixture, &command);
}

/* 0, which no lease has, when there is no such lease. */
static inline uint32_t epoch_of(struct fixture *fixture, int64_t id) {
    struct lease_facts facts = {0};
    (void)lease_table_find(state_machine_leases(fixture->machine), id, &facts);
    return facts.epoch;
}

static inline struct outcome expire_epochs(struct fixture *fixture, uint64_t term,
                                           const int64_t *ids, const uint32_t *epochs, size_t n) {
    struct command command = {.type = COMMAND_LEASE_EXPIRE,
                              .expire = {.term = term, .n = n, .ids = ids, .epochs = epochs}};
    return fixture_apply(fixture, &command);
}

static inline struct outcome expire(struct fixture *fixture, uint64_t term, const int64_t *ids,
                                    size_t n) {
    uint32_t epochs[64];
    assert_true(n <= sizeof epochs / sizeof epochs[0]);
    for (size_t i = 0; i < n; i++) {
        epochs[i] = epoch_of(fixture, ids[i]);
    }
    return expire_epochs(fixture, term, ids, epochs, n);
}

static inline struct outcome checkpoint(struct fixture *fixture, uint64_t term, int64_t id,
                                        int64_t remaining_ms) {
    uint32_t epoch = epoch_of(fixture, id);
    struct command command = {
        .type = COMMAND_LEASE_CHECKPOINT,
        .checkpoint = {
            .term = term, .n = 1, .ids = &id, .epochs = &epoch, .remaining_ms = &remaining_ms}};
    return fixture_apply(fixture, &command);
}

static inline struct outcome compact(struct fixture *fixture, int64_t revision) {
    struct command command = {.type = COMMAND_COMPACT, .compact = {.revision = revision}};
    return fixture_apply(fixture, &command);
}

static inline struct outcome alarm_change(struct fixture *fixture, bool activate,
                                          uint64_t member_id, enum alarm_type alarm) {
    struct command command = {
        .type = COMMAND_ALARM,
        .alarm = {.activate = activate, .member_id = member_id, .alarm = alarm}};
    return fixture_apply(fixture, &command);
}

static inline const struct record *find(struct fixture *fixture, const char *key) {
    return key_store_find(state_machine_keys(fixture->machine), KEY_SPACE_ETCD,
                          bytes_from_text(key));
}

static inline int64_t revision(struct fixture *fixture) {
    return key_store_revision(state_machine_keys(fixture->machine));
}

static inline size_t keys_of(struct fixture *fixture, int64_t lease_id) {
    return lease_table_key_count(state_machine_leases(fixture->machine), lease_id);
}

static inline bool has_lease(struct fixture *fixture, int64_t id) {
    struct lease_facts ignored;
    return lease_table_find(state_machine_leases(fixture->machine), id, &ignored);
}

static inline void assert_value(const struct record *record, const char *value) {
    assert_non_null(record);
    assert_true(bytes_equal(record_value(record), bytes_from_text(value)));
}

/* The keys changed by one revision, in the order of the changes: "a -b c" says that b was
 * deleted. */
static inline void assert_changes(struct fixture *fixture, int64_t at, const char *expected) {
    struct key_store *keys = state_machine_keys(fixture->machine);
    char text[512] = "";
    size_t used = 0;
    uint32_t sub_revision = 0;
    for (uint64_t i = key_store_history_seek(keys, at); i < key_store_history_end(keys); i++) {
        const struct record *record = key_store_history_at(keys, i);
        if (record->mod_revision != at) {
            break;
        }
        assert_int_equal(record->sub_revision, sub_revision);
        sub_revision++;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s%.*s", used > 0 ? " " : "",
                             record_is_tombstone(record) ? "-" : "", (int)record_key(record).size,
                             (const char *)record_key(record).data);
        assert_true(used < sizeof text);
    }
    assert_string_equal(text, expected);
}

#endif
