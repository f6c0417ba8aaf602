/* A connection: input becomes commands, commands become entries in their order, entries become
 * replies. */
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_view.h"
#include "doors/redis/redis_work_rules.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTIAL_MAX = 4 * 1024 * 1024, /* RULE_REQUEST_SIZE_MAX and what is around arguments */
    REPLY_CAPACITY_KEPT = 64 * 1024
};

bool redis_connection_is_subscribed(const struct redis_connection *connection) {
    return connection->n_subscriptions[0] + connection->n_subscriptions[1] +
               connection->n_subscriptions[2] >
           0;
}

const struct caller *redis_connection_caller(struct redis_connection *connection) {
    return raw_connection_caller(connection->raw);
}

/* --- Output. --- */

/* In door->converted. */
static struct bytes convert(struct redis_connection *connection, struct bytes reply) {
    struct buffer *out = &connection->door->converted;
    /* Of a reply as large as the last one every page would have to be got again. */
    if (out->capacity > REPLY_CAPACITY_KEPT && reply.size <= REPLY_CAPACITY_KEPT) {
        buffer_clear(out);
        buffer_init(out);
    }
    out->size = 0;
    enum status status = connection->protocol == 3 ? redis_reply_to_resp3(reply, out)
                                                   : redis_reply_to_resp2(reply, out);
    assert(status == STATUS_OK);
    return bytes_of(out->data, out->size);
}

/* Whether CLIENT REPLY lets the reply of the next request out: to be asked in the order of the
 * requests. */
static bool is_wanted(struct redis_connection *connection) {
    if (connection->skips > 0) {
        connection->skips--;
        return connection->skips > 0;
    }
    return !connection->replies_off;
}

void redis_connection_push(struct redis_connection *connection, struct bytes push) {
    redis_output_send(connection, convert(connection, push));
}

static void destroy_pending(struct redis_pending *pending) {
    redis_long_read_uncount(pending);
    buffer_clear(&pending->encoded);
    buffer_clear(&pending->reply);
    free(pending);
}

static void flush_pending(struct redis_connection *connection) {
    while (!list_is_empty(&connection->pending)) {
        struct redis_pending *pending =
            list_entry(connection->pending.next, struct redis_pending, link);
        if (!pending->is_done) {
            break;
        }
        redis_output_send(connection, bytes_of(pending->reply.data, pending->reply.size));
        list_remove(&pending->link);
        connection->n_pending--;
        connection->n_reads -= pending->is_read;
        connection->pending_bytes -= pending->cost;
        raw_connection_end_request(connection->raw);
        destroy_pending(pending);
    }
    if (connection->is_full && connection->n_pending < REDIS_PENDING_MAX / 2 &&
        connection->pending_bytes < REDIS_PENDING_BYTES_MAX / 2) {
        connection->is_full = false;
    }
    if (list_is_empty(&connection->pending)) {
        if (connection->is_closing) {
            raw_connection_close(connection->raw);
        }
    }
    redis_connection_go_on(connection);
}

static void count_error(struct redis_connection *connection, struct bytes reply) {
    connection->door->stats.errors += reply.size > 0 && reply.data[0] == '-';
}

static struct redis_pending *create_pending(struct redis_connection *connection,
                                            const struct redis_command *command) {
    struct redis_pending *pending = calloc(1, sizeof *pending);
    if (pending == NULL) {
        raw_connection_close(connection->raw);
        return NULL;
    }
    pending->connection = connection;
    pending->door = connection->door;
    pending->command = command;
    buffer_init(&pending->encoded);
    buffer_init(&pending->reply);
    list_append(&connection->pending, &pending->link);
    connection->n_pending++;
    raw_connection_begin_request(connection->raw);
    return pending;
}

/* Requests and replies that are on their way: input waits when they are too much. */
static void add_cost(struct redis_pending *pending, size_t cost) {
    pending->cost += cost;
    pending->connection->pending_bytes += cost;
}

void redis_connection_reply(struct redis_connection *connection, struct buffer *reply) {
    struct bytes bytes = bytes_of(reply->data, reply->size);
    count_error(connection, bytes);
    if (bytes.size > 0 && is_wanted(connection)) {
        if (list_is_empty(&connection->pending)) {
            redis_output_send(connection, convert(connection, bytes));
        } else {
            struct redis_pending *pending = create_pending(connection, NULL);
            if (pending != NULL) {
                struct bytes converted = convert(connection, bytes);
                buffer_append(&pending->reply, converted.data, converted.size);
                add_cost(pending, converted.size);
                pending->is_done = true;
            }
        }
    }
    reply->size = 0;
}

/* --- Entries. --- */

struct redis_pending *redis_pending_create(struct redis_connection *connection,
                                           const struct redis_command *command) {
    bool is_silent = !is_wanted(connection);
    struct redis_pending *pending = create_pending(connection, command);
    if (pending != NULL) {
        pending->is_silent = is_silent;
    }
    return pending;
}

void redis_pending_done(struct redis_pending *pending, struct bytes reply) {
    struct redis_connection *connection = pending->connection;
    if (connection == NULL) {
        destroy_pending(pending);
        return;
    }
    count_error(connection, reply);
    if (!pending->is_silent) {
        struct bytes converted = convert(connection, reply);
        buffer_append(&pending->reply, converted.data, converted.size);
    }
    pending->is_done = true;
    flush_pending(connection);
}

void redis_pending_failed(struct redis_pending *pending, enum status status) {
    struct buffer reply;
    buffer_init(&reply);
    redis_reply_status(&reply, status);
    redis_pending_done(pending, bytes_of(reply.data, reply.size));
    buffer_clear(&reply);
}

void redis_reply_status(struct buffer *out, enum status status) {
    switch (status) {
    case STATUS_PERMISSION_DENIED:
        redis_reply_error_text(out, "NOPERM this user has no permissions to access one of the keys "
                                    "used as arguments");
        break;
    case STATUS_USER_EMPTY:
    case STATUS_AUTH_TOKEN_INVALID:
    case STATUS_AUTH_OLD_REVISION:
        redis_reply_error_text(out, "NOAUTH Authentication required.");
        break;
    case STATUS_NO_SPACE:
        redis_reply_error_text(out, "OOM command not allowed when used memory > 'maxmemory'.");
        break;
    case STATUS_NO_LEADER:
        redis_reply_error_text(out, "MASTERDOWN the cluster has no leader; nothing was done");
        break;
    case STATUS_LEADER_CHANGED:
    case STATUS_TIMED_OUT:
    case STATUS_STOPPED:
        redis_reply_error_text(out, "TRYAGAIN the leader changed or did not answer in time; the "
                                    "command may or may not have been done");
        break;
    case STATUS_REQUEST_TOO_LARGE:
    case STATUS_TOO_MANY_KEYS:
        redis_reply_error_text(out, "ERR the command reads, changes or answers more than one "
                                    "transaction may; nothing was done");
        break;
    case STATUS_CANCELED:
        redis_reply_error_text(out, "ERR Error running script: it exceeded its limit of "
                                    "instructions or memory; nothing was done");
        break;
    case STATUS_TOO_MANY_REQUESTS:
        redis_reply_error_text(out, "ERR the server is overloaded, try again; nothing was done");
        break;
    case STATUS_UNSUPPORTED:
        redis_reply_error_text(out, "ERR a member of the cluster runs a release that does not know "
                                    "the Redis protocol; nothing was done");
        break;
    default:
        redis_reply_error(out, bytes_from_text("ERR internal error"));
        break;
    }
}

static void rule_done(struct service_request *request, const struct outcome *outcome) {
    struct redis_pending *pending = list_entry(request, struct redis_pending, request);
    pending->is_with_service = false;
    redis_delays_end(pending->door, pending);
    if (pending->connection == NULL) {
        destroy_pending(pending);
    } else if (outcome->status != STATUS_OK) {
        redis_pending_failed(pending, outcome->status);
    } else if (pending->finish != NULL) {
        pending->finish(pending, outcome);
    } else {
        redis_pending_done(pending, outcome->rule.answer);
    }
}

void redis_pending_submit(struct redis_pending *pending) {
    struct redis_connection *connection = pending->connection;
    struct redis_door *door = connection->door;
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REDIS_RULE_EXEC,
                 .request = bytes_of(door->encoded.data, door->encoded.size)}};
    pending->request.done = rule_done;
    pending->is_with_service = true;
    add_cost(pending, pending->cost == 0 ? door->encoded.size : 0);
    redis_delays_begin(pending);
    door->stats.rules++;
    service_submit(door->service, redis_connection_caller(connection), &pending->request, &command);
}

/* --- Changes: a rule each. --- */

/* One command, in door->encoded. */
static void encode(struct redis_connection *connection, const struct redis_exec_command *command) {
    struct redis_door *door = connection->door;
    const struct redis_exec_head head = {
        .seed = redis_door_random(door), .shows_tokens = connection->shows_tokens, .n_commands = 1};
    door->encoded.size = 0;
    redis_exec_put_head(&door->encoded, &head);
    redis_exec_put_command(&door->encoded, command->db, command->argv, command->argc);
}

static void finish_publish(struct redis_pending *pending, const struct outcome *outcome) {
    struct redis_door *door = pending->connection->door;
    struct redis_exec_request request;
    int64_t n = 0;
    (void)outcome;
    if (redis_exec_decode(bytes_of(pending->encoded.data, pending->encoded.size), &door->arena,
                          &request)) {
        n = (int64_t)redis_pubsub_receivers(
            door->pubsub, pending->command->id == REDIS_CMD_SPUBLISH, request.commands[0].argv[1]);
    }
    arena_reset(&door->arena);
    struct buffer reply;
    buffer_init(&reply);
    redis_reply_integer(&reply, n);
    redis_pending_done(pending, bytes_of(reply.data, reply.size));
    buffer_clear(&reply);
}

/* Asks again until all keys are gone. */
static void finish_flush(struct redis_pending *pending, const struct outcome *outcome) {
    struct redis_door *door = pending->connection->door;
    if (!bytes_equal(outcome->rule.answer, bytes_from_text("-" REDIS_FLUSH_UNFINISHED "\r\n"))) {
        redis_pending_done(pending, outcome->rule.answer);
        return;
    }
    door->encoded.size = 0;
    buffer_append(&door->encoded, pending->encoded.data, pending->encoded.size);
    redis_pending_submit(pending);
}

static void submit(struct redis_connection *connection, const struct redis_exec_command *command,
                   size_t reply_bytes) {
    struct redis_door *door = connection->door;
    struct redis_pending *pending = redis_pending_create(connection, command->command);
    if (pending == NULL) {
        return;
    }
    encode(connection, command);
    switch (command->command->id) {
    case REDIS_CMD_PUBLISH:
    case REDIS_CMD_SPUBLISH:
        pending->finish = finish_publish;
        break;
    case REDIS_CMD_FLUSHALL:
    case REDIS_CMD_FLUSHDB:
        pending->finish = finish_flush;
        break;
    default:
        break;
    }
    if (pending->finish != NULL) {
        buffer_append(&pending->encoded, door->encoded.data, door->encoded.size);
    }
    if (reply_bytes > 0) {
        add_cost(pending, door->encoded.size + reply_bytes);
    }
    redis_pending_submit(pending);
}

/* --- Reads: over the view. --- */

static void run_read(struct redis_connection *connection, const struct redis_exec_command *command,
                     struct buffer *out) {
    connection->door->stats.reads++;
    enum status status = redis_view_run(connection->door, command, out);
    if (status != STATUS_OK) {
        redis_reply_status(out, status);
    }
    redis_delays_note_read(connection->door, out->size);
}

static void read_ready(struct service_read *read, enum status status) {
    struct redis_pending *pending = list_entry(read, struct redis_pending, read);
    struct redis_connection *connection = pending->connection;
    struct redis_exec_request request;
    pending->is_with_service = false;
    if (connection == NULL || status != STATUS_OK) {
        redis_pending_failed(pending, status == STATUS_OK ? STATUS_CANCELED : status);
        return;
    }
    if (pending->is_long) {
        redis_long_read_start(pending);
        return;
    }
    struct redis_door *door = connection->door;
    bool is_whole = redis_exec_decode(bytes_of(pending->encoded.data, pending->encoded.size),
                                      &door->arena, &request);
    assert(is_whole);
    struct buffer reply;
    buffer_init(&reply);
    run_read(connection, &request.commands[0], &reply);
    arena_reset(&door->arena);
    redis_pending_done(pending, bytes_of(reply.data, reply.size));
    buffer_clear(&reply);
}

/* What a reply that waits for its turn may hold. */
static size_t reply_size(const struct redis_door *door, const struct redis_exec_command *command) {
    return redis_work_reply_size(state_view_keys(service_view(door->service)), command->db,
                                 command->command, command->argv, command->argc);
}

/* Has to wait, which a follower's reads do, and those of a whole database. */
static void wait_for_read(struct redis_connection *connection,
                          const struct redis_exec_command *command, const struct key_range *ranges,
                          size_t n_ranges) {
    struct redis_door *door = connection->door;
    struct redis_pending *pending = redis_pending_create(connection, command->command);
    if (pending == NULL) {
        return;
    }
    encode(connection, command);
    buffer_append(&pending->encoded, door->encoded.data, door->encoded.size);
    add_cost(pending, door->encoded.size + reply_size(door, command));
    pending->read.ready = read_ready;
    pending->is_with_service = true;
    pending->is_read = true;
    connection->n_reads++;
    if (redis_long_read_takes(door, command)) {
        redis_long_read_count(pending);
    }
    enum status status = service_read(door->service, redis_connection_caller(connection),
                                      &pending->read, ranges, n_ranges);
    if (status != STATUS_PENDING) {
        read_ready(&pending->read, status);
    }
}

/* A read behind changes of the same client that are still on their way must see them: it goes the
 * same way. */
static void read_or_submit(struct redis_connection *connection,
                           const struct redis_exec_command *command, struct buffer *out) {
    struct redis_door *door = connection->door;
    size_t n_ranges;
    if (connection->n_pending > connection->n_reads) {
        submit(connection, command, reply_size(door, command));
        return;
    }
    struct key_range *ranges = redis_view_ranges(&door->arena, command, &n_ranges);
    enum status status = STATUS_PENDING;
    if (connection->n_reads == 0) {
        status =
            service_read_now(door->service, redis_connection_caller(connection), ranges, n_ranges);
    }
    if (status == STATUS_OK && !redis_long_read_takes(door, command)) {
        run_read(connection, command, out);
        if (!redis_output_has_room(connection, out->size)) {
            /* It was larger than it looked, as elements may be. It is made again when it fits. */
            connection->unfit_reply = out->size;
            out->size = 0;
            redis_output_wait(connection);
        }
    } else if (status == STATUS_OK || status == STATUS_PENDING) {
        wait_for_read(connection, command, ranges, n_ranges);
    } else {
        redis_reply_status(out, status);
    }
}

/* --- Commands. --- */

/* A message for nobody need not be written. */
static bool is_unheard(const struct redis_connection *connection,
                       const struct redis_exec_command *command) {
    return (command->command->id == REDIS_CMD_PUBLISH ||
            command->command->id == REDIS_CMD_SPUBLISH) &&
           redis_pubsub_is_unheard(connection->door->pubsub);
}

void redis_connection_run(struct redis_connection *connection,
                          const struct redis_exec_command *command) {
    struct buffer *out = &connection->door->scratch;
    uint32_t flags = command->command->flags;
    out->size = 0;
    if ((flags & REDIS_F_LOCAL) != 0) {
        if (!redis_local_run(connection, command, out)) {
            out->size = 0;
            return;
        }
    } else if (redis_waits_takes(command)) {
        redis_waits_run(connection, command);
    } else if ((flags & REDIS_F_READ) != 0) {
        read_or_submit(connection, command, out);
    } else if (is_unheard(connection, command)) {
        redis_reply_integer(out, 0);
    } else {
        submit(connection, command, 0);
    }
    redis_connection_reply(connection, out);
}

static void append_quoted(struct buffer *out, struct bytes argument, size_t size_max) {
    size_t size = argument.size < size_max ? argument.size : size_max;
    buffer_append(out, argument.data, size);
}

/* "ERR unknown command 'FOO', with args beginning with: 'a' 'b' " */
static void reply_unknown(struct buffer *out, const struct bytes *argv, size_t argc) {
    enum { SHOWN_MAX = 128 };
    struct buffer text;
    size_t shown = 0;
    buffer_init(&text);
    buffer_append(&text, "ERR unknown command '", 21);
    append_quoted(&text, argv[0], SHOWN_MAX);
    buffer_append(&text, "', with args beginning with: ", 29);
    for (size_t i = 1; i < argc && shown < SHOWN_MAX; i++) {
        size_t before = text.size;
        buffer_append(&text, "'", 1);
        append_quoted(&text, argv[i], SHOWN_MAX - shown);
        buffer_append(&text, "' ", 2);
        shown += text.size - before;
    }
    redis_reply_error(out, bytes_of(text.data, text.size));
    buffer_clear(&text);
}

static void reply_arity(struct buffer *out, const struct redis_command *command) {
    struct buffer text;
    buffer_init(&text);
    buffer_append(&text, "ERR wrong number of arguments for '", 35);
    buffer_append(&text, command->name, strlen(command->name));
    buffer_append(&text, "' command", 9);
    redis_reply_error(out, bytes_of(text.data, text.size));
    buffer_clear(&text);
}

static bool keys_fit(const struct redis_exec_command *command) {
    struct redis_key_places places;
    if (redis_command_keys(command->command, command->argv, command->argc, &places)) {
        for (size_t i = 0; i < places.n; i++) {
            if (command->argv[redis_key_place(&places, i)].size > REDIS_KEY_SIZE_MAX) {
                return false;
            }
        }
    }
    return true;
}

/* Has logged in, while that is asked for. What has keys is asked for the rights to them where it is
 * done; what has none is asked here whether the user is still there. */
static bool is_known(struct redis_connection *connection, const struct redis_command *command) {
    const struct caller *caller = redis_connection_caller(connection);
    if (!redis_door_asks_who(connection->door)) {
        return true;
    }
    return caller->user_id != 0 &&
           (command->right != REDIS_RIGHT_USER ||
            service_check_user(connection->door->service, caller, command->name) == STATUS_OK);
}

/* Why a command is not run; NULL: it is. */
static const char *refusal(struct redis_connection *connection,
                           const struct redis_exec_command *command) {
    uint32_t flags = command->command->flags;
    if ((flags & REDIS_F_NOAUTH) == 0 && !is_known(connection, command->command)) {
        return "NOAUTH Authentication required.";
    }
    if (!keys_fit(command)) {
        return "ERR a key is longer than 16384 bytes";
    }
    if ((flags & REDIS_F_ADMIN) != 0 && command->command->right == REDIS_RIGHT_ROOT &&
        service_check_admin(connection->door->service, redis_connection_caller(connection),
                            command->command->name) != STATUS_OK) {
        return "NOPERM this user has no permissions to run this command";
    }
    return NULL;
}

static bool is_refused_for_subscriber(struct redis_connection *connection,
                                      const struct redis_command *command, struct buffer *out) {
    if (connection->protocol == 3 || !redis_connection_is_subscribed(connection) ||
        (command->flags & REDIS_F_PUBSUB) != 0) {
        return false;
    }
    struct buffer text;
    buffer_init(&text);
    buffer_append(&text, "ERR Can't execute '", 19);
    buffer_append(&text, command->name, strlen(command->name));
    static const char rest[] =
        "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
        "allowed in this context";
    buffer_append(&text, rest, sizeof rest - 1);
    redis_reply_error(out, bytes_of(text.data, text.size));
    buffer_clear(&text);
    return true;
}

/* Replies keep the order of requests by themselves; what must not be done before others are done
 * waits for them. Changes and pings pass changes. Reads pass reads; behind changes they go the way
 * of changes (see read_or_submit()). A change behind a read that waits would be seen by it. */
static bool must_wait(const struct redis_connection *connection,
                      const struct redis_command *command) {
    if (list_is_empty(&connection->pending)) {
        return false;
    }
    switch (command->id) {
    case REDIS_CMD_PING:
    case REDIS_CMD_ECHO:
    case REDIS_CMD_SELECT:
    case REDIS_CMD_MULTI:
    case REDIS_CMD_DISCARD:
        return false;
    case REDIS_CMD_EXEC:
        return connection->n_reads > 0;
    case REDIS_CMD_XREAD: /* which may wait for a key */
        return true;
    default:
        break;
    }
    if ((command->flags & REDIS_F_READ) != 0) {
        return false;
    }
    return (command->flags & (REDIS_F_LOCAL | REDIS_F_BLOCK)) != 0 || connection->n_reads > 0;
}

/* False: it has to wait, and is to be given again. */
static bool dispatch(struct redis_connection *connection, const struct bytes *argv, size_t argc) {
    struct redis_door *door = connection->door;
    struct buffer *out = &door->scratch;
    struct redis_exec_command command = {
        .db = connection->db, .command = redis_command_find(argv[0]), .argv = argv, .argc = argc};
    bool is_queued = redis_transaction_is_open(connection) && command.command != NULL &&
                     (command.command->flags & REDIS_F_NOW) == 0;
    if (command.command != NULL && !is_queued && must_wait(connection, command.command)) {
        return false;
    }
    out->size = 0;
    const char *refused = NULL;
    if (command.command == NULL) {
        reply_unknown(out, argv, argc);
    } else if (!redis_command_takes(command.command, argc)) {
        reply_arity(out, command.command);
    } else if ((refused = refusal(connection, &command)) != NULL) {
        redis_reply_error_text(out, refused);
    } else if (!is_refused_for_subscriber(connection, command.command, out)) {
        if (!is_queued && redis_delays_has_to_wait(connection, &command)) {
            return false;
        }
        door->stats.commands++;
        connection->last = command.command;
        connection->is_served = true;
        connection->unfit_reply = 0;
        if (is_queued) {
            redis_transaction_queue(connection, &command);
        } else {
            redis_connection_run(connection, &command);
        }
        return connection->unfit_reply == 0;
    }
    door->stats.commands++;
    redis_transaction_refuse(connection);
    redis_connection_reply(connection, out);
    return true;
}

/* --- Input. --- */

static bool takes_input(struct redis_connection *connection) {
    if (!connection->is_full && (connection->n_pending >= REDIS_PENDING_MAX ||
                                 connection->pending_bytes >= REDIS_PENDING_BYTES_MAX)) {
        connection->is_full = true;
    }
    if (!connection->is_slow && !raw_connection_is_writable(connection->raw)) {
        connection->is_slow = true;
    }
    return !connection->is_stopped && !connection->is_full && !connection->is_slow &&
           !connection->is_delayed && !connection->is_closing;
}

void redis_connection_stop(struct redis_connection *connection) {
    connection->is_stopped = true;
    raw_connection_pause(connection->raw);
}

void redis_connection_go_on(struct redis_connection *connection) {
    if (connection->is_stopped && list_is_empty(&connection->pending) &&
        connection->waiter == NULL && connection->login == NULL) {
        connection->is_stopped = false;
        raw_connection_pause(connection->raw); /* so that what was kept is given again */
    }
    if (!connection->is_stopped && !connection->is_full && !connection->is_slow &&
        !connection->is_delayed && !connection->is_closing) {
        raw_connection_resume(connection->raw);
    }
}

static void break_off(struct redis_connection *connection, const char *error) {
    struct buffer *out = &connection->door->scratch;
    out->size = 0;
    struct buffer text;
    buffer_init(&text);
    buffer_append(&text, "ERR ", 4);
    buffer_append(&text, error, strlen(error));
    redis_reply_error(out, bytes_of(text.data, text.size));
    buffer_clear(&text);
    redis_connection_reply(connection, out);
    connection->is_closing = true;
    raw_connection_pause(connection->raw);
    if (list_is_empty(&connection->pending)) {
        raw_connection_refuse(connection->raw, "malformed request");
    }
}

/* A request that Redis would take and that is more than may be in the log. */
static void refuse_too_large(struct redis_connection *connection) {
    struct buffer *out = &connection->door->scratch;
    char text[96];
    snprintf(text, sizeof text, "ERR the request is larger than %zu bytes; nothing was done",
             connection->door->limits.bulk_max);
    out->size = 0;
    redis_reply_error_text(out, text);
    redis_transaction_refuse(connection);
    redis_connection_reply(connection, out);
}

/* The next request of the input, and how many bytes of it are done with. False: the rest has to
 * wait, for more bytes or for what is on its way. */
static bool take_request(struct redis_connection *connection, struct bytes bytes,
                         size_t *out_used) {
    struct redis_door *door = connection->door;
    struct redis_parsed parsed = {0};
    enum redis_parse_result result = REDIS_PARSE_OK;
    bool is_array = connection->scan.is_begun || bytes.data[0] == '*';
    *out_used = 0;
    if (is_array) {
        result = redis_scan(&connection->scan, bytes, &door->limits, &parsed.error);
        *out_used = connection->scan.is_too_large ? connection->scan.at : 0;
    }
    if (result == REDIS_PARSE_OK && connection->scan.is_too_large) {
        connection->scan = (struct redis_scan){0};
        refuse_too_large(connection);
        return true;
    }
    if (result == REDIS_PARSE_OK) {
        result = redis_parse(bytes, &door->limits, &door->arena, &parsed);
    }
    if (result == REDIS_PARSE_ERROR) {
        break_off(connection, parsed.error);
        *out_used = bytes.size;
        return false;
    }
    if (result == REDIS_PARSE_MORE) {
        return false;
    }
    connection->scan = (struct redis_scan){0};
    if (parsed.argc > 0 && !dispatch(connection, parsed.argv, parsed.argc)) {
        if (!connection->is_delayed) {
            redis_connection_stop(connection);
        }
        return false;
    }
    *out_used = parsed.size;
    return true;
}

static size_t on_bytes(struct raw_connection *raw, struct bytes bytes) {
    struct redis_connection *connection = raw_connection_data(raw);
    struct redis_door *door = connection->door;
    size_t used = 0;
    bool goes_on = true;
    uint64_t begun_ns = uv_hrtime();
    connection->used_ms = service_now_ms(door->service);
    connection->is_served = false;
    while (goes_on && used < bytes.size) {
        if (!takes_input(connection)) {
            /* Of a client that waits for a key input is kept, so that its end is noticed. */
            if (connection->waiter == NULL) {
                raw_connection_pause(raw);
            }
            break;
        }
        size_t taken;
        goes_on = take_request(connection, bytes_of(bytes.data + used, bytes.size - used), &taken);
        used += taken;
        arena_reset(&door->arena);
        if (goes_on && used < bytes.size && redis_delays_turn_is_over(begun_ns)) {
            redis_delays_yield(connection);
            goes_on = false;
        }
    }
    return used;
}

static void on_writable(struct raw_connection *raw) {
    struct redis_connection *connection = raw_connection_data(raw);
    connection->is_slow = false;
    redis_connection_go_on(connection);
}

/* --- Life. --- */

/* Inline commands begin as they like: on a port that is shared, only arrays are recognised. */
static enum sniff_result sniff(struct bytes first) {
    if (first.size == 0) {
        return SNIFF_MORE;
    }
    if (first.data[0] != '*') {
        return SNIFF_NO;
    }
    if (first.size == 1) {
        return SNIFF_MORE;
    }
    return first.data[1] >= '1' && first.data[1] <= '9' ? SNIFF_YES : SNIFF_NO;
}

static bool on_open(struct raw_connection *raw) {
    struct redis_door *door = raw_connection_context(raw);
    struct redis_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return false;
    }
    connection->raw = raw;
    connection->door = door;
    connection->id = ++door->next_client_id;
    connection->opened_ms = service_now_ms(door->service);
    connection->used_ms = connection->opened_ms;
    connection->protocol = 2;
    list_init(&connection->pending);
    list_init(&connection->subscriptions);
    list_append(&door->connections, &connection->link);
    door->n_connections++;
    door->stats.connections++;
    raw_connection_set_data(raw, connection);
    return true;
}

static void on_close(struct raw_connection *raw) {
    struct redis_connection *connection = raw_connection_data(raw);
    struct list *node;
    redis_waits_leave(connection);
    redis_delays_leave(connection);
    redis_auth_forget(connection);
    redis_pubsub_leave(connection);
    redis_transaction_clear(connection);
    while ((node = list_pop_first(&connection->pending)) != NULL) {
        struct redis_pending *pending = list_entry(node, struct redis_pending, link);
        pending->connection = NULL;
        if (!pending->is_with_service) {
            destroy_pending(pending);
        }
    }
    free(connection->multi);
    free(connection->name);
    free(connection->library);
    free(connection->library_version);
    list_remove(&connection->link);
    connection->door->n_connections--;
    free(connection);
}

const struct raw_protocol redis_protocol = {.name = "redis",
                                            .sniff = sniff,
                                            .partial_max = PARTIAL_MAX,
                                            .idle_limit_ms = RAW_NO_IDLE_LIMIT,
                                            .on_open = on_open,
                                            .on_bytes = on_bytes,
                                            .on_writable = on_writable,
                                            .on_close = on_close};
