/* Each guard, shown to be needed: a scenario holds with all of them, and fails (or crashes) in a
 * process where its guard is switched off. */
#include "raft_engine_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- What is still allocated by libraft. --- */

static long n_allocated;

static void *heap_malloc(void *data, size_t size) {
    n_allocated++;
    return malloc(size);
}

static void heap_free(void *data, void *pointer) {
    n_allocated -= pointer != NULL;
    free(pointer);
}

static void *heap_calloc(void *data, size_t n, size_t size) {
    n_allocated++;
    return calloc(n, size);
}

static void *heap_realloc(void *data, void *pointer, size_t size) {
    n_allocated += pointer == NULL;
    return realloc(pointer, size);
}

static struct raft_heap counting_heap = {
    .malloc = heap_malloc, .free = heap_free, .calloc = heap_calloc, .realloc = heap_realloc};

/* --- Scenarios: true when all is well. --- */

static bool is_well(void) {
    return !fixture.has_failed;
}

static bool asks_for_votes(void) {
    size_t from = fixture.n_sent;
    for (int i = 0; i < 3; i++) {
        fixture_poll_at_deadline();
    }
    return fixture_count_sent(MESSAGE_VOTE, from) > 0;
}

/* The guard for prefixes hides this one: it is off here. */
static bool commit_index_stays(void) {
    raft_guards_disabled |= GUARD_PREFIX;
    fixture_boot(1, "VVV", 1, 0);
    fixture_receive_commands(2, 2, 1, 1, 5, 8);
    bool is_committed = raft_engine_commit_index(fixture.engine) == 5;
    fixture_receive_commands(2, 2, 1, 1, 9, 2);
    return is_committed && is_well() && raft_engine_commit_index(fixture.engine) >= 5;
}

static bool change_behind_others_is_rolled_back(void) {
    fixture_boot(3, "VVV", 1, 0);
    struct log_item *items[] = {fixture_command(2, 2), fixture_command(3, 2),
                                fixture_change(4, 2, "VV-")};
    fixture_receive_append(2, 2, 1, 1, 1, items, 3);
    fixture_written();
    fixture_receive_commands(1, 3, 3, 2, 1, 1);
    fixture_written();
    return is_well() && asks_for_votes();
}

/* The second change arrives before the first is known to be committed, and is cut off. */
static bool first_of_two_changes_stays(void) {
    fixture_boot(3, "VVV", 1, 0);
    struct log_item *first = fixture_change(2, 2, "VVb");
    struct log_item *second = fixture_change(3, 2, "VV-");
    fixture_receive_append(2, 2, 1, 1, 1, &first, 1);
    fixture_receive_append(2, 2, 2, 2, 1, &second, 1);
    fixture_written();
    fixture_receive_commands(1, 3, 2, 2, 1, 1);
    fixture_written();
    return is_well() && !asks_for_votes();
}

static bool old_terms_are_refused(void) {
    raft_guards_disabled |= GUARD_PREFIX; /* which hides this one */
    fixture_boot(1, "VVV", 5, 3);
    struct log_item *items[] = {fixture_change(1, 1, "VVV")};
    fixture_receive_append(2, 4, 0, 0, 0, items, 1);
    const struct fixture_sent *sent = fixture_last_sent(MESSAGE_APPEND_RESULT, 0);
    return sent != NULL && sent->view.append_result.rejected != 0 &&
           sent->view.append_result.term == 5;
}

static bool old_snapshots_are_refused(void) {
    fixture_boot(1, "VVV", 5, 3);
    struct snapshot_meta meta = fixture_meta(40, 4, 1, "VVV");
    bool is_wanted = fixture_receive_snapshot(2, 4, &meta);
    const struct fixture_sent *sent = fixture_last_sent(MESSAGE_APPEND_RESULT, 0);
    return !is_wanted && sent != NULL && sent->view.append_result.rejected != 0;
}

static void follow_and_compact(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_receive_commands(2, 2, 1, 1, 1, 9);
    fixture_written();
    fixture_receive_commands(2, 2, 10, 2, 10, 0);
    struct snapshot_meta meta;
    if (!raft_engine_snapshot_begin(fixture.engine, &meta)) {
        abort();
    }
    raft_engine_snapshot_taken(fixture.engine, 100, 2, fixture.now_ms);
}

static bool compacted_entries_are_not_appended_again(void) {
    follow_and_compact();
    struct log_item *items[] = {fixture_change(1, 1, "VVV"), fixture_command(2, 2),
                                fixture_command(3, 2)};
    fixture_receive_append(2, 2, 0, 0, 10, items, 3);
    return is_well() && raft_engine_last_index(fixture.engine) == 10;
}

/* Entries that are committed here but that another one is claimed to be. */
static bool committed_entries_stay(void) {
    follow_and_compact();
    fixture_receive_commands(3, 4, 9, 2, 10, 1);
    return is_well() && raft_engine_last_index(fixture.engine) == 10;
}

static bool late_rejection_is_dropped(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    fixture_propose(5);
    fixture_written();
    uint64_t match = raft_engine_last_index(fixture.engine);
    uint64_t term = raft_engine_term(fixture.engine);
    fixture_receive_result(2, term, 0, match);
    /* Server 2 is silent: raft probes it again from what it has. */
    for (int i = 0; i < 30; i++) {
        fixture.now_ms += FIXTURE_HEARTBEAT_MS;
        fixture_receive_result(3, term, 0, match);
        fixture_poll();
    }
    size_t from = fixture.n_sent;
    fixture_receive_result(2, term, match, 0);
    for (size_t i = from; i < fixture.n_sent; i++) {
        const struct fixture_sent *sent = &fixture.sent[i];
        if (sent->view.kind == MESSAGE_APPEND && sent->to_id == 2 &&
            sent->view.append.prev_index < match) {
            return false;
        }
    }
    return is_well() && raft_engine_match_index(fixture.engine, 2) == match;
}

static bool late_vote_result_deposes_nobody(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead();
    uint64_t term = raft_engine_term(fixture.engine);
    fixture_receive_vote_result(3, term + 1, true, true);
    return is_well() && raft_engine_role(fixture.engine) == ENGINE_LEADER &&
           raft_engine_term(fixture.engine) == term;
}

static bool second_install_leaks_nothing(void) {
    raft_heap_set(&counting_heap);
    n_allocated = 0;
    fixture_boot(3, "VVV", 1, 0);
    struct snapshot_meta meta = fixture_meta(40, 2, 1, "VVV");
    bool is_first_wanted = fixture_receive_snapshot(2, 2, &meta);
    bool is_second_wanted = fixture_receive_snapshot(2, 2, &meta);
    raft_engine_installed(fixture.engine, fixture.now_ms);
    bool is_installed = fixture.restored_index == 40 && fixture.n_installs == 1;
    fixture_close();
    raft_heap_set_default();
    return is_first_wanted && !is_second_wanted && is_installed && n_allocated == 0;
}

static bool sole_voter_starts_in_a_new_term(void) {
    fixture_boot(1, "Vb", 3, 2);
    return is_well() && raft_engine_role(fixture.engine) == ENGINE_LEADER &&
           raft_engine_term(fixture.engine) == 4 && fixture.term == 4;
}

static void become_sole_voter(void) {
    fixture_boot(2, "VV", 1, 0);
    struct log_item *items[] = {fixture_change(2, 2, "-V")};
    fixture_receive_append(1, 2, 1, 1, 1, items, 1);
    fixture_written();
}

static bool sole_voter_leads_a_new_term(void) {
    become_sole_voter();
    for (int i = 0; i < 4 && raft_engine_role(fixture.engine) != ENGINE_LEADER; i++) {
        fixture_poll_at_deadline();
    }
    return is_well() && raft_engine_role(fixture.engine) == ENGINE_LEADER &&
           raft_engine_term(fixture.engine) > 2 && fixture.term == raft_engine_term(fixture.engine);
}

static bool sole_voter_is_not_told_to_stand(void) {
    become_sole_voter();
    struct raft_message_view view = {.kind = MESSAGE_TIMEOUT_NOW,
                                     .timeout_now = {.term = 2, .last_index = 2, .last_term = 2}};
    (void)raft_engine_receive(fixture.engine, 1, &view, fixture.now_ms);
    return raft_engine_role(fixture.engine) == ENGINE_FOLLOWER;
}

static bool refused_pre_vote_names_the_term(void) {
    fixture_boot(2, "VVV", 9, 0);
    fixture_receive_vote(
        1, (struct message_vote){.term = 4, .last_index = 50, .last_term = 3, .is_pre_vote = true});
    const struct fixture_sent *sent = fixture_last_sent(MESSAGE_VOTE_RESULT, 0);
    return sent != NULL && !sent->view.vote_result.is_granted && sent->view.vote_result.term == 9;
}

static bool successor_stands_when_it_has_everything(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    fixture_propose(20);
    fixture_written();
    uint64_t term = raft_engine_term(fixture.engine);
    uint64_t last = raft_engine_last_index(fixture.engine);
    if (raft_engine_transfer(fixture.engine, 2, fixture.now_ms) != STATUS_OK) {
        return false;
    }
    fixture_receive_result(2, term, 0, last - 10);
    bool is_early = fixture_count_sent(MESSAGE_TIMEOUT_NOW, 0) > 0;
    fixture_receive_result(2, term, 0, last);
    return !is_early && fixture_count_sent(MESSAGE_TIMEOUT_NOW, 0) == 1;
}

/* Server 3 is made a voter by servers 1 and 2, and has not heard of it. */
static bool voters_know_before_voters_change(void) {
    fixture_boot(1, "VVb", 1, 0);
    fixture_lead_committed();
    uint64_t term = raft_engine_term(fixture.engine);
    fixture_receive_result(3, term, 0, raft_engine_last_index(fixture.engine));
    if (raft_engine_change(fixture.engine, ENGINE_PROMOTE, 3, NULL, fixture.now_ms) != STATUS_OK) {
        return false;
    }
    fixture_written();
    fixture_receive_result(2, term, 0, raft_engine_last_index(fixture.engine));
    if (raft_engine_is_changing(fixture.engine)) {
        return false;
    }
    enum status too_early =
        raft_engine_change(fixture.engine, ENGINE_REMOVE, 2, NULL, fixture.now_ms);
    fixture_receive_result(3, term, 0, raft_engine_last_index(fixture.engine));
    return too_early == STATUS_TOO_MANY_REQUESTS &&
           raft_engine_change(fixture.engine, ENGINE_REMOVE, 2, NULL, fixture.now_ms) == STATUS_OK;
}

/* Server 3 is dead, and has been a voter from the beginning. */
static void a_voter_of_the_first_configuration_knows_it(void **state) {
    (void)state;
    fixture_boot(1, "VVVb", 1, 0);
    fixture_lead_committed();
    uint64_t term = raft_engine_term(fixture.engine);
    fixture_receive_result(4, term, 0, raft_engine_last_index(fixture.engine));
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_PROMOTE, 4, NULL, fixture.now_ms),
                     STATUS_OK);
    fixture_close();
}

/* Server 4 was made a voter by the other three, and died before it heard of it. */
static void a_voter_is_removed_although_another_one_is_dead(void **state) {
    (void)state;
    fixture_boot(1, "VVVb", 1, 0);
    fixture_lead_committed();
    uint64_t term = raft_engine_term(fixture.engine);
    fixture_receive_result(4, term, 0, raft_engine_last_index(fixture.engine));
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_PROMOTE, 4, NULL, fixture.now_ms),
                     STATUS_OK);
    fixture_written();
    fixture_receive_result(2, term, 0, raft_engine_last_index(fixture.engine));
    fixture_receive_result(3, term, 0, raft_engine_last_index(fixture.engine));
    assert_false(raft_engine_is_changing(fixture.engine));
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_REMOVE, 3, NULL, fixture.now_ms),
                     STATUS_OK);
    fixture_close();
}

static bool spare_does_not_make_the_leader_spin(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    uint64_t term = raft_engine_term(fixture.engine);
    fixture_receive_result(3, term, 0, raft_engine_last_index(fixture.engine));
    struct log_item *item = fixture_change(raft_engine_last_index(fixture.engine) + 1, term, "VVs");
    if (engine_submit(fixture.engine, &item, 1) != 0) {
        return false;
    }
    log_item_release(item);
    fixture_written();
    fixture_receive_result(2, term, 0, raft_engine_last_index(fixture.engine));
    size_t n_due = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        fixture.now_ms++;
        if (i % 20 == 0) {
            fixture_receive_result(2, term, 0, raft_engine_last_index(fixture.engine));
        }
        if (raft_engine_deadline_ms(fixture.engine, fixture.now_ms) <= fixture.now_ms) {
            fixture_poll();
            n_due++;
        }
    }
    return is_well() && n_due < 50;
}

static bool refused_change_leaves_no_entries(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    if (raft_engine_change(fixture.engine, ENGINE_ADD, 4, "n4", fixture.now_ms) != STATUS_OK) {
        return false;
    }
    uint64_t term = raft_engine_term(fixture.engine);
    uint64_t last = raft_engine_last_index(fixture.engine);
    struct log_item *items[] = {fixture_command(last + 1, term),
                                fixture_change(last + 2, term, "VVVbb")};
    bool is_refused = engine_submit(fixture.engine, items, 2) != 0;
    log_item_release(items[0]);
    log_item_release(items[1]);
    return is_refused && is_well() && raft_engine_last_index(fixture.engine) == last;
}

static bool snapshot_is_not_sent_for_each_rejection(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    uint64_t term = raft_engine_term(fixture.engine);
    fixture_propose(5);
    fixture_written();
    fixture_receive_result(2, term, 0, raft_engine_last_index(fixture.engine));
    struct snapshot_meta meta;
    if (!raft_engine_snapshot_begin(fixture.engine, &meta)) {
        return false;
    }
    raft_engine_snapshot_taken(fixture.engine, 100, 1, fixture.now_ms);
    /* Server 3 has nothing at all. */
    for (int i = 0; i < 5; i++) {
        fixture_receive_result(3, term, meta.index, 0);
        fixture_receive_result(3, term, 1, 0);
        fixture.now_ms += FIXTURE_HEARTBEAT_MS;
        fixture_receive_result(2, term, 0, raft_engine_last_index(fixture.engine));
        fixture_poll();
    }
    return is_well() && fixture_count_sent(MESSAGE_SNAPSHOT, 0) == 1;
}

static bool terms_do_not_leap(void) {
    fixture_boot(1, "VVV", 3, 0);
    struct message_vote vote = {.term = 3 + RAFT_GUARDS_TERM_LEAP_MAX + 1,
                                .last_index = 9,
                                .last_term = 9,
                                .disrupt_leader = true};
    fixture_receive_vote(2, vote);
    fixture_receive_commands(2, UINT64_MAX - 2, 1, 1, 1, 0);
    vote.term = RAFT_GUARDS_TERM_MAX;
    fixture_receive_vote(2, vote);
    return is_well() && raft_engine_term(fixture.engine) == 3;
}

static bool another_leader_of_the_term_is_ignored(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    uint64_t term = raft_engine_term(fixture.engine);
    uint64_t last = raft_engine_last_index(fixture.engine);
    fixture_receive_commands(3, term, last, term, last, 2);
    struct snapshot_meta meta = fixture_meta(40, term, 1, "VVV");
    (void)fixture_receive_snapshot(3, term, &meta);
    fixture_propose(1);
    fixture.now_ms += FIXTURE_HEARTBEAT_MS;
    fixture_poll();
    bool still_leads = is_well() && raft_engine_role(fixture.engine) == ENGINE_LEADER &&
                       raft_engine_last_index(fixture.engine) == last + 1 &&
                       raft_engine_leader_id(fixture.engine) == 1 && fixture.n_installs == 0;
    return still_leads;
}

static bool change_waits_for_the_leaders_own_term(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead();
    enum status too_early = raft_engine_change(fixture.engine, ENGINE_ADD, 4, "n4", fixture.now_ms);
    fixture_poll();
    fixture_written();
    fixture_receive_result(2, raft_engine_term(fixture.engine), 0,
                           raft_engine_last_index(fixture.engine));
    return too_early == STATUS_TOO_MANY_REQUESTS &&
           raft_engine_change(fixture.engine, ENGINE_ADD, 4, "n4", fixture.now_ms) == STATUS_OK;
}

static bool permission_to_disrupt_is_for_one_term(void) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_receive_commands(2, 2, 1, 1, 1, 0);
    struct raft_message_view view = {.kind = MESSAGE_TIMEOUT_NOW,
                                     .timeout_now = {.term = 2, .last_index = 1, .last_term = 1}};
    (void)raft_engine_receive(fixture.engine, 2, &view, fixture.now_ms);
    const struct fixture_sent *first = fixture_last_sent(MESSAGE_VOTE, 0);
    if (first == NULL || !first->view.vote.disrupt_leader || first->view.vote.term != 3) {
        return false;
    }
    size_t from = fixture.n_sent;
    fixture_poll_at_deadline();
    const struct fixture_sent *second = fixture_last_sent(MESSAGE_VOTE, from);
    return second != NULL && second->view.vote.term == 4 && !second->view.vote.disrupt_leader;
}

/* Server 3 is a standby by its own log, and a voter by the candidate's. */
static bool standby_votes(void) {
    fixture_boot(3, "VVb", 2, 2);
    struct message_vote vote = {.term = 3, .last_index = 4, .last_term = 2, .is_pre_vote = true};
    fixture_receive_vote(1, vote);
    const struct fixture_sent *pre = fixture_last_sent(MESSAGE_VOTE_RESULT, 0);
    if (pre == NULL || !pre->view.vote_result.is_granted || fixture.n_votes_stored != 0) {
        return false;
    }
    vote.is_pre_vote = false;
    fixture_receive_vote(1, vote);
    const struct fixture_sent *given = fixture_last_sent(MESSAGE_VOTE_RESULT, 1);
    return given != NULL && given->view.vote_result.is_granted && fixture.term == 3 &&
           fixture.vote == 1;
}

/* --- All of them. --- */

static const struct scenario {
    const char *name;
    enum raft_guard guard;
    bool (*holds)(void);
} scenarios[] = {
    {"commit_index_stays", GUARD_COMMIT_CLAMP, commit_index_stays},
    {"change_behind_others_is_rolled_back", GUARD_CHANGE_SPLIT,
     change_behind_others_is_rolled_back},
    {"first_of_two_changes_stays", GUARD_CHANGE_SPLIT, first_of_two_changes_stays},
    {"old_terms_are_refused", GUARD_OLD_TERM, old_terms_are_refused},
    {"old_snapshots_are_refused", GUARD_OLD_TERM, old_snapshots_are_refused},
    {"compacted_entries_are_not_appended_again", GUARD_PREFIX,
     compacted_entries_are_not_appended_again},
    {"committed_entries_stay", GUARD_PREFIX, committed_entries_stay},
    {"late_rejection_is_dropped", GUARD_LATE_REJECTION, late_rejection_is_dropped},
    {"late_vote_result_deposes_nobody", GUARD_VOTE_RESULT, late_vote_result_deposes_nobody},
    {"second_install_leaks_nothing", GUARD_INSTALL_BUSY, second_install_leaks_nothing},
    {"sole_voter_starts_in_a_new_term", GUARD_SOLE_VOTER, sole_voter_starts_in_a_new_term},
    {"sole_voter_leads_a_new_term", GUARD_SOLE_VOTER, sole_voter_leads_a_new_term},
    {"sole_voter_is_not_told_to_stand", GUARD_SOLE_VOTER, sole_voter_is_not_told_to_stand},
    {"refused_pre_vote_names_the_term", GUARD_PRE_VOTE_TERM, refused_pre_vote_names_the_term},
    {"successor_stands_when_it_has_everything", GUARD_TRANSFER_READY,
     successor_stands_when_it_has_everything},
    {"voters_know_before_voters_change", GUARD_CHANGE_READY, voters_know_before_voters_change},
    {"spare_does_not_make_the_leader_spin", GUARD_REARM, spare_does_not_make_the_leader_spin},
    {"refused_change_leaves_no_entries", GUARD_CHANGE_ALONE, refused_change_leaves_no_entries},
    {"snapshot_is_not_sent_for_each_rejection", GUARD_SNAPSHOT_REPEAT,
     snapshot_is_not_sent_for_each_rejection},
    {"terms_do_not_leap", GUARD_TERM_LEAP, terms_do_not_leap},
    {"another_leader_of_the_term_is_ignored", GUARD_TWO_LEADERS,
     another_leader_of_the_term_is_ignored},
    {"change_waits_for_the_leaders_own_term", GUARD_OWN_TERM,
     change_waits_for_the_leaders_own_term},
    {"permission_to_disrupt_is_for_one_term", GUARD_TRANSFER_MARK,
     permission_to_disrupt_is_for_one_term},
    {"standby_votes", GUARD_STANDBY_VOTE, standby_votes},
};

enum { N_SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

/* In a process of its own: without its guard libraft may write anywhere. */
static bool holds_without(const struct scenario *scenario) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        raft_guards_disabled = scenario->guard;
        _exit(scenario->holds() ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void a_scenario_holds_by_its_guard_alone(void **state) {
    const struct scenario *scenario = *state;
    raft_guards_disabled = 0;
    bool holds = scenario->holds();
    if (!holds) {
        print_error("failed: %s\n", fixture.reason);
    }
    assert_true(holds);
    fixture_close();
    raft_guards_disabled = 0;
    assert_false(holds_without(scenario));
}

static void every_guard_has_a_scenario(void **state) {
    unsigned shown = 0;
    for (size_t i = 0; i < N_SCENARIOS; i++) {
        shown |= scenarios[i].guard;
    }
    assert_int_equal(shown, (GUARD_STANDBY_VOTE << 1) - 1);
}

int main(void) {
    struct CMUnitTest tests[N_SCENARIOS + 3];
    for (size_t i = 0; i < N_SCENARIOS; i++) {
        tests[i] = (struct CMUnitTest){.name = scenarios[i].name,
                                       .test_func = a_scenario_holds_by_its_guard_alone,
                                       .initial_state = (void *)(uintptr_t)&scenarios[i]};
    }
    tests[N_SCENARIOS] = (struct CMUnitTest)cmocka_unit_test(every_guard_has_a_scenario);
    tests[N_SCENARIOS + 1] =
        (struct CMUnitTest)cmocka_unit_test(a_voter_of_the_first_configuration_knows_it);
    tests[N_SCENARIOS + 2] =
        (struct CMUnitTest)cmocka_unit_test(a_voter_is_removed_although_another_one_is_dead);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
