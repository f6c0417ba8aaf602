#include "doors/redis/redis_command_rules.h"

#include "doors/redis/redis_run_rules.h"

#include <string.h>

#define R REDIS_F_READ
#define W REDIS_F_WRITE
#define L REDIS_F_LOCAL
#define S REDIS_F_NOSCRIPT
#define B REDIS_F_BLOCK
#define F REDIS_F_FAST
#define M REDIS_F_MOVABLE
#define P REDIS_F_PUBSUB
#define NOAUTH REDIS_F_NOAUTH
#define NOW REDIS_F_NOW
#define ADMIN REDIS_F_ADMIN

const struct redis_command redis_commands[REDIS_N_COMMANDS] = {
#define X(token, name, arity, right, flags, first, last, step, group, function)                    \
    {REDIS_CMD_##token, name, arity, REDIS_RIGHT_##right, flags, first, last, step, group,         \
     function},
    REDIS_COMMANDS(X)
#undef X
};

/* --- Finding. --- */

enum { NAME_SIZE_MAX = 24, SLOTS = 1024 };

static uint8_t lower(uint8_t byte) {
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 32) : byte;
}

static unsigned hash(const uint8_t *name, size_t size) {
    unsigned sum = (unsigned)size;
    for (size_t i = 0; i < size; i++) {
        sum = sum * 31 + lower(name[i]);
    }
    return sum % SLOTS;
}

/* Places in the table of commands, plus one; filled once, by whoever asks first. */
static uint16_t slots[SLOTS];

static void fill_slots(void) {
    for (unsigned i = 0; i < REDIS_N_COMMANDS; i++) {
        const char *name = redis_commands[i].name;
        unsigned at = hash((const uint8_t *)name, strlen(name));
        while (slots[at] != 0) {
            at = (at + 1) % SLOTS;
        }
        slots[at] = (uint16_t)(i + 1);
    }
}

const struct redis_command *redis_command_find(struct bytes name) {
    if (name.size == 0 || name.size > NAME_SIZE_MAX) {
        return NULL;
    }
    static bool is_filled = false;
    if (!is_filled) {
        fill_slots();
        is_filled = true;
    }
    for (unsigned at = hash(name.data, name.size); slots[at] != 0; at = (at + 1) % SLOTS) {
        const struct redis_command *command = &redis_commands[slots[at] - 1];
        if (redis_word_is(name, command->name)) {
            return command;
        }
    }
    return NULL;
}

bool redis_command_takes(const struct redis_command *command, size_t argc) {
    return command->arity >= 0 ? argc == (size_t)command->arity : argc >= (size_t)-command->arity;
}

/* --- Keys. --- */

/* Where the number of keys stands. */
static size_t place_of_count(const struct redis_command *command) {
    switch (command->id) {
    case REDIS_CMD_SINTERCARD:
    case REDIS_CMD_LMPOP:
    case REDIS_CMD_ZMPOP:
    case REDIS_CMD_ZUNION:
    case REDIS_CMD_ZINTER:
    case REDIS_CMD_ZDIFF:
    case REDIS_CMD_ZINTERCARD:
        return 1;
    default:
        return 2; /* behind a script, a time, or a key */
    }
}

static bool counted_keys(const struct redis_command *command, const struct bytes *argv, size_t argc,
                         struct redis_key_places *out_places) {
    size_t at = place_of_count(command);
    int64_t n;
    if (argc <= at || !redis_number_integer(argv[at], &n) || n < 0 || (uint64_t)n > argc - at - 1) {
        return false;
    }
    *out_places = (struct redis_key_places){.first = at + 1, .n = (size_t)n, .step = 1};
    if (command->first_key != 0) {
        *out_places = (struct redis_key_places){
            .first = (size_t)command->first_key, .n = 1 + (size_t)n, .step = 1, .gap = 1};
    }
    return true;
}

/* XREAD … STREAMS key … id …: half of what is behind the word. */
static bool stream_keys(const struct bytes *argv, size_t argc,
                        struct redis_key_places *out_places) {
    size_t at = 1;
    while (at < argc && !redis_word_is(argv[at], "streams")) {
        at += 2; /* an option and its value */
    }
    if (at >= argc || (argc - at - 1) % 2 != 0 || argc - at == 1) {
        return false;
    }
    *out_places = (struct redis_key_places){.first = at + 1, .n = (argc - at - 1) / 2, .step = 1};
    return true;
}

bool redis_command_keys(const struct redis_command *command, const struct bytes *argv, size_t argc,
                        struct redis_key_places *out_places) {
    *out_places = (struct redis_key_places){.step = 1};
    if (command->id == REDIS_CMD_XREAD) {
        return stream_keys(argv, argc, out_places);
    }
    if ((command->flags & REDIS_F_MOVABLE) != 0) {
        return counted_keys(command, argv, argc, out_places);
    }
    if (command->first_key == 0) {
        return true;
    }
    int64_t last = command->last_key < 0 ? (int64_t)argc + command->last_key : command->last_key;
    if (last >= (int64_t)argc) {
        return false;
    }
    out_places->first = (size_t)command->first_key;
    out_places->step = (size_t)command->key_step;
    if (last >= command->first_key) {
        out_places->n = (size_t)((last - command->first_key) / command->key_step + 1);
    }
    return true;
}

/* --- Running. --- */

static void reply_arity(struct redis_run *run, const struct redis_command *command) {
    struct bytes parts[] = {bytes_from_text("ERR wrong number of arguments for '"),
                            bytes_from_text(command->name), bytes_from_text("' command")};
    uint8_t text[128];
    size_t size = 0;
    for (size_t i = 0; i < 3; i++) {
        memcpy(text + size, parts[i].data, parts[i].size);
        size += parts[i].size;
    }
    redis_reply_error(run->reply, bytes_of(text, size));
}

void redis_command_run(struct redis_run *run, const struct bytes *argv, size_t argc) {
    const struct redis_command *command = argc == 0 ? NULL : redis_command_find(argv[0]);
    if (command == NULL || command->run == NULL) {
        redis_error(run, "unknown command");
        return;
    }
    if (!redis_command_takes(command, argc)) {
        reply_arity(run, command);
        return;
    }
    const struct redis_command *outer = run->command;
    run->command = command;
    command->run(run, argv, argc);
    run->command = outer;
}
