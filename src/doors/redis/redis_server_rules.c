/* Commands for a whole database, messages, settings. */
#include "doors/redis/redis_command_rules.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

void redis_server_time(struct redis_run *run, const struct bytes *argv, size_t argc) {
    (void)argv;
    (void)argc;
    redis_reply_array(run->reply, 2);
    redis_reply_bulk_integer(run->reply, run->wall_ms / 1000);
    redis_reply_bulk_integer(run->reply, run->wall_ms % 1000 * 1000);
}

void redis_server_dbsize(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct key_range range = redis_range_database(run->arena, run->db);
    (void)argv;
    (void)argc;
    redis_reply_integer(run->reply, (int64_t)run->store->count(run->context, &range));
}

/* How many records one step of FLUSHALL deletes: everybody waits for it. A collection that has more
 * is a step of its own. */
enum { FLUSH_RECORDS_MAX = 32 * 1024 };

static size_t records_of(const struct redis_object *object) {
    size_t n = (size_t)object->header.count;
    return 1 + (object->header.type == REDIS_ZSET ? 2 * n : n);
}

/* True when nothing is left. `n_deleted` counts the records that go, in all databases. */
static bool flush(struct redis_run *run, unsigned db, size_t *n_deleted) {
    enum { CHANGES_A_KEY = 3, KEPT = 16 };
    struct key_range range = redis_range_database(run->arena, db);
    size_t most = run->store->changes_left(run->context);
    most = most > KEPT ? (most - KEPT) / CHANGES_A_KEY : 0;
    struct redis_records records = redis_collect_keys(run, &range, most + 1);
    unsigned own = run->db;
    size_t i = 0;
    run->db = db;
    for (; i < records.n && i < most; i++) {
        struct redis_object object;
        redis_object_load(run, redis_key_of(records.at[i]), &object);
        if (*n_deleted > 0 && *n_deleted + records_of(&object) > FLUSH_RECORDS_MAX) {
            break;
        }
        *n_deleted += records_of(&object);
        redis_object_delete(run, &object);
    }
    run->db = own;
    return i == records.n;
}

/* As many as one run may change; the connection asks again until all are gone. */
static void reply_flushed(struct redis_run *run, bool is_done) {
    if (is_done) {
        redis_reply_ok(run->reply);
    } else {
        redis_reply_error_text(run->reply, REDIS_FLUSH_UNFINISHED);
    }
}

static bool flush_takes(struct redis_run *run, const struct bytes *argv, size_t argc) {
    if (argc > 2 ||
        (argc == 2 && !redis_word_is(argv[1], "async") && !redis_word_is(argv[1], "sync"))) {
        redis_error_syntax(run);
        return false;
    }
    return true;
}

void redis_server_flushdb(struct redis_run *run, const struct bytes *argv, size_t argc) {
    size_t n_deleted = 0;
    if (flush_takes(run, argv, argc)) {
        reply_flushed(run, flush(run, run->db, &n_deleted));
    }
}

void redis_server_flushall(struct redis_run *run, const struct bytes *argv, size_t argc) {
    if (!flush_takes(run, argv, argc)) {
        return;
    }
    bool is_done = true;
    size_t n_deleted = 0;
    for (unsigned db = 0; db < REDIS_DATABASES && is_done; db++) {
        is_done = flush(run, db, &n_deleted);
    }
    reply_flushed(run, is_done);
}

/* How many got it is known to each member alone: the connection writes its own count over the 0. */
void redis_server_publish(struct redis_run *run, const struct bytes *argv, size_t argc) {
    (void)argc;
    redis_publish(run, run->command->id == REDIS_CMD_SPUBLISH ? 'q' : 'p', argv[1], argv[2]);
    redis_reply_integer(run->reply, 0);
}

/* The only setting that holds for all members. */
void redis_server_configure(struct redis_run *run, const struct bytes *argv, size_t argc) {
    char text[REDIS_EVENTS_TEXT_SIZE];
    uint32_t events;
    (void)argc;
    if (!redis_word_is(argv[1], "notify-keyspace-events") ||
        !redis_events_parse(argv[2], &events)) {
        redis_error(run, "CONFIG SET failed (possibly related to argument "
                         "'notify-keyspace-events') - argument couldn't be parsed into bitflags");
        return;
    }
    run->store->put(run->context, KEY_SPACE_REDIS_RECORDS,
                    bytes_from_text("cnotify-keyspace-events"),
                    bytes_of(text, redis_events_text(events, text)), 0);
    run->knows_events = false;
    redis_reply_ok(run->reply);
}
