/*
 * JSON from a client into the protocol buffers encoding, as etcd's gateway reads it: bytes are
 * base64 of either alphabet, padded or not, 64-bit numbers are numbers or strings, enums names or
 * numbers, fields have their own names or those in camel case, null is nothing, and what is not
 * known is ignored. The message's descriptor (protobuf-c) says what is expected. Pure.
 */
#ifndef LEASED_NET_GRPC_JSON_READER_H
#define LEASED_NET_GRPC_JSON_READER_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    /* Objects and arrays inside of each other. */
    GRPC_JSON_DEPTH_MAX = 64,
    GRPC_JSON_ERROR_SIZE = 192
};

/* Finds the end of a value in a stream that is cut anywhere. Keeps nothing of it and checks hardly
 * anything: that is left to grpc_json_read(). */
struct grpc_json_scanner {
    size_t depth;
    bool has_begun;
    bool is_text;    /* inside of quotes */
    bool is_escaped; /* behind a backslash */
};

/* Takes bytes off the input until the value ends; true: it did. White space before a value is
 * taken, what follows it is not. A number or word at the end of the input may go on: it ends when
 * something else follows, or the stream ends. */
bool grpc_json_scanner_next(struct grpc_json_scanner *scanner, struct bytes *input);

/* Appends the encoding of one whole value. False: `out_error` says why. */
bool grpc_json_read(struct bytes json, const ProtobufCMessageDescriptor *message,
                    struct buffer *out, char out_error[GRPC_JSON_ERROR_SIZE]);

#endif
