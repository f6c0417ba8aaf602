/*
 * Members of several sets and sorted sets, as the commands that combine them see them: sources that
 * were read, members in order, members that are looked for. A member of a set has the score 1.
 * What is compared is counted: members may be long, and the same source may be named a thousand
 * times.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_MEMBERS_RULES_H
#define LEASED_DOORS_REDIS_REDIS_MEMBERS_RULES_H

#include "doors/redis/redis_run_rules.h"

struct redis_source {
    enum redis_type type; /* REDIS_SET or REDIS_ZSET */
    uint64_t id;
    int64_t count;
    size_t place; /* among the names */
    double weight;
};

/* Those that exist, in the order of their names; in arena memory. */
struct redis_sources {
    struct redis_source *at;
    size_t n;
    size_t n_names;
};

/* Sorted sets are taken where `type` is REDIS_ZSET. False: a key has another type, and the error is
 * the reply; or the run is exceeded. */
bool redis_sources_load(struct redis_run *run, const struct bytes *names, size_t n,
                        enum redis_type type, struct redis_sources *out_sources);
/* The smallest first; those of the same size as they were. */
void redis_sources_sort(struct redis_sources *sources);

struct redis_member {
    struct bytes member; /* of a record */
    double score;
};

/* In arena memory. */
struct redis_members {
    struct redis_member *at;
    size_t n;
    size_t capacity;
};

void redis_members_add(struct redis_run *run, struct redis_members *members,
                       const struct redis_member *member);
/* All members of a source, in the order of their bytes. */
void redis_members_add_source(struct redis_run *run, struct redis_members *members,
                              const struct redis_source *source);
/* Whether they are of the same bytes. */
bool redis_members_equal(struct redis_run *run, struct bytes a, struct bytes b);
/* Both are stable. */
void redis_members_sort(struct redis_run *run, struct redis_members *members);
void redis_members_sort_by_score(struct redis_run *run, struct redis_members *members);
/* Looks for a member of `from`, which may be the same collection again: then it is there, and the
 * score stays as it is. The key that is looked for is built in `scratch`, and not needed
 * afterwards. */
bool redis_members_find(struct redis_run *run, struct arena *scratch,
                        const struct redis_source *source, const struct redis_source *from,
                        struct bytes member, double *score);

#endif
