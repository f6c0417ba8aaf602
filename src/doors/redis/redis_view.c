#include "doors/redis/redis_view.h"

#include "core/key_store.h"
#include "core/lease_table.h"
#include "doors/redis/redis_cursors.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_run_rules.h"

#include <stdlib.h>

enum { RECORDS_MAX = 256 * 1024, RECORDS_OF_WORKER_MAX = 8 * 1024 * 1024 };

struct view {
    const struct key_store *keys;
    const struct lease_table *leases;
    uint64_t now_ms;
    int64_t wall_ms;
    size_t records_left;
    struct redis_run *run;
};

static bool spend(struct view *view) {
    if (view->records_left == 0) {
        view->run->is_exceeded = true;
        return false;
    }
    view->records_left--;
    return true;
}

static const struct record *get(void *context, struct key_space_id space, struct bytes key) {
    struct view *view = context;
    /* Which is found by itself, and takes longer than the next of a range. */
    return spend(view) && spend(view) ? key_store_find(view->keys, space, key) : NULL;
}

struct walk {
    struct view *view;
    redis_visit visit;
    void *context;
};

static bool walk_one(void *context, const struct record *record) {
    struct walk *walk = context;
    return spend(walk->view) && walk->visit(walk->context, record);
}

static bool visit(void *context, const struct key_range *range, redis_visit visit_one,
                  void *visit_context) {
    struct view *view = context;
    struct walk walk = {.view = view, .visit = visit_one, .context = visit_context};
    key_store_visit(view->keys, range->space, range->key, range->range_end, walk_one, &walk);
    return !view->run->is_exceeded;
}

static size_t count(void *context, const struct key_range *range) {
    struct view *view = context;
    return key_store_count(view->keys, range->space, range->key, range->range_end);
}

/* The leader knows the lease's own time; elsewhere there is the deadline. */
static int64_t remaining_ms(void *context, int64_t lease_id, int64_t deadline_ms) {
    struct view *view = context;
    struct lease_facts facts;
    int64_t left_ms;
    if (lease_table_remaining(view->leases, lease_id, view->now_ms, &left_ms) == STATUS_OK) {
        return left_ms;
    }
    left_ms = deadline_ms - view->wall_ms;
    if (lease_table_find(view->leases, lease_id, &facts) && left_ms > facts.ttl_ms) {
        left_ms = facts.ttl_ms;
    }
    return left_ms < 0 ? 0 : left_ms;
}

static const struct redis_store view_store = {
    .get = get, .visit = visit, .count = count, .remaining_ms = remaining_ms};

struct key_range *redis_view_ranges(struct arena *arena, const struct redis_exec_command *command,
                                    size_t *out_n) {
    struct redis_key_places places;
    *out_n = 0;
    if (command->command->right < REDIS_RIGHT_READ) {
        return NULL;
    }
    if (!redis_command_keys(command->command, command->argv, command->argc, &places)) {
        return NULL;
    }
    if (places.first == 0) {
        struct key_range *range = arena_alloc(arena, sizeof *range);
        *range = redis_range_database(arena, command->db);
        *out_n = 1;
        return range;
    }
    struct key_range *ranges = arena_calloc(arena, places.n, sizeof ranges[0]);
    for (size_t i = 0; i < places.n; i++) {
        struct bytes key = command->argv[redis_key_place(&places, i)];
        ranges[i] = (struct key_range){.space = KEY_SPACE_REDIS,
                                       .key = redis_key_main(arena, command->db, key)};
    }
    *out_n = places.n;
    return ranges;
}

static enum status execute(struct redis_run *run, struct view *view,
                           const struct redis_exec_command *command) {
    size_t before = run->reply->size;
    view->run = run;
    redis_command_run(run, command->argv, command->argc);
    bool is_exceeded = redis_run_is_full(run);
    if (is_exceeded || run->is_interrupted) {
        run->reply->size = before;
        return is_exceeded ? STATUS_REQUEST_TOO_LARGE : STATUS_CANCELED;
    }
    return STATUS_OK;
}

enum status redis_view_run(struct redis_door *door, const struct redis_exec_command *command,
                           struct buffer *out) {
    const struct state_view *state = service_view(door->service);
    struct view view = {.keys = state_view_keys(state),
                        .leases = state_view_leases(state),
                        .now_ms = service_now_ms(door->service),
                        .wall_ms = redis_door_wall_ms(door),
                        .records_left = RECORDS_MAX};
    const struct redis_cursor_table cursors = redis_cursors_table(door->cursors);
    struct redis_run run = {.store = &view_store,
                            .context = &view,
                            .arena = &door->arena,
                            .reply = out,
                            .db = command->db,
                            .wall_ms = view.wall_ms,
                            .revision = key_store_revision(view.keys),
                            .seed = redis_door_random(door),
                            .cursors = &cursors,
                            .is_read_only = true};
    return execute(&run, &view, command);
}

enum status redis_view_run_long(const struct key_store *keys, struct arena *arena,
                                const struct redis_exec_command *command, struct buffer *out) {
    bool is_keys = command->command->id == REDIS_CMD_KEYS;
    struct view view = {.keys = keys,
                        .records_left = is_keys ? RECORDS_OF_WORKER_MAX : RECORDS_MAX};
    struct redis_run run = {.store = &view_store,
                            .context = &view,
                            .arena = arena,
                            .reply = out,
                            .db = command->db,
                            .revision = key_store_revision(keys),
                            .glob_steps_more = REDIS_GLOB_STEPS_OF_WORKER_MORE,
                            .is_read_only = true};
    return execute(&run, &view, command);
}
