/* Statuses of the service as gRPC's codes. */
#include "doors/xds/xds_state.h"

static const struct xds_error errors[STATUS_COUNT] = {
    [STATUS_NO_LEADER] = {GRPC_UNAVAILABLE, "the cluster has no leader: ask again"},
    [STATUS_LEADER_CHANGED] = {GRPC_UNAVAILABLE, "the leader changed: ask again"},
    [STATUS_TIMED_OUT] = {GRPC_UNAVAILABLE, "the request timed out: ask again"},
    [STATUS_TOO_MANY_REQUESTS] = {GRPC_RESOURCE_EXHAUSTED, "too many requests wait: ask later"},
    [STATUS_NO_MEMORY] = {GRPC_RESOURCE_EXHAUSTED, "the server is out of memory"},
    [STATUS_STOPPED] = {GRPC_UNAVAILABLE, "the server stops: ask another member"},
    [STATUS_UNSUPPORTED] = {GRPC_UNAVAILABLE,
                            "a member of the cluster is of an older release: ask again"},
    [STATUS_USER_EMPTY] = {GRPC_UNAUTHENTICATED, "user name is empty: log in"},
    [STATUS_AUTH_TOKEN_INVALID] = {GRPC_UNAUTHENTICATED, "invalid auth token: log in again"},
    [STATUS_AUTH_OLD_REVISION] = {GRPC_UNAVAILABLE, "users or roles have just changed: ask again"},
    [STATUS_PERMISSION_DENIED] =
        {GRPC_PERMISSION_DENIED,
         "permission denied: a service that the request names may not be read"},
};
static const struct xds_error error_other = {GRPC_INTERNAL, "the request failed"};

const struct xds_error *xds_error_of(enum status status) {
    return errors[status].text != NULL ? &errors[status] : &error_other;
}
