#include "doors/etcd/etcd_error.h"

#include <assert.h>
#include <stddef.h>

const struct etcd_error etcd_error_sort_option = {GRPC_INVALID_ARGUMENT,
                                                  "etcdserver: invalid sort option"};
const struct etcd_error etcd_error_compare = {GRPC_INVALID_ARGUMENT,
                                              "etcdserver: invalid compare in txn request"};
const struct etcd_error etcd_error_alarm = {GRPC_INVALID_ARGUMENT,
                                            "etcdserver: invalid alarm request"};
const struct etcd_error etcd_error_malformed = {
    GRPC_INTERNAL, "grpc: error unmarshalling request: malformed message"};
const struct etcd_error etcd_error_malformed_stream = {
    GRPC_INTERNAL, "grpc: failed to unmarshal the received message: malformed message"};
const struct etcd_error etcd_error_answer_too_large = {
    GRPC_RESOURCE_EXHAUSTED, "grpc: trying to send message larger than max"};
const struct etcd_error etcd_error_member_urls = {GRPC_INVALID_ARGUMENT,
                                                  "etcdserver: given member URLs are invalid"};
const struct etcd_error etcd_error_not_leader = {GRPC_FAILED_PRECONDITION,
                                                 "etcdserver: not leader"};
const struct etcd_error etcd_error_bad_transferee = {GRPC_FAILED_PRECONDITION,
                                                     "etcdserver: bad leader transferee"};
const struct etcd_error etcd_error_downgrade_target = {
    GRPC_INVALID_ARGUMENT, "etcdserver: invalid downgrade target version"};
const struct etcd_error etcd_error_downgrade_format = {
    GRPC_INVALID_ARGUMENT, "etcdserver: wrong downgrade target version format"};
const struct etcd_error etcd_error_no_downgrade = {GRPC_FAILED_PRECONDITION,
                                                   "etcdserver: no inflight downgrade job"};
const struct etcd_error etcd_error_unknown_method = {GRPC_UNKNOWN, "etcdserver: unknown method"};

static const struct etcd_error errors[STATUS_COUNT] = {
    [STATUS_KEY_EMPTY] = {GRPC_INVALID_ARGUMENT, "etcdserver: key is not provided"},
    [STATUS_KEY_NOT_FOUND] = {GRPC_INVALID_ARGUMENT, "etcdserver: key not found"},
    [STATUS_KEY_DUPLICATE] = {GRPC_INVALID_ARGUMENT,
                              "etcdserver: duplicate key given in txn request"},
    [STATUS_VALUE_PROVIDED] = {GRPC_INVALID_ARGUMENT, "etcdserver: value is provided"},
    [STATUS_LEASE_PROVIDED] = {GRPC_INVALID_ARGUMENT, "etcdserver: lease is provided"},
    [STATUS_TOO_MANY_OPERATIONS] = {GRPC_INVALID_ARGUMENT,
                                    "etcdserver: too many operations in txn request"},
    [STATUS_REQUEST_TOO_LARGE] = {GRPC_INVALID_ARGUMENT, "etcdserver: request is too large"},
    [STATUS_TOO_MANY_KEYS] = {GRPC_RESOURCE_EXHAUSTED,
                              "leased: more keys than one lease may have, or one request delete"},
    [STATUS_FENCED] = {GRPC_FAILED_PRECONDITION,
                       "leased: a newer registration has taken its place"},
    [STATUS_KEY_READ_ONLY] = {GRPC_FAILED_PRECONDITION,
                              "leased: keys below leased/services/ belong to the service registry "
                              "and are read-only"},
    [STATUS_REVISION_COMPACTED] = {GRPC_OUT_OF_RANGE,
                                   "etcdserver: mvcc: required revision has been compacted"},
    [STATUS_REVISION_FUTURE] = {GRPC_OUT_OF_RANGE,
                                "etcdserver: mvcc: required revision is a future revision"},
    [STATUS_LEASE_NOT_FOUND] = {GRPC_NOT_FOUND, "etcdserver: requested lease not found"},
    [STATUS_LEASE_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: lease already exists"},
    [STATUS_LEASE_TTL_TOO_LARGE] = {GRPC_OUT_OF_RANGE, "etcdserver: too large lease TTL"},
    [STATUS_NO_LEADER] = {GRPC_UNAVAILABLE, "etcdserver: no leader"},
    [STATUS_LEADER_CHANGED] = {GRPC_UNAVAILABLE, "etcdserver: leader changed"},
    [STATUS_TIMED_OUT] = {GRPC_UNAVAILABLE, "etcdserver: request timed out"},
    [STATUS_TOO_MANY_REQUESTS] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests"},
    [STATUS_NO_SPACE] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"},
    [STATUS_STOPPED] = {GRPC_UNAVAILABLE, "etcdserver: server stopped"},
    [STATUS_CANCELED] = {GRPC_CANCELLED, "etcdserver: request canceled"},
    [STATUS_INVALID] = {GRPC_INVALID_ARGUMENT, "etcdserver: invalid argument"},
    [STATUS_CORRUPT] = {GRPC_DATA_LOSS, "etcdserver: corrupt cluster"},
    [STATUS_UNSUPPORTED] = {GRPC_UNIMPLEMENTED, "etcdserver: not supported"},
    [STATUS_NO_MEMORY] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: out of memory"},
    [STATUS_IO] = {GRPC_UNAVAILABLE, "etcdserver: input or output failed"},
    [STATUS_MEMBER_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: member ID already exist"},
    [STATUS_MEMBER_NOT_FOUND] = {GRPC_NOT_FOUND, "etcdserver: member not found"},
    [STATUS_MEMBER_NOT_LEARNER] = {GRPC_FAILED_PRECONDITION,
                                   "etcdserver: can only promote a learner member"},
    [STATUS_MEMBER_NOT_READY] =
        {GRPC_FAILED_PRECONDITION,
         "etcdserver: can only promote a learner member which is in sync with leader"},
    [STATUS_PEER_URL_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: Peer URLs already exists"},
    [STATUS_TOO_MANY_LEARNERS] = {GRPC_FAILED_PRECONDITION,
                                  "etcdserver: too many learner members in cluster"},
    [STATUS_TOO_MANY_MEMBERS] = {GRPC_FAILED_PRECONDITION, "leased: too many members in cluster"},
    [STATUS_MEMBERS_NOT_ENOUGH] =
        {GRPC_UNKNOWN, "etcdserver: re-configuration failed due to not enough started members"},
    [STATUS_UNHEALTHY] = {GRPC_UNAVAILABLE, "etcdserver: unhealthy cluster"},
    [STATUS_CANNOT_LISTEN] = {GRPC_UNAVAILABLE, "leased: cannot listen on the address"},
    [STATUS_DATA_DIR_IN_USE] = {GRPC_UNAVAILABLE, "leased: data directory is in use"},
    [STATUS_DATA_DIR_REPLACED] = {GRPC_UNAVAILABLE, "leased: data directory was replaced"},
    [STATUS_MEMBER_NOT_ADDED] = {GRPC_UNAVAILABLE, "leased: member was not added to the cluster"},
    [STATUS_MEMBER_REMOVED] = {GRPC_UNAVAILABLE, "leased: member was removed from the cluster"},
    [STATUS_USER_EMPTY] = {GRPC_INVALID_ARGUMENT, "etcdserver: user name is empty"},
    [STATUS_USER_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: user name already exists"},
    [STATUS_USER_NOT_FOUND] = {GRPC_FAILED_PRECONDITION, "etcdserver: user name not found"},
    [STATUS_ROLE_EMPTY] = {GRPC_INVALID_ARGUMENT, "etcdserver: role name is empty"},
    [STATUS_ROLE_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: role name already exists"},
    [STATUS_ROLE_NOT_FOUND] = {GRPC_FAILED_PRECONDITION, "etcdserver: role name not found"},
    [STATUS_ROLE_NOT_GRANTED] = {GRPC_FAILED_PRECONDITION,
                                 "etcdserver: role is not granted to the user"},
    [STATUS_PERMISSION_NOT_GIVEN] = {GRPC_INVALID_ARGUMENT, "etcdserver: permission not given"},
    [STATUS_PERMISSION_NOT_GRANTED] = {GRPC_FAILED_PRECONDITION,
                                       "etcdserver: permission is not granted to the role"},
    [STATUS_PERMISSION_DENIED] = {GRPC_PERMISSION_DENIED, "etcdserver: permission denied"},
    [STATUS_ROOT_USER_MISSING] = {GRPC_FAILED_PRECONDITION, "etcdserver: root user does not exist"},
    [STATUS_ROOT_ROLE_MISSING] = {GRPC_FAILED_PRECONDITION,
                                  "etcdserver: root user does not have root role"},
    [STATUS_AUTH_NOT_ENABLED] = {GRPC_FAILED_PRECONDITION,
                                 "etcdserver: authentication is not enabled"},
    [STATUS_AUTH_FAILED] = {GRPC_INVALID_ARGUMENT,
                            "etcdserver: authentication failed, invalid user ID or password"},
    [STATUS_AUTH_TOKEN_INVALID] = {GRPC_UNAUTHENTICATED, "etcdserver: invalid auth token"},
    [STATUS_AUTH_OLD_REVISION] = {GRPC_INVALID_ARGUMENT,
                                  "etcdserver: revision of auth store is old"},
    [STATUS_AUTH_MANAGEMENT_INVALID] = {GRPC_INVALID_ARGUMENT,
                                        "etcdserver: invalid auth management"},
};

const struct etcd_error *etcd_error_of(enum status status) {
    static const struct etcd_error unknown = {GRPC_UNKNOWN, "etcdserver: unknown error"};
    if (status == STATUS_OK) {
        return NULL;
    }
    if (status == STATUS_MALFORMED) {
        return &etcd_error_malformed;
    }
    if ((unsigned)status >= STATUS_COUNT || errors[status].text == NULL) {
        return &unknown;
    }
    return &errors[status];
}

const struct etcd_error *etcd_error_of_command(enum status status) {
    return etcd_error_of(status == STATUS_LEADER_CHANGED ? STATUS_TIMED_OUT : status);
}

void etcd_error_finish(struct grpc_call *call, const struct etcd_error *error) {
    assert(error != NULL);
    grpc_call_finish(call, error->code, error->text);
}
