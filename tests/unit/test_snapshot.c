#include "core/snapshot.h"

#include "base/crc32.h"
#include "state_machine_fixture.h"

#include <stdio.h>
#include <stdlib.h>

enum { VERSION_POSITION = 8, CHECKSUM_SIZE = 4 };

/* --- Helpers. --- */

static void take(struct fixture *fixture, struct buffer *buffer) {
    struct snapshot_view *view = snapshot_view_open(fixture->machine);
    buffer->size = 0;
    snapshot_view_write(view, buffer);
    snapshot_view_close(view);
}

/* From a copy of exactly this size, so that a sanitizer sees a read past its end. */
static enum status restore(struct fixture *fixture, const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    if (size > 0) {
        memcpy(exact, data, size);
    }
    enum status status = state_machine_restore(fixture->machine, bytes_of(exact, size));
    free(exact);
    key_store_validate(state_machine_keys(fixture->machine));
    lease_table_validate(state_machine_leases(fixture->machine));
    watch_hub_validate(state_machine_watches(fixture->machine));
    return status;
}

static void restore_from(struct fixture *fixture, struct fixture *other) {
    struct buffer buffer;
    buffer_init(&buffer);
    take(other, &buffer);
    assert_int_equal(restore(fixture, buffer.data, buffer.size), STATUS_OK);
    buffer_clear(&buffer);
}

static void assert_same_snapshots(struct fixture *a, struct fixture *b) {
    struct buffer bytes_a;
    struct buffer bytes_b;
    buffer_init(&bytes_a);
    buffer_init(&bytes_b);
    take(a, &bytes_a);
    take(b, &bytes_b);
    assert_int_equal(bytes_a.size, bytes_b.size);
    assert_memory_equal(bytes_a.data, bytes_b.data, bytes_a.size);
    buffer_clear(&bytes_a);
    buffer_clear(&bytes_b);
}

static void fix_checksum(struct buffer *buffer) {
    size_t size = buffer->size - CHECKSUM_SIZE;
    uint32_t crc = crc32c(0, buffer->data, size);
    buffer->size = size;
    buffer_put_u32(buffer, crc);
}

/* The first half of a story with a bit of everything in it. */
static void live_first_half(struct fixture *fixture) {
    fixture->context.wall_ms = 1700000000000;
    grant(fixture, 9, 5000);
    grant_child(fixture, -3, 1000, 9);
    grant_child(fixture, 4, LEASE_TTL_FOREVER, -3);
    grant(fixture, INT64_MAX, LEASE_TTL_MS_MAX);
    grant(fixture, INT64_MIN, 1);
    checkpoint(fixture, 1, 9, 2500);
    put(fixture, "b", "1", 9);
    put(fixture, "a", "2", 9);
    put(fixture, "c", "3", -3);
    put(fixture, "a", "4", 4);
    put(fixture, "empty", "", INT64_MAX);
    del(fixture, "b", "");
    revoke(fixture, INT64_MIN);
    alarm_change(fixture, true, 77, ALARM_NO_SPACE);
}

static void live_second_half(struct fixture *fixture) {
    put(fixture, "b", "5", 9);
    put(fixture, "ba", "6", 9);
    put(fixture, "aa", "7", 9);
    compact(fixture, 5);
    del(fixture, "c", "");
    expire(fixture, 1, (const int64_t[]){-3}, 1);
    revoke(fixture, 9);
    grant(fixture, 12, 1000);
    put(fixture, "z", "8", 12);
    alarm_change(fixture, true, 5, ALARM_CORRUPT);
}

/* --- Round trips. --- */

static void an_empty_machine_restores_to_equal_bytes(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    put(&b, "to be replaced", "", 0);
    restore_from(&b, &a);
    assert_same_snapshots(&a, &b);
    assert_int_equal(revision(&b), 1);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void a_full_machine_restores_to_equal_bytes(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    live_first_half(&a);
    restore_from(&b, &a);
    assert_same_snapshots(&a, &b);
    live_second_half(&a);
    restore_from(&b, &a);
    assert_same_snapshots(&a, &b);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void everything_is_there_after_a_restore(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    live_first_half(&a);
    restore_from(&b, &a);
    assert_int_equal(revision(&b), 7);
    assert_value(find(&b, "a"), "4");
    assert_null(find(&b, "b"));
    assert_int_equal(keys_of(&b, 9), 0);
    assert_int_equal(keys_of(&b, 4), 1);
    struct lease_facts facts;
    assert_true(lease_table_find(state_machine_leases(b.machine), -3, &facts));
    assert_int_equal(facts.parent_id, 9);
    assert_true(lease_table_find(state_machine_leases(b.machine), 9, &facts));
    assert_int_equal(facts.checkpoint_ms, 2500);
    struct lease_ended ended[2];
    assert_int_equal(lease_table_ended(state_machine_leases(b.machine), ended, 2), 1);
    assert_int_equal(ended[0].id, INT64_MIN);
    assert_int_equal(ended[0].wall_ms, 1700000000000);
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    assert_int_equal(state_machine_alarms(b.machine, alarms), 1);
    assert_false(lease_table_is_leading(state_machine_leases(b.machine)));
    struct range_request old = {.key = bytes_from_text("a"), .revision = 3};
    struct range_outcome outcome;
    assert_int_equal(key_store_range(state_machine_keys(b.machine), KEY_SPACE_ETCD, &old,
                                     &(struct key_work){.left = SIZE_MAX}, &b.arena, &outcome),
                     STATUS_OK);
    assert_value(outcome.records[0], "2");
    fixture_clear(&a);
    fixture_clear(&b);
}

/* Two replicas, one of which came in late by a snapshot, must stay equal to the byte. */
static void a_machine_restored_in_the_middle_ends_equal(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    live_first_half(&a);
    restore_from(&b, &a);
    b.context = a.context;
    live_second_half(&a);
    live_second_half(&b);
    assert_same_snapshots(&a, &b);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void memory_reclaimed_or_not_does_not_show(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    live_first_half(&a);
    live_first_half(&b);
    live_second_half(&a);
    live_second_half(&b);
    while (key_store_reclaim(state_machine_keys(b.machine), 1)) {
        assert_same_snapshots(&a, &b);
    }
    assert_same_snapshots(&a, &b);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void a_view_shows_the_moment_it_was_opened(void **state) {
    struct fixture a;
    struct fixture b;
    struct buffer before;
    struct buffer after;
    fixture_init(&a);
    fixture_init(&b);
    buffer_init(&before);
    buffer_init(&after);
    live_first_half(&a);
    take(&a, &before);
    struct snapshot_view *view = snapshot_view_open(a.machine);
    live_second_half(&a);
    key_store_reclaim(state_machine_keys(a.machine), 100);
    snapshot_view_write(view, &after);
    snapshot_view_close(view);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    assert_int_equal(restore(&b, after.data, after.size), STATUS_OK);
    buffer_clear(&before);
    buffer_clear(&after);
    fixture_clear(&a);
    fixture_clear(&b);
}

static void a_snapshot_is_appended_to_what_the_buffer_holds(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    live_first_half(&a);
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append(&buffer, "prefix", 6);
    struct snapshot_view *view = snapshot_view_open(a.machine);
    snapshot_view_write(view, &buffer);
    snapshot_view_close(view);
    assert_memory_equal(buffer.data, "prefix", 6);
    assert_int_equal(restore(&b, buffer.data + 6, buffer.size - 6), STATUS_OK);
    assert_same_snapshots(&a, &b);
    buffer_clear(&buffer);
    fixture_clear(&a);
    fixture_clear(&b);
}

struct pieces {
    struct buffer bytes;
    size_t n;
    size_t size_max;
};

static void gather_piece(void *data, struct bytes bytes) {
    struct pieces *pieces = data;
    assert_true(bytes.size > 0);
    buffer_append(&pieces->bytes, bytes.data, bytes.size);
    pieces->n++;
    pieces->size_max = bytes.size > pieces->size_max ? bytes.size : pieces->size_max;
}

/* Streams it, and holds it against the bytes of one buffer. */
static struct pieces stream(struct fixture *fixture) {
    struct pieces pieces = {.n = 0};
    const struct snapshot_sink sink = {.write = gather_piece, .data = &pieces};
    buffer_init(&pieces.bytes);
    struct snapshot_view *view = snapshot_view_open(fixture->machine);
    snapshot_view_stream(view, &sink);
    snapshot_view_close(view);
    struct buffer whole;
    buffer_init(&whole);
    take(fixture, &whole);
    assert_true(bytes_equal(bytes_of(pieces.bytes.data, pieces.bytes.size),
                            bytes_of(whole.data, whole.size)));
    uint32_t crc = crc32c(0, whole.data, whole.size - CHECKSUM_SIZE);
    assert_memory_equal(whole.data + whole.size - CHECKSUM_SIZE, &crc, CHECKSUM_SIZE);
    buffer_clear(&whole);
    return pieces;
}

/* Without what the fixture validates after each command. */
static void grant_quickly(struct fixture *fixture, int64_t id) {
    struct command command = {.type = COMMAND_LEASE_GRANT, .grant = {.id = id, .ttl_ms = 5000}};
    struct outcome outcome;
    state_machine_apply(fixture->machine, &command, &fixture->context, &fixture->arena, &outcome);
    assert_int_equal(outcome.status, STATUS_OK);
}

static void a_snapshot_is_streamed_in_bounded_pieces(void **state) {
    enum { VALUE_SIZE = 10000, N_KEYS = 500, N_LEASES = 100000 };
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    live_first_half(&a);
    struct pieces pieces = stream(&a);
    assert_int_equal(pieces.n, 1);
    buffer_clear(&pieces.bytes);
    alarm_change(&a, false, 77, ALARM_NO_SPACE);
    char value[VALUE_SIZE + 1];
    memset(value, 'v', VALUE_SIZE);
    value[VALUE_SIZE] = '\0';
    for (unsigned i = 0; i < N_KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "key-%u", i);
        assert_int_equal(put(&a, key, value, 0).status, STATUS_OK);
    }
    for (int64_t i = 0; i < N_LEASES; i++) {
        grant_quickly(&a, 1000 + i);
    }
    pieces = stream(&a);
    assert_true(pieces.bytes.size > N_KEYS * (size_t)VALUE_SIZE);
    assert_true(pieces.n >= pieces.bytes.size / (SNAPSHOT_SINK_SIZE + VALUE_SIZE + 100));
    assert_true(pieces.size_max <= SNAPSHOT_SINK_SIZE + VALUE_SIZE + 100);
    assert_int_equal(restore(&b, pieces.bytes.data, pieces.bytes.size), STATUS_OK);
    assert_same_snapshots(&a, &b);
    buffer_clear(&pieces.bytes);
    fixture_clear(&a);
    fixture_clear(&b);
}

/* Ids say nothing about who is whose parent: up, down and across, and a chain longer than any
 * stack or quadratic walk would forgive. */
static void parents_come_back_whatever_their_ids(void **state) {
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    struct lease_table *leases = state_machine_leases(a.machine);
    enum { CHAIN = 100000 };
    for (int64_t i = 0; i < CHAIN; i++) {
        struct lease_facts down = {.owner = KEY_SPACE_ETCD,
                                   .id = -1 - i,
                                   .ttl_ms = 1000,
                                   .parent_id = i == 0 ? 0 : -i}; /* parents above */
        assert_int_equal(lease_table_grant(leases, &down, 0), STATUS_OK);
    }
    for (int64_t i = 1; i < 1000; i++) {
        struct lease_facts across = {.owner = KEY_SPACE_ETCD,
                                     .id = i * 7919 % 1000 + 1,
                                     .ttl_ms = 1000,
                                     .parent_id = i == 1 ? 0 : (i - 1) * 7919 % 1000 + 1};
        assert_int_equal(lease_table_grant(leases, &across, 0), STATUS_OK);
    }
    restore_from(&b, &a);
    assert_same_snapshots(&a, &b);
    struct lease_facts facts;
    assert_true(lease_table_find(state_machine_leases(b.machine), -CHAIN, &facts));
    assert_int_equal(facts.parent_id, 1 - CHAIN);
    assert_int_equal(lease_table_first_child(state_machine_leases(b.machine), -1), -2);
    fixture_clear(&a);
    fixture_clear(&b);
}

/* --- Watchers. --- */

struct seen {
    size_t n;
    int64_t revisions[32];
};

static bool see(void *data, const struct watch_batch *batch) {
    struct seen *seen = data;
    for (size_t i = 0; i < batch->n_events; i++) {
        seen->revisions[seen->n] = batch->events[i]->mod_revision;
        seen->n++;
    }
    return true;
}

static void see_compacted(void *data, int64_t compacted_revision) {
    fail();
}

static void watchers_survive_a_restore_and_miss_nothing(void **state) {
    static const struct watcher_callbacks callbacks = {.deliver = see, .compacted = see_compacted};
    struct fixture a;
    struct fixture b;
    fixture_init(&a);
    fixture_init(&b);
    struct seen seen = {0};
    struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                      .key = bytes_from_text("a"),
                                      .range_end = bytes_from_text("z"),
                                      .callbacks = &callbacks,
                                      .data = &seen};
    struct watch_hub *hub = state_machine_watches(b.machine);
    watch_hub_add(hub, &options);
    put(&a, "k", "2", 0);
    put(&b, "k", "2", 0);
    watch_hub_publish(hub);
    assert_int_equal(seen.n, 1);
    put(&a, "k", "3", 0);
    put(&a, "m", "4", 0);
    restore_from(&b, &a);
    put(&b, "k", "5", 0);
    watch_hub_publish(hub);
    while (watch_hub_work(hub, 100)) {
    }
    watch_hub_validate(hub);
    assert_int_equal(seen.n, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(seen.revisions[i], (int64_t)i + 2);
    }
    assert_ptr_equal(hub, state_machine_watches(b.machine));
    fixture_clear(&a);
    fixture_clear(&b);
}

/* --- What is refused, and changes nothing. --- */

static void every_flipped_byte_is_corrupt_and_changes_nothing(void **state) {
    struct fixture a;
    struct fixture b;
    struct fixture untouched;
    fixture_init(&a);
    fixture_init(&b);
    fixture_init(&untouched);
    live_first_half(&a);
    live_first_half(&b);
    live_second_half(&b);
    restore_from(&untouched, &b);
    struct buffer buffer;
    buffer_init(&buffer);
    take(&a, &buffer);
    for (size_t i = 0; i < buffer.size; i++) {
        buffer.data[i] ^= (uint8_t)(1U << (i % 8));
        assert_int_equal(restore(&b, buffer.data, buffer.size), STATUS_CORRUPT);
        buffer.data[i] ^= (uint8_t)(1U << (i % 8));
    }
    for (size_t size = 0; size < buffer.size; size++) {
        assert_int_equal(restore(&b, buffer.data, size), STATUS_CORRUPT);
    }
    buffer_put_u8(&buffer, 0);
    assert_int_equal(restore(&b, buffer.data, buffer.size), STATUS_CORRUPT);
    assert_same_snapshots(&b, &untouched);
    buffer_clear(&buffer);
    fixture_clear(&a);
    fixture_clear(&b);
    fixture_clear(&untouched);
}

/* The checksum tells of accidents, not of intent: with it put right, nothing may crash, and what is
 * taken must be sound. */
static void every_flipped_bit_behind_a_good_checksum_is_survived(void **state) {
    struct fixture a;
    struct buffer buffer;
    struct buffer again;
    fixture_init(&a);
    buffer_init(&buffer);
    buffer_init(&again);
    live_first_half(&a);
    live_second_half(&a);
    take(&a, &buffer);
    for (size_t bit = 0; bit < (buffer.size - CHECKSUM_SIZE) * 8; bit++) {
        struct fixture b;
        fixture_init(&b);
        buffer.data[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        fix_checksum(&buffer);
        if (restore(&b, buffer.data, buffer.size) == STATUS_OK) {
            take(&b, &again);
            assert_int_equal(again.size, buffer.size);
            assert_memory_equal(again.data, buffer.data, buffer.size);
            revoke(&b, 12);
        }
        buffer.data[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        fixture_clear(&b);
    }
    buffer_clear(&buffer);
    buffer_clear(&again);
    fixture_clear(&a);
}

static void a_newer_version_is_unsupported(void **state) {
    struct fixture a;
    struct buffer buffer;
    fixture_init(&a);
    buffer_init(&buffer);
    live_first_half(&a);
    take(&a, &buffer);
    buffer.data[VERSION_POSITION]++;
    fix_checksum(&buffer);
    assert_int_equal(restore(&a, buffer.data, buffer.size), STATUS_UNSUPPORTED);
    assert_int_equal(revision(&a), 7);
    buffer_clear(&buffer);
    fixture_clear(&a);
}

/* The beginning of a snapshot made by hand, up to the keys: no leases but `ids`, of one second
 * each. */
static void begin_by_hand(struct buffer *buffer, int64_t newest_revision, const int64_t *ids,
                          size_t n_ids, const struct alarm_entry *alarms, size_t n_alarms) {
    buffer_append(buffer, "leasedsn", 8);
    buffer_put_u32(buffer, 1);
    buffer_put_varint(buffer, (uint64_t)newest_revision);
    buffer_put_varint(buffer, 0);
    buffer_put_varint(buffer, n_ids);
    buffer_put_u32(buffer, (uint32_t)n_ids); /* the newest epoch */
    for (size_t i = 0; i < n_ids; i++) {
        buffer_put_u8(buffer, 0);
        buffer_put_varint(buffer, (uint64_t)ids[i] - (i > 0 ? (uint64_t)ids[i - 1] : 0));
        buffer_put_varint(buffer, 1000);
        buffer_put_varint(buffer, 1); /* one epoch after the other */
    }
    buffer_put_varint(buffer, 0);
    buffer_put_varint(buffer, n_alarms);
    for (size_t i = 0; i < n_alarms; i++) {
        buffer_put_varint(buffer, alarms[i].member_id);
        buffer_put_u8(buffer, (uint8_t)alarms[i].alarm);
    }
}

static enum status restore_by_hand(struct buffer *buffer) {
    struct fixture fixture;
    fixture_init(&fixture);
    buffer_put_u8(buffer, 8); /* the end of the keys */
    buffer_put_u32(buffer, 0);
    fix_checksum(buffer);
    enum status status = restore(&fixture, buffer->data, buffer->size);
    if (status == STATUS_OK) {
        revoke(&fixture, 1);
    }
    fixture_clear(&fixture);
    buffer->size = 0;
    return status;
}

static void put_by_hand(struct buffer *buffer, uint8_t flags, const char *key, uint64_t mod,
                        uint64_t sub, uint64_t create, uint64_t version, int64_t lease_id) {
    buffer_put_u8(buffer, flags);
    if ((flags & 1) == 0) {
        buffer_put_bytes(buffer, bytes_from_text(key));
    }
    buffer_put_varint(buffer, mod);
    buffer_put_varint(buffer, sub);
    buffer_put_varint(buffer, create);
    buffer_put_varint(buffer, version);
    buffer_put_bytes(buffer, bytes_from_text("value"));
    if ((flags & 4) != 0) {
        buffer_put_zigzag(buffer, lease_id);
    }
}

/* An old version attached to a lease would be deleted as if it were the newest. */
static void a_key_named_twice_is_corrupt(void **state) {
    const int64_t lease[] = {1};
    struct buffer buffer;
    buffer_init(&buffer);
    begin_by_hand(&buffer, 3, lease, 1, NULL, 0);
    put_by_hand(&buffer, 4, "k", 2, 0, 2, 1, 1);
    put_by_hand(&buffer, 1 | 4, "k", 3, 0, 2, 2, 1);
    assert_int_equal(restore_by_hand(&buffer), STATUS_OK);
    begin_by_hand(&buffer, 3, lease, 1, NULL, 0);
    put_by_hand(&buffer, 4, "k", 2, 0, 2, 1, 1);
    put_by_hand(&buffer, 4, "k", 3, 0, 2, 2, 1);
    assert_int_equal(restore_by_hand(&buffer), STATUS_CORRUPT);
    buffer_clear(&buffer);
}

static void records_that_cannot_be_are_corrupt(void **state) {
    const int64_t lease[] = {1};
    struct buffer buffer;
    buffer_init(&buffer);
    const struct {
        uint8_t flags;
        uint64_t sub;
        uint64_t version;
        int64_t lease_id;
        enum status status;
    } cases[] = {{4, 0, 1, 1, STATUS_OK},
                 {4, UINT32_MAX, 1, 1, STATUS_OK},
                 {4, (uint64_t)UINT32_MAX + 1, 1, 1, STATUS_CORRUPT},
                 {4, 0, 0, 1, STATUS_CORRUPT}, /* no tombstone, but without a version */
                 {0, 0, 0, 0, STATUS_CORRUPT},
                 {4, 0, 1, 2, STATUS_CORRUPT},  /* a lease that is not there */
                 {4, 0, 1, 0, STATUS_CORRUPT},  /* a lease that is none */
                 {1, 0, 1, 0, STATUS_CORRUPT},  /* the same key as none */
                 {16, 0, 1, 0, STATUS_CORRUPT}, /* flags that nobody writes */
                 {8 | 4, 0, 1, 1, STATUS_CORRUPT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_by_hand(&buffer, 3, lease, 1, NULL, 0);
        put_by_hand(&buffer, cases[i].flags, "k", 2, cases[i].sub, cases[i].version == 0 ? 0 : 2,
                    cases[i].version, cases[i].lease_id);
        assert_int_equal(restore_by_hand(&buffer), cases[i].status);
    }
    buffer_clear(&buffer);
}

/* Somebody who is taken for a leader may send one; the next write counts on from there. */
static void numbers_near_their_end_are_corrupt(void **state) {
    const int64_t last = INT64_MAX / 4 * 3;
    struct buffer buffer;
    buffer_init(&buffer);
    const struct {
        int64_t revision;
        int64_t version;
        enum status status;
    } cases[] = {{last, last, STATUS_OK},
                 {last + 1, 1, STATUS_CORRUPT},
                 {INT64_MAX, 1, STATUS_CORRUPT},
                 {3, last + 1, STATUS_CORRUPT},
                 {3, INT64_MAX, STATUS_CORRUPT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_by_hand(&buffer, cases[i].revision, NULL, 0, NULL, 0);
        put_by_hand(&buffer, 0, "k", 2, 0, 2, (uint64_t)cases[i].version, 0);
        assert_int_equal(restore_by_hand(&buffer), cases[i].status);
    }
    buffer_clear(&buffer);
}

static void alarms_out_of_order_are_corrupt(void **state) {
    struct buffer buffer;
    buffer_init(&buffer);
    const struct {
        struct alarm_entry alarms[2];
        enum status status;
    } cases[] = {{{{1, ALARM_NO_SPACE}, {1, ALARM_CORRUPT}}, STATUS_OK},
                 {{{1, ALARM_CORRUPT}, {2, ALARM_NO_SPACE}}, STATUS_OK},
                 {{{1, ALARM_CORRUPT}, {1, ALARM_NO_SPACE}}, STATUS_CORRUPT},
                 {{{1, ALARM_CORRUPT}, {1, ALARM_CORRUPT}}, STATUS_CORRUPT},
                 {{{2, ALARM_NO_SPACE}, {1, ALARM_CORRUPT}}, STATUS_CORRUPT},
                 {{{1, ALARM_NO_SPACE}, {2, (enum alarm_type)3}}, STATUS_CORRUPT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_by_hand(&buffer, 1, NULL, 0, cases[i].alarms, 2);
        assert_int_equal(restore_by_hand(&buffer), cases[i].status);
    }
    buffer_clear(&buffer);
}

static void leases_out_of_order_are_corrupt(void **state) {
    struct buffer buffer;
    buffer_init(&buffer);
    const int64_t good[] = {INT64_MIN, -1, 1, INT64_MAX};
    const int64_t twice[] = {1, 1};
    const int64_t falling[] = {2, 1};
    const int64_t none[] = {0};
    begin_by_hand(&buffer, 1, good, 4, NULL, 0);
    assert_int_equal(restore_by_hand(&buffer), STATUS_OK);
    begin_by_hand(&buffer, 1, twice, 2, NULL, 0);
    assert_int_equal(restore_by_hand(&buffer), STATUS_CORRUPT);
    begin_by_hand(&buffer, 1, falling, 2, NULL, 0);
    assert_int_equal(restore_by_hand(&buffer), STATUS_CORRUPT);
    begin_by_hand(&buffer, 1, none, 1, NULL, 0);
    assert_int_equal(restore_by_hand(&buffer), STATUS_CORRUPT);
    buffer_clear(&buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_machine_restores_to_equal_bytes),
        cmocka_unit_test(a_full_machine_restores_to_equal_bytes),
        cmocka_unit_test(everything_is_there_after_a_restore),
        cmocka_unit_test(a_machine_restored_in_the_middle_ends_equal),
        cmocka_unit_test(memory_reclaimed_or_not_does_not_show),
        cmocka_unit_test(a_view_shows_the_moment_it_was_opened),
        cmocka_unit_test(a_snapshot_is_appended_to_what_the_buffer_holds),
        cmocka_unit_test(a_snapshot_is_streamed_in_bounded_pieces),
        cmocka_unit_test(parents_come_back_whatever_their_ids),
        cmocka_unit_test(watchers_survive_a_restore_and_miss_nothing),
        cmocka_unit_test(every_flipped_byte_is_corrupt_and_changes_nothing),
        cmocka_unit_test(every_flipped_bit_behind_a_good_checksum_is_survived),
        cmocka_unit_test(a_newer_version_is_unsupported),
        cmocka_unit_test(a_key_named_twice_is_corrupt),
        cmocka_unit_test(records_that_cannot_be_are_corrupt),
        cmocka_unit_test(numbers_near_their_end_are_corrupt),
        cmocka_unit_test(alarms_out_of_order_are_corrupt),
        cmocka_unit_test(leases_out_of_order_are_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
