/*
 * JSON text as a sequence of tokens (RFC 8259), strict: names, values and the ends of objects and
 * arrays, in the order in which they stand there. Whether commas and colons are where they belong
 * is checked here, so that a reader sees values only. Pure.
 */
#ifndef LEASED_NET_GRPC_JSON_TOKEN_H
#define LEASED_NET_GRPC_JSON_TOKEN_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "net/grpc_json_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_kind {
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_NAME, /* of a member; its value follows */
    JSON_TEXT,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};

struct json_token {
    enum json_kind kind;
    /* Of names and texts: without quotes and escapes, valid UTF-8. Of numbers: as written. Valid
     * until the next token. */
    struct bytes text;
};

struct json_tokens {
    struct bytes json;
    size_t at;
    struct json_token token;
    const char *error;       /* constant */
    struct buffer unescaped; /* of the token */
    size_t depth;
    bool is_object[GRPC_JSON_DEPTH_MAX];
    bool is_empty[GRPC_JSON_DEPTH_MAX]; /* nothing was in it yet */
    bool wants_value;                   /* behind a name */
    bool is_done;                       /* the outermost value was read */
};

void json_tokens_init(struct json_tokens *tokens, struct bytes json);
void json_tokens_clear(struct json_tokens *tokens);
/* False: see `error`; also when there is no more. */
bool json_tokens_next(struct json_tokens *tokens);
/* Only white space is left. */
bool json_tokens_at_end(struct json_tokens *tokens);
size_t json_tokens_position(const struct json_tokens *tokens);

/* A number without a fraction or an exponent, as the 64 bits that stand for it. */
bool json_parse_whole(struct bytes text, int64_t min, uint64_t max, uint64_t *out_value);
/* Appends what base64 of either alphabet stands for, with its padding or without. Ends of lines in
 * it are passed over. */
bool json_parse_base64(struct bytes text, struct buffer *out);

#endif
