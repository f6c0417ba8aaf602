#include "net/grpc_stats.h"

#include <assert.h>

const char *grpc_code_name(enum grpc_code code) {
    static const char *const names[GRPC_CODES] = {
        [GRPC_OK] = "OK",
        [GRPC_CANCELLED] = "Canceled",
        [GRPC_UNKNOWN] = "Unknown",
        [GRPC_INVALID_ARGUMENT] = "InvalidArgument",
        [GRPC_DEADLINE_EXCEEDED] = "DeadlineExceeded",
        [GRPC_NOT_FOUND] = "NotFound",
        [GRPC_ALREADY_EXISTS] = "AlreadyExists",
        [GRPC_PERMISSION_DENIED] = "PermissionDenied",
        [GRPC_RESOURCE_EXHAUSTED] = "ResourceExhausted",
        [GRPC_FAILED_PRECONDITION] = "FailedPrecondition",
        [GRPC_ABORTED] = "Aborted",
        [GRPC_OUT_OF_RANGE] = "OutOfRange",
        [GRPC_UNIMPLEMENTED] = "Unimplemented",
        [GRPC_INTERNAL] = "Internal",
        [GRPC_UNAVAILABLE] = "Unavailable",
        [GRPC_DATA_LOSS] = "DataLoss",
        [GRPC_UNAUTHENTICATED] = "Unauthenticated",
    };
    assert((size_t)code < GRPC_CODES);
    return names[code];
}

void grpc_stats_add(struct grpc_stats *stats, const struct grpc_stats *more) {
    stats->started += more->started;
    stats->received += more->received;
    stats->sent += more->sent;
    for (size_t i = 0; i < GRPC_CODES; i++) {
        stats->handled[i] += more->handled[i];
    }
    stats->handling.sum_us += more->handling.sum_us;
    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        stats->handling.buckets[i] += more->handling.buckets[i];
    }
}
