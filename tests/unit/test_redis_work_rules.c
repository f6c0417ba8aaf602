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

static struct words words_of(const char *const *texts) {
    struct words words = {0};
    while (texts[words.n] != NULL) {
        words.argv[words.n] = bytes_from_text(texts[words.n]);
        words.n++;
    }
    return words;
}

#define WORDS(...) words_of((const char *const[]){__VA_ARGS__, NULL})

static void run(struct words words) {
    struct buffer request;
    buffer_init(&request);
    redis_exec_put_head(&request, &(struct redis_exec_head){.n_commands = 1});
    redis_exec_put_command(&request, 0, words.argv, words.n);
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REDIS_RULE_EXEC, .request = bytes_of(request.data, request.size)}};
    assert_int_equal(fixture_apply(&fixture, &command).status, STATUS_OK);
    buffer_clear(&request);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_value_that_is_written_again_counts, begin, end),
        cmocka_unit_test_setup_teardown(a_value_that_becomes_large_counts, begin, end),
        cmocka_unit_test_setup_teardown(elements_that_are_written_again_count, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
