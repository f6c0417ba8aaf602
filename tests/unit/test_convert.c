#include "raft/convert.h"

#include "base/crc32_msb.h"
#include "disk_sim.h"
#include "legacy_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CLOSED_1 "0000000000000333-0000000000000425"
#define CLOSED_2 "0000000000000426-0000000000000445"
#define SNAPSHOT "snapshot-1-437-1829837"

static struct disk_sim *disk;
static struct legacy_fixture_facts facts;
static struct legacy_fixture_state found;
static char error_text[512];
static bool is_converted;

static void load(const char *name) {
    disk = legacy_fixture_load(name, 1, SIZE_MAX, &facts);
}

/* Without most of the zeros at the end of open segments. */
static void load_short(const char *name) {
    disk = legacy_fixture_load(name, 1, 16 * 1024, &facts);
}

static int tear_down(void **state) {
    assert_int_equal(disk_sim_open_files(disk), 0);
    disk_sim_destroy(disk);
    disk = NULL;
    legacy_fixture_clear(&found);
    return 0;
}

static enum status convert(void) {
    return legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text));
}

static void assert_converts(void) {
    enum status status = convert();
    if (status != STATUS_OK) {
        fail_msg("%s: %s", status_text(status), error_text);
    }
    assert_true(is_converted);
    legacy_fixture_read(disk, &found);
    assert_int_equal(found.status, STATUS_OK);
}

/* Nothing is written and nothing renamed. */
static void assert_refused(enum status expected, const char *name, const char *what) {
    disk_sim_reset_counts(disk);
    enum status status = convert();
    if (status != expected || strstr(error_text, name) == NULL ||
        strstr(error_text, what) == NULL || strstr(error_text, "Nothing was changed") == NULL) {
        fail_msg("%s: %s", status_text(status), error_text);
    }
    assert_false(is_converted);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_WRITE), 0);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_RENAME), 0);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_UNLINK), 0);
    assert_false(disk_sim_exists(disk, "converting"));
}

/* Keys and values occur in what was converted, in the order in which they were put. */
static void assert_has_all_keys(unsigned long long n_keys) {
    size_t position = 0;
    for (unsigned long long i = 1; i <= n_keys; i++) {
        char key[32];
        char value[32];
        snprintf(key, sizeof(key), "key-%04llu", i);
        snprintf(value, sizeof(value), "value-%llu-", i);
        const uint8_t *at =
            memmem(found.bytes.data + position, found.bytes.size - position, key, strlen(key));
        if (at == NULL) {
            fail_msg("%s is missing", key);
        }
        position = (size_t)(at - found.bytes.data);
        assert_non_null(
            memmem(found.bytes.data + position, found.bytes.size - position, value, strlen(value)));
    }
}

static bool has_old_names(const char *prefix) {
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        if (strncmp(name, prefix, strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

/* --- what the old release wrote --- */

static void a_log_without_snapshot_is_converted(void **state) {
    load("legacy-log");
    assert_converts();
    assert_int_equal(found.term, facts.term);
    assert_int_equal(found.snapshot_index, 0);
    assert_int_equal(found.first_index, 1);
    assert_int_equal(found.last_index, facts.last_index);
    assert_int_equal(found.n_of_type[LOG_CHANGE], 1);
    assert_has_all_keys(40);
}

static void a_snapshot_and_the_log_behind_it_are_converted(void **state) {
    load("legacy-snapshot");
    assert_converts();
    assert_int_equal(found.term, facts.term);
    assert_int_equal(found.snapshot_index, 437);
    assert_int_equal(found.snapshot_term, 1);
    assert_int_equal(found.first_index, 438);
    assert_int_equal(found.last_index, facts.last_index);
    /* The payload as the state machine wrote it. */
    assert_memory_equal(found.bytes.data, "leasedsn", 8);
    assert_has_all_keys(450);
}

static void a_member_of_a_cluster_is_converted(void **state) {
    load("legacy-member");
    struct bytes first = disk_sim_view(disk, "metadata1");
    struct bytes second = disk_sim_view(disk, "metadata2");
    struct bytes newer = first.data[8] > second.data[8] ? first : second;
    uint64_t vote = newer.data[24];
    for (int i = 1; i < 8; i++) {
        vote |= (uint64_t)newer.data[24 + i] << (8 * i);
    }
    assert_converts();
    assert_int_equal(found.term, facts.term);
    assert_int_equal(found.vote, vote);
    assert_int_equal(found.last_index, facts.last_index);
    assert_int_equal(found.n_of_type[LOG_COMMAND], facts.last_index - 1);
    assert_int_equal(found.n_of_type[LOG_CHANGE], 1);
    assert_has_all_keys(70);
}

static void old_files_stay_aside_until_they_are_discarded(void **state) {
    struct raft_files files;
    load("legacy-snapshot");
    files = disk_sim_files(disk);
    struct bytes before = disk_sim_view(disk, CLOSED_1);
    uint32_t sum = crc32c(0, before.data, before.size);
    assert_converts();
    assert_false(disk_sim_exists(disk, CLOSED_1));
    assert_false(disk_sim_exists(disk, "converting"));
    assert_false(disk_sim_exists(disk, "converted"));
    struct bytes aside = disk_sim_view(disk, "old-" CLOSED_1);
    assert_int_equal(crc32c(0, aside.data, aside.size), sum);
    assert_true(disk_sim_exists(disk, "old-metadata1"));
    /* The next start has nothing to do. */
    disk_sim_reset_counts(disk);
    assert_int_equal(convert(), STATUS_OK);
    assert_false(is_converted);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_ANY_CALL), 1);
    disk_sim_put(disk, "old-notes", bytes_from_text("an operator's own"));
    assert_int_equal(raft_convert_discard_old(&files), 0);
    assert_true(disk_sim_exists(disk, "old-notes"));
    disk_sim_remove(disk, "old-notes");
    assert_false(has_old_names("old-"));
    assert_int_equal(raft_convert_discard_old(&files), 0);
    struct legacy_fixture_state again;
    legacy_fixture_read(disk, &again);
    assert_true(legacy_fixture_is_equal(&found, &again));
    legacy_fixture_clear(&again);
}

static void a_directory_that_is_empty_or_new_is_left_alone(void **state) {
    disk = disk_sim_create(1);
    assert_int_equal(convert(), STATUS_OK);
    assert_false(is_converted);
    disk_sim_put(disk, "meta.1", bytes_from_text("of this release"));
    assert_int_equal(convert(), STATUS_OK);
    assert_false(is_converted);
    assert_true(disk_sim_exists(disk, "meta.1"));
}

/* A member that joined and was never sent anything. */
static void a_directory_without_entries_is_converted(void **state) {
    load("legacy-log");
    disk_sim_remove(disk, "0000000000000001-0000000000000001");
    disk_sim_remove(disk, "open-1");
    assert_converts();
    assert_int_equal(found.term, facts.term);
    assert_int_equal(found.last_index, 0);
}

/* --- what a crash leaves behind --- */

static void an_entry_that_was_being_written_is_cut_off(void **state) {
    load_short("legacy-log");
    /* Somewhere in the last entry. */
    struct bytes bytes = disk_sim_view(disk, "open-1");
    size_t end = bytes.size;
    while (bytes.data[end - 1] == 0) {
        end--;
    }
    disk_sim_flip_bit(disk, "open-1", end - 5, 3);
    assert_converts();
    assert_int_equal(found.last_index, facts.last_index - 1);
    assert_has_all_keys(40);
}

/* Ten entries that one message of the leader brought, long applied there: that they name each other
 * as applied proves nothing, as they were written at once. */
static void a_write_of_many_entries_that_ends_anywhere_is_cut_off(void **state) {
    enum { LAST_BATCH = 7264, LAST_BATCH_END = 8320, LAST_BATCH_ENTRIES = 10 };
    for (size_t end = LAST_BATCH; end < LAST_BATCH_END - 8; end += 24) {
        disk_sim_destroy(disk);
        load_short("legacy-member");
        uint64_t size = disk_sim_view(disk, "open-1").size;
        disk_sim_resize(disk, "open-1", end);
        disk_sim_resize(disk, "open-1", size); /* zeros, as allocated */
        legacy_fixture_clear(&found);
        assert_converts();
        assert_int_equal(found.last_index, facts.last_index - LAST_BATCH_ENTRIES);
    }
}

/* The node stopped between the two steps of a truncation. */
static void the_shorter_of_two_segments_from_the_same_entry_is_passed_over(void **state) {
    load_short("legacy-snapshot");
    disk_sim_put(disk, "0000000000000426-0000000000000430", bytes_from_text("half a truncation"));
    assert_converts();
    assert_int_equal(found.last_index, facts.last_index);
}

/* The node stopped while a snapshot was installed: the log is older. */
static void a_snapshot_ahead_of_the_log_replaces_it(void **state) {
    struct raft_files files;
    load_short("legacy-snapshot");
    files = disk_sim_files(disk);
    assert_int_equal(files.calls->rename(files.data, SNAPSHOT, "snapshot-1-500-9"), 0);
    assert_int_equal(files.calls->rename(files.data, SNAPSHOT ".meta", "snapshot-1-500-9.meta"), 0);
    assert_converts();
    assert_int_equal(found.snapshot_index, 500);
    assert_int_equal(found.first_index, 501);
    assert_int_equal(found.last_index, 500);
}

static void a_log_that_differs_from_the_snapshot_is_replaced(void **state) {
    struct raft_files files;
    load_short("legacy-snapshot");
    files = disk_sim_files(disk);
    disk_sim_flip_bit(disk, "metadata1", 16, 3); /* term 9 */
    assert_int_equal(files.calls->rename(files.data, SNAPSHOT, "snapshot-9-440-9"), 0);
    assert_int_equal(files.calls->rename(files.data, SNAPSHOT ".meta", "snapshot-9-440-9.meta"), 0);
    assert_converts();
    assert_int_equal(found.snapshot_index, 440);
    assert_int_equal(found.last_index, 440);
}

static void a_snapshot_without_its_description_is_passed_over(void **state) {
    load_short("legacy-snapshot");
    disk_sim_put(disk, "snapshot-1-450-9", bytes_from_text("half made"));
    disk_sim_put(disk, "snapshot-1-451-9.meta", bytes_from_text("half made"));
    assert_converts();
    assert_int_equal(found.snapshot_index, 437);
}

static void segments_that_the_snapshot_covers_may_be_missing(void **state) {
    load_short("legacy-snapshot");
    disk_sim_remove(disk, CLOSED_1);
    assert_converts();
    assert_int_equal(found.last_index, facts.last_index);
}

/* --- entries of libraft's own, which say nothing of their index --- */

static size_t end_of(const char *name) {
    struct bytes bytes = disk_sim_view(disk, name);
    size_t end = bytes.size;
    while (end > 0 && bytes.data[end - 1] == 0) {
        end--;
    }
    return (end + 7) / 8 * 8;
}

/* A batch with one barrier, as raft_uv writes it, at `offset` of a segment. */
static void write_barrier(const char *name, size_t offset, uint64_t term) {
    struct buffer bytes;
    struct buffer batch;
    struct bytes before = disk_sim_view(disk, name);
    static const uint8_t data[8] = {0};
    buffer_init(&bytes);
    buffer_init(&batch);
    buffer_put_u64(&batch, 1);
    buffer_put_u64(&batch, term);
    buffer_put_u32(&batch, LOG_BARRIER);
    buffer_put_u32(&batch, sizeof(data));
    buffer_append(&bytes, before.data, before.size);
    assert_true(offset + 64 < before.size);
    struct buffer head;
    buffer_init(&head);
    buffer_put_u32(&head, crc32_msb(0, batch.data, batch.size));
    buffer_put_u32(&head, crc32_msb(0, data, sizeof(data)));
    buffer_append(&head, batch.data, batch.size);
    buffer_append(&head, data, sizeof(data));
    memcpy(bytes.data + offset, head.data, head.size);
    bytes.data[0] = 1; /* the format */
    disk_sim_put(disk, name, bytes_of(bytes.data, bytes.size));
    buffer_clear(&head);
    buffer_clear(&batch);
    buffer_clear(&bytes);
}

static void barriers_are_converted_without_bytes(void **state) {
    load_short("legacy-log");
    write_barrier("open-1", end_of("open-1"), 1);
    write_barrier("open-2", 8, 1);
    assert_converts();
    assert_int_equal(found.n_of_type[LOG_BARRIER], 2);
    assert_int_equal(found.last_index, facts.last_index + 2);
    assert_has_all_keys(40);
}

static void terms_that_go_down_are_refused(void **state) {
    load_short("legacy-member");
    write_barrier("open-1", end_of("open-1"), facts.term - 1);
    assert_refused(STATUS_CORRUPT, "open-1", "terms of its entries go down");
}

/* Which index it has cannot be told, as something before it is missing. */
static void a_barrier_behind_a_torn_segment_is_refused(void **state) {
    load_short("legacy-log");
    disk_sim_flip_bit(disk, "open-1", end_of("open-1") - 16, 3);
    write_barrier("open-2", 8, 1);
    assert_refused(STATUS_CORRUPT, "open-2", "the end of the segment before it is missing");
}

/* --- what is refused --- */

static void a_missing_segment_is_refused(void **state) {
    load_short("legacy-snapshot");
    disk_sim_remove(disk, CLOSED_2);
    assert_refused(STATUS_CORRUPT, "open-2", "a segment is missing");
}

static void a_missing_start_of_the_log_is_refused(void **state) {
    load_short("legacy-log");
    disk_sim_remove(disk, "0000000000000001-0000000000000001");
    assert_refused(STATUS_CORRUPT, "open-1", "a segment is missing");
}

static void a_damaged_closed_segment_is_refused(void **state) {
    load_short("legacy-snapshot");
    disk_sim_flip_bit(disk, CLOSED_2, 1000, 1);
    assert_refused(STATUS_CORRUPT, CLOSED_2, "checksum");
}

static void damage_before_acknowledged_entries_is_refused(void **state) {
    load_short("legacy-log");
    disk_sim_flip_bit(disk, "open-1", 2000, 1);
    assert_refused(STATUS_CORRUPT, "open-1", "acknowledged");
}

static void a_damaged_snapshot_is_not_passed_over_for_an_older_one(void **state) {
    load_short("legacy-snapshot");
    disk_sim_flip_bit(disk, SNAPSHOT, 1000, 1);
    assert_refused(STATUS_CORRUPT, SNAPSHOT, "checksum");
    disk_sim_flip_bit(disk, SNAPSHOT, 1000, 1);
    disk_sim_flip_bit(disk, SNAPSHOT ".meta", 40, 1);
    assert_refused(STATUS_CORRUPT, SNAPSHOT ".meta", "checksum");
}

static void a_log_without_term_and_vote_is_refused(void **state) {
    load_short("legacy-log");
    disk_sim_remove(disk, "metadata1");
    disk_sim_put(disk, "metadata2", bytes_from_text(""));
    assert_refused(STATUS_CORRUPT, "metadata", "");
}

static void an_unknown_format_is_refused(void **state) {
    load_short("legacy-log");
    disk_sim_flip_bit(disk, "metadata1", 0, 1);
    assert_refused(STATUS_CORRUPT, "metadata1", "no term and vote");
    disk_sim_flip_bit(disk, "metadata1", 0, 1);
    disk_sim_flip_bit(disk, "open-1", 0, 1);
    assert_refused(STATUS_CORRUPT, "open-1", "unknown format");
}

static void entries_of_a_later_term_than_the_stored_one_are_refused(void **state) {
    load_short("legacy-member");
    disk_sim_remove(disk, "metadata1");
    disk_sim_put(disk, "metadata2",
                 bytes_of("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32));
    assert_refused(STATUS_CORRUPT, "open-1", "later term");
}

static void files_of_both_releases_are_refused(void **state) {
    load_short("legacy-log");
    disk_sim_put(disk, "log-00000000000000000001", bytes_from_text("of this release"));
    assert_refused(STATUS_CORRUPT, "previous release", "beside");
    assert_true(disk_sim_exists(disk, "log-00000000000000000001"));
}

static void an_interrupted_conversion_without_old_files_is_refused(void **state) {
    disk = disk_sim_create(1);
    disk_sim_put(disk, "converting", bytes_from_text(""));
    disk_sim_put(disk, "meta.1", bytes_from_text("half written"));
    assert_int_equal(convert(), STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "interrupted"));
    assert_true(disk_sim_exists(disk, "meta.1"));
}

static void a_full_disk_leaves_the_old_files_as_they_were(void **state) {
    load_short("legacy-snapshot");
    disk_sim_set_capacity(disk, disk_sim_used(disk) + 30000);
    assert_int_equal(convert(), STATUS_NO_SPACE);
    assert_non_null(strstr(error_text, "Make room"));
    assert_false(has_old_names("log-"));
    assert_false(has_old_names("snap-"));
    assert_false(has_old_names("meta."));
    assert_false(disk_sim_exists(disk, "converting"));
    disk_sim_set_capacity(disk, UINT64_MAX);
    assert_converts();
    assert_int_equal(found.last_index, facts.last_index);
}

#define CONVERT_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CONVERT_TEST(a_log_without_snapshot_is_converted),
        CONVERT_TEST(a_snapshot_and_the_log_behind_it_are_converted),
        CONVERT_TEST(a_member_of_a_cluster_is_converted),
        CONVERT_TEST(old_files_stay_aside_until_they_are_discarded),
        CONVERT_TEST(a_directory_that_is_empty_or_new_is_left_alone),
        CONVERT_TEST(a_directory_without_entries_is_converted),
        CONVERT_TEST(an_entry_that_was_being_written_is_cut_off),
        CONVERT_TEST(a_write_of_many_entries_that_ends_anywhere_is_cut_off),
        CONVERT_TEST(the_shorter_of_two_segments_from_the_same_entry_is_passed_over),
        CONVERT_TEST(a_snapshot_ahead_of_the_log_replaces_it),
        CONVERT_TEST(a_log_that_differs_from_the_snapshot_is_replaced),
        CONVERT_TEST(a_snapshot_without_its_description_is_passed_over),
        CONVERT_TEST(segments_that_the_snapshot_covers_may_be_missing),
        CONVERT_TEST(barriers_are_converted_without_bytes),
        CONVERT_TEST(terms_that_go_down_are_refused),
        CONVERT_TEST(a_barrier_behind_a_torn_segment_is_refused),
        CONVERT_TEST(a_missing_segment_is_refused),
        CONVERT_TEST(a_missing_start_of_the_log_is_refused),
        CONVERT_TEST(a_damaged_closed_segment_is_refused),
        CONVERT_TEST(damage_before_acknowledged_entries_is_refused),
        CONVERT_TEST(a_damaged_snapshot_is_not_passed_over_for_an_older_one),
        CONVERT_TEST(a_log_without_term_and_vote_is_refused),
        CONVERT_TEST(an_unknown_format_is_refused),
        CONVERT_TEST(entries_of_a_later_term_than_the_stored_one_are_refused),
        CONVERT_TEST(files_of_both_releases_are_refused),
        CONVERT_TEST(an_interrupted_conversion_without_old_files_is_refused),
        CONVERT_TEST(a_full_disk_leaves_the_old_files_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
