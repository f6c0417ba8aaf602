/*
 * Random commands of the Redis protocol, alone and in transactions and scripts, on two machines:
 * one that lives through everything, one that is restored from snapshots now and then. Both must
 * answer alike and be equal to the byte. After every step every header has as many elements as it
 * says, there is no element without a header, sorted sets have one record by score for each by
 * member, lists have no gaps, keys have leases exactly when they should, and all leases are theirs.
 * What the commands answer is compared with redis-server in tests/conformance. The seed is printed;
 * give it as the first argument to replay a run.
 */
#include "doors/redis/redis_exec_rules.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_script_rules.h"
#include "model_machines.h"
#include "model_random.h"

#include <assert.h>
#include <string.h>

enum { STEPS = 2000, ROUNDS = 3, WORDS_MAX = 12, KEYS = 6, COMMANDS_MAX = 4 };

/* %k a key, %m a member, %v a value, %i a number, %s a score. */
static const char *const templates[] = {
    "SET %k %v",
    "SET %k %v PX 5000",
    "SET %k %v NX PX 300",
    "SET %k %v KEEPTTL",
    "SET %k %v XX GET",
    "SET %k %v PXAT 1",
    "GETDEL %k",
    "GETEX %k PX 900",
    "GETEX %k PERSIST",
    "MSET %k %v %k %v",
    "MSETNX %k %v %k %v",
    "APPEND %k %v",
    "SETRANGE %k 3 %v",
    "SETBIT %k 9 1",
    "BITFIELD %k OVERFLOW SAT INCRBY u4 #1 %v GET i3 2",
    "BITFIELD %k OVERFLOW FAIL SET i2 30 %v",
    "INCR %k",
    "INCRBYFLOAT %k 0.5",
    "DEL %k %k",
    "RENAME %k %k",
    "RENAMENX %k %k",
    "COPY %k %k REPLACE",
    "COPY %k %k DB 1",
    "PEXPIRE %k 700",
    "PEXPIRE %k 900 GT",
    "PEXPIRE %k -1",
    "PERSIST %k",
    "HSET %k %m %v %m %v",
    "HSETNX %k %m %v",
    "HINCRBY %k %m 3",
    "HDEL %k %m %m",
    "SADD %k %m %m %m",
    "SREM %k %m %m",
    "SPOP %k",
    "SPOP %k 3",
    "SMOVE %k %k %m",
    "SUNIONSTORE %k %k %k",
    "SDIFFSTORE %k %k %k",
    "SINTERSTORE %k %k %k",
    "ZADD %k %s %m %s %m",
    "ZADD %k GT CH %s %m",
    "ZINCRBY %k %s %m",
    "ZREM %k %m %m",
    "ZPOPMIN %k 2",
    "ZPOPMAX %k",
    "ZREMRANGEBYRANK %k %i %i",
    "ZREMRANGEBYSCORE %k %s +inf",
    "ZRANGESTORE %k %k %i %i",
    "ZUNIONSTORE %k 2 %k %k WEIGHTS %s %s AGGREGATE MIN",
    "ZINTERSTORE %k 2 %k %k WEIGHTS %s %s",
    "ZDIFFSTORE %k 2 %k %k",
    "ZMPOP 2 %k %k MIN COUNT 2",
    "BZMPOP 0 1 %k MAX",
    "LMPOP 2 %k %k LEFT COUNT 2",
    "BLMPOP 0 1 %k RIGHT",
    "LPUSH %k %m %m",
    "RPUSH %k %m %m",
    "LPOP %k",
    "RPOP %k 2",
    "LSET %k %i %m",
    "LREM %k %i %m",
    "LTRIM %k %i %i",
    "LINSERT %k BEFORE %m %m",
    "LINSERT %k AFTER %m %m",
    "LMOVE %k %k LEFT RIGHT",
    "RPOPLPUSH %k %k",
    "XADD %k * %m %v",
    "XADD %k MAXLEN 3 * %m %v %m %v",
    "XTRIM %k MAXLEN 2",
    "XTRIM %k MINID 5",
    "XDEL %k 1-1",
    "XRANGE %k - +",
    "XREVRANGE %k + - COUNT 2",
    "XREAD COUNT 2 STREAMS %k 0",
    "PUBLISH channel %v",
    "LEASED.FENCE %k 7",
    "FLUSHDB",
    "GET %k",
    "BITCOUNT %k",
    "BITPOS %k 1",
    "HGETALL %k",
    "SMEMBERS %k",
    "ZRANGE %k 0 -1 WITHSCORES",
    "LRANGE %k 0 -1",
    "KEYS *",
    "SCAN 0",
    "SRANDMEMBER %k -3",
    "ZRANK %k %m",
    "ZUNION 2 %k %k WITHSCORES",
    "ZINTER 3 %k %k %k AGGREGATE MAX WITHSCORES",
    "ZDIFF 2 %k %k",
    "ZINTERCARD 2 %k %k LIMIT 1",
    "DBSIZE",
    "LEASED.CONFIGURE notify-keyspace-events KEA",
    "LEASED.CONFIGURE notify-keyspace-events x",
};
enum { TEMPLATES = sizeof templates / sizeof templates[0] };

/* Scripts have spaces, so they are arguments of their own. */
static const char *const scripts[] = {
    "redis.call('SADD', KEYS[1], 'a', 'b') return redis.call('SMEMBERS', KEYS[1])",
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', 400) redis.call('RENAME', KEYS[1], KEYS[2])",
    "local k = KEYS redis.call('DEL', k[1]) redis.call('RPUSH', k[1], 1, 2) return k[2]",
    "return redis.call('LPOP', KEYS[2])",
    "redis.pcall('LPUSH', KEYS[1], 1) while ARGV[1] == '3' do end",
};

static const struct rule *const rules[] = {&redis_rule_exec};
static const struct rule_set rule_set = {rules, 1};

/* --- Applying. --- */

static const char *word_for(char letter) {
    static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", ""};
    static const char *const members[] = {"a", "b", "c", "d", ""};
    static const char *const values[] = {"1", "2", "3", "x", ""};
    static const char *const numbers[] = {"0", "1", "-1", "-2", "2", "5"};
    static const char *const scores[] = {"1", "2", "-1.5", "inf", "0", "1e30"};
    switch (letter) {
    case 'k':
        return keys[random_below(KEYS)];
    case 'm':
        return members[random_below(5)];
    case 'v':
        return values[random_below(5)];
    case 'i':
        return numbers[random_below(6)];
    default:
        return scores[random_below(6)];
    }
}

static size_t make_command(struct bytes argv[WORDS_MAX]) {
    size_t argc = 0;
    if (random_one_in(8)) {
        const char *script = scripts[random_below(sizeof scripts / sizeof scripts[0])];
        const char *const words[] = {"EVAL",        script,        "2",
                                     word_for('k'), word_for('k'), word_for('v')};
        for (; argc < 6; argc++) {
            argv[argc] = bytes_from_text(words[argc]);
        }
        return argc;
    }
    const char *at = templates[random_below(TEMPLATES)];
    while (*at != 0) {
        size_t size = strcspn(at, " ");
        argv[argc++] = at[0] == '%' ? bytes_from_text(word_for(at[1])) : bytes_of(at, size);
        at += size + (at[size] == ' ');
    }
    return argc;
}

static void step_commands(void) {
    struct buffer request;
    const struct redis_exec_head head = {
        .seed = random_next(), .n_commands = random_one_in(4) ? 1 + random_below(COMMANDS_MAX) : 1};
    buffer_init(&request);
    redis_exec_put_head(&request, &head);
    for (size_t i = 0; i < head.n_commands; i++) {
        struct bytes argv[WORDS_MAX];
        size_t argc = make_command(argv);
        redis_exec_put_command(&request, random_one_in(10), argv, argc);
    }
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REDIS_RULE_EXEC, .request = bytes_of(request.data, request.size)}};
    enum status status = apply(&command).status;
    assert(status == STATUS_OK || status == STATUS_CANCELED);
    buffer_clear(&request);
}

/* --- Expiry. --- */

struct choice {
    size_t left;
    int64_t lease_id;
};

static bool choose(void *opaque, const struct record *record) {
    struct choice *choice = opaque;
    struct redis_header header;
    assert(redis_header_decode(record_value(record), &header));
    if (header.deadline_ms != 0) {
        choice->lease_id = record->lease_id;
    }
    return choice->left-- > 0;
}

static void step_expire(void) {
    struct choice choice = {.left = random_below(KEYS)};
    struct lease_facts facts;
    struct key_range range = redis_range_database(&arena, 0);
    key_store_visit(state_machine_keys(machine), range.space, range.key, range.range_end, choose,
                    &choice);
    if (choice.lease_id == 0) {
        return;
    }
    assert(lease_table_find(state_machine_leases(machine), choice.lease_id, &facts));
    const struct command command = {
        .type = COMMAND_LEASE_EXPIRE,
        .expire = {.term = context.term, .n = 1, .ids = &choice.lease_id, .epochs = &facts.epoch}};
    assert(apply(&command).expire.n_ended == 1);
}

/* --- What must hold. --- */

struct check {
    const struct key_store *keys;
    size_t n_elements;
    size_t n_leases;
};

static size_t count_range(const struct check *check, const struct key_range *range) {
    return key_store_count(check->keys, range->space, range->key, range->range_end);
}

static void check_list(const struct check *check, const struct redis_header *header) {
    for (int64_t i = 0; i < header->count; i++) {
        struct bytes key = redis_key_position(&arena, header->id, header->head + i);
        assert(key_store_find(check->keys, KEY_SPACE_REDIS_RECORDS, key) != NULL);
    }
}

static bool check_header(void *opaque, const struct record *record) {
    struct check *check = opaque;
    struct redis_header header;
    struct lease_facts facts;
    assert(redis_header_decode(record_value(record), &header));
    if (record->lease_id != 0) {
        assert(lease_table_find(state_machine_leases(machine), record->lease_id, &facts));
        assert((facts.ttl_ms == LEASE_TTL_FOREVER) == (header.deadline_ms == 0));
        check->n_leases++;
    }
    if (header.type == REDIS_STRING) {
        assert((record->lease_id != 0) == (header.deadline_ms != 0));
        return true;
    }
    struct key_range all = redis_range_elements(&arena, header.id);
    struct key_range members = redis_range_members(&arena, header.id);
    struct key_range scores = redis_range_scores(&arena, header.id);
    size_t n = count_range(check, &all);
    size_t count = (size_t)header.count;
    assert(record->lease_id != 0 && count > 0);
    assert(n == (header.type == REDIS_ZSET ? 2 * count : count));
    assert(lease_table_key_count(state_machine_leases(machine), record->lease_id) == n + 1);
    if (header.type == REDIS_ZSET) {
        assert(count_range(check, &members) == count);
        assert(count_range(check, &scores) == count);
    } else if (header.type == REDIS_LIST) {
        check_list(check, &header);
    }
    check->n_elements += n;
    return true;
}

static void check_state(void) {
    struct check check = {.keys = state_machine_keys(machine)};
    key_store_visit(check.keys, KEY_SPACE_REDIS, bytes_of("", 1), bytes_of("", 1), check_header,
                    &check);
    struct key_range elements = redis_range_records('o');
    struct key_range messages = redis_range_records('p');
    assert(count_range(&check, &elements) == check.n_elements);
    assert(count_range(&check, &messages) == 0);
    assert(lease_table_count(state_machine_leases(machine)) == check.n_leases);
}

static void step_snapshot(void) {
    machines_compare(true);
    redis_script_forget(); /* what was compiled before makes no difference */
}

/* --- Runs. --- */

static void run(void) {
    machines_open(&rule_set);
    for (unsigned step = 0; step < STEPS; step++) {
        context.wall_ms += (int64_t)random_below(100);
        context.now_ms += random_below(100);
        if (random_one_in(20)) {
            step_expire();
        } else if (random_one_in(100)) {
            step_snapshot();
        } else {
            step_commands();
        }
        check_state();
        arena_reset(&arena);
    }
    machines_close();
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    arena_init(&arena);
    for (unsigned round = 0; round < ROUNDS; round++) {
        run();
    }
    arena_clear(&arena);
    return 0;
}
