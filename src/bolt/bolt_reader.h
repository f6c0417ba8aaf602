/*
 * Reads a bbolt file that is in memory or mapped. Every byte of it is hostile: each page, element
 * and offset is checked before it is followed, and no more pages are looked at than the file has,
 * whatever they point to. Nothing is copied: keys and values are views into the file.
 */
#ifndef LEASED_BOLT_BOLT_READER_H
#define LEASED_BOLT_BOLT_READER_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BOLT_DEPTH_MAX = 32 };

struct bolt_file {
    struct bytes bytes;
    uint32_t page_size;
    uint64_t pages; /* high water, within the file */
    uint64_t root;
};

/* STATUS_MALFORMED: it is no bbolt file. STATUS_UNSUPPORTED: one of another version. */
enum status bolt_file_open(struct bolt_file *file, struct bytes bytes);

/* A bucket's root; borrowed from the file. */
struct bolt_bucket {
    uint64_t root; /* 0: the page is inline */
    struct bytes inline_page;
};

/* STATUS_KEY_NOT_FOUND, STATUS_CORRUPT. */
enum status bolt_bucket_open(const struct bolt_file *file, const char *name,
                             struct bolt_bucket *out_bucket);
/* One value of a bucket. STATUS_KEY_NOT_FOUND, STATUS_CORRUPT. */
enum status bolt_bucket_get(const struct bolt_file *file, const struct bolt_bucket *bucket,
                            struct bytes key, struct bytes *out_value);

/* Goes through a bucket in order of keys. */
struct bolt_cursor {
    const struct bolt_file *file;
    size_t depth; /* 0: at the end */
    struct {
        struct bytes page; /* with its overflow */
        size_t i;
        size_t n;
        bool is_leaf;
    } stack[BOLT_DEPTH_MAX];
    uint64_t pages_seen;
    struct bytes key_before;
    bool is_begun;
    enum status status;
};

void bolt_cursor_init(struct bolt_cursor *cursor, const struct bolt_file *file,
                      const struct bolt_bucket *bucket);
/* False at the end, or when something is wrong: then cursor->status is STATUS_CORRUPT. */
bool bolt_cursor_next(struct bolt_cursor *cursor, struct bytes *out_key, struct bytes *out_value,
                      bool *out_is_bucket);

#endif
