/* SCAN, HSCAN, SSCAN, ZSCAN: in key order, from behind the last key that was given. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

enum { COUNT_DEFAULT = 10, COUNT_MAX = 64 * 1024, AT_ONCE = 512 /* elements of a small object */ };

struct scan {
    struct bytes pattern;
    bool has_pattern;
    size_t count;
    struct bytes type; /* of keys; empty: all */
    uint64_t cursor;
    struct bytes position; /* of the cursor */
};

static bool get_cursor(struct redis_run *run, struct bytes argument, struct scan *scan) {
    int64_t number;
    bool is_known = redis_number_integer(argument, &number) && number >= 0;
    scan->cursor = is_known ? (uint64_t)number : 0;
    if (is_known && number != 0) {
        is_known = run->cursors != NULL &&
                   run->cursors->find(run->cursors->context, scan->cursor, &scan->position);
    }
    if (!is_known) {
        redis_error(run, "invalid cursor");
    }
    return is_known;
}

static bool get_options(struct redis_run *run, const struct bytes *argv, size_t argc, size_t at,
                        struct scan *scan) {
    for (; at < argc; at += 2) {
        int64_t count;
        bool has_value = at + 1 < argc;
        if (has_value && redis_word_is(argv[at], "match")) {
            scan->pattern = argv[at + 1];
            scan->has_pattern = !(argv[at + 1].size == 1 && argv[at + 1].data[0] == '*');
        } else if (has_value && redis_word_is(argv[at], "count")) {
            if (!redis_get_integer(run, argv[at + 1], &count)) {
                return false;
            }
            if (count < 1) {
                redis_error_syntax(run);
                return false;
            }
            scan->count = count > COUNT_MAX ? COUNT_MAX : (size_t)count;
        } else if (has_value && redis_word_is(argv[at], "type") &&
                   run->command->id == REDIS_CMD_SCAN) {
            scan->type = argv[at + 1];
        } else {
            redis_error_syntax(run);
            return false;
        }
    }
    return true;
}

/* The records from the cursor on; the next cursor is the first part of the reply. */
static struct redis_records next_records(struct redis_run *run, const struct scan *scan,
                                         struct key_range *range, bool is_whole) {
    size_t limit = is_whole || run->cursors == NULL ? SIZE_MAX : scan->count;
    if (scan->cursor != 0 && bytes_compare(scan->position, range->key) >= 0) {
        uint8_t *behind = arena_alloc(run->arena, scan->position.size + 1);
        memcpy(behind, scan->position.data, scan->position.size);
        behind[scan->position.size] = 0;
        range->key = bytes_of(behind, scan->position.size + 1);
    }
    struct redis_records records = {0};
    if (bytes_compare(range->key, range->range_end) < 0) {
        records = run->command->id == REDIS_CMD_HSCAN ? redis_collect(run, range, 0, limit)
                                                      : redis_collect_keys(run, range, limit);
    }
    uint64_t next = 0;
    if (records.n == limit) {
        next = run->cursors->save(run->cursors->context, record_key(records.at[records.n - 1]));
    }
    redis_reply_array(run->reply, 2);
    redis_reply_bulk_integer(run->reply, (int64_t)next);
    return records;
}

static bool takes(struct redis_run *run, const struct scan *scan, struct bytes name) {
    return !scan->has_pattern || redis_run_matches(run, scan->pattern, name);
}

static bool takes_key(struct redis_run *run, const struct scan *scan, const struct record *record) {
    struct redis_header header;
    return takes(run, scan, redis_key_of(record)) &&
           (scan->type.size == 0 || (redis_header_decode(record_value(record), &header) &&
                                     redis_word_is(scan->type, redis_type_name(header.type))));
}

void redis_scan_keys(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct scan scan = {.count = COUNT_DEFAULT};
    struct key_range range = redis_range_database(run->arena, run->db);
    if (!get_cursor(run, argv[1], &scan) || !get_options(run, argv, argc, 2, &scan)) {
        return;
    }
    struct redis_records records = next_records(run, &scan, &range, false);
    size_t n = 0;
    for (size_t i = 0; i < records.n; i++) {
        n += takes_key(run, &scan, records.at[i]);
    }
    redis_reply_array(run->reply, n);
    for (size_t i = 0; i < records.n; i++) {
        if (takes_key(run, &scan, records.at[i])) {
            redis_reply_bulk(run->reply, redis_key_of(records.at[i]));
        }
    }
}

static struct bytes element_name(const struct record *record, enum redis_type type) {
    return type == REDIS_ZSET ? redis_member_of(record) : redis_element_of(record);
}

static void reply_element(struct redis_run *run, const struct record *record,
                          enum redis_type type) {
    redis_reply_bulk(run->reply, element_name(record, type));
    if (type == REDIS_HASH) {
        redis_reply_bulk(run->reply, record_value(record));
    } else if (type == REDIS_ZSET) {
        char text[REDIS_REPLY_DOUBLE_SIZE];
        double score = redis_score_decode(redis_get_be64(record_value(record).data));
        redis_reply_bulk(run->reply, bytes_of(text, redis_reply_double_text(score, text)));
    }
}

void redis_scan_elements(struct redis_run *run, const struct bytes *argv, size_t argc) {
    enum redis_type type = run->command->id == REDIS_CMD_HSCAN   ? REDIS_HASH
                           : run->command->id == REDIS_CMD_SSCAN ? REDIS_SET
                                                                 : REDIS_ZSET;
    struct scan scan = {.count = COUNT_DEFAULT};
    struct redis_object object;
    if (!get_cursor(run, argv[2], &scan) || !redis_object_load_as(run, argv[1], type, &object) ||
        !get_options(run, argv, argc, 3, &scan)) {
        return;
    }
    struct key_range range = type == REDIS_ZSET
                                 ? redis_range_members(run->arena, object.header.id)
                                 : redis_range_elements(run->arena, object.header.id);
    struct redis_records records = {0};
    if (redis_object_exists(&object)) {
        records = next_records(run, &scan, &range, object.header.count <= AT_ONCE);
    } else {
        redis_reply_array(run->reply, 2);
        redis_reply_bulk_integer(run->reply, 0);
    }
    size_t n = 0;
    for (size_t i = 0; i < records.n; i++) {
        n += takes(run, &scan, element_name(records.at[i], type));
    }
    redis_reply_array(run->reply, type == REDIS_SET ? n : 2 * n);
    for (size_t i = 0; i < records.n; i++) {
        if (takes(run, &scan, element_name(records.at[i], type))) {
            reply_element(run, records.at[i], type);
        }
    }
}
