#include "base/buffer.h"
#include "core/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

/* --- Helpers. --- */

/* Decodes a copy of exactly this size, so that a sanitizer sees a read past its end. */
static enum status decode(const void *data, size_t size, struct arena *arena,
                          struct command *out_command, size_t *out_left) {
    uint8_t *copy = arena_alloc(arena, size);
    uint8_t *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    if (size > 0) {
        memcpy(exact, data, size);
        memcpy(copy, data, size);
    }
    struct reader reader;
    reader_init(&reader, bytes_of(exact, size));
    enum status status = command_decode(&reader, arena, out_command);
    free(exact);
    if (status == STATUS_OK) {
        /* Again from memory that stays, since the command borrows its bytes. */
        reader_init(&reader, bytes_of(copy, size));
        status = command_decode(&reader, arena, out_command);
        assert_int_equal(status, STATUS_OK);
    }
    if (out_left != NULL) {
        *out_left = reader_left(&reader);
    }
    return status;
}

/* Encodes, decodes, encodes again: the bytes must be equal. Every beginning must be refused. */
static struct command round_trip(const struct command *command, struct arena *arena) {
    struct buffer first;
    struct buffer second;
    buffer_init(&first);
    buffer_init(&second);
    command_encode(&first, command);
    struct command decoded = {0};
    size_t left = 1;
    assert_int_equal(decode(first.data, first.size, arena, &decoded, &left), STATUS_OK);
    assert_int_equal(left, 0);
    assert_int_equal(decoded.type, command->type);
    command_encode(&second, &decoded);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    for (size_t size = 0; size < first.size; size++) {
        struct command untouched = {.type = COMMAND_BARRIER};
        assert_int_equal(decode(first.data, size, arena, &untouched, NULL), STATUS_MALFORMED);
        assert_int_equal(untouched.type, COMMAND_BARRIER);
    }
    buffer_clear(&first);
    buffer_clear(&second);
    return decoded;
}

static void assert_bytes(struct bytes bytes, const char *text) {
    assert_int_equal(bytes.size, strlen(text));
    assert_true(bytes_equal(bytes, bytes_from_text(text)));
}

static enum status decode_raw(const uint8_t *data, size_t size) {
    struct arena arena;
    arena_init(&arena);
    struct command ignored;
    enum status status = decode(data, size, &arena, &ignored, NULL);
    arena_clear(&arena);
    return status;
}

#define DECODE_RAW(...) decode_raw((const uint8_t[]){__VA_ARGS__}, sizeof(uint8_t[]){__VA_ARGS__})

/* --- Round trips. --- */

static void put_survives_the_log(void **state) {
    struct arena arena;
    arena_init(&arena);
    for (unsigned flags = 0; flags < 8; flags++) {
        struct command command = {.type = COMMAND_PUT,
                                  .put = {.key = bytes_of("k\0y", 3),
                                          .value = bytes_from_text("value"),
                                          .lease_id = INT64_MIN,
                                          .want_previous = (flags & 1) != 0,
                                          .ignore_value = (flags & 2) != 0,
                                          .ignore_lease = (flags & 4) != 0}};
        struct command decoded = round_trip(&command, &arena);
        assert_true(bytes_equal(decoded.put.key, command.put.key));
        assert_bytes(decoded.put.value, "value");
        assert_int_equal(decoded.put.lease_id, INT64_MIN);
        assert_int_equal(decoded.put.want_previous, command.put.want_previous);
        assert_int_equal(decoded.put.ignore_value, command.put.ignore_value);
        assert_int_equal(decoded.put.ignore_lease, command.put.ignore_lease);
    }
    arena_clear(&arena);
}

static void put_of_an_empty_value_survives_the_log(void **state) {
    struct arena arena;
    arena_init(&arena);
    struct command command = {.type = COMMAND_PUT, .put = {.key = bytes_from_text("k")}};
    struct command decoded = round_trip(&command, &arena);
    assert_int_equal(decoded.put.value.size, 0);
    assert_int_equal(decoded.put.lease_id, 0);
    arena_clear(&arena);
}

static void delete_survives_the_log(void **state) {
    struct arena arena;
    arena_init(&arena);
    struct command command = {.type = COMMAND_DELETE,
                              .delete = {.key = bytes_from_text("a"),
                                         .range_end = bytes_of("\0", 1),
                                         .want_previous = true}};
    struct command decoded = round_trip(&command, &arena);
    assert_bytes(decoded.delete.key, "a");
    assert_int_equal(decoded.delete.range_end.size, 1);
    assert_true(decoded.delete.want_previous);
    arena_clear(&arena);
}

static void extreme_numbers_survive_the_log(void **state) {
    const int64_t numbers[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 127, 128, INT64_MAX};
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct command compact = {.type = COMMAND_COMPACT, .compact = {.revision = numbers[i]}};
        assert_int_equal(round_trip(&compact, &arena).compact.revision, numbers[i]);
        struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = numbers[i]}};
        assert_int_equal(round_trip(&revoke, &arena).revoke.id, numbers[i]);
        struct command grant = {.type = COMMAND_LEASE_GRANT,
                                .grant = {.id = numbers[i],
                                          .ttl_ms = LEASE_TTL_FOREVER,
                                          .parent_id = numbers[i],
                                          .class = 255}};
        struct command granted = round_trip(&grant, &arena);
        assert_int_equal(granted.grant.id, numbers[i]);
        assert_int_equal(granted.grant.ttl_ms, LEASE_TTL_FOREVER);
        assert_int_equal(granted.grant.parent_id, numbers[i]);
        assert_int_equal(granted.grant.class, 255);
        struct command set_ttl = {.type = COMMAND_LEASE_SET_TTL,
                                  .set_ttl = {.id = numbers[i], .ttl_ms = 1}};
        struct command set = round_trip(&set_ttl, &arena);
        assert_int_equal(set.set_ttl.id, numbers[i]);
        assert_int_equal(set.set_ttl.ttl_ms, 1);
        struct command alarm = {.type = COMMAND_ALARM,
                                .alarm = {.activate = i % 2 == 0,
                                          .member_id = (uint64_t)numbers[i],
                                          .alarm = ALARM_CORRUPT}};
        struct command alarmed = round_trip(&alarm, &arena);
        assert_true(alarmed.alarm.member_id == (uint64_t)numbers[i]);
        assert_int_equal(alarmed.alarm.activate, i % 2 == 0);
        assert_int_equal(alarmed.alarm.alarm, ALARM_CORRUPT);
    }
    struct command barrier = {.type = COMMAND_BARRIER};
    round_trip(&barrier, &arena);
    arena_clear(&arena);
}

static void lists_of_ids_survive_the_log(void **state) {
    const int64_t ids[] = {INT64_MIN, -7, -1, 1, 2, 1000, INT64_MAX};
    const uint32_t epochs[] = {0, 1, UINT32_MAX, 5, 4, 0, 77};
    const int64_t remaining[] = {0, 1, 2, INT64_MAX, 500, 60000, 7};
    struct arena arena;
    arena_init(&arena);
    for (size_t n = 0; n <= sizeof ids / sizeof ids[0]; n++) {
        struct command expire = {
            .type = COMMAND_LEASE_EXPIRE,
            .expire = {.term = UINT64_MAX, .n = n, .ids = ids, .epochs = epochs}};
        struct command decoded = round_trip(&expire, &arena);
        assert_true(decoded.expire.term == UINT64_MAX);
        assert_int_equal(decoded.expire.n, n);
        struct command checkpoint = {
            .type = COMMAND_LEASE_CHECKPOINT,
            .checkpoint = {
                .term = 3, .n = n, .ids = ids, .epochs = epochs, .remaining_ms = remaining}};
        struct command checkpointed = round_trip(&checkpoint, &arena);
        assert_int_equal(checkpointed.checkpoint.term, 3);
        assert_int_equal(checkpointed.checkpoint.n, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(decoded.expire.ids[i], ids[i]);
            assert_int_equal(decoded.expire.epochs[i], epochs[i]);
            assert_int_equal(checkpointed.checkpoint.epochs[i], epochs[i]);
            assert_int_equal(checkpointed.checkpoint.ids[i], ids[i]);
            assert_int_equal(checkpointed.checkpoint.remaining_ms[i], remaining[i]);
        }
    }
    arena_clear(&arena);
}

/* --- Transactions. --- */

static void empty_txn_survives_the_log(void **state) {
    struct arena arena;
    arena_init(&arena);
    struct command command = {.type = COMMAND_TXN};
    struct command decoded = round_trip(&command, &arena);
    assert_int_equal(decoded.txn.n_compares, 0);
    assert_int_equal(decoded.txn.n_success, 0);
    assert_int_equal(decoded.txn.n_failure, 0);
    arena_clear(&arena);
}

static void txn_with_everything_in_it_survives_the_log(void **state) {
    struct arena arena;
    arena_init(&arena);
    struct operation innermost[] = {
        {.type = OPERATION_DELETE, .delete = {.key = bytes_from_text("deep")}}};
    struct operation inner[] = {
        {.type = OPERATION_TXN, .txn = {.n_failure = 1, .failure = innermost}}};
    struct compare inner_compares[] = {{.key = bytes_from_text("x"),
                                        .range_end = bytes_from_text("y"),
                                        .result = COMPARE_NOT_EQUAL,
                                        .target = COMPARE_VALUE,
                                        .value = bytes_of("\0\xff", 2)}};
    struct operation success[] = {
        {.type = OPERATION_RANGE,
         .range = {.key = bytes_from_text("a"),
                   .range_end = bytes_from_text("b"),
                   .limit = INT64_MAX,
                   .revision = -5,
                   .order = SORT_DESCENDING,
                   .target = SORT_BY_VALUE,
                   .keys_only = true,
                   .mod_revision_min = 1,
                   .mod_revision_max = 2,
                   .create_revision_min = 3,
                   .create_revision_max = INT64_MIN}},
        {.type = OPERATION_TXN,
         .txn = {.n_compares = 1, .compares = inner_compares, .n_success = 1, .success = inner}}};
    struct operation failure[] = {
        {.type = OPERATION_PUT,
         .put = {.key = bytes_from_text("p"), .value = bytes_from_text("v"), .lease_id = -1}},
        {.type = OPERATION_RANGE, .range = {.count_only = true}}};
    struct compare compares[] = {{.key = bytes_from_text("k"),
                                  .result = COMPARE_LESS,
                                  .target = COMPARE_LEASE,
                                  .number = INT64_MIN}};
    struct command command = {.type = COMMAND_TXN,
                              .txn = {.n_compares = 1,
                                      .compares = compares,
                                      .n_success = 2,
                                      .success = success,
                                      .n_failure = 2,
                                      .failure = failure}};
    struct txn_request txn = round_trip(&command, &arena).txn;
    assert_int_equal(txn.compares[0].number, INT64_MIN);
    assert_int_equal(txn.compares[0].target, COMPARE_LEASE);
    const struct range_request *range = &txn.success[0].range;
    assert_int_equal(range->limit, INT64_MAX);
    assert_int_equal(range->revision, -5);
    assert_int_equal(range->order, SORT_DESCENDING);
    assert_int_equal(range->target, SORT_BY_VALUE);
    assert_true(range->keys_only);
    assert_false(range->count_only);
    assert_int_equal(range->mod_revision_min, 1);
    assert_int_equal(range->mod_revision_max, 2);
    assert_int_equal(range->create_revision_min, 3);
    assert_int_equal(range->create_revision_max, INT64_MIN);
    const struct txn_request *nested = &txn.success[1].txn;
    assert_int_equal(nested->compares[0].value.size, 2);
    assert_bytes(nested->compares[0].range_end, "y");
    assert_bytes(nested->success[0].txn.failure[0].delete.key, "deep");
    assert_true(txn.failure[1].range.count_only);
    assert_int_equal(txn.failure[0].put.lease_id, -1);
    arena_clear(&arena);
}

static void txn_may_nest_to_the_limit_and_no_deeper(void **state) {
    struct arena arena;
    arena_init(&arena);
    struct operation levels[COMMAND_TXN_DEPTH_MAX];
    for (unsigned depth = COMMAND_TXN_DEPTH_MAX - 1; depth <= COMMAND_TXN_DEPTH_MAX; depth++) {
        for (unsigned i = 0; i < depth; i++) {
            levels[i] = (struct operation){.type = OPERATION_TXN};
            if (i > 0) {
                levels[i].txn.n_success = 1;
                levels[i].txn.success = &levels[i - 1];
            }
        }
        struct command command = {.type = COMMAND_TXN,
                                  .txn = {.n_success = 1, .success = &levels[depth - 1]}};
        struct buffer buffer;
        buffer_init(&buffer);
        command_encode(&buffer, &command);
        struct command ignored;
        assert_int_equal(decode(buffer.data, buffer.size, &arena, &ignored, NULL),
                         depth == COMMAND_TXN_DEPTH_MAX ? STATUS_MALFORMED : STATUS_OK);
        buffer_clear(&buffer);
    }
    arena_clear(&arena);
}

/* --- What is refused. --- */

static void unknown_types_are_malformed(void **state) {
    assert_int_equal(DECODE_RAW(0), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_BARRIER + 1), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(255), STATUS_MALFORMED);
    /* An operation of type 4 in a transaction without compares. */
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0, 1, 4, 0, 0, 0, 0, 0), STATUS_MALFORMED);
    /* A compare of result 4; of target 5. */
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 1, 4, 0, 1, 'k', 0, 0, 0, 0), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 1, 0, 5, 1, 'k', 0, 0, 0, 0), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 1, 0, 4, 1, 'k', 0, 0, 0, 0), STATUS_OK);
    /* A range of order 3; of target 5. */
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0, 1, 0, 1, 'k', 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0),
                     STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0, 1, 0, 1, 'k', 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0),
                     STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0, 1, 0, 1, 'k', 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0),
                     STATUS_OK);
}

/* One command has one encoding: what a newer version may mean by other bits is not guessed. */
static void unknown_flags_are_malformed(void **state) {
    assert_int_equal(DECODE_RAW(COMMAND_PUT, 7, 1, 'k', 0, 0), STATUS_OK);
    assert_int_equal(DECODE_RAW(COMMAND_PUT, 8, 1, 'k', 0, 0), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_DELETE, 1, 1, 'k', 0), STATUS_OK);
    assert_int_equal(DECODE_RAW(COMMAND_DELETE, 2, 1, 'k', 0), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_ALARM, 1, 1, 1), STATUS_OK);
    assert_int_equal(DECODE_RAW(COMMAND_ALARM, 2, 1, 1), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_ALARM, 1, 1, ALARM_CORRUPT + 1), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0, 1, 0, 1, 'k', 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0),
                     STATUS_OK);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0, 1, 0, 1, 'k', 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0),
                     STATUS_MALFORMED);
}

static void numbers_longer_than_needed_are_malformed(void **state) {
    assert_int_equal(DECODE_RAW(COMMAND_COMPACT, 0x01), STATUS_OK);
    assert_int_equal(DECODE_RAW(COMMAND_COMPACT, 0x81, 0x00), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_COMPACT, 0x80, 0x00), STATUS_MALFORMED);
}

static void a_put_without_a_key_is_malformed(void **state) {
    assert_int_equal(DECODE_RAW(COMMAND_PUT, 0, 0, 0, 0), STATUS_MALFORMED);
}

static void counts_that_lie_are_malformed(void **state) {
    /* More ids, compares, operations and bytes than there are. */
    assert_int_equal(DECODE_RAW(COMMAND_LEASE_EXPIRE, 1, 3, 1, 1), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_LEASE_EXPIRE, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                0xff, 0xff, 0x01),
                     STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_LEASE_CHECKPOINT, 1, 2, 1, 1, 1), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_TXN, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0), STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_PUT, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 'k'),
                     STATUS_MALFORMED);
    assert_int_equal(DECODE_RAW(COMMAND_PUT, 0, 5, 'k'), STATUS_MALFORMED);
}

static void lists_over_the_limit_are_malformed(void **state) {
    uint8_t data[4096] = {COMMAND_TXN, 0x81, 0x01}; /* 129 compares, and bytes enough for them */
    assert_int_equal(decode_raw(data, sizeof data), STATUS_MALFORMED);
    uint8_t more[4096] = {COMMAND_TXN, 0, 0x81, 0x01}; /* 129 operations */
    assert_int_equal(decode_raw(more, sizeof more), STATUS_MALFORMED);
}

static void commands_follow_each_other_in_one_buffer(void **state) {
    struct arena arena;
    arena_init(&arena);
    struct buffer buffer;
    buffer_init(&buffer);
    for (int64_t i = 0; i < 10; i++) {
        struct command command = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = i - 5}};
        command_encode(&buffer, &command);
    }
    struct reader reader;
    reader_init(&reader, bytes_of(buffer.data, buffer.size));
    for (int64_t i = 0; i < 10; i++) {
        struct command command;
        assert_int_equal(command_decode(&reader, &arena, &command), STATUS_OK);
        assert_int_equal(command.revoke.id, i - 5);
    }
    assert_int_equal(reader_left(&reader), 0);
    buffer_clear(&buffer);
    arena_clear(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_survives_the_log),
        cmocka_unit_test(put_of_an_empty_value_survives_the_log),
        cmocka_unit_test(delete_survives_the_log),
        cmocka_unit_test(extreme_numbers_survive_the_log),
        cmocka_unit_test(lists_of_ids_survive_the_log),
        cmocka_unit_test(empty_txn_survives_the_log),
        cmocka_unit_test(txn_with_everything_in_it_survives_the_log),
        cmocka_unit_test(txn_may_nest_to_the_limit_and_no_deeper),
        cmocka_unit_test(unknown_types_are_malformed),
        cmocka_unit_test(unknown_flags_are_malformed),
        cmocka_unit_test(numbers_longer_than_needed_are_malformed),
        cmocka_unit_test(a_put_without_a_key_is_malformed),
        cmocka_unit_test(counts_that_lie_are_malformed),
        cmocka_unit_test(lists_over_the_limit_are_malformed),
        cmocka_unit_test(commands_follow_each_other_in_one_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
