/* JSON into messages and messages into JSON, as the gateway does it. The generated code is the
 * second opinion about the messages. */
#include "net/grpc_json_reader.h"
#include "net/grpc_json_writer.h"
#include "proto/etcd.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char error[GRPC_JSON_ERROR_SIZE];

static bool read_into(const char *json, const ProtobufCMessageDescriptor *message,
                      struct buffer *out) {
    buffer_init(out);
    return grpc_json_read(bytes_from_text(json), message, out, error);
}

/* Read, unpacked by the generated code. */
static ProtobufCMessage *unpacked(const char *json, const ProtobufCMessageDescriptor *descriptor) {
    struct buffer out;
    if (!read_into(json, descriptor, &out)) {
        fail_msg("%s: %s", json, error);
    }
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, NULL, out.size, out.size > 0 ? out.data : NULL);
    assert_non_null(message);
    buffer_clear(&out);
    return message;
}

static void assert_refused(const char *json, const ProtobufCMessageDescriptor *message,
                           const char *text) {
    struct buffer out;
    if (read_into(json, message, &out)) {
        fail_msg("%s was read", json);
    }
    buffer_clear(&out);
    if (strstr(error, text) == NULL) {
        fail_msg("%s: %s, not %s", json, error, text);
    }
}

#define RANGE &etcdserverpb__range_request__descriptor
#define PUT &etcdserverpb__put_request__descriptor
#define TXN &etcdserverpb__txn_request__descriptor

/* --- the request --------------------------------------------------------------------------- */

static void assert_key(const char *json, const char *key, size_t size) {
    Etcdserverpb__PutRequest *put = (Etcdserverpb__PutRequest *)unpacked(json, PUT);
    assert_int_equal(put->key.len, size);
    assert_memory_equal(put->key.data, key, size);
    protobuf_c_message_free_unpacked(&put->base, NULL);
}

static void bytes_are_base64_of_either_alphabet(void **state) {
    (void)state;
    assert_key("{\"key\":\"Zm9v\"}", "foo", 3);
    assert_key("{\"key\":\"YQ==\"}", "a", 1);
    assert_key("{\"key\":\"YQ\"}", "a", 1);
    assert_key("{\"key\":\"YWI=\"}", "ab", 2);
    assert_key("{\"key\":\"YWI\"}", "ab", 2);
    assert_key("{\"key\":\"+/8=\"}", "\xfb\xff", 2);
    assert_key("{\"key\":\"-_8\"}", "\xfb\xff", 2);
    assert_key("{\"key\":\"\\/\\u002b8=\"}", "\xff\xef", 2);
    assert_key("{\"key\":\"Zm9v\\nZm9v\\r\\n\"}", "foofoo", 6);
    assert_key("{\"key\":\"\"}", "", 0);
    static const char *const bad[] = {
        "{\"key\":\"!\"}",   "{\"key\":\"Y\"}",      "{\"key\":\"YQ=\"}", "{\"key\":\"YQ===\"}",
        "{\"key\":\"=\"}",   "{\"key\":\"Zm9v=\"}",  "{\"key\":12}",      "{\"key\":\"YQ==YQ==\"}",
        "{\"key\":\"Y Q\"}", "{\"key\":[\"Zm9v\"]}", "{\"key\":true}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(bad[i], PUT, "field \"key\" must be a string of base64");
    }
}

static int64_t lease_of(const char *json) {
    Etcdserverpb__PutRequest *put = (Etcdserverpb__PutRequest *)unpacked(json, PUT);
    int64_t lease = put->lease;
    protobuf_c_message_free_unpacked(&put->base, NULL);
    return lease;
}

static void numbers_may_be_strings(void **state) {
    (void)state;
    assert_int_equal(lease_of("{\"lease\":12}"), 12);
    assert_int_equal(lease_of("{\"lease\":\"12\"}"), 12);
    assert_int_equal(lease_of("{\"lease\":-1}"), -1);
    assert_int_equal(lease_of("{\"lease\":9223372036854775807}"), INT64_MAX);
    assert_int_equal(lease_of("{\"lease\":\"-9223372036854775808\"}"), INT64_MIN);
    static const char *const bad[] = {
        "{\"lease\":9223372036854775808}",
        "{\"lease\":-9223372036854775809}",
        "{\"lease\":99999999999999999999999}",
        "{\"lease\":1.0}",
        "{\"lease\":1e0}",
        "{\"lease\":\"x\"}",
        "{\"lease\":\"\"}",
        "{\"lease\":\"-\"}",
        "{\"lease\":\" 1\"}",
        "{\"lease\":true}",
        "{\"lease\":{}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(bad[i], PUT, "field \"lease\" must be a whole number");
    }
    assert_refused("{\"ID\":-1}", &etcdserverpb__member_remove_request__descriptor, "positive");
    assert_refused("{\"prev_kv\":1}", PUT, "true or false");
    assert_refused("{\"prev_kv\":\"true\"}", PUT, "true or false");
}

static void fields_have_two_names(void **state) {
    (void)state;
    static const char *const both[] = {
        "{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"sort_order\":\"DESCEND\",\"sort_target\":3,"
        "\"min_mod_revision\":\"7\",\"keys_only\":true,\"what\":{\"is\":[1,{}]},\"limit\":null}",
        " { \"key\" : \"YQ==\" , \"rangeEnd\":\"Yg==\",\"sortOrder\":2,\"sortTarget\":\"MOD\",\n"
        "\"minModRevision\":7,\"keysOnly\":true } ",
    };
    for (size_t i = 0; i < 2; i++) {
        Etcdserverpb__RangeRequest *range = (Etcdserverpb__RangeRequest *)unpacked(both[i], RANGE);
        assert_int_equal(range->range_end.data[0], 'b');
        assert_int_equal(range->sort_order, ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND);
        assert_int_equal(range->sort_target, ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__MOD);
        assert_int_equal(range->min_mod_revision, 7);
        assert_int_equal(range->limit, 0);
        assert_true(range->keys_only);
        protobuf_c_message_free_unpacked(&range->base, NULL);
    }
    assert_refused("{\"sort_order\":\"SIDEWAYS\"}", RANGE, "unknown value \"SIDEWAYS\"");
    assert_refused("{\"range_end\":\"\",\"rangeEnd\":\"\"}", RANGE,
                   "duplicate field \"range_end\"");
}

static void transactions_are_nested_messages(void **state) {
    (void)state;
    Etcdserverpb__TxnRequest *txn = (Etcdserverpb__TxnRequest *)unpacked(
        "{\"compare\":[{\"result\":\"EQUAL\",\"target\":\"CREATE\",\"key\":\"YQ==\","
        "\"createRevision\":\"0\"},{\"target\":\"VALUE\",\"value\":\"\"}],"
        "\"success\":[{\"requestPut\":{\"key\":\"YQ==\"}},{\"request_txn\":{\"failure\":[{}]}}]}",
        TXN);
    assert_int_equal(txn->n_compare, 2);
    /* What was given counts, although it is zero. */
    assert_int_equal(txn->compare[0]->target_union_case,
                     ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION);
    assert_int_equal(txn->compare[1]->target_union_case, ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE);
    assert_int_equal(txn->n_success, 2);
    assert_int_equal(txn->success[0]->request_case, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT);
    assert_int_equal(txn->success[1]->request_txn->n_failure, 1);
    protobuf_c_message_free_unpacked(&txn->base, NULL);
    assert_refused("{\"success\":[{\"requestPut\":{},\"request_range\":{}}]}", TXN, "excludes");
    assert_refused("{\"success\":{}}", TXN, "must be an array");
    assert_refused("{\"success\":[null]}", TXN, "must be an object");
}

static void what_is_no_json_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{",
        "{\"key\"",
        "{\"key\":",
        "{\"key\":\"YQ==\"",
        "{,}",
        "{\"key\" 1}",
        "{\"lease\":1,}",
        "{\"lease\":1 2}",
        "{key:1}",
        "nope",
        "{\"x\":nul}",
        "{\"x\":01}",
        "{\"x\":-}",
        "{\"x\":1.}",
        "{\"x\":1e}",
        "{\"x\":\"\\x\"}",
        "{\"x\":\"\\u12\"}",
        "{\"x\":\"\n\"}",
        "{\"x\":[1,]}",
        "{\"x\":[}}",
        "{\"x\":\"\xff\"}",
        "{\"x\":+1}",
        "{\"x\":.5}",
        "{}{}",
        "{} x",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(bad[i], PUT, "invalid JSON at byte");
    }
    assert_refused("[]", PUT, "must be an object");
    assert_refused("12", PUT, "must be an object");
    struct buffer out;
    assert_true(read_into("null", PUT, &out));
    assert_int_equal(out.size, 0);
    buffer_clear(&out);
}

static void depth_is_bounded(void **state) {
    (void)state;
    char json[4096] = "{\"x\":";
    memset(json + 5, '[', 2000);
    assert_refused(json, PUT, "too deep");
    size_t size = 0;
    for (unsigned i = 0; i < 40; i++) {
        size += (size_t)sprintf(json + size, "{\"success\":[{\"request_txn\":");
    }
    sprintf(json + size, "{}");
    assert_refused(json, TXN, "too deep");
}

static void texts_are_utf8(void **state) {
    (void)state;
    Etcdserverpb__AuthUserGetRequest *get = (Etcdserverpb__AuthUserGetRequest *)unpacked(
        "{\"name\":\"\\ud83d\\ude00 \\u00e4 \\ud800 \xc3\xa4\\t\"}",
        &etcdserverpb__auth_user_get_request__descriptor);
    assert_string_equal(get->name, "\xf0\x9f\x98\x80 \xc3\xa4 \xef\xbf\xbd \xc3\xa4\t");
    protobuf_c_message_free_unpacked(&get->base, NULL);
}

/* --- the stream of values ------------------------------------------------------------------ */

static void values_are_cut_out_of_a_stream(void **state) {
    (void)state;
    static const char stream[] = " {\"a\":\"}\\\"\"} {\"b\":[{}]}12 null\"x\" {";
    static const char *const wanted[] = {" {\"a\":\"}\\\"\"}", " {\"b\":[{}]}", "12", " null",
                                         "\"x\""};
    for (size_t step = 1; step < sizeof stream; step++) {
        struct grpc_json_scanner scanner = {0};
        char value[64] = "";
        size_t n = 0;
        for (size_t at = 0; at < sizeof stream - 1; at += step) {
            size_t size = sizeof stream - 1 - at < step ? sizeof stream - 1 - at : step;
            struct bytes input = bytes_of(stream + at, size);
            while (input.size > 0) {
                struct bytes rest = input;
                bool is_whole = grpc_json_scanner_next(&scanner, &rest);
                strncat(value, (const char *)input.data, input.size - rest.size);
                input = rest;
                if (is_whole) {
                    assert_true(n < 5);
                    assert_string_equal(value, wanted[n++]);
                    value[0] = 0;
                    scanner = (struct grpc_json_scanner){0};
                }
            }
        }
        assert_int_equal(n, 5);
        assert_string_equal(value, " {");
    }
}

/* --- the answer ---------------------------------------------------------------------------- */

/* The message in pieces of every size gives the same JSON. */
static void assert_written(const ProtobufCMessage *message, const char *json) {
    uint8_t wire[1024];
    size_t size = protobuf_c_message_pack(message, wire);
    for (size_t step = 1; step <= size + 1; step++) {
        struct grpc_json_writer writer;
        struct buffer out;
        buffer_init(&out);
        grpc_json_writer_init(&writer, message->descriptor, size, &out);
        for (size_t at = 0; at < size; at += step) {
            size_t piece = size - at < step ? size - at : step;
            assert_true(grpc_json_writer_feed(&writer, bytes_of(wire + at, piece), &out));
        }
        assert_true(grpc_json_writer_is_done(&writer));
        buffer_put_u8(&out, 0);
        assert_string_equal(out.data, json);
        buffer_clear(&out);
    }
}

static ProtobufCBinaryData binary(const char *text) {
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static void messages_become_what_etcd_writes(void **state) {
    (void)state;
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.cluster_id = UINT64_MAX;
    header.revision = -7;
    Mvccpb__KeyValue one = MVCCPB__KEY_VALUE__INIT;
    one.key = binary("foo");
    one.value = binary("b");
    one.lease = INT64_MIN;
    Mvccpb__KeyValue two = MVCCPB__KEY_VALUE__INIT;
    two.key = binary("fo");
    Mvccpb__KeyValue *kvs[] = {&one, &two};
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    assert_written(&range.base, "{}");
    range.header = &header;
    range.kvs = kvs;
    range.n_kvs = 2;
    range.more = true;
    range.count = 2;
    assert_written(&range.base,
                   "{\"header\":{\"cluster_id\":\"18446744073709551615\",\"revision\":\"-7\"},"
                   "\"kvs\":[{\"key\":\"Zm9v\",\"value\":\"Yg==\","
                   "\"lease\":\"-9223372036854775808\"},{\"key\":\"Zm8=\"}],"
                   "\"more\":true,\"count\":\"2\"}");
    Mvccpb__Event event = MVCCPB__EVENT__INIT;
    event.type = MVCCPB__EVENT__EVENT_TYPE__DELETE;
    event.kv = &two;
    assert_written(&event.base, "{\"type\":\"DELETE\",\"kv\":{\"key\":\"Zm8=\"}}");
    event.type = (Mvccpb__Event__EventType)9;
    event.kv = NULL;
    assert_written(&event.base, "{\"type\":9}");
    ProtobufCBinaryData keys[] = {binary("a"), binary("")};
    Etcdserverpb__LeaseTimeToLiveResponse left = ETCDSERVERPB__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    left.ttl = -1;
    left.keys = keys;
    left.n_keys = 2;
    assert_written(&left.base, "{\"TTL\":\"-1\",\"keys\":[\"YQ==\",\"\"]}");
    Etcdserverpb__HashResponse hash = ETCDSERVERPB__HASH_RESPONSE__INIT;
    hash.hash = UINT32_MAX;
    assert_written(&hash.base, "{\"hash\":4294967295}");
}

static void empty_messages_are_objects(void **state) {
    (void)state;
    Etcdserverpb__PutResponse put = ETCDSERVERPB__PUT_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    put.header = &header;
    Etcdserverpb__ResponseOp operation = ETCDSERVERPB__RESPONSE_OP__INIT;
    operation.response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
    operation.response_put = &put;
    Etcdserverpb__ResponseOp none = ETCDSERVERPB__RESPONSE_OP__INIT;
    Etcdserverpb__ResponseOp *operations[] = {&operation, &none};
    Etcdserverpb__TxnResponse txn = ETCDSERVERPB__TXN_RESPONSE__INIT;
    txn.responses = operations;
    txn.n_responses = 2;
    assert_written(&txn.base, "{\"responses\":[{\"response_put\":{\"header\":{}}},{}]}");
}

static void texts_are_escaped(void **state) {
    (void)state;
    Etcdserverpb__AuthenticateResponse answer = ETCDSERVERPB__AUTHENTICATE_RESPONSE__INIT;
    answer.token = "a\"\\\n\r\t\x01<&>/\xc3\xa4\xe2\x80\xa8\xf0\x9f\x98\x80";
    assert_written(&answer.base,
                   "{\"token\":\"a\\\"\\\\\\n\\r\\t\\u0001\\u003c\\u0026\\u003e/\xc3\xa4"
                   "\\u2028\xf0\x9f\x98\x80\"}");
    answer.token = "\xff\xc3(\xe2\x80";
    assert_written(&answer.base, "{\"token\":\"\\ufffd\\ufffd(\\ufffd\"}");
}

static void a_malformed_message_is_noticed(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\x0a\x05", "\x0b", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0a\x7f"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct grpc_json_writer writer;
        struct buffer out;
        buffer_init(&out);
        size_t size = strlen(bad[i]);
        grpc_json_writer_init(&writer, &etcdserverpb__range_response__descriptor, size, &out);
        bool is_good = grpc_json_writer_feed(&writer, bytes_of(bad[i], size), &out);
        assert_false(is_good && grpc_json_writer_is_done(&writer));
        buffer_clear(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_base64_of_either_alphabet),
        cmocka_unit_test(numbers_may_be_strings),
        cmocka_unit_test(fields_have_two_names),
        cmocka_unit_test(transactions_are_nested_messages),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(texts_are_utf8),
        cmocka_unit_test(values_are_cut_out_of_a_stream),
        cmocka_unit_test(messages_become_what_etcd_writes),
        cmocka_unit_test(empty_messages_are_objects),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(a_malformed_message_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
