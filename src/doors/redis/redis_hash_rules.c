/* Hashes: one record for each field. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_run_rules.h"
#include "doors/redis/redis_sample_rules.h"

static struct bytes field_key(struct redis_run *run, const struct redis_object *hash,
                              struct bytes field) {
    return redis_key_element(run->arena, hash->header.id, field);
}

/* NULL: there is no such field, or no such hash. */
static const struct record *find(struct redis_run *run, const struct redis_object *hash,
                                 struct bytes field) {
    return redis_object_exists(hash) ? redis_element_get(run, field_key(run, hash, field)) : NULL;
}

/* True when the field is new. */
static bool put(struct redis_run *run, struct redis_object *hash, struct bytes field,
                struct bytes value) {
    struct bytes key = field_key(run, hash, field);
    bool is_new = redis_element_get(run, key) == NULL;
    redis_element_put(run, hash, key, value);
    hash->header.count += is_new;
    return is_new;
}

static bool load_or_create(struct redis_run *run, struct bytes name, struct redis_object *hash) {
    return redis_object_load_as(run, name, REDIS_HASH, hash) &&
           (redis_object_exists(hash) || redis_object_create(run, hash, REDIS_HASH));
}

void redis_hash_hset(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool is_hmset = run->command->id == REDIS_CMD_HMSET;
    struct redis_object hash;
    int64_t n = 0;
    if (argc % 2 != 0) {
        redis_error(run, is_hmset ? "wrong number of arguments for 'hmset' command"
                                  : "wrong number of arguments for 'hset' command");
        return;
    }
    if (!load_or_create(run, argv[1], &hash)) {
        return;
    }
    for (size_t i = 2; i < argc; i += 2) {
        n += put(run, &hash, argv[i], argv[i + 1]);
    }
    redis_object_save(run, &hash);
    redis_event(run, REDIS_EVENT_HASH, "hset", hash.name);
    if (is_hmset) {
        redis_reply_ok(run->reply);
    } else {
        redis_reply_integer(run->reply, n);
    }
}

void redis_hash_hsetnx(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        return;
    }
    if (find(run, &hash, argv[2]) != NULL) {
        redis_reply_integer(run->reply, 0);
    } else if (redis_object_exists(&hash) || redis_object_create(run, &hash, REDIS_HASH)) {
        put(run, &hash, argv[2], argv[3]);
        redis_object_save(run, &hash);
        redis_event(run, REDIS_EVENT_HASH, "hset", hash.name);
        redis_reply_integer(run->reply, 1);
    }
}

static void reply_field(struct redis_run *run, const struct redis_object *hash,
                        struct bytes field) {
    const struct record *record = find(run, hash, field);
    if (record == NULL) {
        redis_reply_null(run->reply);
    } else {
        redis_reply_bulk(run->reply, record_value(record));
    }
}

void redis_hash_hget(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        reply_field(run, &hash, argv[2]);
    }
}

void redis_hash_hmget(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    if (!redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        return;
    }
    redis_reply_array(run->reply, argc - 2);
    for (size_t i = 2; i < argc; i++) {
        reply_field(run, &hash, argv[i]);
    }
}

static struct redis_records fields_of(struct redis_run *run, const struct redis_object *hash) {
    struct key_range range = redis_range_elements(run->arena, hash->header.id);
    return redis_object_exists(hash) ? redis_collect(run, &range, 0, SIZE_MAX)
                                     : (struct redis_records){0};
}

/* HGETALL, HKEYS, HVALS. */
void redis_hash_hgetall(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool shows_fields = run->command->id != REDIS_CMD_HVALS;
    bool shows_values = run->command->id != REDIS_CMD_HKEYS;
    struct redis_object hash;
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        return;
    }
    struct redis_records fields = fields_of(run, &hash);
    if (shows_fields && shows_values) {
        redis_reply_map(run->reply, fields.n);
    } else {
        redis_reply_array(run->reply, fields.n);
    }
    for (size_t i = 0; i < fields.n; i++) {
        if (shows_fields) {
            redis_reply_bulk(run->reply, redis_element_of(fields.at[i]));
        }
        if (shows_values) {
            redis_reply_bulk(run->reply, record_value(fields.at[i]));
        }
    }
}

void redis_hash_hdel(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    int64_t n = 0;
    if (!redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        return;
    }
    for (size_t i = 2; redis_object_exists(&hash) && i < argc; i++) {
        n += redis_element_delete(run, field_key(run, &hash, argv[i]));
    }
    if (n > 0) {
        hash.header.count -= n;
        redis_event(run, REDIS_EVENT_HASH, "hdel", hash.name);
        redis_object_save(run, &hash);
    }
    redis_reply_integer(run->reply, n);
}

void redis_hash_hexists(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        redis_reply_integer(run->reply, find(run, &hash, argv[2]) != NULL);
    }
}

void redis_hash_hlen(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        redis_reply_integer(run->reply, hash.header.count);
    }
}

void redis_hash_hstrlen(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        const struct record *record = find(run, &hash, argv[2]);
        redis_reply_integer(run->reply, record == NULL ? 0 : record->value_size);
    }
}

/* Writes one field of a hash that may have to be made. */
static bool write_field(struct redis_run *run, struct redis_object *hash, struct bytes field,
                        struct bytes value, const char *event) {
    if (!redis_object_exists(hash) && !redis_object_create(run, hash, REDIS_HASH)) {
        return false;
    }
    put(run, hash, field, value);
    redis_object_save(run, hash);
    redis_event(run, REDIS_EVENT_HASH, event, hash->name);
    return true;
}

void redis_hash_hincrby(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    int64_t by;
    int64_t value = 0;
    char text[REDIS_NUMBER_INTEGER_SIZE];
    (void)argc;
    if (!redis_get_integer(run, argv[3], &by) ||
        !redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        return;
    }
    const struct record *record = find(run, &hash, argv[2]);
    if (record != NULL &&
        !redis_get_integer_or(run, record_value(record), "hash value is not an integer", &value)) {
        return;
    }
    if (__builtin_add_overflow(value, by, &value)) {
        redis_error(run, "increment or decrement would overflow");
        return;
    }
    struct bytes shown = bytes_of(text, redis_number_integer_text(value, text));
    if (write_field(run, &hash, argv[2], shown, "hincrby")) {
        redis_reply_integer(run->reply, value);
    }
}

void redis_hash_hincrbyfloat(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    long double by;
    long double value = 0;
    char text[REDIS_NUMBER_FLOAT_SIZE];
    (void)argc;
    if (!redis_number_float(argv[3], &by)) {
        redis_error(run, "value is not a valid float");
        return;
    }
    if (!redis_number_is_finite(by)) {
        redis_error(run, "value is NaN or Infinity");
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        return;
    }
    const struct record *record = find(run, &hash, argv[2]);
    if (record != NULL && !redis_number_float(record_value(record), &value)) {
        redis_error(run, "hash value is not a float");
        return;
    }
    value += by;
    if (!redis_number_is_finite(value)) {
        redis_error(run, "increment would produce NaN or Infinity");
        return;
    }
    struct bytes shown = bytes_of(text, redis_number_float_text(value, text));
    if (write_field(run, &hash, argv[2], shown, "hincrbyfloat")) {
        redis_reply_bulk(run->reply, shown);
    }
}

void redis_hash_hrandfield(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object hash;
    struct redis_sample sample;
    bool shows_values = argc == 4 && redis_word_is(argv[3], "withvalues");
    if (argc > 4 || (argc == 4 && !shows_values)) {
        redis_error_syntax(run);
        return;
    }
    if ((argc > 2 && !redis_sample_get_count(run, argv[2], &sample)) ||
        !redis_object_load_as(run, argv[1], REDIS_HASH, &hash)) {
        return;
    }
    struct redis_records fields = fields_of(run, &hash);
    if (argc == 2) {
        if (fields.n == 0) {
            redis_reply_null(run->reply);
        } else {
            redis_reply_bulk(run->reply, redis_element_of(fields.at[redis_random(run, fields.n)]));
        }
        return;
    }
    struct redis_records chosen = redis_sample_choose(run, &fields, &sample);
    if (shows_values) {
        redis_reply_pairs(run->reply, chosen.n);
    } else {
        redis_reply_array(run->reply, chosen.n);
    }
    for (size_t i = 0; i < chosen.n; i++) {
        redis_reply_bulk(run->reply, redis_element_of(chosen.at[i]));
        if (shows_values) {
            redis_reply_bulk(run->reply, record_value(chosen.at[i]));
        }
    }
}
