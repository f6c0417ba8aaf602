/*
 * Reads the answer to one HTTP/1.1 request (RFC 9112), a byte at a time if need be. Pure and
 * bounded: the header has CHECK_ANSWER_HEADER_MAX bytes at most, of the body the first
 * CHECK_ANSWER_BODY_MAX are kept, and a longer one is not waited for. No byte is trusted.
 */
#ifndef LEASED_CHECKS_CHECK_ANSWER_H
#define LEASED_CHECKS_CHECK_ANSWER_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CHECK_ANSWER_HEADER_MAX = 16 * 1024, /* with interim answers and trailers */
    CHECK_ANSWER_BODY_MAX = 64 * 1024,
    CHECK_ANSWER_REASON_MAX = 64
};

enum check_answer_state { CHECK_ANSWER_MORE, CHECK_ANSWER_DONE, CHECK_ANSWER_FAILED };

enum check_answer_part {
    CHECK_ANSWER_STATUS_LINE,
    CHECK_ANSWER_HEADERS,
    CHECK_ANSWER_LENGTH, /* a body of a known size */
    CHECK_ANSWER_CHUNK_SIZE,
    CHECK_ANSWER_CHUNK,
    CHECK_ANSWER_CHUNK_END,
    CHECK_ANSWER_TRAILERS,
    CHECK_ANSWER_TO_END /* a body that ends with the connection */
};

struct check_answer {
    int status;
    char reason[CHECK_ANSWER_REASON_MAX + 1];
    struct buffer body;
    bool is_cut;       /* the body is longer than what was kept */
    bool keeps_alive;  /* another request may be sent on the connection */
    const char *error; /* of CHECK_ANSWER_FAILED: a constant text */

    /* Private. */
    enum check_answer_state state;
    enum check_answer_part part;
    bool is_of_head;
    bool is_http10;
    bool has_length;
    bool is_chunked;
    bool has_begun; /* a byte came */
    uint64_t left;  /* of the body, or of the chunk */
    size_t header_size;
    struct buffer line;
};

/* `is_of_head`: the request was HEAD, whose answer has no body. */
void check_answer_init(struct check_answer *answer, bool is_of_head);
void check_answer_clear(struct check_answer *answer);

/* What follows the end of the answer is not looked at, and keeps the connection from being used
 * again. */
enum check_answer_state check_answer_feed(struct check_answer *answer, struct bytes bytes);
/* The connection has ended. */
enum check_answer_state check_answer_end(struct check_answer *answer);

#endif
