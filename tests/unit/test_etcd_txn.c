#include "doors/etcd/etcd_txn.h"

#include "doors/etcd/etcd_response.h"
#include "proto/etcd.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OPERATIONS = 200 };

struct fixture {
    struct arena arena;
    uint8_t *packed;
    struct command command;
    bool serializable;
};

static int setup(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    arena_init(&fixture->arena);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    struct fixture *fixture = *state;
    arena_clear(&fixture->arena);
    free(fixture->packed);
    free(fixture);
    return 0;
}

static const struct etcd_error *read_back(struct fixture *fixture,
                                          const Etcdserverpb__TxnRequest *txn) {
    size_t size = etcdserverpb__txn_request__get_packed_size(txn);
    free(fixture->packed);
    fixture->packed = malloc(size > 0 ? size : 1);
    etcdserverpb__txn_request__pack(txn, fixture->packed);
    return etcd_txn_request(bytes_of(fixture->packed, size), &fixture->arena, &fixture->command,
                            &fixture->serializable);
}

static ProtobufCBinaryData binary(const char *text) {
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

static void assert_bytes(struct bytes actual, const char *expected) {
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

/* --- Requests. --- */

static void compares_and_operations_arrive(void **state) {
    struct fixture *fixture = *state;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;
    compare.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__NOT_EQUAL;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE;
    compare.key = binary("k");
    compare.range_end = binary("m");
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE;
    compare.lease = -9;
    Etcdserverpb__Compare *compares[] = {&compare};

    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    put.key = binary("k");
    put.value = binary("v");
    Etcdserverpb__RequestOp put_op = ETCDSERVERPB__REQUEST_OP__INIT;
    put_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    put_op.request_put = &put;
    Etcdserverpb__RequestOp *inner_ops[] = {&put_op};
    Etcdserverpb__TxnRequest inner = ETCDSERVERPB__TXN_REQUEST__INIT;
    inner.n_success = 1;
    inner.success = inner_ops;
    Etcdserverpb__RequestOp txn_op = ETCDSERVERPB__REQUEST_OP__INIT;
    txn_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;
    txn_op.request_txn = &inner;
    Etcdserverpb__DeleteRangeRequest delete = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    delete.key = binary("x");
    Etcdserverpb__RequestOp delete_op = ETCDSERVERPB__REQUEST_OP__INIT;
    delete_op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    delete_op.request_delete_range = &delete;
    Etcdserverpb__RequestOp *failure[] = {&delete_op};
    Etcdserverpb__RequestOp *success[] = {&txn_op};

    Etcdserverpb__TxnRequest message = ETCDSERVERPB__TXN_REQUEST__INIT;
    message.n_compare = 1;
    message.compare = compares;
    message.n_success = 1;
    message.success = success;
    message.n_failure = 1;
    message.failure = failure;
    assert_null(read_back(fixture, &message));

    const struct txn_request *txn = &fixture->command.txn;
    assert_int_equal(txn->n_compares, 1);
    assert_bytes(txn->compares[0].key, "k");
    assert_bytes(txn->compares[0].range_end, "m");
    assert_int_equal(txn->compares[0].target, COMPARE_LEASE);
    assert_int_equal(txn->compares[0].result, COMPARE_NOT_EQUAL);
    assert_int_equal(txn->compares[0].number, -9);
    assert_int_equal(txn->n_success, 1);
    assert_int_equal(txn->success[0].type, OPERATION_TXN);
    assert_int_equal(txn->success[0].txn.success[0].type, OPERATION_PUT);
    assert_bytes(txn->success[0].txn.success[0].put.value, "v");
    assert_int_equal(txn->n_failure, 1);
    assert_int_equal(txn->failure[0].type, OPERATION_DELETE);
    assert_bytes(txn->failure[0].delete.key, "x");
}

static void an_operand_of_another_target_counts_as_none(void **state) {
    struct fixture *fixture = *state;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    compare.key = binary("k");
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
    compare.version = 55;
    Etcdserverpb__Compare *compares[] = {&compare};
    Etcdserverpb__TxnRequest message = ETCDSERVERPB__TXN_REQUEST__INIT;
    message.n_compare = 1;
    message.compare = compares;
    assert_null(read_back(fixture, &message));
    assert_int_equal(fixture->command.txn.compares[0].number, 0);
    compare.result = (Etcdserverpb__Compare__CompareResult)9;
    assert_ptr_equal(read_back(fixture, &message), &etcd_error_compare);
}

static void an_empty_operation_is_refused_in_etcds_words(void **state) {
    Etcdserverpb__RequestOp nothing = ETCDSERVERPB__REQUEST_OP__INIT;
    Etcdserverpb__RequestOp *success[] = {&nothing};
    Etcdserverpb__TxnRequest message = ETCDSERVERPB__TXN_REQUEST__INIT;
    message.n_success = 1;
    message.success = success;
    assert_ptr_equal(read_back(*state, &message), etcd_error_of(STATUS_KEY_NOT_FOUND));
}

static void more_operations_than_allowed_are_refused(void **state) {
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    range.key = binary("a");
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    op.request_range = &range;
    Etcdserverpb__RequestOp *success[OPERATIONS];
    for (size_t i = 0; i < OPERATIONS; i++) {
        success[i] = &op;
    }
    Etcdserverpb__TxnRequest message = ETCDSERVERPB__TXN_REQUEST__INIT;
    message.success = success;
    message.n_success = COMMAND_TXN_OPERATIONS_MAX;
    assert_null(read_back(*state, &message));
    message.n_success = COMMAND_TXN_OPERATIONS_MAX + 1;
    assert_ptr_equal(read_back(*state, &message), etcd_error_of(STATUS_TOO_MANY_OPERATIONS));
}

static void transactions_nested_too_deep_are_refused(void **state) {
    enum { DEPTH = 64 };
    Etcdserverpb__TxnRequest txns[DEPTH];
    Etcdserverpb__RequestOp ops[DEPTH];
    Etcdserverpb__RequestOp *success[DEPTH];
    for (size_t i = 0; i < DEPTH; i++) {
        txns[i] = (Etcdserverpb__TxnRequest)ETCDSERVERPB__TXN_REQUEST__INIT;
        ops[i] = (Etcdserverpb__RequestOp)ETCDSERVERPB__REQUEST_OP__INIT;
        success[i] = &ops[i];
        if (i > 0) {
            ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;
            ops[i].request_txn = &txns[i - 1];
            txns[i].n_success = 1;
            txns[i].success = &success[i];
        }
    }
    assert_null(read_back(*state, &txns[COMMAND_TXN_DEPTH_MAX - 1]));
    assert_ptr_equal(read_back(*state, &txns[COMMAND_TXN_DEPTH_MAX]),
                     etcd_error_of(STATUS_TOO_MANY_OPERATIONS));
    assert_ptr_equal(read_back(*state, &txns[DEPTH - 1]),
                     etcd_error_of(STATUS_TOO_MANY_OPERATIONS));
}

static void serializable_means_that_every_range_is(void **state) {
    struct fixture *fixture = *state;
    Etcdserverpb__RangeRequest ranges[2] = {ETCDSERVERPB__RANGE_REQUEST__INIT,
                                            ETCDSERVERPB__RANGE_REQUEST__INIT};
    Etcdserverpb__RequestOp ops[2] = {ETCDSERVERPB__REQUEST_OP__INIT,
                                      ETCDSERVERPB__REQUEST_OP__INIT};
    Etcdserverpb__RequestOp *success[2] = {&ops[0], &ops[1]};
    for (size_t i = 0; i < 2; i++) {
        ranges[i].key = binary("a");
        ranges[i].serializable = 1;
        ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        ops[i].request_range = &ranges[i];
    }
    Etcdserverpb__TxnRequest message = ETCDSERVERPB__TXN_REQUEST__INIT;
    message.n_success = 2;
    message.success = success;
    assert_null(read_back(fixture, &message));
    assert_true(fixture->serializable);
    ranges[1].serializable = 0;
    assert_null(read_back(fixture, &message));
    assert_false(fixture->serializable);
}

/* --- Answers. --- */

/* A key "key" with the value "vv"; the caller frees it. */
static struct record *example_create(void) {
    struct record *record = calloc(1, sizeof *record + 8);
    *record = (struct record){.create_revision = 2,
                              .mod_revision = 5,
                              .version = 3,
                              .lease_id = -1,
                              .key_size = 1 + 3,
                              .value_size = 2};
    memcpy(record->bytes, "\x01keyvv", 6);
    return record;
}

/* Writes an answer, checks its measured size, and lets protobuf-c read it. */
static Etcdserverpb__TxnResponse *answer(const struct txn_outcome *outcome,
                                         const struct txn_request *shape) {
    struct etcd_identity identity;
    etcd_identity_init(&identity, UINT64_MAX, 7, 3);
    struct etcd_header header = {.identity = &identity, .revision = 5};
    size_t size = etcd_txn_size(&header, outcome, shape);
    uint8_t *memory = malloc(size);
    struct pb_writer writer;
    pb_writer_init(&writer, memory, size);
    etcd_txn_write(&writer, &header, outcome, shape);
    assert_ptr_equal(writer.at, writer.end);
    Etcdserverpb__TxnResponse *response = etcdserverpb__txn_response__unpack(NULL, size, memory);
    free(memory);
    assert_non_null(response);
    return response;
}

static void answers_are_what_protobuf_reads(void **state) {
    struct record *example = example_create();
    const struct record *records[] = {example};
    struct operation_outcome inner[] = {
        {.type = OPERATION_PUT, .revision = 5, .put = {.previous = example}}};
    struct operation_outcome outcomes[] = {
        {.type = OPERATION_RANGE,
         .revision = 4,
         .range = {.count = 9, .more = true, .n_records = 1, .records = records}},
        {.type = OPERATION_DELETE,
         .revision = 5,
         .delete = {.deleted = 1, .n_previous = 1, .previous = records}},
        {.type = OPERATION_TXN,
         .revision = 5,
         .txn = {.succeeded = false, .n_outcomes = 1, .outcomes = inner}},
    };
    struct txn_outcome outcome = {.succeeded = true, .n_outcomes = 3, .outcomes = outcomes};
    Etcdserverpb__TxnResponse *response = answer(&outcome, NULL);
    assert_int_equal(response->header->revision, 5);
    assert_true(response->header->cluster_id == UINT64_MAX);
    assert_int_equal(response->header->member_id, 7);
    assert_int_equal(response->header->raft_term, 3);
    assert_true(response->succeeded);
    assert_int_equal(response->n_responses, 3);
    const Etcdserverpb__RangeResponse *range = response->responses[0]->response_range;
    assert_int_equal(range->header->revision, 4);
    assert_int_equal(range->header->cluster_id, 0);
    assert_int_equal(range->count, 9);
    assert_true(range->more);
    assert_int_equal(range->n_kvs, 1);
    const Mvccpb__KeyValue *kv = range->kvs[0];
    assert_int_equal(kv->create_revision, 2);
    assert_int_equal(kv->mod_revision, 5);
    assert_int_equal(kv->version, 3);
    assert_int_equal(kv->lease, -1);
    assert_int_equal(kv->key.len, 3);
    assert_memory_equal(kv->key.data, "key", 3);
    assert_int_equal(kv->value.len, 2);
    assert_memory_equal(kv->value.data, "vv", 2);
    assert_int_equal(response->responses[1]->response_delete_range->deleted, 1);
    assert_int_equal(response->responses[1]->response_delete_range->n_prev_kvs, 1);
    const Etcdserverpb__TxnResponse *nested = response->responses[2]->response_txn;
    assert_int_equal(nested->header->revision, 0);
    assert_false(nested->succeeded);
    assert_non_null(nested->responses[0]->response_put->prev_kv);
    etcdserverpb__txn_response__free_unpacked(response, NULL);
    free(example);
}

static void values_are_left_out_where_the_shape_says_so(void **state) {
    struct fixture *fixture = *state;
    struct operation inner_op = {.type = OPERATION_RANGE, .range = {.keys_only = true}};
    struct operation ops[] = {
        {.type = OPERATION_RANGE, .range = {.key = bytes_from_text("a")}},
        {.type = OPERATION_TXN, .txn = {.n_success = 1, .success = &inner_op}},
    };
    struct txn_request txn = {.n_failure = 2, .failure = ops};
    assert_true(etcd_txn_needs_shape(&txn));
    const struct txn_request *shape = etcd_txn_shape(&txn, &fixture->arena);
    inner_op.range.keys_only = false;
    assert_false(etcd_txn_needs_shape(&txn));

    struct record *example = example_create();
    const struct record *records[] = {example};
    struct range_outcome one = {.count = 1, .n_records = 1, .records = records};
    struct operation_outcome inner[] = {{.type = OPERATION_RANGE, .revision = 5, .range = one}};
    struct operation_outcome outcomes[] = {
        {.type = OPERATION_RANGE, .revision = 5, .range = one},
        {.type = OPERATION_TXN,
         .revision = 5,
         .txn = {.succeeded = true, .n_outcomes = 1, .outcomes = inner}},
    };
    struct txn_outcome outcome = {.succeeded = false, .n_outcomes = 2, .outcomes = outcomes};
    Etcdserverpb__TxnResponse *response = answer(&outcome, shape);
    assert_int_equal(response->responses[0]->response_range->kvs[0]->value.len, 2);
    const Etcdserverpb__TxnResponse *nested = response->responses[1]->response_txn;
    assert_int_equal(nested->responses[0]->response_range->kvs[0]->value.len, 0);
    assert_int_equal(nested->responses[0]->response_range->kvs[0]->key.len, 3);
    etcdserverpb__txn_response__free_unpacked(response, NULL);
    free(example);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(compares_and_operations_arrive),
        TEST(an_operand_of_another_target_counts_as_none),
        TEST(an_empty_operation_is_refused_in_etcds_words),
        TEST(more_operations_than_allowed_are_refused),
        TEST(transactions_nested_too_deep_are_refused),
        TEST(serializable_means_that_every_range_is),
        TEST(answers_are_what_protobuf_reads),
        TEST(values_are_left_out_where_the_shape_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
