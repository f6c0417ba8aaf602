/* Ranges of sorted sets: by rank, by score, by member. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_zset_rules.h"

#include <string.h>

enum order { BY_RANK, BY_SCORE, BY_LEX };

/* One end of a range by member. */
struct lex_bound {
    bool is_open;      /* '-' or '+' */
    bool is_exclusive; /* '(' */
    struct bytes member;
};

struct zrange {
    enum order order;
    bool is_reversed;
    bool shows_scores;
    bool has_limit;
    int64_t offset;
    int64_t limit; /* negative: none */
    int64_t start; /* ranks */
    int64_t stop;
    uint64_t low; /* scores as redis_score_encode() has them, [low, high] */
    uint64_t high;
    bool is_empty;
    struct lex_bound first;
    struct lex_bound last;
};

/* --- Arguments. --- */

static bool get_score_bound(struct redis_run *run, struct bytes argument, bool is_low,
                            uint64_t *out_bits, bool *is_empty) {
    bool is_exclusive = argument.size > 0 && argument.data[0] == '(';
    double score;
    if (is_exclusive) {
        argument = bytes_of(argument.data + 1, argument.size - 1);
    }
    if (!redis_number_double(argument, &score)) {
        redis_error(run, "min or max is not a float");
        return false;
    }
    uint64_t bits = redis_score_encode(score);
    if (is_exclusive) {
        *is_empty = *is_empty || bits == (is_low ? UINT64_MAX : 0);
        bits = is_low ? bits + 1 : bits - 1;
    }
    *out_bits = bits;
    return true;
}

/* `is_first`: '-' is the open end; else '+'. The other letter makes the range empty. */
static bool get_lex_bound(struct redis_run *run, struct bytes argument, bool is_first,
                          struct lex_bound *out, bool *is_empty) {
    *out = (struct lex_bound){0};
    if (argument.size == 1 && (argument.data[0] == '-' || argument.data[0] == '+')) {
        out->is_open = true;
        *is_empty = *is_empty || (argument.data[0] == '-') != is_first;
        return true;
    }
    if (argument.size == 0 || (argument.data[0] != '[' && argument.data[0] != '(')) {
        redis_error(run, "min or max not valid string range item");
        return false;
    }
    out->is_exclusive = argument.data[0] == '(';
    out->member = bytes_of(argument.data + 1, argument.size - 1);
    return true;
}

static bool get_bounds(struct redis_run *run, const struct bytes *argv, struct zrange *range) {
    /* Of a reversed range by score or member the greater end comes first. */
    bool is_swapped = range->is_reversed && range->order != BY_RANK;
    struct bytes low = is_swapped ? argv[1] : argv[0];
    struct bytes high = is_swapped ? argv[0] : argv[1];
    switch (range->order) {
    case BY_SCORE:
        return get_score_bound(run, low, true, &range->low, &range->is_empty) &&
               get_score_bound(run, high, false, &range->high, &range->is_empty);
    case BY_LEX:
        return get_lex_bound(run, low, true, &range->first, &range->is_empty) &&
               get_lex_bound(run, high, false, &range->last, &range->is_empty);
    default:
        return redis_get_integer(run, low, &range->start) &&
               redis_get_integer(run, high, &range->stop);
    }
}

static bool get_options(struct redis_run *run, const struct bytes *argv, size_t argc, size_t at,
                        bool is_general, struct zrange *range) {
    for (; at < argc; at++) {
        if (redis_word_is(argv[at], "withscores")) {
            range->shows_scores = true;
        } else if (redis_word_is(argv[at], "limit") && at + 2 < argc) {
            if (!redis_get_integer(run, argv[at + 1], &range->offset) ||
                !redis_get_integer(run, argv[at + 2], &range->limit)) {
                return false;
            }
            range->has_limit = true;
            at += 2;
        } else if (is_general && redis_word_is(argv[at], "byscore")) {
            range->order = BY_SCORE;
        } else if (is_general && redis_word_is(argv[at], "bylex")) {
            range->order = BY_LEX;
        } else if (is_general && redis_word_is(argv[at], "rev")) {
            range->is_reversed = true;
        } else {
            redis_error_syntax(run);
            return false;
        }
    }
    if (range->has_limit && range->order == BY_RANK) {
        redis_error(run, "syntax error, LIMIT is only supported in combination with either BYSCORE "
                         "or BYLEX");
        return false;
    }
    if (range->shows_scores && range->order == BY_LEX) {
        redis_error(run, "syntax error, WITHSCORES not supported in combination with BYLEX");
        return false;
    }
    return true;
}

static struct zrange kind_of(const struct redis_command *command) {
    struct zrange range = {.limit = -1};
    switch (command->id) {
    case REDIS_CMD_ZREVRANGE:
        range.is_reversed = true;
        break;
    case REDIS_CMD_ZREVRANGEBYSCORE:
        range.is_reversed = true;
        range.order = BY_SCORE;
        break;
    case REDIS_CMD_ZRANGEBYSCORE:
    case REDIS_CMD_ZCOUNT:
    case REDIS_CMD_ZREMRANGEBYSCORE:
        range.order = BY_SCORE;
        break;
    case REDIS_CMD_ZREVRANGEBYLEX:
        range.is_reversed = true;
        range.order = BY_LEX;
        break;
    case REDIS_CMD_ZRANGEBYLEX:
    case REDIS_CMD_ZLEXCOUNT:
    case REDIS_CMD_ZREMRANGEBYLEX:
        range.order = BY_LEX;
        break;
    default:
        break;
    }
    return range;
}

/* --- Records. --- */

/* False: the range has nothing. */
static bool key_range_of(struct redis_run *run, const struct redis_object *zset,
                         const struct zrange *range, struct key_range *out) {
    *out = redis_range_scores(run->arena, zset->header.id);
    if (range->order == BY_SCORE) {
        if (range->is_empty || range->low > range->high) {
            return false;
        }
        uint8_t *low = arena_alloc(run->arena, out->key.size + 8);
        memcpy(low, out->key.data, out->key.size);
        redis_put_be64(low + out->key.size, range->low);
        if (range->high != UINT64_MAX) {
            uint8_t *high = arena_copy(run->arena, low, out->key.size + 8);
            redis_put_be64(high + out->key.size, range->high + 1);
            out->range_end = bytes_of(high, out->key.size + 8);
        }
        out->key = bytes_of(low, out->key.size + 8);
    }
    return true;
}

static bool lex_takes(const struct zrange *range, struct bytes member) {
    int low = range->first.is_open ? 1 : bytes_compare(member, range->first.member);
    int high = range->last.is_open ? -1 : bytes_compare(member, range->last.member);
    return (low > 0 || (low == 0 && !range->first.is_exclusive)) &&
           (high < 0 || (high == 0 && !range->last.is_exclusive));
}

static void keep_lex(const struct zrange *range, struct redis_records *records) {
    size_t kept = 0;
    for (size_t i = 0; i < records->n; i++) {
        double score;
        if (lex_takes(range, redis_scored_member_of(records->at[i], &score))) {
            records->at[kept++] = records->at[i];
        }
    }
    records->n = kept;
}

static void reverse(struct redis_records *records) {
    for (size_t i = 0; i < records->n / 2; i++) {
        const struct record *record = records->at[i];
        records->at[i] = records->at[records->n - 1 - i];
        records->at[records->n - 1 - i] = record;
    }
}

static void apply_limit(const struct zrange *range, struct redis_records *records) {
    if (!range->has_limit) {
        return;
    }
    if (range->offset < 0 || (uint64_t)range->offset >= records->n) {
        records->n = 0;
        return;
    }
    records->at += range->offset;
    records->n -= (size_t)range->offset;
    if (range->limit >= 0 && (uint64_t)range->limit < records->n) {
        records->n = (size_t)range->limit;
    }
}

static struct redis_records by_rank(struct redis_run *run, const struct redis_object *zset,
                                    const struct zrange *range) {
    int64_t count = zset->header.count;
    int64_t start = range->start;
    int64_t stop = range->stop;
    if (!redis_clamp(count, &start, &stop)) {
        return (struct redis_records){0};
    }
    if (!range->is_reversed) {
        return redis_zset_ranks(run, zset, start, stop);
    }
    struct redis_records records = redis_zset_ranks(run, zset, count - 1 - stop, count - 1 - start);
    reverse(&records);
    return records;
}

static struct redis_records select_records(struct redis_run *run, const struct redis_object *zset,
                                           const struct zrange *range) {
    struct redis_records records = {0};
    struct key_range keys;
    if (!redis_object_exists(zset)) {
        return records;
    }
    if (range->order == BY_RANK) {
        return by_rank(run, zset, range);
    }
    if (range->is_empty || !key_range_of(run, zset, range, &keys)) {
        return records;
    }
    if (range->order == BY_SCORE && !range->is_reversed && range->has_limit && range->limit >= 0 &&
        range->offset >= 0) {
        return redis_collect(run, &keys, (size_t)range->offset, (size_t)range->limit);
    }
    records = redis_collect(run, &keys, 0, SIZE_MAX);
    if (range->order == BY_LEX) {
        keep_lex(range, &records);
    }
    if (range->is_reversed) {
        reverse(&records);
    }
    apply_limit(range, &records);
    return records;
}

/* --- Commands. --- */

void redis_zrange_read(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    struct zrange range = kind_of(run->command);
    bool is_general = run->command->id == REDIS_CMD_ZRANGE;
    if (!get_options(run, argv, argc, 4, is_general, &range) ||
        !get_bounds(run, argv + 2, &range) ||
        !redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    struct redis_records records = select_records(run, &zset, &range);
    if (range.shows_scores) {
        redis_reply_pairs(run->reply, records.n);
    } else {
        redis_reply_array(run->reply, records.n);
    }
    for (size_t i = 0; i < records.n; i++) {
        double score;
        redis_reply_bulk(run->reply, redis_scored_member_of(records.at[i], &score));
        if (range.shows_scores) {
            redis_reply_double(run->reply, score);
        }
    }
}

void redis_zrange_store(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    struct redis_object to;
    struct zrange range = kind_of(run->command);
    if (!get_options(run, argv, argc, 5, true, &range) || !get_bounds(run, argv + 3, &range) ||
        !redis_object_load_as(run, argv[2], REDIS_ZSET, &zset)) {
        return;
    }
    struct redis_records records = select_records(run, &zset, &range);
    redis_object_load(run, argv[1], &to);
    if (redis_object_exists(&to)) {
        redis_object_delete(run, &to);
    }
    if (records.n > 0 && redis_object_create(run, &to, REDIS_ZSET)) {
        for (size_t i = 0; i < records.n; i++) {
            double score;
            struct bytes member = redis_scored_member_of(records.at[i], &score);
            redis_zset_put(run, &to, member, score, NULL);
        }
        redis_object_save(run, &to);
        redis_event(run, REDIS_EVENT_ZSET, "zrangestore", to.name);
    }
    redis_reply_integer(run->reply, (int64_t)records.n);
}

void redis_zrange_count(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    struct zrange range = kind_of(run->command);
    struct key_range keys;
    size_t n = 0;
    (void)argc;
    if (!get_bounds(run, argv + 2, &range) ||
        !redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    if (range.order == BY_LEX) {
        n = select_records(run, &zset, &range).n;
    } else if (redis_object_exists(&zset) && key_range_of(run, &zset, &range, &keys)) {
        n = run->store->count(run->context, &keys);
    }
    redis_reply_integer(run->reply, (int64_t)n);
}

void redis_zrange_remove(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object zset;
    struct zrange range = kind_of(run->command);
    (void)argc;
    if (!get_bounds(run, argv + 2, &range) ||
        !redis_object_load_as(run, argv[1], REDIS_ZSET, &zset)) {
        return;
    }
    struct redis_records records = select_records(run, &zset, &range);
    if (records.n > 0) {
        redis_event(run, REDIS_EVENT_ZSET, run->command->name, zset.name);
        redis_zset_remove_records(run, &zset, &records);
    }
    redis_reply_integer(run->reply, (int64_t)records.n);
}
