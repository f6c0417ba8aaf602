/* Commands that the connection does itself: who and where it is, what the server is. */
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ping(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                 struct buffer *out) {
    if (argc > 2) {
        redis_reply_error_text(out, "ERR wrong number of arguments for 'ping' command");
    } else if (connection->protocol == 2 && redis_connection_is_subscribed(connection)) {
        redis_reply_array(out, 2);
        redis_reply_bulk(out, bytes_from_text("pong"));
        redis_reply_bulk(out, argc == 2 ? argv[1] : bytes_of("", 0));
    } else if (argc == 2) {
        redis_reply_bulk(out, argv[1]);
    } else {
        redis_reply_simple(out, bytes_from_text("PONG"));
    }
}

static void select_database(struct redis_connection *connection, struct bytes argument,
                            struct buffer *out) {
    int64_t db;
    if (!redis_number_integer(argument, &db)) {
        redis_reply_error_text(out, "ERR value is not an integer or out of range");
    } else if (db < 0 || db >= REDIS_DATABASES) {
        redis_reply_error_text(out, "ERR DB index is out of range");
    } else {
        connection->db = (uint8_t)db;
        redis_reply_ok(out);
    }
}

/* --- HELLO, AUTH --- */

static void write_hello(struct redis_connection *connection, struct buffer *out) {
    redis_reply_map(out, 7);
    redis_reply_bulk(out, bytes_from_text("server"));
    redis_reply_bulk(out, bytes_from_text("redis"));
    redis_reply_bulk(out, bytes_from_text("version"));
    redis_reply_bulk(out, bytes_from_text(REDIS_VERSION_SHOWN));
    redis_reply_bulk(out, bytes_from_text("proto"));
    redis_reply_integer(out, connection->protocol);
    redis_reply_bulk(out, bytes_from_text("id"));
    redis_reply_integer(out, (int64_t)connection->id);
    redis_reply_bulk(out, bytes_from_text("mode"));
    redis_reply_bulk(out, bytes_from_text("standalone"));
    redis_reply_bulk(out, bytes_from_text("role"));
    redis_reply_bulk(out, bytes_from_text("master"));
    redis_reply_bulk(out, bytes_from_text("modules"));
    redis_reply_array(out, 0);
}

static bool name_is_good(struct bytes name) {
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            return false;
        }
    }
    return name.size <= REDIS_NAME_SIZE_MAX;
}

static bool hello(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                  struct buffer *out) {
    int64_t version = connection->protocol;
    const struct bytes *login = NULL;
    const struct bytes *name = NULL;
    if (argc > 1 && !redis_number_integer(argv[1], &version)) {
        redis_reply_error_text(out, "ERR Protocol version is not an integer or out of range");
        return true;
    }
    if (version < 2 || version > 3) {
        redis_reply_error_text(out, "NOPROTO unsupported protocol version");
        return true;
    }
    for (size_t i = 2; i < argc; i++) {
        if (redis_word_is(argv[i], "auth") && i + 2 < argc) {
            login = &argv[i + 1];
            i += 2;
        } else if (redis_word_is(argv[i], "setname") && i + 1 < argc && name_is_good(argv[i + 1])) {
            name = &argv[++i];
        } else {
            redis_reply_error_text(out, "ERR Syntax error in HELLO option");
            return true;
        }
    }
    if (login == NULL && redis_door_asks_who(connection->door) &&
        redis_connection_caller(connection)->user_id == 0) {
        redis_reply_error_text(
            out, "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
                 "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client "
                 "and select the RESP protocol version at the same time");
        return true;
    }
    if (name != NULL) {
        free(connection->name);
        connection->name = strndup((const char *)name->data, name->size);
    }
    connection->protocol = (uint8_t)version;
    if (login != NULL) {
        redis_auth_log_in(connection, login[0], login[1], write_hello);
        return false;
    }
    write_hello(connection, out);
    return true;
}

static void write_ok(struct redis_connection *connection, struct buffer *out) {
    (void)connection;
    redis_reply_ok(out);
}

static bool auth(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                 struct buffer *out) {
    if (argc > 3) {
        redis_reply_error_text(out, "ERR syntax error");
        return true;
    }
    if (argc == 2 && !redis_door_asks_who(connection->door)) {
        redis_reply_error_text(out,
                               "ERR AUTH <password> called without any password configured for the "
                               "default user. Are you sure your configuration is correct?");
        return true;
    }
    redis_auth_log_in(connection, argc == 3 ? argv[1] : bytes_from_text("default"), argv[argc - 1],
                      write_ok);
    return false;
}

static void reset(struct redis_connection *connection, struct buffer *out) {
    redis_transaction_clear(connection);
    redis_pubsub_leave(connection);
    connection->db = 0;
    connection->protocol = 2;
    connection->shows_tokens = false;
    connection->replies_off = false;
    connection->skips = 0;
    free(connection->name);
    connection->name = NULL;
    connection->user[0] = 0;
    raw_connection_set_caller(connection->raw, &caller_anonymous, sizeof caller_anonymous);
    redis_reply_simple(out, bytes_from_text("RESET"));
}

/* --- ACL, ROLE, WAIT --- */

static void acl(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                struct buffer *out) {
    if (argc == 2 && redis_word_is(argv[1], "whoami")) {
        const char *user = connection->user[0] != 0 ? connection->user : "default";
        redis_reply_bulk(out, bytes_from_text(user));
        return;
    }
    redis_reply_error_text(out, "ERR unknown subcommand or wrong number of arguments for 'acl' "
                                "command: users and roles are managed with etcdctl or lease");
}

/* Members other than the leader whose disk is known to have every change that was answered: with
 * the leader they are the majority. */
static int64_t replicas_reached(struct redis_door *door) {
    struct service_member members[MEMBERS_MAX];
    size_t n = service_members(door->service, members, MEMBERS_MAX);
    size_t n_voters = 0;
    for (size_t i = 0; i < n && i < MEMBERS_MAX; i++) {
        n_voters += !members[i].is_learner;
    }
    return (int64_t)(n_voters / 2);
}

static void wait_for_replicas(struct redis_connection *connection, const struct bytes *argv,
                              size_t argc, struct buffer *out) {
    int64_t numbers[3] = {0};
    for (size_t i = 1; i < argc; i++) {
        bool is_timeout = i + 1 == argc;
        if (!redis_number_integer(argv[i], &numbers[i - 1])) {
            redis_reply_error_text(out, is_timeout ? "ERR timeout is not an integer or out of range"
                                                   : "ERR value is not an integer or out of range");
            return;
        }
        if (numbers[i - 1] < 0) {
            redis_reply_error_text(out, is_timeout ? "ERR timeout is negative"
                                                   : "ERR value is out of range, must be positive");
            return;
        }
    }
    if (argc == 4) {
        redis_reply_array(out, 2);
        redis_reply_integer(out, 1);
    }
    redis_reply_integer(out, replicas_reached(connection->door));
}

static void role(struct buffer *out) {
    redis_reply_array(out, 3);
    redis_reply_bulk(out, bytes_from_text("master"));
    redis_reply_integer(out, 0);
    redis_reply_array(out, 0);
}

/* --- What they cost. --- */

/* As measured. */
enum { WORK_A_CONNECTION = 32, WORK_AN_ARGUMENT = 16, WORK_OF_A_LIST = 8 * 1024 };

size_t redis_local_work(const struct redis_connection *connection,
                        const struct redis_exec_command *command) {
    size_t work = WORK_AN_ARGUMENT * command->argc;
    switch (command->command->id) {
    case REDIS_CMD_CLIENT:
        return work +
               (redis_word_is(command->argv[1], "list") || redis_word_is(command->argv[1], "kill")
                    ? WORK_A_CONNECTION * connection->door->n_connections
                    : 0);
    case REDIS_CMD_PUBSUB:
        return work + redis_pubsub_work(connection->door->pubsub);
    case REDIS_CMD_COMMAND:
    case REDIS_CMD_CONFIG:
    case REDIS_CMD_INFO:
        return work + WORK_OF_A_LIST;
    default:
        return work;
    }
}

/* --- All of them. --- */

static bool run_other(struct redis_connection *connection, const struct redis_exec_command *command,
                      struct buffer *out) {
    const struct bytes *argv = command->argv;
    size_t argc = command->argc;
    switch (command->command->id) {
    case REDIS_CMD_INFO:
        redis_info_write(connection, argv, argc, out);
        return true;
    case REDIS_CMD_COMMAND:
        redis_introspection_command(connection, argv, argc, out);
        return true;
    case REDIS_CMD_CONFIG:
        return redis_config_run(connection, argv, argc, out);
    case REDIS_CMD_CLIENT:
        redis_client_run(connection, argv, argc, out);
        return true;
    case REDIS_CMD_ACL:
        acl(connection, argv, argc, out);
        return true;
    case REDIS_CMD_WAIT:
    case REDIS_CMD_WAITAOF:
        wait_for_replicas(connection, argv, argc, out);
        return true;
    case REDIS_CMD_LASTSAVE:
        redis_reply_integer(out, redis_door_wall_ms(connection->door) / 1000);
        return true;
    case REDIS_CMD_ROLE:
        role(out);
        return true;
    case REDIS_CMD_SUBSCRIBE:
    case REDIS_CMD_UNSUBSCRIBE:
    case REDIS_CMD_PSUBSCRIBE:
    case REDIS_CMD_PUNSUBSCRIBE:
    case REDIS_CMD_SSUBSCRIBE:
    case REDIS_CMD_SUNSUBSCRIBE:
    case REDIS_CMD_PUBSUB:
        redis_pubsub_run(connection, command, out);
        return true;
    default:
        return redis_transaction_run(connection, command, out);
    }
}

bool redis_local_run(struct redis_connection *connection, const struct redis_exec_command *command,
                     struct buffer *out) {
    const struct bytes *argv = command->argv;
    switch (command->command->id) {
    case REDIS_CMD_PING:
        ping(connection, argv, command->argc, out);
        return true;
    case REDIS_CMD_ECHO:
        redis_reply_bulk(out, argv[1]);
        return true;
    case REDIS_CMD_SELECT:
        select_database(connection, argv[1], out);
        return true;
    case REDIS_CMD_HELLO:
        return hello(connection, argv, command->argc, out);
    case REDIS_CMD_AUTH:
        return auth(connection, argv, command->argc, out);
    case REDIS_CMD_RESET:
        reset(connection, out);
        return true;
    case REDIS_CMD_QUIT:
        redis_reply_ok(out);
        connection->is_closing = true;
        redis_connection_reply(connection, out);
        raw_connection_close(connection->raw);
        return false;
    default:
        return run_other(connection, command, out);
    }
}
