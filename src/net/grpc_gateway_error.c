#include "net/grpc_gateway_error.h"

#include "net/grpc_json_text.h"

#include <stdio.h>
#include <string.h>

/* Not every status that a code could stand for: those that etcd's gateway chooses. */
static const struct {
    unsigned status;
    const char *reason;
} statuses[] = {
    [GRPC_OK] = {200, "OK"},
    [GRPC_CANCELLED] = {408, "Request Timeout"},
    [GRPC_UNKNOWN] = {500, "Internal Server Error"},
    [GRPC_INVALID_ARGUMENT] = {400, "Bad Request"},
    [GRPC_DEADLINE_EXCEEDED] = {504, "Gateway Timeout"},
    [GRPC_NOT_FOUND] = {404, "Not Found"},
    [GRPC_ALREADY_EXISTS] = {409, "Conflict"},
    [GRPC_PERMISSION_DENIED] = {403, "Forbidden"},
    [GRPC_RESOURCE_EXHAUSTED] = {429, "Too Many Requests"},
    [GRPC_FAILED_PRECONDITION] = {400, "Bad Request"},
    [GRPC_ABORTED] = {409, "Conflict"},
    [GRPC_OUT_OF_RANGE] = {400, "Bad Request"},
    [GRPC_UNIMPLEMENTED] = {501, "Not Implemented"},
    [GRPC_INTERNAL] = {500, "Internal Server Error"},
    [GRPC_UNAVAILABLE] = {503, "Service Unavailable"},
    [GRPC_DATA_LOSS] = {500, "Internal Server Error"},
    [GRPC_UNAUTHENTICATED] = {401, "Unauthorized"},
};
enum { N_STATUSES = sizeof statuses / sizeof statuses[0] };

static size_t index_of(enum grpc_code code) {
    return (size_t)code < N_STATUSES ? (size_t)code : GRPC_UNKNOWN;
}

unsigned grpc_gateway_status(enum grpc_code code) {
    return statuses[index_of(code)].status;
}

static void append(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

void grpc_gateway_write_error(struct buffer *out, enum grpc_code code, const char *text) {
    char number[32];
    snprintf(number, sizeof number, ",\"code\":%u,\"message\":", (unsigned)code);
    append(out, "{\"error\":");
    grpc_json_write_text(out, bytes_from_text(text));
    append(out, number);
    grpc_json_write_text(out, bytes_from_text(text));
    append(out, "}");
}

void grpc_gateway_write_stream_error(struct buffer *out, enum grpc_code code, const char *text) {
    char numbers[96];
    size_t i = index_of(code);
    snprintf(numbers, sizeof numbers,
             "{\"error\":{\"grpc_code\":%u,\"http_code\":%u,\"message\":", (unsigned)code,
             statuses[i].status);
    append(out, numbers);
    grpc_json_write_text(out, bytes_from_text(text));
    append(out, ",\"http_status\":");
    grpc_json_write_text(out, bytes_from_text(statuses[i].reason));
    append(out, "}}\n");
}
