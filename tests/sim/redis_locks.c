/* Clients of locks by the Redis protocol: SET NX PX with a value that nobody else has, extended and
 * released by the usual scripts, or released in a transaction that watches the key. Some release a
 * lock long after their time has passed. Nobody holds a lock while another relies on it, by the
 * time that it asked for; tokens grow; a key does not end before its time, and no release concerns
 * the lock of another. */
#include "actor.h"
#include "checks.h"
#include "clients.h"
#include "doors/redis/redis_exec_rules.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_reply.h"
#include "faults.h"
#include "node.h"
#include "world.h"

#include "core/state_view.h"

#include <inttypes.h>
#include <stdio.h>

enum { LOCKS = 2, TTL_MS_MIN = 1000, TTL_MS_MAX = 4000, WORDS_MAX = 8 };

static const char *const names[LOCKS] = {"lock:x", "lock:y"};

static const char release_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
static const char extend_script[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                    "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

struct redis_locker {
    struct actor actor;
    size_t lock;
    char value[24];
    char ttl[12];
    int64_t ttl_ms;
    int64_t lease_id; /* of the key; 0: not known */
    uint64_t until_us;
    uint64_t token; /* 0: it has no lock */
    bool extends;
    int64_t watched_revision;
};

static struct redis_locker lockers[REDIS_LOCKERS_MAX];
static size_t n_lockers;
static uint64_t n_acquired;

static struct redis_locker *locker_of(struct actor *actor) {
    return list_entry(actor, struct redis_locker, actor);
}

static void begin(struct actor *actor);

/* --- Calls. --- */

/* At the node: the record of the key as it is now. */
static const struct record *record_of(const struct node *node, const char *name,
                                      struct arena *arena) {
    const struct key_store *keys = state_view_keys(service_view(node->service));
    return key_store_find(keys, KEY_SPACE_REDIS, redis_key_main(arena, 0, bytes_from_text(name)));
}

static void note_record(struct call *call) {
    struct arena arena;
    arena_init(&arena);
    const struct record *record = record_of(call->node, call->key, &arena);
    call->found = record == NULL ? 0 : (uint64_t)record->create_revision;
    call->revision = record == NULL ? 0 : record->mod_revision;
    call->lease_id = record == NULL ? 0 : record->lease_id;
    arena_clear(&arena);
}

/* The words end with NULL. */
static struct call *make(const struct redis_locker *locker, int64_t watched_revision,
                         const char *const *words) {
    struct bytes argv[WORDS_MAX];
    size_t argc = 0;
    for (; words[argc] != NULL; argc++) {
        argv[argc] = bytes_from_text(words[argc]);
    }
    struct call *call = call_make(CALL_RULE);
    call->rule_number = REDIS_RULE_EXEC;
    call->look = note_record;
    call->value = checks_newest_token(LOCKS_REDIS + locker->lock);
    snprintf(call->key, sizeof call->key, "%s", names[locker->lock]);
    const struct redis_exec_head head = {.seed = random_next(),
                                         .shows_tokens = true,
                                         .n_watches = watched_revision != 0,
                                         .n_commands = 1};
    redis_exec_put_head(&call->rule_request, &head);
    if (watched_revision != 0) {
        const struct redis_exec_watch watch = {.key = bytes_from_text(names[locker->lock]),
                                               .mod_revision = watched_revision};
        redis_exec_put_watch(&call->rule_request, &watch);
    }
    redis_exec_put_command(&call->rule_request, 0, argv, argc);
    return call;
}

struct answer {
    enum redis_reply_type type;
    int64_t integer;
    struct bytes text;
    uint64_t token; /* of its attribute; 0: none */
    bool is_aborted;
};

static struct answer read_answer(const struct redis_locker *locker, const struct call *call) {
    struct redis_reply_reader reader;
    struct redis_reply_value value;
    struct answer answer = {.is_aborted = call->rule_answer_size == 1 &&
                                          call->rule_answer[0] == REDIS_EXEC_ABORTED};
    if (answer.is_aborted) {
        return answer;
    }
    redis_reply_reader_init(&reader, bytes_of(call->rule_answer, call->rule_answer_size));
    while (redis_reply_next(&reader, &value)) {
        if (value.is_attribute) {
            answer.token = value.type == REDIS_REPLY_INTEGER ? (uint64_t)value.integer : 0;
            continue;
        }
        answer.type = value.type;
        answer.integer = value.integer;
        answer.text = value.text;
    }
    if (reader.failed || answer.type == REDIS_REPLY_ERROR) {
        check_failed("redis", "client %zu was answered %.*s", locker->actor.number,
                     (int)call->rule_answer_size, (const char *)call->rule_answer);
    }
    return answer;
}

static void start_over(struct redis_locker *locker) {
    locker->actor.round++;
    locker->extends = false;
    actor_later(&locker->actor, random_delay(20 * WORLD_MS, WORLD_SECOND), begin);
}

/* --- The end. --- */

static void stop_relying(struct redis_locker *locker) {
    checks_lock_released(LOCKS_REDIS + locker->lock, locker->actor.number);
    if (locker->lease_id != 0) {
        checks_lease_given_up(locker->lease_id);
    }
    locker->extends = false;
    locker->until_us = 0;
}

static void released(struct actor *actor, struct call *call) {
    struct redis_locker *locker = locker_of(actor);
    if (call->status == STATUS_OK) {
        struct answer answer = read_answer(locker, call);
        if (!answer.is_aborted && answer.integer > 0 && call->value > locker->token) {
            check_failed("redis",
                         "client %zu (token %" PRIu64 ") released %s, which another was told that "
                         "it has by token %" PRIu64,
                         actor->number, locker->token, call->key, call->value);
        }
    }
    start_over(locker);
}

static void release_by_script(struct actor *actor) {
    struct redis_locker *locker = locker_of(actor);
    const char *const words[] = {"EVAL", release_script, "1", names[locker->lock], locker->value,
                                 NULL};
    stop_relying(locker);
    actor_ask(actor, make(locker, 0, words), released);
}

static void release_watched(struct actor *actor) {
    struct redis_locker *locker = locker_of(actor);
    const char *const words[] = {"DEL", names[locker->lock], NULL};
    stop_relying(locker);
    actor_ask(actor, make(locker, locker->watched_revision, words), released);
}

/* WATCH and GET have been answered: the rest may come after its time has passed. */
static void watched(struct actor *actor, struct call *call) {
    struct redis_locker *locker = locker_of(actor);
    if (call->status != STATUS_OK) {
        release_by_script(actor);
        return;
    }
    struct answer answer = read_answer(locker, call);
    if (answer.type != REDIS_REPLY_BULK ||
        !bytes_equal(answer.text, bytes_from_text(locker->value)) || call->found != locker->token) {
        stop_relying(locker);
        start_over(locker);
        return;
    }
    locker->watched_revision = call->revision;
    locker->extends = false;
    actor_later(actor, random_below(2 * (uint64_t)locker->ttl_ms * WORLD_MS), release_watched);
}

static void release(struct actor *actor) {
    struct redis_locker *locker = locker_of(actor);
    const char *const words[] = {"GET", names[locker->lock], NULL};
    uint64_t now_us = world_now_us();
    uint64_t left_us = locker->until_us > now_us ? locker->until_us - now_us : 0;
    if (faults_want_quiet()) {
        actor_later(actor, 200 * WORLD_MS, release);
        return;
    }
    switch (random_below(4)) {
    case 0:
        release_by_script(actor);
        break;
    case 1:
        actor_ask(actor, make(locker, 0, words), watched);
        break;
    case 2: /* too late: the lock is another's, perhaps */
        locker->extends = false;
        actor_later(actor, left_us + random_below(2 * WORLD_SECOND), release_by_script);
        break;
    default: /* it just stops, and relies on what it has to the last moment */
        locker->extends = false;
        actor_later(actor, left_us + random_below(WORLD_SECOND), begin);
        break;
    }
}

/* --- Holding. --- */

static void hold_until(struct redis_locker *locker, const struct call *call) {
    uint64_t until_us = actor_relies_until_us(&locker->actor, call, locker->ttl_ms);
    locker->until_us = until_us > locker->until_us ? until_us : locker->until_us;
    if (locker->lease_id != 0) {
        checks_lease_stands(locker->lease_id, locker->ttl_ms, locker->until_us);
    }
    checks_lock_held(LOCKS_REDIS + locker->lock, locker->actor.number, locker->token,
                     locker->until_us);
}

static void extended(struct actor *actor, struct call *call) {
    struct redis_locker *locker = locker_of(actor);
    if (!locker->extends) {
        return;
    }
    if (call->status != STATUS_OK) {
        actor->node = clients_choose_node();
        return;
    }
    struct answer answer = read_answer(locker, call);
    if (answer.integer == 1) {
        hold_until(locker, call);
        return;
    }
    if (locker->until_us > world_now_us()) {
        check_failed("redis", "client %zu relies on %s until %.3f s, and it has ended",
                     actor->number, names[locker->lock], (double)locker->until_us / WORLD_SECOND);
    }
    actor_lost(actor, names[locker->lock]);
    stop_relying(locker);
    start_over(locker);
}

static void extend(struct actor *actor) {
    struct redis_locker *locker = locker_of(actor);
    const char *const words[] = {"EVAL",        extend_script, "1", names[locker->lock],
                                 locker->value, locker->ttl,   NULL};
    if (locker->extends) {
        struct call *call = make(locker, 0, words);
        call->patience_us = (uint64_t)locker->ttl_ms * 1000;
        actor_ask(actor, call, extended);
        actor_later(actor, (uint64_t)locker->ttl_ms * 333, extend);
    }
}

/* --- Acquiring. --- */

static void answered(struct actor *actor, struct call *call) {
    struct redis_locker *locker = locker_of(actor);
    if (call->status != STATUS_OK) {
        actor->node = clients_choose_node();
        start_over(locker);
        return;
    }
    struct answer answer = read_answer(locker, call);
    if (answer.type != REDIS_REPLY_SIMPLE) {
        start_over(locker);
        return;
    }
    checks_token(LOCKS_REDIS + locker->lock, answer.token, call->value);
    n_acquired++;
    locker->token = answer.token;
    locker->lease_id = call->found == answer.token ? call->lease_id : 0;
    hold_until(locker, call);
    locker->extends = true;
    actor_later(actor, (uint64_t)locker->ttl_ms * 333, extend);
    actor_later(actor, random_delay(500 * WORLD_MS, 10 * WORLD_SECOND), release);
}

static void begin(struct actor *actor) {
    struct redis_locker *locker = locker_of(actor);
    if (faults_want_quiet()) {
        actor_later(actor, 200 * WORLD_MS, begin);
        return;
    }
    checks_lock_released(LOCKS_REDIS + locker->lock, actor->number);
    actor->round++;
    locker->lock = random_below(LOCKS);
    locker->until_us = 0;
    locker->lease_id = 0;
    locker->token = 0;
    locker->ttl_ms = (int64_t)random_between(TTL_MS_MIN, TTL_MS_MAX);
    snprintf(locker->ttl, sizeof locker->ttl, "%" PRId64, locker->ttl_ms);
    snprintf(locker->value, sizeof locker->value, "%016" PRIx64, random_next());
    const char *const words[] = {"SET", names[locker->lock], locker->value, "NX",
                                 "PX",  locker->ttl,         NULL};
    actor_ask(actor, make(locker, 0, words), answered);
}

void redis_locks_start(size_t n) {
    n_lockers = n;
    for (size_t i = 0; i < n; i++) {
        actor_init(&lockers[i].actor, i);
        actor_later(&lockers[i].actor, random_below(WORLD_SECOND), begin);
    }
}

void redis_locks_check(void) {
    for (size_t i = 0; n_lockers > 0 && i < nodes_count(); i++) {
        const struct node *node = node_at(i);
        if (!node->is_up || node->service == NULL) {
            continue;
        }
        const struct key_store *keys = state_view_keys(service_view(node->service));
        if (key_store_count(keys, KEY_SPACE_REDIS, bytes_of("", 1), bytes_of("", 1)) > 0) {
            check_failed("redis", "on %s a lock is left without a lease", node->name);
        }
    }
    if (n_lockers > 0) {
        trace("%" PRIu64 " locks of Redis", n_acquired);
    }
}
