/* What the files of `lease import redis://…` share: a batch of keys on both sides. */
#ifndef LEASED_CLI_IMPORT_REDIS_INTERNAL_H
#define LEASED_CLI_IMPORT_REDIS_INTERNAL_H

#include "cli/import.h"
#include "cli/redis_link.h"

enum {
    REDIS_BATCH_MAX = 128,
    REDIS_PAGE = 512,  /* keys of one SCAN */
    REDIS_CHUNK = 256, /* elements that are read or written at once */
    REDIS_CHUNK_BYTES = 256 * 1024,
    REDIS_VALUE_MAX = 1280 * 1024, /* of a string or an element: leased takes requests of 1.5 MiB */
    /* A copy's time is set to end before the original's, by what copying took. A busy leased counts
     * it from when the change is applied, which can be a little later than when it was decided. */
    REDIS_TTL_EARLY_MS = 5000,
    REDIS_TTL_LATE_MS = 1000
};

enum redis_type {
    REDIS_NONE,
    REDIS_STRING,
    REDIS_HASH,
    REDIS_LIST,
    REDIS_SET,
    REDIS_ZSET,
    REDIS_OTHER, /* streams, types of modules */
    REDIS_TYPES
};

/* A key on one side. */
struct redis_side {
    enum redis_type type;
    int64_t ttl_ms; /* -1: none; -2: no such key */
    int64_t size;   /* bytes of a string, elements of the others */
    bool has_content;
    struct resp_reply content; /* of a small one: a bulk string, or all elements */
};

enum redis_verdict {
    REDIS_EQUAL,
    REDIS_GONE,        /* at the source */
    REDIS_DIFFERENT,   /* in its content, or not at the destination */
    REDIS_TTL_DIFFERS, /* only that */
    REDIS_UNSUPPORTED,
    REDIS_MOVED /* changed while it was read; the next round looks again */
};

struct redis_item {
    struct bytes key;
    char type_text[32]; /* at the source */
    struct redis_side source;
    struct redis_side destination;
    enum redis_verdict verdict;
    size_t n_replies; /* of its writes, to be read */
    bool has_failed;
};

struct redis_import {
    struct import_job *job;
    struct redis_link source;
    struct redis_link destination;
    enum import_mode mode;
    struct arena page;  /* the keys of one SCAN */
    struct arena batch; /* all else */
    struct redis_item items[REDIS_BATCH_MAX];
    size_t n_items;
    int64_t destination_wall_ms; /* before the times to live of the batch were read */
    uint64_t read_ms;            /* how long reading them took */
    bool databases[IMPORT_DATABASES_MAX];
};

/* Is read and written in pieces. */
static inline bool redis_side_is_large(const struct redis_side *side) {
    return side->size > (side->type == REDIS_STRING ? REDIS_CHUNK_BYTES / 4 : REDIS_CHUNK);
}

/* ---- import_redis_keys.c ---- */

/* Reads state->items on both sides, compares, and writes what differs. */
bool redis_import_settle(struct redis_import *state);
/* Queues what sets the time to live of a key that was just written; gives the replies to come. */
size_t redis_import_put_ttl(struct redis_import *state, const struct redis_item *item);

/* ---- import_redis_content.c ---- */

/* Queues the command that reads the whole of a small key. */
void redis_content_ask(struct redis_link *link, enum redis_type type, struct bytes key);
/* Both were read whole. */
bool redis_content_is_equal(struct redis_import *state, const struct redis_item *item);
/* All elements are small enough for leased. */
bool redis_content_fits(const struct redis_side *side);
size_t redis_content_bytes(const struct resp_reply *content);
/* Queues what writes elements first..end of the content; their number in words, pairs where the
 * type has them. */
void redis_content_put(struct redis_link *link, enum redis_type type, struct bytes key,
                       const struct resp_reply *content, size_t first, size_t end);
/* Where a piece that begins at `first` ends, by count and bytes. */
size_t redis_content_piece(enum redis_type type, const struct resp_reply *content, size_t first);

/* ---- import_redis_large.c ---- */

/* Compares a key piece by piece: its verdict becomes REDIS_EQUAL or REDIS_DIFFERENT. */
bool redis_large_compare(struct redis_import *state, struct redis_item *item);
/* Copies it piece by piece. An error of the destination is a problem of the key. */
bool redis_large_copy(struct redis_import *state, struct redis_item *item);

#endif
