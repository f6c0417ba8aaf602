#include "doors/redis/redis_exec_rules.h"

#include "core/cluster_version.h"
#include "doors/redis/redis_run_rules.h"
#include "doors/redis/redis_work_rules.h"

#include <string.h>

/* --- The request. --- */

enum { FLAG_TOKENS = 1 };

void redis_exec_put_head(struct buffer *out, const struct redis_exec_head *head) {
    buffer_put_u8(out, head->shows_tokens ? FLAG_TOKENS : 0);
    buffer_put_u64(out, head->seed);
    buffer_put_varint(out, head->n_watches);
    buffer_put_varint(out, head->n_commands);
}

void redis_exec_put_watch(struct buffer *out, const struct redis_exec_watch *watch) {
    buffer_put_u8(out, (uint8_t)watch->db);
    buffer_put_bytes(out, watch->key);
    buffer_put_zigzag(out, watch->mod_revision);
}

void redis_exec_put_command(struct buffer *out, unsigned db, const struct bytes *argv,
                            size_t argc) {
    buffer_put_u8(out, (uint8_t)db);
    buffer_put_varint(out, argc);
    for (size_t i = 0; i < argc; i++) {
        buffer_put_bytes(out, argv[i]);
    }
}

static bool decode_watches(struct reader *reader, struct arena *arena,
                           struct redis_exec_request *request) {
    if (request->head.n_watches > reader_left(reader)) {
        return false;
    }
    struct redis_exec_watch *watches =
        arena_calloc(arena, request->head.n_watches, sizeof watches[0]);
    for (size_t i = 0; i < request->head.n_watches; i++) {
        watches[i].db = reader_get_u8(reader);
        watches[i].key = reader_get_bytes(reader);
        watches[i].mod_revision = reader_get_zigzag(reader);
        if (watches[i].db >= REDIS_DATABASES || watches[i].key.size > REDIS_KEY_SIZE_MAX) {
            return false;
        }
    }
    request->watches = watches;
    return !reader->failed;
}

static bool decode_command(struct reader *reader, struct arena *arena,
                           struct redis_exec_command *out) {
    out->db = reader_get_u8(reader);
    out->argc = reader_get_varint(reader);
    if (reader->failed || out->db >= REDIS_DATABASES || out->argc == 0 ||
        out->argc > REDIS_ARGUMENTS_MAX || out->argc > reader_left(reader)) {
        return false;
    }
    struct bytes *argv = arena_calloc(arena, out->argc, sizeof argv[0]);
    for (size_t i = 0; i < out->argc; i++) {
        argv[i] = reader_get_bytes(reader);
    }
    out->argv = argv;
    out->command = reader->failed ? NULL : redis_command_find(argv[0]);
    return out->command != NULL && out->command->run != NULL &&
           redis_command_takes(out->command, out->argc);
}

bool redis_exec_decode(struct bytes bytes, struct arena *arena,
                       struct redis_exec_request *out_request) {
    struct redis_exec_request request = {0};
    struct reader reader;
    reader_init(&reader, bytes);
    request.head.shows_tokens = (reader_get_u8(&reader) & FLAG_TOKENS) != 0;
    request.head.seed = reader_get_u64(&reader);
    request.head.n_watches = reader_get_varint(&reader);
    request.head.n_commands = reader_get_varint(&reader);
    if (reader.failed || request.head.n_commands > REDIS_TRANSACTION_MAX ||
        request.head.n_watches > REDIS_TRANSACTION_MAX ||
        !decode_watches(&reader, arena, &request)) {
        return false;
    }
    struct redis_exec_command *commands =
        arena_calloc(arena, request.head.n_commands, sizeof commands[0]);
    for (size_t i = 0; i < request.head.n_commands; i++) {
        if (!decode_command(&reader, arena, &commands[i])) {
            return false;
        }
    }
    request.commands = commands;
    *out_request = request;
    return !reader.failed && reader_left(&reader) == 0;
}

/* --- The store, as a rule sees it. --- */

struct exec {
    struct rule_run *rule;
    struct redis_run *run;
    bool has_changed;
};

static const struct record *get(void *context, struct key_space_id space, struct bytes key) {
    struct exec *exec = context;
    if (rule_records_left(exec->rule) == 0) {
        exec->run->is_exceeded = true;
        return NULL;
    }
    return rule_get(exec->rule, space, key);
}

static bool visit(void *context, const struct key_range *range, redis_visit visit_one,
                  void *visit_context) {
    struct exec *exec = context;
    return rule_visit(exec->rule, range->space, range->key, range->range_end, visit_one,
                      visit_context);
}

static bool count_one(void *context, const struct record *record) {
    size_t *n = context;
    (void)record;
    (*n)++;
    return true;
}

/* What core counts is what there was before the run. */
static size_t count(void *context, const struct key_range *range) {
    struct exec *exec = context;
    size_t n = 0;
    if (!exec->has_changed) {
        return rule_count(exec->rule, range->space, range->key, range->range_end);
    }
    (void)visit(context, range, count_one, &n);
    return n;
}

/* The lease's own time is known to the leader alone: here the deadline counts, as far as the lease
 * allows it. */
static int64_t remaining_ms(void *context, int64_t lease_id, int64_t deadline_ms) {
    struct exec *exec = context;
    struct lease_facts facts;
    int64_t left_ms = deadline_ms - rule_wall_ms(exec->rule);
    if (rule_lease_find(exec->rule, lease_id, &facts) && left_ms > facts.ttl_ms) {
        left_ms = facts.ttl_ms;
    }
    return left_ms < 0 ? 0 : left_ms;
}

static int64_t put(void *context, struct key_space_id space, struct bytes key, struct bytes value,
                   int64_t lease_id) {
    struct exec *exec = context;
    exec->has_changed = true;
    exec->run->put_bytes += value.size;
    int64_t create_revision = rule_put(exec->rule, space, key, value, lease_id);
    if (create_revision == 0) {
        exec->run->is_exceeded = true; /* the run is refused, whatever follows */
    }
    return create_revision;
}

static bool delete_key(void *context, struct key_space_id space, struct bytes key) {
    struct exec *exec = context;
    exec->has_changed = true;
    return rule_delete(exec->rule, space, key);
}

static enum status lease_grant(void *context, int64_t ttl_ms, int64_t *out_id) {
    struct exec *exec = context;
    return rule_lease_grant(exec->rule, &(struct rule_lease){.ttl_ms = ttl_ms}, out_id);
}

static void lease_end(void *context, int64_t id) {
    struct exec *exec = context;
    exec->has_changed = true;
    (void)rule_lease_end(exec->rule, id, LEASE_END_REVOKED);
}

static enum status lease_set_ttl(void *context, int64_t id, int64_t ttl_ms) {
    struct exec *exec = context;
    return rule_lease_set_ttl(exec->rule, id, ttl_ms);
}

static size_t changes_left(void *context) {
    struct exec *exec = context;
    return rule_changes_left(exec->rule);
}

static const struct redis_store rule_store = {.get = get,
                                              .visit = visit,
                                              .count = count,
                                              .remaining_ms = remaining_ms,
                                              .put = put,
                                              .delete = delete_key,
                                              .lease_grant = lease_grant,
                                              .lease_end = lease_end,
                                              .lease_set_ttl = lease_set_ttl,
                                              .changes_left = changes_left};

/* --- Rights. --- */

static enum right right_of(const struct redis_command *command) {
    switch (command->right) {
    case REDIS_RIGHT_READ:
        return RIGHT_READ;
    case REDIS_RIGHT_WRITE:
        return RIGHT_WRITE;
    default:
        return RIGHT_READ_WRITE;
    }
}

/* Of the keys that a command names; of all keys when it concerns a database. */
static bool may_run(struct redis_run *run, struct rule_run *rule,
                    const struct redis_exec_command *one) {
    enum right right = right_of(one->command);
    struct redis_key_places places;
    if (one->command->right < REDIS_RIGHT_READ) {
        return true;
    }
    if (!redis_command_keys(one->command, one->argv, one->argc, &places)) {
        return true; /* the command will say what is wrong */
    }
    if (one->command->first_key == 0 && (one->command->flags & REDIS_F_MOVABLE) == 0) {
        struct key_range range = redis_range_database(run->arena, one->db);
        bool is_all = one->command->id == REDIS_CMD_FLUSHALL;
        for (unsigned db = 0; is_all && db < REDIS_DATABASES; db++) {
            struct key_range other = redis_range_database(run->arena, db);
            if (!rule_may(rule, right, &other)) {
                return false;
            }
        }
        return rule_may(rule, right, &range);
    }
    for (size_t i = 0; i < places.n; i++) {
        struct bytes key = one->argv[redis_key_place(&places, i)];
        const struct key_range range = {.space = KEY_SPACE_REDIS,
                                        .key = redis_key_main(run->arena, one->db, key)};
        if (!rule_may(rule, right, &range)) {
            return false;
        }
    }
    return true;
}

/* The commands name their keys, so the rights to them are asked for now, and what the commands then
 * look at on the way (SET looks whether there is a key) needs none. A script may name others: it
 * needs the right to read and to write whatever it touches. */
static bool check_rights(struct redis_run *run, struct rule_run *rule,
                         const struct redis_exec_request *request) {
    bool has_script = false;
    for (size_t i = 0; i < request->head.n_commands; i++) {
        if (!may_run(run, rule, &request->commands[i])) {
            return false;
        }
        has_script = has_script || request->commands[i].command->id == REDIS_CMD_EVAL ||
                     request->commands[i].command->id == REDIS_CMD_EVALSHA ||
                     request->commands[i].command->id == REDIS_CMD_EVAL_RO ||
                     request->commands[i].command->id == REDIS_CMD_EVALSHA_RO;
    }
    if (!has_script) {
        rule_act_for_server(rule);
    }
    return true;
}

/* --- Running. --- */

static bool watches_hold(struct redis_run *run, struct rule_run *rule,
                         const struct redis_exec_request *request) {
    for (size_t i = 0; i < request->head.n_watches; i++) {
        const struct redis_exec_watch *watch = &request->watches[i];
        struct bytes key = redis_key_main(run->arena, watch->db, watch->key);
        const struct record *record = rule_get(rule, KEY_SPACE_REDIS, key);
        if ((record == NULL ? 0 : record->mod_revision) != watch->mod_revision) {
            return false;
        }
    }
    return true;
}

static enum status run_commands(struct redis_run *run, const struct redis_exec_request *request) {
    for (size_t i = 0; i < request->head.n_commands; i++) {
        run->db = request->commands[i].db;
        redis_command_run(run, request->commands[i].argv, request->commands[i].argc);
        if (run->is_exceeded || run->reply->size > RULE_ANSWER_SIZE_MAX) {
            return STATUS_REQUEST_TOO_LARGE;
        }
        if (run->is_interrupted) {
            return STATUS_CANCELED;
        }
    }
    return STATUS_OK;
}

static enum status run_exec(struct rule_run *rule, struct bytes bytes, struct buffer *answer) {
    struct exec exec = {.rule = rule};
    struct redis_exec_request request;
    struct redis_run run = {.store = &rule_store,
                            .context = &exec,
                            .arena = rule_arena(rule),
                            .reply = answer,
                            .wall_ms = rule_wall_ms(rule),
                            .revision = rule_revision(rule)};
    exec.run = &run;
    if (!redis_exec_decode(bytes, run.arena, &request)) {
        return STATUS_INVALID;
    }
    run.seed = request.head.seed;
    run.shows_tokens = request.head.shows_tokens;
    if (!check_rights(&run, rule, &request)) {
        return STATUS_PERMISSION_DENIED;
    }
    if (!watches_hold(&run, rule, &request)) {
        buffer_put_u8(answer, REDIS_EXEC_ABORTED);
        return STATUS_OK;
    }
    enum status status = run_commands(&run, &request);
    rule_add_work(rule, run.compare_work + run.glob_steps / REDIS_GLOB_STEPS_OF_WORK +
                            (size_t)(run.script_work / REDIS_SCRIPT_WORK_OF_WORK));
    return status;
}

/* Looks at the commands as far as the request is well-formed. */
static size_t estimate_exec(const struct key_store *keys, const struct lease_table *leases,
                            struct bytes bytes) {
    enum { ARGUMENTS_SEEN = 64 }; /* those behind them are counted, not looked at */
    (void)leases;
    struct reader reader;
    size_t work = 0;
    reader_init(&reader, bytes);
    (void)reader_get_u8(&reader);
    (void)reader_get_u64(&reader);
    uint64_t n_watches = reader_get_varint(&reader);
    uint64_t n_commands = reader_get_varint(&reader);
    for (uint64_t i = 0; i < n_watches && !reader.failed; i++) {
        (void)reader_get_u8(&reader);
        (void)reader_get_bytes(&reader);
        (void)reader_get_zigzag(&reader);
    }
    for (uint64_t i = 0; i < n_commands && !reader.failed; i++) {
        struct bytes argv[ARGUMENTS_SEEN];
        unsigned db = reader_get_u8(&reader);
        uint64_t argc = reader_get_varint(&reader);
        for (uint64_t j = 0; j < argc && !reader.failed; j++) {
            struct bytes argument = reader_get_bytes(&reader);
            if (j < ARGUMENTS_SEEN) {
                argv[j] = argument;
            }
        }
        const struct redis_command *command =
            reader.failed || argc == 0 ? NULL : redis_command_find(argv[0]);
        size_t seen = argc < ARGUMENTS_SEEN ? (size_t)argc : ARGUMENTS_SEEN;
        if (command != NULL && redis_command_takes(command, seen)) {
            work += redis_work_of(keys, db, command, argv, seen) + 16 * (size_t)(argc - seen);
        }
    }
    return work;
}

const struct rule redis_rule_exec = {.number = REDIS_RULE_EXEC,
                                     .name = "redis_exec",
                                     .since_version = CLUSTER_VERSION_RULES,
                                     .spaces = {KEY_SPACE_REDIS, KEY_SPACE_REDIS_RECORDS},
                                     .run = run_exec,
                                     .estimate = estimate_exec};
