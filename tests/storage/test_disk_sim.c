/* The simulated disk: what it keeps, what it loses, and that it loses it. */
#include "disk_sim.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int create(struct disk_sim *disk, const char *name) {
    struct raft_files files = disk_sim_files(disk);
    int file = -1;
    assert_int_equal(files.calls->open(files.data, name, RAFT_FILES_CREATE, &file), 0);
    return file;
}

static int write_at(struct disk_sim *disk, int file, uint64_t offset, const void *bytes,
                    size_t size) {
    struct raft_files files = disk_sim_files(disk);
    struct iovec parts[2] = {{.iov_base = (void *)bytes, .iov_len = size / 2},
                             {.iov_base = (uint8_t *)bytes + size / 2, .iov_len = size - size / 2}};
    return files.calls->write(files.data, file, offset, parts, 2);
}

static int sync_file(struct disk_sim *disk, int file) {
    struct raft_files files = disk_sim_files(disk);
    return files.calls->sync(files.data, file);
}

static int sync_directory(struct disk_sim *disk) {
    struct raft_files files = disk_sim_files(disk);
    return files.calls->sync_directory(files.data);
}

static void assert_holds(struct disk_sim *disk, const char *name, const char *text) {
    assert_true(disk_sim_exists(disk, name));
    assert_true(bytes_equal(disk_sim_view(disk, name), bytes_from_text(text)));
}

static void what_is_synced_survives_every_crash(void **state) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct disk_sim *disk = disk_sim_create(seed);
        int file = create(disk, "a");
        assert_int_equal(write_at(disk, file, 0, "hello", 5), 0);
        assert_int_equal(sync_file(disk, file), 0);
        assert_int_equal(sync_directory(disk), 0);
        assert_false(disk_sim_is_dirty(disk));
        assert_int_equal(write_at(disk, file, 5, "world", 5), 0);
        disk_sim_crash(disk, seed == 1 ? DISK_SIM_LOSE_ALL : DISK_SIM_LOSE_ANY);
        struct bytes bytes = disk_sim_view(disk, "a");
        assert_in_range(bytes.size, 5, 10);
        assert_memory_equal(bytes.data, "hello", 5);
        assert_int_equal(disk_sim_open_files(disk), 0);
        disk_sim_destroy(disk);
    }
}

static void an_unsynced_write_ends_whole_torn_zeroed_and_lost(void **state) {
    int n_whole = 0, n_torn = 0, n_zeroed = 0, n_lost = 0;
    struct disk_sim *origin = disk_sim_create(1);
    int file = create(origin, "a");
    assert_int_equal(sync_directory(origin), 0);
    uint8_t ones[4 * DISK_SIM_SECTOR_SIZE];
    uint8_t zeros[sizeof(ones)] = {0};
    memset(ones, 1, sizeof(ones));
    assert_int_equal(write_at(origin, file, 0, ones, sizeof(ones)), 0);
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct disk_sim *disk = disk_sim_clone(origin, seed);
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
        struct bytes bytes = disk_sim_view(disk, "a");
        if (bytes.size == 0) {
            n_lost++;
        } else if (bytes_equal(bytes, bytes_of(ones, sizeof(ones)))) {
            n_whole++;
        } else if (bytes_equal(bytes, bytes_of(zeros, sizeof(zeros)))) {
            n_zeroed++;
        } else {
            n_torn++;
        }
        disk_sim_destroy(disk);
    }
    assert_true(n_whole > 50);
    assert_true(n_torn > 50);
    assert_true(n_zeroed > 5);
    assert_true(n_lost > 20);
    disk_sim_destroy(origin);
}

static void overwritten_bytes_come_back_when_the_write_is_lost(void **state) {
    struct disk_sim *disk = disk_sim_create(1);
    disk_sim_put(disk, "a", bytes_from_text("one two"));
    struct raft_files files = disk_sim_files(disk);
    int file = -1;
    assert_int_equal(files.calls->open(files.data, "a", RAFT_FILES_WRITE, &file), 0);
    assert_int_equal(write_at(disk, file, 0, "xxx", 3), 0);
    assert_int_equal(write_at(disk, file, 2, "yyyyyyyy", 8), 0);
    assert_int_equal(files.calls->allocate(files.data, file, 4096), 0);
    disk_sim_crash(disk, DISK_SIM_LOSE_ALL);
    assert_holds(disk, "a", "one two");
    disk_sim_destroy(disk);
}

static void a_failed_sync_is_not_healed_by_the_next(void **state) {
    int n_lost = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct disk_sim *disk = disk_sim_create(seed);
        int file = create(disk, "a");
        assert_int_equal(sync_directory(disk), 0);
        assert_int_equal(write_at(disk, file, 0, "one", 3), 0);
        disk_sim_fail(disk, (struct disk_sim_fault){.kind = DISK_SIM_SYNC, .at = 1, .error = EIO});
        assert_int_equal(sync_file(disk, file), EIO);
        assert_int_equal(write_at(disk, file, 3, "two", 3), 0);
        assert_int_equal(sync_file(disk, file), 0);
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
        struct bytes bytes = disk_sim_view(disk, "a");
        assert_int_equal(bytes.size, 6);
        assert_memory_equal(bytes.data + 3, "two", 3);
        n_lost += memcmp(bytes.data, "one", 3) != 0;
        disk_sim_destroy(disk);
    }
    assert_true(n_lost > 5);
}

static void a_rename_is_atomic_and_lost_until_the_directory_is_synced(void **state) {
    int n_old = 0, n_new = 0;
    struct disk_sim *origin = disk_sim_create(1);
    disk_sim_put(origin, "a", bytes_from_text("old"));
    int file = create(origin, "t");
    assert_int_equal(write_at(origin, file, 0, "new", 3), 0);
    assert_int_equal(sync_file(origin, file), 0);
    struct raft_files files = disk_sim_files(origin);
    assert_int_equal(files.calls->rename(files.data, "t", "a"), 0);
    assert_holds(origin, "a", "new");
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct disk_sim *disk = disk_sim_clone(origin, seed);
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
        struct bytes bytes = disk_sim_view(disk, "a");
        if (bytes_equal(bytes, bytes_from_text("old"))) {
            n_old++;
        } else {
            assert_true(bytes_equal(bytes, bytes_from_text("new")));
            assert_false(disk_sim_exists(disk, "t"));
            n_new++;
        }
        disk_sim_destroy(disk);
    }
    assert_true(n_old > 10);
    assert_true(n_new > 10);
    assert_int_equal(sync_directory(origin), 0);
    disk_sim_crash(origin, DISK_SIM_LOSE_ALL);
    assert_holds(origin, "a", "new");
    disk_sim_destroy(origin);
}

static void unlinks_and_creations_survive_one_without_the_other(void **state) {
    bool seen[4] = {false};
    struct disk_sim *origin = disk_sim_create(1);
    disk_sim_put(origin, "a", bytes_from_text("old"));
    struct raft_files files = disk_sim_files(origin);
    assert_int_equal(files.calls->unlink(files.data, "a"), 0);
    create(origin, "b");
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct disk_sim *disk = disk_sim_clone(origin, seed);
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
        seen[disk_sim_exists(disk, "a") * 2 + disk_sim_exists(disk, "b")] = true;
        disk_sim_destroy(disk);
    }
    assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
    disk_sim_destroy(origin);
}

static void the_nth_call_fails_and_says_which_it_was(void **state) {
    struct disk_sim *disk = disk_sim_create(1);
    int file = create(disk, "a");
    disk_sim_fail(disk, (struct disk_sim_fault){
                            .kind = DISK_SIM_WRITE, .at = 2, .error = EIO, .is_partial = true});
    assert_int_equal(write_at(disk, file, 0, "abcdef", 6), 0);
    assert_int_equal(write_at(disk, file, 6, "ghijkl", 6), EIO);
    assert_string_equal(disk_sim_fault_text(disk), "write a at 6, 6 bytes");
    struct bytes bytes = disk_sim_view(disk, "a");
    assert_in_range(bytes.size, 6, 12);
    assert_memory_equal(bytes.data, "abcdefghijkl", bytes.size);
    assert_int_equal(write_at(disk, file, 6, "ghijkl", 6), 0);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_WRITE), 3);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_ANY_CALL), 4);
    disk_sim_fail(disk,
                  (struct disk_sim_fault){
                      .kind = DISK_SIM_ANY_CALL, .at = 1, .error = ENOSPC, .is_lasting = true});
    assert_int_equal(write_at(disk, file, 0, "x", 1), ENOSPC);
    assert_int_equal(sync_file(disk, file), ENOSPC);
    disk_sim_fail(disk, (struct disk_sim_fault){0});
    assert_int_equal(sync_file(disk, file), 0);
    disk_sim_destroy(disk);
}

static void after_a_stop_nothing_changes_until_the_crash(void **state) {
    struct disk_sim *disk = disk_sim_create(1);
    int file = create(disk, "a");
    assert_int_equal(sync_directory(disk), 0);
    disk_sim_stop_at(disk, 2);
    assert_int_equal(write_at(disk, file, 0, "abc", 3), 0);
    assert_int_equal(sync_file(disk, file), EIO);
    assert_true(disk_sim_is_stopped(disk));
    assert_string_equal(disk_sim_fault_text(disk), "sync a");
    assert_int_equal(write_at(disk, file, 0, "xyz", 3), EIO);
    assert_holds(disk, "a", "abc");
    disk_sim_crash(disk, DISK_SIM_LOSE_NONE);
    assert_holds(disk, "a", "abc");
    create(disk, "b");
    disk_sim_destroy(disk);
}

static void an_ignored_sync_keeps_nothing(void **state) {
    struct disk_sim *disk = disk_sim_create(1);
    int file = create(disk, "a");
    int other = create(disk, "b");
    assert_int_equal(sync_directory(disk), 0);
    disk_sim_ignore(disk, DISK_SIM_SYNC, "a");
    assert_int_equal(write_at(disk, file, 0, "abc", 3), 0);
    assert_int_equal(write_at(disk, other, 0, "abc", 3), 0);
    assert_int_equal(sync_file(disk, file), 0);
    assert_int_equal(sync_file(disk, other), 0);
    disk_sim_crash(disk, DISK_SIM_LOSE_ALL);
    assert_holds(disk, "a", "");
    assert_holds(disk, "b", "abc");
    disk_sim_destroy(disk);
}

static void a_full_disk_refuses_what_grows_and_takes_what_was_allocated(void **state) {
    struct disk_sim *disk = disk_sim_create(1);
    struct raft_files files = disk_sim_files(disk);
    disk_sim_set_capacity(disk, 1000);
    int file = create(disk, "a");
    assert_int_equal(files.calls->allocate(files.data, file, 1001), ENOSPC);
    assert_int_equal(files.calls->allocate(files.data, file, 900), 0);
    assert_int_equal(disk_sim_used(disk), 900);
    uint8_t bytes[200] = {1};
    assert_int_equal(write_at(disk, file, 0, bytes, 200), 0);
    assert_int_equal(write_at(disk, file, 850, bytes, 200), ENOSPC);
    assert_int_equal(disk_sim_used(disk), 1000);
    /* Gone only when it is closed. */
    assert_int_equal(files.calls->unlink(files.data, "a"), 0);
    assert_int_equal(disk_sim_used(disk), 1000);
    assert_int_equal(files.calls->close(files.data, file), 0);
    assert_int_equal(disk_sim_used(disk), 0);
    disk_sim_destroy(disk);
}

static void the_calls_keep_their_contract(void **state) {
    struct disk_sim *disk = disk_sim_create(1);
    struct raft_files files = disk_sim_files(disk);
    int file = -1;
    uint64_t size = 0;
    size_t n = 0;
    char bytes[8];
    assert_int_equal(files.calls->open(files.data, "a", RAFT_FILES_READ, &file), ENOENT);
    disk_sim_put(disk, "a", bytes_from_text("abcdef"));
    assert_int_equal(files.calls->open(files.data, "a", RAFT_FILES_CREATE, &file), EEXIST);
    assert_int_equal(files.calls->open(files.data, "a", RAFT_FILES_READ, &file), 0);
    assert_int_equal(write_at(disk, file, 0, "x", 1), EBADF);
    assert_int_equal(files.calls->size(files.data, file, &size), 0);
    assert_int_equal(size, 6);
    assert_int_equal(files.calls->read(files.data, file, 4, bytes, 8, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(files.calls->read(files.data, file, 9, bytes, 8, &n), 0);
    assert_int_equal(n, 0);
    disk_sim_flip_bit(disk, "a", 1, 0);
    assert_holds(disk, "a", "accdef");
    disk_sim_resize(disk, "a", 2);
    assert_holds(disk, "a", "ac");
    assert_int_equal(files.calls->rename(files.data, "b", "c"), ENOENT);
    assert_int_equal(files.calls->unlink(files.data, "b"), ENOENT);
    assert_int_equal(disk_sim_open_files(disk), 1);
    assert_int_equal(files.calls->close(files.data, file), 0);
    assert_int_equal(files.calls->close(files.data, file), EBADF);
    assert_string_equal(disk_sim_name(disk, 0), "a");
    assert_null(disk_sim_name(disk, 1));
    disk_sim_destroy(disk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_synced_survives_every_crash),
        cmocka_unit_test(an_unsynced_write_ends_whole_torn_zeroed_and_lost),
        cmocka_unit_test(overwritten_bytes_come_back_when_the_write_is_lost),
        cmocka_unit_test(a_failed_sync_is_not_healed_by_the_next),
        cmocka_unit_test(a_rename_is_atomic_and_lost_until_the_directory_is_synced),
        cmocka_unit_test(unlinks_and_creations_survive_one_without_the_other),
        cmocka_unit_test(the_nth_call_fails_and_says_which_it_was),
        cmocka_unit_test(after_a_stop_nothing_changes_until_the_crash),
        cmocka_unit_test(an_ignored_sync_keeps_nothing),
        cmocka_unit_test(a_full_disk_refuses_what_grows_and_takes_what_was_allocated),
        cmocka_unit_test(the_calls_keep_their_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
