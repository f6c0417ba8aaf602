#include "replication/raft_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

/* --- A raft_io made by hand: it notes what it was asked, and answers when told to. --- */

enum { APPENDS_MAX = 8, TRAILING = 100, SELF = 1, OTHER = 2 };

static struct fake {
    uv_loop_t loop;
    struct raft_guard guard;
    struct raft_io *io;   /* the guard's */
    raft_io_recv_cb recv; /* what the guard gave to start() */
    size_t n_appends;
    struct raft_io_append *appends[APPENDS_MAX];
    raft_io_append_cb append_cbs[APPENDS_MAX];
    int append_rv;
    int set_rv; /* of terms and votes */
    raft_term term;
    raft_id vote;
    struct raft_io_snapshot_get *get;
    raft_io_snapshot_get_cb get_cb;
    int get_rv;
    unsigned n_get_done;
    struct raft_io_snapshot_get *get_done_request;
    struct raft_io_snapshot_put *put;
    raft_io_snapshot_put_cb put_cb;
    unsigned put_trailing;
    const struct raft_snapshot *put_snapshot;
    int put_rv;
    int serialise_rv;
    unsigned n_sent;
    struct raft_message sent;
    struct raft_io_send *sent_request;
    raft_io_send_cb sent_cb;
    int send_rv;
    /* What reached raft above, and the service beside. */
    unsigned n_received;
    struct raft_message received;
    unsigned n_append_done;
    struct raft_io_append *append_done_request;
    int append_done_status;
    unsigned n_put_done;
    struct raft_io_snapshot_put *put_done_request;
    int put_done_status;
    unsigned n_stored_before_put_done;
    unsigned n_serialised;
    size_t serialised_size;
    unsigned n_handed_over;
    unsigned n_stored;
    unsigned n_failed;
    int failed_status;
    const char *failed_what;
    unsigned n_send_done;
    int send_done_status;
    struct raft_io_send *send_done_request;
    /* Who may be voted for. */
    bool may_vote;
    bool is_leaderless;
    unsigned n_asked;
    uint64_t asked_candidate;
} fake;

static int fake_start(struct raft_io *io, unsigned tick_ms, raft_io_tick_cb tick,
                      raft_io_recv_cb recv) {
    assert_int_equal(tick_ms, 50);
    fake.recv = recv;
    return 0;
}

static int fake_send(struct raft_io *io, struct raft_io_send *request,
                     const struct raft_message *message, raft_io_send_cb cb) {
    if (fake.send_rv == 0) {
        fake.n_sent++;
        fake.sent = *message;
        fake.sent_request = request;
        fake.sent_cb = cb;
    }
    return fake.send_rv;
}

static int fake_append(struct raft_io *io, struct raft_io_append *append,
                       const struct raft_entry *entries, unsigned n, raft_io_append_cb cb) {
    if (fake.append_rv == 0) {
        fake.appends[fake.n_appends] = append;
        fake.append_cbs[fake.n_appends] = cb;
        fake.n_appends++;
    }
    return fake.append_rv;
}

static int fake_snapshot_put(struct raft_io *io, unsigned trailing,
                             struct raft_io_snapshot_put *put, const struct raft_snapshot *snapshot,
                             raft_io_snapshot_put_cb cb) {
    fake.put = put;
    fake.put_cb = cb;
    fake.put_trailing = trailing;
    fake.put_snapshot = snapshot;
    return fake.put_rv;
}

static int fake_snapshot_get(struct raft_io *io, struct raft_io_snapshot_get *request,
                             raft_io_snapshot_get_cb cb) {
    fake.get = request;
    fake.get_cb = cb;
    return fake.get_rv;
}

static int fake_set_term(struct raft_io *io, raft_term term) {
    fake.term = term;
    return fake.set_rv;
}

static int fake_set_vote(struct raft_io *io, raft_id id) {
    fake.vote = id;
    return fake.set_rv;
}

/* raft above. */
static void raft_tick(struct raft_io *io) {
}
static void raft_recv(struct raft_io *io, struct raft_message *message) {
    fake.n_received++;
    fake.received = *message;
}
static void raft_send_done(struct raft_io_send *request, int status) {
    fake.n_send_done++;
    fake.send_done_request = request;
    fake.send_done_status = status;
}
static void raft_append_done(struct raft_io_append *append, int status) {
    fake.n_append_done++;
    fake.append_done_request = append;
    fake.append_done_status = status;
}
static void raft_get_done(struct raft_io_snapshot_get *request, struct raft_snapshot *snapshot,
                          int status) {
    fake.n_get_done++;
    fake.get_done_request = request;
}
static void raft_put_done(struct raft_io_snapshot_put *put, int status) {
    fake.n_put_done++;
    fake.put_done_request = put;
    fake.put_done_status = status;
    fake.n_stored_before_put_done = fake.n_stored;
}

/* The service beside. */
static int serialise(void *data, struct raft_buffer *out_buffer) {
    if (fake.serialise_rv == 0) {
        out_buffer->len = 5;
        out_buffer->base = raft_malloc(out_buffer->len);
        memcpy(out_buffer->base, "state", out_buffer->len);
    }
    return fake.serialise_rv;
}
static void serialised(void *data, size_t size) {
    fake.n_serialised++;
    fake.serialised_size = size;
}
static void handed_over(void *data) {
    fake.n_handed_over++;
}
static void stored(void *data) {
    fake.n_stored++;
}
static void failed(void *data, const char *what, int status) {
    assert_ptr_equal(data, &fake);
    fake.n_failed++;
    fake.failed_what = what;
    fake.failed_status = status;
}

static bool may_vote(void *data, uint64_t candidate_id) {
    assert_ptr_equal(data, &fake);
    fake.n_asked++;
    fake.asked_candidate = candidate_id;
    return fake.may_vote;
}

static bool is_leaderless(void *data) {
    assert_ptr_equal(data, &fake);
    return fake.is_leaderless;
}

static const struct raft_guard_callbacks callbacks = {.serialise = serialise,
                                                      .serialised = serialised,
                                                      .handed_over = handed_over,
                                                      .stored = stored,
                                                      .failed = failed};
static const struct raft_guard_callbacks voter_callbacks = {.serialise = serialise,
                                                            .serialised = serialised,
                                                            .handed_over = handed_over,
                                                            .stored = stored,
                                                            .may_vote = may_vote,
                                                            .is_leaderless = is_leaderless,
                                                            .failed = failed};

static int set_up_with(const struct raft_guard_callbacks *with) {
    fake = (struct fake){0};
    assert_int_equal(uv_loop_init(&fake.loop), 0);
    fake.io = &fake.guard.io;
    fake.io->start = fake_start;
    fake.io->send = fake_send;
    fake.io->append = fake_append;
    fake.io->snapshot_put = fake_snapshot_put;
    fake.io->snapshot_get = fake_snapshot_get;
    fake.io->set_term = fake_set_term;
    fake.io->set_vote = fake_set_vote;
    raft_guard_install(&fake.guard, &fake.loop, SELF, with, &fake);
    assert_int_equal(fake.io->start(fake.io, 50, raft_tick, raft_recv), 0);
    return 0;
}

static int set_up(void **state) {
    return set_up_with(&callbacks);
}

static int set_up_voter(void **state) {
    return set_up_with(&voter_callbacks);
}

static int tear_down(void **state) {
    assert_int_equal(uv_run(&fake.loop, UV_RUN_DEFAULT), 0);
    return uv_loop_close(&fake.loop);
}

/* --- Received messages. --- */

static struct raft_entry entries[8];

static struct raft_message append_entries(raft_index prev_log_index, unsigned n_entries,
                                          raft_index leader_commit) {
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES};
    message.append_entries.prev_log_index = prev_log_index;
    message.append_entries.n_entries = n_entries;
    message.append_entries.leader_commit = leader_commit;
    memset(entries, 0, sizeof entries);
    for (unsigned i = 0; i < n_entries; i++) {
        entries[i].type = RAFT_COMMAND;
    }
    message.append_entries.entries = entries;
    return message;
}

static void a_commit_index_beyond_the_entries_is_clamped(void **state) {
    struct raft_message message = append_entries(10, 3, 99);
    assert_true(raft_guard_admit(&fake.guard, &message));
    assert_int_equal(message.append_entries.leader_commit, 13);
    assert_int_equal(fake.guard.clamped, 1);
    message = append_entries(10, 0, 11); /* a heartbeat */
    assert_true(raft_guard_admit(&fake.guard, &message));
    assert_int_equal(message.append_entries.leader_commit, 10);
    assert_int_equal(fake.guard.clamped, 2);
    message = append_entries(0, 0, 1);
    assert_true(raft_guard_admit(&fake.guard, &message));
    assert_int_equal(message.append_entries.leader_commit, 0);
    assert_int_equal(fake.guard.clamped, 3);
}

static void a_commit_index_within_the_entries_is_left_alone(void **state) {
    for (raft_index commit = 0; commit <= 13; commit++) {
        struct raft_message message = append_entries(10, 3, commit);
        assert_true(raft_guard_admit(&fake.guard, &message));
        assert_int_equal(message.append_entries.leader_commit, commit);
    }
    assert_int_equal(fake.guard.clamped, 0);
}

/* A follower would take the first entry's index for the change's. */
static void a_message_is_cut_before_a_change_that_is_not_its_first_entry(void **state) {
    struct raft_message message = append_entries(10, 5, 12);
    entries[3].type = RAFT_CHANGE;
    assert_true(raft_guard_admit(&fake.guard, &message));
    assert_int_equal(message.append_entries.n_entries, 3);
    assert_int_equal(message.append_entries.leader_commit, 12);
    assert_int_equal(fake.guard.cut, 1);
    message = append_entries(10, 5, 99);
    entries[1].type = RAFT_CHANGE;
    assert_true(raft_guard_admit(&fake.guard, &message));
    assert_int_equal(message.append_entries.n_entries, 1);
    assert_int_equal(message.append_entries.leader_commit, 11);
    message = append_entries(10, 2, 10);
    entries[0].type = RAFT_CHANGE;
    assert_true(raft_guard_admit(&fake.guard, &message));
    assert_int_equal(message.append_entries.n_entries, 2);
    assert_int_equal(message.append_entries.leader_commit, 10);
}

/* Of two changes committed in one step, the first would be forgotten for a moment. */
static void a_change_is_not_committed_by_the_message_that_brings_it(void **state) {
    struct raft_message message = append_entries(10, 3, 99);
    entries[0].type = RAFT_CHANGE;
    assert_true(raft_guard_admit(&fake.guard, &message));
    assert_int_equal(message.append_entries.n_entries, 3);
    assert_int_equal(message.append_entries.leader_commit, 10);
}

/* --- A server that votes alone. --- */

static raft_term loaded_term;
static raft_id loaded_vote;
static struct raft_entry loaded_entries[2];

static int fake_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
                     struct raft_snapshot **snapshot, raft_index *start_index,
                     struct raft_entry **out_entries, size_t *n_entries) {
    *term = 7;
    *voted_for = OTHER;
    *snapshot = NULL;
    *start_index = 1;
    *out_entries = loaded_entries;
    *n_entries = 2;
    return 0;
}

/* Loads a log whose newest configuration has these roles, of SELF and then of OTHER. */
static void load_with_roles(size_t n, const int *roles) {
    struct raft_configuration configuration;
    raft_configuration_init(&configuration);
    assert_int_equal(raft_configuration_add(&configuration, SELF, "a:1", roles[0]), 0);
    if (n > 1) {
        assert_int_equal(raft_configuration_add(&configuration, OTHER, "b:1", roles[1]), 0);
    }
    /* As raft writes it: a version, how many, of each its id, its address and its role. */
    static uint8_t bytes[128];
    uint8_t *at = bytes;
    memset(bytes, 0, sizeof bytes);
    *at++ = 1;
    *at = (uint8_t)n;
    at += 8;
    for (unsigned i = 0; i < n; i++) {
        *at = (uint8_t)configuration.servers[i].id;
        at += 8;
        memcpy(at, configuration.servers[i].address, 4);
        at += 4;
        *at++ = (uint8_t)configuration.servers[i].role;
    }
    raft_configuration_close(&configuration);
    loaded_entries[0].type = RAFT_CHANGE;
    loaded_entries[0].buf = (struct raft_buffer){.base = bytes, .len = sizeof bytes};
    loaded_entries[1].type = RAFT_COMMAND;
    struct raft_snapshot *snapshot;
    raft_index start_index;
    struct raft_entry *found;
    size_t n_found;
    fake.guard.load = fake_load;
    fake.term = 0;
    assert_int_equal(fake.io->load(fake.io, &loaded_term, &loaded_vote, &snapshot, &start_index,
                                   &found, &n_found),
                     0);
}

/* A standby may have entries of the term that its only voter has lost. */
static void the_only_voter_among_several_begins_a_new_term(void **state) {
    load_with_roles(2, (const int[]){RAFT_VOTER, RAFT_STANDBY});
    assert_int_equal(loaded_term, 8);
    assert_int_equal(loaded_vote, 0);
    assert_int_equal(fake.term, 8);
}

static void whoever_must_be_elected_or_is_alone_begins_none(void **state) {
    load_with_roles(2, (const int[]){RAFT_VOTER, RAFT_VOTER});
    assert_int_equal(loaded_term, 7);
    load_with_roles(2, (const int[]){RAFT_STANDBY, RAFT_VOTER});
    assert_int_equal(loaded_term, 7);
    load_with_roles(1, (const int[]){RAFT_VOTER});
    assert_int_equal(loaded_term, 7);
    assert_int_equal(loaded_vote, OTHER);
    assert_int_equal(fake.term, 0);
}

static bool admits_rejection(raft_id from_id, raft_index rejected) {
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES_RESULT, .server_id = from_id};
    message.append_entries_result.rejected = rejected;
    return raft_guard_admit(&fake.guard, &message);
}

static void a_rejection_does_not_call_a_snapshot_back_that_is_read(void **state) {
    struct raft_io_snapshot_get request;
    assert_true(admits_rejection(2, 10));
    fake.get_rv = RAFT_NOMEM;
    assert_int_equal(fake.io->snapshot_get(fake.io, &request, raft_get_done), RAFT_NOMEM);
    assert_true(admits_rejection(2, 10));
    fake.get_rv = 0;
    assert_int_equal(fake.io->snapshot_get(fake.io, &request, raft_get_done), 0);
    assert_false(admits_rejection(2, 10));
    assert_true(admits_rejection(2, 0)); /* it is none */
    assert_int_equal(fake.guard.rejections_dropped, 1);
    fake.get_cb(fake.get, NULL, RAFT_IOERR);
    assert_int_equal(fake.n_get_done, 1);
    assert_ptr_equal(fake.get_done_request, &request);
    assert_true(admits_rejection(2, 10));
}

static void a_rejection_does_not_call_a_snapshot_back_that_is_on_its_way(void **state) {
    struct raft_message snapshot = {.type = RAFT_INSTALL_SNAPSHOT, .server_id = 2};
    struct raft_io_send request;
    struct raft_io_send second;
    assert_int_equal(fake.io->send(fake.io, &request, &snapshot, raft_send_done), 0);
    struct raft_io_send *first_own = fake.sent_request;
    raft_io_send_cb first_cb = fake.sent_cb;
    assert_false(admits_rejection(2, 10));
    assert_true(admits_rejection(3, 10)); /* somebody else's */
    /* Nor is another one sent beside it, but to somebody else. */
    assert_int_equal(fake.io->send(fake.io, &second, &snapshot, raft_send_done), RAFT_NOCONNECTION);
    assert_int_equal(fake.n_sent, 1);
    snapshot.server_id = 3;
    assert_int_equal(fake.io->send(fake.io, &second, &snapshot, raft_send_done), 0);
    assert_int_equal(fake.n_sent, 2);
    first_cb(first_own, RAFT_IOERR);
    assert_int_equal(fake.n_send_done, 1);
    assert_ptr_equal(fake.send_done_request, &request);
    assert_int_equal(fake.send_done_status, RAFT_IOERR);
    assert_true(admits_rejection(2, 10));
    assert_false(admits_rejection(3, 10));
    fake.sent_cb(fake.sent_request, 0);
    assert_ptr_equal(fake.send_done_request, &second);
    assert_true(admits_rejection(3, 10));
    fake.send_rv = RAFT_NOCONNECTION;
    assert_int_equal(fake.io->send(fake.io, &request, &snapshot, raft_send_done),
                     RAFT_NOCONNECTION);
    assert_true(admits_rejection(3, 10));
}

static void entries_on_their_way_are_not_sent_again(void **state) {
    enum { LARGE = 300 * 1024 };
    struct raft_entry entries[2] = {{.buf.len = LARGE}, {.buf.len = LARGE}};
    struct raft_message message = append_entries(10, 2, 5);
    struct raft_io_send requests[4];
    message.server_id = 2;
    message.append_entries.entries = entries;
    assert_int_equal(fake.io->send(fake.io, &requests[0], &message, raft_send_done), 0);
    assert_int_equal(fake.sent.append_entries.n_entries, 2);
    struct raft_io_send *own = fake.sent_request;
    raft_io_send_cb cb = fake.sent_cb;
    /* Again: the heartbeat that it is, and no more. */
    assert_int_equal(fake.io->send(fake.io, &requests[1], &message, raft_send_done), 0);
    assert_int_equal(fake.sent.append_entries.n_entries, 0);
    assert_int_equal(fake.sent.append_entries.prev_log_index, 10);
    assert_int_equal(fake.sent.append_entries.leader_commit, 5);
    assert_ptr_equal(fake.sent_request, &requests[1]);
    assert_int_equal(fake.guard.repeats_emptied, 1);
    /* What follows, what is small and what goes to somebody else is sent. */
    message.append_entries.prev_log_index = 12;
    assert_int_equal(fake.io->send(fake.io, &requests[2], &message, raft_send_done), 0);
    assert_int_equal(fake.sent.append_entries.n_entries, 2);
    fake.sent_cb(fake.sent_request, 0);
    message.append_entries.prev_log_index = 10;
    message.server_id = 3;
    assert_int_equal(fake.io->send(fake.io, &requests[2], &message, raft_send_done), 0);
    assert_int_equal(fake.sent.append_entries.n_entries, 2);
    fake.sent_cb(fake.sent_request, 0);
    message.server_id = 2;
    entries[0].buf.len = 10;
    entries[1].buf.len = 10;
    assert_int_equal(fake.io->send(fake.io, &requests[3], &message, raft_send_done), 0);
    assert_int_equal(fake.sent.append_entries.n_entries, 2);
    assert_ptr_equal(fake.sent_request, &requests[3]);
    /* It has left, or is lost: it may be sent again. */
    cb(own, RAFT_NOCONNECTION);
    assert_ptr_equal(fake.send_done_request, &requests[0]);
    assert_int_equal(fake.send_done_status, RAFT_NOCONNECTION);
    entries[0].buf.len = LARGE;
    assert_int_equal(fake.io->send(fake.io, &requests[0], &message, raft_send_done), 0);
    assert_int_equal(fake.sent.append_entries.n_entries, 2);
    fake.sent_cb(fake.sent_request, 0);
    assert_int_equal(fake.guard.repeats_emptied, 1);
}

static void messages_reach_raft_through_the_guard(void **state) {
    struct raft_message message = append_entries(1, 1, 50);
    fake.recv(fake.io, &message);
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(message.append_entries.leader_commit, 2);
    struct raft_message vote = {.type = RAFT_REQUEST_VOTE};
    fake.recv(fake.io, &vote);
    assert_int_equal(fake.n_received, 2);
}

/* With memory of its own, which the guard has to free when it drops it: a sanitizer looks. */
static struct raft_message install_snapshot(void) {
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT};
    raft_configuration_init(&message.install_snapshot.conf);
    assert_int_equal(raft_configuration_add(&message.install_snapshot.conf, 1, "1", RAFT_VOTER), 0);
    message.install_snapshot.data.len = 16;
    message.install_snapshot.data.base = raft_malloc(16);
    return message;
}

static void release(struct raft_message *message) {
    raft_configuration_close(&message->install_snapshot.conf);
    raft_free(message->install_snapshot.data.base);
}

static void a_snapshot_is_dropped_while_one_is_being_stored(void **state) {
    struct raft_io_snapshot_put put = {0};
    struct raft_snapshot snapshot = {0};
    struct raft_message message = install_snapshot();
    fake.recv(fake.io, &message);
    assert_int_equal(fake.n_received, 1);
    release(&message);

    assert_int_equal(fake.io->snapshot_put(fake.io, 0, &put, &snapshot, raft_put_done), 0);
    message = install_snapshot();
    fake.recv(fake.io, &message);
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(fake.guard.dropped, 1);
    /* Anything else goes through meanwhile. */
    struct raft_message append = append_entries(1, 0, 1);
    fake.recv(fake.io, &append);
    assert_int_equal(fake.n_received, 2);

    fake.put_cb(fake.put, 0);
    message = install_snapshot();
    fake.recv(fake.io, &message);
    assert_int_equal(fake.n_received, 3);
    assert_int_equal(fake.guard.dropped, 1);
    release(&message);
}

/* --- Refusals. --- */

static void raft_recv_refuses(struct raft_io *io, struct raft_message *message) {
    struct raft_io_send request = {0};
    struct raft_message answer = {.type = RAFT_APPEND_ENTRIES_RESULT, .server_id = OTHER};
    answer.append_entries_result.rejected =
        message->type == RAFT_APPEND_ENTRIES ? message->append_entries.prev_log_index : 0;
    answer.append_entries_result.last_log_index = 12345; /* whatever lay there */
    assert_int_equal(fake.io->send(fake.io, &request, &answer, raft_send_done), 0);
}

/* libraft leaves the index unset, and answers a snapshot as if it had taken it. */
static void what_is_of_an_older_term_is_refused_in_plain_words(void **state) {
    static struct raft raft;
    raft.current_term = 5;
    fake.io->data = &raft;
    assert_int_equal(fake.io->start(fake.io, 50, raft_tick, raft_recv_refuses), 0);
    const struct raft_append_entries_result *sent = &fake.sent.append_entries_result;

    struct raft_message message = append_entries(10, 0, 0);
    message.append_entries.term = 4;
    fake.recv(fake.io, &message);
    assert_int_equal(sent->rejected, 10);
    assert_int_equal(sent->last_log_index, 9);
    message.append_entries.prev_log_index = 0;
    fake.recv(fake.io, &message);
    assert_int_equal(sent->rejected, 1);
    assert_int_equal(sent->last_log_index, 0);
    message = install_snapshot();
    message.install_snapshot.term = 4;
    fake.recv(fake.io, &message);
    release(&message);
    assert_int_equal(sent->rejected, 1);
    assert_int_equal(sent->last_log_index, 0);

    /* What is of this term is raft's own business. */
    message = append_entries(10, 0, 0);
    message.append_entries.term = 5;
    fake.recv(fake.io, &message);
    assert_int_equal(sent->last_log_index, 12345);
    assert_int_equal(fake.n_sent, 4);
}

/* --- Votes. --- */

static struct raft_message request_vote(raft_term term, bool is_transfer) {
    struct raft_message message = {.type = RAFT_REQUEST_VOTE, .server_id = OTHER};
    message.request_vote.term = term;
    message.request_vote.candidate_id = OTHER;
    message.request_vote.disrupt_leader = is_transfer;
    return message;
}

static struct raft_message timeout_now(raft_term term) {
    struct raft_message message = {.type = RAFT_TIMEOUT_NOW, .server_id = OTHER};
    message.timeout_now.term = term;
    return message;
}

static void nobody_is_voted_for_while_a_promise_stands(void **state) {
    struct raft_message vote = request_vote(5, false);
    fake.recv(fake.io, &vote);
    assert_int_equal(fake.n_received, 0);
    assert_int_equal(fake.asked_candidate, OTHER);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.guard.votes_dropped, 1);
    vote.request_vote.pre_vote = true;
    fake.recv(fake.io, &vote);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_received, 0);
    assert_int_equal(fake.guard.votes_dropped, 2);
    fake.may_vote = true;
    fake.recv(fake.io, &vote);
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(fake.guard.votes_dropped, 2);
}

static void a_request_for_a_vote_waits_for_the_end_of_a_promise(void **state) {
    char address[] = "127.0.0.1:1";
    struct raft_message vote = request_vote(5, false);
    vote.server_address = address;
    fake.guard.hold_ms = 60000;
    fake.recv(fake.io, &vote);
    /* The newest one of a candidate is enough. */
    vote.request_vote.term = 6;
    fake.recv(fake.io, &vote);
    memset(address, 'x', sizeof address);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_received, 0);
    fake.may_vote = true;
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(fake.received.request_vote.term, 6);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(fake.guard.votes_dropped, 0);
}

static void a_question_for_votes_waits_for_the_end_of_our_own_promise(void **state) {
    struct raft_io_send requests[2] = {0};
    struct raft_message vote = request_vote(5, false);
    fake.guard.hold_ms = 60000;
    assert_int_equal(fake.io->send(fake.io, &requests[0], &vote, raft_send_done), 0);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_sent, 0);
    assert_int_equal(fake.n_send_done, 0);
    fake.may_vote = true;
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_sent, 1);
    assert_ptr_equal(fake.sent_request, &requests[0]);
    assert_ptr_equal(fake.sent_cb, raft_send_done);
    /* Who closes waits for nothing. */
    fake.may_vote = false;
    assert_int_equal(fake.io->send(fake.io, &requests[1], &vote, raft_send_done), 0);
    fake.guard.closing = true;
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_send_done, 1);
    assert_ptr_equal(fake.send_done_request, &requests[1]);
}

static void who_has_heard_of_no_leader_for_a_timeout_votes_at_once(void **state) {
    struct raft_message vote = request_vote(5, false);
    fake.may_vote = true;
    fake.recv(fake.io, &vote);
    assert_false(fake.received.request_vote.disrupt_leader);
    fake.is_leaderless = true;
    fake.recv(fake.io, &vote);
    assert_true(fake.received.request_vote.disrupt_leader);
}

static void a_promise_holds_nothing_up_but_votes(void **state) {
    static const int types[] = {RAFT_APPEND_ENTRIES, RAFT_APPEND_ENTRIES_RESULT,
                                RAFT_REQUEST_VOTE_RESULT};
    struct raft_io_send request = {0};
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct raft_message message = {.type = (unsigned short)types[i], .server_id = OTHER};
        message.request_vote_result.term = 5;
        fake.recv(fake.io, &message);
        assert_int_equal(fake.n_received, i + 1);
        assert_int_equal(fake.io->send(fake.io, &request, &message, raft_send_done), 0);
        assert_int_equal(fake.n_sent, i + 1);
    }
    assert_int_equal(fake.n_asked, 0);
}

static void a_knock_is_sent_and_never_received(void **state) {
    raft_guard_knock(&fake.guard, OTHER, "127.0.0.1:1");
    assert_int_equal(fake.n_sent, 1);
    assert_int_equal(fake.sent.type, RAFT_REQUEST_VOTE_RESULT);
    assert_int_equal(fake.sent.request_vote_result.term, 0);
    assert_false(fake.sent.request_vote_result.vote_granted);
    fake.sent_cb(fake.sent_request, RAFT_NOCONNECTION);
    struct raft_message knock = fake.sent;
    fake.recv(fake.io, &knock);
    assert_int_equal(fake.n_received, 0);
}

static void nobody_is_asked_for_a_vote_while_a_promise_stands(void **state) {
    struct raft_io_send request = {0};
    struct raft_message vote = request_vote(5, false);
    assert_int_equal(fake.io->send(fake.io, &request, &vote, raft_send_done), 0);
    assert_int_equal(fake.asked_candidate, SELF);
    assert_int_equal(fake.n_sent, 0);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.guard.votes_dropped, 1);
    fake.may_vote = true;
    assert_int_equal(fake.io->send(fake.io, &request, &vote, raft_send_done), 0);
    assert_int_equal(fake.n_sent, 1);
    assert_ptr_equal(fake.sent_request, &request);
    assert_ptr_equal(fake.sent_cb, raft_send_done);
    raft_guard_turn(&fake.guard);
}

static void a_dropped_send_ends_later_and_once(void **state) {
    struct raft_io_send requests[3] = {0};
    struct raft_message vote = request_vote(5, false);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fake.io->send(fake.io, &requests[i], &vote, raft_send_done), 0);
    }
    /* Never from inside: raft still uses the request. */
    assert_int_equal(fake.n_send_done, 0);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_send_done, 3);
    assert_int_equal(fake.send_done_status, RAFT_NOCONNECTION);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_send_done, 3);
}

static struct raft_io_send again_request;

static void send_again(struct raft_io_send *request, int status) {
    struct raft_message vote = request_vote(6, false);
    raft_send_done(request, status);
    if (request != &again_request) {
        assert_int_equal(fake.io->send(fake.io, &again_request, &vote, send_again), 0);
    }
}

static void a_dropped_send_may_be_answered_by_another(void **state) {
    struct raft_io_send request = {0};
    struct raft_message vote = request_vote(5, false);
    assert_int_equal(fake.io->send(fake.io, &request, &vote, send_again), 0);
    raft_guard_turn(&fake.guard);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_send_done, 2);
    assert_ptr_equal(fake.send_done_request, &again_request);
}

static void who_was_told_to_lead_may_ask(void **state) {
    struct raft_io_send request = {0};
    struct raft_message told = timeout_now(4);
    struct raft_message vote = request_vote(5, true);
    fake.recv(fake.io, &told);
    fake.may_vote = true;
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(fake.io->send(fake.io, &request, &vote, raft_send_done), 0);
    assert_int_equal(fake.n_sent, 1);
    assert_true(fake.sent.request_vote.disrupt_leader);
}

/* The mark on the request may be of a transfer that failed long ago. */
static void the_mark_of_a_transfer_frees_nobody(void **state) {
    struct raft_message vote = request_vote(5, true);
    fake.recv(fake.io, &vote);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.n_received, 0);
}

/* libraft keeps the mark of a transfer for as long as it is a candidate: by the second round
 * somebody else may lead, and hold a lease that the mark would break. */
static void a_transfer_is_good_for_one_term(void **state) {
    struct raft_io_send request = {0};
    struct raft_message told = timeout_now(4);
    fake.recv(fake.io, &told);
    fake.may_vote = true;
    struct raft_message vote = request_vote(6, true);
    assert_int_equal(fake.io->send(fake.io, &request, &vote, raft_send_done), 0);
    assert_int_equal(fake.n_sent, 1);
    assert_false(fake.sent.request_vote.disrupt_leader);
    assert_int_equal(fake.sent.request_vote.term, 6);
    /* And a promise made meanwhile is kept. */
    fake.may_vote = false;
    vote = request_vote(7, true);
    assert_int_equal(fake.io->send(fake.io, &request, &vote, raft_send_done), 0);
    assert_int_equal(fake.n_sent, 1);
    raft_guard_turn(&fake.guard);
    assert_int_equal(fake.guard.votes_dropped, 1);
}

static void without_anybody_to_ask_votes_pass(void **state) {
    struct raft_io_send request = {0};
    struct raft_message vote = request_vote(5, false);
    struct raft_message told = timeout_now(5);
    fake.recv(fake.io, &vote);
    fake.recv(fake.io, &told);
    assert_int_equal(fake.n_received, 2);
    assert_int_equal(fake.io->send(fake.io, &request, &vote, raft_send_done), 0);
    assert_int_equal(fake.n_sent, 1);
}

/* libraft looks for a flag of the candidate where the leader has a pointer, and may take a late
 * pre-vote of the next term for a newer term. */
static void only_a_candidate_gets_results(void **state) {
    static struct raft raft;
    fake.io->data = &raft;
    struct raft_message result = {.type = RAFT_REQUEST_VOTE_RESULT, .server_id = OTHER};
    result.request_vote_result.term = 6;
    raft.state = RAFT_LEADER;
    fake.recv(fake.io, &result);
    raft.state = RAFT_FOLLOWER;
    fake.recv(fake.io, &result);
    assert_int_equal(fake.n_received, 0);
    assert_int_equal(fake.guard.results_dropped, 2);
    raft.state = RAFT_CANDIDATE;
    fake.recv(fake.io, &result);
    assert_int_equal(fake.n_received, 1);
}

/* --- Commits told at once. --- */

static const struct raft_guard_commit a_commit = {
    .to_id = OTHER, .to_address = "127.0.0.1:9", .term = 4, .index = 17};

static void a_commit_is_announced_as_a_heartbeat_would(void **state) {
    raft_guard_announce(&fake.guard, &a_commit);
    assert_int_equal(fake.n_sent, 1);
    assert_int_equal(fake.sent.type, RAFT_APPEND_ENTRIES);
    assert_int_equal(fake.sent.server_id, OTHER);
    assert_string_equal(fake.sent.server_address, "127.0.0.1:9");
    assert_int_equal(fake.sent.append_entries.term, 4);
    assert_int_equal(fake.sent.append_entries.prev_log_index, 17);
    assert_int_equal(fake.sent.append_entries.prev_log_term, 4);
    assert_int_equal(fake.sent.append_entries.leader_commit, 17);
    assert_int_equal(fake.sent.append_entries.n_entries, 0);
    assert_null(fake.sent.append_entries.entries);
    /* And the follower's own guard has nothing to correct. */
    assert_true(raft_guard_admit(&fake.guard, &fake.sent));
    assert_int_equal(fake.guard.clamped, 0);
    fake.sent_cb(fake.sent_request, 0);
}

static void an_announcement_that_fails_leaves_nothing_behind(void **state) {
    fake.send_rv = RAFT_NOMEM;
    raft_guard_announce(&fake.guard, &a_commit);
    assert_int_equal(fake.n_sent, 0);
    fake.send_rv = 0;
    raft_guard_announce(&fake.guard, &a_commit);
    fake.sent_cb(fake.sent_request, RAFT_NOCONNECTION);
    assert_int_equal(fake.n_failed, 0);
}

/* --- Turns. --- */

/* How long server `id` of five, the last without a vote, waits for leader `leader_id`. */
static unsigned turn_of(raft_id id, raft_id leader_id, unsigned short raft_state) {
    struct raft raft = {.id = id, .state = raft_state, .election_timeout = 300};
    raft.heartbeat_timeout = 50;
    raft_configuration_init(&raft.configuration);
    static const char *const addresses[] = {"a:1", "b:1", "c:1", "d:1", "e:1"};
    for (raft_id i = 1; i <= 5; i++) {
        int role = i == 5 ? RAFT_STANDBY : RAFT_VOTER;
        assert_int_equal(
            raft_configuration_add(&raft.configuration, i * 10, addresses[i - 1], role), 0);
    }
    raft.follower_state.randomized_election_timeout = 444;
    raft.follower_state.current_leader.id = leader_id;
    raft_votes_take_turn(&raft);
    raft_configuration_close(&raft.configuration);
    return raft.follower_state.randomized_election_timeout;
}

static void followers_take_turns_when_their_leader_is_lost(void **state) {
    assert_int_equal(turn_of(10, 20, RAFT_FOLLOWER), 310);
    assert_int_equal(turn_of(30, 20, RAFT_FOLLOWER), 360);
    assert_int_equal(turn_of(40, 20, RAFT_FOLLOWER), 410);
    assert_int_equal(turn_of(20, 10, RAFT_FOLLOWER), 310);
    assert_int_equal(turn_of(50, 10, RAFT_FOLLOWER), 460); /* is not asked anyway */
    /* Who knows of no leader, or stands already, waits as libraft drew it. */
    assert_int_equal(turn_of(10, 0, RAFT_FOLLOWER), 444);
    assert_int_equal(turn_of(10, 20, RAFT_CANDIDATE), 444);
}

static void a_turn_comes_within_two_timeouts(void **state) {
    struct raft raft = {.id = 100, .state = RAFT_FOLLOWER, .election_timeout = 300};
    raft.heartbeat_timeout = 200;
    raft_configuration_init(&raft.configuration);
    assert_int_equal(raft_configuration_add(&raft.configuration, 1, "a:1", RAFT_VOTER), 0);
    assert_int_equal(raft_configuration_add(&raft.configuration, 2, "b:1", RAFT_VOTER), 0);
    assert_int_equal(raft_configuration_add(&raft.configuration, 3, "c:1", RAFT_VOTER), 0);
    raft.follower_state.current_leader.id = 1;
    raft_votes_take_turn(&raft);
    raft_configuration_close(&raft.configuration);
    assert_int_equal(raft.follower_state.randomized_election_timeout, 600);
}

/* --- The log. --- */

static void appends_are_reported_to_raft_in_the_order_they_end(void **state) {
    struct raft_io_append appends[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fake.io->append(fake.io, &appends[i], NULL, 0, raft_append_done), 0);
    }
    assert_int_equal(fake.n_append_done, 0);
    for (size_t i = 0; i < 3; i++) {
        fake.append_cbs[i](fake.appends[i], 0);
        raft_guard_tell_written(&fake.guard);
        assert_int_equal(fake.n_append_done, i + 1);
        assert_ptr_equal(fake.append_done_request, &appends[i]);
    }
    assert_int_equal(fake.append_done_status, 0);
    assert_int_equal(fake.n_failed, 0);
}

/* raft_uv begins the next write once its callback has returned. */
static void raft_is_told_of_a_write_after_the_next_one_has_begun(void **state) {
    struct raft_io_append appends[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fake.io->append(fake.io, &appends[i], NULL, 0, raft_append_done), 0);
        fake.append_cbs[i](fake.appends[i], 0);
    }
    assert_int_equal(fake.n_append_done, 0);
    raft_guard_tell_written(&fake.guard);
    assert_int_equal(fake.n_append_done, 2);
    assert_ptr_equal(fake.append_done_request, &appends[1]);
    raft_guard_tell_written(&fake.guard);
    assert_int_equal(fake.n_append_done, 2);
}

static void a_write_that_ends_while_closing_is_told_behind_those_before_it(void **state) {
    struct raft_io_append appends[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fake.io->append(fake.io, &appends[i], NULL, 0, raft_append_done), 0);
    }
    fake.append_cbs[0](fake.appends[0], 0);
    fake.guard.closing = true;
    assert_int_equal(fake.n_append_done, 0);
    fake.append_cbs[1](fake.appends[1], RAFT_CANCELED);
    assert_int_equal(fake.n_append_done, 2);
    assert_ptr_equal(fake.append_done_request, &appends[1]);
    assert_int_equal(fake.append_done_status, RAFT_CANCELED);
}

static void a_failed_append_is_told_to_us_and_not_to_raft(void **state) {
    struct raft_io_append append = {0};
    assert_int_equal(fake.io->append(fake.io, &append, NULL, 0, raft_append_done), 0);
    fake.append_cbs[0](fake.appends[0], RAFT_NOSPACE);
    assert_int_equal(fake.n_failed, 1);
    assert_int_equal(fake.failed_status, RAFT_NOSPACE);
    assert_string_equal(fake.failed_what, "writing the log");
    assert_int_equal(fake.n_append_done, 0);
}

static void an_append_that_cannot_start_is_told_to_both(void **state) {
    struct raft_io_append append = {0};
    fake.append_rv = RAFT_IOERR;
    assert_int_equal(fake.io->append(fake.io, &append, NULL, 0, raft_append_done), RAFT_IOERR);
    assert_int_equal(fake.n_failed, 1);
    assert_int_equal(fake.failed_status, RAFT_IOERR);
    assert_int_equal(fake.n_append_done, 0);
}

static void while_closing_failures_go_to_raft_alone(void **state) {
    struct raft_io_append append = {0};
    assert_int_equal(fake.io->append(fake.io, &append, NULL, 0, raft_append_done), 0);
    fake.guard.closing = true;
    fake.append_cbs[0](fake.appends[0], RAFT_CANCELED);
    assert_int_equal(fake.n_failed, 0);
    assert_int_equal(fake.n_append_done, 1);
    assert_int_equal(fake.append_done_status, RAFT_CANCELED);
    fake.append_rv = RAFT_CANCELED;
    assert_int_equal(fake.io->append(fake.io, &append, NULL, 0, raft_append_done), RAFT_CANCELED);
    assert_int_equal(fake.n_failed, 0);
}

/* Without assertions libraft takes a vote that could not be written for written when the same
 * candidate asks again. */
static void a_term_or_vote_that_cannot_be_written_is_told_to_us(void **state) {
    assert_int_equal(fake.io->set_term(fake.io, 7), 0);
    assert_int_equal(fake.io->set_vote(fake.io, OTHER), 0);
    assert_int_equal(fake.term, 7);
    assert_int_equal(fake.vote, OTHER);
    assert_int_equal(fake.n_failed, 0);
    fake.set_rv = RAFT_IOERR;
    assert_int_equal(fake.io->set_vote(fake.io, OTHER), RAFT_IOERR);
    assert_int_equal(fake.n_failed, 1);
    assert_string_equal(fake.failed_what, "writing the vote");
    fake.set_rv = RAFT_NOSPACE;
    assert_int_equal(fake.io->set_term(fake.io, 8), RAFT_NOSPACE);
    assert_int_equal(fake.n_failed, 2);
    assert_int_equal(fake.failed_status, RAFT_NOSPACE);
    assert_string_equal(fake.failed_what, "writing the term");
    fake.guard.closing = true;
    assert_int_equal(fake.io->set_term(fake.io, 9), RAFT_NOSPACE);
    assert_int_equal(fake.n_failed, 3);
}

/* --- Snapshots. --- */

static struct raft_io_snapshot_put local_put;
static struct raft_buffer local_bytes;
static struct raft_snapshot local_snapshot;

static void take_local_snapshot(void) {
    local_bytes = (struct raft_buffer){0};
    local_snapshot = (struct raft_snapshot){.bufs = &local_bytes, .n_bufs = 1};
    assert_int_equal(
        fake.io->snapshot_put(fake.io, TRAILING, &local_put, &local_snapshot, raft_put_done), 0);
    assert_true(fake.guard.is_storing);
    assert_true(fake.guard.is_serialising);
    assert_null(fake.put);
    assert_int_equal(uv_run(&fake.loop, UV_RUN_DEFAULT), 0);
    assert_false(fake.guard.is_serialising);
}

static void a_local_snapshot_is_serialised_before_it_is_written(void **state) {
    take_local_snapshot();
    assert_non_null(fake.put);
    assert_int_equal(fake.put_trailing, TRAILING);
    assert_int_equal(fake.put_snapshot->bufs[0].len, 5);
    assert_memory_equal(fake.put_snapshot->bufs[0].base, "state", 5);
    assert_int_equal(fake.n_serialised, 1);
    assert_int_equal(fake.serialised_size, 5);
    assert_int_equal(fake.n_handed_over, 1);
    assert_int_equal(fake.n_stored, 0);
    assert_true(fake.guard.is_storing);
    fake.put_cb(fake.put, 0);
    assert_false(fake.guard.is_storing);
    assert_int_equal(fake.n_put_done, 1);
    assert_ptr_equal(fake.put_done_request, &local_put);
    assert_int_equal(fake.n_stored, 1);
    assert_int_equal(fake.n_failed, 0);
    raft_free(local_bytes.base);
}

static void a_stored_snapshot_is_told_to_us_before_raft(void **state) {
    /* raft looks at once whether the next one is due, by the size of the log that we count. */
    take_local_snapshot();
    fake.put_cb(fake.put, 0);
    assert_int_equal(fake.n_put_done, 1);
    assert_int_equal(fake.n_stored_before_put_done, 1);
    raft_free(local_bytes.base);
}

static void a_snapshot_from_the_leader_is_written_at_once(void **state) {
    struct raft_io_snapshot_put put = {0};
    struct raft_snapshot snapshot = {0};
    assert_int_equal(fake.io->snapshot_put(fake.io, 0, &put, &snapshot, raft_put_done), 0);
    assert_int_equal(fake.n_serialised, 0);
    fake.put_cb(fake.put, 0);
    assert_int_equal(fake.n_put_done, 1);
    assert_ptr_equal(fake.put_done_request, &put);
    assert_int_equal(fake.n_stored, 1);
}

static void a_leaders_snapshot_that_cannot_start_leaves_nothing_behind(void **state) {
    struct raft_io_snapshot_put put = {0};
    struct raft_snapshot snapshot = {0};
    fake.put_rv = RAFT_NOMEM;
    assert_int_equal(fake.io->snapshot_put(fake.io, 0, &put, &snapshot, raft_put_done), RAFT_NOMEM);
    assert_false(fake.guard.is_storing);
    assert_int_equal(fake.n_put_done, 0);
}

static void a_snapshot_that_cannot_be_written_is_told_to_us(void **state) {
    take_local_snapshot();
    fake.put_cb(fake.put, RAFT_NOSPACE);
    assert_int_equal(fake.n_failed, 1);
    assert_int_equal(fake.failed_status, RAFT_NOSPACE);
    assert_string_equal(fake.failed_what, "writing a snapshot");
    assert_int_equal(fake.n_put_done, 0);
    assert_int_equal(fake.n_stored, 0);
    raft_free(local_bytes.base);
}

static void a_write_that_cannot_start_after_serialising_is_told_to_us(void **state) {
    fake.put_rv = RAFT_NOMEM;
    take_local_snapshot();
    assert_int_equal(fake.n_failed, 1);
    assert_int_equal(fake.failed_status, RAFT_NOMEM);
    assert_false(fake.guard.is_storing);
    raft_free(local_bytes.base);
}

static void a_failure_to_serialise_is_told_to_us(void **state) {
    fake.serialise_rv = RAFT_NOMEM;
    take_local_snapshot();
    assert_null(fake.put);
    assert_int_equal(fake.n_failed, 1);
    assert_string_equal(fake.failed_what, "serialising a snapshot");
    assert_int_equal(fake.n_serialised, 1); /* so that the view is closed */
}

static void while_closing_a_canceled_snapshot_goes_to_raft_alone(void **state) {
    take_local_snapshot();
    fake.guard.closing = true;
    fake.put_cb(fake.put, RAFT_CANCELED);
    assert_int_equal(fake.n_failed, 0);
    assert_int_equal(fake.n_put_done, 1);
    assert_int_equal(fake.put_done_status, RAFT_CANCELED);
    assert_int_equal(fake.n_stored, 0);
    raft_free(local_bytes.base);
}

#define GUARD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define VOTER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_voter, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_commit_index_beyond_the_entries_is_clamped),
        GUARD_TEST(a_message_is_cut_before_a_change_that_is_not_its_first_entry),
        GUARD_TEST(a_change_is_not_committed_by_the_message_that_brings_it),
        GUARD_TEST(the_only_voter_among_several_begins_a_new_term),
        GUARD_TEST(whoever_must_be_elected_or_is_alone_begins_none),
        GUARD_TEST(a_commit_index_within_the_entries_is_left_alone),
        GUARD_TEST(a_rejection_does_not_call_a_snapshot_back_that_is_read),
        GUARD_TEST(a_rejection_does_not_call_a_snapshot_back_that_is_on_its_way),
        GUARD_TEST(entries_on_their_way_are_not_sent_again),
        GUARD_TEST(messages_reach_raft_through_the_guard),
        GUARD_TEST(a_snapshot_is_dropped_while_one_is_being_stored),
        GUARD_TEST(what_is_of_an_older_term_is_refused_in_plain_words),
        VOTER_TEST(nobody_is_voted_for_while_a_promise_stands),
        VOTER_TEST(a_promise_holds_nothing_up_but_votes),
        VOTER_TEST(nobody_is_asked_for_a_vote_while_a_promise_stands),
        VOTER_TEST(a_dropped_send_ends_later_and_once),
        VOTER_TEST(a_dropped_send_may_be_answered_by_another),
        VOTER_TEST(who_was_told_to_lead_may_ask),
        VOTER_TEST(a_request_for_a_vote_waits_for_the_end_of_a_promise),
        VOTER_TEST(a_question_for_votes_waits_for_the_end_of_our_own_promise),
        VOTER_TEST(who_has_heard_of_no_leader_for_a_timeout_votes_at_once),
        GUARD_TEST(a_knock_is_sent_and_never_received),
        VOTER_TEST(only_a_candidate_gets_results),
        VOTER_TEST(the_mark_of_a_transfer_frees_nobody),
        VOTER_TEST(a_transfer_is_good_for_one_term),
        GUARD_TEST(without_anybody_to_ask_votes_pass),
        GUARD_TEST(a_commit_is_announced_as_a_heartbeat_would),
        GUARD_TEST(an_announcement_that_fails_leaves_nothing_behind),
        GUARD_TEST(appends_are_reported_to_raft_in_the_order_they_end),
        GUARD_TEST(followers_take_turns_when_their_leader_is_lost),
        GUARD_TEST(a_turn_comes_within_two_timeouts),
        GUARD_TEST(raft_is_told_of_a_write_after_the_next_one_has_begun),
        GUARD_TEST(a_write_that_ends_while_closing_is_told_behind_those_before_it),
        GUARD_TEST(a_failed_append_is_told_to_us_and_not_to_raft),
        GUARD_TEST(an_append_that_cannot_start_is_told_to_both),
        GUARD_TEST(while_closing_failures_go_to_raft_alone),
        GUARD_TEST(a_term_or_vote_that_cannot_be_written_is_told_to_us),
        GUARD_TEST(a_local_snapshot_is_serialised_before_it_is_written),
        GUARD_TEST(a_stored_snapshot_is_told_to_us_before_raft),
        GUARD_TEST(a_snapshot_from_the_leader_is_written_at_once),
        GUARD_TEST(a_leaders_snapshot_that_cannot_start_leaves_nothing_behind),
        GUARD_TEST(a_snapshot_that_cannot_be_written_is_told_to_us),
        GUARD_TEST(a_write_that_cannot_start_after_serialising_is_told_to_us),
        GUARD_TEST(a_failure_to_serialise_is_told_to_us),
        GUARD_TEST(while_closing_a_canceled_snapshot_goes_to_raft_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
