#include "raft/snapshot_store.h"

#include "disk_sim.h"
#include "snapshot_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct disk_sim *disk;
static struct raft_files files;
static struct snapshot_meta found;
static char error_text[512];

static int set_up(void **state) {
    disk = disk_sim_create(1);
    files = disk_sim_files(disk);
    memset(&found, 0xff, sizeof(found));
    error_text[0] = '\0';
    return 0;
}

static int tear_down(void **state) {
    assert_int_equal(disk_sim_open_files(disk), 0);
    disk_sim_destroy(disk);
    return 0;
}

static enum status find(void) {
    return snapshot_store_find(&files, &found, error_text, sizeof(error_text));
}

static void write_snapshot(uint64_t index, size_t size) {
    assert_int_equal(snapshot_fixture_write(&files, index, size, 10000, "taken"), 0);
}

static void assert_found(uint64_t index, uint64_t size) {
    assert_int_equal(find(), STATUS_OK);
    assert_int_equal(found.index, index);
    assert_int_equal(found.size, size);
    assert_true(snapshot_fixture_is_whole(&files, &found));
}

static void an_empty_directory_has_no_snapshot(void **state) {
    assert_int_equal(find(), STATUS_OK);
    assert_int_equal(found.index, 0);
    assert_int_equal(snapshot_store_disk_bytes(&files), 0);
    assert_int_equal(snapshot_store_clean(&files), 0);
}

static void payloads_of_every_shape_come_back(void **state) {
    static const size_t sizes[] = {0,
                                   1,
                                   SNAPSHOT_CHUNK_SIZE - 1,
                                   SNAPSHOT_CHUNK_SIZE,
                                   SNAPSHOT_CHUNK_SIZE + 1,
                                   3 * SNAPSHOT_CHUNK_SIZE,
                                   9 * 1024 * 1024 + 5};
    static const size_t steps[] = {777, SNAPSHOT_CHUNK_SIZE, 2 * SNAPSHOT_CHUNK_SIZE + 3};
    uint64_t index = 10;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (size_t j = 0; j < sizeof(steps) / sizeof(*steps); j++) {
            assert_int_equal(snapshot_fixture_write(&files, index, sizes[i], steps[j], "taken"), 0);
            assert_found(index, sizes[i]);
            index += 10;
        }
    }
}

static void the_largest_configuration_fits(void **state) {
    struct snapshot_meta *meta = snapshot_fixture_meta(10);
    struct snapshot_writer *writer = NULL;
    meta->configuration_size = SNAPSHOT_CONFIGURATION_SIZE_MAX;
    memset(meta->configuration, 0x5a, SNAPSHOT_CONFIGURATION_SIZE_MAX);
    assert_int_equal(snapshot_writer_open(&files, meta, "taken", &writer), 0);
    assert_int_equal(snapshot_writer_commit(writer), 0);
    assert_int_equal(find(), STATUS_OK);
    assert_int_equal(found.configuration_size, SNAPSHOT_CONFIGURATION_SIZE_MAX);
    assert_memory_equal(found.configuration, meta->configuration, meta->configuration_size);
    free(meta);
}

static void the_newest_counts_and_the_two_newest_stay(void **state) {
    for (uint64_t index = 10; index <= 50; index += 10) {
        write_snapshot(index, 100);
    }
    assert_found(50, 100);
    assert_non_null(disk_sim_name(disk, 1));
    assert_null(disk_sim_name(disk, 2));
    assert_true(disk_sim_exists(disk, "snap-00000000000000000040-00000000000000000004"));
    assert_int_equal(snapshot_store_disk_bytes(&files), disk_sim_used(disk));
}

/* As numbers, not as text or by time. */
static void order_is_by_index(void **state) {
    write_snapshot(1000, 10);
    write_snapshot(999, 10);
    assert_found(1000, 10);
}

static void an_aborted_snapshot_leaves_nothing(void **state) {
    struct snapshot_writer *writer = NULL;
    write_snapshot(10, 100);
    uint64_t used = disk_sim_used(disk);
    assert_int_equal(snapshot_fixture_open(&files, 20, "taken", &writer), 0);
    assert_int_equal(snapshot_fixture_append(writer, 20, 500000, 1000), 0);
    assert_int_equal(snapshot_writer_size(writer), 500000);
    snapshot_writer_abort(writer);
    assert_int_equal(disk_sim_used(disk), used);
    assert_found(10, 100);
}

static void two_writers_do_not_disturb_each_other(void **state) {
    struct snapshot_writer *taken = NULL;
    struct snapshot_writer *received = NULL;
    assert_int_equal(snapshot_fixture_open(&files, 20, "taken", &taken), 0);
    assert_int_equal(snapshot_fixture_open(&files, 30, "received", &received), 0);
    assert_int_equal(snapshot_fixture_append(taken, 20, 300000, 1000), 0);
    assert_int_equal(snapshot_fixture_append(received, 30, 400000, 1000), 0);
    /* A commit prunes, and does not touch the other's temporary file. */
    assert_int_equal(snapshot_writer_commit(taken), 0);
    assert_found(20, 300000);
    assert_int_equal(snapshot_writer_commit(received), 0);
    assert_found(30, 400000);
}

static void clean_removes_temporary_files_and_strange_names_stay(void **state) {
    disk_sim_put(disk, "tmp-snap-taken", bytes_from_text("torn"));
    disk_sim_put(disk, "tmp-snap-received", bytes_from_text("torn"));
    disk_sim_put(disk, "snap-12-3", bytes_from_text("not one of ours"));
    disk_sim_put(disk, "snap-00000000000000000099-00000000000000000009.bak",
                 bytes_from_text("a copy"));
    disk_sim_put(disk, "log-1", bytes_from_text("a log"));
    write_snapshot(10, 10);
    assert_found(10, 10);
    assert_int_equal(snapshot_store_clean(&files), 0);
    assert_false(disk_sim_exists(disk, "tmp-snap-taken"));
    assert_false(disk_sim_exists(disk, "tmp-snap-received"));
    assert_true(disk_sim_exists(disk, "snap-12-3"));
    assert_true(disk_sim_exists(disk, "log-1"));
    assert_found(10, 10);
}

static void a_reader_goes_on_after_its_file_was_pruned(void **state) {
    uint8_t *chunk = malloc(SNAPSHOT_CHUNK_SIZE);
    size_t n = 0;
    struct snapshot_reader *reader = NULL;
    write_snapshot(10, SNAPSHOT_CHUNK_SIZE + 100);
    assert_int_equal(snapshot_reader_open(&files, 10, 1, &reader), 0);
    write_snapshot(20, 10);
    write_snapshot(30, 10);
    assert_int_equal(snapshot_reader_chunk(reader, SNAPSHOT_CHUNK_SIZE, chunk, &n), 0);
    assert_int_equal(n, 100);
    assert_int_equal(chunk[5], snapshot_fixture_byte(10, SNAPSHOT_CHUNK_SIZE + 5));
    assert_int_equal(snapshot_reader_chunk(reader, 2 * SNAPSHOT_CHUNK_SIZE, chunk, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(snapshot_reader_chunk(reader, 100, chunk, &n), EINVAL);
    snapshot_reader_close(reader);
    assert_int_equal(snapshot_reader_open(&files, 10, 1, &reader), ENOENT);
    free(chunk);
}

static void a_damaged_chunk_is_not_handed_out(void **state) {
    const char *name = "snap-00000000000000000010-00000000000000000001";
    uint8_t *chunk = malloc(SNAPSHOT_CHUNK_SIZE);
    size_t n = 0;
    struct snapshot_reader *reader = NULL;
    write_snapshot(10, 2 * SNAPSHOT_CHUNK_SIZE);
    disk_sim_flip_bit(disk, name, 64 + SNAPSHOT_CHUNK_SIZE + 17, 3);
    assert_int_equal(snapshot_reader_open(&files, 10, 1, &reader), 0);
    assert_int_equal(snapshot_reader_chunk(reader, 0, chunk, &n), 0);
    assert_int_equal(snapshot_reader_chunk(reader, SNAPSHOT_CHUNK_SIZE, chunk, &n), EBADMSG);
    snapshot_reader_close(reader);
    free(chunk);
}

static void the_refusal_names_file_damage_and_cure(void **state) {
    const char *name = "snap-00000000000000000020-00000000000000000002";
    write_snapshot(10, 1000);
    write_snapshot(20, 1000);
    disk_sim_flip_bit(disk, name, 64 + 500, 0);
    assert_int_equal(find(), STATUS_CORRUPT);
    assert_string_equal(error_text,
                        "the snapshot snap-00000000000000000020-00000000000000000002 is damaged: "
                        "the 262144 bytes from byte 64 on do not match their checksum. Nothing was "
                        "changed. In a cluster, move the data directory of this node away and add "
                        "the node again; else restore the data directory from a backup.");
    disk_sim_fail(disk, (struct disk_sim_fault){.kind = DISK_SIM_READ, .at = 1, .error = EIO});
    assert_int_equal(find(), STATUS_IO);
    assert_non_null(strstr(error_text, name));
}

static void a_snapshot_under_a_wrong_name_is_refused(void **state) {
    write_snapshot(10, 1000);
    assert_int_equal(files.calls->rename(files.data,
                                         "snap-00000000000000000010-00000000000000000001",
                                         "snap-00000000000000000011-00000000000000000001"),
                     0);
    assert_int_equal(find(), STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "another index or term than its name says"));
}

static void an_empty_file_under_its_own_name_is_refused(void **state) {
    write_snapshot(10, 1000);
    disk_sim_put(disk, "snap-00000000000000000020-00000000000000000002", bytes_from_text(""));
    assert_int_equal(find(), STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "its end is missing"));
}

/* The first error stays: a commit cannot succeed after an append that failed. */
static void an_error_while_appending_fails_the_commit(void **state) {
    struct snapshot_writer *writer = NULL;
    assert_int_equal(snapshot_fixture_open(&files, 20, "taken", &writer), 0);
    disk_sim_fail(disk, (struct disk_sim_fault){.kind = DISK_SIM_WRITE, .at = 1, .error = ENOSPC});
    assert_int_equal(snapshot_fixture_append(writer, 20, SNAPSHOT_CHUNK_SIZE, 100000), ENOSPC);
    assert_int_equal(snapshot_fixture_append(writer, 20, SNAPSHOT_CHUNK_SIZE, 100000), ENOSPC);
    assert_int_equal(snapshot_writer_commit(writer), ENOSPC);
    assert_int_equal(find(), STATUS_OK);
    assert_int_equal(found.index, 0);
    assert_int_equal(disk_sim_used(disk), 0);
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* See the log's own test: syncs of a file that grows hold the log's syncs up. */
static void a_large_snapshot_is_synced_once(void **state) {
    enum { STEP_SIZE = 256 * 1024, SIZE = 4 * 1024 * 1024 };
    disk_sim_reset_counts(disk);
    write_snapshot(10, SIZE);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_SYNC), 1);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_WRITE_BACK), SIZE / STEP_SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORE_TEST(an_empty_directory_has_no_snapshot),
        STORE_TEST(payloads_of_every_shape_come_back),
        STORE_TEST(the_largest_configuration_fits),
        STORE_TEST(the_newest_counts_and_the_two_newest_stay),
        STORE_TEST(order_is_by_index),
        STORE_TEST(an_aborted_snapshot_leaves_nothing),
        STORE_TEST(two_writers_do_not_disturb_each_other),
        STORE_TEST(clean_removes_temporary_files_and_strange_names_stay),
        STORE_TEST(a_reader_goes_on_after_its_file_was_pruned),
        STORE_TEST(a_damaged_chunk_is_not_handed_out),
        STORE_TEST(the_refusal_names_file_damage_and_cure),
        STORE_TEST(a_snapshot_under_a_wrong_name_is_refused),
        STORE_TEST(an_empty_file_under_its_own_name_is_refused),
        STORE_TEST(an_error_while_appending_fails_the_commit),
        STORE_TEST(a_large_snapshot_is_synced_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
