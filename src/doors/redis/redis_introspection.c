/* COMMAND: the table of commands, as clients ask for it. */
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

static void write_flags(const struct redis_command *command, struct buffer *out) {
    static const struct {
        uint32_t flag;
        const char *name;
    } names[] = {{REDIS_F_WRITE, "write"},        {REDIS_F_READ, "readonly"},
                 {REDIS_F_ADMIN, "admin"},        {REDIS_F_NOSCRIPT, "noscript"},
                 {REDIS_F_BLOCK, "blocking"},     {REDIS_F_FAST, "fast"},
                 {REDIS_F_NOAUTH, "no_auth"},     {REDIS_F_PUBSUB, "pubsub"},
                 {REDIS_F_MOVABLE, "movablekeys"}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        n += (command->flags & names[i].flag) != 0;
    }
    redis_reply_set(out, n);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((command->flags & names[i].flag) != 0) {
            redis_reply_simple(out, bytes_from_text(names[i].name));
        }
    }
}

static void write_command(const struct redis_command *command, struct buffer *out) {
    redis_reply_array(out, 10);
    redis_reply_bulk(out, bytes_from_text(command->name));
    redis_reply_integer(out, command->arity);
    write_flags(command, out);
    redis_reply_integer(out, command->first_key);
    redis_reply_integer(out, command->last_key);
    redis_reply_integer(out, command->key_step);
    redis_reply_set(out, 1); /* of ACL categories */
    redis_reply_simple(out,
                       bytes_from_text((command->flags & REDIS_F_WRITE) != 0 ? "@write" : "@read"));
    redis_reply_array(out, 0); /* tips */
    redis_reply_array(out, 0); /* key specifications */
    redis_reply_array(out, 0); /* subcommands */
}

static void write_info(const struct bytes *names, size_t n, struct buffer *out) {
    redis_reply_array(out, n == 0 ? REDIS_N_COMMANDS : n);
    for (size_t i = 0; n == 0 && i < REDIS_N_COMMANDS; i++) {
        write_command(&redis_commands[i], out);
    }
    for (size_t i = 0; i < n; i++) {
        const struct redis_command *command = redis_command_find(names[i]);
        if (command != NULL) {
            write_command(command, out);
        } else {
            redis_reply_null_array(out);
        }
    }
}

static void write_doc(const struct redis_command *command, struct buffer *out) {
    redis_reply_bulk(out, bytes_from_text(command->name));
    redis_reply_map(out, 3);
    redis_reply_bulk(out, bytes_from_text("summary"));
    redis_reply_bulk(out, bytes_from_text("See the documentation of leased."));
    redis_reply_bulk(out, bytes_from_text("since"));
    redis_reply_bulk(out, bytes_from_text("1.0.0"));
    redis_reply_bulk(out, bytes_from_text("group"));
    redis_reply_bulk(out, bytes_from_text(command->group));
}

static void write_docs(const struct bytes *names, size_t n, struct buffer *out) {
    size_t n_known = n == 0 ? REDIS_N_COMMANDS : 0;
    for (size_t i = 0; i < n; i++) {
        n_known += redis_command_find(names[i]) != NULL;
    }
    redis_reply_map(out, n_known);
    for (size_t i = 0; n == 0 && i < REDIS_N_COMMANDS; i++) {
        write_doc(&redis_commands[i], out);
    }
    for (size_t i = 0; i < n; i++) {
        const struct redis_command *command = redis_command_find(names[i]);
        if (command != NULL) {
            write_doc(command, out);
        }
    }
}

static void write_keys(const struct bytes *argv, size_t argc, struct buffer *out) {
    const struct redis_command *command = argc == 0 ? NULL : redis_command_find(argv[0]);
    struct redis_key_places places;
    if (command == NULL) {
        redis_reply_error_text(out, "ERR Invalid command specified");
    } else if (!redis_command_takes(command, argc)) {
        redis_reply_error_text(out, "ERR Invalid number of arguments specified for command");
    } else if (!redis_command_keys(command, argv, argc, &places) || places.first == 0) {
        redis_reply_error_text(out, "ERR The command has no key arguments");
    } else {
        redis_reply_array(out, places.n);
        for (size_t i = 0; i < places.n; i++) {
            redis_reply_bulk(out, argv[redis_key_place(&places, i)]);
        }
    }
}

void redis_introspection_command(struct redis_connection *connection, const struct bytes *argv,
                                 size_t argc, struct buffer *out) {
    (void)connection;
    if (argc == 1 || redis_word_is(argv[1], "info")) {
        write_info(argv + 2, argc < 2 ? 0 : argc - 2, out);
    } else if (redis_word_is(argv[1], "count") && argc == 2) {
        redis_reply_integer(out, REDIS_N_COMMANDS);
    } else if (redis_word_is(argv[1], "docs")) {
        write_docs(argv + 2, argc - 2, out);
    } else if (redis_word_is(argv[1], "list")) {
        redis_reply_array(out, REDIS_N_COMMANDS);
        for (size_t i = 0; i < REDIS_N_COMMANDS; i++) {
            redis_reply_bulk(out, bytes_from_text(redis_commands[i].name));
        }
    } else if (redis_word_is(argv[1], "getkeys")) {
        write_keys(argv + 2, argc - 2, out);
    } else {
        redis_reply_error_text(
            out, "ERR unknown subcommand or wrong number of arguments for 'command' command");
    }
}
