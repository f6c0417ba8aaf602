#include "core/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* --- Helpers: operations written shortly. --- */

static struct operation put(const char *key) {
    return (struct operation){.type = OPERATION_PUT, .put = {.key = bytes_from_text(key)}};
}

static struct operation get(const char *key) {
    return (struct operation){.type = OPERATION_RANGE, .range = {.key = bytes_from_text(key)}};
}

static struct operation del(const char *key, const char *range_end) {
    return (struct operation){
        .type = OPERATION_DELETE,
        .delete = {.key = bytes_from_text(key), .range_end = bytes_from_text(range_end)}};
}

static struct operation del_from(const char *key) {
    struct operation operation = del(key, "");
    operation.delete.range_end = bytes_of("\0", 1);
    return operation;
}

static struct operation txn(struct operation *success, size_t n_success, struct operation *failure,
                            size_t n_failure) {
    return (struct operation){.type = OPERATION_TXN,
                              .txn = {.n_success = n_success,
                                      .success = success,
                                      .n_failure = n_failure,
                                      .failure = failure}};
}

static enum status check_branches(struct operation *success, size_t n_success,
                                  struct operation *failure, size_t n_failure) {
    struct command command = {.type = COMMAND_TXN};
    command.txn = txn(success, n_success, failure, n_failure).txn;
    return command_check(&command);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* The same operations as either branch must be judged alike. */
#define CHECK_BRANCH(expected, ...)                                                                \
    do {                                                                                           \
        struct operation operations_[] = {__VA_ARGS__};                                            \
        assert_int_equal(check_branches(operations_, COUNT(operations_), NULL, 0), expected);      \
        assert_int_equal(check_branches(NULL, 0, operations_, COUNT(operations_)), expected);      \
    } while (0)

static enum status check_grant(int64_t ttl_ms) {
    struct command grant = {.type = COMMAND_LEASE_GRANT, .grant = {.id = 1, .ttl_ms = ttl_ms}};
    struct command set = {.type = COMMAND_LEASE_SET_TTL, .set_ttl = {.id = 1, .ttl_ms = ttl_ms}};
    assert_int_equal(command_check(&grant), command_check(&set));
    return command_check(&grant);
}

/* --- Single operations. --- */

static void a_key_must_be_provided(void **state) {
    struct command command = {.type = COMMAND_PUT};
    assert_int_equal(command_check(&command), STATUS_KEY_EMPTY);
    command = (struct command){.type = COMMAND_DELETE};
    assert_int_equal(command_check(&command), STATUS_KEY_EMPTY);
    CHECK_BRANCH(STATUS_KEY_EMPTY, put(""));
    CHECK_BRANCH(STATUS_KEY_EMPTY, get("a"), get(""));
    CHECK_BRANCH(STATUS_KEY_EMPTY, del("", ""));
    struct operation inner[] = {put("")};
    CHECK_BRANCH(STATUS_KEY_EMPTY, txn(NULL, 0, inner, 1));
    struct compare compares[] = {{.target = COMPARE_MOD}};
    command = (struct command){.type = COMMAND_TXN, .txn = {.n_compares = 1, .compares = compares}};
    assert_int_equal(command_check(&command), STATUS_KEY_EMPTY);
    compares[0].key = bytes_of("\0", 1);
    assert_int_equal(command_check(&command), STATUS_OK);
}

static void ignoring_the_value_and_giving_one_is_refused(void **state) {
    struct command command = {
        .type = COMMAND_PUT,
        .put = {.key = bytes_from_text("k"), .value = bytes_from_text("v"), .ignore_value = true}};
    assert_int_equal(command_check(&command), STATUS_VALUE_PROVIDED);
    struct operation operation = {.type = OPERATION_PUT, .put = command.put};
    CHECK_BRANCH(STATUS_VALUE_PROVIDED, operation);
    command.put.value.size = 0;
    assert_int_equal(command_check(&command), STATUS_OK);
}

static void ignoring_the_lease_and_giving_one_is_refused(void **state) {
    struct command command = {
        .type = COMMAND_PUT,
        .put = {.key = bytes_from_text("k"), .lease_id = -1, .ignore_lease = true}};
    assert_int_equal(command_check(&command), STATUS_LEASE_PROVIDED);
    struct operation operation = {.type = OPERATION_PUT, .put = command.put};
    CHECK_BRANCH(STATUS_LEASE_PROVIDED, operation);
    command.put.lease_id = 0;
    assert_int_equal(command_check(&command), STATUS_OK);
}

static void a_ttl_has_bounds(void **state) {
    assert_int_equal(check_grant(INT64_MIN), STATUS_INVALID);
    assert_int_equal(check_grant(-1), STATUS_INVALID);
    assert_int_equal(check_grant(0), STATUS_INVALID);
    assert_int_equal(check_grant(1), STATUS_OK);
    assert_int_equal(check_grant(LEASE_TTL_MS_MAX), STATUS_OK);
    assert_int_equal(check_grant(LEASE_TTL_MS_MAX + 1), STATUS_LEASE_TTL_TOO_LARGE);
    assert_int_equal(check_grant(LEASE_TTL_FOREVER - 1), STATUS_LEASE_TTL_TOO_LARGE);
    assert_int_equal(check_grant(LEASE_TTL_FOREVER), STATUS_OK);
}

static void an_unknown_alarm_or_command_is_invalid(void **state) {
    struct command command = {.type = COMMAND_ALARM, .alarm = {.alarm = ALARM_CORRUPT}};
    assert_int_equal(command_check(&command), STATUS_OK);
    command.alarm.alarm = (enum alarm_type)(ALARM_CORRUPT + 1);
    assert_int_equal(command_check(&command), STATUS_INVALID);
    command.type = (enum command_type)99;
    assert_int_equal(command_check(&command), STATUS_INVALID);
    command.type = (enum command_type)0;
    assert_int_equal(command_check(&command), STATUS_INVALID);
}

static void commands_without_rules_pass(void **state) {
    const enum command_type types[] = {COMMAND_COMPACT,      COMMAND_LEASE_REVOKE,
                                       COMMAND_LEASE_EXPIRE, COMMAND_LEASE_CHECKPOINT,
                                       COMMAND_BARRIER,      COMMAND_TXN};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct command command = {.type = types[i]};
        assert_int_equal(command_check(&command), STATUS_OK);
    }
}

/* --- Duplicate keys. --- */

static void a_key_is_put_once_in_a_branch(void **state) {
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("a"), put("a"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("a"), put("b"), get("c"), put("a"));
    CHECK_BRANCH(STATUS_OK, put("a"), put("b"), put("aa"), put("ab"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("d"), put("c"), put("b"), put("a"), put("c"));
}

static void the_two_branches_may_put_the_same_key(void **state) {
    struct operation success[] = {put("a"), del("b", "")};
    struct operation failure[] = {put("a"), put("b")};
    assert_int_equal(check_branches(success, 2, failure, 2), STATUS_OK);
}

static void a_key_is_not_put_inside_a_deleted_range(void **state) {
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("a"), del("a", ""));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, del("a", ""), put("a"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, del("a", "c"), put("b"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("b"), del("a", "c"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("a"), del("a", "c"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("zzz"), del_from("b"));
    CHECK_BRANCH(STATUS_OK, put("a"), del_from("b"));
    CHECK_BRANCH(STATUS_OK, del("a", "c"), put("c"));
    CHECK_BRANCH(STATUS_OK, put("aa"), del("a", ""));
    CHECK_BRANCH(STATUS_OK, del("b", "a"), put("a"), put("b")); /* an empty range */
}

static void overlapping_deletes_and_reads_are_fine(void **state) {
    CHECK_BRANCH(STATUS_OK, del("a", "z"), del("b", "c"), del("b", ""), del_from("a"));
    CHECK_BRANCH(STATUS_OK, put("a"), get("a"), get("a"));
}

static void nested_branches_exclude_each_other(void **state) {
    struct operation a[] = {put("a")};
    struct operation delete_a[] = {del("a", "")};
    struct operation b[] = {put("b")};
    CHECK_BRANCH(STATUS_OK, txn(a, 1, a, 1));
    CHECK_BRANCH(STATUS_OK, txn(a, 1, delete_a, 1));
    CHECK_BRANCH(STATUS_OK, txn(a, 1, b, 1), put("c"));
}

static void what_a_nested_branch_writes_may_not_be_written_outside(void **state) {
    struct operation a[] = {put("a")};
    struct operation b[] = {put("b")};
    struct operation delete_a[] = {del("a", "")};
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(a, 1, NULL, 0), put("a"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("a"), txn(NULL, 0, a, 1));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(b, 1, a, 1), txn(a, 1, NULL, 0));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, del("a", "b"), txn(b, 1, a, 1));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(b, 1, a, 1), del("a", "b"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(delete_a, 1, NULL, 0), put("a"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, put("a"), txn(NULL, 0, delete_a, 1));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(delete_a, 1, NULL, 0), txn(a, 1, NULL, 0));
    struct operation twice[] = {put("a"), put("a")};
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(NULL, 0, twice, 2));
}

static bool is_of_first_version(struct operation *operations, size_t n) {
    struct command command = {.type = COMMAND_TXN};
    command.txn = txn(operations, n, NULL, 0).txn;
    return command_is_of_first_version(&command);
}

static void a_later_nested_transaction_may_delete_what_an_earlier_one_put(void **state) {
    struct operation a[] = {put("a")};
    struct operation delete_a[] = {del("a", "")};
    struct operation deep_a[] = {txn(a, 1, NULL, 0)};
    struct operation deep_delete[] = {txn(NULL, 0, delete_a, 1)};
    CHECK_BRANCH(STATUS_OK, txn(a, 1, NULL, 0), txn(delete_a, 1, NULL, 0));
    CHECK_BRANCH(STATUS_OK, txn(a, 1, NULL, 0), get("a"), txn(NULL, 0, delete_a, 1));
    CHECK_BRANCH(STATUS_OK, txn(deep_a, 1, NULL, 0), txn(deep_delete, 1, NULL, 0));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(delete_a, 1, NULL, 0), txn(a, 1, NULL, 0));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(deep_delete, 1, NULL, 0), txn(deep_a, 1, NULL, 0));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(a, 1, NULL, 0), del("a", ""), txn(delete_a, 1, NULL, 0));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, txn(a, 1, NULL, 0), txn(delete_a, 1, NULL, 0), put("a"));
    struct operation new[] = {txn(a, 1, NULL, 0), txn(delete_a, 1, NULL, 0)};
    struct operation old[] = {txn(a, 1, delete_a, 1), put("b")};
    assert_false(is_of_first_version(new, 2));
    assert_true(is_of_first_version(old, 2));
}

static void deeply_nested_writes_are_seen(void **state) {
    struct operation innermost[] = {put("deep")};
    struct operation middle[] = {txn(NULL, 0, innermost, 1)};
    struct operation outer[] = {txn(middle, 1, NULL, 0)};
    CHECK_BRANCH(STATUS_OK, outer[0], put("other"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, outer[0], put("deep"));
    CHECK_BRANCH(STATUS_KEY_DUPLICATE, outer[0], outer[0]);
}

/* --- Limits. --- */

enum { OPERATIONS_MANY = COMMAND_TXN_OPERATIONS_MAX + 1 };

static void fill_with_reads(struct operation *operations, size_t n) {
    for (size_t i = 0; i < n; i++) {
        operations[i] = get("a");
    }
}

static void each_list_holds_128_operations(void **state) {
    struct operation many[OPERATIONS_MANY];
    struct compare compares[OPERATIONS_MANY];
    fill_with_reads(many, OPERATIONS_MANY);
    for (size_t i = 0; i < OPERATIONS_MANY; i++) {
        compares[i] = (struct compare){.key = bytes_from_text("k")};
    }
    struct command command = {.type = COMMAND_TXN,
                              .txn = {.n_compares = 128,
                                      .compares = compares,
                                      .n_success = 128,
                                      .success = many,
                                      .n_failure = 128,
                                      .failure = many}};
    assert_int_equal(command_check(&command), STATUS_OK);
    command.txn.n_failure = 129;
    assert_int_equal(command_check(&command), STATUS_TOO_MANY_OPERATIONS);
    command.txn.n_failure = 0;
    command.txn.n_success = 129;
    assert_int_equal(command_check(&command), STATUS_TOO_MANY_OPERATIONS);
    command.txn.n_success = 0;
    command.txn.n_compares = 129;
    assert_int_equal(command_check(&command), STATUS_TOO_MANY_OPERATIONS);
}

static void a_nested_list_gets_what_the_outer_one_left(void **state) {
    struct operation inner[OPERATIONS_MANY];
    fill_with_reads(inner, OPERATIONS_MANY);
    CHECK_BRANCH(STATUS_OK, txn(inner, 127, NULL, 0));
    CHECK_BRANCH(STATUS_TOO_MANY_OPERATIONS, txn(inner, 128, NULL, 0));
    CHECK_BRANCH(STATUS_OK, get("a"), get("a"), txn(NULL, 0, inner, 125));
    CHECK_BRANCH(STATUS_TOO_MANY_OPERATIONS, get("a"), get("a"), txn(NULL, 0, inner, 126));
    /* The longest list counts, also when it is the other branch. */
    struct operation nested[] = {txn(inner, 100, NULL, 0)};
    assert_int_equal(check_branches(nested, 1, inner, 28), STATUS_OK);
    assert_int_equal(check_branches(nested, 1, inner, 29), STATUS_TOO_MANY_OPERATIONS);
}

static void all_operations_together_are_limited(void **state) {
    struct operation inner[60];
    struct operation outer[60];
    fill_with_reads(inner, COUNT(inner));
    for (size_t i = 0; i < COUNT(outer); i++) {
        outer[i] = txn(inner, COUNT(inner), NULL, 0);
    }
    /* n and n times 60: 33 give 2013, 34 give 2074. */
    assert_int_equal(check_branches(outer, 33, NULL, 0), STATUS_OK);
    assert_int_equal(check_branches(outer, 34, NULL, 0), STATUS_TOO_MANY_OPERATIONS);
    /* 33 + 33 * 60 + 35 = 2048. */
    assert_int_equal(check_branches(outer, 33, inner, 35), STATUS_OK);
    assert_int_equal(check_branches(outer, 33, inner, 36), STATUS_TOO_MANY_OPERATIONS);
}

static void depth_is_limited(void **state) {
    struct operation levels[COMMAND_TXN_DEPTH_MAX];
    levels[0] = txn(NULL, 0, NULL, 0);
    for (size_t i = 1; i < COMMAND_TXN_DEPTH_MAX; i++) {
        levels[i] = txn(&levels[i - 1], 1, NULL, 0);
    }
    /* The outermost transaction is the first level. */
    assert_int_equal(check_branches(&levels[COMMAND_TXN_DEPTH_MAX - 2], 1, NULL, 0), STATUS_OK);
    assert_int_equal(check_branches(&levels[COMMAND_TXN_DEPTH_MAX - 1], 1, NULL, 0),
                     STATUS_TOO_MANY_OPERATIONS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_must_be_provided),
        cmocka_unit_test(ignoring_the_value_and_giving_one_is_refused),
        cmocka_unit_test(ignoring_the_lease_and_giving_one_is_refused),
        cmocka_unit_test(a_ttl_has_bounds),
        cmocka_unit_test(an_unknown_alarm_or_command_is_invalid),
        cmocka_unit_test(commands_without_rules_pass),
        cmocka_unit_test(a_key_is_put_once_in_a_branch),
        cmocka_unit_test(the_two_branches_may_put_the_same_key),
        cmocka_unit_test(a_key_is_not_put_inside_a_deleted_range),
        cmocka_unit_test(overlapping_deletes_and_reads_are_fine),
        cmocka_unit_test(nested_branches_exclude_each_other),
        cmocka_unit_test(what_a_nested_branch_writes_may_not_be_written_outside),
        cmocka_unit_test(a_later_nested_transaction_may_delete_what_an_earlier_one_put),
        cmocka_unit_test(deeply_nested_writes_are_seen),
        cmocka_unit_test(each_list_holds_128_operations),
        cmocka_unit_test(a_nested_list_gets_what_the_outer_one_left),
        cmocka_unit_test(all_operations_together_are_limited),
        cmocka_unit_test(depth_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
