/* JSON of a client into a message, and back into JSON: what is accepted must be what the generated
 * code reads too, and its JSON must be read as the same message again, however its bytes are cut.
 * The first byte chooses the message and how it is cut. */
#include "net/grpc_json_reader.h"
#include "net/grpc_json_writer.h"
#include "proto/etcd.pb-c.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const messages[] = {
    &etcdserverpb__txn_request__descriptor,
    &etcdserverpb__watch_request__descriptor,
    &etcdserverpb__range_response__descriptor,
    &etcdserverpb__auth_role_grant_permission_request__descriptor,
    &etcdserverpb__status_response__descriptor,
    &etcdserverpb__watch_response__descriptor,
};
enum { N_MESSAGES = sizeof messages / sizeof messages[0] };

/* The stream of values ends where a value ends. */
static void scan(struct bytes input) {
    while (input.size > 0) {
        struct grpc_json_scanner scanner = {0};
        struct bytes rest = input;
        bool is_whole = grpc_json_scanner_next(&scanner, &rest);
        assert(rest.size < input.size);
        assert(is_whole || rest.size == 0);
        input = rest;
    }
}

static void write_json(const ProtobufCMessageDescriptor *message, const struct buffer *wire,
                       size_t step, struct buffer *out) {
    struct grpc_json_writer writer;
    grpc_json_writer_init(&writer, message, wire->size, out);
    for (size_t at = 0; at < wire->size; at += step) {
        size_t size = wire->size - at < step ? wire->size - at : step;
        bool is_good = grpc_json_writer_feed(&writer, bytes_of(wire->data + at, size), out);
        assert(is_good);
    }
    assert(grpc_json_writer_is_done(&writer));
}

/* What the generated code makes of it, in one form. */
static void pack_again(const ProtobufCMessageDescriptor *descriptor, const struct buffer *wire,
                       struct buffer *out) {
    static const uint8_t nothing;
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, NULL, wire->size,
                                                          wire->size > 0 ? wire->data : &nothing);
    assert(message != NULL);
    uint8_t *to = buffer_reserve(out, protobuf_c_message_get_packed_size(message) + 1);
    out->size = protobuf_c_message_pack(message, to);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* Bytes that are no answer of ours: whatever comes of them, it is bounded. */
static void write_anything(const ProtobufCMessageDescriptor *message, struct bytes wire) {
    struct grpc_json_writer writer;
    struct buffer out;
    buffer_init(&out);
    grpc_json_writer_init(&writer, message, wire.size, &out);
    grpc_json_writer_feed(&writer, wire, &out);
    buffer_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    const ProtobufCMessageDescriptor *message = messages[data[0] % N_MESSAGES];
    size_t step = 1 + data[0] / N_MESSAGES;
    struct bytes json = bytes_of(data + 1, size - 1);
    char error[GRPC_JSON_ERROR_SIZE];
    struct buffer wire = {0};
    struct buffer text = {0};
    struct buffer again = {0};
    struct buffer packed = {0};
    struct buffer packed_again = {0};
    scan(json);
    write_anything(message, json);
    if (grpc_json_read(json, message, &wire, error)) {
        write_json(message, &wire, step, &text);
        bool is_read = grpc_json_read(bytes_of(text.data, text.size), message, &again, error);
        assert(is_read);
        pack_again(message, &wire, &packed);
        pack_again(message, &again, &packed_again);
        assert(bytes_equal(bytes_of(packed.data, packed.size),
                           bytes_of(packed_again.data, packed_again.size)));
    } else {
        assert(error[0] != 0);
    }
    buffer_clear(&wire);
    buffer_clear(&text);
    buffer_clear(&again);
    buffer_clear(&packed);
    buffer_clear(&packed_again);
    return 0;
}
