/*
 * Requests of the Redis protocol: arrays of bulk strings, and inline commands. The parser holds no
 * state: it is given the bytes from the beginning of a request and says how many of them it was.
 * Whoever gets bytes in pieces asks redis_scan() first, which goes on where it stopped and passes
 * over requests that are too large.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_PARSER_H
#define LEASED_DOORS_REDIS_REDIS_PARSER_H

#include "base/arena.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* What Redis takes for an argument; more breaks the protocol. */
enum { REDIS_BULK_SIZE_MAX = 512 * 1024 * 1024 };

/* How far the request is known; zeroed at its beginning. */
struct redis_scan {
    size_t at;           /* so many of its bytes were looked at */
    uint64_t bytes_left; /* of the argument that they end in */
    int64_t n_left;      /* arguments behind it */
    uint64_t size;       /* of the request so far, with what was passed over */
    bool is_begun;       /* its number of arguments is known */
    bool is_too_large;   /* its bytes are not kept: see redis_scan() */
};

/* Looks at the bytes of a request, beginning with its first; of one that is too large, with the
 * first that was not passed over. REDIS_PARSE_OK: it ends behind scan->at bytes. When it is too
 * large, scan->at bytes are to be passed over after each call, whatever the result, and nothing of
 * it is parsed. A request that is not an array is left to redis_parse(). */
enum redis_parse_result redis_scan(struct redis_scan *scan, struct bytes bytes,
                                   const struct redis_parser_limits *limits,
                                   const char **out_error);

enum redis_parse_result redis_parse(struct bytes bytes, const struct redis_parser_limits *limits,
                                    struct arena *arena, struct redis_parsed *out_parsed);

#endif
