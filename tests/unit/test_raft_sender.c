#include "raft/entry_stream.h"
#include "raft/raft_sender.h"
#include "raft/snapshot_transfer.h"
#include "raft_sender_fixture.h"

enum { CHUNK = SNAPSHOT_CHUNK_SIZE };

static int set_up(void **state) {
    fake_set_up();
    return 0;
}

static int tear_down(void **state) {
    fake_tear_down();
    return 0;
}

static void pump(void) {
    raft_sender_pump(fake.sender, fake.now_ms);
}

static void wait_ms(uint64_t ms) {
    fake.now_ms += ms;
    pump();
}

static const struct sent *last_sent(void) {
    assert_true(fake.n_sent > 0);
    return &fake.sent[fake.n_sent - 1];
}

/* The messages from `from` on carry the entries (prev, last], each once, each after the other. */
static void assert_sent_entries(size_t from, uint64_t prev, uint64_t last) {
    for (size_t i = from; i < fake.n_sent; i++) {
        const struct message_append *append = &fake.sent[i].append;
        assert_int_equal(fake.sent[i].kind, MESSAGE_APPEND);
        assert_int_equal(append->prev_index, prev);
        assert_int_equal(append->prev_term, fake_term_of(prev));
        assert_true(append->n_entries <= MESSAGE_ENTRIES_MAX);
        prev += append->n_entries;
    }
    assert_int_equal(prev, last);
}

/* Posts, and the member accepts the first message: the rest may follow. */
static void post_accepted(uint64_t prev, uint32_t n) {
    size_t first = fake.n_sent;
    fake_post_entries(prev, n);
    assert_true(fake.sent[first].append.n_entries > 0);
    fake_admit(0, prev + fake.sent[first].append.n_entries);
}

/* --- Entries. --- */

static void small_messages_leave_at_once(void **state) {
    fake.room = 0;
    struct raft_message_view messages[] = {
        {.kind = MESSAGE_APPEND, .append = {.term = TERM, .commit = 3}},
        {.kind = MESSAGE_APPEND_RESULT},
        {.kind = MESSAGE_VOTE},
        {.kind = MESSAGE_VOTE_RESULT},
        {.kind = MESSAGE_TIMEOUT_NOW},
        {.kind = MESSAGE_SNAPSHOT_RESULT},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        raft_sender_post(fake.sender, MEMBER, &messages[i], fake.now_ms);
        assert_int_equal(fake.n_sent, i + 1);
        assert_int_equal(last_sent()->kind, messages[i].kind);
    }
}

static void entries_are_filled_in_and_sent(void **state) {
    fake_append(10, 100, 4);
    fake_append(10, 100, TERM);
    fake_post_entries(3, 17);
    assert_int_equal(fake.n_sent, 1);
    assert_sent_entries(0, 3, 20);
    assert_int_equal(last_sent()->append.term, TERM);
    assert_int_equal(last_sent()->append.commit, 1);
    assert_int_equal(last_sent()->last_term, TERM);
}

static void many_entries_are_cut_into_messages_that_continue_each_other(void **state) {
    fake_append(100, 100 * 1024, 4);
    post_accepted(0, 100);
    assert_sent_entries(0, 0, 100);
    assert_true(fake.n_sent >= 10);
    for (size_t i = 0; i < fake.n_sent; i++) {
        assert_true(fake.sent[i].bytes <= MESSAGE_APPEND_BYTES_MAX);
    }
    fake_append(10000, 1, TERM);
    fake_post_entries(100, 10000);
    assert_sent_entries(0, 0, 10100);
}

static void an_entry_larger_than_any_message_goes_alone(void **state) {
    fake_append(1, 10, 4);
    fake_append(1, 2 * MESSAGE_APPEND_BYTES_MAX, 4);
    fake_append(1, 10, 4);
    post_accepted(0, 3);
    assert_int_equal(fake.n_sent, 3);
    assert_sent_entries(0, 0, 3);
}

static void a_slow_link_gets_no_more_than_it_has_room_for(void **state) {
    fake_append(1000, 1000, 4);
    fake.room = 10 * 1024;
    post_accepted(0, 1000);
    /* fake_send() holds every message against the room that is left. */
    while (last_sent()->append.prev_index + last_sent()->append.n_entries < 1000) {
        size_t before = fake.n_sent;
        pump();
        assert_int_equal(fake.n_sent, before);
        fake.room = 10 * 1024;
        pump();
        assert_true(fake.n_sent > before);
    }
    assert_sent_entries(0, 0, 1000);
    assert_true(fake.n_sent >= 100);
}

static void a_full_link_still_gets_a_heartbeat(void **state) {
    fake_append(10, 1000, 4);
    fake.room = 0;
    fake_post_entries(0, 5);
    assert_int_equal(fake.n_sent, 1);
    assert_int_equal(last_sent()->append.n_entries, 0);
    assert_int_equal(last_sent()->append.prev_index, 0);
    /* Not one for each of thousands of posts. */
    fake_post_entries(5, 1);
    assert_int_equal(fake.n_sent, 1);
    fake.now_ms += STREAM_QUIET_MS;
    fake_post_entries(6, 1);
    assert_int_equal(fake.n_sent, 2);
    assert_int_equal(last_sent()->append.n_entries, 0);
}

static void a_repeat_of_what_is_on_its_way_is_a_heartbeat(void **state) {
    fake_append(200, 100 * 1024, 4);
    fake.room = 5 * 1024 * 1024;
    post_accepted(0, 200);
    size_t sent = fake.n_sent;
    uint64_t cursor = last_sent()->append.prev_index + last_sent()->append.n_entries;
    assert_true(cursor < 200);
    for (unsigned i = 0; i < 19; i++) {
        fake.now_ms += 100;
        fake_post_entries(0, 200);
        assert_int_equal(fake.n_sent, ++sent);
        assert_int_equal(last_sent()->append.n_entries, 0);
        assert_int_equal(last_sent()->append.prev_index, cursor);
        assert_int_equal(last_sent()->append.prev_term, 4);
    }
    fake_post_entries(0, 200);
    assert_int_equal(fake.n_sent, sent + 1);
}

static void consecutive_posts_extend_the_stream(void **state) {
    fake_append(30, 100, 4);
    post_accepted(0, 10);
    fake_post_entries(10, 10);
    fake_post_entries(20, 10);
    assert_int_equal(fake.n_sent, 3);
    assert_sent_entries(0, 0, 30);
    /* An overlap brings only what is new. */
    fake_append(5, 100, 4);
    fake_post_entries(20, 15);
    assert_sent_entries(0, 0, 35);
}

static void a_gap_starts_the_stream_anew(void **state) {
    fake_append(30, 100, 4);
    post_accepted(0, 10);
    fake_post_entries(20, 10);
    assert_int_equal(last_sent()->append.prev_index, 20);
    assert_int_equal(last_sent()->append.n_entries, 10);
}

static void the_newest_commit_goes_with_the_stream(void **state) {
    fake_append(10, 1000, 4);
    fake.room = 3000;
    post_accepted(0, 10);
    struct raft_message_view heartbeat = {
        .kind = MESSAGE_APPEND,
        .append = {.term = TERM, .prev_index = 10, .prev_term = 4, .commit = 9}};
    raft_sender_post(fake.sender, MEMBER, &heartbeat, fake.now_ms);
    assert_int_equal(last_sent()->append.prev_index, 10);
    fake.room = 100000;
    pump();
    assert_true(last_sent()->append.n_entries > 0);
    assert_int_equal(last_sent()->append.commit, 9);
}

static void a_rejected_start_moves_the_stream_back(void **state) {
    fake_append(300, 10, 4);
    fake_post_entries(200, 100);
    assert_true(fake_admit(200, 50));
    size_t before = fake.n_sent;
    fake_post_entries(50, 250);
    assert_sent_entries(before, 50, 300);
}

static void nothing_follows_before_the_first_message_is_accepted(void **state) {
    fake_append(300, 1000, 4);
    for (uint64_t prev = 200; prev > 190; prev--) {
        fake_post_entries(prev, (uint32_t)(300 - prev));
        size_t sent = fake.n_sent;
        assert_int_equal(last_sent()->append.prev_index, prev);
        assert_true(last_sent()->append.n_entries > 0);
        assert_true(last_sent()->bytes <= STREAM_FIRST_BYTES);
        pump();
        assert_int_equal(fake.n_sent, sent);
        assert_true(fake_admit(prev, 250));
    }
    post_accepted(190, 110);
    size_t before = fake.n_sent - 2;
    assert_sent_entries(before, 190, 300);
}

static void rejections_of_what_follows_a_rejected_start_are_dropped(void **state) {
    fake_append(300, 100 * 1024, 4);
    fake_post_entries(200, 100);
    assert_true(fake_admit(200, 50));
    fake_post_entries(50, 250);
    assert_false(fake_admit(250, 50));
    assert_false(fake_admit(300, 50));
    assert_false(fake_admit(200, 50));
}

static void a_rejection_is_admitted_when_nothing_is_on_its_way(void **state) {
    fake_append(10, 100, 4);
    assert_true(fake_admit(10, 0));
    fake_post_entries(0, 10);
    assert_false(fake_admit(10, 0));
    assert_true(fake_admit(0, 10));
    assert_true(fake_admit(10, 0));
}

static void a_rejection_of_another_term_is_admitted(void **state) {
    fake_append(10, 100, 4);
    fake_post_entries(0, 10);
    struct message_append_result result = {.term = TERM + 1, .rejected = 10};
    assert_true(raft_sender_admit_rejection(fake.sender, MEMBER, &result, fake.now_ms));
}

static void what_is_not_acknowledged_for_long_is_sent_again(void **state) {
    fake_append(10, 100, 4);
    fake_post_entries(0, 10);
    fake.now_ms += STREAM_STALL_MS - 1;
    fake_post_entries(0, 10);
    assert_int_equal(last_sent()->append.n_entries, 0);
    assert_false(fake_admit(10, 0));
    fake.now_ms += 1;
    assert_true(fake_admit(10, 0));
    fake_post_entries(0, 10);
    assert_int_equal(last_sent()->append.prev_index, 0);
    assert_int_equal(last_sent()->append.n_entries, 10);
    /* And counts as on its way again. */
    assert_false(fake_admit(10, 0));
}

static void an_acknowledgement_is_progress(void **state) {
    fake_append(10, 100, 4);
    fake_post_entries(0, 10);
    fake.now_ms += STREAM_STALL_MS - 1;
    assert_true(fake_admit(0, 4));
    fake.now_ms += STREAM_STALL_MS - 1;
    fake_post_entries(4, 6);
    assert_int_equal(last_sent()->append.n_entries, 0);
}

static void what_waits_in_a_full_link_is_not_sent_again(void **state) {
    fake_append(100, 1000, 4);
    fake.room = 5000;
    post_accepted(0, 100);
    fake.room = 5000;
    pump();
    uint64_t cursor = last_sent()->append.prev_index + last_sent()->append.n_entries;
    for (unsigned i = 0; i < 100; i++) {
        wait_ms(100);
        fake_post_entries(0, 100);
        assert_int_equal(last_sent()->append.n_entries, 0);
    }
    fake.room = 1000000;
    pump();
    assert_int_equal(last_sent()->append.prev_index, cursor);
}

static void a_member_that_does_not_acknowledge_gets_one_window(void **state) {
    fake_append(1000, 100 * 1024, 4);
    post_accepted(0, 1000);
    size_t bytes = 0;
    for (size_t i = 1; i < fake.n_sent; i++) {
        bytes += fake.sent[i].bytes;
    }
    assert_true(bytes >= STREAM_WINDOW_BYTES);
    assert_true(bytes <= STREAM_WINDOW_BYTES + MESSAGE_APPEND_BYTES_MAX);
    size_t sent = fake.n_sent;
    pump();
    assert_int_equal(fake.n_sent, sent);
    fake_admit(0, fake.sent[1].append.prev_index + fake.sent[1].append.n_entries);
    assert_int_equal(fake.n_sent, sent + 1);
    while (last_sent()->append.prev_index + last_sent()->append.n_entries < 1000) {
        fake_admit(0, last_sent()->append.prev_index);
    }
    assert_sent_entries(0, 0, 1000);
}

static void acknowledgements_of_what_was_not_sent_change_nothing(void **state) {
    fake_append(1000, 100 * 1024, 4);
    post_accepted(0, 1000);
    size_t sent = fake.n_sent;
    uint64_t cursor = last_sent()->append.prev_index + last_sent()->append.n_entries;
    assert_true(fake_admit(0, ((uint64_t)1 << 62) - 1));
    assert_sent_entries(0, 0, last_sent()->append.prev_index + last_sent()->append.n_entries);
    assert_int_equal(fake.sent[sent].append.prev_index, cursor);
    /* Nor do they count for what is sent later. */
    cursor = last_sent()->append.prev_index + last_sent()->append.n_entries;
    fake.now_ms += STREAM_STALL_MS;
    fake_post_entries(cursor, (uint32_t)(1000 - cursor));
    assert_int_equal(last_sent()->append.prev_index, cursor);
    assert_true(last_sent()->append.n_entries > 0);
}

static void a_lost_link_ends_the_stream(void **state) {
    fake_append(100, 1000, 4);
    fake.room = 5000;
    post_accepted(0, 100);
    fake.is_up = false;
    raft_sender_link_lost(fake.sender, MEMBER);
    size_t sent = fake.n_sent;
    fake.is_up = true;
    fake.room = 1000000;
    pump();
    assert_int_equal(fake.n_sent, sent);
    assert_true(fake_admit(100, 2));
    post_accepted(2, 98);
    assert_sent_entries(sent, 2, 100);
}

static void what_is_posted_while_the_link_is_down_leaves_when_it_is_back(void **state) {
    fake_append(10, 1000, 4);
    fake.is_up = false;
    fake_post_entries(0, 5);
    wait_ms(10000);
    fake_post_entries(0, 10);
    assert_int_equal(fake.n_sent, 0);
    fake.is_up = true;
    pump();
    assert_sent_entries(0, 0, 10);
}

static void a_new_term_starts_the_stream_anew(void **state) {
    fake_append(100, 1000, 4);
    fake.room = 5000;
    post_accepted(0, 100);
    struct raft_message_view message = {
        .kind = MESSAGE_APPEND, .append = {.term = TERM + 1, .prev_index = 60, .prev_term = 4}};
    raft_sender_post(fake.sender, MEMBER, &message, fake.now_ms);
    fake.room = 1000000;
    size_t sent = fake.n_sent;
    pump();
    assert_int_equal(fake.n_sent, sent);
    fake_post_entries(60, 10);
    raft_sender_stop_all(fake.sender);
    fake_post_entries(60, 10);
    assert_int_equal(last_sent()->append.n_entries, 10);
    message.append.n_entries = 10;
    raft_sender_post(fake.sender, MEMBER, &message, fake.now_ms);
    assert_int_equal(last_sent()->append.term, TERM + 1);
    assert_int_equal(last_sent()->append.n_entries, 10);
}

/* --- From disk. --- */

static void entries_that_left_memory_are_read_from_disk(void **state) {
    fake_append(100, 100 * 1024, 4);
    fake.memory_first = 71;
    fake_post_entries(0, 100);
    while (fake.is_reading_log) {
        assert_true(fake.n_sent <= 1 || last_sent()->append.n_entries > 0);
        fake_end_log_read();
        fake_admit(0, last_sent()->append.prev_index + last_sent()->append.n_entries);
    }
    /* The first of them is the heartbeat that left while the disk was being read. */
    assert_int_equal(fake.sent[0].append.n_entries, 0);
    assert_sent_entries(0, 0, 100);
    assert_true(fake.n_log_reads >= 7);
}

static void a_slow_link_holds_back_the_disk(void **state) {
    fake_append(100, 100 * 1024, 4);
    fake.memory_first = 101;
    fake.room = 150 * 1024;
    fake_post_entries(0, 100);
    fake_end_log_read();
    assert_int_equal(last_sent()->append.n_entries, 1);
    fake_admit(0, 1);
    fake_end_log_read();
    assert_int_equal(last_sent()->append.prev_index, 0);
    wait_ms(10);
    assert_false(fake.is_reading_log);
    assert_int_equal(fake.n_log_reads, 2);
    fake.room = 20 * 1024 * 1024;
    pump();
    assert_true(fake.is_reading_log);
}

static void entries_that_were_trimmed_end_the_stream(void **state) {
    fake_append(100, 1000, 4);
    fake.memory_first = 101;
    fake.disk_first = 51;
    fake_post_entries(0, 100);
    fake_end_log_read();
    assert_int_equal(last_sent()->append.n_entries, 0);
    assert_true(fake_admit(100, 0));
    pump();
    assert_false(fake.is_reading_log);
}

static void a_read_for_a_stream_that_moved_back_is_dropped(void **state) {
    fake_append(100, 1000, 4);
    fake.memory_first = 101;
    fake_post_entries(50, 50);
    assert_int_equal(fake.read_first, 51);
    fake_post_entries(20, 80);
    fake_end_log_read();
    assert_int_equal(fake.read_first, 21);
    fake_end_log_read();
    assert_int_equal(last_sent()->append.prev_index, 20);
}

static void a_read_for_an_ended_stream_is_dropped(void **state) {
    fake_append(100, 1000, 4);
    fake.memory_first = 101;
    fake_post_entries(50, 50);
    size_t sent = fake.n_sent;
    raft_sender_stop_all(fake.sender);
    fake_end_log_read();
    assert_int_equal(fake.n_sent, sent);
    fake_post_entries(50, 50);
    assert_int_equal(fake.n_log_reads, 2);
    /* Also when the same is wanted again: another leader may have replaced it meanwhile. */
    raft_sender_stop_all(fake.sender);
    fake_post_entries(50, 50);
    fake_end_log_read();
    assert_int_equal(last_sent()->append.n_entries, 0);
    assert_int_equal(fake.n_log_reads, 3);
    raft_sender_link_lost(fake.sender, MEMBER);
    fake_end_log_read();
    assert_int_equal(last_sent()->append.n_entries, 0);
    /* What was read stays owned by somebody when all ends. */
    fake_post_entries(50, 50);
    fake.room = 0;
    fake_end_log_read();
}

/* --- Snapshots. --- */

/* Posts it and answers the probe. */
static void start_transfer(uint64_t size, uint64_t received) {
    fake_make_snapshot(70, size);
    fake_post_snapshot();
    fake_end_snapshot_read();
    assert_int_equal(fake.n_sent, 1);
    assert_int_equal(last_sent()->kind, MESSAGE_SNAPSHOT);
    assert_int_equal(last_sent()->snapshot.term, TERM);
    assert_int_equal(last_sent()->snapshot.offset, 0);
    assert_int_equal(last_sent()->snapshot.chunk.size, 0);
    pump();
    assert_false(fake.is_reading_snapshot);
    fake_result(70, received);
}

static void read_while_possible(void) {
    while (fake.is_reading_snapshot) {
        fake_end_snapshot_read();
    }
}

static void a_snapshot_is_sent_in_chunks_a_window_ahead(void **state) {
    uint64_t size = 100 * (uint64_t)CHUNK + 7;
    start_transfer(size, 0);
    read_while_possible();
    assert_int_equal(fake.n_sent, 1 + TRANSFER_WINDOW / CHUNK);
    assert_true(raft_sender_is_transferring(fake.sender));
    for (uint64_t received = CHUNK; received < size; received += CHUNK) {
        fake_result(70, received);
        read_while_possible();
    }
    assert_int_equal(fake.n_sent, 1 + 101);
    for (size_t i = 1; i < fake.n_sent; i++) {
        assert_int_equal(fake.sent[i].snapshot.offset, (i - 1) * CHUNK);
        assert_int_equal(fake.sent[i].snapshot.chunk.size, i == 101 ? 7 : CHUNK);
    }
    assert_true(raft_sender_is_transferring(fake.sender));
    fake_result(70, size);
    assert_false(raft_sender_is_transferring(fake.sender));
}

static void a_snapshot_is_not_sent_again_while_it_is_under_way(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    read_while_possible();
    size_t sent = fake.n_sent;
    unsigned reads = fake.n_snapshot_reads;
    for (unsigned i = 0; i < 10; i++) {
        assert_false(fake_admit(90, 0));
        assert_false(fake_admit(70, 0));
        fake_post_snapshot();
        wait_ms(100);
    }
    assert_int_equal(fake.n_sent, sent);
    assert_int_equal(fake.n_snapshot_reads, reads);
    /* Nor while it is installed. */
    fake_result(70, 100 * (uint64_t)CHUNK);
    assert_false(fake_admit(70, 0));
    fake_post_snapshot();
    assert_int_equal(fake.n_sent, sent);
    /* Until the member has it. */
    assert_true(fake_admit(0, 70));
    assert_true(fake_admit(90, 70));
}

static void a_rejection_of_a_newer_term_passes_a_transfer(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    struct message_append_result result = {.term = TERM + 1, .rejected = 70};
    assert_true(raft_sender_admit_rejection(fake.sender, MEMBER, &result, fake.now_ms));
}

static void a_transfer_goes_on_where_the_member_is(void **state) {
    start_transfer(10 * (uint64_t)CHUNK, 6 * (uint64_t)CHUNK);
    read_while_possible();
    assert_int_equal(fake.n_sent, 5);
    assert_int_equal(fake.sent[1].snapshot.offset, 6 * CHUNK);
    assert_int_equal(fake.sent[4].snapshot.offset, 9 * CHUNK);
}

static void a_member_that_has_all_of_it_gets_nothing(void **state) {
    start_transfer(10 * (uint64_t)CHUNK, 10 * (uint64_t)CHUNK);
    assert_int_equal(fake.n_sent, 1);
    assert_false(fake.is_reading_snapshot);
    assert_false(raft_sender_is_transferring(fake.sender));
}

static void after_a_lost_link_the_member_is_asked_where_to_go_on(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    read_while_possible();
    fake_result(70, 3 * (uint64_t)CHUNK);
    fake.is_up = false;
    fake_end_snapshot_read();
    raft_sender_link_lost(fake.sender, MEMBER);
    wait_ms(5000);
    size_t sent = fake.n_sent;
    fake.is_up = true;
    pump();
    assert_int_equal(fake.n_sent, sent + 1);
    assert_int_equal(last_sent()->snapshot.chunk.size, 0);
    fake_result(70, 5 * (uint64_t)CHUNK);
    read_while_possible();
    assert_int_equal(fake.sent[sent + 1].snapshot.offset, 5 * CHUNK);
}

static void a_silent_member_is_probed_and_then_given_up(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    read_while_possible();
    fake_result(70, (uint64_t)CHUNK);
    read_while_possible();
    size_t sent = fake.n_sent;
    wait_ms(TRANSFER_PROBE_MS - 1);
    assert_int_equal(fake.n_sent, sent);
    wait_ms(1);
    assert_int_equal(fake.n_sent, sent + 1);
    assert_int_equal(last_sent()->snapshot.chunk.size, 0);
    /* The answer says that chunks were lost. */
    fake_result(70, (uint64_t)CHUNK);
    read_while_possible();
    assert_int_equal(fake.sent[sent + 1].snapshot.offset, CHUNK);
    for (unsigned ms = TRANSFER_PROBE_MS; ms < TRANSFER_GIVE_UP_MS; ms += 1000) {
        assert_true(raft_sender_is_transferring(fake.sender));
        wait_ms(1000);
    }
    assert_false(raft_sender_is_transferring(fake.sender));
    assert_true(fake_admit(70, 0));
    fake_post_snapshot();
    assert_true(raft_sender_is_transferring(fake.sender));
}

static void a_late_answer_does_not_call_chunks_back(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    read_while_possible();
    wait_ms(TRANSFER_PROBE_MS);
    size_t sent = fake.n_sent;
    fake_result(70, (uint64_t)CHUNK);
    read_while_possible();
    assert_int_equal(fake.n_sent, sent + 1);
    assert_int_equal(last_sent()->snapshot.offset, TRANSFER_WINDOW);
}

static void a_slow_link_holds_back_a_transfer(void **state) {
    fake.room = 3 * (CHUNK + 200);
    start_transfer(100 * (uint64_t)CHUNK, 0);
    read_while_possible();
    assert_int_equal(fake.n_sent, 4);
    for (unsigned i = 0; i < 2 * TRANSFER_GIVE_UP_MS / 1000; i++) {
        wait_ms(1000);
    }
    assert_int_equal(fake.n_sent, 4);
    assert_true(raft_sender_is_transferring(fake.sender));
    fake.room = CHUNK + 200;
    pump();
    read_while_possible();
    assert_int_equal(last_sent()->snapshot.offset, 3 * CHUNK);
}

static void what_a_member_in_contact_lacks_is_needed(void **state) {
    assert_true(raft_sender_needed_from(fake.sender) == UINT64_MAX);
    fake_append(90, 10, 3);
    start_transfer(3 * (uint64_t)CHUNK, 0);
    assert_int_equal(raft_sender_needed_from(fake.sender), 70);
    read_while_possible();
    fake_result(70, 3 * (uint64_t)CHUNK);
    assert_int_equal(raft_sender_needed_from(fake.sender), 70);
    /* Installed: what follows is on its way, until the member has it. */
    assert_true(fake_admit(0, 70));
    fake_post_entries(70, 20);
    assert_int_equal(raft_sender_needed_from(fake.sender), 70);
    assert_true(fake_admit(0, 90));
    assert_int_equal(raft_sender_needed_from(fake.sender), 90);
    /* For a member that is away nothing is kept, though raft goes on trying. */
    raft_sender_link_lost(fake.sender, MEMBER);
    fake.room = 0;
    fake_post_entries(80, 10);
    assert_true(raft_sender_needed_from(fake.sender) == UINT64_MAX);
}

static void a_snapshot_that_is_gone_ends_the_transfer(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    fake_end_snapshot_read();
    fake.is_snapshot_gone = true;
    fake_end_snapshot_read();
    assert_false(raft_sender_is_transferring(fake.sender));
    assert_true(fake_admit(70, 0));
    /* Also at its beginning. */
    fake_post_snapshot();
    fake_end_snapshot_read();
    assert_false(raft_sender_is_transferring(fake.sender));
}

static void impossible_results_change_nothing(void **state) {
    start_transfer(100 * (uint64_t)CHUNK + 1, 0);
    read_while_possible();
    size_t sent = fake.n_sent;
    const uint64_t impossible[] = {100 * (uint64_t)CHUNK + 2, 101 * (uint64_t)CHUNK,
                                   (uint64_t)CHUNK + 1, ((uint64_t)1 << 62) - 1};
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        fake_result(70, impossible[i]);
    }
    fake_result(71, 8 * (uint64_t)CHUNK);
    fake_result(69, 100 * (uint64_t)CHUNK + 1);
    assert_int_equal(fake.n_sent, sent);
    assert_false(fake.is_reading_snapshot);
    assert_true(raft_sender_is_transferring(fake.sender));
    struct message_snapshot_result result = {.term = TERM, .index = 70, .received = CHUNK};
    raft_sender_on_result(fake.sender, MEMBER + 1, &result, fake.now_ms);
    assert_false(fake.is_reading_snapshot);
}

static void a_result_without_a_transfer_changes_nothing(void **state) {
    fake_result(70, 0);
    fake_make_snapshot(70, 1000);
    fake_post_snapshot();
    fake_result(70, 1000);
    assert_int_equal(fake.n_sent, 0);
    assert_true(raft_sender_is_transferring(fake.sender));
    fake_end_snapshot_read();
    assert_int_equal(fake.n_sent, 1);
}

static void a_member_that_lost_what_it_had_is_probed(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 10 * (uint64_t)CHUNK);
    read_while_possible();
    size_t sent = fake.n_sent;
    fake_result(70, 0);
    assert_int_equal(fake.n_sent, sent + 1);
    assert_int_equal(last_sent()->snapshot.chunk.size, 0);
    fake_result(70, 0);
    read_while_possible();
    assert_int_equal(fake.sent[sent + 1].snapshot.offset, 0);
    assert_int_equal(fake.sent[sent + 1].snapshot.chunk.size, CHUNK);
}

static void another_snapshot_waits_for_one_that_makes_progress(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    read_while_possible();
    struct snapshot_meta newer = fake.meta;
    newer.index = 90;
    struct raft_message_view message = {.kind = MESSAGE_SNAPSHOT,
                                        .snapshot = {.term = TERM, .meta = &newer}};
    raft_sender_post(fake.sender, MEMBER, &message, fake.now_ms);
    fake_result(70, (uint64_t)CHUNK);
    read_while_possible();
    assert_int_equal(last_sent()->snapshot.offset, TRANSFER_WINDOW);
    fake.now_ms += TRANSFER_PROBE_MS;
    raft_sender_post(fake.sender, MEMBER, &message, fake.now_ms);
    fake.meta.index = 90;
    fake_end_snapshot_read();
    assert_int_equal(last_sent()->snapshot.chunk.size, 0);
    fake_result(70, 2 * (uint64_t)CHUNK);
    assert_false(fake.is_reading_snapshot);
    fake_result(90, 0);
    assert_true(fake.is_reading_snapshot);
}

static void a_clock_read_earlier_in_the_iteration_ends_nothing(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    read_while_possible();
    fake_append(10, 100, 4);
    fake_post_entries(0, 10);
    size_t sent = fake.n_sent;
    fake.now_ms -= 3;
    pump();
    assert_int_equal(fake.n_sent, sent);
    assert_true(raft_sender_is_transferring(fake.sender));
    assert_false(fake_admit(5, 0));
    fake_post_entries(0, 10);
    assert_int_equal(last_sent()->append.n_entries, 0);
}

static void a_chunk_for_a_stopped_transfer_is_dropped(void **state) {
    start_transfer(100 * (uint64_t)CHUNK, 0);
    raft_sender_stop_all(fake.sender);
    size_t sent = fake.n_sent;
    fake_post_snapshot();
    fake_end_snapshot_read();
    assert_int_equal(fake.n_sent, sent);
    /* The next read is that of the new transfer's metadata. */
    fake_end_snapshot_read();
    assert_int_equal(fake.n_sent, sent + 1);
    assert_int_equal(last_sent()->snapshot.chunk.size, 0);
}

/* --- With a leader that behaves as libraft does, and a member that has other entries. --- */

enum { OTHERS_MAX = 30 };

static struct {
    uint64_t random_state;
    /* The leader. */
    uint64_t next;
    uint64_t match;
    bool is_pipeline;
    uint64_t posted_ms;
    /* The member. */
    uint64_t terms[LOG_MAX + 1];
    uint64_t last;
    size_t n_received;
    /* Its answers on their way. */
    struct message_append_result results[SENT_MAX];
    size_t n_results;
    size_t n_arrived;
    uint64_t n_bytes_sent;
} model;

static unsigned random_below(unsigned n) {
    model.random_state = model.random_state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(model.random_state >> 33) % n;
}

static void leader_replicate(void) {
    fake_post_entries(model.next - 1, (uint32_t)(fake.last_index - model.next + 1));
    model.posted_ms = fake.now_ms;
    if (model.is_pipeline) {
        model.next = fake.last_index + 1;
    }
}

static void leader_heartbeat(void) {
    if (model.next <= fake.last_index) {
        leader_replicate();
        return;
    }
    struct raft_message_view message = {.kind = MESSAGE_APPEND,
                                        .append = {.term = TERM,
                                                   .prev_index = fake.last_index,
                                                   .prev_term = fake_term_of(fake.last_index)}};
    raft_sender_post(fake.sender, MEMBER, &message, fake.now_ms);
    model.posted_ms = fake.now_ms;
}

static void leader_rejected(const struct message_append_result *result) {
    if (result->rejected <= model.match) {
        return;
    }
    if (model.is_pipeline) {
        model.is_pipeline = false;
        model.next = model.match + 1;
        leader_replicate();
    } else if (result->rejected == model.next - 1) {
        uint64_t next =
            result->rejected <= result->last_index ? result->rejected : result->last_index + 1;
        model.next = next > model.match ? next : model.match + 1;
        leader_replicate();
    }
}

static void leader_receive(const struct message_append_result *result) {
    if (!raft_sender_admit_rejection(fake.sender, MEMBER, result, fake.now_ms)) {
        return;
    }
    if (result->rejected > 0) {
        leader_rejected(result);
    } else if (result->last_index > model.match) {
        model.match = result->last_index;
        model.next = model.next > model.match ? model.next : model.match + 1;
        model.is_pipeline = true;
    }
}

static void member_receive(const struct sent *sent) {
    const struct message_append *append = &sent->append;
    struct message_append_result *result = &model.results[model.n_results++];
    assert_true(model.n_results < SENT_MAX);
    *result = (struct message_append_result){.term = TERM, .last_index = model.last};
    model.n_bytes_sent += append->n_entries > 0 ? sent->bytes : 0;
    if (append->prev_index > model.last ||
        (append->prev_index > 0 && model.terms[append->prev_index] != append->prev_term)) {
        result->rejected = append->prev_index;
        return;
    }
    for (uint32_t i = 1; i <= append->n_entries; i++) {
        uint64_t index = append->prev_index + i;
        if (index > model.last || model.terms[index] != fake_term_of(index)) {
            model.terms[index] = fake_term_of(index);
            model.last = index;
        }
    }
    result->last_index = append->prev_index + append->n_entries;
}

static void model_set_up(uint64_t seed) {
    memset(&model, 0, sizeof model);
    model.random_state = seed;
    fake_append(1 + random_below(1000), 500, 3);
    fake_append(1 + random_below(1000), 1 + random_below(5000), 4);
    /* It has some of it, and something else behind. */
    model.last = random_below((unsigned)fake.last_index + 1);
    unsigned n_others = random_below(OTHERS_MAX);
    uint64_t same = model.last > n_others ? model.last - n_others : 0;
    for (uint64_t i = 1; i <= model.last; i++) {
        model.terms[i] = i <= same ? fake_term_of(i) : 2;
    }
    fake.memory_first = 1 + random_below((unsigned)fake.last_index);
    model.next = fake.last_index + 1;
    fake.room = 2 * MESSAGE_APPEND_BYTES_MAX;
}

static void lose_link(void) {
    model.n_received = fake.n_sent;
    model.n_arrived = model.n_results;
    fake.room = 2 * MESSAGE_APPEND_BYTES_MAX;
    raft_sender_link_lost(fake.sender, MEMBER);
}

static void model_step(unsigned loss_per_thousand) {
    if (random_below(1000) < loss_per_thousand) {
        lose_link();
    }
    switch (random_below(6)) {
    case 0:
        if (fake.is_reading_log) {
            fake_end_log_read();
        }
        break;
    case 1:
    case 2:
        if (model.n_received < fake.n_sent) {
            fake.room += fake.sent[model.n_received].append.n_entries > 0
                             ? fake.sent[model.n_received].bytes
                             : 0;
            member_receive(&fake.sent[model.n_received++]);
        }
        break;
    case 3:
        if (model.n_arrived < model.n_results) {
            leader_receive(&model.results[model.n_arrived++]);
        }
        break;
    case 4:
        if (fake.last_index < 3000) {
            fake_append(1, 300, TERM);
            if (model.is_pipeline) {
                leader_replicate();
            }
        }
        break;
    default:
        fake.now_ms += random_below(5);
        raft_sender_pump(fake.sender, fake.now_ms);
        if (fake.now_ms - model.posted_ms >= 100) {
            leader_heartbeat();
        }
        break;
    }
}

/* With what each message adds, were there one for each entry. */
static uint64_t log_bytes(void) {
    uint64_t bytes = 0;
    for (uint64_t i = 1; i <= fake.last_index; i++) {
        bytes += fake.items[i]->size + 64;
    }
    return bytes;
}

static bool model_is_done(void) {
    return model.match == fake.last_index && fake.last_index == 3000;
}

static void a_member_catches_up_whatever_is_lost(void **state) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        if (seed > 0) {
            tear_down(NULL);
            set_up(NULL);
        }
        model_set_up(seed);
        unsigned loss_per_thousand = seed % 3 == 0 ? 0 : (unsigned)seed / 6;
        for (unsigned step = 0; step < 400000 && !model_is_done(); step++) {
            model_step(loss_per_thousand);
        }
        assert_true(model_is_done());
        assert_int_equal(model.last, fake.last_index);
        for (uint64_t i = 1; i <= model.last; i++) {
            assert_int_equal(model.terms[i], fake_term_of(i));
        }
        if (loss_per_thousand == 0) {
            /* Each entry once, but for the first messages whose prev was rejected. */
            assert_true(model.n_bytes_sent <=
                        log_bytes() + (OTHERS_MAX + 2) * (uint64_t)STREAM_FIRST_BYTES);
        }
    }
}

#define SENDER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        SENDER_TEST(small_messages_leave_at_once),
        SENDER_TEST(entries_are_filled_in_and_sent),
        SENDER_TEST(many_entries_are_cut_into_messages_that_continue_each_other),
        SENDER_TEST(an_entry_larger_than_any_message_goes_alone),
        SENDER_TEST(a_slow_link_gets_no_more_than_it_has_room_for),
        SENDER_TEST(a_full_link_still_gets_a_heartbeat),
        SENDER_TEST(a_repeat_of_what_is_on_its_way_is_a_heartbeat),
        SENDER_TEST(consecutive_posts_extend_the_stream),
        SENDER_TEST(a_gap_starts_the_stream_anew),
        SENDER_TEST(the_newest_commit_goes_with_the_stream),
        SENDER_TEST(a_rejected_start_moves_the_stream_back),
        SENDER_TEST(nothing_follows_before_the_first_message_is_accepted),
        SENDER_TEST(rejections_of_what_follows_a_rejected_start_are_dropped),
        SENDER_TEST(a_rejection_is_admitted_when_nothing_is_on_its_way),
        SENDER_TEST(a_rejection_of_another_term_is_admitted),
        SENDER_TEST(what_is_not_acknowledged_for_long_is_sent_again),
        SENDER_TEST(an_acknowledgement_is_progress),
        SENDER_TEST(what_waits_in_a_full_link_is_not_sent_again),
        SENDER_TEST(a_member_that_does_not_acknowledge_gets_one_window),
        SENDER_TEST(acknowledgements_of_what_was_not_sent_change_nothing),
        SENDER_TEST(a_lost_link_ends_the_stream),
        SENDER_TEST(what_is_posted_while_the_link_is_down_leaves_when_it_is_back),
        SENDER_TEST(a_new_term_starts_the_stream_anew),
        SENDER_TEST(entries_that_left_memory_are_read_from_disk),
        SENDER_TEST(a_slow_link_holds_back_the_disk),
        SENDER_TEST(entries_that_were_trimmed_end_the_stream),
        SENDER_TEST(a_read_for_a_stream_that_moved_back_is_dropped),
        SENDER_TEST(a_read_for_an_ended_stream_is_dropped),
        SENDER_TEST(a_snapshot_is_sent_in_chunks_a_window_ahead),
        SENDER_TEST(a_snapshot_is_not_sent_again_while_it_is_under_way),
        SENDER_TEST(a_rejection_of_a_newer_term_passes_a_transfer),
        SENDER_TEST(a_transfer_goes_on_where_the_member_is),
        SENDER_TEST(a_member_that_has_all_of_it_gets_nothing),
        SENDER_TEST(after_a_lost_link_the_member_is_asked_where_to_go_on),
        SENDER_TEST(a_silent_member_is_probed_and_then_given_up),
        SENDER_TEST(a_late_answer_does_not_call_chunks_back),
        SENDER_TEST(a_slow_link_holds_back_a_transfer),
        SENDER_TEST(what_a_member_in_contact_lacks_is_needed),
        SENDER_TEST(a_snapshot_that_is_gone_ends_the_transfer),
        SENDER_TEST(impossible_results_change_nothing),
        SENDER_TEST(a_result_without_a_transfer_changes_nothing),
        SENDER_TEST(a_member_that_lost_what_it_had_is_probed),
        SENDER_TEST(another_snapshot_waits_for_one_that_makes_progress),
        SENDER_TEST(a_clock_read_earlier_in_the_iteration_ends_nothing),
        SENDER_TEST(a_chunk_for_a_stopped_transfer_is_dropped),
        SENDER_TEST(a_member_catches_up_whatever_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
