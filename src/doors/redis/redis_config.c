/* CONFIG: what libraries ask for. One setting can be changed, and holds for all members. */
#include "core/key_store.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_glob_model.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char notify[] = "notify-keyspace-events";

struct setting {
    const char *name;
    const char *value; /* NULL: it is found out */
};
static const struct setting settings[] = {
    {"appendfsync", "always"},
    {"appendonly", "yes"},
    {"databases", "16"},
    {"lua-time-limit", "5000"},
    {"maxclients", "0"},
    {"maxmemory", NULL},
    {"maxmemory-policy", "noeviction"},
    {notify, NULL},
    {"proto-max-bulk-len", NULL},
    {"save", ""},
    {"slave-read-only", "yes"},
    {"replica-read-only", "yes"},
    {"timeout", "0"},
    {"tcp-keepalive", "300"},
};

static struct bytes value_of(struct redis_door *door, const struct setting *setting,
                             char memory[32]) {
    if (setting->value != NULL) {
        return bytes_from_text(setting->value);
    }
    if (setting->name == notify) {
        struct bytes key = redis_key_record(&door->arena, 'c', bytes_from_text(notify));
        const struct record *record = key_store_find(state_view_keys(service_view(door->service)),
                                                     KEY_SPACE_REDIS_RECORDS, key);
        return record == NULL ? bytes_of("", 0) : record_value(record);
    }
    uint64_t number = strcmp(setting->name, "maxmemory") == 0 ? door->environment->quota_bytes
                                                              : door->limits.bulk_max;
    snprintf(memory, 32, "%" PRIu64, number);
    return bytes_from_text(memory);
}

enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

/* Of comparing all settings with all patterns. A class is looked at before it counts. */
enum { STEPS_MAX = N_SETTINGS * 16 * 1024 };

static bool is_asked_for(const struct setting *setting, const struct bytes *argv, size_t argc,
                         size_t *steps_left) {
    for (size_t i = 2; *steps_left > 0 && i < argc; i++) {
        if (redis_glob_match(argv[i], bytes_from_text(setting->name), steps_left) ||
            redis_word_is(argv[i], setting->name)) {
            return true;
        }
    }
    return false;
}

static void get(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                struct buffer *out) {
    const struct setting *asked_for[N_SETTINGS];
    size_t n = 0;
    size_t steps_left = STEPS_MAX;
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (is_asked_for(&settings[i], argv, argc, &steps_left)) {
            asked_for[n++] = &settings[i];
        }
    }
    redis_reply_map(out, n);
    for (size_t i = 0; i < n; i++) {
        char memory[32];
        redis_reply_bulk(out, bytes_from_text(asked_for[i]->name));
        redis_reply_bulk(out, value_of(connection->door, asked_for[i], memory));
    }
}

static const struct setting *find(struct bytes name) {
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (redis_word_is(name, settings[i].name)) {
            return &settings[i];
        }
    }
    return NULL;
}

static void refuse(struct bytes name, const char *text, struct buffer *out) {
    struct buffer whole;
    buffer_init(&whole);
    buffer_append(&whole, text, strlen(text));
    buffer_append(&whole, name.data, name.size < 128 ? name.size : 128);
    buffer_append(&whole, "'", 1);
    redis_reply_error(out, bytes_of(whole.data, whole.size));
    buffer_clear(&whole);
}

static bool set(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                struct buffer *out) {
    const struct setting *setting = argc == 4 ? find(argv[2]) : NULL;
    if (argc != 4) {
        redis_reply_error_text(out, "ERR wrong number of arguments for 'config|set' command");
        return true;
    }
    if (setting == NULL) {
        refuse(argv[2], "ERR Unknown option or number of arguments for CONFIG SET - '", out);
        return true;
    }
    if (service_check_admin(connection->door->service, redis_connection_caller(connection),
                            "CONFIG SET") != STATUS_OK) {
        redis_reply_error_text(out, "NOPERM this user has no permissions to run this command");
        return true;
    }
    if (setting->name != notify) {
        refuse(argv[2], "ERR CONFIG SET failed - can't set immutable config '", out);
        return true;
    }
    const struct bytes configure[] = {bytes_from_text(redis_commands[REDIS_CMD_CONFIGURE].name),
                                      argv[2], argv[3]};
    const struct redis_exec_command command = {
        .command = &redis_commands[REDIS_CMD_CONFIGURE], .argv = configure, .argc = 3};
    redis_connection_run(connection, &command);
    return false;
}

bool redis_config_run(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                      struct buffer *out) {
    if (argc >= 3 && redis_word_is(argv[1], "get")) {
        get(connection, argv, argc, out);
        return true;
    }
    if (redis_word_is(argv[1], "set")) {
        return set(connection, argv, argc, out);
    }
    if (argc == 2 && redis_word_is(argv[1], "resetstat")) {
        redis_reply_ok(out);
        return true;
    }
    redis_reply_error_text(
        out, "ERR unknown subcommand or wrong number of arguments for 'config' command");
    return true;
}
