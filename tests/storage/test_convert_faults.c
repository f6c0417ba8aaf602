/*
 * The conversion of a data directory of release 0.1.0 under faults: whatever happens on the way,
 * the next start without faults ends with all of it in the stores of this release; and damage in
 * the old files is refused by name, or is what a crash may have cut off.
 */
#include "disk_sim.h"
#include "legacy_fixture.h"
#include "raft/legacy_store.h"
#include "thorough.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OPEN_SIZE_MAX = 16 * 1024, CRASHES_PER_POINT = THOROUGH(12) };

static struct legacy_fixture_facts facts;

static struct disk_sim *load(int fixture, uint64_t seed) {
    return legacy_fixture_load(legacy_fixture_names[fixture], seed, OPEN_SIZE_MAX, &facts);
}

/* Without a fault. */
static void convert_whole(int fixture, struct legacy_fixture_state *out_expected,
                          uint64_t *out_calls) {
    char error_text[512];
    bool is_converted = false;
    struct disk_sim *disk = load(fixture, 1);
    assert_int_equal(legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text)),
                     STATUS_OK);
    *out_calls = disk_sim_count(disk, DISK_SIM_ANY_CALL);
    legacy_fixture_read(disk, out_expected);
    assert_int_equal(out_expected->status, STATUS_OK);
    assert_int_equal(out_expected->last_index, facts.last_index);
    disk_sim_destroy(disk);
}

/* The next start completes it; what is found then is what was expected, also after another crash.
 */
static void assert_completes(struct disk_sim *disk, const struct legacy_fixture_state *expected,
                             const char *fault) {
    char error_text[512];
    bool is_converted = false;
    enum status status =
        legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text));
    if (status != STATUS_OK) {
        fail_msg("%s: the next start: %s", fault, error_text);
    }
    if (disk_sim_open_files(disk) > 0) {
        fail_msg("%s: a file was left open", fault);
    }
    disk_sim_crash(disk, DISK_SIM_LOSE_ALL);
    struct legacy_fixture_state found;
    legacy_fixture_read(disk, &found);
    if (!legacy_fixture_is_equal(&found, expected)) {
        fail_msg("%s: found term %llu, snapshot %llu, entries to %llu: %s", fault,
                 (unsigned long long)found.term, (unsigned long long)found.snapshot_index,
                 (unsigned long long)found.last_index, found.error);
    }
    legacy_fixture_clear(&found);
    /* The removal of a marker may be lost; the start after that removes it. */
    assert_int_equal(legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text)),
                     STATUS_OK);
    for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
        const char *name = disk_sim_name(disk, i);
        if (legacy_store_is_file(name) || strncmp(name, "convert", 7) == 0) {
            fail_msg("%s: %s is still there", fault, name);
        }
    }
    struct raft_files files = disk_sim_files(disk);
    assert_int_equal(raft_convert_discard_old(&files), 0);
}

/* --- (a) every n-th call fails --- */

static void fail_call(int fixture, uint64_t n, struct disk_sim_fault fault,
                      const struct legacy_fixture_state *expected) {
    char error_text[512];
    char text[400];
    bool is_converted = false;
    struct disk_sim *disk = load(fixture, n);
    fault.kind = DISK_SIM_ANY_CALL;
    fault.at = n;
    disk_sim_fail(disk, fault);
    enum status status =
        legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text));
    snprintf(text, sizeof(text), "%s, failing call %llu (%s)", legacy_fixture_names[fixture],
             (unsigned long long)n, disk_sim_fault_text(disk));
    if (is_converted != (status == STATUS_OK) || (status != STATUS_OK && error_text[0] == '\0')) {
        fail_msg("%s: %s", text, status_text(status));
    }
    if (disk_sim_open_files(disk) > 0) {
        fail_msg("%s: a file was left open", text);
    }
    disk_sim_fail(disk, (struct disk_sim_fault){0});
    struct disk_sim *crashed = disk_sim_clone(disk, n);
    disk_sim_crash(crashed, DISK_SIM_LOSE_ANY);
    assert_completes(crashed, expected, text);
    disk_sim_destroy(crashed);
    assert_completes(disk, expected, text);
    disk_sim_destroy(disk);
}

static void after_every_failing_call_the_next_start_completes_it(void **state) {
    static const struct disk_sim_fault faults[] = {
        {.error = EIO},
        {.error = ENOSPC, .is_partial = true},
        {.error = EIO, .is_lasting = true},
    };
    for (int fixture = 0; fixture < LEGACY_FIXTURE_COUNT; fixture++) {
        struct legacy_fixture_state expected;
        uint64_t n_calls = 0;
        convert_whole(fixture, &expected, &n_calls);
        for (uint64_t n = 1; n <= n_calls; n++) {
            for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
                fail_call(fixture, n, faults[i], &expected);
            }
        }
        printf("convert %s: %llu calls, each failed in 3 ways\n", legacy_fixture_names[fixture],
               (unsigned long long)n_calls);
        legacy_fixture_clear(&expected);
    }
}

/* --- (b) power is lost during every n-th call, and again during the next start --- */

static void crash_once(const struct disk_sim *stopped, uint64_t seed, uint64_t n_calls,
                       const struct legacy_fixture_state *expected, const char *text) {
    char error_text[512];
    bool is_converted = false;
    struct disk_sim *disk = disk_sim_clone(stopped, seed);
    disk_sim_crash(disk, seed == 1   ? DISK_SIM_LOSE_ALL
                         : seed == 2 ? DISK_SIM_LOSE_NONE
                                     : DISK_SIM_LOSE_ANY);
    char where[500];
    snprintf(where, sizeof(where), "%s, crash %llu", text, (unsigned long long)seed);
    if (seed % 2 == 0) {
        disk_sim_stop_at(disk, 1 + disk_sim_random(disk, n_calls));
        (void)legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text));
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
    }
    assert_completes(disk, expected, where);
    disk_sim_destroy(disk);
}

static void after_every_loss_of_power_the_next_start_completes_it(void **state) {
    for (int fixture = 0; fixture < LEGACY_FIXTURE_COUNT; fixture++) {
        struct legacy_fixture_state expected;
        uint64_t n_calls = 0;
        convert_whole(fixture, &expected, &n_calls);
        for (uint64_t n = 1; n <= n_calls + 1; n++) {
            char error_text[512];
            char text[400];
            bool is_converted = false;
            struct disk_sim *disk = load(fixture, n);
            disk_sim_stop_at(disk, n);
            (void)legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text));
            snprintf(text, sizeof(text), "%s, stopped at call %llu (%s)",
                     legacy_fixture_names[fixture], (unsigned long long)n,
                     disk_sim_fault_text(disk));
            for (uint64_t seed = 1; seed <= CRASHES_PER_POINT; seed++) {
                crash_once(disk, seed, n_calls, &expected, text);
            }
            disk_sim_destroy(disk);
        }
        printf("convert %s: power lost at %llu points, %d crashes each\n",
               legacy_fixture_names[fixture], (unsigned long long)n_calls + 1, CRASHES_PER_POINT);
        legacy_fixture_clear(&expected);
    }
}

static void after_every_loss_of_power_old_files_can_be_discarded(void **state) {
    struct legacy_fixture_state expected;
    char error_text[512];
    bool is_converted = false;
    uint64_t n_calls = 0;
    convert_whole(1, &expected, &n_calls);
    struct disk_sim *origin = load(1, 1);
    assert_int_equal(legacy_fixture_convert(origin, &is_converted, error_text, sizeof(error_text)),
                     STATUS_OK);
    disk_sim_crash(origin, DISK_SIM_LOSE_NONE);
    for (uint64_t n = 1; n <= 20; n++) {
        struct disk_sim *disk = disk_sim_clone(origin, n);
        struct raft_files files = disk_sim_files(disk);
        disk_sim_stop_at(disk, n);
        (void)raft_convert_discard_old(&files);
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
        assert_completes(disk, &expected, "discarding");
        assert_false(disk_sim_exists(disk, "old-metadata1"));
        disk_sim_destroy(disk);
    }
    disk_sim_destroy(origin);
    legacy_fixture_clear(&expected);
}

/* --- (c) flipped bits in the old files --- */

struct reading {
    struct buffer bytes;
    uint64_t last_index;
};

static int add_item(void *data, struct log_item *item) {
    struct reading *reading = data;
    buffer_put_u64(&reading->bytes, item->term);
    buffer_put_u8(&reading->bytes, (uint8_t)item->type);
    buffer_put_bytes(&reading->bytes, bytes_of(item->bytes, item->size));
    reading->last_index = item->index;
    log_item_release(item);
    return 0;
}

/* STATUS_OK: `out_reading` is to be cleared. */
static enum status read_old(struct disk_sim *disk, struct reading *out_reading, char *out_error,
                            size_t error_size) {
    struct raft_files files = disk_sim_files(disk);
    struct legacy_store *store = NULL;
    enum status status =
        legacy_store_open(&files, legacy_fixture_check, &store, out_error, error_size);
    if (status == STATUS_OK) {
        buffer_init(&out_reading->bytes);
        out_reading->last_index = legacy_store_snapshot(store)->index;
        struct bytes payload = legacy_store_payload(store);
        buffer_append(&out_reading->bytes, payload.data, payload.size);
        assert_int_equal(legacy_store_read(store, add_item, out_reading), 0);
        legacy_store_close(store);
    }
    return status;
}

/* Entries of the last write of each fixture. */
static const uint64_t last_batch_sizes[] = {1, 1, 10};

/* What is read is the start of what was there, without its last write at most: a flipped bit in
 * that cannot be told from a write that a crash cut short. */
static void assert_refused_or_harmless(struct disk_sim *disk, const char *name, uint64_t offset,
                                       const struct reading *whole, uint64_t cut_max,
                                       uint64_t *n_refused, uint64_t *n_cut) {
    char error_text[512] = "";
    struct reading reading;
    enum status status = read_old(disk, &reading, error_text, sizeof(error_text));
    if (status == STATUS_CORRUPT) {
        /* A term that went down shows in the entries, a hole behind the damaged segment. */
        if (strstr(error_text, name) == NULL && strncmp(name, "metadata", 8) != 0 &&
            strncmp(name, "open-", 5) != 0) {
            fail_msg("%s, byte %llu: %s", name, (unsigned long long)offset, error_text);
        }
        (*n_refused)++;
        return;
    }
    assert_int_equal(status, STATUS_OK);
    bool is_start = reading.bytes.size <= whole->bytes.size &&
                    memcmp(reading.bytes.data, whole->bytes.data, reading.bytes.size) == 0;
    if (!is_start || reading.last_index + cut_max < whole->last_index) {
        fail_msg("%s, byte %llu: read entries to %llu without an error", name,
                 (unsigned long long)offset, (unsigned long long)reading.last_index);
    }
    *n_cut += reading.last_index < whole->last_index;
    buffer_clear(&reading.bytes);
}

static void flip_in(struct disk_sim *disk, const char *name, const struct reading *whole,
                    uint64_t cut_max, uint64_t *n_refused, uint64_t *n_cut) {
    uint64_t size = disk_sim_view(disk, name).size;
    for (uint64_t offset = 0; offset < size; offset += 1 + disk_sim_random(disk, 5)) {
        unsigned bit = (unsigned)disk_sim_random(disk, 8);
        disk_sim_flip_bit(disk, name, offset, bit);
        assert_refused_or_harmless(disk, name, offset, whole, cut_max, n_refused, n_cut);
        disk_sim_flip_bit(disk, name, offset, bit);
    }
}

static void every_flipped_bit_is_refused_or_cuts_the_last_write(void **state) {
    for (int fixture = 0; fixture < LEGACY_FIXTURE_COUNT; fixture++) {
        uint64_t n_refused = 0;
        uint64_t n_cut = 0;
        char error_text[512] = "";
        struct reading whole;
        struct disk_sim *disk = load(fixture, 1);
        assert_int_equal(read_old(disk, &whole, error_text, sizeof(error_text)), STATUS_OK);
        assert_int_equal(whole.last_index, facts.last_index);
        for (size_t i = 0; disk_sim_name(disk, i) != NULL; i++) {
            flip_in(disk, disk_sim_name(disk, i), &whole, last_batch_sizes[fixture], &n_refused,
                    &n_cut);
        }
        printf("convert %s: bits flipped: %llu refused, %llu as a write cut short\n",
               legacy_fixture_names[fixture], (unsigned long long)n_refused,
               (unsigned long long)n_cut);
        assert_true(n_refused > 100);
        assert_true(n_cut > 0);
        buffer_clear(&whole.bytes);
        disk_sim_destroy(disk);
    }
}

/* --- without a sync the tests above would fail --- */

static int count_losses(enum disk_sim_call kind, const char *prefix,
                        const struct legacy_fixture_state *expected) {
    int n_lost = 0;
    char error_text[512];
    bool is_converted = false;
    struct disk_sim *disk = load(1, 1);
    disk_sim_ignore(disk, kind, prefix);
    assert_int_equal(legacy_fixture_convert(disk, &is_converted, error_text, sizeof(error_text)),
                     STATUS_OK);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct disk_sim *crashed = disk_sim_clone(disk, seed);
        struct legacy_fixture_state found;
        disk_sim_crash(crashed, DISK_SIM_LOSE_ANY);
        enum status status =
            legacy_fixture_convert(crashed, &is_converted, error_text, sizeof(error_text));
        legacy_fixture_read(crashed, &found);
        n_lost += status != STATUS_OK || !legacy_fixture_is_equal(&found, expected);
        legacy_fixture_clear(&found);
        disk_sim_destroy(crashed);
    }
    disk_sim_destroy(disk);
    return n_lost;
}

static void each_sync_is_needed(void **state) {
    struct legacy_fixture_state expected;
    uint64_t n_calls = 0;
    convert_whole(1, &expected, &n_calls);
    assert_int_equal(count_losses(DISK_SIM_SYNC, NULL, &expected), 0);
    /* The log is opened once more before it counts, which syncs it again: see its own tests. */
    assert_true(count_losses(DISK_SIM_SYNC, "meta.", &expected) > 0);
    assert_true(count_losses(DISK_SIM_SYNC, "tmp-snap-", &expected) > 0);
    assert_true(count_losses(DISK_SIM_SYNC_DIRECTORY, "", &expected) > 0);
    legacy_fixture_clear(&expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_every_failing_call_the_next_start_completes_it),
        cmocka_unit_test(after_every_loss_of_power_the_next_start_completes_it),
        cmocka_unit_test(after_every_loss_of_power_old_files_can_be_discarded),
        cmocka_unit_test(every_flipped_bit_is_refused_or_cuts_the_last_write),
        cmocka_unit_test(each_sync_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
