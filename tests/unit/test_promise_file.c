#include "disk_sim.h"
#include "replication/promise_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { NOW_MS = 100000, OWN_MS = 300, LONG_MS = 3000 };

static struct promise_file opened(struct raft_files *files, uint64_t now_ms) {
    struct promise_file file;
    char error[256] = "";
    assert_int_equal(promise_file_open(&file, files, OWN_MS, now_ms, error, sizeof error),
                     STATUS_OK);
    return file;
}

static void a_longer_promise_is_on_disk_before_it_is_given(void **state) {
    struct disk_sim *disk = disk_sim_create(1);
    struct raft_files files = disk_sim_files(disk);
    struct promise_file file = opened(&files, NOW_MS);
    assert_int_equal(file.longest_ms, OWN_MS);
    assert_int_equal(promise_file_note(&file, LONG_MS, NOW_MS), 0);
    disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
    assert_int_equal(opened(&files, NOW_MS).longest_ms, LONG_MS);
    disk_sim_destroy(disk);
}

static void a_shorter_one_replaces_it_only_when_the_longer_ones_have_ended(void **state) {
    struct disk_sim *disk = disk_sim_create(2);
    struct raft_files files = disk_sim_files(disk);
    struct promise_file file = opened(&files, NOW_MS);
    assert_int_equal(promise_file_note(&file, LONG_MS, NOW_MS), 0);
    assert_int_equal(promise_file_note(&file, OWN_MS, NOW_MS + LONG_MS), 0);
    assert_int_equal(opened(&files, NOW_MS).longest_ms, LONG_MS);
    assert_int_equal(promise_file_note(&file, OWN_MS, NOW_MS + LONG_MS + 1), 0);
    assert_int_equal(opened(&files, NOW_MS).longest_ms, OWN_MS);
    disk_sim_destroy(disk);
}

/* What an earlier process promised just before its end stands, too. */
static void after_a_start_the_longest_is_kept_for_as_long_as_it_lasts(void **state) {
    struct disk_sim *disk = disk_sim_create(3);
    struct raft_files files = disk_sim_files(disk);
    struct promise_file file = opened(&files, NOW_MS);
    assert_int_equal(promise_file_note(&file, LONG_MS, NOW_MS), 0);
    file = opened(&files, NOW_MS + 10);
    assert_int_equal(promise_file_note(&file, OWN_MS, NOW_MS + 20), 0);
    assert_int_equal(opened(&files, NOW_MS + 30).longest_ms, LONG_MS);
    disk_sim_destroy(disk);
}

static void after_a_crash_at_any_call_it_is_the_old_one_or_the_new_one(void **state) {
    for (unsigned n = 1;; n++) {
        struct disk_sim *disk = disk_sim_create(n);
        struct raft_files files = disk_sim_files(disk);
        struct promise_file file = opened(&files, NOW_MS);
        disk_sim_stop_at(disk, n);
        int error = promise_file_note(&file, LONG_MS, NOW_MS);
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
        uint32_t longest_ms = opened(&files, NOW_MS).longest_ms;
        assert_true(longest_ms == LONG_MS || (error != 0 && longest_ms == OWN_MS));
        disk_sim_destroy(disk);
        if (error == 0) {
            return;
        }
    }
}

static void lengths_that_change_all_the_time_cost_few_writes(void **state) {
    struct disk_sim *disk = disk_sim_create(5);
    struct raft_files files = disk_sim_files(disk);
    struct promise_file file = opened(&files, NOW_MS);
    disk_sim_reset_counts(disk);
    for (uint32_t ms = 0; ms <= PROMISE_MS_MAX; ms++) {
        assert_int_equal(promise_file_note(&file, ms, NOW_MS), 0);
        assert_true(file.longest_ms >= ms);
        assert_true(file.longest_ms <= PROMISE_MS_MAX);
    }
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(promise_file_note(&file, i % 2, NOW_MS), 0);
    }
    assert_true(disk_sim_count(disk, DISK_SIM_SYNC) <= PROMISE_MS_MAX / 1000);
    disk_sim_destroy(disk);
}

static void damage_counts_as_the_longest_promise_of_all(void **state) {
    struct disk_sim *disk = disk_sim_create(4);
    struct raft_files files = disk_sim_files(disk);
    (void)opened(&files, NOW_MS);
    disk_sim_flip_bit(disk, "promise", 8, 0);
    assert_int_equal(opened(&files, NOW_MS).longest_ms, PROMISE_MS_MAX);
    disk_sim_destroy(disk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_longer_promise_is_on_disk_before_it_is_given),
        cmocka_unit_test(a_shorter_one_replaces_it_only_when_the_longer_ones_have_ended),
        cmocka_unit_test(after_a_start_the_longest_is_kept_for_as_long_as_it_lasts),
        cmocka_unit_test(after_a_crash_at_any_call_it_is_the_old_one_or_the_new_one),
        cmocka_unit_test(lengths_that_change_all_the_time_cost_few_writes),
        cmocka_unit_test(damage_counts_as_the_longest_promise_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
