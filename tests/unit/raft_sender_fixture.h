/*
 * What a sender stands between, all of it fake: a log of which some is in memory and some on disk,
 * a snapshot, and one link that keeps what was sent. Reads end when the test says so.
 */
#ifndef LEASED_TESTS_RAFT_SENDER_FIXTURE_H
#define LEASED_TESTS_RAFT_SENDER_FIXTURE_H

#include "raft/raft_sender.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { MEMBER = 2, TERM = 5, LOG_MAX = 20000, SENT_MAX = 60000 };

/* A message as it was sent, without what it borrowed. */
struct sent {
    enum raft_message_kind kind;
    uint64_t to_id;
    struct message_append append; /* items NULL */
    uint64_t last_term;           /* of its last entry */
    struct message_snapshot snapshot;
    struct bytes chunk; /* points into the fake snapshot */
    size_t bytes;
};

struct fake {
    struct raft_sender *sender;
    uint64_t now_ms;
    /* The log: entry i is items[i]; below memory_first it is on disk, below disk_first nowhere. */
    struct log_item *items[LOG_MAX + 1];
    uint64_t last_index;
    uint64_t memory_first;
    uint64_t disk_first;
    /* The link. */
    bool is_up;
    size_t room;
    struct sent sent[SENT_MAX];
    size_t n_sent;
    /* Reads under way. */
    bool is_reading_log;
    uint64_t read_first;
    uint64_t read_last;
    size_t read_bytes_max;
    unsigned n_log_reads;
    bool is_reading_snapshot;
    uint64_t read_offset;
    unsigned n_snapshot_reads;
    struct snapshot_meta meta;
    uint8_t *payload;
    bool is_snapshot_gone;
};

static struct fake fake;

static inline size_t fake_room(void *data, uint64_t to_id) {
    return fake.is_up ? fake.room : 0;
}

static inline bool fake_send(void *data, uint64_t to_id, const struct raft_message_view *message) {
    if (!fake.is_up) {
        return false;
    }
    assert_true(fake.n_sent < SENT_MAX);
    struct sent *sent = &fake.sent[fake.n_sent++];
    *sent = (struct sent){.kind = message->kind, .to_id = to_id, .bytes = 64};
    if (message->kind == MESSAGE_APPEND) {
        sent->append = message->append;
        sent->append.items = NULL;
        for (uint32_t i = 0; i < message->append.n_entries; i++) {
            const struct log_item *item = message->append.items[i];
            assert_int_equal(item->index, message->append.prev_index + 1 + i);
            assert_int_equal(item->term, fake.items[item->index]->term);
            sent->last_term = item->term;
            sent->bytes += item->size;
        }
    } else if (message->kind == MESSAGE_SNAPSHOT) {
        sent->snapshot = message->snapshot;
        sent->snapshot.meta = &fake.meta;
        assert_memory_equal(message->snapshot.meta, &fake.meta, sizeof fake.meta);
        sent->bytes += message->snapshot.chunk.size;
        if (message->snapshot.chunk.size > 0) {
            assert_memory_equal(message->snapshot.chunk.data,
                                fake.payload + message->snapshot.offset,
                                message->snapshot.chunk.size);
            sent->snapshot.chunk.data = fake.payload + message->snapshot.offset;
        }
    }
    bool is_bulk = sent->append.n_entries > 0 || sent->snapshot.chunk.size > 0;
    if (is_bulk) {
        assert_true(sent->bytes <= fake.room || fake.room >= MESSAGE_APPEND_BYTES_MAX);
        fake.room -= sent->bytes < fake.room ? sent->bytes : fake.room;
    }
    return true;
}

static inline struct log_item *fake_item(void *data, uint64_t index) {
    return index < fake.memory_first || index > fake.last_index ? NULL : fake.items[index];
}

static inline void fake_read_log(void *data, uint64_t to_id, uint64_t first, uint64_t last,
                                 size_t bytes_max) {
    assert_false(fake.is_reading_log);
    assert_true(first <= last);
    assert_true(last <= fake.last_index);
    fake.is_reading_log = true;
    fake.read_first = first;
    fake.read_last = last;
    fake.read_bytes_max = bytes_max;
    fake.n_log_reads++;
}

static inline void fake_read_snapshot(void *data, uint64_t to_id, uint64_t index, uint64_t term,
                                      uint64_t offset) {
    assert_false(fake.is_reading_snapshot);
    assert_int_equal(offset % SNAPSHOT_CHUNK_SIZE, 0);
    fake.is_reading_snapshot = true;
    fake.read_offset = offset;
    fake.n_snapshot_reads++;
}

static const struct raft_sender_calls fake_calls = {.room = fake_room,
                                                    .send = fake_send,
                                                    .item = fake_item,
                                                    .read_log = fake_read_log,
                                                    .read_snapshot = fake_read_snapshot};

static inline void fake_append(uint64_t n, size_t size, uint64_t term) {
    for (uint64_t i = 0; i < n; i++) {
        assert_true(fake.last_index < LOG_MAX);
        uint64_t index = ++fake.last_index;
        fake.items[index] =
            log_item_create(LOG_COMMAND, index, term, size > 0 ? calloc(1, size) : NULL, size);
    }
}

static inline void fake_set_up(void) {
    memset(&fake, 0, sizeof fake);
    fake.sender = raft_sender_create(&fake_calls, NULL);
    fake.now_ms = 1000000;
    fake.memory_first = 1;
    fake.disk_first = 1;
    fake.is_up = true;
    fake.room = SIZE_MAX / 2;
}

static inline void fake_tear_down(void) {
    raft_sender_destroy(fake.sender);
    for (uint64_t i = 1; i <= fake.last_index; i++) {
        assert_int_equal(fake.items[i]->n_references, 1);
        log_item_release(fake.items[i]);
    }
    free(fake.payload);
}

static inline void fake_make_snapshot(uint64_t index, uint64_t size) {
    fake.meta = (struct snapshot_meta){.index = index,
                                       .term = 4,
                                       .configuration_index = 1,
                                       .configuration_size = 40,
                                       .size = size};
    free(fake.payload);
    fake.payload = malloc(size);
    assert_non_null(fake.payload);
    for (uint64_t i = 0; i < size; i++) {
        fake.payload[i] = (uint8_t)(i * 31 + i / 251);
    }
}

/* What is read, or nothing where it was trimmed. */
static inline void fake_end_log_read(void) {
    assert_true(fake.is_reading_log);
    fake.is_reading_log = false;
    struct log_item *items[MESSAGE_ENTRIES_MAX];
    size_t n = 0;
    size_t bytes = 0;
    for (uint64_t index = fake.read_first;
         index >= fake.disk_first && index <= fake.read_last && n < MESSAGE_ENTRIES_MAX; index++) {
        bytes += fake.items[index]->size;
        if (n > 0 && bytes > fake.read_bytes_max) {
            break;
        }
        items[n++] = log_item_reference(fake.items[index]);
    }
    raft_sender_read_done(fake.sender, MEMBER, items, n);
}

static inline void fake_end_snapshot_read(void) {
    assert_true(fake.is_reading_snapshot);
    fake.is_reading_snapshot = false;
    uint64_t left = fake.meta.size - fake.read_offset;
    struct bytes chunk = bytes_of(fake.payload + fake.read_offset,
                                  left < SNAPSHOT_CHUNK_SIZE ? (size_t)left : SNAPSHOT_CHUNK_SIZE);
    if (fake.is_snapshot_gone) {
        raft_sender_snapshot_read(fake.sender, MEMBER, NULL, fake.read_offset, bytes_of(NULL, 0));
    } else {
        raft_sender_snapshot_read(fake.sender, MEMBER, &fake.meta, fake.read_offset, chunk);
    }
}

static inline uint64_t fake_term_of(uint64_t index) {
    return index == 0 ? 0 : fake.items[index]->term;
}

/* Raft wants entries (prev, prev + n] sent. */
static inline void fake_post_entries(uint64_t prev, uint32_t n) {
    struct raft_message_view message = {.kind = MESSAGE_APPEND,
                                        .append = {.term = TERM,
                                                   .prev_index = prev,
                                                   .prev_term = fake_term_of(prev),
                                                   .commit = 1,
                                                   .n_entries = n}};
    raft_sender_post(fake.sender, MEMBER, &message, fake.now_ms);
}

static inline void fake_post_snapshot(void) {
    struct raft_message_view message = {.kind = MESSAGE_SNAPSHOT,
                                        .snapshot = {.term = TERM, .meta = &fake.meta}};
    raft_sender_post(fake.sender, MEMBER, &message, fake.now_ms);
}

static inline bool fake_admit(uint64_t rejected, uint64_t last_index) {
    struct message_append_result result = {
        .term = TERM, .rejected = rejected, .last_index = last_index};
    return raft_sender_admit_rejection(fake.sender, MEMBER, &result, fake.now_ms);
}

static inline void fake_result(uint64_t index, uint64_t received) {
    struct message_snapshot_result result = {.term = TERM, .index = index, .received = received};
    raft_sender_on_result(fake.sender, MEMBER, &result, fake.now_ms);
}

#endif
