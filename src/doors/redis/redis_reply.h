/*
 * Replies of the Redis protocol as RESP3 bytes: what the rule answers, what redis.call() gives to a
 * script, and what a connection sends. Builders append one value to a buffer; the reader walks over
 * such bytes, which it does not trust. Two values are of our own, because RESP2 and RESP3 differ in
 * more than the spelling of one value: the null that RESP2 writes as an array, and pairs, which are
 * flat in RESP2 and arrays of two in RESP3. So bytes for a client pass through one of the two
 * conversions. Pure: rules use it.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_REPLY_H
#define LEASED_DOORS_REDIS_REDIS_REPLY_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REDIS_REPLY_DEPTH_MAX = 128,  /* of aggregates inside each other */
    REDIS_REPLY_DOUBLE_SIZE = 32, /* enough for the text of any double */
};

enum redis_reply_type {
    REDIS_REPLY_NULL,       /* _ and, in what others wrote, $-1 */
    REDIS_REPLY_NULL_ARRAY, /* *-1: a null that RESP2 writes as an array */
    REDIS_REPLY_INTEGER,    /* : */
    REDIS_REPLY_DOUBLE,     /* , */
    REDIS_REPLY_BOOL,       /* # */
    REDIS_REPLY_SIMPLE,     /* + */
    REDIS_REPLY_ERROR,      /* - and, in what others wrote, ! */
    REDIS_REPLY_BULK,       /* $ */
    REDIS_REPLY_VERBATIM,   /* = */
    REDIS_REPLY_BIG_NUMBER, /* ( */
    REDIS_REPLY_ARRAY,      /* * */
    REDIS_REPLY_MAP,        /* % */
    REDIS_REPLY_SET,        /* ~ */
    REDIS_REPLY_PUSH,       /* > */
    REDIS_REPLY_ATTRIBUTE,  /* | and a value, to which it belongs */
    REDIS_REPLY_PAIRS,      /* ^: RESP2 a flat array, RESP3 an array of arrays of two */
    REDIS_REPLY_ENTRIES,    /* @: RESP2 an array of arrays of two, RESP3 a map */
};

/* --- Builders. Each appends one value, or the header of an aggregate whose values follow. --- */

void redis_reply_null(struct buffer *out);
void redis_reply_null_array(struct buffer *out);
void redis_reply_integer(struct buffer *out, int64_t value);
void redis_reply_double(struct buffer *out, double value);
void redis_reply_bool(struct buffer *out, bool value);
/* Line ends in the text become spaces, as Redis does it with errors. An error's text begins with
 * its code and has no dash: "ERR no such key". */
void redis_reply_simple(struct buffer *out, struct bytes text);
void redis_reply_error(struct buffer *out, struct bytes text);
void redis_reply_ok(struct buffer *out);
void redis_reply_error_text(struct buffer *out, const char *text);
void redis_reply_bulk(struct buffer *out, struct bytes value);
/* A bulk string of decimal digits. */
void redis_reply_bulk_integer(struct buffer *out, int64_t value);
/* The format has three letters: "txt", "mkd". */
void redis_reply_verbatim(struct buffer *out, const char format[3], struct bytes value);
void redis_reply_big_number(struct buffer *out, struct bytes digits);
void redis_reply_array(struct buffer *out, size_t n);
void redis_reply_map(struct buffer *out, size_t n_pairs); /* key, value, key, value … */
void redis_reply_set(struct buffer *out, size_t n);
void redis_reply_push(struct buffer *out, size_t n);
/* n_pairs as in a map, then the value that they belong to; together they are one value. */
void redis_reply_attribute(struct buffer *out, size_t n_pairs);
/* As a map, for ZRANGE WITHSCORES and its like. */
void redis_reply_pairs(struct buffer *out, size_t n_pairs);
void redis_reply_entries(struct buffer *out, size_t n_pairs);

/* The text of a double as Redis 7.0 writes it: 17 digits, "inf", "-inf", "nan". Returns its size.
 */
size_t redis_reply_double_text(double value, char out_text[REDIS_REPLY_DOUBLE_SIZE]);

/* --- Reader. --- */

struct redis_reply_value {
    enum redis_reply_type type;
    unsigned depth;    /* of the aggregates around it: 0 at the top */
    bool is_attribute; /* the value is inside of an attribute, or is one */
    bool boolean;
    int64_t integer;
    double number;
    struct bytes text; /* simple, error, bulk, verbatim without its format, big number, double */
    size_t n;          /* aggregates: how many values follow inside; of a map twice its pairs */
    char format[4];    /* verbatim */
};

struct redis_reply_reader {
    struct bytes bytes;
    size_t position;
    unsigned depth;
    bool failed;
    bool has_attribute; /* an attribute has ended, and the value that it belongs to comes */
    struct {
        uint64_t left;
        bool is_attribute; /* does not count as a value of what is around it */
    } open[REDIS_REPLY_DEPTH_MAX];
};

void redis_reply_reader_init(struct redis_reply_reader *reader, struct bytes bytes);
/* The next value, aggregates before their values. False at the end of the bytes, and with `failed`
 * set when they are malformed, too deep, or end inside of a value. Texts are views into the bytes.
 */
bool redis_reply_next(struct redis_reply_reader *reader, struct redis_reply_value *out_value);
/* Whether the last value given ended one at the top. */
bool redis_reply_is_complete(const struct redis_reply_reader *reader);
/* Passes over what is inside of the aggregate that was given last. False when that is malformed. */
bool redis_reply_skip(struct redis_reply_reader *reader, const struct redis_reply_value *value);

/* --- For clients. --- */

/* Appends all values of `bytes` as RESP2: maps, sets, pushes and pairs as flat arrays, doubles, big
 * numbers and verbatim strings as bulk strings, booleans as integers, without attributes.
 * STATUS_MALFORMED, and nothing is appended, when they are no sequence of whole values. */
enum status redis_reply_to_resp2(struct bytes bytes, struct buffer *out);
/* The same as RESP3: only our own two values and old spellings change. */
enum status redis_reply_to_resp3(struct bytes bytes, struct buffer *out);

#endif
