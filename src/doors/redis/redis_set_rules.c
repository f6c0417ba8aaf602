/* Sets: one record for each member. */
#include "doors/redis/redis_set_rules.h"

#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_sample_rules.h"

static struct bytes member_key(struct redis_run *run, const struct redis_object *set,
                               struct bytes member) {
    return redis_key_element(run->arena, set->header.id, member);
}

bool redis_set_has(struct redis_run *run, struct arena *scratch, const struct redis_object *set,
                   struct bytes member) {
    return redis_object_exists(set) &&
           redis_element_get(run, redis_key_element(scratch, set->header.id, member)) != NULL;
}

bool redis_set_add(struct redis_run *run, struct redis_object *set, struct bytes member) {
    struct bytes key = member_key(run, set, member);
    if (redis_element_get(run, key) != NULL) {
        return false;
    }
    redis_element_put(run, set, key, bytes_of("", 0));
    set->header.count++;
    return true;
}

struct redis_records redis_set_members(struct redis_run *run, const struct redis_object *set) {
    struct key_range range = redis_range_elements(run->arena, set->header.id);
    return redis_object_exists(set) ? redis_collect(run, &range, 0, SIZE_MAX)
                                    : (struct redis_records){0};
}

static bool load_or_create(struct redis_run *run, struct bytes name, struct redis_object *set) {
    return redis_object_load_as(run, name, REDIS_SET, set) &&
           (redis_object_exists(set) || redis_object_create(run, set, REDIS_SET));
}

void redis_set_sadd(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    int64_t n = 0;
    if (!load_or_create(run, argv[1], &set)) {
        return;
    }
    for (size_t i = 2; i < argc; i++) {
        n += redis_set_add(run, &set, argv[i]);
    }
    if (n > 0) {
        redis_object_save(run, &set);
        redis_event(run, REDIS_EVENT_SET, "sadd", set.name);
    }
    redis_reply_integer(run->reply, n);
}

static int64_t remove_members(struct redis_run *run, struct redis_object *set,
                              const struct bytes *members, size_t n_members) {
    int64_t n = 0;
    for (size_t i = 0; redis_object_exists(set) && i < n_members; i++) {
        n += redis_element_delete(run, member_key(run, set, members[i]));
    }
    if (n > 0) {
        set->header.count -= n;
        redis_event(run, REDIS_EVENT_SET, "srem", set->name);
        redis_object_save(run, set);
    }
    return n;
}

void redis_set_srem(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    if (redis_object_load_as(run, argv[1], REDIS_SET, &set)) {
        redis_reply_integer(run->reply, remove_members(run, &set, argv + 2, argc - 2));
    }
}

void redis_set_smembers(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_SET, &set)) {
        return;
    }
    struct redis_records members = redis_set_members(run, &set);
    redis_reply_set(run->reply, members.n);
    for (size_t i = 0; i < members.n; i++) {
        redis_reply_bulk(run->reply, redis_element_of(members.at[i]));
    }
}

void redis_set_sismember(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_SET, &set)) {
        redis_reply_integer(run->reply, redis_set_has(run, run->arena, &set, argv[2]));
    }
}

void redis_set_smismember(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    if (!redis_object_load_as(run, argv[1], REDIS_SET, &set)) {
        return;
    }
    redis_reply_array(run->reply, argc - 2);
    for (size_t i = 2; i < argc; i++) {
        redis_reply_integer(run->reply, redis_set_has(run, run->arena, &set, argv[i]));
    }
}

void redis_set_scard(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_SET, &set)) {
        redis_reply_integer(run->reply, set.header.count);
    }
}

/* --- At random. --- */

void redis_set_spop(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    struct redis_sample sample = {.n = 1};
    if (argc > 3) {
        redis_error_syntax(run);
        return;
    }
    if (argc == 3 && !redis_sample_get_count(run, argv[2], &sample)) {
        return;
    }
    if (sample.repeats) {
        redis_error(run, "value is out of range, must be positive");
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_SET, &set)) {
        return;
    }
    struct redis_records members = redis_set_members(run, &set);
    struct redis_records chosen = redis_sample_choose(run, &members, &sample);
    if (argc == 3) {
        redis_reply_set(run->reply, chosen.n);
    } else if (chosen.n == 0) {
        redis_reply_null(run->reply);
    }
    for (size_t i = 0; i < chosen.n; i++) {
        struct bytes member = redis_element_of(chosen.at[i]);
        redis_reply_bulk(run->reply, member);
        if (chosen.n < members.n) { /* else all go with the set */
            redis_element_delete(run, member_key(run, &set, member));
        }
    }
    if (chosen.n > 0) {
        set.header.count -= (int64_t)chosen.n;
        redis_event(run, REDIS_EVENT_SET, "spop", set.name);
        redis_object_save(run, &set);
    }
}

void redis_set_srandmember(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object set;
    struct redis_sample sample = {.n = 1};
    if (argc > 3) {
        redis_error_syntax(run);
        return;
    }
    if ((argc == 3 && !redis_sample_get_count(run, argv[2], &sample)) ||
        !redis_object_load_as(run, argv[1], REDIS_SET, &set)) {
        return;
    }
    struct redis_records members = redis_set_members(run, &set);
    struct redis_records chosen = redis_sample_choose(run, &members, &sample);
    if (argc == 3) {
        redis_reply_array(run->reply, chosen.n);
    } else if (chosen.n == 0) {
        redis_reply_null(run->reply);
    }
    for (size_t i = 0; i < chosen.n; i++) {
        redis_reply_bulk(run->reply, redis_element_of(chosen.at[i]));
    }
}

void redis_set_smove(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object from;
    struct redis_object to;
    (void)argc;
    redis_object_load(run, argv[1], &from);
    if (!redis_object_exists(&from)) {
        redis_reply_integer(run->reply, 0);
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_SET, &from) ||
        !redis_object_load_as(run, argv[2], REDIS_SET, &to)) {
        return;
    }
    bool is_done = redis_set_has(run, run->arena, &from, argv[3]);
    if (is_done && !bytes_equal(argv[1], argv[2])) {
        if (!redis_object_exists(&to) && !redis_object_create(run, &to, REDIS_SET)) {
            return;
        }
        (void)remove_members(run, &from, &argv[3], 1);
        (void)redis_set_add(run, &to, argv[3]);
        redis_object_save(run, &to);
        redis_event(run, REDIS_EVENT_SET, "sadd", to.name);
    }
    redis_reply_integer(run->reply, is_done);
}
