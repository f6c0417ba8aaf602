/* Commands that are much work: a few at a time, in the order of their arrival. Scripts, large
 * collections and whole databases take milliseconds, during which nobody else is served; so the
 * others of them wait, each in front of its connection's input, and small commands pass between. */
#include "core/key_work.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_work_rules.h"

#include <stdlib.h>

enum {
    WORK_MUCH = 1024,             /* less is not counted */
    WORK_ON_ITS_WAY = 768 * 1024, /* through the log; a single command may be more */
    WORK_A_READ = 2,              /* reads have half of what an iteration allows */
    RESUMED_AT_ONCE = 2,
    TURN_NS = 4 * 1000 * 1000 /* of one connection's input */
};

static void resume_first(struct list *delayed) {
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
        resume_first(&all);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct redis_door *door = timer->data;
    resume_all(&door->delayed);
}

static void delay(struct redis_connection *connection, struct list *delayed) {
    connection->is_delayed = true;
    list_append(delayed, &connection->in_delayed);
    raw_connection_pause(connection->raw);
}

void redis_delays_yield(struct redis_connection *connection) {
    struct redis_door *door = connection->door;
    delay(connection, &door->delayed);
    if (!uv_is_active((uv_handle_t *)door->delay_timer)) {
        uv_timer_start(door->delay_timer, on_timer, 0, 0);
    }
}

bool redis_delays_turn_is_over(uint64_t begun_ns) {
    return uv_hrtime() - begun_ns > TURN_NS;
}

/* What a command may be, through the log or not. */
static size_t work_of(struct redis_connection *connection,
                      const struct redis_exec_command *command) {
    if (command->command->id == REDIS_CMD_EXEC) {
        return redis_transaction_work(connection);
    }
    if ((command->command->flags & REDIS_F_LOCAL) != 0) {
        return redis_local_work(connection, command);
    }
    return redis_work_of(state_view_keys(service_view(connection->door->service)), command->db,
                         command->command, command->argv, command->argc);
}

bool redis_delays_has_to_wait(struct redis_connection *connection,
                              const struct redis_exec_command *command) {
    struct redis_door *door = connection->door;
    uint32_t flags = command->command->flags;
    size_t work = work_of(connection, command);
    bool is_rule = command->command->id == REDIS_CMD_EXEC || (flags & REDIS_F_WRITE) != 0 ||
                   ((flags & REDIS_F_READ) != 0 && connection->n_pending > connection->n_reads);
    connection->work = is_rule && work >= WORK_MUCH ? work : 0;
    if (work < WORK_MUCH) {
        return false;
    }
    if (is_rule && door->work > 0 && door->work + work > WORK_ON_ITS_WAY) {
        delay(connection, &door->delayed_rules);
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
    connection->door->work += pending->work;
    connection->work = 0;
}

/* Who is resumed need not go on: it may wait for its client to read. So when nothing is on its way
 * any more, which would wake the others, all of them look again. */
void redis_delays_end(struct redis_door *door, struct redis_pending *pending) {
    if (pending->work == 0) {
        return;
    }
    door->work -= pending->work;
    pending->work = 0;
    if (door->work == 0) {
        resume_all(&door->delayed_rules);
    }
    for (size_t i = 0; i < RESUMED_AT_ONCE && !list_is_empty(&door->delayed_rules); i++) {
        resume_first(&door->delayed_rules);
    }
}

void redis_delays_leave(struct redis_connection *connection) {
    if (connection->is_delayed) {
        connection->is_delayed = false;
        list_remove(&connection->in_delayed);
    }
}

/* --- Life. --- */

void redis_delays_open(struct redis_door *door) {
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (timer == NULL) {
        abort();
    }
    list_init(&door->delayed);
    list_init(&door->delayed_rules);
    uv_timer_init(door->environment->loop, timer);
    timer->data = door;
    door->delay_timer = timer;
}

static void free_timer(uv_handle_t *handle) {
    free(handle);
}

void redis_delays_close(struct redis_door *door) {
    uv_close((uv_handle_t *)door->delay_timer, free_timer);
}
