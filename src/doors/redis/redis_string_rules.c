/* Strings, counters, and their expiry as far as it is part of these commands. */
#include "doors/redis/redis_string_rules.h"

#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_expire_rules.h"

#include <string.h>

enum { STRING_SIZE_MAX = 1024 * 1024 }; /* RULE_BYTES_MAX would allow no more than a few of them */

static void reply_value(struct redis_run *run, const struct redis_object *object) {
    if (redis_object_exists(object)) {
        redis_reply_bulk(run->reply, object->header.value);
    } else {
        redis_reply_null(run->reply);
    }
}

static void set(struct redis_run *run, struct redis_object *object, struct bytes value,
                int64_t ttl_ms, int64_t deadline_ms) {
    redis_object_set_string(run, object, value, ttl_ms, deadline_ms);
    redis_event(run, REDIS_EVENT_STRING, "set", object->name);
    if (ttl_ms > 0) {
        redis_event(run, REDIS_EVENT_GENERIC, "expire", object->name);
    }
}

void redis_string_change(struct redis_run *run, struct redis_object *object, struct bytes value) {
    if (!redis_object_exists(object)) {
        (void)redis_object_create(run, object, REDIS_STRING);
    }
    object->header.value = value;
    redis_object_save(run, object);
}

static void change(struct redis_run *run, struct redis_object *object, struct bytes value,
                   const char *event) {
    redis_string_change(run, object, value);
    redis_event(run, REDIS_EVENT_STRING, event, object->name);
}

void redis_string_get(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        reply_value(run, &object);
    }
}

void redis_string_mget(struct redis_run *run, const struct bytes *argv, size_t argc) {
    redis_reply_array(run->reply, argc - 1);
    for (size_t i = 1; i < argc; i++) {
        struct redis_object object;
        redis_object_load(run, argv[i], &object);
        if (object.header.type == REDIS_STRING) {
            redis_reply_bulk(run->reply, object.header.value);
        } else {
            redis_reply_null(run->reply);
        }
    }
}

/* --- SET --- */

struct set_options {
    bool nx;
    bool xx;
    bool get;
    bool keep_ttl;
    bool has_ttl;
    struct redis_expiry expiry;
};

static bool set_option(struct redis_run *run, struct set_options *options, const struct bytes *argv,
                       size_t argc, size_t *at) {
    struct bytes word = argv[*at];
    enum redis_expiry_unit unit;
    if (redis_word_is(word, "nx") && !options->xx) {
        options->nx = true;
    } else if (redis_word_is(word, "xx") && !options->nx) {
        options->xx = true;
    } else if (redis_word_is(word, "get")) {
        options->get = true;
    } else if (redis_word_is(word, "keepttl") && !options->has_ttl) {
        options->keep_ttl = true;
    } else if (redis_expiry_unit_of(word, &unit) && *at + 1 < argc && !options->keep_ttl &&
               !options->has_ttl) {
        options->has_ttl = true;
        return redis_expiry_get(run, argv[++*at], unit, true, &options->expiry);
    } else {
        redis_error_syntax(run);
        return false;
    }
    return true;
}

/* The token goes before the answer it belongs to. */
static void reply_token(struct redis_run *run, const struct redis_object *object) {
    if (run->shows_tokens && !run->is_in_script) {
        redis_reply_attribute(run->reply, 1);
        redis_reply_simple(run->reply, bytes_from_text("leased-token"));
        redis_reply_integer(run->reply, object->create_revision);
    }
}

void redis_string_set(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct set_options options = {0};
    struct redis_object object;
    for (size_t i = 3; i < argc; i++) {
        if (!set_option(run, &options, argv, argc, &i)) {
            return;
        }
    }
    redis_object_load(run, argv[1], &object);
    struct redis_object before = object;
    bool exists = redis_object_exists(&object);
    if (options.get && exists && object.header.type != REDIS_STRING) {
        (void)redis_object_load_as(run, argv[1], REDIS_STRING, &object);
        return;
    }
    bool is_done = !(options.nx && exists) && !(options.xx && !exists);
    if (is_done && options.has_ttl && options.expiry.ttl_ms <= 0) {
        redis_object_delete(run, &object); /* a moment that has passed */
        redis_event(run, REDIS_EVENT_GENERIC, "del", object.name);
    } else if (is_done) {
        int64_t ttl_ms = options.keep_ttl ? -1 : options.expiry.ttl_ms;
        set(run, &object, argv[2], ttl_ms, options.expiry.deadline_ms);
        if (options.nx) {
            reply_token(run, &object);
        }
    }
    if (options.get) {
        reply_value(run, &before);
    } else if (is_done) {
        redis_reply_ok(run->reply);
    } else {
        redis_reply_null(run->reply);
    }
}

void redis_string_setnx(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    redis_object_load(run, argv[1], &object);
    bool is_done = !redis_object_exists(&object);
    if (is_done) {
        set(run, &object, argv[2], 0, 0);
    }
    redis_reply_integer(run->reply, is_done);
}

void redis_string_setex(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    struct redis_expiry expiry;
    enum redis_expiry_unit unit =
        run->command->id == REDIS_CMD_SETEX ? REDIS_EXPIRY_SECONDS : REDIS_EXPIRY_MILLISECONDS;
    (void)argc;
    if (!redis_expiry_get(run, argv[2], unit, true, &expiry)) {
        return;
    }
    redis_object_load(run, argv[1], &object);
    set(run, &object, argv[3], expiry.ttl_ms, expiry.deadline_ms);
    redis_reply_ok(run->reply);
}

void redis_string_getset(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        reply_value(run, &object);
        set(run, &object, argv[2], 0, 0);
    }
}

void redis_string_getdel(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        reply_value(run, &object);
        if (redis_object_exists(&object)) {
            redis_object_delete(run, &object);
            redis_event(run, REDIS_EVENT_GENERIC, "del", object.name);
        }
    }
}

void redis_string_getex(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    struct redis_expiry expiry = {0};
    enum redis_expiry_unit unit;
    bool persists = argc == 3 && redis_word_is(argv[2], "persist");
    bool expires = argc == 4 && redis_expiry_unit_of(argv[2], &unit);
    if (argc != 2 && !persists && !expires) {
        redis_error_syntax(run);
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        return;
    }
    if (redis_object_exists(&object) && expires &&
        !redis_expiry_get(run, argv[3], unit, true, &expiry)) {
        return;
    }
    reply_value(run, &object);
    if (!redis_object_exists(&object)) {
        return;
    }
    if (expires && expiry.ttl_ms <= 0) {
        redis_object_delete(run, &object);
        redis_event(run, REDIS_EVENT_GENERIC, "del", object.name);
    } else if (expires) {
        redis_object_expire(run, &object, expiry.ttl_ms, expiry.deadline_ms);
        redis_event(run, REDIS_EVENT_GENERIC, "expire", object.name);
    } else if (persists && object.header.deadline_ms != 0) {
        redis_object_persist(run, &object);
        redis_event(run, REDIS_EVENT_GENERIC, "persist", object.name);
    }
}

void redis_string_mset(struct redis_run *run, const struct bytes *argv, size_t argc) {
    bool only_new = run->command->id == REDIS_CMD_MSETNX;
    struct redis_object object;
    if (argc % 2 == 0) {
        redis_error(run, only_new ? "wrong number of arguments for 'msetnx' command"
                                  : "wrong number of arguments for 'mset' command");
        return;
    }
    for (size_t i = 1; only_new && i < argc; i += 2) {
        redis_object_load(run, argv[i], &object);
        if (redis_object_exists(&object)) {
            redis_reply_integer(run->reply, 0);
            return;
        }
    }
    for (size_t i = 1; i < argc; i += 2) {
        redis_object_load(run, argv[i], &object);
        set(run, &object, argv[i + 1], 0, 0);
    }
    if (only_new) {
        redis_reply_integer(run->reply, 1);
    } else {
        redis_reply_ok(run->reply);
    }
}

/* --- Parts. --- */

bool redis_string_fits(struct redis_run *run, size_t size) {
    if (size > STRING_SIZE_MAX) {
        redis_error(run, "string exceeds maximum allowed size (proto-max-bulk-len)");
        return false;
    }
    return true;
}

void redis_string_append(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object) ||
        !redis_string_fits(run, object.header.value.size + argv[2].size)) {
        return;
    }
    size_t old = object.header.value.size;
    uint8_t *value = arena_alloc(run->arena, old + argv[2].size);
    if (old > 0) {
        memcpy(value, object.header.value.data, old);
    }
    if (argv[2].size > 0) {
        memcpy(value + old, argv[2].data, argv[2].size);
    }
    change(run, &object, bytes_of(value, old + argv[2].size), "append");
    redis_reply_integer(run->reply, (int64_t)(old + argv[2].size));
}

void redis_string_strlen(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    if (redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        redis_reply_integer(run->reply, (int64_t)object.header.value.size);
    }
}

void redis_string_getrange(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t start;
    int64_t stop;
    (void)argc;
    if (!redis_get_integer(run, argv[2], &start) || !redis_get_integer(run, argv[3], &stop) ||
        !redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        return;
    }
    int64_t size = (int64_t)object.header.value.size;
    struct bytes part = bytes_of("", 0);
    bool is_empty = start < 0 && stop < 0 && start > stop;
    stop = stop < 0 && stop + size < 0 ? 0 : stop; /* unlike the ends of lists */
    if (!is_empty && redis_clamp(size, &start, &stop)) {
        part = bytes_of(object.header.value.data + start, (size_t)(stop - start + 1));
    }
    redis_reply_bulk(run->reply, part);
}

void redis_string_setrange(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t offset;
    (void)argc;
    if (!redis_get_integer(run, argv[2], &offset)) {
        return;
    }
    if (offset < 0) {
        redis_error(run, "offset is out of range");
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        return;
    }
    size_t old = object.header.value.size;
    if (argv[3].size == 0) {
        redis_reply_integer(run->reply, (int64_t)old);
        return;
    }
    if (!redis_string_fits(run, (size_t)offset) ||
        !redis_string_fits(run, (size_t)offset + argv[3].size)) {
        return;
    }
    size_t end = (size_t)offset + argv[3].size;
    size_t size = end > old ? end : old;
    uint8_t *value = arena_calloc(run->arena, size, 1);
    if (old > 0) {
        memcpy(value, object.header.value.data, old);
    }
    memcpy(value + offset, argv[3].data, argv[3].size);
    change(run, &object, bytes_of(value, size), "setrange");
    redis_reply_integer(run->reply, (int64_t)size);
}

/* --- Counters. --- */

static bool increment_of(struct redis_run *run, const struct bytes *argv, int64_t *out_by) {
    switch (run->command->id) {
    case REDIS_CMD_INCR:
        *out_by = 1;
        return true;
    case REDIS_CMD_DECR:
        *out_by = -1;
        return true;
    case REDIS_CMD_DECRBY:
        if (!redis_get_integer(run, argv[2], out_by)) {
            return false;
        }
        if (*out_by == INT64_MIN) {
            redis_error(run, "decrement would overflow");
            return false;
        }
        *out_by = -*out_by;
        return true;
    default:
        return redis_get_integer(run, argv[2], out_by);
    }
}

void redis_string_incr(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t by;
    int64_t value = 0;
    char text[REDIS_NUMBER_INTEGER_SIZE];
    (void)argc;
    if (!increment_of(run, argv, &by) ||
        !redis_object_load_as(run, argv[1], REDIS_STRING, &object) ||
        (redis_object_exists(&object) && !redis_get_integer(run, object.header.value, &value))) {
        return;
    }
    if (__builtin_add_overflow(value, by, &value)) {
        redis_error(run, "increment or decrement would overflow");
        return;
    }
    change(run, &object, bytes_of(text, redis_number_integer_text(value, text)), "incrby");
    redis_reply_integer(run->reply, value);
}

void redis_string_incrbyfloat(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    long double by;
    long double value = 0;
    char text[REDIS_NUMBER_FLOAT_SIZE];
    (void)argc;
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        return;
    }
    if ((redis_object_exists(&object) && !redis_number_float(object.header.value, &value)) ||
        !redis_number_float(argv[2], &by)) {
        redis_error(run, "value is not a valid float");
        return;
    }
    value += by;
    if (!redis_number_is_finite(value)) {
        redis_error(run, "increment would produce NaN or Infinity");
        return;
    }
    struct bytes shown = bytes_of(text, redis_number_float_text(value, text));
    change(run, &object, shown, "incrbyfloat");
    redis_reply_bulk(run->reply, shown);
}
