#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "core/state_machine.h"

static struct state_machine *machine;
static struct arena arena;

static enum status apply(struct command command) {
    const struct apply_context context = {.term = 1, .now_ms = 1000, .wall_ms = 0};
    struct outcome outcome;
    state_machine_apply(machine, &command, &context, &arena, &outcome);
    return outcome.status;
}

static enum status apply_alarm(bool activate) {
    return apply(
        (struct command){.type = COMMAND_ALARM,
                         .alarm = {.activate = activate, .member_id = 9, .alarm = ALARM_NO_SPACE}});
}

static struct command a_put(void) {
    return (struct command){
        .type = COMMAND_PUT,
        .put = {.key = bytes_from_text("key"), .value = bytes_from_text("value")}};
}

static struct command a_grant(int64_t id) {
    return (struct command){.type = COMMAND_LEASE_GRANT, .grant = {.id = id, .ttl_ms = 5000}};
}

static int set_up(void **state) {
    arena_init(&arena);
    machine = state_machine_create(NULL);
    assert_int_equal(apply(a_put()), STATUS_OK);
    assert_int_equal(apply(a_grant(7)), STATUS_OK);
    assert_int_equal(apply_alarm(true), STATUS_OK);
    return 0;
}

static int tear_down(void **state) {
    state_machine_destroy(machine);
    arena_clear(&arena);
    return 0;
}

static void what_could_grow_is_refused_while_the_alarm_stands(void **state) {
    int64_t revision = key_store_revision(state_machine_keys(machine));
    assert_int_equal(apply(a_put()), STATUS_NO_SPACE);
    assert_int_equal(apply(a_grant(8)), STATUS_NO_SPACE);
    assert_int_equal(key_store_revision(state_machine_keys(machine)), revision);
    assert_int_equal(lease_table_count(state_machine_leases(machine)), 1);
}

static void a_transaction_with_a_put_in_any_branch_is_refused(void **state) {
    struct operation put = {.type = OPERATION_PUT, .put = a_put().put};
    struct operation range = {.type = OPERATION_RANGE, .range = {.key = bytes_from_text("key")}};
    struct operation nested = {.type = OPERATION_TXN, .txn = {.n_failure = 1, .failure = &put}};
    struct command txn = {.type = COMMAND_TXN, .txn = {.n_success = 1, .success = &range}};
    assert_int_equal(apply(txn), STATUS_OK);
    txn.txn.n_failure = 1;
    txn.txn.failure = &put;
    assert_int_equal(apply(txn), STATUS_NO_SPACE);
    txn.txn.failure = &nested;
    assert_int_equal(apply(txn), STATUS_NO_SPACE);
}

static void what_makes_room_goes_on(void **state) {
    struct command delete = {.type = COMMAND_DELETE, .delete = {.key = bytes_from_text("key")}};
    struct command compact = {.type = COMMAND_COMPACT, .compact = {.revision = 3}};
    struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = 7}};
    assert_int_equal(apply(delete), STATUS_OK);
    assert_int_equal(apply(compact), STATUS_OK);
    assert_int_equal(apply(revoke), STATUS_OK);
}

static void writes_go_on_once_the_alarm_is_disarmed(void **state) {
    assert_int_equal(apply_alarm(false), STATUS_OK);
    assert_int_equal(apply(a_put()), STATUS_OK);
    assert_int_equal(apply(a_grant(8)), STATUS_OK);
}

int main(void) {
#define ALARMED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ALARMED(what_could_grow_is_refused_while_the_alarm_stands),
        ALARMED(a_transaction_with_a_put_in_any_branch_is_refused),
        ALARMED(what_makes_room_goes_on),
        ALARMED(writes_go_on_once_the_alarm_is_disarmed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
