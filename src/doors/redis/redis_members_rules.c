#include "doors/redis/redis_members_rules.h"

#include "core/key_work.h"

#include <stdlib.h>
#include <string.h>

/* --- Sources. --- */

static bool takes_type(enum redis_type type, enum redis_type wanted) {
    return type == REDIS_SET || (type == REDIS_ZSET && wanted == REDIS_ZSET);
}

bool redis_sources_load(struct redis_run *run, const struct bytes *names, size_t n,
                        enum redis_type type, struct redis_sources *out_sources) {
    struct redis_sources sources = {.n_names = n};
    size_t capacity = 0;
    for (size_t i = 0; i < n && !run->is_exceeded; i++) {
        struct redis_object object;
        redis_object_load(run, names[i], &object);
        if (!redis_object_exists(&object)) {
            continue;
        }
        if (!takes_type(object.header.type, type)) {
            redis_error_type(run);
            return false;
        }
        if (sources.n == capacity) {
            /* Names may be many, and of nothing. */
            size_t doubled = capacity == 0 ? 4 : 2 * capacity;
            struct redis_source *at = arena_alloc(run->arena, doubled * sizeof at[0]);
            if (sources.n > 0) {
                memcpy(at, sources.at, sources.n * sizeof at[0]);
            }
            sources.at = at;
            capacity = doubled;
        }
        sources.at[sources.n++] = (struct redis_source){.type = object.header.type,
                                                        .id = object.header.id,
                                                        .count = object.header.count,
                                                        .place = i,
                                                        .weight = 1};
    }
    *out_sources = sources;
    return !run->is_exceeded;
}

static int compare_sources(const void *left, const void *right) {
    const struct redis_source *a = left;
    const struct redis_source *b = right;
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    return (a->place > b->place) - (a->place < b->place);
}

void redis_sources_sort(struct redis_sources *sources) {
    if (sources->n > 1) {
        qsort(sources->at, sources->n, sizeof sources->at[0], compare_sources);
    }
}

/* --- Members. --- */

void redis_members_add(struct redis_run *run, struct redis_members *members,
                       const struct redis_member *member) {
    if (members->n == members->capacity) {
        size_t doubled = members->capacity == 0 ? 16 : 2 * members->capacity;
        struct redis_member *at = arena_alloc(run->arena, doubled * sizeof at[0]);
        if (members->n > 0) {
            memcpy(at, members->at, members->n * sizeof at[0]);
        }
        members->at = at;
        members->capacity = doubled;
    }
    members->at[members->n++] = *member;
}

static bool read_score(const struct record *record, double *out_score) {
    struct bytes value = record_value(record);
    if (value.size != 8) {
        return false;
    }
    *out_score = redis_score_decode(redis_get_be64(value.data));
    return true;
}

void redis_members_add_source(struct redis_run *run, struct redis_members *members,
                              const struct redis_source *source) {
    bool is_zset = source->type == REDIS_ZSET;
    struct key_range range = is_zset ? redis_range_members(run->arena, source->id)
                                     : redis_range_elements(run->arena, source->id);
    struct redis_records records = redis_collect(run, &range, 0, SIZE_MAX);
    for (size_t i = 0; i < records.n && !run->is_exceeded; i++) {
        struct redis_member one = {.score = 1};
        one.member = is_zset ? redis_member_of(records.at[i]) : redis_element_of(records.at[i]);
        if (!is_zset || read_score(records.at[i], &one.score)) {
            redis_members_add(run, members, &one);
        }
    }
}

bool redis_members_find(struct redis_run *run, struct arena *scratch,
                        const struct redis_source *source, const struct redis_source *from,
                        struct bytes member, double *score) {
    enum { STEPS_OF_SEARCH = 16 }; /* keys on the way that may begin alike */
    bool is_zset = source->type == REDIS_ZSET;
    if (source->id == from->id) {
        /* One collection may be named tens of thousands of times, for each of its members. */
        return redis_run_compare(run, KEY_WORK_COMPARED_BYTES, 1);
    }
    if (!redis_run_compare(run, member.size, STEPS_OF_SEARCH)) {
        return false;
    }
    arena_reset(scratch);
    const struct record *record =
        redis_element_get(run, is_zset ? redis_key_member(scratch, source->id, member)
                                       : redis_key_element(scratch, source->id, member));
    *score = 1;
    return record != NULL && (!is_zset || read_score(record, score));
}

bool redis_members_equal(struct redis_run *run, struct bytes a, struct bytes b) {
    if (a.size != b.size || a.data == b.data) {
        return a.size == b.size;
    }
    return redis_run_compare(run, a.size, 1) && bytes_equal(a, b);
}

/* --- Order. --- */

typedef bool (*is_before)(struct redis_run *run, const struct redis_member *a,
                          const struct redis_member *b);

static bool is_member_before(struct redis_run *run, const struct redis_member *a,
                             const struct redis_member *b) {
    if (a->member.data == b->member.data) {
        return false; /* the same record, of a source that was named before */
    }
    size_t shared = a->member.size < b->member.size ? a->member.size : b->member.size;
    return redis_run_compare(run, shared, 1) && bytes_compare(a->member, b->member) < 0;
}

static bool is_score_before(struct redis_run *run, const struct redis_member *a,
                            const struct redis_member *b) {
    (void)run;
    return a->score < b->score;
}

/* [begin, middle) and [middle, end) are in order. */
static void merge(struct redis_run *run, const struct redis_member *from, size_t begin,
                  size_t middle, size_t end, struct redis_member *to, is_before before) {
    size_t left = begin;
    size_t right = middle;
    for (size_t i = begin; i < end; i++) {
        bool takes_right =
            right < end && (left == middle || before(run, &from[right], &from[left]));
        to[i] = from[takes_right ? right++ : left++];
    }
}

/* Sequences that are in order already are merged, two at a time: each source is one. */
static void sort(struct redis_run *run, struct redis_members *members, is_before before) {
    size_t n = members->n;
    size_t n_sequences = 0;
    if (n < 2 || run->is_exceeded) {
        return;
    }
    struct redis_member *from = members->at;
    struct redis_member *to = arena_alloc(run->arena, n * sizeof to[0]);
    size_t *ends = arena_alloc(run->arena, n * sizeof ends[0]);
    for (size_t i = 1; i < n; i++) {
        if (before(run, &from[i], &from[i - 1])) {
            ends[n_sequences++] = i;
        }
    }
    ends[n_sequences++] = n;
    while (n_sequences > 1 && !run->is_exceeded) {
        size_t begin = 0;
        size_t n_merged = 0;
        for (size_t i = 0; i < n_sequences; i += 2) {
            size_t middle = ends[i];
            size_t end = i + 1 < n_sequences ? ends[i + 1] : middle;
            merge(run, from, begin, middle, end, to, before);
            ends[n_merged++] = end;
            begin = end;
        }
        n_sequences = n_merged;
        struct redis_member *merged = to;
        to = from;
        from = merged;
    }
    members->at = from;
    members->capacity = n; /* of the smaller one */
}

void redis_members_sort(struct redis_run *run, struct redis_members *members) {
    sort(run, members, is_member_before);
}

void redis_members_sort_by_score(struct redis_run *run, struct redis_members *members) {
    sort(run, members, is_score_before);
}
