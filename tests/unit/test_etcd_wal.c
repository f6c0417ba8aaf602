/* Logs as etcdutl's restore writes them, made here record by record, and everything else. */
#include "doors/etcd/etcd_wal.h"

#include "base/buffer.h"
#include "base/crc32.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { METADATA = 1, ENTRY = 2, STATE = 3, CHECKSUM = 4, SNAPSHOT = 5, ZEROS = 64 };

struct fixture {
    struct buffer log;
    uint32_t checksum;
    struct arena arena;
    struct etcd_wal wal;
    char error[256];
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    buffer_init(&fixture->log);
    arena_init(&fixture->arena);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    buffer_clear(&fixture->log);
    arena_clear(&fixture->arena);
    free(fixture);
    return 0;
}

/* --- Writing. --- */

static void put_number(struct buffer *message, uint32_t field, uint64_t number) {
    buffer_put_varint(message, field << 3);
    buffer_put_varint(message, number);
}

static void put_bytes(struct buffer *message, uint32_t field, struct bytes bytes) {
    buffer_put_varint(message, field << 3 | 2);
    buffer_put_varint(message, bytes.size);
    buffer_append(message, bytes.data, bytes.size);
}

static void put_frame(struct buffer *log, const struct buffer *record) {
    uint64_t padding = (8 - record->size % 8) % 8;
    buffer_put_u64(log, record->size | (padding != 0 ? (0x80 | padding) << 56 : 0));
    buffer_append(log, record->data, record->size);
    buffer_append(log, "\0\0\0\0\0\0\0", padding);
}

static void put_record(struct fixture *fixture, uint64_t type, struct buffer *data) {
    struct buffer record;
    buffer_init(&record);
    fixture->checksum = crc32c(fixture->checksum, data->data, data->size);
    put_number(&record, 1, type);
    put_number(&record, 2, type == CHECKSUM ? 0 : fixture->checksum);
    if (type != CHECKSUM) {
        put_bytes(&record, 3, bytes_of(data->data, data->size));
    }
    put_frame(&fixture->log, &record);
    buffer_clear(&record);
    buffer_clear(data);
}

/* A record whose data has these numbers as its fields 1, 2 and 3. */
static void put_numbers(struct fixture *fixture, uint64_t type, uint64_t one, uint64_t two,
                        uint64_t three) {
    struct buffer data;
    buffer_init(&data);
    put_number(&data, 1, one);
    put_number(&data, 2, two);
    put_number(&data, 3, three);
    put_record(fixture, type, &data);
}

struct entry {
    uint64_t type;
    uint64_t term;
    uint64_t index;
    uint64_t change;
    uint64_t member_id;
    const char *context;
};

static void put_entry(struct fixture *fixture, struct entry entry) {
    struct buffer change;
    struct buffer data;
    buffer_init(&change);
    buffer_init(&data);
    put_number(&change, 1, 0);
    put_number(&change, 2, entry.change);
    put_number(&change, 3, entry.member_id);
    put_bytes(&change, 4, bytes_from_text(entry.context));
    put_number(&data, 1, entry.type);
    put_number(&data, 2, entry.term);
    put_number(&data, 3, entry.index);
    put_bytes(&data, 4, bytes_of(change.data, change.size));
    buffer_clear(&change);
    put_record(fixture, ENTRY, &data);
}

static const char n1[] = "{\"id\":18446744073709551615,\"peerURLs\":[\"http://n1:2380\","
                         "\"http://n1:2480\"],\"name\":\"n1\"}";
static const char n2[] = "{\"id\":7,\"peerURLs\":[\"https://n2:2380\"],\"name\":\"n2\"}";

static struct entry entry_of(uint64_t index, uint64_t member_id, const char *context) {
    return (struct entry){
        .type = 1, .term = 1, .index = index, .member_id = member_id, .context = context};
}

static void put_head(struct fixture *fixture) {
    struct buffer nothing;
    buffer_init(&nothing);
    put_record(fixture, CHECKSUM, &nothing);
    put_numbers(fixture, METADATA, UINT64_MAX, 5, 0);
    put_numbers(fixture, SNAPSHOT, 0, 0, 0);
}

static void put_restored(struct fixture *fixture) {
    put_head(fixture);
    put_entry(fixture, entry_of(1, UINT64_MAX, n1));
    put_entry(fixture, entry_of(2, 7, n2));
    put_numbers(fixture, STATE, 1, 7, 2);
    put_numbers(fixture, SNAPSHOT, 2, 1, 0);
}

static void put_zeros(struct fixture *fixture) {
    static const uint8_t zeros[ZEROS];
    buffer_append(&fixture->log, zeros, sizeof zeros);
}

/* --- Reading. --- */

static enum status read_part(struct fixture *fixture, size_t size) {
    return etcd_wal_read(bytes_of(fixture->log.data, size), &fixture->arena, &fixture->wal,
                         fixture->error, sizeof fixture->error);
}

static void expect_refusal(struct fixture *fixture, enum status status, const char *words) {
    assert_int_equal(read_part(fixture, fixture->log.size), status);
    assert_non_null(strstr(fixture->error, words));
}

static void assert_text(struct bytes bytes, const char *text) {
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
}

static void what_a_restore_wrote_is_read(void **state) {
    struct fixture *fixture = *state;
    put_restored(fixture);
    for (size_t round = 0; round < 2; round++) {
        assert_int_equal(read_part(fixture, fixture->log.size), STATUS_OK);
        assert_true(fixture->wal.member_id == UINT64_MAX);
        assert_int_equal(fixture->wal.cluster_id, 5);
        assert_int_equal(fixture->wal.n_members, 2);
        assert_text(fixture->wal.members[0].name, "n1");
        assert_int_equal(fixture->wal.members[0].n_peer_urls, 2);
        assert_text(fixture->wal.members[0].peer_urls[1], "http://n1:2480");
        assert_int_equal(fixture->wal.members[1].id, 7);
        put_zeros(fixture); /* the room that etcd allocates ahead */
    }
}

static void a_log_that_is_cut_off_anywhere_is_refused(void **state) {
    struct fixture *fixture = *state;
    put_restored(fixture);
    for (size_t size = 0; size < fixture->log.size; size++) {
        assert_int_not_equal(read_part(fixture, size), STATUS_OK);
    }
}

/* But for what nothing depends on (padding, and bits of the length's last byte), every byte counts:
 * whatever is changed, either it is refused or the same is read. */
static void a_changed_byte_is_noticed(void **state) {
    struct fixture *fixture = *state;
    size_t n_refused = 0;
    put_restored(fixture);
    for (size_t i = 0; i < fixture->log.size; i++) {
        fixture->log.data[i] ^= 0x11;
        if (read_part(fixture, fixture->log.size) == STATUS_OK) {
            assert_true(fixture->wal.member_id == UINT64_MAX);
            assert_int_equal(fixture->wal.cluster_id, 5);
            assert_int_equal(fixture->wal.n_members, 2);
            assert_text(fixture->wal.members[1].peer_urls[0], "https://n2:2380");
        } else {
            n_refused++;
        }
        fixture->log.data[i] ^= 0x11;
    }
    assert_in_range(n_refused, fixture->log.size * 3 / 4, fixture->log.size);
}

static void a_log_that_etcd_went_on_with_is_refused(void **state) {
    struct fixture *fixture = *state;
    put_restored(fixture);
    put_numbers(fixture, STATE, 2, 7, 2); /* a new term */
    expect_refusal(fixture, STATUS_UNSUPPORTED, "etcd has run on it since");
}

static void a_log_that_etcd_began_is_refused(void **state) {
    struct fixture *fixture = *state;
    put_head(fixture);
    put_entry(fixture, entry_of(1, UINT64_MAX, n1));
    put_numbers(fixture, STATE, 1, 0, 1);
    put_entry(fixture, (struct entry){.type = 0, .term = 2, .index = 2, .context = ""});
    put_zeros(fixture);
    expect_refusal(fixture, STATUS_UNSUPPORTED, "another order");
}

static void writes_among_the_members_are_refused(void **state) {
    struct fixture *fixture = *state;
    put_head(fixture);
    put_entry(fixture, (struct entry){.type = 0, .term = 1, .index = 1, .context = n1});
    expect_refusal(fixture, STATUS_UNSUPPORTED, "etcd has written to it");
}

static void a_member_that_was_removed_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct entry entry = entry_of(1, UINT64_MAX, n1);
    entry.change = 1;
    put_head(fixture);
    put_entry(fixture, entry);
    expect_refusal(fixture, STATUS_UNSUPPORTED, "changed the members");
}

static void members_that_cannot_be_are_refused(void **state) {
    static const char *const contexts[] = {
        "",
        "[]",
        "{\"name\":\"a\"}",
        "{\"name\":\"a\",\"peerURLs\":[]}",
        "{\"name\":\"a\",\"peerURLs\":[1]}",
        "{\"name\":1,\"peerURLs\":[\"http://a:1\"]}",
        "{\"name\":\"a\\u0000b\",\"peerURLs\":[\"http://a:1\"]}",
        "{\"name\":\"a\",\"name\":\"b\",\"peerURLs\":[\"http://a:1\"]}",
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        fixture->log.size = 0;
        fixture->checksum = 0;
        put_head(fixture);
        put_entry(fixture, entry_of(1, UINT64_MAX, contexts[i]));
        expect_refusal(fixture, STATUS_CORRUPT, "of a member");
    }
}

static void a_log_without_its_own_member_is_refused(void **state) {
    struct fixture *fixture = *state;
    put_head(fixture);
    put_entry(fixture, entry_of(1, 7, n2));
    put_numbers(fixture, STATE, 1, 7, 1);
    put_numbers(fixture, SNAPSHOT, 1, 1, 0);
    expect_refusal(fixture, STATUS_CORRUPT, "not among");
}

static void more_members_than_there_can_be_are_refused(void **state) {
    struct fixture *fixture = *state;
    put_head(fixture);
    for (uint64_t i = 1; i <= MEMBERS_MAX + 1; i++) {
        put_entry(fixture, entry_of(i, i, n2));
    }
    expect_refusal(fixture, STATUS_UNSUPPORTED, "more members");
}

static void one_member_twice_is_refused(void **state) {
    struct fixture *fixture = *state;
    put_head(fixture);
    put_entry(fixture, entry_of(1, 7, n1));
    put_entry(fixture, entry_of(2, 7, n2));
    expect_refusal(fixture, STATUS_CORRUPT, "twice");
}

#define IN_A_LOG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_LOG(what_a_restore_wrote_is_read),
        IN_A_LOG(a_log_that_is_cut_off_anywhere_is_refused),
        IN_A_LOG(a_changed_byte_is_noticed),
        IN_A_LOG(a_log_that_etcd_went_on_with_is_refused),
        IN_A_LOG(a_log_that_etcd_began_is_refused),
        IN_A_LOG(writes_among_the_members_are_refused),
        IN_A_LOG(a_member_that_was_removed_is_refused),
        IN_A_LOG(members_that_cannot_be_are_refused),
        IN_A_LOG(a_log_without_its_own_member_is_refused),
        IN_A_LOG(more_members_than_there_can_be_are_refused),
        IN_A_LOG(one_member_twice_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
