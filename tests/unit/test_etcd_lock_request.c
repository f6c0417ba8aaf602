/* Requests are packed by protobuf-c from proto/, which knows nothing of our reader. */
#include "doors/etcd/etcd_lock_request.h"

#include "proto/etcd_election.pb-c.h"
#include "proto/etcd_lock.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum { PACKED_MAX = 256 };

struct packed {
    uint8_t data[PACKED_MAX];
};

static struct bytes pack(struct packed *packed, const ProtobufCMessage *message) {
    size_t size = protobuf_c_message_get_packed_size(message);
    assert_true(size <= PACKED_MAX);
    protobuf_c_message_pack(message, packed->data);
    return bytes_of(packed->data, size);
}
#define PACK(packed, message) pack(packed, &(message).base)

static ProtobufCBinaryData binary(const char *text) {
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

static void assert_bytes(struct bytes actual, const char *expected) {
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

static void a_lock_and_a_campaign_arrive(void **state) {
    struct packed packed;
    struct etcd_queue_request request;
    (void)state;
    V3lockpb__LockRequest lock = V3LOCKPB__LOCK_REQUEST__INIT;
    lock.name = binary("n");
    lock.lease = -5;
    assert_null(etcd_request_queue(PACK(&packed, lock), &request));
    assert_bytes(request.name, "n");
    assert_bytes(request.value, "");
    assert_int_equal(request.lease_id, -5);
    V3electionpb__CampaignRequest campaign = V3ELECTIONPB__CAMPAIGN_REQUEST__INIT;
    campaign.name = binary("e");
    campaign.value = binary("v");
    assert_null(etcd_request_queue(PACK(&packed, campaign), &request));
    assert_bytes(request.name, "e");
    assert_bytes(request.value, "v");
    assert_int_equal(request.lease_id, 0);
}

static void an_unlock_arrives(void **state) {
    struct packed packed;
    struct etcd_unlock_request request;
    (void)state;
    V3lockpb__UnlockRequest unlock = V3LOCKPB__UNLOCK_REQUEST__INIT;
    unlock.key = binary("n/1");
    unlock.revision = 77;
    assert_null(etcd_request_unlock(PACK(&packed, unlock), &request));
    assert_bytes(request.key, "n/1");
    assert_int_equal(request.revision, 77);
}

static void a_leadership_arrives(void **state) {
    struct packed packed;
    struct etcd_leadership_request request;
    (void)state;
    V3electionpb__LeaderKey leader = V3ELECTIONPB__LEADER_KEY__INIT;
    leader.name = binary("e");
    leader.key = binary("e/1");
    leader.rev = 9;
    leader.lease = 1;
    V3electionpb__ProclaimRequest proclaim = V3ELECTIONPB__PROCLAIM_REQUEST__INIT;
    proclaim.leader = &leader;
    proclaim.value = binary("v");
    assert_null(etcd_request_leadership(PACK(&packed, proclaim), &request));
    assert_bytes(request.key, "e/1");
    assert_bytes(request.value, "v");
    assert_int_equal(request.revision, 9);
    assert_int_equal(request.lease_id, 1);
    proclaim.leader = NULL;
    const struct etcd_error *error = etcd_request_leadership(PACK(&packed, proclaim), &request);
    assert_string_equal(error->text, "\"leader\" field must be provided");
    assert_int_equal(error->code, GRPC_UNKNOWN);
}

static void malformed_messages_are_refused(void **state) {
    struct etcd_queue_request queue;
    struct etcd_unlock_request unlock;
    struct etcd_leadership_request leadership;
    (void)state;
    static const char *const messages[] = {"\x0a\x05n", "\x10", "\x0a\x02\x12\x05", "\xff"};
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        struct bytes message = bytes_from_text(messages[i]);
        assert_ptr_equal(etcd_request_leadership(message, &leadership), &etcd_error_malformed);
        if (i != 2) { /* a message within a message, which is bytes to others */
            assert_ptr_equal(etcd_request_queue(message, &queue), &etcd_error_malformed);
            assert_ptr_equal(etcd_request_unlock(message, &unlock), &etcd_error_malformed);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_and_a_campaign_arrive),
        cmocka_unit_test(an_unlock_arrives),
        cmocka_unit_test(a_leadership_arrives),
        cmocka_unit_test(malformed_messages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
