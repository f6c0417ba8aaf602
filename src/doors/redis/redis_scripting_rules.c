/* EVAL and SCRIPT: scripts are kept as records, so that EVALSHA finds them on every replica. */
#include "core/key_store.h"
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_exec_rules.h"
#include "doors/redis/redis_run_rules.h"
#include "doors/redis/redis_script_rules.h"

#include <stdio.h> /* snprintf */
#include <string.h>

static uint8_t lower(uint8_t byte) {
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 32) : byte;
}

/* The record of a script, by the digits of its SHA-1 in either case. */
static struct bytes script_key(struct redis_run *run, struct bytes sha) {
    uint8_t *digits = arena_alloc(run->arena, sha.size);
    for (size_t i = 0; i < sha.size; i++) {
        digits[i] = lower(sha.data[i]);
    }
    return redis_key_record(run->arena, 'x', bytes_of(digits, sha.size));
}

/* Scripts are kept in so many places, one after the other and then from the beginning again:
 * whoever sends a new one each time fills no more than that. A large one takes several. */
enum {
    KEPT_MAX = 1024,
    PLACE_SIZE = 16 * 1024,
    PLACES_MAX = (REDIS_SCRIPT_SIZE_MAX + PLACE_SIZE - 1) / PLACE_SIZE /* of one */
};

/* The record that names the script in a place; of place 0, how many were kept so far. */
static struct bytes place_key(struct redis_run *run, uint64_t place) {
    uint8_t digits[8];
    redis_put_be64(digits, place);
    return redis_key_record(run->arena, 'y', bytes_of(digits, sizeof digits));
}

static void put_record(struct redis_run *run, struct bytes key, struct bytes value) {
    run->store->put(run->context, KEY_SPACE_REDIS_RECORDS, key, value, 0);
}

/* The script in a place is forgotten, with the other places that it has, which are behind this. */
static void empty_place(struct redis_run *run, uint64_t n) {
    const struct record *record = redis_element_get(run, place_key(run, 1 + n % KEPT_MAX));
    if (record == NULL) {
        return;
    }
    struct bytes sha = record_value(record);
    run->store->delete (run->context, KEY_SPACE_REDIS_RECORDS, script_key(run, sha));
    for (uint64_t i = 1; i < PLACES_MAX; i++) {
        struct bytes key = place_key(run, 1 + (n + i) % KEPT_MAX);
        const struct record *other = redis_element_get(run, key);
        if (other == NULL || !bytes_equal(record_value(other), sha)) {
            break;
        }
        run->store->delete (run->context, KEY_SPACE_REDIS_RECORDS, key);
    }
}

/* Places for one more script, whose predecessors there are forgotten. */
static void take_places(struct redis_run *run, struct bytes sha, size_t size) {
    uint8_t count[8];
    const struct record *counter = redis_element_get(run, place_key(run, 0));
    uint64_t n = 0;
    if (counter != NULL && record_value(counter).size == sizeof count) {
        n = redis_get_be64(record_value(counter).data);
    }
    uint64_t end = n + 1 + (size > 0 ? (size - 1) / PLACE_SIZE : 0);
    for (; n < end; n++) {
        empty_place(run, n);
        put_record(run, place_key(run, 1 + n % KEPT_MAX), sha);
    }
    redis_put_be64(count, n);
    put_record(run, place_key(run, 0), bytes_of(count, sizeof count));
}

/* EVAL makes its script known to EVALSHA, too. Over a view nothing can be kept. */
static void keep(struct redis_run *run, struct bytes source) {
    char sha[REDIS_SCRIPT_SHA_SIZE];
    redis_script_sha(source, sha);
    struct bytes key = script_key(run, bytes_of(sha, sizeof sha));
    if (run->store->put != NULL && redis_element_get(run, key) == NULL) {
        take_places(run, bytes_of(sha, sizeof sha), source.size);
        put_record(run, key, source);
    }
}

/* --- EVAL --- */

/* Commands that the connection answers by itself, and scripts know too. */
static bool call_local(struct redis_run *run, const struct redis_command *command,
                       const struct bytes *argv, size_t argc) {
    int64_t db;
    switch (command->id) {
    case REDIS_CMD_PING:
        if (argc > 2) {
            redis_error(run, "wrong number of arguments for 'ping' command");
        } else if (argc == 2) {
            redis_reply_bulk(run->reply, argv[1]);
        } else {
            redis_reply_simple(run->reply, bytes_from_text("PONG"));
        }
        return true;
    case REDIS_CMD_ECHO:
        redis_reply_bulk(run->reply, argv[1]);
        return true;
    case REDIS_CMD_SELECT:
        if (!redis_get_integer(run, argv[1], &db)) {
            return true;
        }
        if (db < 0 || db >= REDIS_DATABASES) {
            redis_error(run, "DB index is out of range");
        } else {
            run->db = (unsigned)db; /* until the script ends */
            redis_reply_ok(run->reply);
        }
        return true;
    default:
        return false;
    }
}

/* Arguments of all calls of one script: what they make needs memory until the run ends. */
enum { CALLS_BYTES_MAX = 64 * 1024 * 1024, CALL_BYTES = 64 };

static bool spend(struct redis_run *run, const struct bytes *argv, size_t argc) {
    size_t bytes = CALL_BYTES;
    for (size_t i = 0; i < argc; i++) {
        bytes += argv[i].size + CALL_BYTES;
    }
    run->call_bytes += bytes;
    run->is_exceeded = run->is_exceeded || run->call_bytes > CALLS_BYTES_MAX;
    return !run->is_exceeded;
}

static enum status call(void *context, const struct bytes *argv, size_t argc, struct buffer *out) {
    struct redis_run *run = context;
    if (!spend(run, argv, argc)) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    enum { GLOB_STEPS_A_WORK = 4 };
    size_t glob_steps = run->glob_steps;
    size_t compare_work = run->compare_work;
    struct buffer *outer = run->reply;
    const struct redis_command *command = argc == 0 ? NULL : redis_command_find(argv[0]);
    run->reply = out;
    if (command == NULL) {
        redis_error(run, "Unknown Redis command called from script");
    } else if ((command->flags & REDIS_F_NOSCRIPT) != 0) {
        redis_error(run, "This Redis command is not allowed from script");
    } else if (!redis_command_takes(command, argc)) {
        redis_error(run, "Wrong number of args calling Redis command from script");
    } else if (call_local(run, command, argv, argc)) {
        /* answered */
    } else if (command->run == NULL) {
        redis_error(run, "This Redis command is not allowed from script");
    } else if (run->is_read_only && (command->flags & REDIS_F_WRITE) != 0) {
        redis_error(run, "Write commands are not allowed from read-only scripts.");
    } else {
        redis_command_run(run, argv, argc);
    }
    bool is_full = redis_run_is_full(run);
    run->reply = outer;
    redis_script_note_work((run->glob_steps - glob_steps) / GLOB_STEPS_A_WORK +
                           (run->compare_work - compare_work) * REDIS_SCRIPT_WORK_OF_WORK);
    return is_full ? STATUS_REQUEST_TOO_LARGE : STATUS_OK;
}

static bool get_source(struct redis_run *run, struct bytes argument, struct bytes *out_source) {
    bool is_sha = run->command->id == REDIS_CMD_EVALSHA || run->command->id == REDIS_CMD_EVALSHA_RO;
    if (!is_sha) {
        *out_source = argument;
        return true;
    }
    const struct record *record = NULL;
    if (argument.size == REDIS_SCRIPT_SHA_SIZE) {
        record = redis_element_get(run, script_key(run, argument));
    }
    if (record == NULL) {
        redis_reply_error_text(run->reply, "NOSCRIPT No matching script. Please use EVAL.");
        return false;
    }
    *out_source = record_value(record);
    return true;
}

void redis_scripting_eval(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool is_read_only =
        run->command->id == REDIS_CMD_EVAL_RO || run->command->id == REDIS_CMD_EVALSHA_RO;
    struct redis_script script = {0};
    int64_t n_keys;
    if (!redis_get_integer(run, argv[2], &n_keys)) {
        return;
    }
    if (n_keys < 0) {
        redis_error(run, "Number of keys can't be negative");
        return;
    }
    if ((uint64_t)n_keys > argc - 3) {
        redis_error(run, "Number of keys can't be greater than number of args");
        return;
    }
    if (!get_source(run, argv[1], &script.source)) {
        return;
    }
    script.keys = argv + 3;
    script.n_keys = (size_t)n_keys;
    script.args = argv + 3 + n_keys;
    script.n_args = argc - 3 - (size_t)n_keys;
    const struct redis_script_host host = {.context = run, .call = call};
    bool was_read_only = run->is_read_only;
    unsigned db = run->db;
    run->is_in_script = true;
    run->is_read_only = was_read_only || is_read_only;
    /* The scripts of a transaction share the work of one. */
    struct redis_script_limits limits = redis_script_limits_default;
    limits.work -= run->script_work;
    size_t put_before = run->put_bytes;
    enum status status = redis_script_run(&script, &host, &limits, run->reply);
    uint64_t work = redis_script_last_work();
    run->script_work += work < limits.work ? work : limits.work;
    redis_script_remember_values(script.source, run->put_bytes - put_before);
    run->is_in_script = false;
    run->is_read_only = was_read_only;
    run->db = db;
    if (status != STATUS_OK) {
        run->is_interrupted = true;
    } else if (run->command->id == REDIS_CMD_EVAL || run->command->id == REDIS_CMD_EVAL_RO) {
        keep(run, script.source);
    }
}

/* --- How much may be on its way. --- */

/* So that some hundred, a dozen, or a few are on their way at once. */
static const size_t least_work[] = {[REDIS_SCRIPT_LOOKS_CHEAP] = 6 * 1024,
                                    [REDIS_SCRIPT_LOOKS_ORDINARY] = 48 * 1024,
                                    [REDIS_SCRIPT_LOOKS_AT_ALL] = 192 * 1024};

static size_t estimate_script(const struct key_store *keys, bool is_sha, struct bytes argument) {
    uint8_t key[1 + REDIS_SCRIPT_SHA_SIZE] = {'x'};
    struct bytes source = argument;
    if (is_sha) {
        if (argument.size != REDIS_SCRIPT_SHA_SIZE) {
            return 0;
        }
        for (size_t i = 0; i < argument.size; i++) {
            key[1 + i] = lower(argument.data[i]);
        }
        const struct record *record =
            key_store_find(keys, KEY_SPACE_REDIS_RECORDS, bytes_of(key, sizeof key));
        if (record == NULL || record_is_tombstone(record)) {
            return 0; /* it is refused */
        }
        source = record_value(record);
    }
    enum redis_script_look look;
    size_t work = (size_t)(redis_script_expected_work(source, &look) / REDIS_SCRIPT_WORK_OF_WORK);
    /* Its arguments may make much of what was little before. */
    return work > least_work[look] ? work : least_work[look];
}

size_t redis_scripting_estimate(const struct key_store *keys, struct bytes name,
                                struct bytes argument) {
    bool is_eval = name.size >= 4 && redis_word_is(bytes_of(name.data, 4), "eval");
    return is_eval ? estimate_script(keys, name.size >= 7 && lower(name.data[4]) == 's', argument)
                   : 0;
}

/* --- SCRIPT --- */

static void load(struct redis_run *run, struct bytes source) {
    char sha[REDIS_SCRIPT_SHA_SIZE];
    size_t before = run->reply->size;
    enum status status = redis_script_check(source, &redis_script_limits_default, run->reply);
    if (status != STATUS_OK) {
        run->is_interrupted = true;
        return;
    }
    if (run->reply->size != before) {
        return; /* it does not compile */
    }
    keep(run, source);
    redis_script_sha(source, sha);
    redis_reply_bulk(run->reply, bytes_of(sha, sizeof sha));
}

static void exist(struct redis_run *run, const struct bytes *shas, size_t n) {
    redis_reply_array(run->reply, n);
    for (size_t i = 0; i < n; i++) {
        bool is_there = shas[i].size == REDIS_SCRIPT_SHA_SIZE &&
                        redis_element_get(run, script_key(run, shas[i])) != NULL;
        redis_reply_integer(run->reply, is_there);
    }
}

static void flush_records(struct redis_run *run, char kind) {
    struct key_range range = redis_range_records(kind);
    struct redis_records records =
        redis_collect(run, &range, 0, run->store->changes_left(run->context));
    for (size_t i = 0; i < records.n; i++) {
        run->store->delete (run->context, KEY_SPACE_REDIS_RECORDS, record_key(records.at[i]));
    }
}

static void flush(struct redis_run *run) {
    flush_records(run, 'x');
    flush_records(run, 'y');
    redis_reply_ok(run->reply);
}

/* What Redis says of a subcommand that it has not, or that has other arguments. */
static void refuse_subcommand(struct redis_run *run, struct bytes name) {
    static const char *const known[] = {"load", "exists", "flush", "kill"};
    char text[128];
    int size = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (redis_word_is(name, known[i])) {
            size = snprintf(text, sizeof text,
                            "ERR wrong number of arguments for 'script|%s' command", known[i]);
        }
    }
    if (size == 0) {
        int shown = name.size < 64 ? (int)name.size : 64;
        size = snprintf(text, sizeof text, "ERR unknown subcommand '%.*s'. Try SCRIPT HELP.", shown,
                        (const char *)name.data);
    }
    redis_reply_error(run->reply, bytes_of(text, (size_t)size));
}

void redis_scripting_script(struct redis_run *run, const struct bytes *argv, size_t argc) {
    if (argc == 3 && redis_word_is(argv[1], "load")) {
        load(run, argv[2]);
    } else if (argc >= 3 && redis_word_is(argv[1], "exists")) {
        exist(run, argv + 2, argc - 2);
    } else if (redis_word_is(argv[1], "flush") && argc <= 3) {
        bool is_known =
            argc == 2 || redis_word_is(argv[2], "sync") || redis_word_is(argv[2], "async");
        if (is_known) {
            flush(run);
        } else {
            redis_error(run, "SCRIPT FLUSH only support SYNC|ASYNC option");
        }
    } else if (argc == 2 && redis_word_is(argv[1], "kill")) {
        redis_reply_error_text(run->reply, "NOTBUSY No scripts in execution right now.");
    } else {
        refuse_subcommand(run, argv[1]);
    }
}
