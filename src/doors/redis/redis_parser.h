/*
 * Requests of the Redis protocol: arrays of bulk strings, and inline commands. It holds no state:
 * it is given the bytes from the beginning of a request and says how many of them it was.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_PARSER_H
#define LEASED_DOORS_REDIS_REDIS_PARSER_H

#include "base/arena.h"
#include "base/bytes.h"

#include <stddef.h>

enum { REDIS_INLINE_SIZE_MAX = 64 * 1024 };

enum redis_parse_result {
    REDIS_PARSE_OK,   /* a request; without arguments it is to be passed over */
    REDIS_PARSE_MORE, /* it is not whole yet */
    REDIS_PARSE_ERROR /* the client breaks the protocol */
};

struct redis_parsed {
    const struct bytes *argv; /* in arena memory; the arguments are views of the input, or copies */
    size_t argc;
    size_t size;       /* of the request */
    const char *error; /* with REDIS_PARSE_ERROR: a constant text, as Redis says it */
};

struct redis_parser_limits {
    size_t arguments_max;
    size_t bulk_max;
};

enum redis_parse_result redis_parse(struct bytes bytes, const struct redis_parser_limits *limits,
                                    struct arena *arena, struct redis_parsed *out_parsed);

#endif
