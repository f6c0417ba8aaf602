/* EXPIRE and its like: a lease of the key's own. */
#include "doors/redis/redis_expire_rules.h"

#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

bool redis_expiry_unit_of(struct bytes word, enum redis_expiry_unit *out_unit) {
    static const char *const words[] = {"ex", "px", "exat", "pxat"};
    for (unsigned i = 0; i < 4; i++) {
        if (redis_word_is(word, words[i])) {
            *out_unit = (enum redis_expiry_unit)i;
            return true;
        }
    }
    return false;
}

static void reply_invalid(struct redis_run *run) {
    static const char before[] = "ERR invalid expire time in '";
    struct bytes name = bytes_from_text(run->command->name);
    uint8_t text[96];
    memcpy(text, before, sizeof before - 1);
    memcpy(text + sizeof before - 1, name.data, name.size);
    memcpy(text + sizeof before - 1 + name.size, "' command", 9);
    redis_reply_error(run->reply, bytes_of(text, sizeof before - 1 + name.size + 9));
}

bool redis_expiry_get(struct redis_run *run, struct bytes argument, enum redis_expiry_unit unit,
                      bool must_be_positive, struct redis_expiry *out_expiry) {
    bool is_absolute = unit >= REDIS_EXPIRY_AT_SECONDS;
    bool is_seconds = unit == REDIS_EXPIRY_SECONDS || unit == REDIS_EXPIRY_AT_SECONDS;
    int64_t value;
    if (!redis_get_integer(run, argument, &value)) {
        return false;
    }
    struct redis_expiry expiry;
    bool is_wrong = must_be_positive && value <= 0;
    is_wrong = is_wrong || (is_seconds && __builtin_mul_overflow(value, 1000, &value));
    if (!is_wrong && is_absolute) {
        expiry.deadline_ms = value;
        is_wrong = __builtin_sub_overflow(value, run->wall_ms, &expiry.ttl_ms);
    } else if (!is_wrong) {
        expiry.ttl_ms = value;
        is_wrong = __builtin_add_overflow(value, run->wall_ms, &expiry.deadline_ms);
    }
    if (is_wrong) {
        reply_invalid(run);
        return false;
    }
    if (expiry.ttl_ms > LEASE_TTL_MS_MAX) {
        expiry.ttl_ms = LEASE_TTL_MS_MAX; /* 285 years */
    }
    *out_expiry = expiry;
    return true;
}

struct conditions {
    bool nx;
    bool xx;
    bool gt;
    bool lt;
};

static bool get_conditions(struct redis_run *run, const struct bytes *argv, size_t argc,
                           struct conditions *out) {
    for (size_t i = 3; i < argc; i++) {
        if (redis_word_is(argv[i], "nx")) {
            out->nx = true;
        } else if (redis_word_is(argv[i], "xx")) {
            out->xx = true;
        } else if (redis_word_is(argv[i], "gt")) {
            out->gt = true;
        } else if (redis_word_is(argv[i], "lt")) {
            out->lt = true;
        } else {
            static const char before[] = "ERR Unsupported option ";
            uint8_t *text = arena_alloc(run->arena, sizeof before + argv[i].size);
            memcpy(text, before, sizeof before - 1);
            memcpy(text + sizeof before - 1, argv[i].data, argv[i].size);
            redis_reply_error(run->reply, bytes_of(text, sizeof before - 1 + argv[i].size));
            return false;
        }
    }
    if (out->nx && (out->xx || out->gt || out->lt)) {
        redis_error(run, "NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (out->gt && out->lt) {
        redis_error(run, "GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

static bool allows(const struct conditions *conditions, const struct redis_object *object,
                   int64_t deadline_ms) {
    int64_t old_ms = object->header.deadline_ms; /* 0: never, which is later than all others */
    return !(conditions->nx && old_ms != 0) && !(conditions->xx && old_ms == 0) &&
           !(conditions->gt && (old_ms == 0 || deadline_ms <= old_ms)) &&
           !(conditions->lt && old_ms != 0 && deadline_ms >= old_ms);
}

void redis_expire_set(struct redis_run *run, const struct bytes *argv, size_t argc) {
    static const enum redis_expiry_unit units[] = {
        [REDIS_CMD_EXPIRE - REDIS_CMD_EXPIRE] = REDIS_EXPIRY_SECONDS,
        [REDIS_CMD_PEXPIRE - REDIS_CMD_EXPIRE] = REDIS_EXPIRY_MILLISECONDS,
        [REDIS_CMD_EXPIREAT - REDIS_CMD_EXPIRE] = REDIS_EXPIRY_AT_SECONDS,
        [REDIS_CMD_PEXPIREAT - REDIS_CMD_EXPIRE] = REDIS_EXPIRY_AT_MILLISECONDS};
    enum redis_expiry_unit unit = units[run->command->id - REDIS_CMD_EXPIRE];
    struct conditions conditions = {0};
    struct redis_expiry expiry;
    struct redis_object object;
    if (!get_conditions(run, argv, argc, &conditions) ||
        !redis_expiry_get(run, argv[2], unit, false, &expiry)) {
        return;
    }
    redis_object_load(run, argv[1], &object);
    if (!redis_object_exists(&object) || !allows(&conditions, &object, expiry.deadline_ms)) {
        redis_reply_integer(run->reply, 0);
        return;
    }
    if (expiry.ttl_ms <= 0) {
        redis_object_delete(run, &object);
        redis_event(run, REDIS_EVENT_GENERIC, "del", object.name);
    } else {
        redis_object_expire(run, &object, expiry.ttl_ms, expiry.deadline_ms);
        redis_event(run, REDIS_EVENT_GENERIC, "expire", object.name);
    }
    redis_reply_integer(run->reply, 1);
}

void redis_expire_ttl(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    redis_object_load(run, argv[1], &object);
    int64_t left_ms = redis_object_remaining_ms(run, &object);
    if (left_ms >= 0 && run->command->id == REDIS_CMD_TTL) {
        left_ms = (left_ms + 500) / 1000;
    }
    redis_reply_integer(run->reply, left_ms);
}

void redis_expire_time(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    redis_object_load(run, argv[1], &object);
    int64_t at = object.header.deadline_ms;
    if (!redis_object_exists(&object)) {
        at = -2;
    } else if (at == 0) {
        at = -1;
    } else if (run->command->id == REDIS_CMD_EXPIRETIME) {
        at = (at + 500) / 1000;
    }
    redis_reply_integer(run->reply, at);
}

void redis_expire_persist(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    (void)argc;
    redis_object_load(run, argv[1], &object);
    bool is_done = redis_object_exists(&object) && object.header.deadline_ms != 0;
    if (is_done) {
        redis_object_persist(run, &object);
        redis_event(run, REDIS_EVENT_GENERIC, "persist", object.name);
    }
    redis_reply_integer(run->reply, is_done);
}
