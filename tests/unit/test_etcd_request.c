/* Requests are packed by protobuf-c from proto/, which knows nothing of our reader. */
#include "doors/etcd/etcd_request.h"

#include "proto/etcd.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define TOO_MUCH_OF_A_PATH "which/is/a/hundred/and/seven/bytes/and/not/one/more"

enum { PACKED_MAX = 4096 };

struct packed {
    uint8_t data[PACKED_MAX];
    size_t size;
};

static struct bytes pack(struct packed *packed, const ProtobufCMessage *message) {
    packed->size = protobuf_c_message_get_packed_size(message);
    assert_true(packed->size <= PACKED_MAX);
    protobuf_c_message_pack(message, packed->data);
    return bytes_of(packed->data, packed->size);
}
#define PACK(packed, message) pack(packed, &(message).base)

static ProtobufCBinaryData binary(const char *text) {
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

static void assert_bytes(struct bytes actual, const char *expected) {
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

static void a_range_arrives_with_every_option(void **state) {
    struct packed packed;
    Etcdserverpb__RangeRequest message = ETCDSERVERPB__RANGE_REQUEST__INIT;
    message.key = binary("a");
    message.range_end = binary("zz");
    message.limit = 7;
    message.revision = INT64_MAX;
    message.sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND;
    message.sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__MOD;
    message.serializable = 1;
    message.keys_only = 1;
    message.count_only = 1;
    message.min_mod_revision = 1;
    message.max_mod_revision = 2;
    message.min_create_revision = 3;
    message.max_create_revision = 4;
    struct etcd_range_request request;
    assert_null(etcd_request_range(PACK(&packed, message), &request));
    assert_bytes(request.range.key, "a");
    assert_bytes(request.range.range_end, "zz");
    assert_int_equal(request.range.limit, 7);
    assert_int_equal(request.range.revision, INT64_MAX);
    assert_int_equal(request.range.order, SORT_DESCENDING);
    assert_int_equal(request.range.target, SORT_BY_MOD);
    assert_true(request.serializable);
    assert_true(request.range.keys_only);
    assert_true(request.range.count_only);
    assert_int_equal(request.range.mod_revision_min, 1);
    assert_int_equal(request.range.mod_revision_max, 2);
    assert_int_equal(request.range.create_revision_min, 3);
    assert_int_equal(request.range.create_revision_max, 4);
}

static void an_unknown_sort_is_refused(void **state) {
    struct packed packed;
    struct etcd_range_request request;
    Etcdserverpb__RangeRequest message = ETCDSERVERPB__RANGE_REQUEST__INIT;
    message.key = binary("a");
    message.sort_order = (Etcdserverpb__RangeRequest__SortOrder)3;
    assert_ptr_equal(etcd_request_range(PACK(&packed, message), &request), &etcd_error_sort_option);
    message.sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__NONE;
    message.sort_target = (Etcdserverpb__RangeRequest__SortTarget)-1;
    assert_ptr_equal(etcd_request_range(PACK(&packed, message), &request), &etcd_error_sort_option);
}

static void a_range_without_key_is_refused(void **state) {
    struct etcd_range_request request;
    assert_ptr_equal(etcd_request_range(bytes_of("", 0), &request),
                     etcd_error_of(STATUS_KEY_EMPTY));
}

static void a_put_arrives_with_every_option(void **state) {
    struct packed packed;
    struct command command;
    Etcdserverpb__PutRequest message = ETCDSERVERPB__PUT_REQUEST__INIT;
    message.key = binary("key");
    message.value = binary("value");
    message.lease = -5;
    message.prev_kv = 1;
    assert_null(etcd_request_put(PACK(&packed, message), &command));
    assert_int_equal(command.type, COMMAND_PUT);
    assert_bytes(command.put.key, "key");
    assert_bytes(command.put.value, "value");
    assert_int_equal(command.put.lease_id, -5);
    assert_true(command.put.want_previous);
    message.ignore_value = 1;
    assert_null(etcd_request_put(PACK(&packed, message), &command));
    assert_int_equal(command_check(&command), STATUS_VALUE_PROVIDED);
    message.ignore_value = 0;
    message.ignore_lease = 1;
    assert_null(etcd_request_put(PACK(&packed, message), &command));
    assert_int_equal(command_check(&command), STATUS_LEASE_PROVIDED);
}

static void a_grant_counts_whole_seconds_and_at_least_one(void **state) {
    static const struct {
        int64_t seconds;
        int64_t ttl_ms;
    } cases[] = {{10, 10000}, {1, 1000},         {0, 1000},
                 {-5, 1000},  {INT64_MIN, 1000}, {ETCD_TTL_SECONDS_MAX, LEASE_TTL_MS_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct packed packed;
        struct command command;
        Etcdserverpb__LeaseGrantRequest message = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
        message.ttl = cases[i].seconds;
        message.id = -77;
        assert_null(etcd_request_grant(PACK(&packed, message), &command));
        assert_int_equal(command.grant.ttl_ms, cases[i].ttl_ms);
        assert_int_equal(command.grant.id, -77);
    }
}

static void a_ttl_above_the_largest_is_refused(void **state) {
    static const int64_t seconds[] = {ETCD_TTL_SECONDS_MAX + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        struct packed packed;
        struct command command;
        Etcdserverpb__LeaseGrantRequest message = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
        message.ttl = seconds[i];
        assert_ptr_equal(etcd_request_grant(PACK(&packed, message), &command),
                         etcd_error_of(STATUS_LEASE_TTL_TOO_LARGE));
    }
}

static void a_watch_arrives_with_every_option(void **state) {
    struct packed packed;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest__FilterType filters[] = {
        ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE};
    create.key = binary("k");
    create.range_end = binary("l");
    create.start_revision = 9;
    create.progress_notify = 1;
    create.prev_kv = 1;
    create.watch_id = 12;
    create.fragment = 1;
    create.n_filters = 1;
    create.filters = filters;
    Etcdserverpb__WatchRequest message = ETCDSERVERPB__WATCH_REQUEST__INIT;
    message.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    message.create_request = &create;
    struct etcd_watch_request request;
    assert_null(etcd_request_watch(PACK(&packed, message), &request));
    assert_int_equal(request.type, ETCD_WATCH_CREATE);
    assert_bytes(request.key, "k");
    assert_bytes(request.range_end, "l");
    assert_int_equal(request.start_revision, 9);
    assert_int_equal(request.watch_id, 12);
    assert_true(request.progress_notify);
    assert_true(request.want_previous);
    assert_true(request.fragment);
    assert_true(request.without_deletes);
    assert_false(request.without_puts);
}

/* Field 5 as two single varints, as encoders did before proto3. */
static void filters_may_come_one_by_one(void **state) {
    static const uint8_t message[] = {0x0a, 0x04, 0x28, 0x00, 0x28, 0x01};
    struct etcd_watch_request request;
    assert_null(etcd_request_watch(bytes_of(message, sizeof message), &request));
    assert_true(request.without_puts);
    assert_true(request.without_deletes);
}

static void a_watch_without_key_starts_at_the_smallest_key(void **state) {
    static const uint8_t message[] = {0x0a, 0x00};
    struct etcd_watch_request request;
    assert_null(etcd_request_watch(bytes_of(message, sizeof message), &request));
    assert_int_equal(request.key.size, 1);
    assert_int_equal(request.key.data[0], 0);
}

static void the_last_of_several_watch_requests_counts(void **state) {
    /* A creation, then a cancellation of 3. */
    static const uint8_t message[] = {0x0a, 0x03, 0x0a, 0x01, 'a', 0x12, 0x02, 0x08, 0x03};
    struct etcd_watch_request request;
    assert_null(etcd_request_watch(bytes_of(message, sizeof message), &request));
    assert_int_equal(request.type, ETCD_WATCH_CANCEL);
    assert_int_equal(request.watch_id, 3);
}

static void unknown_fields_are_skipped_whatever_their_type(void **state) {
    static const uint8_t message[] = {
        0x0a, 0x01, 'a',                                      /* key */
        0xa0, 0x06, 0x96, 0x01,                               /* 100: varint */
        0xa1, 0x06, 1,    2,    3,    4,    5,    6,    7, 8, /* 100: eight bytes */
        0xa2, 0x06, 0x02, 'x',  'y',                          /* 100: bytes */
        0xa3, 0x06, 0x0b, 0x08, 0x01, 0x0c, 0xa4, 0x06,       /* 100: a group with a group in it */
        0xa5, 0x06, 1,    2,    3,    4,                      /* 100: four bytes */
        0x18, 0x05,                                           /* limit */
    };
    struct etcd_range_request request;
    assert_null(etcd_request_range(bytes_of(message, sizeof message), &request));
    assert_bytes(request.range.key, "a");
    assert_int_equal(request.range.limit, 5);
}

static void assert_malformed(const uint8_t *data, size_t size) {
    struct etcd_range_request request;
    assert_ptr_equal(etcd_request_range(bytes_of(data, size), &request), &etcd_error_malformed);
}
#define ASSERT_MALFORMED(...)                                                                      \
    do {                                                                                           \
        static const uint8_t message_[] = {__VA_ARGS__};                                           \
        assert_malformed(message_, sizeof message_);                                               \
    } while (0)

static void malformed_messages_are_refused(void **state) {
    ASSERT_MALFORMED(0x0a);                                     /* no length */
    ASSERT_MALFORMED(0x0a, 0x02, 'a');                          /* a byte short */
    ASSERT_MALFORMED(0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f); /* a length near 2^42 */
    ASSERT_MALFORMED(0x08, 0x01);                               /* a number for a key */
    ASSERT_MALFORMED(0x1a, 0x01, 0x01);                         /* bytes for a limit */
    ASSERT_MALFORMED(0x00, 0x01);                               /* field 0 */
    ASSERT_MALFORMED(0x0f);                                     /* no such wire type */
    ASSERT_MALFORMED(0x18, 0x80);                               /* a varint without end */
    ASSERT_MALFORMED(0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
    ASSERT_MALFORMED(0xa3, 0x06);             /* a group without end */
    ASSERT_MALFORMED(0xa3, 0x06, 0xac, 0x06); /* the end of another group */
    ASSERT_MALFORMED(0xa4, 0x06);             /* an end without group */
    ASSERT_MALFORMED(0xa1, 0x06, 1, 2, 3);    /* less than eight bytes */
}

static void groups_nested_too_deep_are_refused(void **state) {
    uint8_t message[64];
    memset(message, 0x0b, sizeof message); /* a group in field 1, again and again */
    struct etcd_watch_request request;
    message[0] = 0x23; /* field 4, unknown to a watch request */
    assert_ptr_equal(etcd_request_watch(bytes_of(message, sizeof message), &request),
                     &etcd_error_malformed_stream);
}

static const struct etcd_error *add_request(char *url, struct member_facts *facts) {
    struct packed packed;
    Etcdserverpb__MemberAddRequest message = ETCDSERVERPB__MEMBER_ADD_REQUEST__INIT;
    message.n_peerurls = 1;
    message.peerurls = &url;
    message.islearner = 1;
    return etcd_request_member(PACK(&packed, message), MEMBER_ADD, facts);
}

static void a_new_member_arrives_with_its_urls_and_its_role(void **state) {
    struct packed packed;
    struct member_facts facts;
    char *urls[] = {"http://10.0.0.1:2380", "https://[::1]:2380"};
    Etcdserverpb__MemberAddRequest message = ETCDSERVERPB__MEMBER_ADD_REQUEST__INIT;
    message.n_peerurls = 2;
    message.peerurls = urls;
    assert_null(etcd_request_member(PACK(&packed, message), MEMBER_ADD, &facts));
    assert_int_equal(facts.n_peer_urls, 2);
    assert_bytes(facts.peer_urls[1], urls[1]);
    assert_int_equal(facts.role, MEMBER_VOTER);
    assert_null(add_request("http://node:1", &facts));
    assert_null(add_request("unix:///run/leased/n1.sock", &facts));
    assert_null(add_request("unixs://localhost:2380", &facts));
    assert_int_equal(facts.role, MEMBER_LEARNER);
}

static void peer_urls_that_nobody_could_dial_are_refused(void **state) {
    struct member_facts facts;
    char *urls[] = {"",
                    "node:2380",
                    "http://node",
                    "http://node:",
                    "http://:1",
                    "http://node:x1",
                    "http://node:1/a",
                    "ftp://node:1",
                    "http://a b:1",
                    "http://node:123456",
                    "http://u@node:1",
                    "unix://",
                    "unixx:///run/x",
                    "unix:///a,b",
                    "unix:///a b",
                    "unix:///run/a/path/that/is/longer/than/a/socket's/address/has/room/"
                    "for/" TOO_MUCH_OF_A_PATH};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        assert_ptr_equal(add_request(urls[i], &facts), &etcd_error_member_urls);
    }
    assert_ptr_equal(etcd_request_member(bytes_of("", 0), MEMBER_ADD, &facts),
                     &etcd_error_member_urls);
}

static void a_change_names_its_member(void **state) {
    struct packed packed;
    struct member_facts facts;
    char *url = "http://node:1";
    Etcdserverpb__MemberUpdateRequest update = ETCDSERVERPB__MEMBER_UPDATE_REQUEST__INIT;
    update.id = UINT64_MAX;
    update.n_peerurls = 1;
    update.peerurls = &url;
    assert_null(etcd_request_member(PACK(&packed, update), MEMBER_UPDATE, &facts));
    assert_int_equal(facts.id, UINT64_MAX);
    assert_bytes(facts.peer_urls[0], url);
    Etcdserverpb__MemberRemoveRequest remove = ETCDSERVERPB__MEMBER_REMOVE_REQUEST__INIT;
    remove.id = 7;
    assert_null(etcd_request_member(PACK(&packed, remove), MEMBER_REMOVE, &facts));
    assert_int_equal(facts.id, 7);
    assert_int_equal(facts.n_peer_urls, 0);
    remove.id = 0;
    assert_ptr_equal(etcd_request_member(PACK(&packed, remove), MEMBER_REMOVE, &facts),
                     etcd_error_of(STATUS_MEMBER_NOT_FOUND));
}

static void alarms_that_do_not_exist_are_refused(void **state) {
    struct packed packed;
    struct etcd_alarm_request request;
    Etcdserverpb__AlarmRequest message = ETCDSERVERPB__ALARM_REQUEST__INIT;
    message.action = ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__ACTIVATE;
    message.memberid = 5;
    message.alarm = ETCDSERVERPB__ALARM_TYPE__NOSPACE;
    assert_null(etcd_request_alarm(PACK(&packed, message), &request));
    assert_int_equal(request.action, ETCD_ALARM_ACTIVATE);
    assert_int_equal(request.member_id, 5);
    assert_int_equal(request.alarm, ALARM_NO_SPACE);
    message.alarm = (Etcdserverpb__AlarmType)9;
    assert_ptr_equal(etcd_request_alarm(PACK(&packed, message), &request), &etcd_error_alarm);
    message.alarm = ETCDSERVERPB__ALARM_TYPE__NONE;
    message.action = (Etcdserverpb__AlarmRequest__AlarmAction)9;
    assert_ptr_equal(etcd_request_alarm(PACK(&packed, message), &request), &etcd_error_alarm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_arrives_with_every_option),
        cmocka_unit_test(an_unknown_sort_is_refused),
        cmocka_unit_test(a_range_without_key_is_refused),
        cmocka_unit_test(a_put_arrives_with_every_option),
        cmocka_unit_test(a_grant_counts_whole_seconds_and_at_least_one),
        cmocka_unit_test(a_ttl_above_the_largest_is_refused),
        cmocka_unit_test(a_watch_arrives_with_every_option),
        cmocka_unit_test(filters_may_come_one_by_one),
        cmocka_unit_test(a_watch_without_key_starts_at_the_smallest_key),
        cmocka_unit_test(the_last_of_several_watch_requests_counts),
        cmocka_unit_test(unknown_fields_are_skipped_whatever_their_type),
        cmocka_unit_test(malformed_messages_are_refused),
        cmocka_unit_test(groups_nested_too_deep_are_refused),
        cmocka_unit_test(a_new_member_arrives_with_its_urls_and_its_role),
        cmocka_unit_test(peer_urls_that_nobody_could_dial_are_refused),
        cmocka_unit_test(a_change_names_its_member),
        cmocka_unit_test(alarms_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
