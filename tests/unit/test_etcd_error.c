#include "doors/etcd/etcd_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_told(enum status status, enum grpc_code code, const char *text) {
    const struct etcd_error *error = etcd_error_of(status);
    assert_non_null(error);
    assert_int_equal(error->code, code);
    assert_string_equal(error->text, text);
}

/* Nobody knows whether it was carried out; a read can be asked again. */
static void a_command_that_the_leader_took_along_has_timed_out(void **state) {
    (void)state;
    assert_ptr_equal(etcd_error_of_command(STATUS_LEADER_CHANGED), etcd_error_of(STATUS_TIMED_OUT));
    assert_ptr_equal(etcd_error_of_command(STATUS_NO_LEADER), etcd_error_of(STATUS_NO_LEADER));
    assert_null(etcd_error_of_command(STATUS_OK));
}

/* Clients of etcd compare these as strings. */
static void texts_are_those_that_clients_compare(void **state) {
    assert_told(STATUS_LEASE_NOT_FOUND, GRPC_NOT_FOUND, "etcdserver: requested lease not found");
    assert_told(STATUS_LEASE_EXISTS, GRPC_FAILED_PRECONDITION, "etcdserver: lease already exists");
    assert_told(STATUS_LEASE_TTL_TOO_LARGE, GRPC_OUT_OF_RANGE, "etcdserver: too large lease TTL");
    assert_told(STATUS_KEY_EMPTY, GRPC_INVALID_ARGUMENT, "etcdserver: key is not provided");
    assert_told(STATUS_KEY_NOT_FOUND, GRPC_INVALID_ARGUMENT, "etcdserver: key not found");
    assert_told(STATUS_KEY_DUPLICATE, GRPC_INVALID_ARGUMENT,
                "etcdserver: duplicate key given in txn request");
    assert_told(STATUS_TOO_MANY_OPERATIONS, GRPC_INVALID_ARGUMENT,
                "etcdserver: too many operations in txn request");
    assert_told(STATUS_REQUEST_TOO_LARGE, GRPC_INVALID_ARGUMENT,
                "etcdserver: request is too large");
    assert_told(STATUS_VALUE_PROVIDED, GRPC_INVALID_ARGUMENT, "etcdserver: value is provided");
    assert_told(STATUS_LEASE_PROVIDED, GRPC_INVALID_ARGUMENT, "etcdserver: lease is provided");
    assert_told(STATUS_REVISION_COMPACTED, GRPC_OUT_OF_RANGE,
                "etcdserver: mvcc: required revision has been compacted");
    assert_told(STATUS_REVISION_FUTURE, GRPC_OUT_OF_RANGE,
                "etcdserver: mvcc: required revision is a future revision");
    assert_told(STATUS_NO_LEADER, GRPC_UNAVAILABLE, "etcdserver: no leader");
    assert_told(STATUS_LEADER_CHANGED, GRPC_UNAVAILABLE, "etcdserver: leader changed");
    assert_told(STATUS_TIMED_OUT, GRPC_UNAVAILABLE, "etcdserver: request timed out");
    assert_told(STATUS_TOO_MANY_REQUESTS, GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests");
    assert_told(STATUS_NO_SPACE, GRPC_RESOURCE_EXHAUSTED,
                "etcdserver: mvcc: database space exceeded");
    assert_told(STATUS_STOPPED, GRPC_UNAVAILABLE, "etcdserver: server stopped");
    assert_told(STATUS_CORRUPT, GRPC_DATA_LOSS, "etcdserver: corrupt cluster");
}

static void no_error_is_told_when_all_is_well(void **state) {
    assert_null(etcd_error_of(STATUS_OK));
}

/* A status added later must get its own text here, not the one for what is unknown. */
static void every_status_has_an_answer_of_its_own(void **state) {
    const struct etcd_error *unknown = etcd_error_of(STATUS_COUNT);
    for (enum status status = STATUS_OK; status < STATUS_COUNT; status++) {
        if (status == STATUS_OK || status == STATUS_PENDING) {
            continue; /* neither is ever told to a client */
        }
        const struct etcd_error *error = etcd_error_of(status);
        assert_non_null(error);
        assert_ptr_not_equal(error, unknown);
        assert_int_not_equal(error->code, GRPC_OK);
        assert_true(strlen(error->text) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_that_clients_compare),
        cmocka_unit_test(a_command_that_the_leader_took_along_has_timed_out),
        cmocka_unit_test(no_error_is_told_when_all_is_well),
        cmocka_unit_test(every_status_has_an_answer_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
