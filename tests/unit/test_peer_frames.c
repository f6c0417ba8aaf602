#include "base/arena.h"
#include "replication/peer_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

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
    if (size > 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

static const struct peer_renewal renewals[] = {
    {.request_id = 1, .id = INT64_MAX, .owner = KEY_SPACE_ETCD},
    {.request_id = UINT64_MAX, .id = INT64_MIN, .owner = KEY_SPACE_ETCD, .only_ask = true},
    {.owner = KEY_SPACE_ETCD}};
static const struct peer_renewal_result results[] = {
    {.request_id = 1, .status = STATUS_OK, .ttl_ms = INT64_MAX},
    {.request_id = UINT64_MAX, .status = STATUS_LEASE_NOT_FOUND, .ttl_ms = 0},
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

static void assert_same_caller(const struct caller *a, const struct caller *b) {
    assert_int_equal(a->user_id, b->user_id);
    assert_int_equal(a->auth_version, b->auth_version);
    assert_int_equal(a->kind, b->kind);
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

static const struct peer_renewal renewals_as[] = {
    {.request_id = 1,
     .id = -5,
     .owner = KEY_SPACE_ETCD,
     .caller = {.user_id = 7, .auth_version = UINT64_MAX}},
    {.request_id = 2,
     .id = 6,
     .owner = KEY_SPACE_SAMPLE,
     .only_ask = true,
     .shows_keys = true,
     .caller = {.user_id = 8}},
    {.request_id = 3, .id = 7, .caller = {.kind = CALLER_SERVER}}};

enum { FRAMES = 19 };

/* One of every kind, small and large. */
static struct peer_frame a_frame(size_t i) {
    switch (i) {
    case 0:
        return (struct peer_frame){.type = PEER_PING,
                                   .ping = {.term = 7, .sent_ms = 12345, .lease_ms = 300}};
    case 1:
        return (struct peer_frame){
            .type = PEER_PONG,
            .pong = {.term = UINT64_MAX, .sent_ms = UINT64_MAX, .lease_ms = UINT32_MAX}};
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
        return (struct peer_frame){.type = PEER_READ, .read.request_id = 1ULL << 40};
    case 6:
        return (struct peer_frame){
            .type = PEER_READ_RESULT,
            .read_result = {.request_id = 9, .status = STATUS_COUNT - 1, .index = UINT64_MAX}};
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
            .change = {.request_id = 5, .action = MEMBER_ADD, .facts = a_member(1)}};
    case 14:
        return (struct peer_frame){.type = PEER_CHANGE_RESULT,
                                   .change_result = {.request_id = 5,
                                                     .status = STATUS_UNHEALTHY,
                                                     .id = UINT64_MAX,
                                                     .index = UINT64_MAX}};
    case 17:
        return (struct peer_frame){.type = PEER_RENEW_AS,
                                   .renew = {.n = 3, .renewals = renewals_as}};
    case 18:
        return (struct peer_frame){.type = PEER_CHANGE_AS,
                                   .change = {.request_id = 5,
                                              .action = MEMBER_ADD,
                                              .facts = a_member(1),
                                              .caller = {.user_id = 9, .auth_version = 10}}};
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
    case PEER_CHANGE_AS:
        assert_same_caller(&a->change.caller, &b->change.caller);
        /* fall through */
    case PEER_CHANGE:
        assert_int_equal(a->change.request_id, b->change.request_id);
        assert_int_equal(a->change.action, b->change.action);
        assert_same_member(a->change.facts, b->change.facts);
        return;
    case PEER_CHANGE_RESULT:
        assert_int_equal(a->change_result.request_id, b->change_result.request_id);
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
        assert_int_equal(a->ping.lease_ms, b->ping.lease_ms);
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
        assert_int_equal(a->read.request_id, b->read.request_id);
        return;
    case PEER_READ_RESULT:
        assert_int_equal(a->read_result.request_id, b->read_result.request_id);
        assert_int_equal(a->read_result.status, b->read_result.status);
        assert_int_equal(a->read_result.index, b->read_result.index);
        return;
    case PEER_RENEW:
    case PEER_RENEW_AS:
        assert_int_equal(a->renew.n, b->renew.n);
        for (size_t i = 0; i < a->renew.n; i++) {
            assert_int_equal(a->renew.renewals[i].request_id, b->renew.renewals[i].request_id);
            assert_int_equal(a->renew.renewals[i].id, b->renew.renewals[i].id);
            assert_int_equal(a->renew.renewals[i].owner.value, b->renew.renewals[i].owner.value);
            assert_int_equal(a->renew.renewals[i].only_ask, b->renew.renewals[i].only_ask);
            assert_int_equal(a->renew.renewals[i].shows_keys, b->renew.renewals[i].shows_keys);
            assert_same_caller(&a->renew.renewals[i].caller, &b->renew.renewals[i].caller);
        }
        return;
    case PEER_RENEW_RESULT:
        assert_int_equal(a->renew_result.n, b->renew_result.n);
        for (size_t i = 0; i < a->renew_result.n; i++) {
            assert_int_equal(a->renew_result.results[i].request_id,
                             b->renew_result.results[i].request_id);
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
        struct peer_frame again;
        assert_int_equal(
            peer_frame_decode((uint8_t)frame.type, bytes_of(copy, buffer.size), &arena, &again),
            STATUS_OK);
        assert_same_frame(&frame, &again);
        arena_reset(&arena);
        free(copy);
    }
}

static enum status decode_exact(uint8_t type, const uint8_t *data, size_t size) {
    uint8_t *copy = exact(data, size);
    struct peer_frame frame = {.type = 99};
    enum status status = peer_frame_decode(type, bytes_of(copy, size), &arena, &frame);
    if (status != STATUS_OK) {
        assert_int_equal(frame.type, 99); /* nothing was given */
    }
    arena_reset(&arena);
    free(copy);
    return status;
}

static void a_body_of_another_length_is_malformed(void **state) {
    for (size_t i = 0; i < FRAMES; i++) {
        struct peer_frame frame = a_frame(i);
        buffer.size = 0;
        peer_frame_encode(&buffer, &frame);
        for (size_t size = 0; size < buffer.size; size++) {
            assert_int_equal(decode_exact((uint8_t)frame.type, buffer.data, size),
                             STATUS_MALFORMED);
        }
        buffer_put_u8(&buffer, 0);
        assert_int_equal(decode_exact((uint8_t)frame.type, buffer.data, buffer.size),
                         STATUS_MALFORMED);
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
                enum status status = decode_exact((uint8_t)frame.type, buffer.data, buffer.size);
                assert_true(status == STATUS_OK || status == STATUS_MALFORMED);
            }
            buffer.data[at] = right;
        }
    }
}

static void unknown_types_are_malformed(void **state) {
    static const uint8_t zeros[3] = {0};
    for (int type = 0; type < 256; type++) {
        assert_int_equal(decode_exact((uint8_t)type, zeros, 0), STATUS_MALFORMED);
        bool is_whole = type == PEER_PING || type == PEER_PONG || type == PEER_RELEASE ||
                        type == PEER_READ_RESULT;
        assert_int_equal(decode_exact((uint8_t)type, zeros, sizeof zeros),
                         is_whole ? STATUS_OK : STATUS_MALFORMED);
    }
}

static void lying_counts_are_malformed_and_cost_nothing(void **state) {
    static const uint64_t lies[] = {1, 2, 4, 1000, UINT32_MAX, UINT64_MAX / 24, UINT64_MAX};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        for (uint8_t type = PEER_RENEW; type <= PEER_RENEW_RESULT; type++) {
            buffer.size = 0;
            buffer_put_varint(&buffer, lies[i]);
            buffer_put_u8(&buffer, 0);
            buffer_put_u8(&buffer, 0);
            assert_int_equal(decode_exact(type, buffer.data, buffer.size), STATUS_MALFORMED);
        }
        buffer.size = 0;
        buffer_put_u64(&buffer, 1);
        buffer_put_u8(&buffer, 1);
        buffer_put_u8(&buffer, 1);
        buffer_put_u8(&buffer, 1);
        buffer_put_varint(&buffer, lies[i]); /* the size of commands that are not there */
        assert_int_equal(decode_exact(PEER_PROPOSE, buffer.data, buffer.size), STATUS_MALFORMED);
    }
}

static void a_frame_has_a_bounded_number_of_renewals(void **state) {
    for (uint8_t type = PEER_RENEW; type <= PEER_RENEW_RESULT; type++) {
        for (size_t n = PEER_RENEWALS_MAX; n <= PEER_RENEWALS_MAX + 1; n++) {
            buffer.size = 0;
            buffer_put_varint(&buffer, n);
            for (size_t i = 0; i < 3 * n; i++) {
                buffer_put_u8(&buffer, 0);
            }
            assert_int_equal(decode_exact(type, buffer.data, buffer.size),
                             n == PEER_RENEWALS_MAX ? STATUS_OK : STATUS_MALFORMED);
        }
    }
}

static void a_time_that_no_lease_can_have_left_is_malformed(void **state) {
    static const uint64_t times_ms[] = {0, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        buffer.size = 0;
        buffer_put_varint(&buffer, 1);
        buffer_put_varint(&buffer, 7);
        buffer_put_u8(&buffer, STATUS_OK);
        buffer_put_varint(&buffer, times_ms[i]);
        assert_int_equal(decode_exact(PEER_RENEW_RESULT, buffer.data, buffer.size),
                         times_ms[i] <= INT64_MAX ? STATUS_OK : STATUS_MALFORMED);
    }
}

static void statuses_we_do_not_know_are_malformed(void **state) {
    for (int status = 0; status < 256; status++) {
        struct peer_frame frame = {.type = PEER_PROPOSE_REFUSED};
        frame.propose_refused.status = (enum status)status;
        buffer.size = 0;
        peer_frame_encode(&buffer, &frame);
        assert_int_equal(decode_exact(PEER_PROPOSE_REFUSED, buffer.data, buffer.size),
                         status < STATUS_COUNT ? STATUS_OK : STATUS_MALFORMED);
    }
}

static void flags_we_do_not_know_are_malformed(void **state) {
    struct peer_frame frame = {.type = PEER_RENEW, .renew = {.n = 1, .renewals = renewals + 2}};
    peer_frame_encode(&buffer, &frame);
    for (int flags = 0; flags < 256; flags++) {
        buffer.data[buffer.size - 1] = (uint8_t)flags;
        assert_int_equal(decode_exact(PEER_RENEW, buffer.data, buffer.size),
                         flags <= 1 ? STATUS_OK : STATUS_MALFORMED);
    }
}

#define FRAME_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        FRAME_TEST(every_frame_comes_back_as_it_was),
        FRAME_TEST(a_body_of_another_length_is_malformed),
        FRAME_TEST(any_byte_may_be_wrong),
        FRAME_TEST(unknown_types_are_malformed),
        FRAME_TEST(lying_counts_are_malformed_and_cost_nothing),
        FRAME_TEST(a_frame_has_a_bounded_number_of_renewals),
        FRAME_TEST(a_time_that_no_lease_can_have_left_is_malformed),
        FRAME_TEST(statuses_we_do_not_know_are_malformed),
        FRAME_TEST(flags_we_do_not_know_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
