#include "raft/snapshot_receiver.h"

#include "raft/raft_codec.h"
#include "raft/raft_config.h"
#include "raft_sender_fixture.h"

enum { LEADER = 1, CHUNK = SNAPSHOT_CHUNK_SIZE, QUEUE_MAX = 64, RESULTS_MAX = 64 };

static const uint64_t SIZE_LIMIT = (uint64_t)64 << 20;

enum file_call { FILE_BEGIN, FILE_APPEND, FILE_FINISH, FILE_ABORT };

/* The writer of the file, whose calls end when the test says so, and what the receiver said. */
static struct {
    struct snapshot_receiver *receiver;
    uint64_t now_ms;
    enum file_call queue[QUEUE_MAX];
    struct bytes queued[QUEUE_MAX];
    size_t n_queued;
    bool is_open;
    bool is_finished;
    struct snapshot_meta meta;
    struct buffer file;
    unsigned n_begun;
    unsigned n_aborted;
    struct message_snapshot_result results[RESULTS_MAX];
    uint64_t result_to[RESULTS_MAX];
    size_t n_results;
    bool is_unwanted;
    bool is_refused; /* by the engine, when it is whole */
    unsigned n_complete;
    uint64_t complete_from;
    uint64_t complete_term;
    size_t n_bytes_queued;
} node;

static void queue_call(enum file_call call, uint8_t *bytes, size_t size) {
    assert_true(node.n_queued < QUEUE_MAX);
    node.queued[node.n_queued] = bytes_of(bytes, size);
    node.queue[node.n_queued++] = call;
    node.n_bytes_queued += size;
    assert_true(node.n_bytes_queued <= (size_t)RECEIVER_CHUNKS_MAX * CHUNK);
}

static void on_begin(void *data, const struct snapshot_meta *meta) {
    queue_call(FILE_BEGIN, NULL, 0);
    node.meta = *meta;
}

static void on_append(void *data, uint8_t *bytes, size_t size) {
    queue_call(FILE_APPEND, bytes, size);
}

static void on_finish(void *data) {
    queue_call(FILE_FINISH, NULL, 0);
}

static void on_abort(void *data) {
    queue_call(FILE_ABORT, NULL, 0);
}

static void on_send(void *data, uint64_t to_id, const struct message_snapshot_result *result) {
    assert_true(node.n_results < RESULTS_MAX);
    node.result_to[node.n_results] = to_id;
    node.results[node.n_results++] = *result;
}

static bool on_is_wanted(void *data, const struct snapshot_meta *meta) {
    return !node.is_unwanted;
}

static bool on_complete(void *data, uint64_t from_id, uint64_t term,
                        const struct snapshot_meta *meta) {
    assert_true(node.is_finished);
    assert_memory_equal(meta, &node.meta, sizeof *meta);
    node.n_complete++;
    node.complete_from = from_id;
    node.complete_term = term;
    return !node.is_refused;
}

static const struct snapshot_receiver_calls receiver_calls = {.begin = on_begin,
                                                              .append = on_append,
                                                              .finish = on_finish,
                                                              .abort = on_abort,
                                                              .send = on_send,
                                                              .is_wanted = on_is_wanted,
                                                              .complete = on_complete};

static int set_up(void **state) {
    fake_set_up();
    memset(&node, 0, sizeof node);
    node.now_ms = 500000;
    buffer_init(&node.file);
    node.receiver = snapshot_receiver_create(&receiver_calls, NULL, SIZE_LIMIT);
    return 0;
}

static int tear_down(void **state) {
    for (size_t i = 0; i < node.n_queued; i++) {
        free((void *)node.queued[i].data);
    }
    snapshot_receiver_destroy(node.receiver);
    buffer_clear(&node.file);
    fake_tear_down();
    return 0;
}

/* --- The file. --- */

static void carry_out(enum file_call call, struct bytes bytes) {
    switch (call) {
    case FILE_BEGIN:
        assert_false(node.is_open);
        node.is_open = true;
        node.is_finished = false;
        node.file.size = 0;
        node.n_begun++;
        break;
    case FILE_APPEND:
        assert_true(node.is_open);
        assert_false(node.is_finished);
        buffer_append(&node.file, bytes.data, bytes.size);
        break;
    case FILE_FINISH:
        assert_true(node.is_open);
        node.is_finished = true;
        break;
    case FILE_ABORT:
        assert_true(node.is_open);
        node.is_open = false;
        node.n_aborted++;
        break;
    }
}

static void end_call(enum status status) {
    assert_true(node.n_queued > 0);
    enum file_call call = node.queue[0];
    struct bytes bytes = node.queued[0];
    node.n_queued--;
    node.n_bytes_queued -= bytes.size;
    memmove(node.queue, node.queue + 1, node.n_queued * sizeof *node.queue);
    memmove(node.queued, node.queued + 1, node.n_queued * sizeof *node.queued);
    carry_out(call, bytes);
    free((void *)bytes.data);
    snapshot_receiver_written(node.receiver, status);
    assert_int_equal(snapshot_receiver_count_calls(node.receiver), node.n_queued);
}

static void end_all_calls(void) {
    while (node.n_queued > 0) {
        end_call(STATUS_OK);
    }
}

/* --- Messages. --- */

static enum status receive_chunk(uint64_t from_id, uint64_t term, uint64_t offset, size_t size) {
    struct message_snapshot message = {.term = term,
                                       .meta = &fake.meta,
                                       .offset = offset,
                                       .chunk = bytes_of(fake.payload + offset, size)};
    return snapshot_receiver_receive(node.receiver, from_id, &message, node.now_ms);
}

static void probe(void) {
    assert_int_equal(receive_chunk(LEADER, TERM, 0, 0), STATUS_OK);
}

/* The n-th whole chunk. */
static void chunk(uint64_t n) {
    uint64_t left = fake.meta.size - n * CHUNK;
    assert_int_equal(
        receive_chunk(LEADER, TERM, n * CHUNK, left < CHUNK ? (size_t)left : (size_t)CHUNK),
        STATUS_OK);
}

static void assert_answer(uint64_t index, uint64_t received) {
    assert_true(node.n_results > 0);
    assert_int_equal(node.results[node.n_results - 1].index, index);
    assert_int_equal(node.results[node.n_results - 1].received, received);
}

static void assert_file_is_whole(void) {
    assert_true(bytes_equal(bytes_of(node.file.data, node.file.size),
                            bytes_of(fake.payload, fake.meta.size)));
}

/* --- Tests. --- */

static void a_snapshot_is_put_together_and_completed(void **state) {
    fake_make_snapshot(70, 3 * CHUNK + 5);
    probe();
    assert_answer(70, 0);
    for (uint64_t i = 0; i < 4; i++) {
        chunk(i);
    }
    assert_int_equal(node.n_results, 1);
    end_call(STATUS_OK);
    end_call(STATUS_OK);
    assert_answer(70, CHUNK);
    end_all_calls();
    assert_answer(70, 3 * CHUNK + 5);
    assert_int_equal(node.n_results, 5);
    assert_int_equal(node.n_complete, 1);
    assert_int_equal(node.complete_from, LEADER);
    assert_int_equal(node.complete_term, TERM);
    assert_file_is_whole();
    assert_true(snapshot_receiver_is_installing(node.receiver));
}

static void the_first_chunk_needs_no_probe(void **state) {
    fake_make_snapshot(70, 100);
    chunk(0);
    end_all_calls();
    assert_int_equal(node.n_complete, 1);
    assert_file_is_whole();
}

static void completion_waits_for_the_sync(void **state) {
    fake_make_snapshot(70, 100);
    chunk(0);
    end_call(STATUS_OK);
    end_call(STATUS_OK);
    assert_answer(70, 100);
    assert_int_equal(node.n_complete, 0);
    end_call(STATUS_OK);
    assert_int_equal(node.n_complete, 1);
}

static void while_installing_everything_is_ignored(void **state) {
    fake_make_snapshot(70, 100);
    chunk(0);
    end_all_calls();
    size_t results = node.n_results;
    probe();
    fake.meta.index = 90;
    receive_chunk(LEADER, TERM + 1, 0, 100);
    snapshot_receiver_cancel(node.receiver);
    assert_int_equal(node.n_results, results);
    assert_int_equal(node.n_queued, 0);
    snapshot_receiver_installed(node.receiver);
    node.is_open = false; /* It is the engine's file now. */
    receive_chunk(LEADER, TERM + 1, 0, 100);
    end_all_calls();
    assert_int_equal(node.n_complete, 2);
}

static void a_snapshot_that_the_engine_refuses_is_removed(void **state) {
    fake_make_snapshot(70, 100);
    node.is_refused = true;
    chunk(0);
    end_all_calls();
    assert_int_equal(node.n_complete, 1);
    assert_int_equal(node.n_aborted, 1);
    assert_false(snapshot_receiver_is_installing(node.receiver));
}

static void a_snapshot_that_is_not_wanted_counts_as_received(void **state) {
    fake_make_snapshot(70, 3 * CHUNK);
    node.is_unwanted = true;
    probe();
    assert_answer(70, 3 * CHUNK);
    assert_int_equal(node.n_queued, 0);
}

static void a_probe_tells_how_far_it_is(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    chunk(0);
    chunk(1);
    end_all_calls();
    node.now_ms += 60000;
    size_t results = node.n_results;
    probe();
    assert_int_equal(node.n_results, results + 1);
    assert_answer(70, 2 * CHUNK);
    /* The leader has been elected again meanwhile. */
    receive_chunk(LEADER, TERM + 2, 2 * CHUNK, CHUNK);
    end_all_calls();
    assert_answer(70, 3 * CHUNK);
    assert_int_equal(node.results[node.n_results - 1].term, TERM + 2);
    assert_int_equal(node.n_begun, 1);
}

static void while_a_chunk_is_written_its_end_answers_the_probe(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    chunk(0);
    size_t results = node.n_results;
    probe();
    assert_int_equal(node.n_results, results);
    end_all_calls();
    assert_answer(70, CHUNK);
}

static void chunks_out_of_order_are_answered_with_how_far_it_is(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    chunk(0);
    end_all_calls();
    for (uint64_t i = 0; i < 10; i++) {
        if (i == 1) {
            continue;
        }
        size_t results = node.n_results;
        chunk(i);
        assert_int_equal(node.n_results, results + 1);
        assert_answer(70, CHUNK);
    }
    assert_int_equal(node.n_queued, 0);
}

static void chunks_that_are_not_whole_are_not_taken(void **state) {
    fake_make_snapshot(70, 2 * CHUNK);
    probe();
    end_all_calls();
    receive_chunk(LEADER, TERM, 0, CHUNK - 1);
    receive_chunk(LEADER, TERM, 0, 1);
    chunk(0);
    end_all_calls();
    receive_chunk(LEADER, TERM, CHUNK + 1, CHUNK - 1);
    receive_chunk(LEADER, TERM, CHUNK, CHUNK - 1);
    assert_int_equal(node.n_queued, 0);
    assert_answer(70, CHUNK);
    chunk(1);
    end_all_calls();
    assert_file_is_whole();
}

static void a_chunk_of_an_unknown_transfer_asks_for_its_beginning(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    chunk(4);
    assert_answer(70, 0);
    assert_int_equal(node.n_queued, 0);
}

static void a_newer_snapshot_replaces_an_older_one(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    chunk(0);
    chunk(1);
    fake_make_snapshot(90, 2 * CHUNK);
    size_t results = node.n_results;
    probe();
    assert_int_equal(node.n_results, results + 1);
    assert_answer(90, 0);
    chunk(0);
    chunk(1);
    end_all_calls();
    /* Writes of the old one that ended late did not count. */
    assert_answer(90, 2 * CHUNK);
    assert_int_equal(node.n_results, results + 3);
    assert_int_equal(node.n_aborted, 1);
    assert_int_equal(node.n_complete, 1);
    assert_file_is_whole();
}

static void only_a_first_chunk_replaces(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    end_all_calls();
    fake.meta.index = 90;
    chunk(4);
    assert_answer(90, 0);
    assert_int_equal(node.n_queued, 0);
}

static void an_older_snapshot_replaces_nothing(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    end_all_calls();
    fake.meta.index = 69;
    probe();
    assert_answer(70, 0);
    fake.meta.index = 70;
    fake.meta.size = 5 * CHUNK;
    probe();
    chunk(0);
    assert_int_equal(node.n_queued, 0);
    fake.meta.index = 90;
    receive_chunk(LEADER, TERM - 1, 0, 0);
    assert_int_equal(node.n_begun, 1);
    assert_int_equal(node.n_queued, 0);
}

static void the_file_of_another_leader_starts_anew(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    chunk(0);
    end_all_calls();
    receive_chunk(LEADER + 1, TERM + 1, 0, 0);
    assert_answer(70, 0);
    assert_int_equal(node.result_to[node.n_results - 1], LEADER + 1);
    end_all_calls();
    assert_int_equal(node.n_begun, 2);
    assert_int_equal(node.n_aborted, 1);
}

static void a_silent_transfer_may_be_replaced_by_any_other(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    end_all_calls();
    fake.meta.index = 69;
    node.now_ms -= 1;
    receive_chunk(LEADER + 1, TERM, 0, 0);
    node.now_ms += RECEIVER_SILENT_MS;
    receive_chunk(LEADER + 1, TERM, 0, 0);
    assert_int_equal(node.n_queued, 0);
    node.now_ms += 1;
    receive_chunk(LEADER + 1, TERM, 0, 0);
    end_all_calls();
    assert_int_equal(node.n_begun, 2);
}

static void a_transfer_that_is_abandoned_gives_back_its_room(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    end_all_calls();
    snapshot_receiver_poll(node.receiver, node.now_ms - 1);
    snapshot_receiver_poll(node.receiver, node.now_ms + RECEIVER_ABANDON_MS - 1);
    assert_int_equal(node.n_queued, 0);
    snapshot_receiver_poll(node.receiver, node.now_ms + RECEIVER_ABANDON_MS);
    end_all_calls();
    assert_false(node.is_open);
}

static void a_canceled_transfer_is_removed_also_while_it_is_synced(void **state) {
    fake_make_snapshot(70, 100);
    snapshot_receiver_cancel(node.receiver);
    assert_int_equal(node.n_queued, 0);
    chunk(0);
    end_call(STATUS_OK);
    snapshot_receiver_cancel(node.receiver);
    end_all_calls();
    assert_int_equal(node.n_complete, 0);
    assert_int_equal(node.n_aborted, 1);
    chunk(0);
    end_all_calls();
    assert_int_equal(node.n_complete, 1);
}

static void a_snapshot_over_the_limit_is_refused(void **state) {
    fake_make_snapshot(70, 100);
    fake.meta.size = SIZE_LIMIT + 1;
    assert_int_equal(receive_chunk(LEADER, TERM, 0, 100), STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(node.n_queued, 0);
    fake.meta.size = SIZE_LIMIT;
    probe();
    assert_int_equal(node.n_queued, 1);
}

static void a_disk_that_is_behind_bounds_what_is_kept(void **state) {
    fake_make_snapshot(70, 40 * CHUNK);
    probe();
    for (uint64_t i = 0; i < RECEIVER_CHUNKS_MAX; i++) {
        chunk(i);
    }
    uint64_t next = RECEIVER_CHUNKS_MAX * (uint64_t)CHUNK;
    assert_int_equal(receive_chunk(LEADER, TERM, next, CHUNK), STATUS_TOO_MANY_REQUESTS);
    end_all_calls();
    assert_answer(70, next);
    for (uint64_t i = RECEIVER_CHUNKS_MAX; i < 40; i++) {
        chunk(i);
        end_all_calls();
    }
    assert_file_is_whole();
}

static void snapshots_that_replace_each_other_are_bounded_too(void **state) {
    for (unsigned n_chunks = 0; n_chunks < 8; n_chunks++) {
        fake_make_snapshot(70, 10 * CHUNK);
        enum status status = STATUS_OK;
        for (unsigned n = 0; n < 1000 && status == STATUS_OK; n++) {
            fake.meta.index++;
            status = receive_chunk(LEADER, TERM, 0, n < n_chunks ? CHUNK : 0);
        }
        assert_int_equal(status, STATUS_TOO_MANY_REQUESTS);
        /* There is always room to give up. */
        snapshot_receiver_cancel(node.receiver);
        end_all_calls();
        assert_false(node.is_open);
        node.n_results = 0;
    }
}

static void after_a_failure_nothing_more_is_done(void **state) {
    fake_make_snapshot(70, 10 * CHUNK);
    probe();
    chunk(0);
    chunk(1);
    end_call(STATUS_OK);
    size_t results = node.n_results;
    end_call(STATUS_IO);
    end_call(STATUS_IO);
    chunk(2);
    probe();
    snapshot_receiver_cancel(node.receiver);
    assert_int_equal(node.n_results, results);
    assert_int_equal(node.n_queued, 0);
}

static void bytes_that_are_no_snapshot_are_thrown_away(void **state) {
    static const enum status verdicts[] = {STATUS_CORRUPT, STATUS_UNSUPPORTED};
    for (size_t i = 0; i < 2; i++) {
        fake_make_snapshot(70, 100);
        chunk(0);
        end_call(STATUS_OK);
        end_call(STATUS_OK);
        end_call(verdicts[i]);
        end_all_calls();
        assert_int_equal(node.n_complete, 0);
        assert_int_equal(node.n_aborted, i + 1);
        assert_false(node.is_open);
    }
    /* Another one is welcome. */
    chunk(0);
    end_all_calls();
    assert_int_equal(node.n_complete, 1);
    assert_file_is_whole();
}

/* --- With a sender, over links that are lost. --- */

static uint64_t random_state;

static unsigned random_below(unsigned n) {
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(random_state >> 33) % n;
}

static void deliver(size_t place) {
    struct snapshot_meta meta = fake.meta;
    struct raft_message_view message = {.kind = MESSAGE_SNAPSHOT,
                                        .snapshot = fake.sent[place].snapshot};
    message.snapshot.meta = &meta;
    struct buffer bytes;
    buffer_init(&bytes);
    raft_codec_encode(&bytes, &message);
    struct raft_message_view decoded;
    assert_int_equal(raft_codec_decode(bytes_of(bytes.data, bytes.size), &decoded), STATUS_OK);
    (void)snapshot_receiver_receive(node.receiver, LEADER, &decoded.snapshot, fake.now_ms);
    raft_codec_clear(&decoded);
    buffer_clear(&bytes);
}

static void set_configuration(void) {
    struct raft_config config = {0};
    assert_true(raft_config_add(&config, LEADER, "127.0.0.1:1", CONFIG_VOTER));
    struct buffer bytes;
    buffer_init(&bytes);
    raft_config_encode(&bytes, &config);
    memcpy(fake.meta.configuration, bytes.data, bytes.size);
    fake.meta.configuration_size = bytes.size;
    buffer_clear(&bytes);
}

/* Whatever is lost, delayed or late, the snapshot arrives whole, and without a loss no chunk is
 * sent twice. */
static unsigned transfer_over_a_lossy_link(unsigned loss_per_thousand) {
    size_t delivered = 0;
    size_t answered = 0;
    unsigned n_lost = 0;
    fake_post_snapshot();
    for (unsigned step = 0; step < 200000 && node.n_complete == 0; step++) {
        if (random_below(1000) < loss_per_thousand) {
            n_lost++;
            delivered = fake.n_sent;
            raft_sender_link_lost(fake.sender, MEMBER);
        }
        if (answered < node.n_results && random_below(1000) < loss_per_thousand) {
            answered = node.n_results;
        }
        switch (random_below(5)) {
        case 0:
            if (fake.is_reading_snapshot) {
                fake_end_snapshot_read();
            }
            break;
        case 1:
            if (delivered < fake.n_sent) {
                deliver(delivered++);
            }
            break;
        case 2:
            if (node.n_queued > 0) {
                end_call(STATUS_OK);
            }
            break;
        case 3:
            if (answered < node.n_results) {
                raft_sender_on_result(fake.sender, MEMBER, &node.results[answered++], fake.now_ms);
            }
            break;
        default:
            fake.now_ms += random_below(20);
            raft_sender_pump(fake.sender, fake.now_ms);
            break;
        }
        if (answered == node.n_results) {
            answered = 0;
            node.n_results = 0;
        }
        fake_post_snapshot();
    }
    return n_lost;
}

static void a_snapshot_arrives_whole_over_links_that_are_lost(void **state) {
    unsigned n_lost = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        if (seed > 0) {
            tear_down(NULL);
            set_up(NULL);
        }
        random_state = seed;
        fake_make_snapshot(70, 40 * CHUNK + random_below(CHUNK));
        set_configuration();
        unsigned lost = transfer_over_a_lossy_link(seed % 4 == 0 ? 0 : 5 + (unsigned)seed);
        assert_int_equal(node.n_complete, 1);
        assert_file_is_whole();
        if (seed % 4 == 0) {
            assert_int_equal(lost, 0);
            assert_int_equal(fake.n_sent, 1 + 41);
        }
        n_lost += lost;
    }
    assert_true(n_lost > 100);
}

#define RECEIVER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        RECEIVER_TEST(a_snapshot_is_put_together_and_completed),
        RECEIVER_TEST(the_first_chunk_needs_no_probe),
        RECEIVER_TEST(completion_waits_for_the_sync),
        RECEIVER_TEST(while_installing_everything_is_ignored),
        RECEIVER_TEST(a_snapshot_that_the_engine_refuses_is_removed),
        RECEIVER_TEST(a_snapshot_that_is_not_wanted_counts_as_received),
        RECEIVER_TEST(a_probe_tells_how_far_it_is),
        RECEIVER_TEST(while_a_chunk_is_written_its_end_answers_the_probe),
        RECEIVER_TEST(chunks_out_of_order_are_answered_with_how_far_it_is),
        RECEIVER_TEST(chunks_that_are_not_whole_are_not_taken),
        RECEIVER_TEST(a_chunk_of_an_unknown_transfer_asks_for_its_beginning),
        RECEIVER_TEST(a_newer_snapshot_replaces_an_older_one),
        RECEIVER_TEST(only_a_first_chunk_replaces),
        RECEIVER_TEST(an_older_snapshot_replaces_nothing),
        RECEIVER_TEST(the_file_of_another_leader_starts_anew),
        RECEIVER_TEST(a_silent_transfer_may_be_replaced_by_any_other),
        RECEIVER_TEST(a_transfer_that_is_abandoned_gives_back_its_room),
        RECEIVER_TEST(a_canceled_transfer_is_removed_also_while_it_is_synced),
        RECEIVER_TEST(a_snapshot_over_the_limit_is_refused),
        RECEIVER_TEST(a_disk_that_is_behind_bounds_what_is_kept),
        RECEIVER_TEST(snapshots_that_replace_each_other_are_bounded_too),
        RECEIVER_TEST(after_a_failure_nothing_more_is_done),
        RECEIVER_TEST(bytes_that_are_no_snapshot_are_thrown_away),
        RECEIVER_TEST(a_snapshot_arrives_whole_over_links_that_are_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
