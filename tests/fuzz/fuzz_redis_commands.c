/* The Redis protocol from bytes to replies: what the parser makes of them is run as a rule, command
 * by command, on a machine that has a key of each type; or, when the first byte is odd, they are
 * the rule's request. Whatever the bytes are, every command has one whole reply, and the structures
 * stay sound. */
#include "core/cluster_version.h"
#include "core/state_machine.h"
#include "doors/redis/redis_exec_rules.h"
#include "doors/redis/redis_parser.h"
#include "doors/redis/redis_reply.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COMMANDS_MAX = 64 };

static const char keys[] =
    "SET s 1\r\nSET t x PX 1000\r\nHSET h a 1 b 2\r\nSADD e a b c\r\nZADD z 1 a 2 b 3 c\r\n"
    "RPUSH l a b c\r\nLEASED.CONFIGURE notify-keyspace-events KEA\r\n";

static struct outcome apply(struct state_machine *machine, struct arena *arena,
                            const struct command *command) {
    const struct apply_context context = {.term = 1, .wall_ms = 1700000000000};
    struct outcome outcome;
    state_machine_apply(machine, command, &context, arena, &outcome);
    return outcome;
}

static struct outcome apply_request(struct state_machine *machine, struct arena *arena,
                                    struct bytes request) {
    const struct command command = {.type = COMMAND_RULE,
                                    .rule = {.number = REDIS_RULE_EXEC, .request = request}};
    return apply(machine, arena, &command);
}

/* One value, of which both protocols can be made. */
static void check_reply(struct bytes answer) {
    struct redis_reply_reader reader;
    struct redis_reply_value value;
    struct buffer out;
    size_t n = 0;
    redis_reply_reader_init(&reader, answer);
    while (redis_reply_next(&reader, &value)) {
        n += redis_reply_is_complete(&reader);
    }
    assert(!reader.failed);
    assert(n == 1);
    buffer_init(&out);
    assert(redis_reply_to_resp2(answer, &out) == STATUS_OK);
    assert(redis_reply_to_resp3(answer, &out) == STATUS_OK);
    buffer_clear(&out);
}

static void run(struct state_machine *machine, struct arena *arena,
                const struct redis_parsed *parsed) {
    const struct redis_command *command =
        parsed->argc == 0 ? NULL : redis_command_find(parsed->argv[0]);
    if (command == NULL || command->run == NULL || !redis_command_takes(command, parsed->argc)) {
        return;
    }
    struct buffer request;
    buffer_init(&request);
    redis_exec_put_head(&request, &(struct redis_exec_head){.seed = 1, .n_commands = 1});
    redis_exec_put_command(&request, 0, parsed->argv, parsed->argc);
    struct outcome outcome = apply_request(machine, arena, bytes_of(request.data, request.size));
    if (outcome.status == STATUS_OK) {
        check_reply(outcome.rule.answer);
    }
    buffer_clear(&request);
}

static void run_all(struct state_machine *machine, struct arena *arena, struct bytes bytes) {
    const struct redis_parser_limits limits = {.arguments_max = 1024, .bulk_max = 64 * 1024};
    struct redis_parsed parsed;
    for (unsigned i = 0; i < COMMANDS_MAX; i++) {
        enum redis_parse_result result = redis_parse(bytes, &limits, arena, &parsed);
        assert(result != REDIS_PARSE_ERROR || parsed.error != NULL);
        if (result != REDIS_PARSE_OK) {
            return;
        }
        assert(parsed.size > 0 && parsed.size <= bytes.size);
        run(machine, arena, &parsed);
        bytes = bytes_of(bytes.data + parsed.size, bytes.size - parsed.size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct rule *const rules[] = {&redis_rule_exec};
    static const struct rule_set set = {rules, 1};
    const struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                                  .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    struct arena arena;
    if (size == 0) {
        return 0;
    }
    arena_init(&arena);
    struct state_machine *machine =
        state_machine_create(&(struct state_machine_options){.rules = &set});
    apply(machine, &arena, &raise);
    run_all(machine, &arena, bytes_from_text(keys));
    if (data[0] % 2 == 0) {
        run_all(machine, &arena, bytes_of(data + 1, size - 1));
    } else {
        (void)apply_request(machine, &arena, bytes_of(data + 1, size - 1));
    }
    key_store_validate(state_machine_keys(machine));
    lease_table_validate(state_machine_leases(machine));
    state_machine_destroy(machine);
    arena_clear(&arena);
    return 0;
}
