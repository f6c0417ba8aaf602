/* gRPC's server reflection, v1 and v1alpha, which are the same but for their names: tools ask which
 * services there are and how their messages look. All files are sent together, so whoever asks for
 * one has what it imports as well. */
#include "base/pb_reader.h"
#include "doors/etcd/etcd_call.h"
#include "proto/descriptors.h"

#include <string.h>

enum {
    /* Of a request; names are short. */
    REQUEST_SIZE_MAX = 4096,
    /* Fields of ServerReflectionRequest. */
    BY_FILENAME = 3,
    CONTAINING_SYMBOL = 4,
    CONTAINING_EXTENSION = 5,
    EXTENSION_NUMBERS = 6,
    LIST_SERVICES = 7,
    /* And of ServerReflectionResponse. */
    VALID_HOST = 1,
    ORIGINAL_REQUEST = 2,
    FILE_DESCRIPTORS = 4,
    SERVICES = 6,
    ERROR = 7
};

struct reflection_request {
    struct bytes host;
    uint32_t kind; /* 0: none that is known */
    struct bytes text;
};

static bool read_request(struct bytes message, struct reflection_request *out) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    *out = (struct reflection_request){0};
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            out->host = pb_reader_bytes(&reader);
        } else if (reader.field >= BY_FILENAME && reader.field <= LIST_SERVICES) {
            out->kind = reader.field;
            out->text = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static bool is_among(struct bytes name, const char *const *names) {
    for (; *names != NULL; names++) {
        if (bytes_equal(name, bytes_from_text(*names))) {
            return true;
        }
    }
    return false;
}

static bool is_file(struct bytes name) {
    for (size_t i = 0; i < descriptor_n_files; i++) {
        if (bytes_equal(name, bytes_from_text(descriptor_files[i].name))) {
            return true;
        }
    }
    return false;
}

/* --- Answers. --- */

/* The parts that every answer begins with; `body_size` is that of the message in `field`. */
static bool begin_answer(struct grpc_call *call, struct bytes message,
                         const struct reflection_request *request, uint32_t field, size_t body_size,
                         struct pb_writer *writer) {
    size_t size = pb_bytes_size(VALID_HOST, request->host) +
                  pb_message_size(ORIGINAL_REQUEST, message.size) +
                  pb_message_size(field, body_size);
    if (!etcd_answer_begin(call, size, writer)) {
        return false;
    }
    pb_write_bytes(writer, VALID_HOST, request->host);
    pb_write_message(writer, ORIGINAL_REQUEST, message.size);
    pb_write_raw(writer, message);
    pb_write_message(writer, field, body_size);
    return true;
}

static void answer_error(struct grpc_call *call, struct bytes message,
                         const struct reflection_request *request, enum grpc_code code,
                         const char *text) {
    struct pb_writer writer;
    size_t size = pb_uint64_size(1, code) + pb_bytes_size(2, bytes_from_text(text));
    if (begin_answer(call, message, request, ERROR, size, &writer)) {
        pb_write_uint64(&writer, 1, code);
        pb_write_bytes(&writer, 2, bytes_from_text(text));
        etcd_answer_end(call, &writer);
    }
}

static void answer_files(struct grpc_call *call, struct bytes message,
                         const struct reflection_request *request) {
    struct pb_writer writer;
    size_t size = 0;
    for (size_t i = 0; i < descriptor_n_files; i++) {
        size += pb_message_size(1, descriptor_files[i].size);
    }
    if (begin_answer(call, message, request, FILE_DESCRIPTORS, size, &writer)) {
        for (size_t i = 0; i < descriptor_n_files; i++) {
            pb_write_element(&writer, 1,
                             bytes_of(descriptor_files[i].bytes, descriptor_files[i].size));
        }
        etcd_answer_end(call, &writer);
    }
}

static size_t service_size(const char *name) {
    return pb_bytes_size(1, bytes_from_text(name));
}

static void answer_services(struct grpc_call *call, struct bytes message,
                            const struct reflection_request *request) {
    struct pb_writer writer;
    size_t size = 0;
    for (const char *const *name = descriptor_services; *name != NULL; name++) {
        if (grpc_call_has_service(call, *name)) {
            size += pb_message_size(1, service_size(*name));
        }
    }
    if (begin_answer(call, message, request, SERVICES, size, &writer)) {
        for (const char *const *name = descriptor_services; *name != NULL; name++) {
            if (grpc_call_has_service(call, *name)) {
                pb_write_message(&writer, 1, service_size(*name));
                pb_write_bytes(&writer, 1, bytes_from_text(*name));
            }
        }
        etcd_answer_end(call, &writer);
    }
}

static void on_request(struct grpc_call *call, struct bytes message) {
    struct reflection_request request;
    if (!etcd_call_is_user(call, "reflection")) {
        return;
    }
    if (message.size > REQUEST_SIZE_MAX || !read_request(message, &request)) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "malformed reflection request");
        return;
    }
    /* Whoever asks and does not read gets no further answers. */
    if (!grpc_call_is_writable(call)) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "answers are not read");
        return;
    }
    switch (request.kind) {
    case LIST_SERVICES:
        answer_services(call, message, &request);
        return;
    case BY_FILENAME:
        if (is_file(request.text)) {
            answer_files(call, message, &request);
        } else {
            answer_error(call, message, &request, GRPC_NOT_FOUND, "file not found");
        }
        return;
    case CONTAINING_SYMBOL:
        if (is_among(request.text, descriptor_services) ||
            is_among(request.text, descriptor_names)) {
            answer_files(call, message, &request);
        } else {
            answer_error(call, message, &request, GRPC_NOT_FOUND, "symbol not found");
        }
        return;
    case CONTAINING_EXTENSION:
    case EXTENSION_NUMBERS:
        answer_error(call, message, &request, GRPC_NOT_FOUND, "there are no extensions");
        return;
    default:
        answer_error(call, message, &request, GRPC_INVALID_ARGUMENT, "unknown request");
    }
}

static void on_end(struct grpc_call *call) {
    grpc_call_finish(call, GRPC_OK, NULL);
}

#define REFLECTION(version)                                                                        \
    {                                                                                              \
        .path = "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo",              \
        .answers_refused = true, .kind = GRPC_BIDIRECTIONAL, .on_message = on_request,             \
        .on_half_close = on_end                                                                    \
    }

static const struct grpc_method methods[] = {REFLECTION("v1"), REFLECTION("v1alpha")};
const struct etcd_methods etcd_reflection_methods = {methods, sizeof methods / sizeof methods[0]};
