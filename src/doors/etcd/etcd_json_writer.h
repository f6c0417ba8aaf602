/*
 * The protocol buffers encoding of an answer as JSON, in the words of etcd's gateway: bytes as
 * base64, 64-bit numbers as strings, enums as names, fields under their own names, and nothing for
 * what has its default value. The message comes in pieces that may be cut anywhere, so a large
 * answer is never held as a whole. The message's descriptor (protobuf-c) names its fields. Pure.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_JSON_WRITER_H
#define LEASED_DOORS_ETCD_ETCD_JSON_WRITER_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "doors/etcd/etcd_json_text.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Messages inside of each other: transactions are the deepest. */
    ETCD_JSON_LEVELS_MAX = 64
};

struct etcd_json_level {
    const ProtobufCMessageDescriptor *message;
    size_t left;                           /* bytes of it that are still to come */
    const ProtobufCFieldDescriptor *array; /* the repeated field that is open; NULL: none */
    bool has_fields;
};

enum etcd_json_state {
    ETCD_JSON_TAG,
    ETCD_JSON_NUMBER,
    ETCD_JSON_LENGTH,
    ETCD_JSON_PACKED,
    ETCD_JSON_BYTES,
    ETCD_JSON_TEXT,
    ETCD_JSON_SKIP
};

struct etcd_json_writer {
    struct etcd_json_level levels[ETCD_JSON_LEVELS_MAX];
    size_t n_levels;
    enum etcd_json_state state;
    const ProtobufCFieldDescriptor *field; /* being read; NULL: not known */
    uint64_t number;                       /* as far as it was read */
    unsigned shift;
    size_t left; /* of bytes, a text, packed numbers or what is skipped */
    struct etcd_json_carry carry;
    bool is_failed;
};

/* A message of `size` bytes will come. */
void etcd_json_writer_init(struct etcd_json_writer *writer,
                           const ProtobufCMessageDescriptor *message, size_t size,
                           struct buffer *out);
/* Appends what the piece says. False: the message is malformed, which means a defect of ours. */
bool etcd_json_writer_feed(struct etcd_json_writer *writer, struct bytes piece, struct buffer *out);
/* The message was whole, and its JSON is complete. */
bool etcd_json_writer_is_done(const struct etcd_json_writer *writer);

#endif
