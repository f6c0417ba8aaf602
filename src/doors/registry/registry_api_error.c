#include "doors/registry/registry_api_error.h"

#define INVALID(name, sentence)                                                                    \
    const struct leased_v1_error registry_api_error_##name = {GRPC_INVALID_ARGUMENT, sentence}

INVALID(malformed, "the request is not a message of this method");
INVALID(name, "the name of a service, an instance or a check must be UTF-8 of 1 to 255 bytes "
              "without control characters");
INVALID(instance, "an instance has a port below 65536, a weight of at most 65535, a TTL of at "
                  "least 1000 ms, at most 64 tags and 64 metadata keys, none of them twice, and 64 "
                  "KiB in all");
INVALID(check, "a check needs an id, a kind, a target that fits its kind, and an interval of at "
               "least 100 ms, or, of a TTL check, a TTL of at least 1000 ms");
INVALID(checks, "an instance has at most 16 checks, each id once");
INVALID(state, "there is no such state, or an instance cannot be registered in it");
INVALID(metadata, "1 to 64 metadata keys may be set, each of them once");
INVALID(query, "a query has at most 64 tags and 64 metadata keys");
INVALID(reports, "1 to 256 reports are sent at once, each with a health of PASSING, WARNING or "
                 "CRITICAL");
INVALID(renewals, "at most 10000 registrations are renewed by one message");
INVALID(settings, "guard_percent is 1 to 101, and no time is negative");
INVALID(time, "a time is not negative and at most 9000000000000 ms");

const struct leased_v1_error registry_api_error_missed = {
    GRPC_OUT_OF_RANGE, "the changes from there on are no longer kept: watch again"};

static const struct leased_v1_error errors[STATUS_COUNT] = {
    [STATUS_KEY_NOT_FOUND] = {GRPC_NOT_FOUND,
                              "there is no such instance or check: it was deregistered, or its "
                              "lease has ended"},
    [STATUS_FENCED] = {GRPC_FAILED_PRECONDITION,
                       "a newer registration has taken its place: stop, and do not register this "
                       "id again"},
    [STATUS_TOO_MANY_KEYS] = {GRPC_RESOURCE_EXHAUSTED, "the instance has too many checks"},
    [STATUS_LEASE_NOT_FOUND] = {GRPC_NOT_FOUND,
                                "the registration has ended: it was not renewed in time, or was "
                                "deregistered"},
    [STATUS_LEASE_EXISTS] = {GRPC_ALREADY_EXISTS, "the id of the lease is taken"},
    [STATUS_TOO_MANY_REQUESTS] = {GRPC_RESOURCE_EXHAUSTED,
                                  "too many requests wait, or the instance has as many checks as "
                                  "one may have"},
    [STATUS_REVISION_COMPACTED] = {GRPC_OUT_OF_RANGE,
                                   "the changes from there on are no longer kept: watch again"},
};

const struct leased_v1_error *registry_api_error_of(enum status status) {
    return leased_v1_error_of(errors, status);
}
