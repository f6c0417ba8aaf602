#include "base/arena.h"
#include "base/crc32.h"
#include "replication/peer_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER = 0xc1, SELF = 2, OTHER = 3, PREFIX_SIZE = 4, BIRTH = 4 };

static struct arena arena;
static struct buffer buffer;

static int set_up(void **state) {
    arena_init(&arena);
    buffer_init(&buffer);
    return 0;
}

static int tear_down(void **state) {
    arena_clear(&arena);
    buffer_clear(&buffer);
    return 0;
}

/* In memory of exactly this size, so that a sanitizer sees every step outside. */
static uint8_t *exact(const void *data, size_t size) {
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    memcpy(copy, data, size);
    return copy;
}

/* --- The hello. --- */

static struct peer_hello a_hello(const char *address) {
    struct peer_hello hello = {.cluster_id = CLUSTER,
                               .from_id = OTHER,
                               .to_id = SELF,
                               .birth = BIRTH,
                               .purpose = PEER_FOR_LINK};
    snprintf(hello.address, sizeof hello.address, "%s", address);
    return hello;
}

static struct bytes written(void) {
    return bytes_of(buffer.data, buffer.size);
}

static enum peer_answer greet(struct bytes bytes, struct peer_hello *out_hello) {
    uint8_t *copy = exact(bytes.data, bytes.size);
    enum peer_answer answer =
        peer_hello_decode(bytes_of(copy, bytes.size), CLUSTER, SELF, out_hello);
    free(copy);
    return answer;
}

/* Puts the checksum right after a change. */
static void seal(void) {
    uint32_t checksum = crc32c(0, buffer.data, buffer.size - sizeof checksum);
    buffer.size -= sizeof checksum;
    buffer_put_u32(&buffer, checksum);
}

static void a_hello_comes_back_as_it_was(void **state) {
    char longest[PEER_ADDRESS_SIZE_MAX + 1];
    memset(longest, 'a', sizeof longest);
    longest[PEER_ADDRESS_SIZE_MAX] = '\0';
    const char *const addresses[] = {"", "127.0.0.1:1", "[::1]:2380", longest};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        for (enum peer_purpose purpose = PEER_FOR_RAFT; purpose <= PEER_FOR_LINK; purpose++) {
            struct peer_hello hello = a_hello(addresses[i]);
            struct peer_hello again;
            hello.purpose = purpose;
            buffer.size = 0;
            peer_hello_encode(&buffer, &hello);
            assert_true(buffer.size <= PEER_HELLO_SIZE_MAX);
            assert_int_equal(peer_hello_size(bytes_of(buffer.data, PEER_HELLO_PREFIX_SIZE)),
                             buffer.size);
            assert_int_equal(greet(written(), &again), PEER_WELCOME);
            assert_int_equal(again.cluster_id, CLUSTER);
            assert_int_equal(again.from_id, OTHER);
            assert_int_equal(again.to_id, SELF);
            assert_int_equal(again.purpose, purpose);
            assert_string_equal(again.address, addresses[i]);
        }
    }
}

static void a_hello_of_another_length_is_malformed(void **state) {
    struct peer_hello hello = a_hello("10.0.0.1:2380");
    struct peer_hello again;
    peer_hello_encode(&buffer, &hello);
    for (size_t size = 0; size < buffer.size; size++) {
        assert_int_equal(greet(bytes_of(buffer.data, size), &again), PEER_MALFORMED);
        size_t told = peer_hello_size(bytes_of(buffer.data, size));
        assert_int_equal(told, size < PEER_HELLO_PREFIX_SIZE ? 0 : buffer.size);
    }
    buffer_put_u8(&buffer, 0);
    assert_int_equal(greet(written(), &again), PEER_MALFORMED);
}

static void a_hello_with_any_bit_changed_is_not_welcome(void **state) {
    struct peer_hello hello = a_hello("10.0.0.1:2380");
    struct peer_hello again;
    peer_hello_encode(&buffer, &hello);
    for (size_t bit = 0; bit < buffer.size * 8; bit++) {
        buffer.data[bit / 8] ^= (uint8_t)(1 << (bit % 8));
        assert_int_not_equal(greet(written(), &again), PEER_WELCOME);
        buffer.data[bit / 8] ^= (uint8_t)(1 << (bit % 8));
    }
    assert_int_equal(greet(written(), &again), PEER_WELCOME);
}

static void another_version_is_told(void **state) {
    struct peer_hello hello = a_hello("a:1");
    struct peer_hello again;
    peer_hello_encode(&buffer, &hello);
    buffer.data[8]++;
    assert_int_equal(greet(written(), &again), PEER_OTHER_VERSION);
    seal();
    assert_int_equal(greet(written(), &again), PEER_OTHER_VERSION);
}

static void another_cluster_is_told_before_another_member(void **state) {
    struct peer_hello hello = a_hello("a:1");
    struct peer_hello again;
    hello.cluster_id++;
    hello.to_id++;
    peer_hello_encode(&buffer, &hello);
    assert_int_equal(greet(written(), &again), PEER_OTHER_CLUSTER);
    assert_string_equal(again.address, "a:1");
    hello.cluster_id = CLUSTER;
    buffer.size = 0;
    peer_hello_encode(&buffer, &hello);
    assert_int_equal(greet(written(), &again), PEER_OTHER_MEMBER);
    assert_int_equal(again.to_id, SELF + 1);
}

static void nobody_is_no_sender(void **state) {
    struct peer_hello hello = a_hello("a:1");
    struct peer_hello again;
    hello.from_id = 0;
    peer_hello_encode(&buffer, &hello);
    assert_int_equal(greet(written(), &again), PEER_MALFORMED);
}

static void a_purpose_we_do_not_know_is_malformed(void **state) {
    struct peer_hello hello = a_hello("a:1");
    struct peer_hello again;
    for (int purpose = 0; purpose < 256; purpose++) {
        hello.purpose = (enum peer_purpose)purpose;
        buffer.size = 0;
        peer_hello_encode(&buffer, &hello);
        bool is_known = purpose >= PEER_FOR_RAFT && purpose <= PEER_TO_ASK;
        assert_int_equal(greet(written(), &again), is_known ? PEER_WELCOME : PEER_MALFORMED);
    }
}

static void an_address_with_a_nul_is_malformed(void **state) {
    struct peer_hello hello = a_hello("10.0.0.1:2380");
    struct peer_hello again;
    peer_hello_encode(&buffer, &hello);
    size_t address = buffer.size - 4 - strlen(hello.address);
    for (size_t i = 0; i < strlen(hello.address); i++) {
        buffer.data[address + i] = '\0';
        seal();
        assert_int_equal(greet(written(), &again), PEER_MALFORMED);
        assert_string_equal(again.address, "");
        buffer.data[address + i] = (uint8_t)hello.address[i];
    }
}

/* A hello with an address of this size, although that is too long. */
static void put_hello_by_hand(uint32_t rest_size, uint32_t address_size, size_t n_bytes) {
    buffer.size = 0;
    buffer_append(&buffer, "leasedpr", 8);
    buffer_put_u32(&buffer, PEER_VERSION);
    buffer_put_u32(&buffer, rest_size);
    buffer_put_u64(&buffer, CLUSTER);
    buffer_put_u64(&buffer, OTHER);
    buffer_put_u64(&buffer, SELF);
    buffer_put_u64(&buffer, BIRTH);
    buffer_put_u8(&buffer, PEER_FOR_LINK);
    buffer_put_u32(&buffer, address_size);
    for (size_t i = 0; i < n_bytes; i++) {
        buffer_put_u8(&buffer, 'x');
    }
    buffer_put_u32(&buffer, 0);
    seal();
}

enum { HELLO_FIXED_SIZE = 4 * 8 + 1 + 4 + 4 };

static void an_address_that_is_too_long_is_malformed(void **state) {
    struct peer_hello again;
    uint32_t most = PEER_ADDRESS_SIZE_MAX;
    put_hello_by_hand(HELLO_FIXED_SIZE + most, most, most);
    assert_int_equal(greet(written(), &again), PEER_WELCOME);
    assert_int_equal(strlen(again.address), most);
    for (uint32_t more = 1; more < 100; more++) {
        put_hello_by_hand(HELLO_FIXED_SIZE + most + more, most + more, most + more);
        assert_int_equal(greet(written(), &again), PEER_MALFORMED);
    }
}

static void a_hello_that_lies_about_its_sizes_is_malformed(void **state) {
    static const uint32_t lies[] = {0, 1, 4, 6, 255, 256, 257, 0x7fffffff, 0xfffffffb, 0xffffffff};
    struct peer_hello again;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        put_hello_by_hand(HELLO_FIXED_SIZE + 5, lies[i], 5);
        assert_int_equal(greet(written(), &again), PEER_MALFORMED);
        put_hello_by_hand(lies[i], 5, 5);
        assert_int_equal(greet(written(), &again), PEER_MALFORMED);
        assert_true(peer_hello_size(written()) <= PEER_HELLO_SIZE_MAX);
        /* A hello too small for its fixed parts, told truly. */
        buffer.size = lies[i] < 32 ? PEER_HELLO_PREFIX_SIZE + lies[i] : buffer.size;
        assert_int_equal(greet(written(), &again), PEER_MALFORMED);
    }
}

static void every_answer_has_a_text(void **state) {
    for (int i = 0; i < 256; i++) {
        assert_true(strlen(peer_answer_text((enum peer_answer)i)) > 0);
    }
}

/* --- Frames. --- */

static const struct peer_renewal renewals[] = {
    {.token = 1, .id = INT64_MAX}, {.token = UINT64_MAX, .id = INT64_MIN, .only_ask = true}, {0}};
static const struct peer_renewal_result results[] = {
    {.token = 1, .status = STATUS_OK, .ttl_ms = INT64_MAX},
    {.token = UINT64_MAX, .status = STATUS_LEASE_NOT_FOUND, .ttl_ms = -1},
    {.status = STATUS_IO}};

static const struct member_facts *a_member(uint64_t id) {
    static struct member_facts facts;
    facts = (struct member_facts){.id = id,
                                  .role = MEMBER_LEARNER,
                                  .is_started = true,
                                  .name = bytes_from_text("name"),
                                  .n_peer_urls = 2,
                                  .n_client_urls = 1};
    facts.peer_urls[0] = bytes_from_text("http://a:1");
    facts.peer_urls[1] = bytes_from_text("http://b:2");
    facts.client_urls[0] = bytes_from_text("http://c:3");
    return &facts;
}

static void assert_same_member(const struct member_facts *a, const struct member_facts *b) {
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->is_started, b->is_started);
    assert_true(bytes_equal(a->name, b->name));
    assert_int_equal(a->n_peer_urls, b->n_peer_urls);
    for (size_t i = 0; i < a->n_peer_urls; i++) {
        assert_true(bytes_equal(a->peer_urls[i], b->peer_urls[i]));
    }
    assert_int_equal(a->n_client_urls, b->n_client_urls);
    assert_true(bytes_equal(a->client_urls[0], b->client_urls[0]));
}

enum { FRAMES = 17 };

/* One of every kind, small and large. */
static struct peer_frame a_frame(size_t i) {
    switch (i) {
    case 0:
        return (struct peer_frame){.type = PEER_PING, .ping = {.term = 7, .sent_ms = 12345}};
    case 1:
        return (struct peer_frame){.type = PEER_PONG,
                                   .pong = {.term = UINT64_MAX, .sent_ms = UINT64_MAX}};
    case 2:
        return (struct peer_frame){.type = PEER_PROPOSE,
                                   .propose = {.incarnation = UINT64_MAX - 1,
                                               .sequence = 300,
                                               .acknowledged = 299,
                                               .n_commands = 2,
                                               .commands = bytes_from_text("commands")}};
    case 3:
        return (struct peer_frame){.type = PEER_PROPOSE};
    case 4:
        return (struct peer_frame){
            .type = PEER_PROPOSE_REFUSED,
            .propose_refused = {.sequence = 300, .status = STATUS_NO_LEADER}};
    case 5:
        return (struct peer_frame){.type = PEER_READ, .read.token = 1ULL << 40};
    case 6:
        return (struct peer_frame){
            .type = PEER_READ_RESULT,
            .read_result = {.token = 9, .status = STATUS_COUNT - 1, .index = UINT64_MAX}};
    case 7:
        return (struct peer_frame){.type = PEER_RENEW, .renew = {.n = 3, .renewals = renewals}};
    case 8:
        return (struct peer_frame){.type = PEER_RENEW};
    case 9:
        return (struct peer_frame){.type = PEER_RENEW_RESULT,
                                   .renew_result = {.n = 3, .results = results}};
    case 10:
        return (struct peer_frame){.type = PEER_RENEW_RESULT};
    case 11:
        return (struct peer_frame){.type = PEER_PING};
    case 12:
        return (struct peer_frame){.type = PEER_RELEASE, .release = {.term = 7, .sent_ms = 12345}};
    case 13:
        return (struct peer_frame){
            .type = PEER_CHANGE,
            .change = {.token = 5, .action = MEMBER_ADD, .facts = a_member(1)}};
    case 14:
        return (struct peer_frame){
            .type = PEER_CHANGE_RESULT,
            .change_result = {
                .token = 5, .status = STATUS_UNHEALTHY, .id = UINT64_MAX, .index = UINT64_MAX}};
    case 15:
        return (struct peer_frame){.type = PEER_MEMBERS,
                                   .members = {.cluster_id = UINT64_MAX,
                                               .token_hash = 1,
                                               .is_removed = true,
                                               .n = 1,
                                               .members = a_member(7)}};
    default:
        return (struct peer_frame){.type = PEER_READ};
    }
}

static void assert_same_frame(const struct peer_frame *a, const struct peer_frame *b) {
    assert_int_equal(a->type, b->type);
    switch (a->type) {
    case PEER_CHANGE:
        assert_int_equal(a->change.token, b->change.token);
        assert_int_equal(a->change.action, b->change.action);
        assert_same_member(a->change.facts, b->change.facts);
        return;
    case PEER_CHANGE_RESULT:
        assert_int_equal(a->change_result.token, b->change_result.token);
        assert_int_equal(a->change_result.status, b->change_result.status);
        assert_int_equal(a->change_result.id, b->change_result.id);
        assert_int_equal(a->change_result.index, b->change_result.index);
        return;
    case PEER_MEMBERS:
        assert_int_equal(a->members.cluster_id, b->members.cluster_id);
        assert_int_equal(a->members.token_hash, b->members.token_hash);
        assert_int_equal(a->members.is_removed, b->members.is_removed);
        assert_int_equal(a->members.n, b->members.n);
        for (size_t i = 0; i < a->members.n; i++) {
            assert_same_member(&a->members.members[i], &b->members.members[i]);
        }
        return;
    case PEER_PING:
    case PEER_PONG:
    case PEER_RELEASE:
        assert_int_equal(a->ping.term, b->ping.term);
        assert_int_equal(a->ping.sent_ms, b->ping.sent_ms);
        return;
    case PEER_PROPOSE:
        assert_int_equal(a->propose.incarnation, b->propose.incarnation);
        assert_int_equal(a->propose.sequence, b->propose.sequence);
        assert_int_equal(a->propose.acknowledged, b->propose.acknowledged);
        assert_int_equal(a->propose.n_commands, b->propose.n_commands);
        assert_true(bytes_equal(a->propose.commands, b->propose.commands));
        return;
    case PEER_PROPOSE_REFUSED:
        assert_int_equal(a->propose_refused.sequence, b->propose_refused.sequence);
        assert_int_equal(a->propose_refused.status, b->propose_refused.status);
        return;
    case PEER_READ:
        assert_int_equal(a->read.token, b->read.token);
        return;
    case PEER_READ_RESULT:
        assert_int_equal(a->read_result.token, b->read_result.token);
        assert_int_equal(a->read_result.status, b->read_result.status);
        assert_int_equal(a->read_result.index, b->read_result.index);
        return;
    case PEER_RENEW:
        assert_int_equal(a->renew.n, b->renew.n);
        for (size_t i = 0; i < a->renew.n; i++) {
            assert_int_equal(a->renew.renewals[i].token, b->renew.renewals[i].token);
            assert_int_equal(a->renew.renewals[i].id, b->renew.renewals[i].id);
            assert_int_equal(a->renew.renewals[i].only_ask, b->renew.renewals[i].only_ask);
        }
        return;
    case PEER_RENEW_RESULT:
        assert_int_equal(a->renew_result.n, b->renew_result.n);
        for (size_t i = 0; i < a->renew_result.n; i++) {
            assert_int_equal(a->renew_result.results[i].token, b->renew_result.results[i].token);
            assert_int_equal(a->renew_result.results[i].status, b->renew_result.results[i].status);
            assert_int_equal(a->renew_result.results[i].ttl_ms, b->renew_result.results[i].ttl_ms);
        }
        return;
    default:
        fail_msg("a frame of type %d", (int)a->type);
    }
}

static void every_frame_comes_back_as_it_was(void **state) {
    for (size_t i = 0; i < FRAMES; i++) {
        struct peer_frame frame = a_frame(i);
        buffer.size = 0;
        peer_frame_encode(&buffer, &frame);
        uint8_t *copy = exact(buffer.data, buffer.size);
        struct bytes bytes = bytes_of(copy, buffer.size);
        struct peer_frame again;
        assert_int_equal(peer_frame_decode(&bytes, &arena, &again), STATUS_OK);
        assert_int_equal(bytes.size, 0);
        assert_ptr_equal(bytes.data, copy + buffer.size);
        assert_same_frame(&frame, &again);
        arena_reset(&arena);
        free(copy);
    }
}

static void frames_follow_each_other(void **state) {
    for (size_t i = 0; i < FRAMES; i++) {
        struct peer_frame frame = a_frame(i);
        peer_frame_encode(&buffer, &frame);
    }
    struct bytes bytes = written();
    for (size_t i = 0; i < FRAMES; i++) {
        struct peer_frame frame = a_frame(i);
        struct peer_frame again;
        assert_int_equal(peer_frame_decode(&bytes, &arena, &again), STATUS_OK);
        assert_same_frame(&frame, &again);
    }
    assert_int_equal(bytes.size, 0);
    assert_int_equal(peer_frame_decode(&bytes, &arena, &(struct peer_frame){0}), STATUS_PENDING);
}

static enum status decode_exact(const uint8_t *data, size_t size) {
    uint8_t *copy = exact(data, size);
    struct bytes bytes = bytes_of(copy, size);
    struct peer_frame frame = {.type = 99};
    enum status status = peer_frame_decode(&bytes, &arena, &frame);
    if (status != STATUS_OK) {
        /* Nothing was taken and nothing was given. */
        assert_ptr_equal(bytes.data, copy);
        assert_int_equal(bytes.size, size);
        assert_int_equal(frame.type, 99);
    }
    arena_reset(&arena);
    free(copy);
    return status;
}

static void set_size(uint32_t size) {
    for (unsigned i = 0; i < PREFIX_SIZE; i++) {
        buffer.data[i] = (uint8_t)(size >> (8 * i));
    }
}

static void a_frame_cut_short_waits_for_the_rest(void **state) {
    for (size_t i = 0; i < FRAMES; i++) {
        struct peer_frame frame = a_frame(i);
        buffer.size = 0;
        peer_frame_encode(&buffer, &frame);
        for (size_t size = 0; size < buffer.size; size++) {
            assert_int_equal(decode_exact(buffer.data, size), STATUS_PENDING);
        }
    }
}

static void a_frame_whose_length_is_short_is_malformed(void **state) {
    for (size_t i = 0; i < FRAMES; i++) {
        struct peer_frame frame = a_frame(i);
        buffer.size = 0;
        peer_frame_encode(&buffer, &frame);
        for (size_t size = PREFIX_SIZE; size < buffer.size; size++) {
            set_size((uint32_t)(size - PREFIX_SIZE));
            assert_int_equal(decode_exact(buffer.data, size), STATUS_MALFORMED);
            /* What follows it is of no help. */
            assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_MALFORMED);
        }
        /* Nor is what stands behind its end. */
        buffer_put_u8(&buffer, 0);
        set_size((uint32_t)(buffer.size - PREFIX_SIZE));
        assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_MALFORMED);
    }
}

static void any_byte_may_be_wrong(void **state) {
    for (size_t i = 0; i < FRAMES; i++) {
        struct peer_frame frame = a_frame(i);
        buffer.size = 0;
        peer_frame_encode(&buffer, &frame);
        for (size_t at = 0; at < buffer.size; at++) {
            uint8_t right = buffer.data[at];
            for (int wrong = 0; wrong < 256; wrong++) {
                buffer.data[at] = (uint8_t)wrong;
                enum status status = decode_exact(buffer.data, buffer.size);
                assert_true(status == STATUS_OK || status == STATUS_PENDING ||
                            status == STATUS_MALFORMED || status == STATUS_REQUEST_TOO_LARGE);
            }
            buffer.data[at] = right;
        }
    }
}

static void unknown_types_are_malformed(void **state) {
    for (int type = 0; type < 256; type++) {
        buffer.size = 0;
        buffer_put_u32(&buffer, 1);
        buffer_put_u8(&buffer, (uint8_t)type);
        assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_MALFORMED);
        buffer.size = 0;
        buffer_put_u32(&buffer, 3);
        buffer_put_u8(&buffer, (uint8_t)type);
        buffer_put_u8(&buffer, 0);
        buffer_put_u8(&buffer, 0);
        bool is_whole = type == PEER_PING || type == PEER_PONG || type == PEER_RELEASE ||
                        type == PEER_PROPOSE_REFUSED;
        assert_int_equal(decode_exact(buffer.data, buffer.size),
                         is_whole ? STATUS_OK : STATUS_MALFORMED);
    }
    buffer.size = 0;
    buffer_put_u32(&buffer, 0);
    assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_MALFORMED);
}

static void lengths_beyond_the_limit_are_refused_at_once(void **state) {
    buffer_put_u32(&buffer, PEER_FRAME_SIZE_MAX);
    assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_PENDING);
    set_size(PEER_FRAME_SIZE_MAX + 1);
    assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_REQUEST_TOO_LARGE);
    set_size(UINT32_MAX);
    assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_REQUEST_TOO_LARGE);
}

static void lying_counts_are_malformed_and_cost_nothing(void **state) {
    static const uint64_t lies[] = {1, 2, 4, 1000, UINT32_MAX, UINT64_MAX / 24, UINT64_MAX};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        for (uint8_t type = PEER_RENEW; type <= PEER_RENEW_RESULT; type++) {
            buffer.size = 0;
            buffer_put_u32(&buffer, 0);
            buffer_put_u8(&buffer, type);
            buffer_put_varint(&buffer, lies[i]);
            buffer_put_u8(&buffer, 0);
            buffer_put_u8(&buffer, 0);
            set_size((uint32_t)(buffer.size - PREFIX_SIZE));
            assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_MALFORMED);
        }
        buffer.size = 0;
        buffer_put_u32(&buffer, 0);
        buffer_put_u8(&buffer, PEER_PROPOSE);
        buffer_put_u64(&buffer, 1);
        buffer_put_u8(&buffer, 1);
        buffer_put_u8(&buffer, 1);
        buffer_put_u8(&buffer, 1);
        buffer_put_varint(&buffer, lies[i]); /* the size of commands that are not there */
        set_size((uint32_t)(buffer.size - PREFIX_SIZE));
        assert_int_equal(decode_exact(buffer.data, buffer.size), STATUS_MALFORMED);
    }
}

static void statuses_we_do_not_know_are_malformed(void **state) {
    for (int status = 0; status < 256; status++) {
        struct peer_frame frame = {.type = PEER_PROPOSE_REFUSED};
        frame.propose_refused.status = (enum status)status;
        buffer.size = 0;
        peer_frame_encode(&buffer, &frame);
        assert_int_equal(decode_exact(buffer.data, buffer.size),
                         status < STATUS_COUNT ? STATUS_OK : STATUS_MALFORMED);
    }
}

static void flags_we_do_not_know_are_malformed(void **state) {
    struct peer_frame frame = {.type = PEER_RENEW, .renew = {.n = 1, .renewals = renewals + 2}};
    peer_frame_encode(&buffer, &frame);
    for (int flags = 0; flags < 256; flags++) {
        buffer.data[buffer.size - 1] = (uint8_t)flags;
        assert_int_equal(decode_exact(buffer.data, buffer.size),
                         flags <= 1 ? STATUS_OK : STATUS_MALFORMED);
    }
}

#define WIRE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WIRE_TEST(a_hello_comes_back_as_it_was),
        WIRE_TEST(a_hello_of_another_length_is_malformed),
        WIRE_TEST(a_hello_with_any_bit_changed_is_not_welcome),
        WIRE_TEST(another_version_is_told),
        WIRE_TEST(another_cluster_is_told_before_another_member),
        WIRE_TEST(nobody_is_no_sender),
        WIRE_TEST(a_purpose_we_do_not_know_is_malformed),
        WIRE_TEST(an_address_with_a_nul_is_malformed),
        WIRE_TEST(an_address_that_is_too_long_is_malformed),
        WIRE_TEST(a_hello_that_lies_about_its_sizes_is_malformed),
        WIRE_TEST(every_answer_has_a_text),
        WIRE_TEST(every_frame_comes_back_as_it_was),
        WIRE_TEST(frames_follow_each_other),
        WIRE_TEST(a_frame_cut_short_waits_for_the_rest),
        WIRE_TEST(a_frame_whose_length_is_short_is_malformed),
        WIRE_TEST(any_byte_may_be_wrong),
        WIRE_TEST(unknown_types_are_malformed),
        WIRE_TEST(lengths_beyond_the_limit_are_refused_at_once),
        WIRE_TEST(lying_counts_are_malformed_and_cost_nothing),
        WIRE_TEST(statuses_we_do_not_know_are_malformed),
        WIRE_TEST(flags_we_do_not_know_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
