/*
 * The log store with each of its calls failing, stopping, and each of its syncs left out. A crash
 * never makes it refuse to open; what was acknowledged is there, and nothing but what was appended.
 */
#include "log_workload.h"
#include "thorough.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { CLONES = THOROUGH(48), CLONES_FOR_MUTANTS = 12, RANDOM_SEEDS = THOROUGH(1500) };

struct tally {
    uint64_t n_points; /* faults tried, each with its recovery */
    uint64_t n_violations;
    char first[LOG_WORLD_TEXT_SIZE + 256];
};

static void violation(struct tally *tally, const struct disk_sim *stopped, uint64_t n, uint64_t k,
                      const char *when, const char *text) {
    if (tally->n_violations++ == 0) {
        snprintf(tally->first, sizeof tally->first, "at call %llu (%s), clone %llu, %s: %s",
                 (unsigned long long)n, disk_sim_fault_text(stopped), (unsigned long long)k, when,
                 text);
    }
}

static bool open_and_check(struct log_world *world) {
    return log_world_open(world) && log_world_check(world);
}

/* Opens, checks, goes on in one of several ways, loses power, opens and checks again. */
static const char *recover(struct log_world *world, struct disk_sim *disk, uint64_t k) {
    if (!open_and_check(world)) {
        return "after the fault";
    }
    if (k % 3 == 1) { /* again in the middle of what follows */
        disk_sim_stop_at(disk, 1 + disk_sim_random(disk, 60));
    }
    if (k % 3 > 0 && log_world_run(world, &log_continuation) != 0 && !disk_sim_is_stopped(disk)) {
        return "while going on";
    }
    log_world_close(world);
    disk_sim_crash(disk, k % 2 == 0 ? DISK_SIM_LOSE_ALL : DISK_SIM_LOSE_ANY);
    return open_and_check(world) ? NULL : "after going on";
}

static void try_recoveries(struct tally *tally, const struct disk_sim *stopped,
                           const struct log_world *before, uint64_t n, unsigned n_clones) {
    for (unsigned k = 0; k < n_clones; k++) {
        static struct log_world world;
        struct disk_sim *disk = disk_sim_clone(stopped, n * 1000 + k);
        /* Without a crash, the clone is the same machine after the process is gone. */
        if (k % 4 > 0) {
            disk_sim_crash(disk, k % 4 == 1 ? DISK_SIM_LOSE_ALL : DISK_SIM_LOSE_ANY);
        }
        log_world_init(&world, disk, before, before->files.left_out);
        const char *when = recover(&world, disk, k / 4);
        if (when != NULL) {
            violation(tally, stopped, n, k, when, world.text);
        }
        log_world_close(&world);
        disk_sim_destroy(disk);
        tally->n_points++;
    }
}

/* Power is lost during each call. */
static void stop_everywhere(struct tally *tally, const struct log_workload *workload,
                            enum sync_site left_out, unsigned n_clones) {
    for (uint64_t n = 1;; n++) {
        static struct log_world world;
        struct disk_sim *disk = disk_sim_create(n);
        log_world_init(&world, disk, NULL, left_out);
        disk_sim_stop_at(disk, n);
        bool is_done = log_world_open(&world) && log_world_run(&world, workload) == 0;
        log_world_close(&world);
        /* Once more without a stop: what was acknowledged last. */
        try_recoveries(tally, disk, &world, n, n_clones);
        bool was_stopped = disk_sim_is_stopped(disk);
        disk_sim_destroy(disk);
        if (is_done && !was_stopped) {
            return;
        }
    }
}

static void power_loss_during_any_call_loses_nothing(void **state) {
    for (size_t i = 0; i < n_log_workloads; i++) {
        struct tally tally = {.n_points = 0};
        stop_everywhere(&tally, &log_workloads[i], SITE_NONE, CLONES);
        print_message("%-10s stopped at every call:   %6llu fault points\n", log_workloads[i].name,
                      (unsigned long long)tally.n_points);
        if (tally.n_violations > 0) {
            fail_msg("%s: %llu violations; %s", log_workloads[i].name,
                     (unsigned long long)tally.n_violations, tally.first);
        }
    }
}

/* The call fails; the process ends. */
static bool fail_call(struct tally *tally, const struct log_workload *workload,
                      struct disk_sim_fault fault) {
    static struct log_world world;
    struct disk_sim *disk = disk_sim_create(fault.at);
    log_world_init(&world, disk, NULL, SITE_NONE);
    uint64_t n = fault.at;
    disk_sim_fail(disk, fault);
    bool is_open = log_world_open(&world);
    int error = is_open ? log_world_run(&world, workload) : EIO;
    bool has_struck = disk_sim_fault_text(disk)[0] != '\0';
    if (error != 0 && !has_struck) {
        violation(tally, disk, n, 0, "without a fault", strerror(error));
    }
    if (is_open && error != 0 && world.store != NULL) {
        /* After an error, nothing works any more. */
        struct log_step append = {STEP_APPEND, 1, 0};
        struct log_world copy = world;
        if (log_world_step(&copy, &append) == 0) {
            violation(tally, disk, n, 0, "after an error", "an append was acknowledged");
        }
    }
    log_world_close(&world);
    if (disk_sim_open_files(disk) != 0) {
        violation(tally, disk, n, 0, "when closed", "files are open");
    }
    disk_sim_fail(disk, (struct disk_sim_fault){.at = 0});
    try_recoveries(tally, disk, &world, n, 6);
    disk_sim_destroy(disk);
    return has_struck;
}

static void any_call_that_fails_loses_nothing(void **state) {
    static const struct disk_sim_fault kinds[] = {
        {.kind = DISK_SIM_ANY_CALL, .error = EIO},
        {.kind = DISK_SIM_ANY_CALL, .error = EIO, .is_partial = true},
        {.kind = DISK_SIM_ANY_CALL, .error = ENOSPC, .is_partial = true, .is_lasting = true},
    };
    for (size_t i = 0; i < n_log_workloads; i++) {
        struct tally tally = {.n_points = 0};
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
            struct disk_sim_fault fault = kinds[kind];
            for (fault.at = 1; fail_call(&tally, &log_workloads[i], fault); fault.at++) {
            }
        }
        print_message("%-10s failed at every call:    %6llu fault points\n", log_workloads[i].name,
                      (unsigned long long)tally.n_points);
        if (tally.n_violations > 0) {
            fail_msg("%s: %llu violations; %s", log_workloads[i].name,
                     (unsigned long long)tally.n_violations, tally.first);
        }
    }
}

static struct log_step random_step(struct disk_sim *disk) {
    static const enum log_step_kind kinds[] = {STEP_APPEND, STEP_APPEND, STEP_APPEND,  STEP_APPEND,
                                               STEP_APPEND, STEP_TRIM,   STEP_PREPARE, STEP_PREPARE,
                                               STEP_REST,   STEP_RESET,  STEP_REOPEN};
    struct log_step step = {.kind = kinds[disk_sim_random(disk, sizeof kinds / sizeof *kinds)]};
    step.a = 1 + (unsigned)disk_sim_random(disk, 8);
    step.b = disk_sim_random(disk, 3) == 0 ? (unsigned)disk_sim_random(disk, 6) : 0;
    return step;
}

/* Random operations until power is lost, again and again on one disk. */
static const char *live_and_die(struct log_world *world, struct disk_sim **disk, uint64_t seed) {
    for (unsigned life = 0; life < 12; life++) {
        disk_sim_stop_at(*disk, 1 + disk_sim_random(*disk, 150));
        bool is_open = log_world_open(world);
        if (!is_open && !disk_sim_is_stopped(*disk)) {
            return "opening";
        }
        if (is_open && !log_world_check(world) && !disk_sim_is_stopped(*disk)) {
            return "after a crash";
        }
        while (is_open && !disk_sim_is_stopped(*disk) &&
               world->acknowledged.last < LOG_MODEL_ENTRIES_MAX - 40) {
            struct log_step step = random_step(*disk);
            if (log_world_step(world, &step) != 0 && !disk_sim_is_stopped(*disk)) {
                return "in an operation";
            }
            is_open = world->store != NULL;
        }
        log_world_close(world);
        if (disk_sim_random(*disk, 3) == 0) { /* the machine goes on */
            struct disk_sim *same = disk_sim_clone(*disk, seed * 100 + life);
            disk_sim_destroy(*disk);
            *disk = same;
            world->files.under = disk_sim_files(same);
        } else {
            disk_sim_crash(*disk,
                           disk_sim_random(*disk, 3) == 0 ? DISK_SIM_LOSE_ALL : DISK_SIM_LOSE_ANY);
        }
    }
    disk_sim_stop_at(*disk, 0);
    return open_and_check(world) ? NULL : "in the end";
}

static void random_operations_over_many_lives_lose_nothing(void **state) {
    for (uint64_t seed = 1; seed <= RANDOM_SEEDS; seed++) {
        static struct log_world world;
        struct disk_sim *disk = disk_sim_create(seed);
        log_world_init(&world, disk, NULL, SITE_NONE);
        const char *when = live_and_die(&world, &disk, seed);
        if (when != NULL) {
            fail_msg("seed %llu, %s: %s", (unsigned long long)seed, when, world.text);
        }
        log_world_close(&world);
        disk_sim_destroy(disk);
    }
    print_message("random     twelve lives each:         %6d seeds\n", RANDOM_SEEDS);
}

static void a_full_disk_is_told_and_loses_nothing(void **state) {
    uint64_t n_points = 0;
    for (uint64_t capacity = 0; capacity < 24 * 1024; capacity += 100) {
        static struct log_world world;
        struct disk_sim *disk = disk_sim_create(capacity);
        disk_sim_set_capacity(disk, capacity);
        log_world_init(&world, disk, NULL, SITE_NONE);
        assert_true(log_world_open(&world));
        int error = log_world_run(&world, &log_workloads[0]);
        assert_true(error == 0 || error == ENOSPC);
        log_world_close(&world);
        disk_sim_crash(disk, DISK_SIM_LOSE_ANY);
        /* It opens on the full disk, too. */
        if (!open_and_check(&world)) {
            fail_msg("capacity %llu: %s", (unsigned long long)capacity, world.text);
        }
        log_world_close(&world);
        disk_sim_destroy(disk);
        n_points++;
    }
    print_message("append     on a full disk:         %6llu fault points\n",
                  (unsigned long long)n_points);
}

/* The tests above can fail: each sync that is left out makes them. */
static void every_sync_is_needed(void **state) {
    for (enum sync_site site = SITE_BATCH; site <= SITE_OPEN_BATCH; site++) {
        struct tally tally = {.n_points = 0};
        for (size_t i = 0; i < n_log_workloads && tally.n_violations == 0; i++) {
            stop_everywhere(&tally, &log_workloads[i], site, CLONES_FOR_MUTANTS);
        }
        print_message("without the sync of %s: %s\n", sync_site_text(site),
                      tally.n_violations > 0 ? tally.first : "NOTHING IS LOST");
        assert_true(tally.n_violations > 0);
    }
}

/* Every site is reached by the workloads, or leaving it out would show nothing. */
static void every_sync_is_reached(void **state) {
    uint64_t n_calls[N_SYNC_SITES] = {0};
    for (size_t i = 0; i < n_log_workloads; i++) {
        static struct log_world world;
        struct disk_sim *disk = disk_sim_create(i);
        log_world_init(&world, disk, NULL, SITE_NONE);
        assert_true(log_world_open(&world));
        assert_int_equal(log_world_run(&world, &log_workloads[i]), 0);
        log_world_close(&world);
        for (int site = 0; site < N_SYNC_SITES; site++) {
            n_calls[site] += world.files.n_calls[site];
        }
        disk_sim_destroy(disk);
    }
    for (enum sync_site site = SITE_BATCH; site <= SITE_OPEN_BATCH; site++) {
        assert_true(n_calls[site] > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sync_is_reached),
        cmocka_unit_test(power_loss_during_any_call_loses_nothing),
        cmocka_unit_test(any_call_that_fails_loses_nothing),
        cmocka_unit_test(random_operations_over_many_lives_lose_nothing),
        cmocka_unit_test(a_full_disk_is_told_and_loses_nothing),
        cmocka_unit_test(every_sync_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
