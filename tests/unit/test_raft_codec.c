#include "raft/raft_codec.h"
#include "raft/raft_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t TOO_LARGE = (uint64_t)1 << 62;

static struct buffer buffer;

static int set_up(void **state) {
    buffer_init(&buffer);
    return 0;
}

static int tear_down(void **state) {
    buffer_clear(&buffer);
    return 0;
}

/* In memory of exactly this size, so that a sanitizer sees every step outside. */
static enum status decode_bytes(const uint8_t *data, size_t size,
                                struct raft_message_view *out_message) {
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    enum status status = raft_codec_decode(bytes_of(copy, size), out_message);
    free(copy);
    return status;
}

static bool is_malformed(void) {
    struct raft_message_view message;
    enum status status = decode_bytes(buffer.data, buffer.size, &message);
    if (status == STATUS_OK) {
        raft_codec_clear(&message);
    }
    return status == STATUS_MALFORMED;
}

static bool encodes_to_malformed(struct raft_message_view message) {
    buffer.size = 0;
    raft_codec_encode(&buffer, &message);
    return is_malformed();
}

static void decode_same(struct raft_message_view message, struct raft_message_view *out_message) {
    buffer.size = 0;
    raft_codec_encode(&buffer, &message);
    assert_int_equal(raft_codec_decode(bytes_of(buffer.data, buffer.size), out_message), STATUS_OK);
    assert_int_equal(out_message->kind, message.kind);
    struct buffer again;
    buffer_init(&again);
    raft_codec_encode(&again, out_message);
    assert_true(bytes_equal(bytes_of(again.data, again.size), bytes_of(buffer.data, buffer.size)));
    buffer_clear(&again);
}

static bool is_same(const struct raft_message_view *a, const struct raft_message_view *b) {
    switch (a->kind) {
    case MESSAGE_APPEND:
        return a->append.term == b->append.term && a->append.prev_index == b->append.prev_index &&
               a->append.prev_term == b->append.prev_term && a->append.commit == b->append.commit &&
               a->append.n_entries == b->append.n_entries;
    case MESSAGE_APPEND_RESULT:
        return a->append_result.term == b->append_result.term &&
               a->append_result.rejected == b->append_result.rejected &&
               a->append_result.last_index == b->append_result.last_index;
    case MESSAGE_VOTE:
        return a->vote.term == b->vote.term && a->vote.last_index == b->vote.last_index &&
               a->vote.last_term == b->vote.last_term &&
               a->vote.disrupt_leader == b->vote.disrupt_leader &&
               a->vote.is_pre_vote == b->vote.is_pre_vote;
    case MESSAGE_VOTE_RESULT:
        return a->vote_result.term == b->vote_result.term &&
               a->vote_result.is_granted == b->vote_result.is_granted &&
               a->vote_result.is_pre_vote == b->vote_result.is_pre_vote;
    case MESSAGE_TIMEOUT_NOW:
        return a->timeout_now.term == b->timeout_now.term &&
               a->timeout_now.last_index == b->timeout_now.last_index &&
               a->timeout_now.last_term == b->timeout_now.last_term;
    case MESSAGE_SNAPSHOT_RESULT:
        return a->snapshot_result.term == b->snapshot_result.term &&
               a->snapshot_result.index == b->snapshot_result.index &&
               a->snapshot_result.received == b->snapshot_result.received;
    default:
        return false;
    }
}

static bool is_round(struct raft_message_view message) {
    struct raft_message_view decoded;
    decode_same(message, &decoded);
    bool result = is_same(&decoded, &message);
    raft_codec_clear(&decoded);
    return result;
}

/* Whatever is cut off, and whatever is left over, is not the message any more. */
static void refuse_all_cuts(void) {
    struct raft_message_view message;
    for (size_t size = 0; size < buffer.size; size++) {
        assert_int_equal(decode_bytes(buffer.data, size, &message), STATUS_MALFORMED);
    }
    buffer_put_u8(&buffer, 0);
    assert_true(is_malformed());
}

/* --- Entries. --- */

static struct log_item *command(uint64_t index, uint64_t term, const char *text) {
    size_t size = strlen(text);
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memcpy(bytes, text, size);
    return log_item_create(LOG_COMMAND, index, term, bytes, size);
}

static struct bytes configuration_of(size_t n, uint64_t repeated_id) {
    static uint8_t bytes[64 * 1024];
    struct raft_config config = {0};
    for (size_t i = 0; i < n; i++) {
        char address[32];
        snprintf(address, sizeof address, "127.0.0.1:%zu", 2380 + i);
        assert_true(raft_config_add(&config, 10 + i, address, CONFIG_VOTER));
    }
    if (repeated_id != 0) {
        config.servers[n - 1].id = repeated_id;
    }
    struct buffer encoded;
    buffer_init(&encoded);
    raft_config_encode(&encoded, &config);
    size_t size = encoded.size;
    assert_true(size <= sizeof bytes);
    memcpy(bytes, encoded.data, size);
    buffer_clear(&encoded);
    return bytes_of(bytes, size);
}

static struct log_item *change(uint64_t index, uint64_t term, struct bytes configuration) {
    uint8_t *bytes = malloc(configuration.size);
    assert_non_null(bytes);
    memcpy(bytes, configuration.data, configuration.size);
    return log_item_create(LOG_CHANGE, index, term, bytes, configuration.size);
}

static struct raft_message_view append_of(uint64_t prev_index, uint64_t prev_term, uint64_t term,
                                          struct log_item **items, uint32_t n) {
    return (struct raft_message_view){.kind = MESSAGE_APPEND,
                                      .append = {.term = term,
                                                 .prev_index = prev_index,
                                                 .prev_term = prev_term,
                                                 .commit = prev_index + n,
                                                 .n_entries = n,
                                                 .items = items}};
}

/* One entry, released here. */
static bool entry_is_malformed(uint64_t prev_index, uint64_t prev_term, uint64_t term,
                               struct log_item *item) {
    bool result = encodes_to_malformed(append_of(prev_index, prev_term, term, &item, 1));
    log_item_release(item);
    return result;
}

static void entries_come_out_as_they_went_in(void **state) {
    struct log_item *items[] = {command(8, 3, "hello"), log_item_create(LOG_BARRIER, 9, 4, NULL, 0),
                                change(10, 4, configuration_of(3, 0)), command(11, 5, "")};
    struct raft_message_view message;
    decode_same(append_of(7, 2, 5, items, 4), &message);
    assert_int_equal(message.append.term, 5);
    assert_int_equal(message.append.prev_index, 7);
    assert_int_equal(message.append.prev_term, 2);
    assert_int_equal(message.append.commit, 11);
    assert_int_equal(message.append.n_entries, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct log_item *item = message.append.items[i];
        assert_int_equal(item->index, items[i]->index);
        assert_int_equal(item->term, items[i]->term);
        assert_int_equal(item->type, items[i]->type);
        assert_int_equal(item->n_references, 1);
        assert_true(bytes_equal(bytes_of(item->bytes, item->size),
                                bytes_of(items[i]->bytes, items[i]->size)));
        log_item_release(items[i]);
    }
    raft_codec_clear(&message);
    refuse_all_cuts();
}

static void a_heartbeat_has_no_entries(void **state) {
    assert_true(is_round(append_of(7, 2, 5, NULL, 0)));
    assert_true(is_round(append_of(0, 0, 1, NULL, 0)));
    refuse_all_cuts();
}

static void kept_items_outlive_the_message(void **state) {
    struct log_item *item = command(1, 1, "kept");
    struct raft_message_view message;
    decode_same(append_of(0, 0, 1, &item, 1), &message);
    log_item_release(item);
    item = log_item_reference(message.append.items[0]);
    raft_codec_clear(&message);
    assert_int_equal(item->n_references, 1);
    assert_memory_equal(item->bytes, "kept", 4);
    log_item_release(item);
}

static void terms_of_entries_neither_fall_nor_pass_the_leaders(void **state) {
    assert_false(entry_is_malformed(7, 3, 5, command(8, 3, "x")));
    assert_true(entry_is_malformed(7, 3, 5, command(8, 2, "x")));
    assert_true(entry_is_malformed(7, 3, 5, command(8, 6, "x")));
    assert_true(entry_is_malformed(0, 0, 5, command(1, 0, "x")));
}

static void positions_must_be_possible(void **state) {
    assert_true(encodes_to_malformed(append_of(0, 1, 5, NULL, 0)));
    assert_true(encodes_to_malformed(append_of(1, 0, 5, NULL, 0)));
    assert_true(encodes_to_malformed(append_of(1, 6, 5, NULL, 0)));
    assert_true(encodes_to_malformed(append_of(0, 0, 0, NULL, 0)));
    assert_true(encodes_to_malformed(append_of(TOO_LARGE - 1, 1, 5, NULL, 0)));
    assert_true(encodes_to_malformed(append_of(1, 1, TOO_LARGE, NULL, 0)));
    struct raft_message_view message = append_of(1, 1, 5, NULL, 0);
    message.append.commit = TOO_LARGE;
    assert_true(encodes_to_malformed(message));
    message.append.commit = UINT64_MAX;
    assert_true(encodes_to_malformed(message));
}

static void a_configuration_in_the_log_must_be_one(void **state) {
    struct bytes configuration = configuration_of(2, 0);
    assert_false(entry_is_malformed(7, 3, 5, change(8, 3, configuration)));
    configuration.size -= 8;
    assert_true(entry_is_malformed(7, 3, 5, change(8, 3, configuration)));
    assert_true(entry_is_malformed(7, 3, 5, change(8, 3, configuration_of(2, 10))));
    assert_true(entry_is_malformed(7, 3, 5, log_item_create(LOG_CHANGE, 8, 3, NULL, 0)));
}

static void a_barrier_has_no_bytes_and_other_types_are_unknown(void **state) {
    struct log_item *item = command(8, 3, "x");
    item->type = LOG_BARRIER;
    assert_true(entry_is_malformed(7, 3, 5, item));
    item = command(8, 3, "x");
    item->type = (enum log_item_type)4;
    assert_true(entry_is_malformed(7, 3, 5, item));
    item = command(8, 3, "x");
    item->type = (enum log_item_type)0;
    assert_true(entry_is_malformed(7, 3, 5, item));
}

static void put_numbers(const uint64_t *numbers, size_t n) {
    for (size_t i = 0; i < n; i++) {
        buffer_put_varint(&buffer, numbers[i]);
    }
}

static void a_count_beyond_what_follows_allocates_nothing(void **state) {
    const uint64_t counts[] = {1, MESSAGE_ENTRIES_MAX, MESSAGE_ENTRIES_MAX + 1, UINT32_MAX,
                               UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        buffer.size = 0;
        buffer_put_u8(&buffer, MESSAGE_APPEND);
        put_numbers((const uint64_t[]){1, 0, 0, 0, counts[i]}, 5);
        assert_true(is_malformed());
    }
    /* One entry more than allowed, all of them there. */
    buffer.size = 0;
    buffer_put_u8(&buffer, MESSAGE_APPEND);
    put_numbers((const uint64_t[]){1, 0, 0, 0, MESSAGE_ENTRIES_MAX + 1}, 5);
    for (size_t i = 0; i <= MESSAGE_ENTRIES_MAX; i++) {
        buffer_append(&buffer, "\2\1\0", 3);
    }
    assert_true(is_malformed());
}

static void a_message_beyond_the_limit_is_refused(void **state) {
    uint8_t *bytes = calloc(1, RAFT_CODEC_SIZE_MAX);
    assert_non_null(bytes);
    struct log_item *item = log_item_create(LOG_COMMAND, 1, 1, bytes, RAFT_CODEC_SIZE_MAX - 16);
    struct raft_message_view message;
    decode_same(append_of(0, 0, 1, &item, 1), &message);
    raft_codec_clear(&message);
    log_item_release(item);
    buffer.size = 0;
    buffer_put_u8(&buffer, MESSAGE_APPEND);
    put_numbers((const uint64_t[]){1, 0, 0, 0, 1, LOG_COMMAND, 1, RAFT_CODEC_SIZE_MAX}, 8);
    memset(buffer_reserve(&buffer, RAFT_CODEC_SIZE_MAX), 0, RAFT_CODEC_SIZE_MAX);
    buffer.size += RAFT_CODEC_SIZE_MAX;
    assert_true(is_malformed());
}

/* --- The small messages. --- */

static void small_messages_come_out_as_they_went_in(void **state) {
    struct raft_message_view messages[] = {
        {.kind = MESSAGE_APPEND_RESULT,
         .append_result = {.term = 9, .rejected = 0, .last_index = 7}},
        {.kind = MESSAGE_APPEND_RESULT,
         .append_result = {.term = 9, .rejected = 8, .last_index = 0}},
        {.kind = MESSAGE_VOTE, .vote = {.term = 9, .last_index = 7, .last_term = 8}},
        {.kind = MESSAGE_VOTE, .vote = {.term = 1, .disrupt_leader = true, .is_pre_vote = true}},
        {.kind = MESSAGE_VOTE, .vote = {.term = 1, .is_pre_vote = true}},
        {.kind = MESSAGE_VOTE_RESULT, .vote_result = {.term = 9, .is_granted = true}},
        {.kind = MESSAGE_VOTE_RESULT, .vote_result = {.term = 0, .is_pre_vote = true}},
        {.kind = MESSAGE_TIMEOUT_NOW, .timeout_now = {.term = 9, .last_index = 7, .last_term = 8}},
        {.kind = MESSAGE_SNAPSHOT_RESULT,
         .snapshot_result = {.term = 9, .index = 7, .received = TOO_LARGE - 1}},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        assert_true(is_round(messages[i]));
        refuse_all_cuts();
    }
}

static void numbers_that_leap_are_refused(void **state) {
    struct raft_message_view messages[] = {
        {.kind = MESSAGE_APPEND_RESULT, .append_result = {.term = TOO_LARGE}},
        {.kind = MESSAGE_APPEND_RESULT, .append_result = {.term = 1, .rejected = UINT64_MAX}},
        {.kind = MESSAGE_APPEND_RESULT, .append_result = {.term = 1, .last_index = TOO_LARGE}},
        {.kind = MESSAGE_VOTE, .vote = {.term = UINT64_MAX - 1, .last_index = 1, .last_term = 1}},
        {.kind = MESSAGE_VOTE, .vote = {.term = 1, .last_index = TOO_LARGE, .last_term = 1}},
        {.kind = MESSAGE_VOTE, .vote = {.term = 1, .last_index = 1, .last_term = 2}},
        {.kind = MESSAGE_VOTE, .vote = {.term = 1, .last_index = 1, .last_term = 0}},
        {.kind = MESSAGE_VOTE, .vote = {.term = 0}},
        {.kind = MESSAGE_VOTE_RESULT, .vote_result = {.term = TOO_LARGE}},
        {.kind = MESSAGE_TIMEOUT_NOW, .timeout_now = {.term = TOO_LARGE}},
        {.kind = MESSAGE_TIMEOUT_NOW, .timeout_now = {.term = 1, .last_index = 0, .last_term = 1}},
        {.kind = MESSAGE_SNAPSHOT_RESULT, .snapshot_result = {.term = 1, .index = 0}},
        {.kind = MESSAGE_SNAPSHOT_RESULT, .snapshot_result = {.term = 1, .index = TOO_LARGE}},
        {.kind = MESSAGE_SNAPSHOT_RESULT,
         .snapshot_result = {.term = 1, .index = 1, .received = TOO_LARGE}},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        assert_true(encodes_to_malformed(messages[i]));
    }
}

static void unknown_kinds_and_flags_are_refused(void **state) {
    for (unsigned kind = 0; kind < 256; kind++) {
        uint8_t bytes[] = {(uint8_t)kind, 1, 1, 1, 4};
        bool is_known = kind == MESSAGE_APPEND_RESULT || kind == MESSAGE_TIMEOUT_NOW ||
                        kind == MESSAGE_SNAPSHOT_RESULT;
        struct raft_message_view message;
        size_t size = is_known ? 4 : 5;
        assert_int_equal(decode_bytes(bytes, size, &message),
                         is_known ? STATUS_OK : STATUS_MALFORMED);
    }
}

static void a_number_has_one_encoding(void **state) {
    const uint8_t longer[] = {MESSAGE_APPEND_RESULT, 0x81, 0x00, 1, 1};
    struct raft_message_view message;
    assert_int_equal(decode_bytes(longer, sizeof longer, &message), STATUS_MALFORMED);
}

/* --- Snapshots. --- */

static struct snapshot_meta meta_of(uint64_t size) {
    struct snapshot_meta meta = {.index = 70, .term = 3, .configuration_index = 5, .size = size};
    struct bytes configuration = configuration_of(3, 0);
    memcpy(meta.configuration, configuration.data, configuration.size);
    meta.configuration_size = configuration.size;
    return meta;
}

static struct raft_message_view chunk_of(const struct snapshot_meta *meta, uint64_t offset,
                                         struct bytes chunk) {
    return (struct raft_message_view){
        .kind = MESSAGE_SNAPSHOT,
        .snapshot = {.term = 4, .meta = meta, .offset = offset, .chunk = chunk}};
}

static void the_first_chunk_carries_the_configuration(void **state) {
    struct snapshot_meta meta = meta_of(1000);
    struct raft_message_view message;
    decode_same(chunk_of(&meta, 0, bytes_from_text("payload")), &message);
    assert_int_equal(message.snapshot.term, 4);
    assert_int_equal(message.snapshot.offset, 0);
    assert_memory_equal(message.snapshot.meta, &meta, sizeof meta);
    assert_true(bytes_equal(message.snapshot.chunk, bytes_from_text("payload")));
    raft_codec_clear(&message);
    refuse_all_cuts();
}

static void later_chunks_do_not(void **state) {
    struct snapshot_meta meta = meta_of(1000);
    struct raft_message_view message;
    decode_same(chunk_of(&meta, 993, bytes_from_text("payload")), &message);
    assert_int_equal(message.snapshot.meta->index, 70);
    assert_int_equal(message.snapshot.meta->term, 3);
    assert_int_equal(message.snapshot.meta->size, 1000);
    assert_int_equal(message.snapshot.meta->configuration_size, 0);
    assert_int_equal(message.snapshot.offset, 993);
    raft_codec_clear(&message);
    refuse_all_cuts();
}

static void a_probe_is_a_first_chunk_without_payload(void **state) {
    struct snapshot_meta meta = meta_of(1000);
    struct raft_message_view message;
    decode_same(chunk_of(&meta, 0, bytes_of(NULL, 0)), &message);
    assert_int_equal(message.snapshot.chunk.size, 0);
    raft_codec_clear(&message);
    assert_true(encodes_to_malformed(chunk_of(&meta, 1, bytes_of(NULL, 0))));
}

static void chunks_stay_within_the_snapshot(void **state) {
    struct snapshot_meta meta = meta_of(1000);
    assert_true(encodes_to_malformed(chunk_of(&meta, 994, bytes_from_text("payload"))));
    assert_true(encodes_to_malformed(chunk_of(&meta, 1000, bytes_from_text("payload"))));
    assert_true(encodes_to_malformed(chunk_of(&meta, UINT64_MAX, bytes_from_text("payload"))));
    uint8_t *large = calloc(1, SNAPSHOT_CHUNK_SIZE + 1);
    assert_non_null(large);
    meta.size = SNAPSHOT_CHUNK_SIZE + 1;
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, bytes_of(large, SNAPSHOT_CHUNK_SIZE + 1))));
    assert_false(encodes_to_malformed(chunk_of(&meta, 1, bytes_of(large, 1))));
    free(large);
}

static void metadata_must_be_possible(void **state) {
    struct bytes payload = bytes_from_text("payload");
    struct snapshot_meta meta = meta_of(1000);
    meta.index = 0;
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, payload)));
    meta = meta_of(1000);
    meta.term = 5;
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, payload)));
    meta = meta_of(1000);
    meta.configuration_index = 71;
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, payload)));
    meta = meta_of(1000);
    meta.configuration_size -= 8;
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, payload)));
    meta.configuration_size = 0;
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, payload)));
    meta = meta_of(TOO_LARGE);
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, payload)));
    meta = meta_of(0);
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, bytes_of(NULL, 0))));
}

/* Entries follow it, and a log that is at the end of its numbers could be led by nobody. */
static void the_index_of_a_snapshot_leaves_room_behind_it(void **state) {
    struct snapshot_meta meta = meta_of(1000);
    meta.index = ((uint64_t)1 << 56) - 1;
    assert_false(encodes_to_malformed(chunk_of(&meta, 0, bytes_from_text("payload"))));
    meta.index++;
    assert_true(encodes_to_malformed(chunk_of(&meta, 0, bytes_from_text("payload"))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries_come_out_as_they_went_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_heartbeat_has_no_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kept_items_outlive_the_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(terms_of_entries_neither_fall_nor_pass_the_leaders, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(positions_must_be_possible, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_configuration_in_the_log_must_be_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_barrier_has_no_bytes_and_other_types_are_unknown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_count_beyond_what_follows_allocates_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_message_beyond_the_limit_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_messages_come_out_as_they_went_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_that_leap_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_kinds_and_flags_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_number_has_one_encoding, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_chunk_carries_the_configuration, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(later_chunks_do_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_probe_is_a_first_chunk_without_payload, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(chunks_stay_within_the_snapshot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_index_of_a_snapshot_leaves_room_behind_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(metadata_must_be_possible, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
