/* Intersection, union and difference of sorted sets; sets are taken as well, with scores of 1. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_members_rules.h"
#include "doors/redis/redis_zset_rules.h"

#include <string.h>

enum operation { INTER, UNION, DIFF };
enum aggregate { SUM, MIN, MAX };

struct zsetop {
    enum operation operation;
    bool is_stored;
    bool is_counted; /* ZINTERCARD */
    bool shows_scores;
    enum aggregate aggregate;
    size_t limit;
    struct redis_sources sources;
};

static struct zsetop zsetop_of(const struct redis_command *command) {
    struct zsetop op = {.operation = INTER, .limit = SIZE_MAX};
    switch (command->id) {
    case REDIS_CMD_ZUNION:
    case REDIS_CMD_ZUNIONSTORE:
        op.operation = UNION;
        break;
    case REDIS_CMD_ZDIFF:
    case REDIS_CMD_ZDIFFSTORE:
        op.operation = DIFF;
        break;
    case REDIS_CMD_ZINTERCARD:
        op.is_counted = true;
        break;
    default:
        break;
    }
    op.is_stored = (command->flags & REDIS_F_WRITE) != 0;
    return op;
}

/* --- Arguments. --- */

static void refuse_no_keys(struct redis_run *run) {
    static const char begin[] = "ERR at least 1 input key is needed for '";
    static const char end[] = "' command";
    struct buffer text;
    buffer_init(&text);
    buffer_append(&text, begin, sizeof begin - 1);
    buffer_append(&text, run->command->name, strlen(run->command->name));
    buffer_append(&text, end, sizeof end - 1);
    redis_reply_error(run->reply, bytes_of(text.data, text.size));
    buffer_clear(&text);
}

/* How many keys there are; `at` is the place of their number. */
static bool get_key_count(struct redis_run *run, const struct bytes *argv, size_t argc, size_t at,
                          size_t *out_n) {
    int64_t n;
    if (!redis_get_integer(run, argv[at], &n)) {
        return false;
    }
    if (n < 1) {
        refuse_no_keys(run);
        return false;
    }
    if ((uint64_t)n > argc - at - 1) {
        redis_error_syntax(run);
        return false;
    }
    *out_n = (size_t)n;
    return true;
}

/* One for each name, also of those that do not exist. */
static bool get_weights(struct redis_run *run, const struct bytes *argv, struct zsetop *op) {
    double *weights = arena_calloc(run->arena, op->sources.n_names, sizeof weights[0]);
    for (size_t i = 0; i < op->sources.n_names; i++) {
        if (!redis_number_double(argv[i], &weights[i])) {
            redis_error(run, "weight value is not a float");
            return false;
        }
    }
    for (size_t i = 0; i < op->sources.n; i++) {
        op->sources.at[i].weight = weights[op->sources.at[i].place];
    }
    return true;
}

static bool get_aggregate(struct redis_run *run, struct bytes word, struct zsetop *op) {
    static const char *const names[] = {[SUM] = "sum", [MIN] = "min", [MAX] = "max"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (redis_word_is(word, names[i])) {
            op->aggregate = (enum aggregate)i;
            return true;
        }
    }
    redis_error_syntax(run);
    return false;
}

static bool get_limit(struct redis_run *run, struct bytes argument, struct zsetop *op) {
    int64_t limit;
    if (!redis_number_integer(argument, &limit) || limit < 0) {
        redis_error(run, "LIMIT can't be negative");
        return false;
    }
    op->limit = limit == 0 ? SIZE_MAX : (size_t)limit;
    return true;
}

static bool get_options(struct redis_run *run, const struct bytes *argv, size_t argc, size_t at,
                        struct zsetop *op) {
    bool has_scores = op->operation != DIFF && !op->is_counted;
    while (at < argc) {
        size_t n_behind = argc - at - 1;
        bool is_right = true;
        if (has_scores && n_behind >= op->sources.n_names && redis_word_is(argv[at], "weights")) {
            is_right = get_weights(run, argv + at + 1, op);
            at += 1 + op->sources.n_names;
        } else if (has_scores && n_behind >= 1 && redis_word_is(argv[at], "aggregate")) {
            is_right = get_aggregate(run, argv[at + 1], op);
            at += 2;
        } else if (!op->is_stored && !op->is_counted && redis_word_is(argv[at], "withscores")) {
            op->shows_scores = true;
            at++;
        } else if (op->is_counted && n_behind >= 1 && redis_word_is(argv[at], "limit")) {
            is_right = get_limit(run, argv[at + 1], op);
            at += 2;
        } else {
            redis_error_syntax(run);
            is_right = false;
        }
        if (!is_right) {
            return false;
        }
    }
    return true;
}

/* `at`: the place of the number of keys. */
static bool get_arguments(struct redis_run *run, const struct bytes *argv, size_t argc, size_t at,
                          struct zsetop *op) {
    size_t n;
    return get_key_count(run, argv, argc, at, &n) &&
           redis_sources_load(run, argv + at + 1, n, REDIS_ZSET, &op->sources) &&
           get_options(run, argv, argc, at + 1 + n, op);
}

/* --- Scores. Zero times infinity, and the sum of both infinities, are 0. --- */

/* Stored in between, so that no processor adds to it without rounding it first, as some can. */
static double multiply(double a, double b) {
    volatile double product = a * b;
    return product;
}

static double weigh(const struct redis_source *source, double score) {
    double weighed = multiply(source->weight, score);
    return weighed != weighed ? 0 : weighed;
}

static double aggregate(enum aggregate how, double a, double b) {
    switch (how) {
    case MIN:
        return b < a ? b : a;
    case MAX:
        return b > a ? b : a;
    case SUM:
        break;
    }
    double sum = a + b;
    return sum != sum ? 0 : sum;
}

/* --- What comes of it: members in their order, each once. --- */

static struct redis_members unite(struct redis_run *run, struct zsetop *op) {
    struct redis_members all = {0};
    redis_sources_sort(&op->sources); /* sums are made in this order */
    for (size_t i = 0; i < op->sources.n && !run->is_exceeded; i++) {
        size_t before = all.n;
        redis_members_add_source(run, &all, &op->sources.at[i]);
        for (size_t j = before; j < all.n; j++) {
            all.at[j].score = weigh(&op->sources.at[i], all.at[j].score);
        }
    }
    redis_members_sort(run, &all);
    size_t kept = 0;
    for (size_t i = 0; i < all.n && !run->is_exceeded; i++) {
        struct redis_member *last = kept == 0 ? NULL : &all.at[kept - 1];
        if (last != NULL && redis_members_equal(run, last->member, all.at[i].member)) {
            last->score = aggregate(op->aggregate, last->score, all.at[i].score);
        } else {
            all.at[kept++] = all.at[i];
        }
    }
    all.n = kept;
    return all;
}

/* Whether a member of the first source is in all others; then its score is that of all. */
static bool is_in_all(struct redis_run *run, struct arena *scratch, const struct zsetop *op,
                      struct redis_member *member) {
    const struct redis_source *first = &op->sources.at[0];
    double own = member->score;
    member->score = weigh(first, own);
    for (size_t i = 1; i < op->sources.n; i++) {
        const struct redis_source *source = &op->sources.at[i];
        double score = own;
        if (!redis_members_find(run, scratch, source, first, member->member, &score)) {
            return false;
        }
        /* Without weigh(): what is no number is never less or more, and no sum. */
        member->score = aggregate(op->aggregate, member->score, multiply(source->weight, score));
    }
    return true;
}

static bool is_in_none(struct redis_run *run, struct arena *scratch, const struct zsetop *op,
                       const struct redis_member *member) {
    for (size_t i = 1; i < op->sources.n; i++) {
        double ignored;
        if (redis_members_find(run, scratch, &op->sources.at[i], &op->sources.at[0], member->member,
                               &ignored)) {
            return false;
        }
    }
    return true;
}

/* Those of the first source that are in all others, or in none. */
static struct redis_members choose(struct redis_run *run, struct zsetop *op) {
    struct redis_members all = {0};
    struct redis_members kept = {0};
    bool is_inter = op->operation == INTER;
    bool is_empty = is_inter ? op->sources.n < op->sources.n_names
                             : op->sources.n == 0 || op->sources.at[0].place != 0;
    if (is_empty) {
        return kept;
    }
    if (is_inter) {
        redis_sources_sort(&op->sources);
    }
    redis_members_add_source(run, &all, &op->sources.at[0]);
    /* In the arena of the run there would be a copy for each that is looked for. */
    struct arena scratch;
    arena_init(&scratch);
    for (size_t i = 0; i < all.n && kept.n < op->limit && !run->is_exceeded; i++) {
        if (is_inter ? is_in_all(run, &scratch, op, &all.at[i])
                     : is_in_none(run, &scratch, op, &all.at[i])) {
            redis_members_add(run, &kept, &all.at[i]);
        }
    }
    arena_clear(&scratch);
    return kept;
}

static struct redis_members combine(struct redis_run *run, struct zsetop *op) {
    return op->operation == UNION ? unite(run, op) : choose(run, op);
}

/* --- Commands. --- */

void redis_zsetop_read(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct zsetop op = zsetop_of(run->command);
    if (!get_arguments(run, argv, argc, 1, &op)) {
        return;
    }
    struct redis_members members = combine(run, &op);
    if (op.is_counted) {
        redis_reply_integer(run->reply, (int64_t)members.n);
        return;
    }
    redis_members_sort_by_score(run, &members);
    if (op.shows_scores) {
        redis_reply_pairs(run->reply, members.n);
    } else {
        redis_reply_array(run->reply, members.n);
    }
    for (size_t i = 0; i < members.n && !redis_run_is_full(run); i++) {
        redis_reply_bulk(run->reply, members.at[i].member);
        if (op.shows_scores) {
            redis_reply_double(run->reply, members.at[i].score);
        }
    }
}

void redis_zsetop_store(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct zsetop op = zsetop_of(run->command);
    struct redis_object to;
    if (!get_arguments(run, argv, argc, 2, &op)) {
        return;
    }
    struct redis_members members = combine(run, &op);
    redis_object_load(run, argv[1], &to);
    bool was_there = redis_object_exists(&to);
    if (was_there) {
        redis_object_delete(run, &to);
    }
    if (members.n > 0 && redis_object_create(run, &to, REDIS_ZSET)) {
        for (size_t i = 0; i < members.n && !run->is_exceeded; i++) {
            redis_zset_put(run, &to, members.at[i].member, members.at[i].score, NULL);
        }
        redis_object_save(run, &to);
        redis_event(run, REDIS_EVENT_ZSET, run->command->name, to.name);
    } else if (was_there) {
        redis_event(run, REDIS_EVENT_GENERIC, "del", to.name);
    }
    redis_reply_integer(run->reply, (int64_t)members.n);
}
