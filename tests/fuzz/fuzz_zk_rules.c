/* What the rules of the ZooKeeper API are given, and what its decoders read. The first byte
 * chooses. */
#include "core/cluster_version.h"
#include "core/state_machine.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_request_model.h"
#include "doors/zookeeper/zk_rules.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rule *const rules[] = {&zk_rule_connect, &zk_rule_close, &zk_rule_change,
                                           &zk_rule_session_ended, &zk_rule_timer};
enum { N_RULES = sizeof rules / sizeof rules[0], RECORDS = 5 };

static struct outcome apply(struct state_machine *machine, struct arena *arena, uint32_t number,
                            struct bytes request) {
    const struct apply_context context = {.term = 1};
    const struct command command = {.type = COMMAND_RULE,
                                    .rule = {.number = number, .request = request}};
    struct outcome outcome;
    state_machine_apply(machine, &command, &context, arena, &outcome);
    return outcome;
}

/* A session of connection 7 that has a container with an ephemeral node in it. */
static int64_t begin(struct state_machine *machine, struct arena *arena) {
    struct buffer request;
    struct reader reader;
    buffer_init(&request);
    zk_connect_encode(
        &request, &(struct zk_connect_request){.session = {.timeout_ms = 10000, .connection = 7}});
    struct outcome outcome =
        apply(machine, arena, ZK_RULE_CONNECT, bytes_of(request.data, request.size));
    assert(outcome.status == STATUS_OK);
    reader_init(&reader, outcome.rule.answer);
    int64_t session_id = reader_get_zigzag(&reader);
    request.size = 0;
    zk_asker_encode(&request, &(struct zk_asker){.session_id = session_id, .connection = 7});
    zk_operation_encode(&request, &(struct zk_operation){.kind = ZK_OPERATION_CREATE,
                                                         .create_flags = ZK_CREATE_CONTAINER,
                                                         .ttl_ms = 1000,
                                                         .path = bytes_from_text("/c")});
    zk_operation_encode(&request, &(struct zk_operation){.kind = ZK_OPERATION_CREATE,
                                                         .create_flags = ZK_CREATE_EPHEMERAL,
                                                         .path = bytes_from_text("/c/e")});
    outcome = apply(machine, arena, ZK_RULE_CHANGE, bytes_of(request.data, request.size));
    assert(outcome.status == STATUS_OK);
    buffer_clear(&request);
    return session_id;
}

/* Whatever the bytes are, the structures stay sound, and the session can be ended. */
static void try_rule(uint32_t number, struct bytes input, bool is_from_session) {
    static const struct rule_set set = {rules, N_RULES};
    const struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                                  .cluster_version = {.version = CLUSTER_VERSION_KNOWN}};
    const struct apply_context context = {.term = 1};
    struct arena arena;
    struct buffer request;
    struct outcome outcome;
    arena_init(&arena);
    buffer_init(&request);
    struct state_machine *machine =
        state_machine_create(&(struct state_machine_options){.rules = &set});
    state_machine_apply(machine, &raise, &context, &arena, &outcome);
    int64_t session_id = begin(machine, &arena);
    if (is_from_session) {
        zk_asker_encode(&request, &(struct zk_asker){.session_id = session_id, .connection = 7});
    }
    buffer_append(&request, input.data, input.size);
    (void)apply(machine, &arena, number, bytes_of(request.data, request.size));
    (void)apply(machine, &arena, number, bytes_of(request.data, request.size));
    request.size = 0;
    zk_asker_encode(&request, &(struct zk_asker){.session_id = session_id, .connection = 7});
    (void)apply(machine, &arena, ZK_RULE_CLOSE, bytes_of(request.data, request.size));
    key_store_validate(state_machine_keys(machine));
    lease_table_validate(state_machine_leases(machine));
    buffer_clear(&request);
    arena_clear(&arena);
    state_machine_destroy(machine);
}

static void check_path(struct bytes path) {
    struct arena arena;
    arena_init(&arena);
    if (zk_path_is_valid(path, false)) {
        struct bytes parent = zk_path_parent(path);
        struct bytes found;
        assert(zk_path_is_root(path) || zk_path_is_within(path, parent));
        assert(zk_key_path(zk_key_node(&arena, path), ZK_KEY_NODE, &found));
        assert(bytes_equal(found, path));
    }
    arena_clear(&arena);
}

static void try_decoder(unsigned which, struct bytes value) {
    struct zk_session session;
    struct zk_children children;
    struct zk_connect_request connect;
    const struct zk_id id = {bytes_from_text("ip"), bytes_from_text("10.1.2.3")};
    switch (which) {
    case 0:
        (void)zk_session_decode(value, &session);
        break;
    case 1:
        (void)zk_children_decode(value, &children);
        break;
    case 2:
        (void)zk_connect_decode(value, &connect);
        break;
    case 3:
        (void)zk_acl_is_valid(value);
        (void)zk_acl_allows(value, ZK_PERMISSION_READ, &id, 1);
        (void)zk_ip_is_pattern(value);
        break;
    default:
        check_path(value);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    unsigned which = data[0] % (2 * N_RULES + RECORDS);
    struct bytes rest = bytes_of(data + 1, size - 1);
    if (which < 2 * N_RULES) {
        try_rule(rules[which / 2]->number, rest, which % 2);
    } else {
        try_decoder(which - 2 * N_RULES, rest);
    }
    return 0;
}
