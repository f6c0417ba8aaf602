/* Commands that are much work: a few at a time, in the order of their arrival. Scripts, large
 * collections and whole databases take milliseconds, during which nobody else is served; so the
 * others of them wait, each in front of its connection's input, and small commands pass between. */
#include "base/keyed_hash.h"
#include "core/key_work.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_work_rules.h"

#include <stdlib.h>

enum {
    WORK_MUCH = 1024,             /* less is not counted */
    WORK_ON_ITS_WAY = 768 * 1024, /* through the log; a single command may be more */
    WORK_A_READ = 2,              /* reads have half of what an iteration allows */
    CHANGE_LARGE = 32 * 1024,     /* in work and in bytes of its request */
    VALUE_SMALL = 4096,           /* written again by many commands at once it does no harm */
    KEPT_LARGE = 256,             /* bytes of values that are written again by a short request */
    WORK_BYTES = 4,               /* of values, a unit */
    /* Replies to reads that an iteration makes, the last of which may be more: each is copied a few
     * times. */
    READ_BYTES = 4 * 1024 * 1024,
    RESUMED_AT_ONCE = 2,
    /* Changes in a millisecond, under pressure: of a connection, and of all. */
    PACED_AT_ONCE = 2,
    PACED_OF_ALL = 256,
    PACED_MS = 1,
    REST_MS = 20,             /* behind a command that was all that may be on its way */
    TURN_NS = 4 * 1000 * 1000 /* of one connection's input */
};

void redis_delays_resume_first(struct list *delayed) {
    struct redis_connection *connection =
        list_entry(list_pop_first(delayed), struct redis_connection, in_delayed);
    connection->is_delayed = false;
    redis_connection_go_on(connection);
}

static void resume_all(struct list *delayed) {
    struct list all;
    list_init(&all);
    list_append_all(&all, delayed);
    while (!list_is_empty(&all)) {
        redis_delays_resume_first(&all);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct redis_door *door = timer->data;
    list_append_all(&door->delayed, &door->delayed_served);
    resume_all(&door->delayed);
}

void redis_delays_wait(struct redis_connection *connection, struct list *delayed) {
    connection->is_delayed = true;
    list_append(delayed, &connection->in_delayed);
    raw_connection_pause(connection->raw);
}

static void yield_for(struct redis_connection *connection, uint64_t ms) {
    struct redis_door *door = connection->door;
    redis_delays_wait(connection, connection->is_served ? &door->delayed_served : &door->delayed);
    if (!uv_is_active((uv_handle_t *)door->delay_timer) ||
        uv_timer_get_due_in(door->delay_timer) > ms) {
        uv_timer_start(door->delay_timer, on_timer, ms, 0);
    }
}

void redis_delays_yield(struct redis_connection *connection) {
    yield_for(connection, 0);
}

bool redis_delays_turn_is_over(uint64_t begun_ns) {
    return uv_hrtime() - begun_ns > TURN_NS;
}

void redis_delays_note_read(struct redis_door *door, size_t reply_size) {
    uint64_t iteration = service_iteration(door->service);
    door->read_bytes = reply_size + (door->read_iteration == iteration ? door->read_bytes : 0);
    door->read_iteration = iteration;
}

/* What a read answers is known when it has run: whoever comes behind large ones waits. */
static bool has_read_enough(const struct redis_door *door) {
    return door->read_bytes >= READ_BYTES &&
           door->read_iteration == service_iteration(door->service);
}

/* What a command may be, through the log or not. */
static size_t work_of(struct redis_connection *connection,
                      const struct redis_exec_command *command) {
    if (command->command->id == REDIS_CMD_EXEC) {
        return redis_transaction_work(connection, &connection->work_made);
    }
    if ((command->command->flags & REDIS_F_LOCAL) != 0) {
        return redis_local_work(connection, command);
    }
    return redis_work_of(state_view_keys(service_view(connection->door->service)), command->db,
                         command->command, command->argv, command->argc);
}

/* What it answers is known only when it has run; large ones can be guessed. */
static bool has_room_for_reply(struct redis_connection *connection,
                               const struct redis_exec_command *command) {
    const struct redis_door *door = connection->door;
    if (connection->unfit_reply > 0) {
        return redis_output_has_room(connection, connection->unfit_reply);
    }
    return !redis_output_is_tight(connection) ||
           redis_output_has_room(connection,
                                 redis_work_reply_size(state_view_keys(service_view(door->service)),
                                                       command->db, command->command, command->argv,
                                                       command->argc));
}

/* Messages are not published faster than they are delivered here. */
static bool has_to_wait_for_delivery(const struct redis_connection *connection,
                                     const struct redis_exec_command *command) {
    return (command->command->id == REDIS_CMD_PUBLISH ||
            command->command->id == REDIS_CMD_SPUBLISH) &&
           redis_pubsub_is_behind(connection->door->pubsub);
}

static size_t request_size(const struct redis_connection *connection,
                           const struct redis_exec_command *command) {
    size_t size = 0;
    if (command->command->id == REDIS_CMD_EXEC) {
        return redis_transaction_is_open(connection) ? connection->multi->commands.size : 0;
    }
    for (size_t i = 0; i < command->argc; i++) {
        size += command->argv[i].size;
    }
    return size;
}

static size_t kept_bytes(struct redis_connection *connection,
                         const struct redis_exec_command *command) {
    return command->command->id == REDIS_CMD_EXEC
               ? redis_transaction_kept_bytes(connection)
               : redis_work_kept_bytes(state_view_keys(service_view(connection->door->service)),
                                       command->db, command->command, command->argv, command->argc);
}

/* What this door's clients overwrite fills the history. They wait until it was freed before others
 * are refused for it. */
static bool has_to_wait_for_history(struct redis_connection *connection,
                                    const struct redis_exec_command *command, size_t work) {
    switch (service_history_pressure(connection->door->service)) {
    case HISTORY_PRESSURE_NONE:
        return false;
    case HISTORY_PRESSURE_HIGH:
        return work + request_size(connection, command) >= CHANGE_LARGE ||
               kept_bytes(connection, command) >= KEPT_LARGE;
    case HISTORY_PRESSURE_FULL:
        return true;
    }
    return false;
}

/* Small changes fill the history too, where clients send more and more of them: under pressure each
 * connection has a few in a millisecond, so who asks now and then does not wait. Not in an
 * iteration, which is short when all that it does is to take them, while what is to be freed may
 * have to wait for a snapshot. */
static bool has_to_be_paced(struct redis_connection *connection) {
    struct redis_door *door = connection->door;
    if (service_history_pressure(door->service) == HISTORY_PRESSURE_NONE) {
        return false;
    }
    uint64_t now_ms = uv_now(door->environment->loop);
    if (door->paced_ms != now_ms) {
        door->paced_ms = now_ms;
        door->n_paced = 0;
    }
    if (connection->paced_ms != now_ms) {
        connection->paced_ms = now_ms;
        connection->n_paced = 0;
    }
    if (connection->n_paced >= PACED_AT_ONCE || door->n_paced >= PACED_OF_ALL) {
        return true;
    }
    connection->n_paced++;
    door->n_paced++;
    return false;
}

static bool is_resting(const struct redis_door *door) {
    return uv_is_active((const uv_handle_t *)door->rest_timer);
}

/* --- Values to come. --- */

/* A value that a command may make is copied by those behind it, which are submitted before it is
 * there: as many bits as its size has, 0 for one that is small. */
static unsigned value_bits(size_t size) {
    unsigned bits = 0;
    while (size >= VALUE_SMALL && bits < REDIS_VALUE_BITS_MAX && size >> bits > 0) {
        bits++;
    }
    return bits;
}

static unsigned bucket_of(struct bytes key) {
    return 1 + (unsigned)(keyed_hash_bytes(&hash_key_fixed, key) % (REDIS_VALUE_BUCKETS - 1));
}

/* A long request is a large value, but for these. */
static bool may_make_value(const struct redis_command *command) {
    return command->id != REDIS_CMD_PUBLISH && command->id != REDIS_CMD_SPUBLISH &&
           command->id != REDIS_CMD_DEL && command->id != REDIS_CMD_UNLINK &&
           command->id != REDIS_CMD_SCRIPT;
}

/* Where the value of a command will be: the last of its keys, or anywhere. */
static unsigned bucket_of_made(const struct redis_exec_command *command) {
    struct redis_key_places places;
    bool is_known = (command->command->flags & (REDIS_F_LOCAL | REDIS_F_MOVABLE)) == 0 &&
                    redis_command_keys(command->command, command->argv, command->argc, &places) &&
                    places.first > 0 && (places.n == 1 || places.n == 2);
    return is_known ? bucket_of(command->argv[redis_key_place(&places, places.n - 1)])
                    : REDIS_VALUE_ANYWHERE;
}

static unsigned bits_in(const uint32_t *n_values) {
    unsigned bits = REDIS_VALUE_BITS_MAX;
    while (bits > 0 && n_values[bits] == 0) {
        bits--;
    }
    return bits;
}

size_t redis_delays_size_to_come(const struct redis_door *door,
                                 const struct redis_exec_command *command) {
    enum { LOOKED_AT = 16 };
    size_t n_arguments = command->argc > 3 ? command->argc - 3 : 0;
    struct redis_key_places places = {.first = 3, .n = n_arguments, .step = 1};
    bool is_script = command->command->id == REDIS_CMD_EVAL ||
                     command->command->id == REDIS_CMD_EVALSHA; /* its arguments may be keys */
    unsigned all = bits_in(door->n_values);
    if (all == 0 || (!is_script && !redis_command_keys(command->command, command->argv,
                                                       command->argc, &places))) {
        return 0;
    }
    unsigned bits = bits_in(door->n_values_in[REDIS_VALUE_ANYWHERE]);
    for (size_t i = 0; i < places.n && places.n <= LOOKED_AT; i++) {
        struct bytes key = command->argv[redis_key_place(&places, i)];
        unsigned here = bits_in(door->n_values_in[bucket_of(key)]);
        bits = here > bits ? here : bits;
    }
    bits = places.n > LOOKED_AT ? all : bits;
    return bits == 0 ? 0 : (size_t)1 << bits;
}

static void note_value(struct redis_door *door, const struct redis_pending *pending, bool begins) {
    if (pending->value_bits > 0) {
        uint32_t more = begins ? 1 : UINT32_MAX;
        door->n_values[pending->value_bits] += more;
        door->n_values_in[pending->value_bucket][pending->value_bits] += more;
    }
}

bool redis_delays_has_to_wait(struct redis_connection *connection,
                              const struct redis_exec_command *command) {
    struct redis_door *door = connection->door;
    uint32_t flags = command->command->flags;
    connection->work_made = 0;
    size_t work = work_of(connection, command);
    bool is_rule = command->command->id == REDIS_CMD_EXEC || (flags & REDIS_F_WRITE) != 0 ||
                   ((flags & REDIS_F_READ) != 0 && connection->n_pending > connection->n_reads);
    if (is_rule && command->command->id != REDIS_CMD_EXEC) {
        size_t of_values = redis_work_of_values(
            state_view_keys(service_view(door->service)), command->db, command->command,
            command->argv, command->argc, redis_delays_size_to_come(door, command));
        connection->work_made = redis_work_of_made(command->command, work, of_values);
        work += of_values;
    }
    connection->work = is_rule && work >= WORK_MUCH ? work : 0;
    bool makes_large = is_rule && (connection->work_made > 0 ||
                                   (may_make_value(command->command) &&
                                    request_size(connection, command) >= VALUE_SMALL / 2));
    connection->made_in = makes_large ? bucket_of_made(command) : REDIS_VALUE_ANYWHERE;
    if (!has_room_for_reply(connection, command) || has_to_wait_for_delivery(connection, command)) {
        redis_output_wait(connection);
        return true;
    }
    if (!is_rule && redis_long_read_takes(door, command)) {
        return redis_long_read_has_to_wait(connection);
    }
    bool is_change = command->command->id == REDIS_CMD_EXEC || (flags & REDIS_F_WRITE) != 0;
    if (is_change && has_to_wait_for_history(connection, command, work)) {
        redis_output_wait(connection);
        return true;
    }
    if (is_change && has_to_be_paced(connection)) {
        yield_for(connection, PACED_MS);
        return true;
    }
    if (!is_rule && (flags & REDIS_F_READ) != 0 && has_read_enough(door)) {
        redis_delays_yield(connection);
        return true;
    }
    if (work < WORK_MUCH) {
        return false;
    }
    if (is_rule && (is_resting(door) || (door->work > 0 && door->work + work > WORK_ON_ITS_WAY))) {
        redis_delays_wait(connection, &door->delayed_rules);
        return true;
    }
    if (!is_rule && !service_allow_work(door->service, WORK_A_READ * work)) {
        redis_delays_yield(connection);
        return true;
    }
    return false;
}

void redis_delays_begin(struct redis_pending *pending) {
    struct redis_connection *connection = pending->connection;
    pending->work = connection->work;
    pending->value_bits =
        value_bits(connection->door->encoded.size + WORK_BYTES * connection->work_made);
    connection->door->work += pending->work;
    pending->value_bucket = connection->made_in;
    note_value(connection->door, pending, true);
    connection->work = 0;
    connection->work_made = 0;
    connection->made_in = REDIS_VALUE_ANYWHERE;
}

static void rest_is_over(uv_timer_t *timer) {
    struct redis_door *door = timer->data;
    resume_all(&door->delayed_rules);
}

/* What others have sent while a long command was applied is read in this iteration. If the next
 * long one were proposed in it too, they would wait for both. */
static void rest(struct redis_door *door) {
    uv_update_time(door->environment->loop);
    uv_timer_start(door->rest_timer, rest_is_over, REST_MS, 0);
}

/* Who is resumed need not go on: it may wait for its client to read. So when nothing is on its way
 * any more, which would wake the others, all of them look again. */
void redis_delays_end(struct redis_door *door, struct redis_pending *pending) {
    size_t work = pending->work;
    door->work -= work;
    note_value(door, pending, false);
    pending->work = 0;
    if (work >= WORK_ON_ITS_WAY) {
        rest(door);
    }
    if (work == 0 || is_resting(door)) {
        return;
    }
    if (door->work == 0) {
        resume_all(&door->delayed_rules);
    }
    for (size_t i = 0; i < RESUMED_AT_ONCE && !list_is_empty(&door->delayed_rules); i++) {
        redis_delays_resume_first(&door->delayed_rules);
    }
}

void redis_delays_leave(struct redis_connection *connection) {
    if (connection->is_delayed) {
        connection->is_delayed = false;
        list_remove(&connection->in_delayed);
    }
}

/* --- Life. --- */

static uv_timer_t *create_timer(struct redis_door *door) {
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (timer == NULL) {
        abort();
    }
    uv_timer_init(door->environment->loop, timer);
    timer->data = door;
    return timer;
}

void redis_delays_open(struct redis_door *door) {
    list_init(&door->delayed);
    list_init(&door->delayed_served);
    list_init(&door->delayed_rules);
    list_init(&door->delayed_long_reads);
    door->delay_timer = create_timer(door);
    door->rest_timer = create_timer(door);
}

static void free_timer(uv_handle_t *handle) {
    free(handle);
}

void redis_delays_close(struct redis_door *door) {
    uv_close((uv_handle_t *)door->delay_timer, free_timer);
    uv_close((uv_handle_t *)door->rest_timer, free_timer);
}
