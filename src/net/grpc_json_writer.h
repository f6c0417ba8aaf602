/*
 * The protocol buffers encoding of an answer as JSON, in the words of etcd's gateway: bytes as
 * base64, 64-bit numbers as strings, enums as names, fields under their own names, and nothing for
 * what has its default value. The message comes in pieces that may be cut anywhere, so a large
 * answer is never held as a whole. The message's descriptor (protobuf-c) names its fields. Pure.
 */
#ifndef LEASED_NET_GRPC_JSON_WRITER_H
#define LEASED_NET_GRPC_JSON_WRITER_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "net/grpc_json_text.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Messages inside of each other: transactions are the deepest. */
    GRPC_JSON_LEVELS_MAX = 64
};

struct grpc_json_level {
    const ProtobufCMessageDescriptor *message;
    size_t left;                           /* bytes of it that are still to come */
    const ProtobufCFieldDescriptor *array; /* the repeated field that is open; NULL: none */
    bool has_fields;
};

enum grpc_json_state {
    GRPC_JSON_TAG,
    GRPC_JSON_NUMBER,
    GRPC_JSON_LENGTH,
    GRPC_JSON_PACKED,
    GRPC_JSON_BYTES,
    GRPC_JSON_TEXT,
    GRPC_JSON_SKIP
};

struct grpc_json_writer {
    struct grpc_json_level levels[GRPC_JSON_LEVELS_MAX];
    size_t n_levels;
    enum grpc_json_state state;
    const ProtobufCFieldDescriptor *field; /* being read; NULL: not known */
    uint64_t number;                       /* as far as it was read */
    unsigned shift;
    size_t left; /* of bytes, a text, packed numbers or what is skipped */
    struct grpc_json_carry carry;
    bool is_failed;
};

/* A message of `size` bytes will come. */
void grpc_json_writer_init(struct grpc_json_writer *writer,
                           const ProtobufCMessageDescriptor *message, size_t size,
                           struct buffer *out);
/* Appends what the piece says. False: the message is malformed, which means a defect of ours. */
bool grpc_json_writer_feed(struct grpc_json_writer *writer, struct bytes piece, struct buffer *out);
/* The message was whole, and its JSON is complete. */
bool grpc_json_writer_is_done(const struct grpc_json_writer *writer);

#endif
