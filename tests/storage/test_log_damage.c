/*
 * The log store on damaged files: it opens with all that was acknowledged, or refuses and names the
 * damage, and changes nothing then.
 */
#include "log_workload.h"
#include "raft/log_segment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct outcome {
    uint64_t n_points;
    uint64_t n_refused;
    uint64_t n_whole; /* opened, with everything */
};

/* A disk after the workload; the last batch is sealed, as it is a second later. */
static struct disk_sim *make_disk(struct log_world *world, const struct log_workload *workload,
                                  bool is_sealed) {
    struct disk_sim *disk = disk_sim_create(1);
    log_world_init(world, disk, NULL, SITE_NONE);
    assert_true(log_world_open(world));
    assert_int_equal(log_world_run(world, workload), 0);
    struct log_step rest = {STEP_REST, 0, 0};
    if (is_sealed) {
        assert_int_equal(log_world_step(world, &rest), 0);
    }
    log_world_close(world);
    disk_sim_crash(disk, DISK_SIM_LOSE_NONE);
    return disk;
}

/* False: it opened with something else. */
static bool opens_whole_or_refuses(const struct disk_sim *damaged, const struct log_world *before,
                                   struct outcome *outcome, char *out_text, size_t text_size) {
    static struct log_world world;
    struct disk_sim *disk = disk_sim_clone(damaged, 1);
    log_world_init(&world, disk, before, SITE_NONE);
    bool is_right = true;
    outcome->n_points++;
    if (!log_world_open(&world)) {
        outcome->n_refused++;
        /* It says where, and what to do; and it did nothing. */
        is_right = (strstr(world.text, "log-") != NULL || strstr(world.text, "begins") != NULL) &&
                   strstr(world.text, "backup") != NULL && !disk_sim_is_dirty(disk);
    } else {
        outcome->n_whole++;
        is_right = log_world_check(&world);
    }
    if (!is_right) {
        snprintf(out_text, text_size, "%s", world.text);
    }
    log_world_close(&world);
    disk_sim_destroy(disk);
    return is_right;
}

/* Where the records of a segment's present life end. */
static uint64_t end_of_records(struct bytes bytes) {
    struct log_segment segment;
    if (log_segment_decode_header(bytes.data, bytes.size, &segment) != STATUS_OK) {
        return 0;
    }
    uint64_t end = LOG_SEGMENT_HEADER_SIZE;
    for (;;) {
        struct log_record record;
        uint64_t at = log_record_find(bytes.data, end, bytes.size, segment.life, &record);
        if (at == bytes.size) {
            return end;
        }
        end = at + log_record_size(record.size);
    }
}

static bool is_segment(const char *name) {
    return strncmp(name, "log-", 4) == 0;
}

static void flip_everywhere(const struct log_workload *workload) {
    static struct log_world world;
    struct disk_sim *disk = make_disk(&world, workload, true);
    struct outcome outcome = {0};
    char text[LOG_WORLD_TEXT_SIZE];
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        uint64_t size = disk_sim_view(disk, name).size;
        for (uint64_t offset = 0; offset < size; offset++) {
            unsigned bit = (unsigned)disk_sim_random(disk, 8);
            disk_sim_flip_bit(disk, name, offset, bit);
            if (!opens_whole_or_refuses(disk, &world, &outcome, text, sizeof text)) {
                fail_msg("%s: bit %u of byte %llu of %s: %s", workload->name, bit,
                         (unsigned long long)offset, name, text);
            }
            disk_sim_flip_bit(disk, name, offset, bit);
        }
    }
    print_message("%-10s a bit flipped in every byte: %6llu fault points, %llu refused\n",
                  workload->name, (unsigned long long)outcome.n_points,
                  (unsigned long long)outcome.n_refused);
    assert_true(outcome.n_refused > 0);
    assert_true(outcome.n_whole > 0); /* in what does not count any more, or not yet */
    disk_sim_destroy(disk);
}

static void a_flipped_bit_anywhere_is_found_or_harmless(void **state) {
    for (size_t i = 0; i < n_log_workloads; i++) {
        flip_everywhere(&log_workloads[i]);
    }
}

/* Every byte of every record of the entries that count: none is harmless. */
static void a_flipped_bit_in_an_entry_is_always_found(void **state) {
    static struct log_world world;
    struct disk_sim *disk = make_disk(&world, &log_workloads[0], true);
    struct outcome outcome = {0};
    char text[LOG_WORLD_TEXT_SIZE];
    /* Nothing is trimmed or truncated in it: all up to the end of the log counts. */
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        uint64_t end = is_segment(name) ? end_of_records(disk_sim_view(disk, name)) : 0;
        for (uint64_t offset = 0; offset < end; offset++) {
            disk_sim_flip_bit(disk, name, offset, 0);
            assert_true(opens_whole_or_refuses(disk, &world, &outcome, text, sizeof text));
            disk_sim_flip_bit(disk, name, offset, 0);
        }
    }
    /* The seal is all that may be lost: that is a torn tail, and no entry. */
    assert_int_equal(outcome.n_whole, LOG_RECORD_HEAD_SIZE);
    assert_true(outcome.n_refused > 10000);
    disk_sim_destroy(disk);
}

static void a_shorter_file_is_refused(void **state) {
    static struct log_world world;
    struct disk_sim *disk = make_disk(&world, &log_workloads[0], true);
    struct outcome outcome = {0};
    char text[LOG_WORLD_TEXT_SIZE];
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        char name[DISK_SIM_NAME_SIZE];
        snprintf(name, sizeof name, "%s", disk_sim_name(disk, i));
        uint64_t size = disk_sim_view(disk, name).size;
        for (uint64_t shorter = 0; shorter < size && is_segment(name); shorter += 61) {
            struct disk_sim *copy = disk_sim_clone(disk, 1);
            disk_sim_resize(copy, name, shorter);
            assert_true(opens_whole_or_refuses(copy, &world, &outcome, text, sizeof text));
            disk_sim_destroy(copy);
        }
    }
    assert_int_equal(outcome.n_whole, 0);
    print_message("append     a file cut short:            %6llu fault points, all refused\n",
                  (unsigned long long)outcome.n_points);
    disk_sim_destroy(disk);
}

/* Any segment but the newest: a log that merely ends earlier cannot be told from one that does. */
static void a_missing_segment_is_refused(void **state) {
    static struct log_world world;
    struct disk_sim *disk = make_disk(&world, &log_workloads[0], true);
    struct outcome outcome = {0};
    char text[LOG_WORLD_TEXT_SIZE];
    char newest[DISK_SIM_NAME_SIZE] = "";
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        if (is_segment(name) && strcmp(name, newest) > 0 &&
            end_of_records(disk_sim_view(disk, name)) > LOG_SEGMENT_HEADER_SIZE) {
            snprintf(newest, sizeof newest, "%s", name);
        }
    }
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        if (is_segment(name) && strcmp(name, newest) < 0) {
            struct disk_sim *copy = disk_sim_clone(disk, 1);
            disk_sim_remove(copy, name);
            assert_true(opens_whole_or_refuses(copy, &world, &outcome, text, sizeof text));
            disk_sim_destroy(copy);
        }
    }
    assert_true(outcome.n_points >= 3);
    assert_int_equal(outcome.n_whole, 0);
    disk_sim_destroy(disk);
}

/* Until the next batch or a second has gone by, the last batch cannot be told from a torn one: then
 * it is all or nothing, and nothing else is lost. */
static void damage_in_a_batch_that_is_not_sealed_costs_no_other(void **state) {
    static struct log_world world;
    struct disk_sim *disk = make_disk(&world, &log_workloads[0], false);
    static struct log_world before;
    before = world;
    before.attempted = before.acknowledged;
    before.acknowledged.last -= 1; /* the last step appends one entry */
    struct outcome outcome = {0};
    char text[LOG_WORLD_TEXT_SIZE];
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        uint64_t size = disk_sim_view(disk, name).size;
        for (uint64_t offset = 0; offset < size; offset += 5) {
            unsigned bit = (unsigned)disk_sim_random(disk, 8);
            disk_sim_flip_bit(disk, name, offset, bit);
            if (!opens_whole_or_refuses(disk, &before, &outcome, text, sizeof text)) {
                fail_msg("byte %llu of %s: %s", (unsigned long long)offset, name, text);
            }
            disk_sim_flip_bit(disk, name, offset, bit);
        }
    }
    disk_sim_destroy(disk);
}

/* Bytes of another segment lie behind the end of the log, at the same place and at any other. */
static void what_an_earlier_life_left_is_never_taken_for_the_log(void **state) {
    static struct log_world world;
    struct disk_sim *disk = make_disk(&world, &log_workloads[2], true);
    struct outcome outcome = {0};
    char text[LOG_WORLD_TEXT_SIZE];
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        for (size_t j = 0; disk_sim_name(disk, j) != NULL; j++) {
            const char *to = disk_sim_name(disk, j);
            struct bytes source = disk_sim_view(disk, disk_sim_name(disk, i));
            struct bytes target = disk_sim_view(disk, to);
            uint64_t end = is_segment(to) ? end_of_records(target) : target.size;
            for (size_t from = 0; i != j && from + 64 < source.size && end < target.size;
                 from += 8) {
                uint8_t bytes[8192];
                assert_true(target.size <= sizeof bytes);
                memcpy(bytes, target.data, target.size);
                size_t n =
                    source.size - from < target.size - end ? source.size - from : target.size - end;
                memcpy(bytes + end, source.data + from, n);
                struct disk_sim *copy = disk_sim_clone(disk, 1);
                disk_sim_put(copy, to, bytes_of(bytes, target.size));
                if (!opens_whole_or_refuses(copy, &world, &outcome, text, sizeof text)) {
                    fail_msg("%s goes on with what is in %s: %s", to, disk_sim_name(disk, i), text);
                }
                disk_sim_destroy(copy);
            }
        }
    }
    assert_int_equal(outcome.n_refused, 0);
    print_message("recycle    bytes of another segment:    %6llu fault points, none refused\n",
                  (unsigned long long)outcome.n_points);
    assert_true(outcome.n_points > 100);
    disk_sim_destroy(disk);
}

/* What is read after the log was opened is checked again. */
static void damage_after_opening_is_found_when_reading(void **state) {
    static struct log_world world;
    struct disk_sim *disk = make_disk(&world, &log_workloads[0], true);
    assert_true(log_world_open(&world));
    uint64_t n_found = 0;
    uint64_t n_points = 0;
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        uint64_t size = disk_sim_view(disk, name).size;
        for (uint64_t offset = 48 + 80; offset < size; offset += 7) {
            disk_sim_flip_bit(disk, name, offset, 3);
            for (uint64_t index = 1; index <= world.acknowledged.last; index++) {
                struct log_item *item;
                size_t n = 0;
                int error = log_store_read(world.store, index, index, 1, &item, 1, &n);
                assert_true(error == 0 || error == EBADMSG);
                n_found += error == EBADMSG;
                if (error == 0) {
                    assert_int_equal(n, 1);
                    log_item_release(item);
                }
            }
            disk_sim_flip_bit(disk, name, offset, 3);
            n_points++;
        }
    }
    assert_true(n_found > n_points / 4);
    assert_true(log_world_check(&world));
    log_world_close(&world);
    disk_sim_destroy(disk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_anywhere_is_found_or_harmless),
        cmocka_unit_test(a_flipped_bit_in_an_entry_is_always_found),
        cmocka_unit_test(a_shorter_file_is_refused),
        cmocka_unit_test(a_missing_segment_is_refused),
        cmocka_unit_test(damage_in_a_batch_that_is_not_sealed_costs_no_other),
        cmocka_unit_test(what_an_earlier_life_left_is_never_taken_for_the_log),
        cmocka_unit_test(damage_after_opening_is_found_when_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
