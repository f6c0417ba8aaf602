/* MULTI, EXEC, WATCH: commands are gathered on the connection and run in one revision. */
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_number_model.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"
#include "doors/redis/redis_work_rules.h"

#include <assert.h>
#include <stdlib.h>

/* --- What is gathered. --- */

static struct redis_multi *multi_of(struct redis_connection *connection) {
    if (connection->multi == NULL) {
        connection->multi = calloc(1, sizeof *connection->multi);
        if (connection->multi == NULL) {
            abort();
        }
    }
    return connection->multi;
}

bool redis_transaction_is_open(const struct redis_connection *connection) {
    return connection->multi != NULL && connection->multi->is_open;
}

void redis_transaction_refuse(struct redis_connection *connection) {
    if (redis_transaction_is_open(connection)) {
        connection->multi->is_refused = true;
    }
}

/* To be called when what is gathered has changed. */
static void count_held(struct redis_connection *connection) {
    struct redis_multi *multi = connection->multi;
    size_t held = multi->commands.size + multi->watches.size;
    connection->door->held_bytes += held - multi->held;
    multi->held = held;
}

static void unwatch(struct redis_connection *connection) {
    struct redis_multi *multi = connection->multi;
    buffer_clear(&multi->watches);
    buffer_init(&multi->watches);
    multi->n_watches = 0;
    count_held(connection);
}

static size_t size_of(const struct redis_exec_command *command) {
    enum { ARGUMENT_SIZE = 3 /* its length, as a rule */ };
    size_t size = 0;
    for (size_t i = 0; i < command->argc; i++) {
        size += ARGUMENT_SIZE + command->argv[i].size;
    }
    return size;
}

void redis_transaction_clear(struct redis_connection *connection) {
    struct redis_multi *multi = connection->multi;
    if (multi != NULL) {
        unwatch(connection);
        buffer_clear(&multi->commands);
        count_held(connection);
        *multi = (struct redis_multi){0};
    }
}

void redis_transaction_queue(struct redis_connection *connection,
                             const struct redis_exec_command *command) {
    struct redis_multi *multi = connection->multi;
    struct buffer *out = &connection->door->scratch;
    bool is_pubsub = (command->command->flags & REDIS_F_LOCAL) != 0 &&
                     (command->command->flags & REDIS_F_PUBSUB) != 0 &&
                     command->command->id != REDIS_CMD_PING;
    out->size = 0;
    if (is_pubsub || command->command->id == REDIS_CMD_CONFIG) {
        redis_reply_error_text(out, "ERR Command not allowed inside a transaction");
        multi->is_refused = true;
    } else if (multi->n >= REDIS_TRANSACTION_MAX || multi->commands.size > RULE_REQUEST_SIZE_MAX) {
        redis_reply_error_text(out, "ERR the transaction is too large");
        multi->is_refused = true;
    } else if (!redis_door_may_hold(connection->door, multi->held, size_of(command))) {
        redis_reply_error_text(out, "ERR the open transactions of all clients are too large");
        multi->is_refused = true;
    } else {
        int64_t db;
        redis_exec_put_command(&multi->commands, multi->db, command->argv, command->argc);
        count_held(connection);
        multi->n++;
        if (command->command->id == REDIS_CMD_SELECT &&
            redis_number_integer(command->argv[1], &db) && db >= 0 && db < REDIS_DATABASES) {
            multi->db = (unsigned)db;
        }
        redis_reply_simple(out, bytes_from_text("QUEUED"));
    }
    redis_connection_reply(connection, out);
}

/* --- EXEC --- */

/* One command of those that were gathered. */
static struct redis_exec_command next_command(struct reader *reader, struct arena *arena) {
    struct redis_exec_command command = {.db = reader_get_u8(reader)};
    command.argc = reader_get_varint(reader);
    struct bytes *argv = arena_calloc(arena, command.argc, sizeof argv[0]);
    for (size_t i = 0; i < command.argc; i++) {
        argv[i] = reader_get_bytes(reader);
    }
    command.argv = argv;
    command.command = redis_command_find(argv[0]);
    assert(!reader->failed);
    assert(command.command != NULL);
    return command;
}

size_t redis_transaction_work(struct redis_connection *connection, size_t *out_made) {
    const struct redis_multi *multi = connection->multi;
    struct redis_door *door = connection->door;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct reader reader;
    size_t work = 0;
    if (!redis_transaction_is_open(connection) || multi->is_refused) {
        return 0;
    }
    reader_init(&reader, bytes_of(multi->commands.data, multi->commands.size));
    for (size_t i = 0; i < multi->n; i++) {
        struct redis_exec_command command = next_command(&reader, &door->arena);
        if ((command.command->flags & REDIS_F_LOCAL) != 0) {
            work += redis_local_work(connection, &command);
            continue;
        }
        size_t of_command =
            redis_work_of(keys, command.db, command.command, command.argv, command.argc);
        size_t of_values =
            redis_work_of_values(keys, command.db, command.command, command.argv, command.argc,
                                 redis_delays_size_to_come(door, &command));
        work += of_command + of_values;
        *out_made += redis_work_of_made(command.command, of_command, of_values);
    }
    return work;
}

size_t redis_transaction_kept_bytes(struct redis_connection *connection) {
    const struct redis_multi *multi = connection->multi;
    struct redis_door *door = connection->door;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct reader reader;
    size_t size = 0;
    if (!redis_transaction_is_open(connection) || multi->is_refused) {
        return 0;
    }
    reader_init(&reader, bytes_of(multi->commands.data, multi->commands.size));
    for (size_t i = 0; i < multi->n; i++) {
        struct redis_exec_command command = next_command(&reader, &door->arena);
        size +=
            redis_work_kept_bytes(keys, command.db, command.command, command.argv, command.argc);
    }
    return size;
}

/* The next reply of the rule, whole. */
static void copy_value(struct bytes answer, size_t *at, struct buffer *out) {
    struct redis_reply_reader reader;
    struct redis_reply_value value;
    redis_reply_reader_init(&reader, bytes_of(answer.data + *at, answer.size - *at));
    while (redis_reply_next(&reader, &value) && !redis_reply_is_complete(&reader)) {
    }
    buffer_append(out, answer.data + *at, reader.position);
    *at += reader.position;
}

/* What the connection does of one transaction, in units of core/key_work.h. */
enum { LOCAL_WORK_MAX = 1024 * 1024 };

/* What the rule answers is bounded; so is what the connection adds to it. */
static void run_local(struct redis_connection *connection, const struct redis_exec_command *command,
                      size_t *work, struct buffer *reply) {
    *work += redis_local_work(connection, command);
    if (reply->size > REDIS_REPLY_BYTES_MAX || *work > LOCAL_WORK_MAX) {
        redis_reply_error_text(reply, "ERR the transaction is too large");
    } else {
        (void)redis_local_run(connection, command, reply);
    }
}

/* Commands that the rule did not run are done now, in their places. */
static void finish_exec(struct redis_pending *pending, const struct outcome *outcome) {
    struct redis_connection *connection = pending->connection;
    struct redis_door *door = connection->door;
    struct bytes answer = outcome->rule.answer;
    struct reader reader;
    size_t at = 0;
    size_t work = 0;
    if (answer.size > 0 && answer.data[0] == REDIS_EXEC_ABORTED) {
        redis_pending_done(pending, bytes_from_text("*-1\r\n"));
        return;
    }
    struct buffer reply;
    buffer_init(&reply);
    redis_reply_array(&reply, pending->n_commands);
    reader_init(&reader, bytes_of(pending->encoded.data, pending->encoded.size));
    for (size_t i = 0; i < pending->n_commands; i++) {
        struct redis_exec_command command = next_command(&reader, &door->arena);
        if ((command.command->flags & REDIS_F_LOCAL) != 0) {
            run_local(connection, &command, &work, &reply);
        } else if (command.command->id == REDIS_CMD_PUBLISH ||
                   command.command->id == REDIS_CMD_SPUBLISH) {
            size_t before = reply.size;
            copy_value(answer, &at, &reply);
            reply.size = before;
            redis_reply_integer(&reply, (int64_t)redis_pubsub_receivers(
                                            door->pubsub, command.command->id == REDIS_CMD_SPUBLISH,
                                            command.argv[1]));
        } else {
            copy_value(answer, &at, &reply);
        }
    }
    arena_reset(&door->arena);
    redis_pending_done(pending, bytes_of(reply.data, reply.size));
    buffer_clear(&reply);
}

/* The rule's request in door->encoded, without what the connection does itself. */
static void encode(struct redis_connection *connection) {
    struct redis_multi *multi = connection->multi;
    struct redis_door *door = connection->door;
    struct buffer commands;
    struct reader reader;
    struct redis_exec_head head = {.seed = redis_door_random(door),
                                   .shows_tokens = connection->shows_tokens,
                                   .n_watches = multi->n_watches};
    buffer_init(&commands);
    reader_init(&reader, bytes_of(multi->commands.data, multi->commands.size));
    for (size_t i = 0; i < multi->n; i++) {
        struct redis_exec_command command = next_command(&reader, &door->arena);
        if ((command.command->flags & REDIS_F_LOCAL) == 0) {
            redis_exec_put_command(&commands, command.db, command.argv, command.argc);
            head.n_commands++;
        }
    }
    door->encoded.size = 0;
    redis_exec_put_head(&door->encoded, &head);
    buffer_append(&door->encoded, multi->watches.data, multi->watches.size);
    buffer_append(&door->encoded, commands.data, commands.size);
    buffer_clear(&commands);
}

static bool exec(struct redis_connection *connection, struct buffer *out) {
    struct redis_multi *multi = connection->multi;
    if (!redis_transaction_is_open(connection)) {
        redis_reply_error_text(out, "ERR EXEC without MULTI");
        return true;
    }
    if (multi->is_refused) {
        redis_reply_error_text(out, "EXECABORT Transaction discarded because of previous errors.");
        redis_transaction_clear(connection);
        return true;
    }
    struct redis_pending *pending =
        redis_pending_create(connection, &redis_commands[REDIS_CMD_EXEC]);
    if (pending == NULL) {
        return false;
    }
    encode(connection);
    pending->finish = finish_exec;
    pending->n_commands = multi->n;
    buffer_append(&pending->encoded, multi->commands.data, multi->commands.size);
    redis_transaction_clear(connection);
    redis_pending_submit(pending);
    return false;
}

/* --- WATCH --- */

static void watch_now(struct redis_connection *connection,
                      const struct redis_exec_command *command) {
    struct redis_multi *multi = multi_of(connection);
    struct redis_door *door = connection->door;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    for (size_t i = 1; i < command->argc; i++) {
        struct bytes key = redis_key_main(&door->arena, connection->db, command->argv[i]);
        const struct record *record = key_store_find(keys, KEY_SPACE_REDIS, key);
        const struct redis_exec_watch watch = {.db = connection->db,
                                               .key = command->argv[i],
                                               .mod_revision =
                                                   record == NULL ? 0 : record->mod_revision};
        redis_exec_put_watch(&multi->watches, &watch);
        multi->n_watches++;
    }
    count_held(connection);
}

static void watch_ready(struct service_read *read, enum status status) {
    struct redis_pending *pending = list_entry(read, struct redis_pending, read);
    struct redis_connection *connection = pending->connection;
    pending->is_with_service = false;
    if (connection == NULL || status != STATUS_OK) {
        redis_pending_failed(pending, status == STATUS_OK ? STATUS_CANCELED : status);
        return;
    }
    struct reader reader;
    reader_init(&reader, bytes_of(pending->encoded.data, pending->encoded.size));
    struct redis_exec_command command = next_command(&reader, &connection->door->arena);
    watch_now(connection, &command);
    arena_reset(&connection->door->arena);
    redis_pending_done(pending, bytes_from_text("+OK\r\n"));
}

static bool watch(struct redis_connection *connection, const struct redis_exec_command *command,
                  struct buffer *out) {
    struct redis_door *door = connection->door;
    if (redis_transaction_is_open(connection)) {
        redis_reply_error_text(out, "ERR WATCH inside MULTI is not allowed");
        return true;
    }
    if (multi_of(connection)->n_watches + command->argc - 1 > REDIS_TRANSACTION_MAX) {
        redis_reply_error_text(out, "ERR too many keys are watched");
        return true;
    }
    if (!redis_door_may_hold(door, multi_of(connection)->held, size_of(command))) {
        redis_reply_error_text(out, "ERR the keys that all clients watch are too large");
        return true;
    }
    struct redis_pending *pending = redis_pending_create(connection, command->command);
    if (pending == NULL) {
        return false;
    }
    struct key_range *ranges = arena_calloc(&door->arena, command->argc - 1, sizeof ranges[0]);
    for (size_t i = 1; i < command->argc; i++) {
        ranges[i - 1] = (struct key_range){
            .space = KEY_SPACE_REDIS,
            .key = redis_key_main(&door->arena, connection->db, command->argv[i])};
    }
    redis_exec_put_command(&pending->encoded, connection->db, command->argv, command->argc);
    pending->read.ready = watch_ready;
    pending->is_with_service = true;
    redis_connection_stop(connection);
    enum status status = service_read(door->service, redis_connection_caller(connection),
                                      &pending->read, ranges, command->argc - 1);
    if (status != STATUS_PENDING) {
        watch_ready(&pending->read, status);
    }
    return false;
}

/* --- All of them. --- */

static void multi(struct redis_connection *connection, struct buffer *out) {
    if (redis_transaction_is_open(connection)) {
        redis_reply_error_text(out, "ERR MULTI calls can not be nested");
        return;
    }
    struct redis_multi *gathered = multi_of(connection);
    gathered->is_open = true;
    gathered->db = connection->db;
    redis_reply_ok(out);
}

bool redis_transaction_run(struct redis_connection *connection,
                           const struct redis_exec_command *command, struct buffer *out) {
    switch (command->command->id) {
    case REDIS_CMD_MULTI:
        multi(connection, out);
        return true;
    case REDIS_CMD_EXEC:
        return exec(connection, out);
    case REDIS_CMD_DISCARD:
        if (redis_transaction_is_open(connection)) {
            redis_transaction_clear(connection);
            redis_reply_ok(out);
        } else {
            redis_reply_error_text(out, "ERR DISCARD without MULTI");
        }
        return true;
    case REDIS_CMD_WATCH:
        return watch(connection, command, out);
    case REDIS_CMD_UNWATCH:
        if (connection->multi != NULL) {
            unwatch(connection);
        }
        redis_reply_ok(out);
        return true;
    default:
        assert(!"every command of a transaction is handled");
        return true;
    }
}
