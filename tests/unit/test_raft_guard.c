#include "replication/raft_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

/* --- A raft_io made by hand: it notes what it was asked, and answers when told to. --- */

enum { APPENDS_MAX = 8, TRAILING = 100 };

static struct fake {
    struct raft_io io;
    uv_loop_t loop;
    struct raft_guard guard;
    raft_io_recv_cb recv; /* what the guard gave to start() */
    size_t n_appends;
    struct raft_io_append *appends[APPENDS_MAX];
    raft_io_append_cb append_cbs[APPENDS_MAX];
    int append_rv;
    struct raft_io_snapshot_put *put;
    raft_io_snapshot_put_cb put_cb;
    unsigned put_trailing;
    const struct raft_snapshot *put_snapshot;
    int put_rv;
    int serialise_rv;
    /* What reached raft above, and the service beside. */
    unsigned n_received;
    unsigned n_append_done;
    int append_done_status;
    unsigned n_put_done;
    int put_done_status;
    unsigned n_stored_before_put_done;
    unsigned n_serialised;
    size_t serialised_size;
    unsigned n_handed_over;
    unsigned n_stored;
    unsigned n_failed;
    int failed_status;
    const char *failed_what;
} fake;

static int fake_start(struct raft_io *io, unsigned tick_ms, raft_io_tick_cb tick,
                      raft_io_recv_cb recv) {
    assert_int_equal(tick_ms, 50);
    fake.recv = recv;
    return 0;
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

/* raft above. */
static void raft_tick(struct raft_io *io) {
}
static void raft_recv(struct raft_io *io, struct raft_message *message) {
    fake.n_received++;
}
static void raft_append_done(struct raft_io_append *append, int status) {
    fake.n_append_done++;
    fake.append_done_status = status;
}
static void raft_put_done(struct raft_io_snapshot_put *put, int status) {
    fake.n_put_done++;
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

static const struct raft_guard_callbacks callbacks = {.serialise = serialise,
                                                      .serialised = serialised,
                                                      .handed_over = handed_over,
                                                      .stored = stored,
                                                      .failed = failed};

static int set_up(void **state) {
    fake = (struct fake){0};
    assert_int_equal(uv_loop_init(&fake.loop), 0);
    fake.io.start = fake_start;
    fake.io.append = fake_append;
    fake.io.snapshot_put = fake_snapshot_put;
    raft_guard_install(&fake.guard, &fake.io, &fake.loop, 1, &callbacks, &fake);
    assert_int_equal(fake.io.start(&fake.io, 50, raft_tick, raft_recv), 0);
    return 0;
}

static int tear_down(void **state) {
    assert_int_equal(uv_run(&fake.loop, UV_RUN_DEFAULT), 0);
    return uv_loop_close(&fake.loop);
}

/* --- Received messages. --- */

static struct raft_message append_entries(raft_index prev_log_index, unsigned n_entries,
                                          raft_index leader_commit) {
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES};
    message.append_entries.prev_log_index = prev_log_index;
    message.append_entries.n_entries = n_entries;
    message.append_entries.leader_commit = leader_commit;
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

static void messages_reach_raft_through_the_guard(void **state) {
    struct raft_message message = append_entries(1, 1, 50);
    fake.recv(&fake.io, &message);
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(message.append_entries.leader_commit, 2);
    struct raft_message vote = {.type = RAFT_REQUEST_VOTE};
    fake.recv(&fake.io, &vote);
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
    fake.recv(&fake.io, &message);
    assert_int_equal(fake.n_received, 1);
    release(&message);

    assert_int_equal(fake.io.snapshot_put(&fake.io, 0, &put, &snapshot, raft_put_done), 0);
    message = install_snapshot();
    fake.recv(&fake.io, &message);
    assert_int_equal(fake.n_received, 1);
    assert_int_equal(fake.guard.dropped, 1);
    /* Anything else goes through meanwhile. */
    struct raft_message append = append_entries(1, 0, 1);
    fake.recv(&fake.io, &append);
    assert_int_equal(fake.n_received, 2);

    fake.put_cb(&put, 0);
    message = install_snapshot();
    fake.recv(&fake.io, &message);
    assert_int_equal(fake.n_received, 3);
    assert_int_equal(fake.guard.dropped, 1);
    release(&message);
}

/* --- The log. --- */

static void appends_are_reported_to_raft_in_the_order_they_end(void **state) {
    struct raft_io_append appends[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fake.io.append(&fake.io, &appends[i], NULL, 0, raft_append_done), 0);
    }
    assert_int_equal(fake.n_append_done, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(fake.appends[i], &appends[i]);
        fake.append_cbs[i](&appends[i], 0);
        assert_int_equal(fake.n_append_done, i + 1);
    }
    assert_int_equal(fake.append_done_status, 0);
    assert_int_equal(fake.n_failed, 0);
}

static void a_failed_append_is_told_to_us_and_not_to_raft(void **state) {
    struct raft_io_append append = {0};
    assert_int_equal(fake.io.append(&fake.io, &append, NULL, 0, raft_append_done), 0);
    fake.append_cbs[0](&append, RAFT_NOSPACE);
    assert_int_equal(fake.n_failed, 1);
    assert_int_equal(fake.failed_status, RAFT_NOSPACE);
    assert_string_equal(fake.failed_what, "writing the log");
    assert_int_equal(fake.n_append_done, 0);
}

static void an_append_that_cannot_start_is_told_to_both(void **state) {
    struct raft_io_append append = {0};
    fake.append_rv = RAFT_IOERR;
    assert_int_equal(fake.io.append(&fake.io, &append, NULL, 0, raft_append_done), RAFT_IOERR);
    assert_int_equal(fake.n_failed, 1);
    assert_int_equal(fake.failed_status, RAFT_IOERR);
    assert_int_equal(fake.n_append_done, 0);
}

static void while_closing_failures_go_to_raft_alone(void **state) {
    struct raft_io_append append = {0};
    assert_int_equal(fake.io.append(&fake.io, &append, NULL, 0, raft_append_done), 0);
    fake.guard.closing = true;
    fake.append_cbs[0](&append, RAFT_CANCELED);
    assert_int_equal(fake.n_failed, 0);
    assert_int_equal(fake.n_append_done, 1);
    assert_int_equal(fake.append_done_status, RAFT_CANCELED);
    fake.append_rv = RAFT_CANCELED;
    assert_int_equal(fake.io.append(&fake.io, &append, NULL, 0, raft_append_done), RAFT_CANCELED);
    assert_int_equal(fake.n_failed, 0);
}

/* --- Snapshots. --- */

static struct raft_io_snapshot_put local_put;
static struct raft_buffer local_bytes;
static struct raft_snapshot local_snapshot;

static void take_local_snapshot(void) {
    local_bytes = (struct raft_buffer){0};
    local_snapshot = (struct raft_snapshot){.bufs = &local_bytes, .n_bufs = 1};
    assert_int_equal(
        fake.io.snapshot_put(&fake.io, TRAILING, &local_put, &local_snapshot, raft_put_done), 0);
    assert_true(fake.guard.is_storing);
    assert_true(fake.guard.is_serialising);
    assert_null(fake.put);
    assert_int_equal(uv_run(&fake.loop, UV_RUN_DEFAULT), 0);
    assert_false(fake.guard.is_serialising);
}

static void a_local_snapshot_is_serialised_before_it_is_written(void **state) {
    take_local_snapshot();
    assert_ptr_equal(fake.put, &local_put);
    assert_int_equal(fake.put_trailing, TRAILING);
    assert_int_equal(fake.put_snapshot->bufs[0].len, 5);
    assert_memory_equal(fake.put_snapshot->bufs[0].base, "state", 5);
    assert_int_equal(fake.n_serialised, 1);
    assert_int_equal(fake.serialised_size, 5);
    assert_int_equal(fake.n_handed_over, 1);
    assert_int_equal(fake.n_stored, 0);
    assert_true(fake.guard.is_storing);
    fake.put_cb(&local_put, 0);
    assert_false(fake.guard.is_storing);
    assert_int_equal(fake.n_put_done, 1);
    assert_int_equal(fake.n_stored, 1);
    assert_int_equal(fake.n_failed, 0);
    raft_free(local_bytes.base);
}

static void a_stored_snapshot_is_told_to_us_before_raft(void **state) {
    /* raft looks at once whether the next one is due, by the size of the log that we count. */
    take_local_snapshot();
    fake.put_cb(&local_put, 0);
    assert_int_equal(fake.n_put_done, 1);
    assert_int_equal(fake.n_stored_before_put_done, 1);
    raft_free(local_bytes.base);
}

static void a_snapshot_from_the_leader_is_written_at_once(void **state) {
    struct raft_io_snapshot_put put = {0};
    struct raft_snapshot snapshot = {0};
    assert_int_equal(fake.io.snapshot_put(&fake.io, 0, &put, &snapshot, raft_put_done), 0);
    assert_ptr_equal(fake.put, &put);
    assert_int_equal(fake.n_serialised, 0);
    fake.put_cb(&put, 0);
    assert_int_equal(fake.n_put_done, 1);
    assert_int_equal(fake.n_stored, 1);
}

static void a_leaders_snapshot_that_cannot_start_leaves_nothing_behind(void **state) {
    struct raft_io_snapshot_put put = {0};
    struct raft_snapshot snapshot = {0};
    fake.put_rv = RAFT_NOMEM;
    assert_int_equal(fake.io.snapshot_put(&fake.io, 0, &put, &snapshot, raft_put_done), RAFT_NOMEM);
    assert_false(fake.guard.is_storing);
    assert_int_equal(fake.n_put_done, 0);
}

static void a_snapshot_that_cannot_be_written_is_told_to_us(void **state) {
    take_local_snapshot();
    fake.put_cb(&local_put, RAFT_NOSPACE);
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
    fake.put_cb(&local_put, RAFT_CANCELED);
    assert_int_equal(fake.n_failed, 0);
    assert_int_equal(fake.n_put_done, 1);
    assert_int_equal(fake.put_done_status, RAFT_CANCELED);
    assert_int_equal(fake.n_stored, 0);
    raft_free(local_bytes.base);
}

#define GUARD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_commit_index_beyond_the_entries_is_clamped),
        GUARD_TEST(a_commit_index_within_the_entries_is_left_alone),
        GUARD_TEST(messages_reach_raft_through_the_guard),
        GUARD_TEST(a_snapshot_is_dropped_while_one_is_being_stored),
        GUARD_TEST(appends_are_reported_to_raft_in_the_order_they_end),
        GUARD_TEST(a_failed_append_is_told_to_us_and_not_to_raft),
        GUARD_TEST(an_append_that_cannot_start_is_told_to_both),
        GUARD_TEST(while_closing_failures_go_to_raft_alone),
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
