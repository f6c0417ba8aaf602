/* Lists: one record for each element, at positions without gaps. What changes the middle of a list
 * moves the shorter side. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_mpop_rules.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

static struct bytes key_at(struct redis_run *run, const struct redis_object *list, int64_t index) {
    return redis_key_position(run->arena, list->header.id, list->header.head + index);
}

static struct bytes value_at(struct redis_run *run, const struct redis_object *list,
                             int64_t index) {
    const struct record *record = redis_element_get(run, key_at(run, list, index));
    return record == NULL ? bytes_of("", 0) : record_value(record);
}

static void put_at(struct redis_run *run, const struct redis_object *list, int64_t index,
                   struct bytes value) {
    redis_element_put(run, list, key_at(run, list, index), value);
}

/* Records of [start, stop], which are within the list. */
static struct redis_records records_of(struct redis_run *run, const struct redis_object *list,
                                       int64_t start, int64_t stop) {
    const struct key_range range = {.space = KEY_SPACE_REDIS_RECORDS,
                                    .key = key_at(run, list, start),
                                    .range_end = key_at(run, list, stop + 1)};
    return redis_collect(run, &range, 0, SIZE_MAX);
}

static void push(struct redis_run *run, struct redis_object *list, bool is_left,
                 struct bytes value) {
    if (is_left) {
        list->header.head--;
    }
    put_at(run, list, is_left ? 0 : list->header.count, value);
    list->header.count++;
}

/* The list is not empty; its header is to be saved. */
static struct bytes pop(struct redis_run *run, struct redis_object *list, bool is_left) {
    struct bytes key = key_at(run, list, is_left ? 0 : list->header.count - 1);
    const struct record *record = redis_element_get(run, key);
    struct bytes value = record == NULL ? bytes_of("", 0) : record_value(record);
    if (list->header.count > 1) { /* else it goes with the list */
        redis_element_delete(run, key);
    }
    list->header.head += is_left;
    list->header.count--;
    return value;
}

void redis_list_push(struct redis_run *run, const struct bytes *argv, size_t argc) {
    enum redis_command_id id = run->command->id;
    bool is_left = id == REDIS_CMD_LPUSH || id == REDIS_CMD_LPUSHX;
    bool only_there = id == REDIS_CMD_LPUSHX || id == REDIS_CMD_RPUSHX;
    struct redis_object list;
    if (!redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    if (only_there && !redis_object_exists(&list)) {
        redis_reply_integer(run->reply, 0);
        return;
    }
    if (!redis_object_exists(&list) && !redis_object_create(run, &list, REDIS_LIST)) {
        return;
    }
    for (size_t i = 2; i < argc; i++) {
        push(run, &list, is_left, argv[i]);
    }
    redis_object_save(run, &list);
    redis_event(run, REDIS_EVENT_LIST, is_left ? "lpush" : "rpush", list.name);
    redis_reply_integer(run->reply, list.header.count);
}

/* Pops at most n; the header of the reply has been written. */
static void reply_pops(struct redis_run *run, struct redis_object *list, bool is_left, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        redis_reply_bulk(run->reply, pop(run, list, is_left));
    }
    redis_event(run, REDIS_EVENT_LIST, is_left ? "lpop" : "rpop", list->name);
    redis_object_save(run, list);
}

void redis_list_pop(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool is_left = run->command->id == REDIS_CMD_LPOP;
    struct redis_object list;
    int64_t n = 1;
    if (argc > 3) {
        redis_error(run, is_left ? "wrong number of arguments for 'lpop' command"
                                 : "wrong number of arguments for 'rpop' command");
        return;
    }
    if (argc == 3 && (!redis_number_integer(argv[2], &n) || n < 0)) {
        redis_error(run, "value is out of range, must be positive");
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    if (!redis_object_exists(&list)) {
        if (argc == 3) {
            redis_reply_null_array(run->reply);
        } else {
            redis_reply_null(run->reply);
        }
        return;
    }
    n = n > list.header.count ? list.header.count : n;
    if (argc == 3) {
        redis_reply_array(run->reply, (size_t)n);
    }
    if (n > 0) {
        reply_pops(run, &list, is_left, n);
    }
}

static bool get_side(struct redis_run *run, struct bytes word, bool *out_is_left) {
    *out_is_left = redis_word_is(word, "left");
    if (!*out_is_left && !redis_word_is(word, "right")) {
        redis_error_syntax(run);
        return false;
    }
    return true;
}

void redis_list_lmpop(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_mpop mpop;
    const char *error = redis_mpop_parse(run->command, argv, argc, &mpop);
    if (error != NULL) {
        redis_reply_error_text(run->reply, error);
        return;
    }
    if (run->command->id == REDIS_CMD_BLMPOP && !redis_timeout_check(run, argv[1])) {
        return;
    }
    for (size_t i = 0; i < mpop.n_keys && !run->is_exceeded; i++) {
        struct redis_object list;
        if (!redis_object_load_as(run, mpop.keys[i], REDIS_LIST, &list)) {
            return;
        }
        if (redis_object_exists(&list)) {
            int64_t n = mpop.count > list.header.count ? list.header.count : mpop.count;
            redis_reply_array(run->reply, 2);
            redis_reply_bulk(run->reply, mpop.keys[i]);
            redis_reply_array(run->reply, (size_t)n);
            reply_pops(run, &list, !mpop.is_last, n);
            return;
        }
    }
    redis_reply_null_array(run->reply);
}

/* The last argument is how long to wait, which is the connection's affair. */
void redis_list_bpop(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool is_left = run->command->id == REDIS_CMD_BLPOP;
    if (!redis_timeout_check(run, argv[argc - 1])) {
        return;
    }
    for (size_t i = 1; i + 1 < argc; i++) {
        struct redis_object list;
        if (!redis_object_load_as(run, argv[i], REDIS_LIST, &list)) {
            return;
        }
        if (redis_object_exists(&list)) {
            redis_reply_array(run->reply, 2);
            redis_reply_bulk(run->reply, argv[i]);
            reply_pops(run, &list, is_left, 1);
            return;
        }
    }
    redis_reply_null_array(run->reply);
}

void redis_list_move(struct redis_run *run, const struct bytes *argv, size_t argc) {
    enum redis_command_id id = run->command->id;
    bool from_left = false;
    bool to_left = true;
    struct redis_object from;
    struct redis_object to;
    bool may_wait = id == REDIS_CMD_BLMOVE || id == REDIS_CMD_BRPOPLPUSH;
    if ((id == REDIS_CMD_LMOVE || id == REDIS_CMD_BLMOVE) &&
        (!get_side(run, argv[3], &from_left) || !get_side(run, argv[4], &to_left))) {
        return;
    }
    if (may_wait && !redis_timeout_check(run, argv[argc - 1])) {
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_LIST, &from)) {
        return;
    }
    if (!redis_object_exists(&from)) {
        redis_reply_null(run->reply);
        return;
    }
    bool is_same = bytes_equal(argv[1], argv[2]);
    if (!is_same && !redis_object_load_as(run, argv[2], REDIS_LIST, &to)) {
        return;
    }
    if (is_same && from.header.count == 1) {
        redis_reply_bulk(run->reply, value_at(run, &from, 0)); /* to where it is */
        redis_object_save(run, &from);
        return;
    }
    if (!is_same && !redis_object_exists(&to) && !redis_object_create(run, &to, REDIS_LIST)) {
        return;
    }
    struct bytes value = pop(run, &from, from_left);
    push(run, is_same ? &from : &to, to_left, value);
    if (!is_same) {
        redis_object_save(run, &to);
    }
    redis_event(run, REDIS_EVENT_LIST, from_left ? "lpop" : "rpop", from.name);
    redis_object_save(run, &from);
    redis_event(run, REDIS_EVENT_LIST, to_left ? "lpush" : "rpush", argv[2]);
    redis_reply_bulk(run->reply, value);
}

/* --- Reading. --- */

void redis_list_llen(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object list;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        redis_reply_integer(run->reply, list.header.count);
    }
}

void redis_list_lrange(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object list;
    int64_t start;
    int64_t stop;
    (void)argc;
    if (!redis_get_integer(run, argv[2], &start) || !redis_get_integer(run, argv[3], &stop) ||
        !redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    struct redis_records records = {0};
    if (redis_object_exists(&list) && redis_clamp(list.header.count, &start, &stop)) {
        records = records_of(run, &list, start, stop);
    }
    redis_reply_array(run->reply, records.n);
    for (size_t i = 0; i < records.n; i++) {
        redis_reply_bulk(run->reply, record_value(records.at[i]));
    }
}

void redis_list_lindex(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object list;
    int64_t index;
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    if (!redis_object_exists(&list)) {
        redis_reply_null(run->reply);
        return;
    }
    if (!redis_get_integer(run, argv[2], &index)) {
        return;
    }
    index = index < 0 ? index + list.header.count : index;
    if (index < 0 || index >= list.header.count) {
        redis_reply_null(run->reply);
    } else {
        redis_reply_bulk(run->reply, value_at(run, &list, index));
    }
}

struct lpos {
    int64_t rank;
    int64_t count; /* -1: one, not as an array */
    int64_t depth; /* 0: all */
};

static bool lpos_options(struct redis_run *run, const struct bytes *argv, size_t argc,
                         struct lpos *out) {
    for (size_t i = 3; i < argc; i += 2) {
        int64_t *number = redis_word_is(argv[i], "rank")     ? &out->rank
                          : redis_word_is(argv[i], "count")  ? &out->count
                          : redis_word_is(argv[i], "maxlen") ? &out->depth
                                                             : NULL;
        if (number == NULL || i + 1 >= argc) {
            redis_error_syntax(run);
            return false;
        }
        if (!redis_get_integer(run, argv[i + 1], number)) {
            return false;
        }
        const char *error = NULL;
        if (number == &out->rank && (*number == 0 || *number == INT64_MIN)) {
            error = "RANK can't be zero: use 1 to start from the first match, 2 from the second "
                    "... or use negative to start from the end of the list";
        } else if (number == &out->count && *number < 0) {
            error = "COUNT can't be negative";
        } else if (number == &out->depth && *number < 0) {
            error = "MAXLEN can't be negative";
        }
        if (error != NULL) {
            redis_error(run, error);
            return false;
        }
    }
    return true;
}

void redis_list_lpos(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct lpos options = {.rank = 1, .count = -1};
    struct redis_object list;
    if (!lpos_options(run, argv, argc, &options) ||
        !redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    int64_t count = list.header.count;
    bool is_backwards = options.rank < 0;
    int64_t skip = (is_backwards ? -options.rank : options.rank) - 1;
    int64_t wanted = options.count == -1 ? 1 : options.count == 0 ? INT64_MAX : options.count;
    int64_t depth = options.depth == 0 || options.depth > count ? count : options.depth;
    struct redis_records records = {0};
    if (count > 0) {
        records = is_backwards ? records_of(run, &list, count - depth, count - 1)
                               : records_of(run, &list, 0, depth - 1);
    }
    int64_t *found = arena_calloc(run->arena, records.n, sizeof found[0]);
    size_t n = 0;
    for (size_t i = 0; i < records.n && (int64_t)n < wanted; i++) {
        size_t at = is_backwards ? records.n - 1 - i : i;
        if (bytes_equal(record_value(records.at[at]), argv[2])) {
            if (skip > 0) {
                skip--;
            } else {
                found[n++] = is_backwards ? count - depth + (int64_t)at : (int64_t)at;
            }
        }
    }
    if (options.count != -1) {
        redis_reply_array(run->reply, n);
    } else if (n == 0) {
        redis_reply_null(run->reply);
    }
    for (size_t i = 0; i < n; i++) {
        redis_reply_integer(run->reply, found[i]);
    }
}

/* --- The middle. --- */

void redis_list_lset(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object list;
    int64_t index;
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    if (!redis_object_exists(&list)) {
        redis_error(run, "no such key");
        return;
    }
    if (!redis_get_integer(run, argv[2], &index)) {
        return;
    }
    index = index < 0 ? index + list.header.count : index;
    if (index < 0 || index >= list.header.count) {
        redis_error(run, "index out of range");
        return;
    }
    put_at(run, &list, index, argv[3]);
    redis_object_save(run, &list);
    redis_event(run, REDIS_EVENT_LIST, "lset", list.name);
    redis_reply_ok(run->reply);
}

/* Writes the values of a list again, from its first position on, as far as they have moved. */
static void rewrite(struct redis_run *run, struct redis_object *list, const struct bytes *values,
                    const int64_t *places, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (places[i] != i) {
            put_at(run, list, i, values[i]);
        }
    }
    for (int64_t i = n; n > 0 && i < list->header.count; i++) {
        redis_element_delete(run, key_at(run, list, i));
    }
    list->header.count = n;
}

void redis_list_lrem(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object list;
    int64_t count;
    (void)argc;
    if (!redis_get_integer(run, argv[2], &count) ||
        !redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    int64_t left = count == 0 || count == INT64_MIN ? INT64_MAX : count < 0 ? -count : count;
    struct redis_records records = {0};
    if (redis_object_exists(&list)) {
        records = records_of(run, &list, 0, list.header.count - 1);
    }
    bool *is_removed = arena_calloc(run->arena, records.n, sizeof is_removed[0]);
    int64_t n_removed = 0;
    for (size_t i = 0; i < records.n && n_removed < left; i++) {
        size_t at = count < 0 ? records.n - 1 - i : i;
        is_removed[at] = bytes_equal(record_value(records.at[at]), argv[3]);
        n_removed += is_removed[at];
    }
    if (n_removed > 0) {
        struct bytes *values = arena_calloc(run->arena, records.n, sizeof values[0]);
        int64_t *places = arena_calloc(run->arena, records.n, sizeof places[0]);
        int64_t n = 0;
        for (size_t i = 0; i < records.n; i++) {
            if (!is_removed[i]) {
                values[n] = record_value(records.at[i]);
                places[n++] = (int64_t)i;
            }
        }
        rewrite(run, &list, values, places, n);
        redis_event(run, REDIS_EVENT_LIST, "lrem", list.name);
        redis_object_save(run, &list);
    }
    redis_reply_integer(run->reply, n_removed);
}

void redis_list_ltrim(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object list;
    int64_t start;
    int64_t stop;
    (void)argc;
    if (!redis_get_integer(run, argv[2], &start) || !redis_get_integer(run, argv[3], &stop) ||
        !redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    if (redis_object_exists(&list)) {
        int64_t count = list.header.count;
        redis_event(run, REDIS_EVENT_LIST, "ltrim", list.name);
        if (!redis_clamp(count, &start, &stop)) {
            list.header.count = 0;
        } else {
            for (int64_t i = 0; i < count; i++) {
                i = i == start ? stop + 1 : i;
                if (i < count) {
                    redis_element_delete(run, key_at(run, &list, i));
                }
            }
            list.header.head += start;
            list.header.count = stop - start + 1;
        }
        redis_object_save(run, &list);
    }
    redis_reply_ok(run->reply);
}

void redis_list_linsert(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object list;
    bool is_before = redis_word_is(argv[2], "before");
    (void)argc;
    if (!is_before && !redis_word_is(argv[2], "after")) {
        redis_error_syntax(run);
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_LIST, &list)) {
        return;
    }
    if (!redis_object_exists(&list)) {
        redis_reply_integer(run->reply, 0);
        return;
    }
    int64_t count = list.header.count;
    struct redis_records records = records_of(run, &list, 0, count - 1);
    int64_t at = 0;
    /* There are fewer when a bound was met: then the run is refused, whatever is replied. */
    while (at < (int64_t)records.n && !bytes_equal(record_value(records.at[at]), argv[3])) {
        at++;
    }
    if (at == (int64_t)records.n || (int64_t)records.n < count) {
        redis_reply_integer(run->reply, -1);
        return;
    }
    at += !is_before;
    if (at < count / 2) {
        list.header.head--;
        for (int64_t i = 0; i < at; i++) {
            put_at(run, &list, i, record_value(records.at[i]));
        }
    } else {
        for (int64_t i = count; i > at; i--) {
            put_at(run, &list, i, record_value(records.at[i - 1]));
        }
    }
    put_at(run, &list, at, argv[4]);
    list.header.count++;
    redis_object_save(run, &list);
    redis_event(run, REDIS_EVENT_LIST, "linsert", list.name);
    redis_reply_integer(run->reply, list.header.count);
}
