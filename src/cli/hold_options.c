/* The options of commands that hold something. */
#include "cli/hold.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TTL_MS_MIN = 250, SLOTS_MAX = 1024 };

static enum cli_exit take_wait(struct cli *cli, struct hold_options *options) {
    struct arguments *arguments = &cli->arguments;
    int64_t queue_limit;
    bool is_no_wait = arguments_has(arguments, "--no-wait");
    if (is_no_wait && arguments_value(arguments, "--wait") != NULL) {
        return cli_usage(cli, "--wait and --no-wait exclude each other");
    }
    if (!cli_time_option(cli, "--wait", options->wait_ms, 0, &options->wait_ms)) {
        return CLI_USAGE;
    }
    if (is_no_wait) {
        options->wait_ms = LEASE_NO_WAIT;
    }
    if (!arguments_number(arguments, "--queue-limit", 0,
                          (struct arguments_range){.min = 1, .max = UINT_MAX}, &queue_limit)) {
        return cli_usage(cli, "%s", arguments->error);
    }
    options->queue_limit = (uint32_t)queue_limit;
    return CLI_OK;
}

enum cli_exit hold_take_options(struct cli *cli, bool is_session, struct hold_options *options) {
    if (!is_session) {
        enum cli_exit result = take_wait(cli, options);
        if (result != CLI_OK) {
            return result;
        }
    }
    /* A class that is named brings its own times. */
    if (arguments_value(&cli->arguments, "--for") != NULL) {
        options->ttl_ms = 0;
        options->strategy = LEASE_STRATEGY_DEFAULT;
    }
    if (!cli_class_option(cli, options->purpose, &options->purpose) ||
        !cli_time_option(cli, "--ttl", options->ttl_ms, TTL_MS_MIN, &options->ttl_ms) ||
        !cli_time_option(cli, "--grace", -1, 0, &options->grace_ms) ||
        !cli_time_option(cli, "--hold-limit", options->hold_limit_ms, 1, &options->hold_limit_ms)) {
        return CLI_USAGE;
    }
    const char *owner = arguments_value(&cli->arguments, "--owner");
    if (owner != NULL && (owner[0] == '\0' || strlen(owner) > 128)) {
        return cli_usage(cli, "--owner: 1 to 128 bytes are needed");
    }
    options->owner = owner;
    return CLI_OK;
}

enum cli_exit hold_take_slots(struct cli *cli, const char *text, char room[HOLD_NAME_SIZE_MAX],
                              struct lease_want *out_want) {
    const char *equals = strrchr(text, '=');
    size_t size = equals != NULL ? (size_t)(equals - text) : strlen(text);
    unsigned long slots = 1;
    char *end = NULL;
    if (size == 0 || size >= HOLD_NAME_SIZE_MAX) {
        return cli_usage(cli, "%s: a pool has a name of 1 to 256 bytes, as in gpus=2", text);
    }
    if (equals != NULL) {
        slots = strtoul(equals + 1, &end, 10);
        if (equals[1] < '0' || equals[1] > '9' || *end != '\0' || slots == 0 || slots > SLOTS_MAX) {
            return cli_usage(cli, "%s is no number of slots; give 1 to %d after =", text,
                             SLOTS_MAX);
        }
    }
    memcpy(room, text, size);
    room[size] = '\0';
    *out_want = (struct lease_want){.pool = room, .slots = (uint32_t)slots};
    return CLI_OK;
}

const char *hold_note(const struct cli *cli, char *room, size_t room_size) {
    size_t size = 0;
    room[0] = '\0';
    for (char **word = cli->child; word != NULL && *word != NULL && size + 1 < room_size; word++) {
        size += (size_t)snprintf(room + size, room_size - size, "%s%s", size > 0 ? " " : "", *word);
    }
    /* A cut in the middle of a character would not be UTF-8. */
    for (size = strlen(room); size > 0 && size + 1 == room_size && (room[size - 1] & 0x80) != 0;) {
        room[--size] = '\0';
    }
    return room;
}
