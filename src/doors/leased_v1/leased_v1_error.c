#include "doors/leased_v1/leased_v1_error.h"

#include <assert.h>
#include <stddef.h>

static const struct leased_v1_error errors[STATUS_COUNT] = {
    [STATUS_REQUEST_TOO_LARGE] = {GRPC_INVALID_ARGUMENT, "the request is too large"},
    [STATUS_LEASE_TTL_TOO_LARGE] = {GRPC_INVALID_ARGUMENT, "the TTL is too large"},
    [STATUS_NO_LEADER] = {GRPC_UNAVAILABLE, "the cluster has no leader: ask again"},
    [STATUS_LEADER_CHANGED] = {GRPC_UNAVAILABLE,
                               "the leader changed: the request may or may not have been carried "
                               "out, ask again"},
    [STATUS_TIMED_OUT] = {GRPC_UNAVAILABLE,
                          "the request timed out: it may or may not have been carried out, ask "
                          "again"},
    [STATUS_NO_SPACE] = {GRPC_RESOURCE_EXHAUSTED, "the space for keys is used up"},
    [STATUS_STOPPED] = {GRPC_UNAVAILABLE, "the server stops: ask another member"},
    [STATUS_INVALID] = {GRPC_INVALID_ARGUMENT,
                        "the request has a name, a size or a number that is out of bounds"},
    [STATUS_MALFORMED] = {GRPC_INVALID_ARGUMENT, "the request is not a message of this method"},
    /* Not UNIMPLEMENTED: a client would take the server for one without this API. */
    [STATUS_UNSUPPORTED] =
        {GRPC_UNAVAILABLE,
         "a member of the cluster is of an older release, or the cluster has just "
         "started: ask again"},
    [STATUS_NO_MEMORY] = {GRPC_RESOURCE_EXHAUSTED, "the server is out of memory"},
    [STATUS_USER_EMPTY] = {GRPC_UNAUTHENTICATED, "user name is empty: log in"},
    [STATUS_PERMISSION_DENIED] = {GRPC_PERMISSION_DENIED, "permission denied"},
    [STATUS_AUTH_TOKEN_INVALID] = {GRPC_UNAUTHENTICATED, "invalid auth token"},
    [STATUS_AUTH_OLD_REVISION] = {GRPC_UNAVAILABLE, "users or roles changed meanwhile: ask again"},
};

const struct leased_v1_error *leased_v1_error_of(const struct leased_v1_error own[STATUS_COUNT],
                                                 enum status status) {
    static const struct leased_v1_error unknown = {GRPC_UNKNOWN, "the request failed"};
    if (status == STATUS_OK) {
        return NULL;
    }
    if ((unsigned)status >= STATUS_COUNT) {
        return &unknown;
    }
    const struct leased_v1_error *error = own[status].text != NULL ? &own[status] : &errors[status];
    return error->text != NULL ? error : &unknown;
}

void leased_v1_error_finish(struct grpc_call *call, const struct leased_v1_error *error) {
    assert(error != NULL);
    grpc_call_finish(call, error->code, error->text);
}
