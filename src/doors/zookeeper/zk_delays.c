#include "doors/zookeeper/zk_delays.h"

#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_events.h"
#include "doors/zookeeper/zk_tellings.h"

#include <stdlib.h>

enum {
    SLICE_NS = 10 * 1000 * 1000,
    /* A timer that is started with 0 by another one's function may run before the loop polls. */
    PAUSE_MS = 1
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
}

/* --- Life. --- */

void zk_delays_open(struct zk_door *door) {
    door->delay_timer = calloc(1, sizeof *door->delay_timer);
    if (door->delay_timer == NULL) {
        abort();
    }
    uv_timer_init(door->environment->loop, door->delay_timer);
    door->delay_timer->data = door;
    list_init(&door->delayed);
}

void zk_delays_stop(struct zk_door *door) {
    uv_timer_stop(door->delay_timer);
}

static void free_timer(uv_handle_t *handle) {
    free(handle);
}

void zk_delays_close(struct zk_door *door) {
    uv_close((uv_handle_t *)door->delay_timer, free_timer);
}
