/* KEYS of many keys, and operations on sets that have many elements: a worker reads a view of the
 * state, while the loop goes on. A few at a time; the others wait in front of their connections'
 * input. */
#include "core/key_store.h"
#include "core/state_machine.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_run_rules.h"
#include "doors/redis/redis_view.h"
#include "doors/redis/redis_work_rules.h"

#include <assert.h>
#include <stdlib.h>

enum {
    KEYS_MANY = 2048,
    /* A pattern and a key that may take this many steps each are much, however few there are. */
    PATTERN_LONG = 64,
    SETS_WORK_MUCH = 32 * 1024, /* of redis_work_of(): some four thousand elements … */
    MEMBERS_MANY = 8 * 1024,    /* … and their records */
    LONG_READS_MAX = 2
};

struct redis_long_read {
    struct service_scan scan;
    struct redis_pending *pending; /* whose connection may be gone */
    struct redis_exec_command command;
    struct arena arena;
    struct buffer reply;
    enum status status;
};

/* What is on the loop has few members, and short ones. */
static bool is_much_of_sets(const struct key_store *keys,
                            const struct redis_exec_command *command) {
    size_t work = redis_work_of(keys, command->db, command->command, command->argv, command->argc);
    return work >= SETS_WORK_MUCH ||
           redis_work_of_members(keys, command->db, command->command, command->argv, command->argc,
                                 MEMBERS_MANY) >= SETS_WORK_MUCH;
}

static bool is_much_of_keys(const struct key_store *keys,
                            const struct redis_exec_command *command) {
    const uint8_t first = (uint8_t)command->db;
    const uint8_t end = (uint8_t)(command->db + 1);
    return command->argv[1].size >= PATTERN_LONG ||
           key_store_count(keys, KEY_SPACE_REDIS, bytes_of(&first, 1), bytes_of(&end, 1)) >
               KEYS_MANY;
}

bool redis_long_read_takes(struct redis_door *door, const struct redis_exec_command *command) {
    const struct key_store *keys = state_view_keys(service_view(door->service));
    switch (command->command->id) {
    case REDIS_CMD_KEYS:
        return is_much_of_keys(keys, command);
    case REDIS_CMD_SINTER:
    case REDIS_CMD_SINTERCARD:
    case REDIS_CMD_SUNION:
    case REDIS_CMD_SDIFF:
    case REDIS_CMD_ZINTER:
    case REDIS_CMD_ZINTERCARD:
    case REDIS_CMD_ZUNION:
    case REDIS_CMD_ZDIFF:
        return is_much_of_sets(keys, command);
    default:
        return false;
    }
}

bool redis_long_read_has_to_wait(struct redis_connection *connection) {
    struct redis_door *door = connection->door;
    /* What it answers is not known before, and is made whether there is room or not. */
    if (!redis_output_has_room(connection, REDIS_REPLY_BYTES_MAX)) {
        redis_output_wait(connection);
        return true;
    }
    if (door->n_long_reads < LONG_READS_MAX) {
        return false;
    }
    redis_delays_wait(connection, &door->delayed_long_reads);
    return true;
}

void redis_long_read_count(struct redis_pending *pending) {
    pending->is_long = true;
    pending->door->n_long_reads++;
}

void redis_long_read_uncount(struct redis_pending *pending) {
    struct redis_door *door = pending->door;
    if (pending->is_long) {
        pending->is_long = false;
        door->n_long_reads--;
        /* Who is resumed need not go on, so when nothing is on its way all look again. */
        do {
            if (list_is_empty(&door->delayed_long_reads)) {
                return;
            }
            redis_delays_resume_first(&door->delayed_long_reads);
        } while (door->n_long_reads == 0);
    }
}

/* --- The worker. --- */

static void run(struct service_scan *scan) {
    struct redis_long_read *read = list_entry(scan, struct redis_long_read, scan);
    read->status = redis_view_run_long(key_view_store(snapshot_view_keys(scan->view)), &read->arena,
                                       &read->command, &read->reply);
}

/* --- The loop. --- */

static void destroy(struct redis_long_read *read) {
    arena_clear(&read->arena);
    buffer_clear(&read->reply);
    free(read);
}

static void end(struct redis_long_read *read, enum status status) {
    struct redis_pending *pending = read->pending;
    bool is_ended = service_scan_end(&read->scan);
    assert(is_ended);
    pending->is_with_service = false;
    redis_long_read_uncount(pending);
    if (status != STATUS_OK) {
        redis_pending_failed(pending, status);
    } else {
        redis_pending_done(pending, bytes_of(read->reply.data, read->reply.size));
    }
    destroy(read);
}

static void ran(struct service_scan *scan) {
    struct redis_long_read *read = list_entry(scan, struct redis_long_read, scan);
    end(read, read->status);
}

static void revoked(struct service_scan *scan, enum status status) {
    end(list_entry(scan, struct redis_long_read, scan), status);
}

void redis_long_read_start(struct redis_pending *pending) {
    struct redis_door *door = pending->door;
    struct redis_exec_request request;
    struct redis_long_read *read = calloc(1, sizeof *read);
    if (read == NULL) {
        abort();
    }
    arena_init(&read->arena);
    buffer_init(&read->reply);
    bool is_whole = redis_exec_decode(bytes_of(pending->encoded.data, pending->encoded.size),
                                      &read->arena, &request);
    assert(is_whole);
    read->command = request.commands[0];
    read->pending = pending;
    read->scan = (struct service_scan){.run = run, .ran = ran, .revoked = revoked};
    pending->is_with_service = true;
    door->stats.reads++;
    size_t n_ranges;
    const struct key_range *ranges = redis_view_ranges(&read->arena, &read->command, &n_ranges);
    enum status status = service_scan_start(
        door->service, redis_connection_caller(pending->connection), &read->scan, ranges, n_ranges);
    if (status != STATUS_PENDING) {
        pending->is_with_service = false;
        redis_long_read_uncount(pending);
        redis_pending_failed(pending, status);
        destroy(read);
    }
}
