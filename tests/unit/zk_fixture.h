/* A state machine that knows the ZooKeeper door's rules, and short ways to ask them. */
#ifndef LEASED_TESTS_ZK_FIXTURE_H
#define LEASED_TESTS_ZK_FIXTURE_H

#include "core/cluster_version.h"
#include "core/snapshot.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_request_model.h"
#include "doors/zookeeper/zk_rules.h"
#include "state_machine_fixture.h"

static const struct rule_set zk_rule_set = {zk_rules, ZK_N_RULES};

static inline void zk_fixture_init(struct fixture *fixture) {
    fixture_init(fixture);
    state_machine_destroy(fixture->machine);
    fixture->machine = state_machine_create(&(struct state_machine_options){.rules = &zk_rule_set});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &raise).status, STATUS_OK);
}

/* The request is cleared. */
static inline struct outcome zk_run(struct fixture *fixture, uint32_t number,
                                    struct buffer *request) {
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    struct outcome outcome = fixture_apply(fixture, &command);
    buffer_clear(request);
    return outcome;
}

/* --- Sessions. --- */

/* 0: refused. The password is a byte, repeated. */
static inline int64_t zk_connect_as(struct fixture *fixture, int64_t session_id,
                                    uint64_t connection, uint8_t password) {
    struct zk_connect_request connect = {
        .session_id = session_id, .session = {.timeout_ms = 10000, .connection = connection}};
    struct buffer request;
    struct reader reader;
    memset(connect.session.password_hash, password, ZK_PASSWORD_HASH_SIZE);
    buffer_init(&request);
    zk_connect_encode(&request, &connect);
    struct outcome outcome = zk_run(fixture, ZK_RULE_CONNECT, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    reader_init(&reader, outcome.rule.answer);
    return reader_get_zigzag(&reader);
}

static inline struct zk_asker zk_session_of(struct fixture *fixture, uint64_t connection) {
    return (struct zk_asker){.session_id = zk_connect_as(fixture, 0, connection, 7),
                             .connection = connection};
}

static inline enum zk_error zk_end(struct fixture *fixture, const struct zk_asker *asker) {
    struct buffer request;
    struct reader reader;
    buffer_init(&request);
    zk_asker_encode(&request, asker);
    struct outcome outcome = zk_run(fixture, ZK_RULE_CLOSE, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    reader_init(&reader, outcome.rule.answer);
    return (enum zk_error)reader_get_zigzag(&reader);
}

/* --- Operations. --- */

enum { ZK_RESULTS_MAX = 8 };

struct zk_results {
    size_t n;
    enum zk_error errors[ZK_RESULTS_MAX];
    struct bytes results[ZK_RESULTS_MAX];
    int64_t revision;
};

static inline struct zk_results zk_ask(struct fixture *fixture, const struct zk_asker *asker,
                                       const struct zk_operation *operations, size_t n) {
    struct zk_results results = {0};
    struct buffer request;
    struct reader reader;
    buffer_init(&request);
    zk_asker_encode(&request, asker);
    for (size_t i = 0; i < n; i++) {
        zk_operation_encode(&request, &operations[i]);
    }
    struct outcome outcome = zk_run(fixture, ZK_RULE_CHANGE, &request);
    assert_int_equal(outcome.status, STATUS_OK);
    results.revision = outcome.revision;
    reader_init(&reader, outcome.rule.answer);
    while (reader_left(&reader) > 0) {
        assert_true(results.n < ZK_RESULTS_MAX);
        results.errors[results.n] = (enum zk_error)reader_get_zigzag(&reader);
        results.results[results.n++] = reader_get_bytes(&reader);
    }
    assert_false(reader.failed);
    return results;
}

static inline struct zk_operation zk_create_of(const char *path, unsigned flags) {
    return (struct zk_operation){.kind = ZK_OPERATION_CREATE,
                                 .create_flags = (uint8_t)flags,
                                 .ttl_ms = 500,
                                 .path = bytes_from_text(path),
                                 .data = bytes_from_text("data")};
}

static inline struct zk_operation zk_delete_of(const char *path) {
    return (struct zk_operation){
        .kind = ZK_OPERATION_DELETE, .version = -1, .path = bytes_from_text(path)};
}

static inline enum zk_error zk_do(struct fixture *fixture, const struct zk_asker *asker,
                                  struct zk_operation operation) {
    return zk_ask(fixture, asker, &operation, 1).errors[0];
}

/* --- The tree. --- */

struct zk_seen {
    struct zk_node node;
    struct zk_children children;
    size_t n_children;
};

static inline bool zk_look(struct fixture *fixture, const char *path, struct zk_seen *out) {
    const struct key_store *keys = state_machine_keys(fixture->machine);
    struct bytes begin;
    struct bytes end;
    *out = (struct zk_seen){0};
    const struct record *record = key_store_find(
        keys, KEY_SPACE_ZOOKEEPER, zk_key_node(&fixture->arena, bytes_from_text(path)));
    if (record == NULL) {
        return false;
    }
    assert_true(zk_node_decode(record, &out->node));
    record = key_store_find(keys, KEY_SPACE_ZOOKEEPER,
                            zk_key_children(&fixture->arena, bytes_from_text(path)));
    if (record != NULL) {
        assert_true(zk_children_decode(record_value(record), &out->children));
    }
    zk_key_children_range(&fixture->arena, bytes_from_text(path), &begin, &end);
    out->n_children = key_store_count(keys, KEY_SPACE_ZOOKEEPER, begin, end);
    return true;
}

static inline bool zk_has(struct fixture *fixture, const char *path) {
    struct zk_seen seen;
    return zk_look(fixture, path, &seen);
}

#endif
