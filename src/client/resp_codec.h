/*
 * RESP2, the protocol of Redis, as a client speaks it: commands are appended to a buffer, replies
 * are found and read in bytes that are checked one by one, for a server may be anything. No I/O.
 */
#ifndef LEASED_CLIENT_RESP_CODEC_H
#define LEASED_CLIENT_RESP_CODEC_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESP_DEPTH_MAX = 8,
    RESP_REPLY_SIZE_MAX = 256 * 1024 * 1024,
    RESP_ITEMS_MAX = 4 * 1024 * 1024, /* of one array */
    RESP_LINE_SIZE_MAX = 64 * 1024
};

/* ---- commands ---- */

/* How many words follow; then each of them. */
void resp_put_count(struct buffer *out, size_t n_words);
void resp_put_word(struct buffer *out, struct bytes word);
void resp_put_number(struct buffer *out, int64_t number);
/* A command in one go: texts, ended by NULL. */
void resp_put_texts(struct buffer *out, const char *first, ...) __attribute__((sentinel));

/* ---- replies ---- */

enum resp_kind { RESP_STATUS, RESP_ERROR, RESP_INTEGER, RESP_BULK, RESP_NULL, RESP_ARRAY };

struct resp_reply {
    enum resp_kind kind;
    int64_t integer;
    struct bytes text; /* of a status, an error and a bulk string */
    struct resp_reply *items;
    size_t n_items;
};

/* Finds the end of the first reply of an input that grows, without looking at anything twice.
 * Zeroed before the first call and after each whole reply. */
struct resp_scanner {
    size_t position;
    size_t depth;
    uint64_t left[RESP_DEPTH_MAX]; /* items of each open array that are still to come */
};

enum resp_result { RESP_MORE, RESP_WHOLE, RESP_BAD };

/* RESP_WHOLE: the reply is the first scanner->position bytes. */
enum resp_result resp_scan(struct resp_scanner *scanner, struct bytes input);
/* Reads what the scanner has found whole. Items are in the arena, texts are views. False: malformed
 * in a way that the scanner does not look at (a number). */
bool resp_read(struct bytes whole, struct arena *arena, struct resp_reply *out_reply);

#endif
