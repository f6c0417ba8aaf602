/* Intersection, union and difference of sets. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_members_rules.h"
#include "doors/redis/redis_set_rules.h"

enum operation { INTER, UNION, DIFF };

/* Whether a member of the source `own` is, or is not, in all others. */
static bool takes(struct redis_run *run, struct arena *scratch, enum operation operation,
                  const struct redis_sources *sources, size_t own, struct bytes member) {
    for (size_t i = 0; i < sources->n && !run->is_exceeded; i++) {
        double ignored;
        if (i == own) {
            continue;
        }
        bool is_there =
            redis_members_find(run, scratch, &sources->at[i], &sources->at[own], member, &ignored);
        if (is_there != (operation == INTER)) {
            return false;
        }
    }
    return !run->is_exceeded;
}

/* Members come in their order, whatever the order of the sets. */
static struct redis_members unite(struct redis_run *run, const struct redis_sources *sources) {
    struct redis_members all = {0};
    for (size_t i = 0; i < sources->n && !run->is_exceeded; i++) {
        redis_members_add_source(run, &all, &sources->at[i]);
    }
    redis_members_sort(run, &all);
    size_t kept = 0;
    for (size_t i = 0; i < all.n && !run->is_exceeded; i++) {
        if (kept == 0 || !redis_members_equal(run, all.at[kept - 1].member, all.at[i].member)) {
            all.at[kept++] = all.at[i];
        }
    }
    all.n = kept;
    return all;
}

/* Sets that do not exist add nothing and take nothing away, but for the first. */
static struct redis_members combine(struct redis_run *run, enum operation operation,
                                    const struct redis_sources *sources, size_t limit) {
    struct redis_members all = {0};
    struct redis_members kept = {0};
    bool is_empty = operation == INTER ? sources->n < sources->n_names
                                       : sources->n == 0 || sources->at[0].place != 0;
    if (operation == UNION) {
        return unite(run, sources);
    }
    if (is_empty) {
        return kept;
    }
    size_t first = 0; /* of an intersection, the smallest */
    for (size_t i = 1; operation == INTER && i < sources->n; i++) {
        first = sources->at[i].count < sources->at[first].count ? i : first;
    }
    redis_members_add_source(run, &all, &sources->at[first]);
    /* Every member is looked for in every set: in the arena of the run, that would be as many
     * copies. */
    struct arena scratch;
    arena_init(&scratch);
    for (size_t i = 0; i < all.n && kept.n < limit && !run->is_exceeded; i++) {
        if (takes(run, &scratch, operation, sources, first, all.at[i].member)) {
            redis_members_add(run, &kept, &all.at[i]);
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
    struct redis_sources sets;
    if (!redis_sources_load(run, argv + 1, argc - 1, REDIS_SET, &sets)) {
        return;
    }
    struct redis_members members = combine(run, operation_of(run->command), &sets, SIZE_MAX);
    redis_reply_set(run->reply, members.n);
    for (size_t i = 0; i < members.n && !redis_run_is_full(run); i++) {
        redis_reply_bulk(run->reply, members.at[i].member);
    }
}

void redis_setop_card(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_sources sets;
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
    if (redis_sources_load(run, argv + 2, (size_t)n, REDIS_SET, &sets)) {
        struct redis_members members =
            combine(run, INTER, &sets, limit == 0 ? SIZE_MAX : (size_t)limit);
        redis_reply_integer(run->reply, (int64_t)members.n);
    }
}

void redis_setop_store(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_sources sets;
    struct redis_object to;
    if (!redis_sources_load(run, argv + 2, argc - 2, REDIS_SET, &sets)) {
        return;
    }
    struct redis_members members = combine(run, operation_of(run->command), &sets, SIZE_MAX);
    redis_object_load(run, argv[1], &to);
    bool was_there = redis_object_exists(&to);
    if (was_there) {
        redis_object_delete(run, &to);
    }
    if (members.n > 0 && redis_object_create(run, &to, REDIS_SET)) {
        for (size_t i = 0; i < members.n && !run->is_exceeded; i++) {
            (void)redis_set_add(run, &to, members.at[i].member);
        }
        redis_object_save(run, &to);
        redis_event(run, REDIS_EVENT_SET, run->command->name, to.name);
    } else if (was_there) {
        redis_event(run, REDIS_EVENT_GENERIC, "del", to.name);
    }
    redis_reply_integer(run->reply, (int64_t)members.n);
}
