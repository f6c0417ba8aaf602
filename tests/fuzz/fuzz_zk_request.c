/* Changes of the ZooKeeper API on their whole way: from the bytes of a client to the rule's
 * request, through the rule, and back to bytes. The input is requests in a row: a byte for the
 * type, two for the size, the body. What the door encodes the rule must take. */
#include "core/cluster_version.h"
#include "core/state_machine.h"
#include "doors/door.h"
#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_rules.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REQUESTS_MAX = 32, REQUEST_HEADER = 3 };

static const int32_t types[] = {
    ZK_OP_CREATE,     ZK_OP_CREATE2, ZK_OP_CREATE_CONTAINER,
    ZK_OP_CREATE_TTL, ZK_OP_DELETE,  ZK_OP_SET_DATA,
    ZK_OP_SET_ACL,    ZK_OP_CHECK,   ZK_OP_MULTI,
};
enum { N_TYPES = sizeof types / sizeof types[0] };

struct setting {
    struct arena arena;
    struct state_machine *machine;
    union door_value values[ZK_N_FLAGS];
    struct door_environment environment;
    struct zk_door door;
    struct zk_connection connection;
};

static struct outcome apply(struct setting *setting, uint32_t number, struct bytes request) {
    const struct apply_context context = {.term = 1};
    const struct command command = {.type = COMMAND_RULE,
                                    .rule = {.number = number, .request = request}};
    struct outcome outcome;
    state_machine_apply(setting->machine, &command, &context, &setting->arena, &outcome);
    return outcome;
}

/* A session, and a client that has logged in. */
static void begin(struct setting *setting) {
    static const struct rule *const rules[] = {&zk_rule_connect, &zk_rule_close, &zk_rule_change,
                                               &zk_rule_session_ended, &zk_rule_timer};
    static const struct rule_set set = {rules, sizeof rules / sizeof rules[0]};
    const struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                                  .cluster_version = {.version = CLUSTER_VERSION_KNOWN}};
    const struct apply_context context = {.term = 1};
    struct outcome outcome;
    struct buffer request;
    *setting = (struct setting){0};
    arena_init(&setting->arena);
    setting->machine = state_machine_create(&(struct state_machine_options){.rules = &set});
    state_machine_apply(setting->machine, &raise, &context, &setting->arena, &outcome);

    setting->values[ZK_FLAG_CONTAINER_CHECK].duration_ms = 1000;
    setting->environment.values = setting->values;
    setting->door.environment = &setting->environment;
    arena_init(&setting->door.arena);
    setting->connection.door = &setting->door;
    setting->connection.number = 7;
    buffer_init(&setting->connection.ids);
    buffer_put_varint(&setting->connection.ids, 2);
    buffer_put_bytes(&setting->connection.ids, bytes_from_text("ip"));
    buffer_put_bytes(&setting->connection.ids, bytes_from_text("127.0.0.1"));
    buffer_put_bytes(&setting->connection.ids, bytes_from_text("digest"));
    buffer_put_bytes(&setting->connection.ids, bytes_from_text("a:b"));
    setting->connection.n_ids = 2;

    buffer_init(&request);
    zk_connect_encode(
        &request, &(struct zk_connect_request){.session = {.timeout_ms = 10000, .connection = 7}});
    outcome = apply(setting, ZK_RULE_CONNECT, bytes_of(request.data, request.size));
    assert(outcome.status == STATUS_OK);
    struct reader reader;
    reader_init(&reader, outcome.rule.answer);
    setting->connection.session_id = reader_get_zigzag(&reader);
    assert(setting->connection.session_id != 0);
    buffer_clear(&request);
}

static void put_asker(struct setting *setting, struct buffer *out) {
    buffer_put_zigzag(out, setting->connection.session_id);
    buffer_put_u64(out, setting->connection.number);
    buffer_append(out, setting->connection.ids.data, setting->connection.ids.size);
}

/* The body of an answer that tells no error ends where its parts end. */
static void check_answer(int32_t type, struct bytes body) {
    struct reader reader;
    reader_init(&reader, body);
    if (type == ZK_OP_CREATE || type == ZK_OP_CREATE2 || type == ZK_OP_CREATE_CONTAINER ||
        type == ZK_OP_CREATE_TTL) {
        struct bytes path = zk_jute_get_bytes(&reader, NULL);
        assert(!reader.failed && path.size > 1 && path.data[0] == '/');
        assert(reader_left(&reader) == (type == ZK_OP_CREATE ? 0 : ZK_STAT_SIZE));
    } else if (type == ZK_OP_SET_DATA || type == ZK_OP_SET_ACL) {
        assert(body.size == ZK_STAT_SIZE);
    } else if (type == ZK_OP_DELETE || type == ZK_OP_CHECK) {
        assert(body.size == 0);
    }
}

static void try_change(struct setting *setting, int32_t type, struct bytes body) {
    struct buffer request;
    struct buffer answer;
    buffer_init(&request);
    buffer_init(&answer);
    put_asker(setting, &request);
    enum zk_error error = zk_change_encode(&setting->connection, type, body, &request);
    arena_reset(&setting->door.arena);
    if (error == ZK_OK && request.size <= RULE_REQUEST_SIZE_MAX) {
        struct outcome outcome =
            apply(setting, ZK_RULE_CHANGE, bytes_of(request.data, request.size));
        assert(outcome.status != STATUS_INVALID);
        if (outcome.status == STATUS_OK) {
            error = zk_change_answer(type, body, outcome.rule.answer, &answer);
            if (error == ZK_OK) {
                check_answer(type, bytes_of(answer.data, answer.size));
            }
        }
    }
    buffer_clear(&request);
    buffer_clear(&answer);
    arena_reset(&setting->arena);
}

static void end(struct setting *setting) {
    struct buffer request;
    buffer_init(&request);
    put_asker(setting, &request);
    struct outcome outcome = apply(setting, ZK_RULE_CLOSE, bytes_of(request.data, request.size));
    assert(outcome.status == STATUS_OK);
    key_store_validate(state_machine_keys(setting->machine));
    lease_table_validate(state_machine_leases(setting->machine));
    buffer_clear(&request);
    buffer_clear(&setting->connection.ids);
    arena_clear(&setting->door.arena);
    arena_clear(&setting->arena);
    state_machine_destroy(setting->machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct setting setting;
    size_t at = 0;
    begin(&setting);
    for (size_t n = 0; n < REQUESTS_MAX && size - at >= REQUEST_HEADER; n++) {
        int32_t type = types[data[at] % N_TYPES];
        size_t body_size = (size_t)data[at + 1] << 8 | data[at + 2];
        at += REQUEST_HEADER;
        body_size = body_size < size - at ? body_size : size - at;
        try_change(&setting, type, bytes_of(data + at, body_size));
        at += body_size;
    }
    end(&setting);
    return 0;
}
