#include "raft/log_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { PAYLOAD = 21, SIZE = LOG_RECORD_HEAD_SIZE + 24, LIFE = 1234567, SEED = 99 };

static void make(uint8_t bytes[SIZE], struct log_record *record) {
    *record = (struct log_record){.life = LIFE,
                                  .sequence = 5,
                                  .batch = 3,
                                  .index = 17,
                                  .term = 4,
                                  .size = PAYLOAD,
                                  .type = RECORD_COMMAND,
                                  .flags = RECORD_LAST_OF_BATCH};
    memset(bytes, 0, SIZE);
    memset(bytes + LOG_RECORD_HEAD_SIZE, 7, PAYLOAD);
    log_record_encode(record, SEED, bytes + LOG_RECORD_HEAD_SIZE, bytes);
}

static void a_record_is_read_as_it_was_written(void **state) {
    uint8_t bytes[SIZE];
    struct log_record record;
    struct log_record read;
    make(bytes, &record);
    assert_int_equal(log_record_size(PAYLOAD), SIZE);
    assert_true(log_record_decode(bytes, SIZE, LIFE, SEED, &read));
    assert_int_equal(read.chain, record.chain);
    assert_int_equal(read.sequence, 5);
    assert_int_equal(read.batch, 3);
    assert_int_equal(read.index, 17);
    assert_int_equal(read.term, 4);
    assert_int_equal(read.size, PAYLOAD);
    assert_int_equal(read.type, RECORD_COMMAND);
    assert_int_equal(read.flags, RECORD_LAST_OF_BATCH);
}

static void it_is_valid_in_one_place_only(void **state) {
    uint8_t bytes[SIZE];
    struct log_record record;
    make(bytes, &record);
    assert_false(log_record_decode(bytes, SIZE, LIFE + 1, SEED, &record));
    assert_false(log_record_decode(bytes, SIZE, LIFE, SEED + 1, &record));
    assert_true(log_record_decode_head(bytes, SIZE, LIFE, &record));
    assert_false(log_record_decode_head(bytes, SIZE, LIFE + 1, &record));
}

static void every_flipped_bit_and_every_end_is_seen(void **state) {
    uint8_t bytes[SIZE];
    struct log_record record;
    make(bytes, &record);
    for (size_t bit = 0; bit < SIZE * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(log_record_decode(bytes, SIZE, LIFE, SEED, &record));
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t size = 0; size < SIZE; size++) {
        uint8_t shorter[SIZE];
        memcpy(shorter, bytes, size);
        assert_false(log_record_decode(shorter, size, LIFE, SEED, &record));
    }
}

static void heads_are_found_where_they_are(void **state) {
    uint8_t bytes[5 * SIZE] = {0};
    struct log_record record;
    make(bytes + SIZE, &record);
    make(bytes + 3 * SIZE, &record);
    assert_int_equal(log_record_find(bytes, 0, sizeof bytes, LIFE, &record), SIZE);
    assert_int_equal(record.index, 17);
    assert_int_equal(log_record_find(bytes, SIZE + 8, sizeof bytes, LIFE, &record), 3 * SIZE);
    assert_int_equal(log_record_find(bytes, 3 * SIZE + 8, sizeof bytes, LIFE, &record),
                     sizeof bytes);
    assert_int_equal(log_record_find(bytes, 0, sizeof bytes, LIFE + 1, &record), sizeof bytes);
    assert_int_equal(log_record_find(bytes, 0, 3, LIFE, &record), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_as_it_was_written),
        cmocka_unit_test(it_is_valid_in_one_place_only),
        cmocka_unit_test(every_flipped_bit_and_every_end_is_seen),
        cmocka_unit_test(heads_are_found_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
