/* What waits until clients take it. A client that asks for much and reads nothing is held back by
 * itself; thousands of them together are bounded here: large replies are not made, and messages not
 * delivered, until there is room. Who does not take what it has, while others wait for the room, is
 * closed, as Redis does it by client-output-buffer-limit. */
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_run_rules.h"

#include <stdlib.h>

enum {
    /* Of all clients that have not subscribed, and of all that have. */
    OUTPUT_BYTES_MAX = 64 * 1024 * 1024,
    /* Beyond this whoever has more than a little unsent is closed. */
    OUTPUT_BYTES_HARD = 96 * 1024 * 1024,
    UNSENT_SMALL = 64 * 1024,
    /* Of one subscriber: what Redis allows. */
    SUBSCRIBER_BYTES_MAX = 32 * 1024 * 1024,
    REPLY_LARGE = 64 * 1024, /* smaller ones need no room */
    LOOK_MS = 10,
    RESUMED_AT_ONCE = 64,
    STUCK_MS_MAX = 1000, /* nothing was taken for so long, while others wait */
    /* The same of subscribers, all of which wait for the slowest: long enough for those that
     * read. */
    SUBSCRIBER_STUCK_MS_MAX = 250
};

struct redis_output {
    struct redis_door *door;
    struct list waiting; /* struct redis_connection by in_delayed */
    uv_timer_t *timer;
    /* At most so much is unsent, by whether the client has subscribed: exact when it was looked at,
     * and more with everything that was sent since. */
    size_t bytes[2];
    size_t promised;    /* to replies that are being made again */
    bool is_wanted[2];  /* there was no room for a reply */
    uint64_t iteration; /* of the loop, when it was looked at */
};

static void abort_connection(struct redis_connection *connection, const char *reason) {
    struct redis_output *output = connection->door->output;
    bool is_subscribed = redis_connection_is_subscribed(connection);
    size_t size = raw_connection_unsent_bytes(connection->raw);
    connection->is_aborted = true;
    output->bytes[is_subscribed] -=
        size < output->bytes[is_subscribed] ? size : output->bytes[is_subscribed];
    raw_connection_abort(connection->raw, reason);
}

static bool is_of(const struct redis_connection *connection, bool is_subscribed) {
    return redis_connection_is_subscribed(connection) == is_subscribed;
}

static uint64_t now_of(const struct redis_door *door) {
    return uv_now(door->environment->loop);
}

static void look_at(struct redis_connection *connection, uint64_t now_ms) {
    size_t unsent = raw_connection_unsent_bytes(connection->raw);
    uint64_t taken = connection->sent_bytes > unsent ? connection->sent_bytes - unsent : 0;
    if (unsent == 0 || taken > connection->taken_bytes) {
        connection->taken_bytes = taken;
        connection->taken_ms = now_ms;
    }
}

/* Once an iteration at most: there may be many connections. */
static void look(struct redis_output *output) {
    struct redis_door *door = output->door;
    uint64_t now_ms = now_of(door);
    if (output->iteration == service_iteration(door->service)) {
        return;
    }
    output->iteration = service_iteration(door->service);
    output->bytes[0] = output->bytes[1] = 0;
    for (struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        struct redis_connection *connection = list_entry(node, struct redis_connection, link);
        look_at(connection, now_ms);
        output->bytes[redis_connection_is_subscribed(connection)] +=
            raw_connection_unsent_bytes(connection->raw);
    }
}

static bool has_room(struct redis_output *output, bool is_subscribed, size_t size) {
    if (output->bytes[is_subscribed] + output->promised + size > OUTPUT_BYTES_MAX) {
        look(output);
    }
    /* One may be more than all: it is taken when there is nothing else. */
    size_t taken = output->bytes[is_subscribed] + output->promised;
    return taken == 0 || taken + size <= OUTPUT_BYTES_MAX;
}

/* Replies are guessed before they are made, those of scripts and transactions cannot be: there is a
 * bound for these as well. */
void redis_output_send(struct redis_connection *connection, struct bytes bytes) {
    struct redis_output *output = connection->door->output;
    bool is_subscribed = redis_connection_is_subscribed(connection);
    if (connection->is_aborted) {
        return;
    }
    if (output->bytes[is_subscribed] + bytes.size > OUTPUT_BYTES_HARD) {
        look(output);
    }
    if (output->bytes[is_subscribed] + bytes.size > OUTPUT_BYTES_HARD &&
        raw_connection_unsent_bytes(connection->raw) > UNSENT_SMALL) {
        abort_connection(connection, "too much waits for clients that do not take it");
        return;
    }
    if (raw_connection_unsent_bytes(connection->raw) == 0) {
        connection->taken_ms = now_of(connection->door); /* it owes nothing until now */
    }
    connection->sent_bytes += bytes.size;
    output->bytes[is_subscribed] += bytes.size;
    raw_connection_send(connection->raw, bytes);
}

/* Those that have taken nothing for so long, the largest first, until there is room again. */
static void close_stuck(struct redis_output *output, bool is_subscribed, uint64_t stuck_ms_max) {
    enum { CLOSED_AT_ONCE = 16, SIZE_MIN = 4096 };
    struct redis_door *door = output->door;
    uint64_t now_ms = now_of(door);
    for (size_t i = 0; i < CLOSED_AT_ONCE && output->bytes[is_subscribed] > OUTPUT_BYTES_MAX / 2;
         i++) {
        struct redis_connection *worst = NULL;
        size_t worst_size = SIZE_MIN;
        for (struct list *node = door->connections.next; node != &door->connections;
             node = node->next) {
            struct redis_connection *connection = list_entry(node, struct redis_connection, link);
            size_t size = raw_connection_unsent_bytes(connection->raw);
            if (size > worst_size && is_of(connection, is_subscribed) && !connection->is_aborted &&
                now_ms - connection->taken_ms >= stuck_ms_max) {
                worst = connection;
                worst_size = size;
            }
        }
        if (worst == NULL) {
            return;
        }
        abort_connection(worst, "the client does not take what it has asked for, and others need "
                                "the room");
    }
}

/* --- Replies. --- */

static void on_timer(uv_timer_t *timer) {
    struct redis_output *output = timer->data;
    for (size_t i = 0; i < 2; i++) {
        if (output->is_wanted[i]) {
            output->is_wanted[i] = false;
            look(output);
            close_stuck(output, i == 1, STUCK_MS_MAX);
        }
    }
    /* Before the others, who would have taken all the room when these have made their replies. */
    bool waits_are_unfit = redis_waits_try_unfit(output->door->waits);
    struct list first;
    list_init(&first);
    for (size_t i = 0; i < RESUMED_AT_ONCE && !list_is_empty(&output->waiting); i++) {
        list_append(&first, list_pop_first(&output->waiting));
    }
    while (!list_is_empty(&first)) {
        redis_delays_resume_first(&first); /* which waits again when there is no room */
    }
    if (list_is_empty(&output->waiting) && !waits_are_unfit) {
        uv_timer_stop(timer);
    }
}

void redis_output_look_for_room(struct redis_door *door) {
    struct redis_output *output = door->output;
    if (!uv_is_active((uv_handle_t *)output->timer)) {
        uv_timer_start(output->timer, on_timer, LOOK_MS, LOOK_MS);
    }
}

void redis_output_wait(struct redis_connection *connection) {
    redis_delays_wait(connection, &connection->door->output->waiting);
    redis_output_look_for_room(connection->door);
}

bool redis_output_is_tight(const struct redis_connection *connection) {
    return connection->door->output->bytes[redis_connection_is_subscribed(connection)] >
           OUTPUT_BYTES_MAX - REDIS_REPLY_BYTES_MAX;
}

bool redis_output_has_room(struct redis_connection *connection, size_t size) {
    struct redis_output *output = connection->door->output;
    bool is_subscribed = redis_connection_is_subscribed(connection);
    size = size < REDIS_REPLY_BYTES_MAX ? size : REDIS_REPLY_BYTES_MAX;
    bool is_room = size < REPLY_LARGE || has_room(output, is_subscribed, size);
    output->is_wanted[is_subscribed] |= !is_room;
    return is_room;
}

void redis_output_promise(struct redis_door *door, size_t size) {
    door->output->promised += size;
}

void redis_output_unpromise(struct redis_door *door, size_t size) {
    door->output->promised -= size;
}

/* --- Messages. --- */

bool redis_output_has_room_for_message(struct redis_door *door, size_t size) {
    struct redis_output *output = door->output;
    if (has_room(output, true, size)) {
        return true;
    }
    close_stuck(output, true, SUBSCRIBER_STUCK_MS_MAX);
    return false;
}

bool redis_output_takes_message(struct redis_connection *connection, size_t size) {
    if (connection->is_aborted) {
        return false;
    }
    if (raw_connection_unsent_bytes(connection->raw) + size > SUBSCRIBER_BYTES_MAX) {
        abort_connection(connection, "the subscriber does not take its messages");
        return false;
    }
    return true;
}

/* --- Life. --- */

struct redis_output *redis_output_create(struct redis_door *door) {
    struct redis_output *output = calloc(1, sizeof *output);
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (output == NULL || timer == NULL) {
        abort();
    }
    output->door = door;
    output->timer = timer;
    list_init(&output->waiting);
    uv_timer_init(door->environment->loop, timer);
    timer->data = output;
    return output;
}

static void free_timer(uv_handle_t *handle) {
    free(handle);
}

void redis_output_destroy(struct redis_output *output) {
    uv_close((uv_handle_t *)output->timer, free_timer);
    free(output);
}
