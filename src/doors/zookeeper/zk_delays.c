#include "doors/zookeeper/zk_delays.h"

#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_events.h"
#include "doors/zookeeper/zk_tellings.h"

#include <stdlib.h>

enum {
    SLICE_NS = 10 * 1000 * 1000,
    /* A timer that is started with 0 by another one's function may run before the loop polls. */
    PAUSE_MS = 1,
    CHANGE_LARGE = 32 * 1024,
    REQUEST_LARGE = 4096,
    REWRITTEN_MAX = 2 * 1024 * 1024, /* by changes on their way; a single one may be more */
    CHANGES_LOOK_MS = 10,
    CHANGES_RESUMED_AT_ONCE = 64
};

/* --- Time. --- */

void zk_delays_begin(struct zk_door *door) {
    uint64_t iteration = service_iteration(door->service);
    if (door->slice_iteration != iteration) {
        door->slice_iteration = iteration;
        door->slice_used_ns = 0;
    }
    door->slice_begun_ns = uv_hrtime();
}

void zk_delays_end(struct zk_door *door) {
    door->slice_used_ns += uv_hrtime() - door->slice_begun_ns;
}

bool zk_delays_is_slice_over(const struct zk_door *door) {
    return door->slice_used_ns >= SLICE_NS &&
           door->slice_iteration == service_iteration(door->service);
}

/* --- Connections. --- */

static void on_timer(uv_timer_t *timer);

void zk_delays_wake(struct zk_door *door) {
    if (!uv_is_active((uv_handle_t *)door->delay_timer)) {
        uv_timer_start(door->delay_timer, on_timer, PAUSE_MS, 0);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct zk_door *door = timer->data;
    struct list *node;
    struct list all;
    list_init(&all);
    list_append_all(&all, &door->delayed);
    /* They have their own share, whatever this iteration has done already. */
    zk_delays_begin(door);
    door->slice_used_ns = 0;
    door->told_bytes = 0;
    door->told_work = 0;
    while (!zk_delays_is_slice_over(door) && !zk_tellings_are_many(door) &&
           (node = list_pop_first(&all)) != NULL) {
        struct zk_connection *connection = list_entry(node, struct zk_connection, in_delayed);
        connection->is_delayed = false;
        zk_requests_go_on(connection);
    }
    door->is_late_to_send = !list_is_empty(&all) && zk_tellings_are_many(door);
    /* Who waits goes before what is told anew, which may be as much in every iteration. */
    (void)zk_events_catch_up(door);
    /* Those that had no time go first in the next iteration. */
    list_append_all(&all, &door->delayed);
    list_append_all(&door->delayed, &all);
    if (!list_is_empty(&door->delayed)) {
        zk_delays_wake(door);
    }
}

void zk_delays_add(struct zk_connection *connection) {
    struct zk_door *door = connection->door;
    if (connection->is_delayed) {
        return;
    }
    connection->is_delayed = true;
    list_append(&door->delayed, &connection->in_delayed);
    zk_delays_wake(door);
}

void zk_delays_remove(struct zk_connection *connection) {
    if (connection->is_delayed) {
        connection->is_delayed = false;
        list_remove(&connection->in_delayed);
    }
    if (connection->is_change_delayed) {
        connection->is_change_delayed = false;
        list_remove(&connection->in_delayed_changes);
    }
}

/* --- Changes. --- */

/* A short request that writes anew what is there makes more history than it sends. */
static bool has_to_wait_for_history(const struct zk_door *door, size_t size, size_t rewritten) {
    switch (service_history_pressure(door->service)) {
    case HISTORY_PRESSURE_NONE:
        return false;
    case HISTORY_PRESSURE_HIGH:
        return size >= CHANGE_LARGE || rewritten > 0;
    case HISTORY_PRESSURE_FULL:
        return true;
    }
    return false;
}

/* Behind the first of them others go on with the timer: what everybody else has sent is read
 * between them. */
static bool has_to_wait_for_others(const struct zk_door *door, size_t rewritten) {
    bool is_turn =
        door->is_resuming_changes || !uv_is_active((const uv_handle_t *)door->changes_timer);
    return rewritten > 0 &&
           (!is_turn || (door->rewritten > 0 && door->rewritten + rewritten > REWRITTEN_MAX));
}

static void on_changes_timer(uv_timer_t *timer) {
    struct zk_door *door = timer->data;
    struct list *node;
    struct list first;
    list_init(&first);
    for (size_t i = 0;
         i < CHANGES_RESUMED_AT_ONCE && (node = list_pop_first(&door->delayed_changes)) != NULL;
         i++) {
        list_append(&first, node);
    }
    door->is_resuming_changes = true;
    while ((node = list_pop_first(&first)) != NULL) {
        struct zk_connection *connection =
            list_entry(node, struct zk_connection, in_delayed_changes);
        connection->is_change_delayed = false;
        zk_requests_go_on(connection);
    }
    door->is_resuming_changes = false;
    if (list_is_empty(&door->delayed_changes) && door->rewritten == 0) {
        uv_timer_stop(timer);
    }
}

static void look_again(struct zk_door *door) {
    if (!uv_is_active((uv_handle_t *)door->changes_timer)) {
        uv_timer_start(door->changes_timer, on_changes_timer, CHANGES_LOOK_MS, CHANGES_LOOK_MS);
    }
}

static void delay_change(struct zk_connection *connection) {
    struct zk_door *door = connection->door;
    if (!connection->is_change_delayed) {
        connection->is_change_delayed = true;
        list_append(&door->delayed_changes, &connection->in_delayed_changes);
    }
    look_again(door);
}

bool zk_delays_admit_change(struct zk_connection *connection, size_t size, size_t rewritten) {
    struct zk_door *door = connection->door;
    if (!connection->is_change_delayed && !has_to_wait_for_history(door, size, rewritten) &&
        !has_to_wait_for_others(door, rewritten)) {
        return true;
    }
    delay_change(connection);
    return false;
}

void zk_delays_wait_for_room(struct zk_connection *connection) {
    raw_connection_want_room(connection->raw);
    delay_change(connection);
}

void zk_delays_change_begun(struct zk_door *door, size_t size, size_t rewritten) {
    door->n_large_changes += size >= REQUEST_LARGE;
    door->rewritten += rewritten;
    if (rewritten > 0) {
        look_again(door);
    }
}

void zk_delays_change_ended(struct zk_door *door, size_t size, size_t rewritten) {
    door->n_large_changes -= size >= REQUEST_LARGE;
    door->rewritten -= rewritten;
}

/* --- Life. --- */

static uv_timer_t *create_timer(struct zk_door *door) {
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (timer == NULL) {
        abort();
    }
    uv_timer_init(door->environment->loop, timer);
    timer->data = door;
    return timer;
}

void zk_delays_open(struct zk_door *door) {
    door->delay_timer = create_timer(door);
    door->changes_timer = create_timer(door);
    list_init(&door->delayed);
    list_init(&door->delayed_changes);
}

void zk_delays_stop(struct zk_door *door) {
    uv_timer_stop(door->delay_timer);
    uv_timer_stop(door->changes_timer);
}

static void free_timer(uv_handle_t *handle) {
    free(handle);
}

void zk_delays_close(struct zk_door *door) {
    uv_close((uv_handle_t *)door->delay_timer, free_timer);
    uv_close((uv_handle_t *)door->changes_timer, free_timer);
}
