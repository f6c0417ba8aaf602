/* Sorted sets: members, scores, ranks, and the ends of a set. */
#include "doors/redis/redis_zset_rules.h"

#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_mpop_rules.h"
#include "doors/redis/redis_sample_rules.h"

bool redis_zset_find(struct redis_run *run, const struct redis_object *zset, struct bytes member,
                     double *out_score) {
    if (!redis_object_exists(zset)) {
        return false;
    }
    const struct record *record =
        redis_element_get(run, redis_key_member(run->arena, zset->header.id, member));
    if (record == NULL || record->value_size != 8) {
        return false;
    }
    *out_score = redis_score_decode(redis_get_be64(record_value(record).data));
    return true;
}

void redis_zset_put(struct redis_run *run, struct redis_object *zset, struct bytes member,
                    double score, const double *old_score) {
    uint64_t id = zset->header.id;
    uint8_t value[8];
    redis_put_be64(value, redis_score_encode(score));
    if (old_score != NULL) {
        redis_element_delete(run, redis_key_score(run->arena, id, *old_score, member));
    } else {
        zset->header.count++;
    }
    redis_element_put(run, zset, redis_key_member(run->arena, id, member),
                      bytes_of(value, sizeof value));
    redis_element_put(run, zset, redis_key_score(run->arena, id, score, member), bytes_of("", 0));
}

bool redis_zset_remove(struct redis_run *run, struct redis_object *zset, struct bytes member) {
    double score;
    if (!redis_zset_find(run, zset, member, &score)) {
        return false;
    }
    redis_element_delete(run, redis_key_member(run->arena, zset->header.id, member));
    redis_element_delete(run, redis_key_score(run->arena, zset->header.id, score, member));
    zset->header.count--;
    return true;
}

void redis_zset_remove_records(struct redis_run *run, struct redis_object *zset,
                               const struct redis_records *records) {
    if (records->n == 0) {
        return;
    }
    if ((int64_t)records->n == zset->header.count) {
        zset->header.count = 0; /* they go with the set */
    }
    for (size_t i = 0; zset->header.count > 0 && i < records->n; i++) {
        double score;
        (void)redis_zset_remove(run, zset, redis_scored_member_of(records->at[i], &score));
    }
    redis_object_save(run, zset);
}

struct redis_records redis_zset_ranks(struct redis_run *run, const struct redis_object *zset,
                                      int64_t start, int64_t stop) {
    struct key_range range = redis_range_scores(run->arena, zset->header.id);
    return redis_collect(run, &range, (size_t)start, (size_t)(stop - start + 1));
}

/* --- ZADD --- */

struct zadd {
    bool nx;
    bool xx;
    bool gt;
    bool lt;
    bool counts_changes;
    bool increments;
    size_t n_changed;
    size_t n_added;
    double score; /* of the last */
    bool was_refused;
};

static bool zadd_options(struct redis_run *run, const struct bytes *argv, size_t argc, size_t *at,
                         struct zadd *zadd) {
    for (; *at < argc; ++*at) {
        struct bytes word = argv[*at];
        if (redis_word_is(word, "nx")) {
            zadd->nx = true;
        } else if (redis_word_is(word, "xx")) {
            zadd->xx = true;
        } else if (redis_word_is(word, "gt")) {
            zadd->gt = true;
        } else if (redis_word_is(word, "lt")) {
            zadd->lt = true;
        } else if (redis_word_is(word, "ch")) {
            zadd->counts_changes = true;
        } else if (redis_word_is(word, "incr")) {
            zadd->increments = true;
        } else {
            break;
        }
    }
    size_t left = argc - *at;
    const char *error = NULL;
    if (left == 0 || left % 2 != 0) {
        error = "syntax error";
    } else if (zadd->nx && zadd->xx) {
        error = "XX and NX options at the same time are not compatible";
    } else if ((zadd->gt && zadd->nx) || (zadd->lt && zadd->nx) || (zadd->gt && zadd->lt)) {
        error = "GT, LT, and/or NX options at the same time are not compatible";
    } else if (zadd->increments && left > 2) {
        error = "INCR option supports a single increment-element pair";
    }
    if (error != NULL) {
        redis_error(run, error);
    }
    return error == NULL;
}

/* False: the error is the reply. */
static bool zadd_one(struct redis_run *run, struct redis_object *zset, struct zadd *zadd,
                     double score, struct bytes member) {
    double old = 0;
    bool is_there = redis_zset_find(run, zset, member, &old);
    zadd->was_refused = (zadd->nx && is_there) || (zadd->xx && !is_there);
    if (zadd->was_refused) {
        return true;
    }
    if (zadd->increments && is_there) {
        score += old;
        if (score != score) {
            redis_error(run, "resulting score is not a number (NaN)");
            return false;
        }
    }
    if (is_there && ((zadd->gt && score <= old) || (zadd->lt && score >= old))) {
        zadd->was_refused = true;
        return true;
    }
    zadd->score = score;
    if (is_there && score == old) {
        return true;
    }
    if (!redis_object_exists(zset) && !redis_object_create(run, zset, REDIS_ZSET)) {
        return false;
    }
    redis_zset_put(run, zset, member, score, is_there ? &old : NULL);
    zadd->n_changed += is_there;
    zadd->n_added += !is_there;
    return true;
}

static void zadd(struct redis_run *run, struct bytes name, struct zadd *options,
                 const struct bytes *pairs, size_t n_pairs) {
    struct redis_object zset;
    double *scores = arena_calloc(run->arena, n_pairs, sizeof scores[0]);
    for (size_t i = 0; i < n_pairs; i++) {
        if (!redis_get_double(run, pairs[2 * i], &scores[i])) {
            return;
        }
    }
    if (!redis_object_load_as(run, name, REDIS_ZSET, &zset)) {
        return;
    }
    for (size_t i = 0; i < n_pairs; i++) {
        if (!zadd_one(run, &zset, options, scores[i], pairs[2 * i + 1])) {
            return;
        }
    }
    if (options->n_added + options->n_changed > 0) {
        redis_object_save(run, &zset);
        redis_event(run, REDIS_EVENT_ZSET, options->increments ? "zincr" : "zadd", name);
    }
    if (!options->increments) {
        size_t n = options->n_added + (options->counts_changes ? options->n_changed : 0);
        redis_reply_integer(run->reply, (int64_t)n);
    } else if (options->was_refused) {
        redis_reply_null(run->reply);
    } else {
        redis_reply_double(run->reply, options->score);
    }
}

void redis_zset_zadd(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct zadd options = {0};
    size_t at = 2;
    if (zadd_options(run, argv, argc, &at, &options)) {
        zadd(run, argv[1], &options, argv + at, (argc - at) / 2);
    }
}

void redis_zset_zincrby(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct zadd options = {.increments = true};
    (void)argc;
    zadd(run, argv[1], &options, argv + 2, 1);
}

/* --- Members. --- */

void redis_zset_zrem(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    int64_t n = 0;
    if (!redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    for (size_t i = 2; i < argc; i++) {
        n += redis_zset_remove(run, &zset, argv[i]);
    }
    if (n > 0) {
        redis_event(run, REDIS_EVENT_ZSET, "zrem", zset.name);
        redis_object_save(run, &zset);
    }
    redis_reply_integer(run->reply, n);
}

static void reply_score(struct redis_run *run, const struct redis_object *zset,
                        struct bytes member) {
    double score;
    if (redis_zset_find(run, zset, member, &score)) {
        redis_reply_double(run->reply, score);
    } else {
        redis_reply_null(run->reply);
    }
}

void redis_zset_zscore(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        reply_score(run, &zset, argv[2]);
    }
}

void redis_zset_zmscore(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    if (!redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    redis_reply_array(run->reply, argc - 2);
    for (size_t i = 2; i < argc; i++) {
        reply_score(run, &zset, argv[i]);
    }
}

void redis_zset_zcard(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        redis_reply_integer(run->reply, zset.header.count);
    }
}

void redis_zset_zrank(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    double score;
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    if (!redis_zset_find(run, &zset, argv[2], &score)) {
        redis_reply_null(run->reply);
        return;
    }
    struct key_range before = redis_range_scores(run->arena, zset.header.id);
    before.range_end = redis_key_score(run->arena, zset.header.id, score, argv[2]);
    int64_t rank = (int64_t)run->store->count(run->context, &before);
    if (run->command->id == REDIS_CMD_ZREVRANK) {
        rank = zset.header.count - 1 - rank;
    }
    redis_reply_integer(run->reply, rank);
}

/* --- The ends. --- */

/* The first or last n, the outermost first. */
static struct redis_records end_of(struct redis_run *run, const struct redis_object *zset,
                                   bool is_max, size_t n) {
    int64_t count = zset->header.count;
    struct redis_records records = {0};
    int64_t taken = (uint64_t)count < n ? count : (int64_t)n;
    if (!redis_object_exists(zset) || taken == 0) {
        return records;
    }
    records =
        redis_zset_ranks(run, zset, is_max ? count - taken : 0, is_max ? count - 1 : taken - 1);
    for (size_t i = 0; is_max && i < records.n / 2; i++) {
        const struct record *record = records.at[i];
        records.at[i] = records.at[records.n - 1 - i];
        records.at[records.n - 1 - i] = record;
    }
    return records;
}

/* `are_pairs`: each member and its score are an array, in RESP2 as well. */
static void pop(struct redis_run *run, struct redis_object *zset, bool is_max, bool are_pairs,
                const struct redis_records *records) {
    for (size_t i = 0; i < records->n; i++) {
        double score;
        if (are_pairs) {
            redis_reply_array(run->reply, 2);
        }
        redis_reply_bulk(run->reply, redis_scored_member_of(records->at[i], &score));
        redis_reply_double(run->reply, score);
    }
    if (records->n > 0) {
        redis_event(run, REDIS_EVENT_ZSET, is_max ? "zpopmax" : "zpopmin", zset->name);
        redis_zset_remove_records(run, zset, records);
    }
}

void redis_zset_zpop(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool is_max = run->command->id == REDIS_CMD_ZPOPMAX;
    struct redis_object zset;
    int64_t n = 1;
    if (argc > 3) {
        redis_error_syntax(run);
        return;
    }
    if (argc == 3 && (!redis_number_integer(argv[2], &n) || n < 0)) {
        redis_error(run, "value is out of range, must be positive");
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    struct redis_records records = end_of(run, &zset, is_max, (size_t)n);
    if (argc == 3) {
        redis_reply_pairs(run->reply, records.n);
    } else {
        redis_reply_array(run->reply, 2 * records.n);
    }
    pop(run, &zset, is_max, false, &records);
}

/* The last argument is how long to wait, which is the connection's affair. */
void redis_zset_bzpop(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool is_max = run->command->id == REDIS_CMD_BZPOPMAX;
    if (!redis_timeout_check(run, argv[argc - 1])) {
        return;
    }
    for (size_t i = 1; i + 1 < argc; i++) {
        struct redis_object zset;
        if (!redis_object_load_as(run, argv[i], REDIS_ZSET, &zset)) {
            return;
        }
        struct redis_records records = end_of(run, &zset, is_max, 1);
        if (records.n > 0) {
            redis_reply_array(run->reply, 3);
            redis_reply_bulk(run->reply, argv[i]);
            pop(run, &zset, is_max, false, &records);
            return;
        }
    }
    redis_reply_null_array(run->reply);
}

void redis_zset_zmpop(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_mpop mpop;
    const char *error = redis_mpop_parse(run->command, argv, argc, &mpop);
    if (error != NULL) {
        redis_reply_error_text(run->reply, error);
        return;
    }
    if (run->command->id == REDIS_CMD_BZMPOP && !redis_timeout_check(run, argv[1])) {
        return;
    }
    for (size_t i = 0; i < mpop.n_keys && !run->is_exceeded; i++) {
        struct redis_object zset;
        if (!redis_object_load_as(run, mpop.keys[i], REDIS_ZSET, &zset)) {
            return;
        }
        if (redis_object_exists(&zset)) {
            struct redis_records records = end_of(run, &zset, mpop.is_last, (size_t)mpop.count);
            redis_reply_array(run->reply, 2);
            redis_reply_bulk(run->reply, mpop.keys[i]);
            redis_reply_array(run->reply, records.n);
            pop(run, &zset, mpop.is_last, true, &records);
            return;
        }
    }
    redis_reply_null_array(run->reply);
}

void redis_zset_zrandmember(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    struct redis_sample sample = {.n = 1};
    bool shows_scores = argc == 4 && redis_word_is(argv[3], "withscores");
    double score;
    if (argc > 4 || (argc == 4 && !shows_scores)) {
        redis_error_syntax(run);
        return;
    }
    if ((argc > 2 && !redis_sample_get_count(run, argv[2], &sample)) ||
        !redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    struct redis_records all = end_of(run, &zset, false, SIZE_MAX);
    struct redis_records chosen = redis_sample_choose(run, &all, &sample);
    if (argc == 2 && chosen.n == 0) {
        redis_reply_null(run->reply);
    } else if (shows_scores) {
        redis_reply_pairs(run->reply, chosen.n);
    } else if (argc > 2) {
        redis_reply_array(run->reply, chosen.n);
    }
    for (size_t i = 0; i < chosen.n; i++) {
        redis_reply_bulk(run->reply, redis_scored_member_of(chosen.at[i], &score));
        if (shows_scores) {
            redis_reply_double(run->reply, score);
        }
    }
}
