/*
 * Term and vote with every call failing or stopping, every sync left out, and bits flipped. What
 * was acknowledged is never taken back: this node could vote twice.
 */
#include "disk_sim.h"
#include "mutant_files.h"
#include "raft/vote_store.h"
#include "thorough.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WRITES = 4, CLONES = THOROUGH(240) };

struct vote {
    uint64_t term;
    uint64_t vote;
};

struct votes {
    struct mutant_files files;
    struct vote_store *store;
    struct vote acknowledged;
    struct vote attempted;
    bool must_exist; /* once something was acknowledged */
    char text[512];
};

static void votes_init(struct votes *votes, struct disk_sim *disk, const struct votes *before,
                       enum sync_site left_out) {
    memset(votes, 0, sizeof *votes);
    votes->files.under = disk_sim_files(disk);
    votes->files.left_out = left_out;
    if (before != NULL) {
        votes->acknowledged = before->acknowledged;
        votes->attempted = before->attempted;
        votes->must_exist = before->must_exist;
    }
}

static bool votes_open(struct votes *votes) {
    struct raft_files files = mutant_files(&votes->files);
    mutant_files_begin_opening(&votes->files);
    bool is_open = vote_store_open(&files, votes->must_exist, &votes->store, votes->text,
                                   sizeof votes->text) == STATUS_OK;
    if (is_open && vote_store_confirm(votes->store, votes->text, sizeof votes->text) != STATUS_OK) {
        vote_store_close(votes->store);
        votes->store = NULL;
        is_open = false;
    }
    mutant_files_end_opening(&votes->files);
    votes->must_exist = votes->must_exist || is_open;
    return is_open;
}

static void votes_close(struct votes *votes) {
    vote_store_close(votes->store);
    votes->store = NULL;
}

static int votes_write(struct votes *votes, unsigned n) {
    int error = 0;
    while (n-- > 0 && error == 0) {
        uint64_t term = votes->acknowledged.term + n % 2;
        votes->attempted = (struct vote){term, votes->acknowledged.vote + 1};
        error = vote_store_write(votes->store, term, votes->attempted.vote);
        if (error == 0) {
            votes->acknowledged = votes->attempted;
        }
    }
    return error;
}

static bool is_vote(const struct votes *votes, struct vote vote) {
    return vote_store_term(votes->store) == vote.term && vote_store_vote(votes->store) == vote.vote;
}

static bool votes_check(struct votes *votes) {
    if (is_vote(votes, votes->attempted)) {
        votes->acknowledged = votes->attempted;
    } else if (is_vote(votes, votes->acknowledged)) {
        votes->attempted = votes->acknowledged;
    } else {
        snprintf(votes->text, sizeof votes->text, "term %llu, vote %llu instead of %llu, %llu",
                 (unsigned long long)vote_store_term(votes->store),
                 (unsigned long long)vote_store_vote(votes->store),
                 (unsigned long long)votes->acknowledged.term,
                 (unsigned long long)votes->acknowledged.vote);
        return false;
    }
    return true;
}

struct tally {
    uint64_t n_points;
    uint64_t n_violations;
    char first[1024];
};

static bool recover(struct votes *votes, struct disk_sim *disk, unsigned k) {
    if (!votes_open(votes) || !votes_check(votes)) {
        return false;
    }
    if (k % 3 == 1) {
        disk_sim_stop_at(disk, 1 + disk_sim_random(disk, 12));
    }
    if (k % 3 > 0) {
        (void)votes_write(votes, 2);
    }
    votes_close(votes);
    disk_sim_crash(disk, k % 2 == 0 ? DISK_SIM_LOSE_ALL : DISK_SIM_LOSE_ANY);
    return votes_open(votes) && votes_check(votes);
}

static void try_recoveries(struct tally *tally, const struct disk_sim *stopped,
                           const struct votes *before, uint64_t n) {
    for (unsigned k = 0; k < CLONES; k++) {
        struct votes votes;
        struct disk_sim *disk = disk_sim_clone(stopped, n * 1000 + k);
        if (k % 4 > 0) {
            disk_sim_crash(disk, k % 4 == 1 ? DISK_SIM_LOSE_ALL : DISK_SIM_LOSE_ANY);
        }
        votes_init(&votes, disk, before, before->files.left_out);
        if (!recover(&votes, disk, k / 4) && tally->n_violations++ == 0) {
            snprintf(tally->first, sizeof tally->first, "at call %llu (%s), clone %u: %s",
                     (unsigned long long)n, disk_sim_fault_text(stopped), k, votes.text);
        }
        votes_close(&votes);
        disk_sim_destroy(disk);
        tally->n_points++;
    }
}

/* Opens and writes with the fault set. False: it did not strike. */
static bool run(struct tally *tally, uint64_t n, const struct disk_sim_fault *fault,
                enum sync_site left_out) {
    struct votes votes;
    struct disk_sim *disk = disk_sim_create(n);
    votes_init(&votes, disk, NULL, left_out);
    if (fault != NULL) {
        disk_sim_fail(disk, *fault);
    } else {
        disk_sim_stop_at(disk, n);
    }
    if (votes_open(&votes)) {
        int error = votes_write(&votes, WRITES);
        if (error != 0 && vote_store_write(votes.store, 100, 1) == 0) {
            tally->n_violations++; /* nothing is acknowledged after an error */
        }
    }
    votes_close(&votes);
    bool has_struck = disk_sim_fault_text(disk)[0] != '\0';
    disk_sim_fail(disk, (struct disk_sim_fault){.at = 0});
    try_recoveries(tally, disk, &votes, n);
    disk_sim_destroy(disk);
    return has_struck;
}

static void power_loss_during_any_call_takes_no_vote_back(void **state) {
    struct tally tally = {.n_points = 0};
    for (uint64_t n = 1; run(&tally, n, NULL, SITE_NONE); n++) {
    }
    print_message("vote       stopped at every call: %6llu fault points\n",
                  (unsigned long long)tally.n_points);
    if (tally.n_violations > 0) {
        fail_msg("%s", tally.first);
    }
}

static void any_call_that_fails_takes_no_vote_back(void **state) {
    struct tally tally = {.n_points = 0};
    for (int kind = 0; kind < 4; kind++) {
        struct disk_sim_fault fault = {.kind = DISK_SIM_ANY_CALL,
                                       .error = kind % 2 == 0 ? EIO : ENOSPC,
                                       .is_partial = kind >= 2,
                                       .is_lasting = kind == 3};
        for (fault.at = 1; run(&tally, fault.at, &fault, SITE_NONE); fault.at++) {
        }
    }
    print_message("vote       failed at every call:  %6llu fault points\n",
                  (unsigned long long)tally.n_points);
    if (tally.n_violations > 0) {
        fail_msg("%s", tally.first);
    }
}

static void every_sync_is_needed(void **state) {
    for (enum sync_site site = SITE_VOTE_FIRST; site <= SITE_VOTE_NAME; site++) {
        struct tally tally = {.n_points = 0};
        for (uint64_t n = 1; run(&tally, n, NULL, site); n++) {
        }
        print_message("without the sync of %s: %s\n", sync_site_text(site),
                      tally.n_violations > 0 ? tally.first : "NOTHING IS LOST");
        assert_true(tally.n_violations > 0);
    }
}

static struct disk_sim *make_disk(struct votes *votes) {
    struct disk_sim *disk = disk_sim_create(1);
    votes_init(votes, disk, NULL, SITE_NONE);
    assert_true(votes_open(votes));
    assert_int_equal(votes_write(votes, WRITES), 0);
    votes_close(votes);
    return disk;
}

static void one_damaged_slot_is_repaired_and_two_are_refused(void **state) {
    static const char *const names[] = {"meta.1", "meta.2"};
    struct votes votes;
    struct disk_sim *disk = make_disk(&votes);
    uint64_t n_points = 0;
    for (int slot = 0; slot < 2; slot++) {
        for (uint64_t offset = 0; offset < 64; offset++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                struct votes again;
                struct disk_sim *copy = disk_sim_clone(disk, 1);
                disk_sim_flip_bit(copy, names[slot], offset, bit);
                votes_init(&again, copy, &votes, SITE_NONE);
                assert_true(votes_open(&again));
                assert_true(is_vote(&again, votes.acknowledged));
                votes_close(&again);
                /* It is whole again: the other one may go. */
                disk_sim_flip_bit(copy, names[1 - slot], offset, bit);
                assert_true(votes_open(&again));
                assert_true(is_vote(&again, votes.acknowledged));
                votes_close(&again);
                disk_sim_flip_bit(copy, names[0], 16, 0);
                disk_sim_flip_bit(copy, names[1], 24, 0);
                assert_false(votes_open(&again));
                assert_non_null(strstr(again.text, "damaged"));
                assert_non_null(strstr(again.text, "remove the member"));
                assert_false(disk_sim_is_dirty(copy));
                disk_sim_destroy(copy);
                n_points += 3;
            }
        }
    }
    print_message("vote       bits flipped:          %6llu fault points\n",
                  (unsigned long long)n_points);
    disk_sim_destroy(disk);
}

static void a_missing_slot_is_made_again_and_two_are_refused(void **state) {
    struct votes votes;
    struct disk_sim *disk = make_disk(&votes);
    disk_sim_remove(disk, "meta.2");
    assert_true(votes_open(&votes));
    assert_true(is_vote(&votes, votes.acknowledged));
    votes_close(&votes);
    disk_sim_crash(disk, DISK_SIM_LOSE_ALL);
    disk_sim_remove(disk, "meta.1");
    assert_true(votes_open(&votes));
    assert_true(is_vote(&votes, votes.acknowledged));
    votes_close(&votes);
    disk_sim_remove(disk, "meta.1");
    disk_sim_remove(disk, "meta.2");
    assert_false(votes_open(&votes));
    assert_non_null(strstr(votes.text, "missing"));
    disk_sim_destroy(disk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_loss_during_any_call_takes_no_vote_back),
        cmocka_unit_test(any_call_that_fails_takes_no_vote_back),
        cmocka_unit_test(every_sync_is_needed),
        cmocka_unit_test(one_damaged_slot_is_repaired_and_two_are_refused),
        cmocka_unit_test(a_missing_slot_is_made_again_and_two_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
