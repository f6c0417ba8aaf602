#include "doors/native/native_error.h"

#define INVALID(name, sentence)                                                                    \
    const struct leased_v1_error native_error_##name = {GRPC_INVALID_ARGUMENT, sentence}

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

const struct leased_v1_error native_error_acquisition = {
    GRPC_NOT_FOUND, "the session has no such acquisition: it was given back or has ended"};
const struct leased_v1_error native_error_session_lost = {
    GRPC_NOT_FOUND, "the session has ended: it was not renewed in time, or was ended"};
const struct leased_v1_error native_error_lost = {
    GRPC_NOT_FOUND, "the acquisition has ended while the call waited: its session ended, or it was "
                    "given back"};
const struct leased_v1_error native_error_busy = {
    GRPC_ABORTED, "somebody else has it, and the call does not wait"};
const struct leased_v1_error native_error_wait_over = {
    GRPC_ABORTED, "somebody else has it, and the time to wait is over"};
const struct leased_v1_error native_error_queue_limit = {
    GRPC_RESOURCE_EXHAUSTED, "more wait before it than the queue limit of the request allows"};
const struct leased_v1_error native_error_pool_missing = {GRPC_NOT_FOUND, "there is no such pool"};
const struct leased_v1_error native_error_pool_in_use = {
    GRPC_FAILED_PRECONDITION, "somebody has a slot of the pool or waits for one"};
const struct leased_v1_error native_error_transfer_target = {
    GRPC_FAILED_PRECONDITION, "nothing was transferred: there is no such session, or nobody of "
                              "that owner waits for the same"};
const struct leased_v1_error native_error_not_read = {GRPC_RESOURCE_EXHAUSTED,
                                                      "answers are not read"};
const struct leased_v1_error native_error_missed = {
    GRPC_OUT_OF_RANGE, "the events from there on are no longer kept: ask for the state and go on "
                       "from its revision"};

static const struct leased_v1_error errors[STATUS_COUNT] = {
    [STATUS_KEY_NOT_FOUND] = {GRPC_NOT_FOUND, "there is no such pool"},
    [STATUS_TOO_MANY_KEYS] = {GRPC_RESOURCE_EXHAUSTED,
                              "the session has as many acquisitions as one may have"},
    [STATUS_LEASE_NOT_FOUND] = {GRPC_NOT_FOUND,
                                "the session has ended: it was not renewed in time, or was ended"},
    [STATUS_LEASE_EXISTS] = {GRPC_ALREADY_EXISTS, "the id of the session is taken"},
    [STATUS_TOO_MANY_REQUESTS] = {GRPC_RESOURCE_EXHAUSTED, "too many requests wait: ask later"},
    [STATUS_REVISION_COMPACTED] = {GRPC_OUT_OF_RANGE,
                                   "the events from there on are no longer kept: ask for the state "
                                   "and go on from its revision"},
};

const struct leased_v1_error *native_error_of(enum status status) {
    return leased_v1_error_of(errors, status);
}
