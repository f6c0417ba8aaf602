#include "doors/native/native_error.h"

#include <assert.h>
#include <stddef.h>

#define INVALID(name, sentence)                                                                    \
    const struct native_error native_error_##name = {GRPC_INVALID_ARGUMENT, sentence}

INVALID(malformed, "the request is not a message of this method");
INVALID(name, "the name of a resource or pool must be UTF-8 of 1 to 256 bytes without NUL");
INVALID(owner, "the owner must be UTF-8 of 1 to 128 bytes without NUL");
INVALID(note, "the note must be UTF-8 of at most 1024 bytes without NUL");
INVALID(value, "the value must be UTF-8 of at most 4096 bytes without NUL");
INVALID(request_id, "the request id must be UTF-8 of at most 256 bytes without NUL");
INVALID(class, "there is no such class or strategy");
INVALID(ttl, "a TTL or hold limit must be at least 250 ms and at most 9000000000000 ms");
INVALID(wants, "1 to 16 resources and pools may be wanted, each of them once");
INVALID(want, "a want names either a resource, with a mode, or a pool, with at most 1024 slots");
INVALID(wait, "wait_ms must be -1 (as long as the call lives), 0 (not at all) or a time");
INVALID(transfer, "a transfer names either a session or an owner that gets it");
INVALID(pool,
        "a pool has at most 1024 slots and 256 shares, each name once, of 1 to 128 bytes, with "
        "weights from 1 to 1000000");
INVALID(token, "a token is at least 1");
INVALID(why, "ask for one of a resource, a pool, a session and an acquisition");

const struct native_error native_error_acquisition = {
    GRPC_NOT_FOUND, "the session has no such acquisition: it was given back or has ended"};
const struct native_error native_error_session_lost = {
    GRPC_NOT_FOUND, "the session has ended: it was not renewed in time, or was ended"};
const struct native_error native_error_lost = {
    GRPC_NOT_FOUND, "the acquisition has ended while the call waited: its session ended, or it was "
                    "given back"};
const struct native_error native_error_busy = {GRPC_ABORTED,
                                               "somebody else has it, and the call does not wait"};
const struct native_error native_error_wait_over = {
    GRPC_ABORTED, "somebody else has it, and the time to wait is over"};
const struct native_error native_error_queue_limit = {
    GRPC_RESOURCE_EXHAUSTED, "more wait before it than the queue limit of the request allows"};
const struct native_error native_error_pool_missing = {GRPC_NOT_FOUND, "there is no such pool"};
const struct native_error native_error_pool_in_use = {
    GRPC_FAILED_PRECONDITION, "somebody has a slot of the pool or waits for one"};
const struct native_error native_error_transfer_target = {
    GRPC_NOT_FOUND,
    "nothing was transferred: the session has no such acquisition, or nobody of that "
    "owner waits for the same"};
const struct native_error native_error_not_read = {GRPC_RESOURCE_EXHAUSTED, "answers are not read"};
const struct native_error native_error_missed = {
    GRPC_OUT_OF_RANGE, "the events from there on are no longer kept: ask for the state and go on "
                       "from its revision"};

static const struct native_error errors[STATUS_COUNT] = {
    [STATUS_KEY_NOT_FOUND] = {GRPC_NOT_FOUND, "there is no such pool"},
    [STATUS_REQUEST_TOO_LARGE] = {GRPC_INVALID_ARGUMENT, "the request is too large"},
    [STATUS_TOO_MANY_KEYS] = {GRPC_RESOURCE_EXHAUSTED,
                              "the session has as many acquisitions as one may have"},
    [STATUS_LEASE_NOT_FOUND] = {GRPC_NOT_FOUND,
                                "the session has ended: it was not renewed in time, or was ended"},
    [STATUS_LEASE_EXISTS] = {GRPC_ALREADY_EXISTS, "the id of the session is taken"},
    [STATUS_LEASE_TTL_TOO_LARGE] = {GRPC_INVALID_ARGUMENT, "the TTL is too large"},
    [STATUS_NO_LEADER] = {GRPC_UNAVAILABLE, "the cluster has no leader: ask again"},
    [STATUS_LEADER_CHANGED] = {GRPC_UNAVAILABLE,
                               "the leader changed: the request may or may not have been carried "
                               "out, ask again"},
    [STATUS_TIMED_OUT] = {GRPC_UNAVAILABLE,
                          "the request timed out: it may or may not have been carried out, ask "
                          "again"},
    [STATUS_TOO_MANY_REQUESTS] = {GRPC_RESOURCE_EXHAUSTED, "too many requests wait: ask later"},
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
    [STATUS_REVISION_COMPACTED] = {GRPC_OUT_OF_RANGE,
                                   "the events from there on are no longer kept: ask for the state "
                                   "and go on from its revision"},
};

const struct native_error *native_error_of(enum status status) {
    static const struct native_error unknown = {GRPC_UNKNOWN, "the request failed"};
    if (status == STATUS_OK) {
        return NULL;
    }
    if ((unsigned)status >= STATUS_COUNT || errors[status].text == NULL) {
        return &unknown;
    }
    return &errors[status];
}

void native_error_finish(struct grpc_call *call, const struct native_error *error) {
    assert(error != NULL);
    grpc_call_finish(call, error->code, error->text);
}
