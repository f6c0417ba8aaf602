/* Intersection, union and difference of sets. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_set_rules.h"

#include <stdlib.h>
#include <string.h>

enum operation { INTER, UNION, DIFF };

struct members {
    struct bytes *at;
    size_t n;
};

/* False: one is no set, and the error is the reply. */
static bool load_all(struct redis_run *run, const struct bytes *names, size_t n,
                     struct redis_object **out_sets) {
    struct redis_object *sets = arena_calloc(run->arena, n, sizeof sets[0]);
    for (size_t i = 0; i < n; i++) {
        if (!redis_object_load_as(run, names[i], REDIS_SET, &sets[i])) {
            return false;
        }
    }
    *out_sets = sets;
    return true;
}

/* Sets that do not exist add nothing and take nothing away: without them, every step is one that is
 * counted. The first one stays. */
static size_t keep_existing(struct redis_object *sets, size_t n) {
    size_t kept = n > 0 ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        if (redis_object_exists(&sets[i])) {
            sets[kept++] = sets[i];
        }
    }
    return kept;
}

static bool takes(struct redis_run *run, struct arena *scratch, enum operation operation,
                  const struct redis_object *sets, size_t n, size_t own, struct bytes member) {
    for (size_t i = 0; i < n; i++) {
        arena_reset(scratch);
        if (i != own && redis_set_has(run, scratch, &sets[i], member) != (operation == INTER)) {
            return false;
        }
        if (run->is_exceeded) {
            return false;
        }
    }
    return true;
}

static int compare(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Grows with what was collected, which is bounded; what the headers count together is not. */
static void add_member(struct redis_run *run, struct members *all, size_t *capacity,
                       struct bytes member) {
    if (all->n == *capacity) {
        size_t doubled = *capacity == 0 ? 16 : 2 * *capacity;
        struct bytes *at = arena_alloc(run->arena, doubled * sizeof at[0]);
        if (all->n > 0) {
            memcpy(at, all->at, all->n * sizeof at[0]);
        }
        all->at = at;
        *capacity = doubled;
    }
    all->at[all->n++] = member;
}

/* Members come in their order, whatever the order of the sets. */
static struct members unite(struct redis_run *run, const struct redis_object *sets, size_t n) {
    struct members all = {0};
    size_t capacity = 0;
    for (size_t i = 0; i < n && !run->is_exceeded; i++) {
        struct redis_records members = redis_set_members(run, &sets[i]);
        for (size_t j = 0; j < members.n; j++) {
            add_member(run, &all, &capacity, redis_element_of(members.at[j]));
        }
    }
    if (run->is_exceeded) {
        all.n = 0;
    }
    if (all.n > 0) {
        qsort(all.at, all.n, sizeof all.at[0], compare);
    }
    size_t kept = 0;
    for (size_t i = 0; i < all.n; i++) {
        if (kept == 0 || !bytes_equal(all.at[kept - 1], all.at[i])) {
            all.at[kept++] = all.at[i];
        }
    }
    all.n = kept;
    return all;
}

static struct members combine(struct redis_run *run, enum operation operation,
                              struct redis_object *sets, size_t n, size_t limit) {
    if (operation != INTER) {
        n = keep_existing(sets, n);
    }
    if (operation == UNION) {
        return unite(run, sets, n);
    }
    size_t first = 0; /* of an intersection, the smallest */
    for (size_t i = 1; operation == INTER && i < n; i++) {
        first = sets[i].header.count < sets[first].header.count ? i : first;
    }
    struct redis_records members = redis_set_members(run, &sets[first]);
    struct members kept = {.at = arena_calloc(run->arena, members.n, sizeof kept.at[0])};
    /* Every member is looked for in every set: in the arena of the run, that would be as many
     * copies. */
    struct arena scratch;
    arena_init(&scratch);
    for (size_t i = 0; i < members.n && kept.n < limit && !run->is_exceeded; i++) {
        struct bytes member = redis_element_of(members.at[i]);
        if (takes(run, &scratch, operation, sets, n, first, member)) {
            kept.at[kept.n++] = member;
        }
    }
    arena_clear(&scratch);
    return kept;
}

static enum operation operation_of(const struct redis_command *command) {
    switch (command->id) {
    case REDIS_CMD_SUNION:
    case REDIS_CMD_SUNIONSTORE:
        return UNION;
    case REDIS_CMD_SDIFF:
    case REDIS_CMD_SDIFFSTORE:
        return DIFF;
    default:
        return INTER;
    }
}

void redis_setop_read(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object *sets;
    if (!load_all(run, argv + 1, argc - 1, &sets)) {
        return;
    }
    struct members members = combine(run, operation_of(run->command), sets, argc - 1, SIZE_MAX);
    redis_reply_set(run->reply, members.n);
    for (size_t i = 0; i < members.n && !redis_run_is_full(run); i++) {
        redis_reply_bulk(run->reply, members.at[i]);
    }
}

void redis_setop_card(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object *sets;
    int64_t n;
    int64_t limit = 0;
    if (!redis_number_integer(argv[1], &n) || n < 1) {
        redis_error(run, "numkeys should be greater than 0");
        return;
    }
    if ((uint64_t)n > argc - 2) {
        redis_error(run, "Number of keys can't be greater than number of args");
        return;
    }
    size_t behind = 2 + (size_t)n;
    if (argc == behind + 2 && redis_word_is(argv[behind], "limit")) {
        if (!redis_number_integer(argv[behind + 1], &limit) || limit < 0) {
            redis_error(run, "LIMIT can't be negative");
            return;
        }
    } else if (argc != behind) {
        redis_error_syntax(run);
        return;
    }
    if (load_all(run, argv + 2, (size_t)n, &sets)) {
        struct members members =
            combine(run, INTER, sets, (size_t)n, limit == 0 ? SIZE_MAX : (size_t)limit);
        redis_reply_integer(run->reply, (int64_t)members.n);
    }
}

void redis_setop_store(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object *sets;
    struct redis_object to;
    if (!load_all(run, argv + 2, argc - 2, &sets)) {
        return;
    }
    struct members members = combine(run, operation_of(run->command), sets, argc - 2, SIZE_MAX);
    redis_object_load(run, argv[1], &to);
    bool was_there = redis_object_exists(&to);
    if (was_there) {
        redis_object_delete(run, &to);
    }
    if (members.n > 0 && redis_object_create(run, &to, REDIS_SET)) {
        for (size_t i = 0; i < members.n && !run->is_exceeded; i++) {
            (void)redis_set_add(run, &to, members.at[i]);
        }
        redis_object_save(run, &to);
        redis_event(run, REDIS_EVENT_SET, run->command->name, to.name);
    } else if (was_there) {
        redis_event(run, REDIS_EVENT_GENERIC, "del", to.name);
    }
    redis_reply_integer(run->reply, (int64_t)members.n);
}
