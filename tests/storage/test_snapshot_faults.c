/*
 * Snapshots under faults. Whatever happens while one is taken, committed, installed or cleaned up,
 * afterwards the newest that can be found is the old or the new one, whole; the new one when the
 * operation said that it succeeded. Damage on disk is refused by name.
 */
#include "disk_sim.h"
#include "raft/snapshot_store.h"
#include "snapshot_fixture.h"
#include "thorough.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OLD_INDEX = 20, NEW_INDEX = 30 };

struct operation {
    const char *name;
    /* What happens before faults begin; the disk holds snapshots 10 and 20 already. */
    void (*prepare)(const struct raft_files *files);
    int (*run)(const struct raft_files *files);
    uint64_t new_index;
    uint64_t crashes; /* tried at each point */
    size_t n_faults;  /* likewise: see `faults` */
};

static void prepare_nothing(const struct raft_files *files) {
    (void)files;
}

static int take(const struct raft_files *files) {
    return snapshot_fixture_write(files, NEW_INDEX, 2 * SNAPSHOT_CHUNK_SIZE + 1000, 50000, "taken");
}

/* Large enough for a sync in between. */
static int take_large(const struct raft_files *files) {
    return snapshot_fixture_write(files, NEW_INDEX, 9 * 1024 * 1024, 1024 * 1024, "taken");
}

static struct snapshot_writer *prepared;

static void prepare_commit(const struct raft_files *files) {
    assert_int_equal(snapshot_fixture_open(files, NEW_INDEX, "taken", &prepared), 0);
    assert_int_equal(snapshot_fixture_append(prepared, NEW_INDEX, 300000, 50000), 0);
}

static int commit(const struct raft_files *files) {
    return snapshot_writer_commit(prepared);
}

/* A snapshot from the leader arrives while one of our own is being taken. */
static int install(const struct raft_files *files) {
    struct snapshot_writer *taken = NULL;
    struct snapshot_writer *received = NULL;
    int error = snapshot_fixture_open(files, 25, "taken", &taken);
    if (error == 0) {
        error = snapshot_fixture_open(files, NEW_INDEX, "received", &received);
    }
    for (int i = 0; error == 0 && i < 3; i++) {
        error = snapshot_fixture_append(received, NEW_INDEX, SNAPSHOT_CHUNK_SIZE - 100,
                                        SNAPSHOT_CHUNK_SIZE);
        if (error == 0) {
            error = snapshot_fixture_append(taken, 25, 20000, 5000);
        }
    }
    if (error == 0) {
        error = snapshot_writer_commit(received);
        received = NULL;
    }
    if (received != NULL) {
        snapshot_writer_abort(received);
    }
    if (taken != NULL) {
        snapshot_writer_abort(taken); /* it is of no use any more */
    }
    return error;
}

static void prepare_clean(const struct raft_files *files) {
    struct disk_sim *disk = files->data;
    struct snapshot_writer *writer = NULL;
    /* As a crash leaves them behind: one of the two is not synced. */
    disk_sim_put(disk, "tmp-snap-taken", bytes_from_text("torn"));
    assert_int_equal(snapshot_fixture_open(files, NEW_INDEX, "received", &writer), 0);
    assert_int_equal(snapshot_fixture_append(writer, NEW_INDEX, 300000, 50000), 0);
    disk_sim_crash(disk, DISK_SIM_LOSE_NONE);
    struct bytes bytes = disk_sim_view(disk, "snap-00000000000000000010-00000000000000000001");
    for (int i = 1; i <= 3; i++) {
        char name[64];
        snprintf(name, sizeof(name), "snap-%020d-%020d", i, 0);
        disk_sim_put(disk, name, bytes);
    }
    snapshot_writer_abort(writer);
}

static int clean(const struct raft_files *files) {
    return snapshot_store_clean(files);
}

static const struct operation operations[] = {
    {"take", prepare_nothing, take, NEW_INDEX, 40, 3},
    {"take, large", prepare_nothing, take_large, NEW_INDEX, 2, 1},
    {"commit", prepare_commit, commit, NEW_INDEX, 200, 3},
    {"install", prepare_nothing, install, NEW_INDEX, 40, 3},
    {"clean", prepare_clean, clean, OLD_INDEX, 200, 3},
};
enum { OPERATION_COUNT = sizeof(operations) / sizeof(*operations) };

/* --- the frame of a run --- */

static struct disk_sim *disk_with_old(uint64_t seed) {
    struct disk_sim *disk = disk_sim_create(seed);
    struct raft_files files = disk_sim_files(disk);
    assert_int_equal(snapshot_fixture_write(&files, 10, 70000, 50000, "taken"), 0);
    assert_int_equal(snapshot_fixture_write(&files, OLD_INDEX, 80000, 50000, "taken"), 0);
    return disk;
}

static struct disk_sim *disk_for(const struct operation *operation, uint64_t seed) {
    struct disk_sim *disk = disk_with_old(seed);
    struct raft_files files = disk_sim_files(disk);
    operation->prepare(&files);
    disk_sim_reset_counts(disk);
    return disk;
}

static uint64_t count_calls(const struct operation *operation) {
    struct disk_sim *disk = disk_for(operation, 1);
    struct raft_files files = disk_sim_files(disk);
    assert_int_equal(operation->run(&files), 0);
    uint64_t n = disk_sim_count(disk, DISK_SIM_ANY_CALL);
    disk_sim_destroy(disk);
    return n;
}

static struct snapshot_meta found; /* large */

/* The index of the newest, whole; fails when there is none. */
static uint64_t find_whole(struct disk_sim *disk, const struct operation *operation,
                           const char *fault) {
    struct raft_files files = disk_sim_files(disk);
    char error_text[512] = "";
    enum status status = snapshot_store_find(&files, &found, error_text, sizeof(error_text));
    if (status != STATUS_OK || !snapshot_fixture_is_whole(&files, &found)) {
        fail_msg("%s, %s: %s %s", operation->name, fault, status_text(status), error_text);
    }
    return found.index;
}

static void assert_old_or_new(struct disk_sim *disk, const struct operation *operation,
                              const char *fault, bool has_succeeded) {
    uint64_t index = find_whole(disk, operation, fault);
    if (index == operation->new_index || (index == OLD_INDEX && !has_succeeded)) {
        return;
    }
    fail_msg("%s, %s: found snapshot %llu after %s", operation->name, fault,
             (unsigned long long)index, has_succeeded ? "success" : "failure");
}

/* After the fault the node starts again and the operation succeeds. */
static void assert_recovers(struct disk_sim *disk, const struct operation *operation,
                            const char *fault) {
    struct raft_files files = disk_sim_files(disk);
    assert_int_equal(snapshot_store_clean(&files), 0);
    if (operation->new_index == NEW_INDEX) {
        assert_int_equal(take(&files), 0);
    }
    disk_sim_crash(disk, DISK_SIM_LOSE_ALL);
    assert_old_or_new(disk, operation, fault, true);
}

/* --- (a) every n-th call fails --- */

static void fail_call(const struct operation *operation, uint64_t n, struct disk_sim_fault fault) {
    struct disk_sim *disk = disk_for(operation, n);
    struct raft_files files = disk_sim_files(disk);
    fault.kind = DISK_SIM_ANY_CALL;
    fault.at = n;
    disk_sim_fail(disk, fault);
    int error = operation->run(&files);
    disk_sim_fail(disk, (struct disk_sim_fault){0});
    char text[400];
    snprintf(text, sizeof(text), "failing call %llu (%s)", (unsigned long long)n,
             disk_sim_fault_text(disk));
    if (disk_sim_open_files(disk) > 0) {
        fail_msg("%s, %s: a file was left open", operation->name, text);
    }
    assert_old_or_new(disk, operation, text, error == 0);
    struct disk_sim *crashed = disk_sim_clone(disk, n);
    disk_sim_crash(crashed, DISK_SIM_LOSE_ANY);
    assert_old_or_new(crashed, operation, text, error == 0);
    assert_recovers(crashed, operation, text);
    disk_sim_destroy(crashed);
    assert_recovers(disk, operation, text);
    disk_sim_destroy(disk);
}

static void every_failing_call_leaves_the_old_or_the_new(void **state) {
    static const struct disk_sim_fault faults[] = {
        {.error = EIO},
        {.error = ENOSPC, .is_partial = true},
        {.error = EIO, .is_lasting = true},
    };
    for (int i = 0; i < OPERATION_COUNT; i++) {
        uint64_t n_calls = count_calls(&operations[i]);
        for (uint64_t n = 1; n <= n_calls; n++) {
            for (size_t j = 0; j < operations[i].n_faults; j++) {
                fail_call(&operations[i], n, faults[j]);
            }
        }
        printf("snapshot %s: %llu calls, each failed in %zu ways\n", operations[i].name,
               (unsigned long long)n_calls, operations[i].n_faults);
    }
}

/* --- (b) power is lost during every n-th call --- */

static void crash_once(const struct disk_sim *stopped, const struct operation *operation,
                       uint64_t seed, bool has_succeeded, const char *text) {
    struct disk_sim *disk = disk_sim_clone(stopped, seed);
    disk_sim_crash(disk, seed == 1   ? DISK_SIM_LOSE_ALL
                         : seed == 2 ? DISK_SIM_LOSE_NONE
                                     : DISK_SIM_LOSE_ANY);
    char where[500];
    snprintf(where, sizeof(where), "%s, crash %llu", text, (unsigned long long)seed);
    assert_old_or_new(disk, operation, where, has_succeeded);
    if (seed <= 3) {
        assert_recovers(disk, operation, where);
    }
    disk_sim_destroy(disk);
}

static void stop_at_call(const struct operation *operation, uint64_t n) {
    struct disk_sim *disk = disk_for(operation, n);
    struct raft_files files = disk_sim_files(disk);
    disk_sim_stop_at(disk, n);
    int error = operation->run(&files);
    char text[400];
    snprintf(text, sizeof(text), "stopped at call %llu (%s)", (unsigned long long)n,
             disk_sim_fault_text(disk));
    for (uint64_t seed = 1; seed <= THOROUGH(operation->crashes); seed++) {
        crash_once(disk, operation, seed, error == 0, text);
    }
    disk_sim_destroy(disk);
}

static void every_loss_of_power_leaves_the_old_or_the_new(void **state) {
    for (int i = 0; i < OPERATION_COUNT; i++) {
        uint64_t n_calls = count_calls(&operations[i]);
        for (uint64_t n = 1; n <= n_calls + 1; n++) { /* the last: after all of them */
            stop_at_call(&operations[i], n);
        }
        printf("snapshot %s: power lost at %llu points, %llu crashes each\n", operations[i].name,
               (unsigned long long)n_calls + 1, (unsigned long long)operations[i].crashes);
    }
}

/* --- a disk that runs full --- */

static void a_full_disk_leaves_the_old_one(void **state) {
    int n_full = 0;
    for (uint64_t room = 0; room < 700000; room += 9973) {
        struct disk_sim *disk = disk_for(&operations[0], room);
        struct raft_files files = disk_sim_files(disk);
        disk_sim_set_capacity(disk, disk_sim_used(disk) + room);
        int error = take(&files);
        assert_true(error == 0 || error == ENOSPC);
        n_full += error == ENOSPC;
        assert_int_equal(find_whole(disk, &operations[0], "full"), error == 0 ? 30 : 20);
        disk_sim_set_capacity(disk, UINT64_MAX);
        assert_recovers(disk, &operations[0], "full");
        disk_sim_destroy(disk);
    }
    assert_true(n_full > 50);
}

/* --- (c) damage --- */

static void assert_refused(struct disk_sim *disk, const char *name, const char *damage,
                           uint64_t position) {
    struct raft_files files = disk_sim_files(disk);
    char error_text[512] = "";
    enum status status = snapshot_store_find(&files, &found, error_text, sizeof(error_text));
    if (status != STATUS_CORRUPT || strstr(error_text, name) == NULL ||
        strstr(error_text, "backup") == NULL) {
        fail_msg("%s at %llu: %s %s", damage, (unsigned long long)position, status_text(status),
                 error_text);
    }
    assert_int_equal(disk_sim_open_files(disk), 0);
}

static void every_flipped_bit_and_every_missing_end_is_refused(void **state) {
    const char *name = "snap-00000000000000000020-00000000000000000002";
    struct disk_sim *disk = disk_sim_create(1);
    struct raft_files files = disk_sim_files(disk);
    assert_int_equal(snapshot_fixture_write(&files, 10, 700, 700, "taken"), 0);
    assert_int_equal(snapshot_fixture_write(&files, OLD_INDEX, 700, 700, "taken"), 0);
    uint64_t size = disk_sim_view(disk, name).size;
    for (uint64_t bit = 0; bit < 8 * size; bit++) {
        disk_sim_flip_bit(disk, name, bit / 8, bit % 8);
        assert_refused(disk, name, "bit", bit);
        disk_sim_flip_bit(disk, name, bit / 8, bit % 8);
    }
    for (uint64_t end = 0; end < size; end++) {
        struct disk_sim *cut = disk_sim_clone(disk, 1);
        disk_sim_resize(cut, name, end);
        assert_refused(cut, name, "cut", end);
        disk_sim_resize(cut, name, size); /* zeros in the place of the end */
        assert_refused(cut, name, "zeros", end);
        disk_sim_resize(cut, name, size + 1 + end);
        assert_refused(cut, name, "longer", end);
        disk_sim_destroy(cut);
    }
    printf("snapshot damage: %llu bits flipped, %llu lengths\n", (unsigned long long)(8 * size),
           (unsigned long long)(3 * size));
    assert_int_equal(find_whole(disk, &operations[0], "undamaged"), OLD_INDEX);
    disk_sim_destroy(disk);
}

static void flipped_bits_in_a_payload_of_many_chunks_are_refused(void **state) {
    const char *name = "snap-00000000000000000030-00000000000000000003";
    struct disk_sim *disk = disk_for(&operations[0], 1);
    struct raft_files files = disk_sim_files(disk);
    assert_int_equal(take(&files), 0);
    uint64_t size = disk_sim_view(disk, name).size;
    for (int i = 0; i < 500; i++) {
        uint64_t offset = disk_sim_random(disk, size);
        unsigned bit = (unsigned)disk_sim_random(disk, 8);
        disk_sim_flip_bit(disk, name, offset, bit);
        assert_refused(disk, name, "byte", offset);
        disk_sim_flip_bit(disk, name, offset, bit);
    }
    /* The older one is not looked at, and the newest is not passed over for it. */
    disk_sim_flip_bit(disk, "snap-00000000000000000020-00000000000000000002", 5000, 1);
    assert_int_equal(find_whole(disk, &operations[0], "old one damaged"), NEW_INDEX);
    disk_sim_destroy(disk);
}

/* --- without a sync the tests above would fail --- */

static int count_losses(enum disk_sim_call ignored, const char *prefix) {
    int n_lost = 0;
    struct disk_sim *disk = disk_for(&operations[0], 1);
    struct raft_files files = disk_sim_files(disk);
    if (prefix != NULL) {
        disk_sim_ignore(disk, ignored, prefix);
    }
    assert_int_equal(take(&files), 0);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct disk_sim *crashed = disk_sim_clone(disk, seed);
        struct raft_files crashed_files = disk_sim_files(crashed);
        char error_text[512] = "";
        disk_sim_crash(crashed, DISK_SIM_LOSE_ANY);
        enum status status =
            snapshot_store_find(&crashed_files, &found, error_text, sizeof(error_text));
        n_lost += status != STATUS_OK || found.index != NEW_INDEX;
        disk_sim_destroy(crashed);
    }
    disk_sim_destroy(disk);
    return n_lost;
}

static void each_sync_is_needed(void **state) {
    assert_int_equal(count_losses(DISK_SIM_SYNC, NULL), 0);
    assert_true(count_losses(DISK_SIM_SYNC, "tmp-snap-") > 10);
    assert_true(count_losses(DISK_SIM_SYNC_DIRECTORY, "") > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_call_leaves_the_old_or_the_new),
        cmocka_unit_test(every_loss_of_power_leaves_the_old_or_the_new),
        cmocka_unit_test(a_full_disk_leaves_the_old_one),
        cmocka_unit_test(every_flipped_bit_and_every_missing_end_is_refused),
        cmocka_unit_test(flipped_bits_in_a_payload_of_many_chunks_are_refused),
        cmocka_unit_test(each_sync_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
