/* What commands may be in work, by what is there. */
#include "doors/redis/redis_work_rules.h"

#include "core/cluster_version.h"
#include "doors/redis/redis_exec_rules.h"
#include "state_machine_fixture.h"

enum { LARGE = 1000 * 1000, WORDS_MAX = 8, LEAST = 6 * 1024 };

static const struct rule *const rules[] = {&redis_rule_exec};
static const struct rule_set rule_set = {rules, 1};
static struct fixture fixture;
static char large[LARGE + 1];

struct words {
    struct bytes argv[WORDS_MAX];
    size_t n;
};

static const struct redis_command *command_of(struct words words) {
    return redis_command_find(words.argv[0]);
}

static struct words words_of(const char *const *texts) {
    struct words words = {0};
    while (texts[words.n] != NULL) {
        words.argv[words.n] = bytes_from_text(texts[words.n]);
        words.n++;
    }
    return words;
}

#define WORDS(...) words_of((const char *const[]){__VA_ARGS__, NULL})

static enum status status_of(struct words words) {
    struct buffer request;
    buffer_init(&request);
    redis_exec_put_head(&request, &(struct redis_exec_head){.n_commands = 1});
    redis_exec_put_command(&request, 0, words.argv, words.n);
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REDIS_RULE_EXEC, .request = bytes_of(request.data, request.size)}};
    enum status status = fixture_apply(&fixture, &command).status;
    buffer_clear(&request);
    return status;
}

static void run(struct words words) {
    assert_int_equal(status_of(words), STATUS_OK);
}

static size_t work_behind(size_t size_to_come, struct words words) {
    return redis_work_of_values(state_machine_keys(fixture.machine), 0,
                                redis_command_find(words.argv[0]), words.argv, words.n,
                                size_to_come);
}

static size_t work_of(struct words words) {
    return work_behind(0, words);
}

static int begin(void **state) {
    fixture_init(&fixture);
    state_machine_destroy(fixture.machine);
    fixture.machine = state_machine_create(&(struct state_machine_options){.rules = &rule_set});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(&fixture, &raise).status, STATUS_OK);
    memset(large, 'x', LARGE);
    run(WORDS("SET", "large", large));
    run(WORDS("SET", "small", "1"));
    run(WORDS("RPUSH", "list", "1", "2"));
    return 0;
}

static int end(void **state) {
    fixture_clear(&fixture);
    return 0;
}

static void a_value_that_is_written_again_counts(void **state) {
    static const char *const commands[] = {"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        assert_true(work_of(WORDS(commands[i], "large", "1000")) >= LARGE / 4);
        assert_int_equal(work_of(WORDS(commands[i], "small", "1000")), 0);
        assert_int_equal(work_of(WORDS(commands[i], "list", "1000")), 0);
        assert_int_equal(work_of(WORDS(commands[i], "none", "1000")), 0);
    }
    assert_true(work_of(WORDS("PERSIST", "large")) >= LARGE / 4);
    assert_true(work_of(WORDS("RENAME", "large", "other")) >= LARGE / 4);
    assert_true(work_of(WORDS("RENAMENX", "large", "other")) >= LARGE / 4);
}

static void a_value_that_becomes_large_counts(void **state) {
    assert_true(work_of(WORDS("SETRANGE", "none", "1000000", "x")) >= LARGE / 4);
    assert_int_equal(work_of(WORDS("SETRANGE", "none", "0", "x")), LEAST);
    assert_int_equal(work_of(WORDS("SETRANGE", "none", "9999999999", "x")), LEAST); /* refused */
    assert_true(work_behind(LARGE, WORDS("EXPIRE", "small", "1000")) >= LARGE / 4);
    assert_int_equal(work_behind(LARGE, WORDS("SET", "small", "1")), 0);
    assert_true(redis_work_of_made(redis_command_find(bytes_from_text("RENAME")), 16, LARGE / 4) >=
                LARGE / 4);
    assert_int_equal(
        redis_work_of_made(redis_command_find(bytes_from_text("EXPIRE")), 16, LARGE / 4), 0);
}

static void elements_that_are_written_again_count(void **state) {
    assert_true(work_of(WORDS("RPOPLPUSH", "list", "list")) < 2 * LEAST);
    run(WORDS("RPUSH", "list", large));
    assert_true(work_of(WORDS("RPOPLPUSH", "list", "list")) >= LARGE / 4);
    assert_true(work_of(WORDS("BLMOVE", "list", "list", "LEFT", "LEFT", "0")) >= LARGE / 4);
    assert_true(work_of(WORDS("LREM", "list", "1", "1")) >= LARGE / 4);
    assert_true(work_of(WORDS("COPY", "list", "other")) >= LARGE / 4);
    run(WORDS("SADD", "set", large));
    assert_true(work_of(WORDS("SUNIONSTORE", "other", "set")) >= LARGE / 4);
}

static void fill_zset(const char *key, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char member[24];
        snprintf(member, sizeof member, "%zu", i);
        run(WORDS("ZADD", key, "1", member));
    }
}

static size_t work_before(struct words words) {
    return redis_work_of(state_machine_keys(fixture.machine), 0, command_of(words), words.argv,
                         words.n);
}

static void what_is_taken_counts(void **state) {
    fill_zset("zset", 500);
    size_t one = work_before(WORDS("ZMPOP", "1", "zset", "MIN"));
    assert_true(one < 200);
    assert_true(work_before(WORDS("ZMPOP", "1", "zset", "MIN", "COUNT", "100")) >= 100 * 16);
    assert_true(work_before(WORDS("ZMPOP", "1", "zset", "MIN", "COUNT", "99999")) < 600 * 32);
    assert_true(work_before(WORDS("ZMPOP", "2", "none", "zset", "MAX")) >= 1000);
    assert_true(work_before(WORDS("BZMPOP", "0", "1", "zset", "MAX")) >= 1000);
    assert_true(work_before(WORDS("LMPOP", "1", "list", "RIGHT", "COUNT", "2")) < 300);
}

static void sources_count_and_what_is_replaced(void **state) {
    fill_zset("zset", 500);
    assert_true(work_before(WORDS("ZUNION", "1", "zset")) >= 500 * 8);
    assert_true(work_before(WORDS("ZUNION", "3", "zset", "zset", "zset")) >= 3 * 500 * 8);
    assert_true(work_before(WORDS("ZINTERCARD", "2", "zset", "none")) >= 500 * 8);
    assert_true(work_before(WORDS("ZUNIONSTORE", "zset", "1", "none")) >= 500 * 16);
    assert_true(work_before(WORDS("ZUNIONSTORE", "none", "2", "zset", "zset")) >= 2 * 500 * 8);
    assert_true(work_before(WORDS("ZUNIONSTORE", "none", "1", "none")) < 100);
}

/* More keys than the estimate of a rule looks at: those that it does look at count. */
static void keys_that_are_not_looked_at_do_not_hide_others(void **state) {
    enum { KEYS = 200 };
    struct buffer request;
    struct bytes argv[2 + KEYS] = {bytes_from_text("ZUNION"), bytes_from_text("200")};
    fill_zset("zset", 50);
    for (size_t i = 0; i < KEYS; i++) {
        argv[2 + i] = bytes_from_text("zset");
    }
    buffer_init(&request);
    redis_exec_put_head(&request, &(struct redis_exec_head){.n_commands = 1});
    redis_exec_put_command(&request, 0, argv, 2 + KEYS);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REDIS_RULE_EXEC, .request = bytes_of(request.data, request.size)}};
    assert_true(state_machine_rule_work(fixture.machine, &command) >= 60 * 50 * 8);
    buffer_clear(&request);
}

static void long_members_that_are_compared_count(void **state) {
    run(WORDS("SADD", "long", large));
    run(WORDS("ZADD", "other", "1", large));
    assert_true(work_of(WORDS("SINTER", "long", "other")) >= LARGE / 4);
    assert_true(work_of(WORDS("ZINTER", "2", "long", "other")) >= LARGE / 2);
    assert_true(work_of(WORDS("ZUNIONSTORE", "to", "1", "other")) >= LARGE / 4);
    struct words words = WORDS("SINTER", "long", "long");
    assert_true(redis_work_of_members(state_machine_keys(fixture.machine), 0, command_of(words),
                                      words.argv, words.n, 10) >= LARGE / 2);
}

/* Two sets of ten members each that begin alike, and a third: many comparisons of all their bytes.
 */
/* SETBIT and BITFIELD write all of a value, also one that they make; BITCOUNT reads all of it. */
static void bits_of_large_values_count(void **state) {
    assert_true(work_of(WORDS("SETBIT", "large", "0", "1")) >= LARGE / 4);
    assert_true(work_of(WORDS("SETBIT", "none", "7999999", "1")) >= LARGE / 4);
    assert_int_equal(work_of(WORDS("SETBIT", "none", "4294967295", "1")), LEAST); /* refused */
    assert_true(work_of(WORDS("BITFIELD", "large", "GET", "u8", "0")) >= LARGE / 4);
    assert_true(work_of(WORDS("BITFIELD", "none", "SET", "u8", "#999999", "1")) >= LARGE / 4);
    assert_int_equal(work_of(WORDS("BITFIELD", "none", "SET", "u8")), LEAST);
    assert_true(work_before(WORDS("BITCOUNT", "large")) >= LARGE / 128);
    assert_true(work_before(WORDS("BITPOS", "large", "1")) >= LARGE / 128);
    assert_true(work_before(WORDS("BITCOUNT", "small")) < 100);
    struct words words = WORDS("SETBIT", "large", "0", "1");
    assert_true(redis_work_kept_bytes(state_machine_keys(fixture.machine), 0, command_of(words),
                                      words.argv, words.n) >= LARGE);
}

static void comparisons_of_long_members_are_bounded(void **state) {
    static const char *const sets[] = {"a", "b", "c"};
    static char member[LARGE + 1];
    memset(member, 'x', LARGE);
    for (size_t i = 0; i < 30; i++) {
        member[LARGE - 1] = (char)('a' + i / 3);
        run(WORDS("SADD", sets[i % 3], member));
    }
    assert_int_equal(status_of(WORDS("SINTERCARD", "2", "a", "b")), STATUS_OK);
    assert_int_equal(status_of(WORDS("SINTERCARD", "3", "a", "b", "c")), STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(status_of(WORDS("ZINTERCARD", "3", "a", "b", "c")), STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(status_of(WORDS("ZINTERCARD", "3", "a", "a", "a")), STATUS_OK);
}

static void keys_behind_their_number_are_found(void **state) {
    struct words words = WORDS("ZUNIONSTORE", "to", "2", "a", "b", "AGGREGATE", "MAX");
    struct redis_key_places places;
    assert_true(redis_command_keys(command_of(words), words.argv, words.n, &places));
    assert_int_equal(places.n, 3);
    assert_int_equal(redis_key_place(&places, 0), 1);
    assert_int_equal(redis_key_place(&places, 1), 3);
    assert_int_equal(redis_key_place(&places, 2), 4);
    words = WORDS("ZUNIONSTORE", "to", "5", "a", "b");
    assert_false(redis_command_keys(command_of(words), words.argv, words.n, &places));
    words = WORDS("BZMPOP", "0", "2", "a", "b", "MIN");
    assert_true(redis_command_keys(command_of(words), words.argv, words.n, &places));
    assert_int_equal(places.n, 2);
    assert_int_equal(redis_key_place(&places, 1), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_value_that_is_written_again_counts, begin, end),
        cmocka_unit_test_setup_teardown(a_value_that_becomes_large_counts, begin, end),
        cmocka_unit_test_setup_teardown(elements_that_are_written_again_count, begin, end),
        cmocka_unit_test_setup_teardown(what_is_taken_counts, begin, end),
        cmocka_unit_test_setup_teardown(sources_count_and_what_is_replaced, begin, end),
        cmocka_unit_test_setup_teardown(keys_that_are_not_looked_at_do_not_hide_others, begin, end),
        cmocka_unit_test_setup_teardown(long_members_that_are_compared_count, begin, end),
        cmocka_unit_test_setup_teardown(bits_of_large_values_count, begin, end),
        cmocka_unit_test_setup_teardown(comparisons_of_long_members_are_bounded, begin, end),
        cmocka_unit_test_setup_teardown(keys_behind_their_number_are_found, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
