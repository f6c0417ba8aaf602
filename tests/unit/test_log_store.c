#include "raft/log_store.h"

#include "base/crc32.h"
#include "disk_sim.h"
#include "raft_files_fixture.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { SMALL_SEGMENT = 4096, ITEMS_MAX = 4096 };

static char error_text[512];

static struct log_store *open_log(struct files_fixture *fixture, uint64_t snapshot_index,
                                  uint64_t snapshot_term) {
    struct log_store_options options = {.segment_size = SMALL_SEGMENT,
                                        .snapshot_index = snapshot_index,
                                        .snapshot_term = snapshot_term,
                                        .term = 100};
    struct log_store *store;
    enum status status =
        log_store_open(&fixture->files, &options, &store, error_text, sizeof error_text);
    if (status != STATUS_OK) {
        fail_msg("%s", error_text);
    }
    return store;
}

static enum status try_open(struct files_fixture *fixture, struct log_store_options options) {
    struct log_store *store;
    if (options.term == 0) {
        options.term = 100;
    }
    options.segment_size = SMALL_SEGMENT;
    enum status status =
        log_store_open(&fixture->files, &options, &store, error_text, sizeof error_text);
    if (status == STATUS_OK) {
        log_store_close(store);
    }
    return status;
}

static int prepare(struct log_store *store) {
    bool is_over;
    return log_store_prepare(store, &is_over);
}

static void append(struct log_store *store, uint64_t first, size_t n, uint64_t term, size_t size) {
    struct log_item *items[ITEMS_MAX];
    for (size_t i = 0; i < n; i++) {
        items[i] = make_item(first + i, term, size);
    }
    assert_int_equal(log_store_append(store, items, n), 0);
    for (size_t i = 0; i < n; i++) {
        log_item_release(items[i]);
    }
}

/* Entries first to last have this term and size, and are read as they were written. */
static void check(struct log_store *store, uint64_t first, uint64_t last, uint64_t term,
                  size_t size) {
    struct log_item *items[ITEMS_MAX];
    for (uint64_t index = first; index <= last;) {
        size_t n = 0;
        assert_int_equal(log_store_read(store, index, last, 64 * 1024, items, ITEMS_MAX, &n), 0);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++, index++) {
            struct log_item *expected = make_item(index, term, size);
            assert_int_equal(log_store_entry_term(store, index), term);
            assert_true(is_item_equal(items[i], expected));
            log_item_release(expected);
            log_item_release(items[i]);
        }
    }
}

static void a_new_log_is_empty(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    assert_int_equal(log_store_first_index(store), 1);
    assert_int_equal(log_store_last_index(store), 0);
    assert_int_equal(log_store_disk_bytes(store), 0);
    log_store_close(store);
}

static void entries_are_there_again(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 1, 1, 0);
    append(store, 2, 9, 1, 100);
    append(store, 11, 90, 2, 33);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(log_store_first_index(store), 1);
        assert_int_equal(log_store_last_index(store), 100);
        check(store, 1, 1, 1, 0);
        check(store, 2, 10, 1, 100);
        check(store, 11, 100, 2, 33);
        log_store_close(store);
        store = open_log(*state, 0, 0);
    }
    append(store, 101, 3, 3, 1000);
    check(store, 101, 103, 3, 1000);
    log_store_close(store);
}

static void a_batch_spans_segments(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 200, 1, 200);
    append(store, 201, 2, 1, 3 * SMALL_SEGMENT); /* larger than any segment */
    append(store, 203, 1, 1, 10);
    log_store_close(store);
    store = open_log(*state, 0, 0);
    check(store, 1, 200, 1, 200);
    check(store, 201, 202, 1, 3 * SMALL_SEGMENT);
    check(store, 203, 203, 1, 10);
    assert_int_equal(log_store_last_index(store), 203);
    log_store_close(store);
}

static void a_conflict_truncates(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 50, 1, 200);
    append(store, 20, 2, 2, 10);
    assert_int_equal(log_store_last_index(store), 21);
    log_store_close(store);
    store = open_log(*state, 0, 0);
    assert_int_equal(log_store_last_index(store), 21);
    check(store, 1, 19, 1, 200);
    check(store, 20, 21, 2, 10);
    append(store, 1, 1, 3, 10);
    log_store_close(store);
    store = open_log(*state, 0, 0);
    assert_int_equal(log_store_last_index(store), 1);
    check(store, 1, 1, 3, 10);
    log_store_close(store);
}

static void a_conflict_within_one_call_truncates(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    struct log_item *items[] = {make_item(1, 1, 8), make_item(2, 1, 8), make_item(3, 1, 8),
                                make_item(2, 2, 9), make_item(3, 2, 9)};
    assert_int_equal(log_store_append(store, items, 5), 0);
    for (size_t i = 0; i < 5; i++) {
        log_item_release(items[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(log_store_last_index(store), 3);
        check(store, 1, 1, 1, 8);
        check(store, 2, 3, 2, 9);
        log_store_close(store);
        store = open_log(*state, 0, 0);
    }
    log_store_close(store);
}

static void reading_is_bounded(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 100, 1, 200);
    struct log_item *items[ITEMS_MAX];
    size_t n = 0;
    assert_int_equal(log_store_read(store, 10, 100, 1, items, ITEMS_MAX, &n), 0);
    assert_int_equal(n, 1);
    log_item_release(items[0]);
    assert_int_equal(log_store_read(store, 10, 100, 3000, items, ITEMS_MAX, &n), 0);
    assert_true(n > 5);
    assert_true(n < 15);
    for (size_t i = 0; i < n; i++) {
        log_item_release(items[i]);
    }
    assert_int_equal(log_store_read(store, 10, 100, SIZE_MAX, items, 7, &n), 0);
    assert_int_equal(n, 7);
    for (size_t i = 0; i < n; i++) {
        log_item_release(items[i]);
    }
    assert_int_equal(log_store_read(store, 10, 100, SIZE_MAX, items, ITEMS_MAX, &n), 0);
    assert_int_equal(n, 91);
    for (size_t i = 0; i < n; i++) {
        log_item_release(items[i]);
    }
    log_store_close(store);
}

static void trimmed_segments_are_used_again(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    uint64_t bytes_max = 0;
    for (uint64_t index = 1; index <= 2000; index += 10) {
        append(store, index, 10, 1, 100);
        assert_int_equal(prepare(store), 0);
        if (index > 100) {
            assert_int_equal(log_store_trim(store, index - 50), 0);
            assert_true(log_store_first_index(store) <= index - 49);
            assert_true(log_store_first_index(store) > 1);
        }
        if (log_store_disk_bytes(store) > bytes_max) {
            bytes_max = log_store_disk_bytes(store);
        }
    }
    assert_true(bytes_max <= 24 * SMALL_SEGMENT);
    uint64_t first = log_store_first_index(store);
    check(store, first, 2000, 1, 100);
    log_store_close(store);
    store = open_log(*state, 1941, 1);
    assert_true(log_store_first_index(store) <= first); /* files that were not freed yet */
    check(store, first, 2000, 1, 100);
    log_store_close(store);
}

static void everything_can_be_trimmed(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 100, 1, 100);
    assert_int_equal(log_store_trim(store, 100), 0);
    uint64_t first = log_store_first_index(store);
    assert_true(first > 90);
    log_store_close(store);
    store = open_log(*state, 100, 1);
    assert_true(log_store_first_index(store) <= first);
    append(store, 101, 1, 1, 4000);
    assert_int_equal(log_store_trim(store, 100), 0);
    assert_int_equal(log_store_first_index(store), 101);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(prepare(store), 0);
    }
    log_store_close(store);
    store = open_log(*state, 100, 1);
    assert_int_equal(log_store_first_index(store), 101);
    check(store, 101, 101, 1, 4000);
    log_store_close(store);
}

static void a_reset_log_begins_behind_the_snapshot(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 100, 1, 100);
    assert_int_equal(log_store_reset(store, 500, 3), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(log_store_first_index(store), 501);
        assert_int_equal(log_store_last_index(store), 500);
        log_store_close(store);
        store = open_log(*state, 500, 3);
    }
    append(store, 501, 5, 3, 10);
    log_store_close(store);
    store = open_log(*state, 500, 3);
    check(store, 501, 505, 3, 10);
    log_store_close(store);
}

static void a_snapshot_that_the_log_does_not_meet_replaces_it(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 100, 1, 100);
    log_store_close(store);
    store = open_log(*state, 60, 1); /* holds it */
    assert_int_equal(log_store_last_index(store), 100);
    log_store_close(store);
    store = open_log(*state, 60, 2); /* another branch */
    assert_int_equal(log_store_first_index(store), 61);
    assert_int_equal(log_store_last_index(store), 60);
    append(store, 61, 5, 2, 10);
    log_store_close(store);
    store = open_log(*state, 1000, 3); /* far behind it */
    assert_int_equal(log_store_first_index(store), 1001);
    log_store_close(store);
    store = open_log(*state, 1000, 3);
    assert_int_equal(log_store_last_index(store), 1000);
    log_store_close(store);
}

static void a_gap_behind_the_snapshot_is_refused(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 100, 1, 100);
    assert_int_equal(log_store_trim(store, 100), 0);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(prepare(store), 0);
    }
    log_store_close(store);
    assert_int_equal(
        try_open(*state, (struct log_store_options){.snapshot_index = 10, .snapshot_term = 1}),
        STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "snapshot ends with entry 10"));
    assert_non_null(strstr(error_text, "backup"));
    assert_int_equal(try_open(*state, (struct log_store_options){.snapshot_index = 0}),
                     STATUS_CORRUPT);
}

static void an_entry_of_a_later_term_than_the_stored_one_is_refused(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    append(store, 1, 10, 7, 100);
    log_store_close(store);
    assert_int_equal(try_open(*state, (struct log_store_options){.term = 6}), STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "log-"));
    assert_non_null(strstr(error_text, "term 7"));
    assert_int_equal(try_open(*state, (struct log_store_options){.term = 7}), STATUS_OK);
}

/* The segments, in order. */
static size_t list_segments(struct files_fixture *fixture, char names[][40], size_t capacity) {
    struct dirent **entries;
    int n = scandir(fixture->path, &entries, NULL, alphasort);
    size_t n_names = 0;
    for (int i = 0; i < n; i++) {
        if (strncmp(entries[i]->d_name, "log-", 4) == 0 && n_names < capacity) {
            snprintf(names[n_names++], 40, "%.39s", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return n_names;
}

static void change_file(struct files_fixture *fixture, const char *name, off_t offset,
                        const void *bytes, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fixture->path, name);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, bytes, size, offset), size);
    close(file);
}

static void damage_in_the_middle_is_refused_and_read_as_such(void **state) {
    struct files_fixture *fixture = *state;
    struct log_store *store = open_log(fixture, 0, 0);
    for (uint64_t index = 1; index <= 20; index++) {
        append(store, index, 1, 1, 100);
    }
    change_file(fixture, "log-00000000000000000002", 1000, "x", 1);
    struct log_item *items[20];
    size_t n = 0;
    assert_int_equal(log_store_read(store, 1, 20, SIZE_MAX, items, 20, &n), EBADMSG);
    assert_int_equal(n, 0);
    log_store_close(store);
    assert_int_equal(try_open(fixture, (struct log_store_options){.snapshot_index = 0}),
                     STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "log-00000000000000000002"));
    assert_non_null(strstr(error_text, "remove the member"));
}

static void a_torn_last_batch_is_dropped_and_never_comes_back(void **state) {
    struct files_fixture *fixture = *state;
    struct log_store *store = open_log(fixture, 0, 0);
    append(store, 1, 3, 1, 100);
    append(store, 4, 5, 1, 100);
    log_store_close(store);
    /* The first of the five is lost, the others are there. */
    change_file(fixture, "log-00000000000000000002", 48 + 80 + 3 * 160, "xxxxxxxx", 8);
    store = open_log(fixture, 0, 0);
    assert_int_equal(log_store_last_index(store), 3);
    append(store, 4, 1, 2, 100);
    append(store, 5, 1, 2, 100);
    log_store_close(store);
    for (int i = 0; i < 2; i++) {
        store = open_log(fixture, 0, 0);
        assert_int_equal(log_store_last_index(store), 5);
        check(store, 1, 3, 1, 100);
        check(store, 4, 5, 2, 100);
        log_store_close(store);
    }
}

static void a_sealed_last_batch_is_not_taken_for_torn(void **state) {
    struct files_fixture *fixture = *state;
    struct log_store *store = open_log(fixture, 0, 0);
    append(store, 1, 3, 1, 100);
    assert_int_equal(log_store_seal(store), 0);
    assert_int_equal(log_store_seal(store), 0);
    log_store_close(store);
    change_file(fixture, "log-00000000000000000002", 48 + 80 + 2 * 160, "xxxxxxxx", 8);
    assert_int_equal(try_open(fixture, (struct log_store_options){.snapshot_index = 0}),
                     STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "no torn tail"));
}

static void a_missing_segment_is_refused(void **state) {
    struct files_fixture *fixture = *state;
    struct log_store *store = open_log(fixture, 0, 0);
    for (uint64_t index = 1; index <= 100; index++) {
        append(store, index, 1, 1, 100);
    }
    log_store_close(store);
    char names[16][40];
    size_t n = list_segments(fixture, names, 16);
    assert_true(n >= 4);
    assert_int_equal(fixture->files.calls->unlink(fixture->files.data, names[1]), 0);
    assert_int_equal(try_open(fixture, (struct log_store_options){.snapshot_index = 0}),
                     STATUS_CORRUPT);
    assert_non_null(strstr(error_text, "missing"));
}

static void a_newer_version_is_refused(void **state) {
    static const char name[] = "log-00000000000000000002";
    struct files_fixture *fixture = *state;
    struct log_store *store = open_log(fixture, 0, 0);
    append(store, 1, 3, 1, 100);
    log_store_close(store);
    change_file(fixture, name, 8, "\2", 1);
    assert_int_equal(try_open(fixture, (struct log_store_options){.snapshot_index = 0}),
                     STATUS_CORRUPT); /* so far it is a flipped bit */
    uint8_t header[48];
    size_t n;
    int file;
    const struct raft_files_calls *calls = fixture->files.calls;
    assert_int_equal(calls->open(fixture->files.data, name, RAFT_FILES_READ, &file), 0);
    assert_int_equal(calls->read(fixture->files.data, file, 0, header, sizeof header, &n), 0);
    calls->close(fixture->files.data, file);
    uint32_t sum = htole32(crc32c(0, header, 44));
    change_file(fixture, name, 44, &sum, sizeof sum);
    assert_int_equal(try_open(fixture, (struct log_store_options){.snapshot_index = 0}),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(error_text, "newer version"));
}

struct preparer {
    struct log_store *store;
    bool is_stopping;
    int error;
};

static void *prepare_until_stopped(void *data) {
    struct preparer *preparer = data;
    while (preparer->error == 0 && !__atomic_load_n(&preparer->is_stopping, __ATOMIC_RELAXED)) {
        preparer->error = prepare(preparer->store);
    }
    return NULL;
}

static void segments_are_prepared_by_another_thread(void **state) {
    struct log_store *store = open_log(*state, 0, 0);
    struct preparer preparer = {.store = store};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, prepare_until_stopped, &preparer), 0);
    for (uint64_t index = 1; index <= 3000; index += 10) {
        append(store, index, 10, 1, index % 500 == 1 ? 2000 : 100); /* some fit no spare */
        if (index > 100) {
            assert_int_equal(log_store_trim(store, index - 50), 0);
        }
        if (log_store_is_prepared(store)) {
            sched_yield();
        }
    }
    __atomic_store_n(&preparer.is_stopping, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(preparer.error, 0);
    uint64_t first = log_store_first_index(store);
    check(store, 2991, 3000, 1, 100);
    log_store_close(store);
    store = open_log(*state, 2941, 1);
    assert_true(log_store_first_index(store) <= first);
    check(store, 2991, 3000, 1, 100);
    log_store_close(store);
}

static void a_spare_is_prepared_and_found_again(void **state) {
    struct files_fixture *fixture = *state;
    struct log_store *store = open_log(fixture, 0, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(prepare(store), 0);
    }
    assert_int_equal(log_store_disk_bytes(store), SMALL_SEGMENT);
    log_store_close(store);
    store = open_log(fixture, 0, 0);
    assert_int_equal(log_store_disk_bytes(store), SMALL_SEGMENT);
    append(store, 1, 1, 1, 10);
    assert_int_equal(log_store_disk_bytes(store), SMALL_SEGMENT);
    log_store_close(store);
    char names[16][40];
    assert_int_equal(list_segments(fixture, names, 16), 1);
}

/* A sync of a file that grows commits the file system's journal, and the log's own syncs wait
 * behind it. */
static void a_segment_is_made_with_one_sync_and_little_is_written_at_once(void **state) {
    enum { STEP_SIZE = 256 * 1024, SIZE = 8 * 1024 * 1024 };
    struct disk_sim *disk = disk_sim_create(1);
    struct raft_files files = disk_sim_files(disk);
    struct log_store_options options = {.segment_size = SIZE, .term = 100};
    struct log_store *store;
    assert_int_equal(log_store_open(&files, &options, &store, error_text, sizeof error_text),
                     STATUS_OK);
    disk_sim_reset_counts(disk);
    for (bool is_over = false; !is_over;) {
        assert_int_equal(log_store_prepare(store, &is_over), 0);
    }
    assert_true(log_store_is_prepared(store));
    assert_int_equal(disk_sim_count(disk, DISK_SIM_SYNC), 1);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_WRITE_BACK), SIZE / STEP_SIZE);
    assert_int_equal(disk_sim_count(disk, DISK_SIM_ALLOCATE), SIZE / STEP_SIZE);
    log_store_close(store);
    disk_sim_destroy(disk);
}

#define log_test(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        log_test(a_new_log_is_empty),
        log_test(entries_are_there_again),
        log_test(a_batch_spans_segments),
        log_test(a_conflict_truncates),
        log_test(a_conflict_within_one_call_truncates),
        log_test(reading_is_bounded),
        log_test(trimmed_segments_are_used_again),
        log_test(everything_can_be_trimmed),
        log_test(a_reset_log_begins_behind_the_snapshot),
        log_test(a_snapshot_that_the_log_does_not_meet_replaces_it),
        log_test(a_gap_behind_the_snapshot_is_refused),
        log_test(an_entry_of_a_later_term_than_the_stored_one_is_refused),
        log_test(damage_in_the_middle_is_refused_and_read_as_such),
        log_test(a_torn_last_batch_is_dropped_and_never_comes_back),
        log_test(a_sealed_last_batch_is_not_taken_for_torn),
        log_test(a_missing_segment_is_refused),
        log_test(a_newer_version_is_refused),
        log_test(segments_are_prepared_by_another_thread),
        log_test(a_spare_is_prepared_and_found_again),
        cmocka_unit_test(a_segment_is_made_with_one_sync_and_little_is_written_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
