/* Commands for keys of any type. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

void redis_key_del(struct redis_run *run, const struct bytes *argv, size_t argc) {
    int64_t n = 0;
    for (size_t i = 1; i < argc; i++) {
        struct redis_object object;
        redis_object_load(run, argv[i], &object);
        if (redis_object_exists(&object)) {
            redis_object_delete(run, &object);
            redis_event(run, REDIS_EVENT_GENERIC, "del", object.name);
            n++;
        }
    }
    redis_reply_integer(run->reply, n);
}

void redis_key_exists(struct redis_run *run, const struct bytes *argv, size_t argc) {
    int64_t n = 0;
    for (size_t i = 1; i < argc; i++) {
        struct redis_object object;
        redis_object_load(run, argv[i], &object);
        n += redis_object_exists(&object);
    }
    redis_reply_integer(run->reply, n);
}

void redis_key_type(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    redis_object_load(run, argv[1], &object);
    redis_reply_simple(run->reply, bytes_from_text(redis_type_name(object.header.type)));
}

/* --- OBJECT: what Redis would say of an object of this size; nothing here is encoded so. --- */

static const char *string_encoding(struct bytes value) {
    int64_t ignored;
    if (redis_number_integer(value, &ignored)) {
        return "int";
    }
    return value.size <= 44 ? "embstr" : "raw";
}

static const char *encoding_of(const struct redis_header *header) {
    switch (header->type) {
    case REDIS_STRING:
        return string_encoding(header->value);
    case REDIS_LIST:
        return "quicklist";
    case REDIS_HASH:
        return header->count <= 512 ? "listpack" : "hashtable";
    case REDIS_SET:
        return "hashtable";
    case REDIS_ZSET:
        return header->count <= 128 ? "listpack" : "skiplist";
    case REDIS_STREAM:
        return "stream";
    case REDIS_NONE:
        break;
    }
    return "none";
}

void redis_key_object(struct redis_run *run, const struct bytes *argv, size_t argc) {
    static const char *const help[] = {
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>."};
    struct redis_object object;
    if (argc == 2 && redis_word_is(argv[1], "help")) {
        redis_reply_array(run->reply, sizeof help / sizeof help[0]);
        for (size_t i = 0; i < sizeof help / sizeof help[0]; i++) {
            redis_reply_simple(run->reply, bytes_from_text(help[i]));
        }
        return;
    }
    bool is_encoding = redis_word_is(argv[1], "encoding");
    bool is_number = redis_word_is(argv[1], "refcount") || redis_word_is(argv[1], "idletime");
    bool is_frequency = redis_word_is(argv[1], "freq");
    if (argc != 3 || (!is_encoding && !is_number && !is_frequency)) {
        redis_error(run, "unknown subcommand or wrong number of arguments for 'object' command");
        return;
    }
    redis_object_load(run, argv[2], &object);
    if (!redis_object_exists(&object)) {
        redis_reply_null(run->reply);
    } else if (is_encoding) {
        redis_reply_bulk(run->reply, bytes_from_text(encoding_of(&object.header)));
    } else if (is_frequency) {
        redis_error(run, "An LFU maxmemory policy is not selected, access frequency not tracked. "
                         "Please note that when switching between policies at runtime LRU and LFU "
                         "data will take some time to adjust.");
    } else {
        redis_reply_integer(run->reply, redis_word_is(argv[1], "refcount"));
    }
}

/* --- All keys. --- */

struct key_search {
    struct redis_run *run;
    struct bytes pattern;
    bool takes_all;
    size_t n;
    struct buffer *out;
};

static bool show_key(void *context, const struct record *record) {
    struct key_search *search = context;
    struct bytes key = redis_key_of(record);
    if (search->takes_all || redis_run_matches(search->run, search->pattern, key)) {
        redis_reply_bulk(search->out, key);
        search->n++;
    }
    return !redis_run_is_full(search->run);
}

static bool count_key(void *context, const struct record *record) {
    struct key_search *search = context;
    search->n +=
        search->takes_all || redis_run_matches(search->run, search->pattern, redis_key_of(record));
    return !search->run->is_exceeded;
}

void redis_key_keys(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct key_range range = redis_range_database(run->arena, run->db);
    struct key_search search = {.run = run,
                                .pattern = argv[1],
                                .takes_all = argv[1].size == 1 && argv[1].data[0] == '*',
                                .out = run->reply};
    (void)argc;
    (void)run->store->visit(run->context, &range, count_key, &search);
    redis_reply_array(run->reply, search.n);
    (void)run->store->visit(run->context, &range, show_key, &search);
}

void redis_key_randomkey(struct redis_run *run, const struct bytes *argv, size_t argc) {
    enum { CHOICE_MAX = 16 * 1024 }; /* of so many first keys: all are looked at */
    struct key_range range = redis_range_database(run->arena, run->db);
    size_t n = run->store->count(run->context, &range);
    (void)argv;
    (void)argc;
    n = n > CHOICE_MAX ? CHOICE_MAX : n;
    struct redis_records found = {0};
    if (n > 0) {
        found = redis_collect(run, &range, redis_random(run, n), 1);
    }
    if (found.n == 0) {
        redis_reply_null(run->reply);
    } else {
        redis_reply_bulk(run->reply, redis_key_of(found.at[0]));
    }
}

/* --- RENAME and COPY --- */

/* The elements stay where they are: they belong to the id, and the lease goes with the header. */
static void move(struct redis_run *run, struct redis_object *from, struct redis_object *to) {
    if (redis_object_exists(to)) {
        redis_object_delete(run, to);
    }
    redis_object_erase_header(run, from);
    to->header = from->header;
    to->lease_id = from->lease_id;
    redis_object_save(run, to);
    redis_event(run, REDIS_EVENT_GENERIC, "rename_from", from->name);
    redis_event(run, REDIS_EVENT_GENERIC, "rename_to", to->name);
}

void redis_key_rename(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool only_new = run->command->id == REDIS_CMD_RENAMENX;
    struct redis_object from;
    struct redis_object to;
    (void)argc;
    redis_object_load(run, argv[1], &from);
    if (!redis_object_exists(&from)) {
        redis_error(run, "no such key");
        return;
    }
    redis_object_load(run, argv[2], &to);
    bool is_same = bytes_equal(argv[1], argv[2]);
    bool is_done = !(only_new && redis_object_exists(&to));
    if (is_done && !is_same) {
        move(run, &from, &to);
    }
    if (only_new) {
        redis_reply_integer(run->reply, is_done && !is_same);
    } else {
        redis_reply_ok(run->reply);
    }
}

static bool copy_options(struct redis_run *run, const struct bytes *argv, size_t argc,
                         unsigned *out_db, bool *out_replace) {
    for (size_t i = 3; i < argc; i++) {
        int64_t db;
        if (redis_word_is(argv[i], "replace")) {
            *out_replace = true;
        } else if (redis_word_is(argv[i], "db") && i + 1 < argc) {
            if (!redis_get_integer(run, argv[++i], &db)) {
                return false;
            }
            if (db < 0 || db >= REDIS_DATABASES) {
                redis_error(run, "DB index is out of range");
                return false;
            }
            *out_db = (unsigned)db;
        } else {
            redis_error_syntax(run);
            return false;
        }
    }
    return true;
}

/* Every element is written again under the new id. */
static void copy_elements(struct redis_run *run, const struct redis_object *from,
                          const struct redis_object *to) {
    struct key_range range = redis_range_elements(run->arena, from->header.id);
    struct redis_records records = redis_collect(run, &range, 0, SIZE_MAX);
    for (size_t i = 0; i < records.n; i++) {
        struct bytes key =
            redis_key_element(run->arena, to->header.id, redis_element_of(records.at[i]));
        redis_element_put(run, to, key, record_value(records.at[i]));
    }
}

void redis_key_copy(struct redis_run *run, const struct bytes *argv, size_t argc) {
    unsigned from_db = run->db;
    unsigned to_db = run->db;
    bool replaces = false;
    struct redis_object from;
    struct redis_object to;
    if (!copy_options(run, argv, argc, &to_db, &replaces)) {
        return;
    }
    if (from_db == to_db && bytes_equal(argv[1], argv[2])) {
        redis_error(run, "source and destination objects are the same");
        return;
    }
    redis_object_load(run, argv[1], &from);
    run->db = to_db;
    redis_object_load(run, argv[2], &to);
    bool is_done = redis_object_exists(&from) && (replaces || !redis_object_exists(&to));
    if (is_done) {
        int64_t left_ms = redis_object_remaining_ms(run, &from);
        if (redis_object_exists(&to)) {
            redis_object_delete(run, &to);
        }
        if (redis_object_create(run, &to, from.header.type)) {
            uint64_t id = to.header.id;
            to.header = from.header;
            to.header.id = id;
            to.header.deadline_ms = 0;
            if (to.header.type != REDIS_STRING) {
                copy_elements(run, &from, &to);
            }
            if (left_ms >= 0) {
                redis_object_expire(run, &to, left_ms + 1, from.header.deadline_ms);
            } else {
                redis_object_save(run, &to);
            }
        }
        redis_event(run, REDIS_EVENT_GENERIC, "copy_to", to.name);
    }
    run->db = from_db;
    redis_reply_integer(run->reply, is_done);
}

/* --- Fencing tokens. --- */

void redis_key_token(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    redis_object_load(run, argv[1], &object);
    if (redis_object_exists(&object)) {
        redis_reply_integer(run->reply, object.create_revision);
    } else {
        redis_reply_null(run->reply);
    }
}

/* 1 when the token is at least as high as every one that was shown before for this key, 0 when it
 * is an older holder's. The key need not exist: it is a name. */
void redis_key_fence_check(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t token;
    int64_t highest = 0;
    (void)argc;
    if (!redis_get_integer(run, argv[2], &token)) {
        return;
    }
    if (token <= 0) {
        redis_error(run, "a fencing token is a positive integer");
        return;
    }
    redis_object_load(run, argv[1], &object); /* and so its rights are asked for */
    struct bytes key = redis_key_fence(run->arena, run->db, argv[1]);
    const struct record *record = redis_element_get(run, key);
    if (record != NULL && record->value_size == 8) {
        highest = (int64_t)redis_get_be64(record_value(record).data);
    }
    if (token > highest) {
        uint8_t value[8];
        redis_put_be64(value, (uint64_t)token);
        run->store->put(run->context, KEY_SPACE_REDIS_RECORDS, key, bytes_of(value, sizeof value),
                        0);
    }
    redis_reply_integer(run->reply, token >= highest);
}
