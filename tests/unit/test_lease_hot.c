/* What is coded by hand against what protobuf-c makes of the same messages, and against rubbish. */
#include "client/lease_hot.h"
#include "client/proto_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MESSAGE_SIZE_MAX = 4096 };

static struct bytes pack(const ProtobufCMessage *message) {
    static uint8_t room[MESSAGE_SIZE_MAX];
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof room);
    return bytes_of(room, protobuf_c_message_pack(message, room));
}

static ProtobufCBinaryData data_of(const char *text) {
    return (ProtobufCBinaryData){.data = (uint8_t *)text, .len = strlen(text)};
}

static void a_renewal_is_read(void **state) {
    static const int64_t ids[] = {1, 127, 128, 0x7fffffffffffffff, -5};
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.cluster_id = UINT64_MAX;
    header.revision = 1234567;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        Etcdserverpb__LeaseKeepAliveResponse response =
            ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
        response.header = &header;
        response.id = ids[i];
        response.ttl = 600;
        struct lease_hot_renewal renewal;
        assert_true(lease_hot_renewal_decode(pack(&response.base), &renewal));
        assert_true(renewal.id == ids[i]);
        assert_int_equal(renewal.ttl_seconds, 600);
        response.ttl = 0; /* left out on the wire: there is no such lease */
        assert_true(lease_hot_renewal_decode(pack(&response.base), &renewal));
        assert_int_equal(renewal.ttl_seconds, 0);
    }
}

static void the_keys_of_a_range_are_counted(void **state) {
    Mvccpb__KeyValue kv = MVCCPB__KEY_VALUE__INIT;
    Mvccpb__KeyValue *kvs[] = {&kv, &kv, &kv};
    Etcdserverpb__RangeResponse response = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    kv.key = data_of("key");
    kv.value = data_of("value");
    response.kvs = kvs;
    response.count = 3;
    for (size_t n_kvs = 0; n_kvs <= 3; n_kvs++) {
        size_t count = 77;
        response.n_kvs = n_kvs;
        assert_true(lease_hot_range_count(pack(&response.base), &count));
        assert_int_equal(count, n_kvs);
    }
}

static struct bytes watch_message(void) {
    static Mvccpb__KeyValue kvs[2] = {MVCCPB__KEY_VALUE__INIT, MVCCPB__KEY_VALUE__INIT};
    static Mvccpb__Event events[2] = {MVCCPB__EVENT__INIT, MVCCPB__EVENT__INIT};
    static Mvccpb__Event *list[] = {&events[0], &events[1]};
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__WatchResponse response = ETCDSERVERPB__WATCH_RESPONSE__INIT;
    header.revision = 99;
    kvs[0].key = data_of("first");
    kvs[0].value = data_of("a value");
    kvs[1].key = data_of("second");
    kvs[1].mod_revision = 98;
    events[0].kv = &kvs[0];
    events[0].prev_kv = &kvs[1];
    events[1].type = MVCCPB__EVENT__EVENT_TYPE__DELETE;
    events[1].kv = &kvs[1];
    response.header = &header;
    response.watch_id = 5;
    response.events = list;
    response.n_events = 2;
    return pack(&response.base);
}

static void the_events_of_a_watch_come_in_order(void **state) {
    struct lease_hot_watch watch;
    struct lease_hot_event event;
    assert_true(lease_hot_watch_decode(watch_message(), &watch));
    assert_false(watch.created);
    assert_false(watch.canceled);
    assert_true(lease_hot_watch_next(&watch, &event));
    assert_true(bytes_equal(event.key, bytes_from_text("first")));
    assert_false(event.is_delete);
    assert_true(lease_hot_watch_next(&watch, &event));
    assert_true(bytes_equal(event.key, bytes_from_text("second")));
    assert_true(event.is_delete);
    assert_false(lease_hot_watch_next(&watch, &event));
    assert_false(watch.is_malformed);
}

static void a_watch_tells_of_its_beginning_and_end(void **state) {
    Etcdserverpb__WatchResponse response = ETCDSERVERPB__WATCH_RESPONSE__INIT;
    struct lease_hot_watch watch;
    struct lease_hot_event event;
    response.created = 1;
    assert_true(lease_hot_watch_decode(pack(&response.base), &watch));
    assert_true(watch.created);
    assert_false(lease_hot_watch_next(&watch, &event));
    response.created = 0;
    response.canceled = 1;
    response.cancel_reason = (char *)"because";
    assert_true(lease_hot_watch_decode(pack(&response.base), &watch));
    assert_true(watch.canceled);
    assert_true(bytes_equal(watch.cancel_reason, bytes_from_text("because")));
}

/* Cut anywhere, nothing is read past the end (the sanitizers look) and no event is made up. */
static void a_message_cut_off_gives_no_more_than_it_holds(void **state) {
    struct bytes whole = watch_message();
    for (size_t size = 0; size < whole.size; size++) {
        uint8_t *copy = malloc(size + 1);
        assert_non_null(copy);
        memcpy(copy, whole.data, size);
        struct lease_hot_watch watch;
        struct lease_hot_event event;
        size_t n_events = 0;
        size_t count;
        struct lease_hot_renewal renewal;
        if (lease_hot_watch_decode(bytes_of(copy, size), &watch)) {
            while (lease_hot_watch_next(&watch, &event)) {
                n_events++;
            }
        }
        assert_true(n_events < 2);
        lease_hot_range_count(bytes_of(copy, size), &count);
        lease_hot_renewal_decode(bytes_of(copy, size), &renewal);
        free(copy);
    }
}

static void what_is_no_message_is_refused(void **state) {
    static const struct bytes wrong[] = {
        {.data = (const uint8_t *)"\x10", .size = 1},         /* a field without its value */
        {.data = (const uint8_t *)"\x00\x01", .size = 2},     /* field number 0 */
        {.data = (const uint8_t *)"\x0b\x01", .size = 2},     /* a group */
        {.data = (const uint8_t *)"\x12\x7f\x01", .size = 3}, /* longer than the message */
        {.data = (const uint8_t *)"\x11\x01\x02", .size = 3}, /* eight bytes, of which two came */
        {.data = (const uint8_t *)"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", .size = 12},
        {.data = (const uint8_t *)"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", .size = 11},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct lease_hot_renewal renewal;
        size_t count;
        assert_false(lease_hot_renewal_decode(wrong[i], &renewal));
        assert_false(lease_hot_range_count(wrong[i], &count));
    }
}

static void fields_are_written_as_protobuf_writes_them(void **state) {
    static const uint64_t numbers[] = {0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint8_t ours[64];
        Etcdserverpb__LeaseGrantRequest grant = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
        grant.ttl = 60;
        grant.id = (int64_t)numbers[i];
        uint8_t *end = proto_write_number(ours, 1, 60);
        end = proto_write_number(end, 2, numbers[i]);
        assert_true(bytes_equal(bytes_of(ours, (size_t)(end - ours)), pack(&grant.base)));
    }
    uint8_t ours[64];
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    put.key = data_of("key");
    put.lease = 7;
    uint8_t *end = proto_write_bytes(ours, 1, bytes_from_text("key"));
    end = proto_write_bytes(end, 2, bytes_from_text(""));
    end = proto_write_number(end, 3, 7);
    assert_true(bytes_equal(bytes_of(ours, (size_t)(end - ours)), pack(&put.base)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renewal_is_read),
        cmocka_unit_test(the_keys_of_a_range_are_counted),
        cmocka_unit_test(the_events_of_a_watch_come_in_order),
        cmocka_unit_test(a_watch_tells_of_its_beginning_and_end),
        cmocka_unit_test(a_message_cut_off_gives_no_more_than_it_holds),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(fields_are_written_as_protobuf_writes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
