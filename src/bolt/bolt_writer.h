/*
 * Writes a bbolt file from front to back: buckets and keys come in ascending order, pages leave as
 * soon as they are full. Memory: one page a level of the tree, and the largest value.
 *
 * The first two pages say where the root is, which is known at the end. So a file is written twice
 * with the same input: first to be measured, then with what that gave.
 */
#ifndef LEASED_BOLT_BOLT_WRITER_H
#define LEASED_BOLT_BOLT_WRITER_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdint.h>

/* What measuring gives. */
struct bolt_plan {
    uint64_t root; /* page of the bucket of buckets */
    uint64_t pages;
};

static const struct bolt_plan bolt_plan_none = {0, 0};

/* Of the whole file in bytes. */
uint64_t bolt_plan_size(const struct bolt_plan *plan);

struct bolt_writer;

/* Pages are appended to `out`, which the caller may empty between two calls, and which outlives
 * the writer. `plan`: bolt_plan_none to measure. */
struct bolt_writer *bolt_writer_create(const struct bolt_plan *plan, struct buffer *out);
void bolt_writer_destroy(struct bolt_writer *writer);

/* Buckets by ascending name, of at most 64 bytes; there may be a dozen or two of them. */
void bolt_writer_begin_bucket(struct bolt_writer *writer, const char *name);
/* Keys are not empty, ascend and are at most BOLT_KEY_SIZE_MAX bytes long. Asserted. */
void bolt_writer_put(struct bolt_writer *writer, struct bytes key, struct bytes value);
void bolt_writer_end_bucket(struct bolt_writer *writer);

/* The last page. Asserts that the file became what was planned. */
struct bolt_plan bolt_writer_finish(struct bolt_writer *writer);

#endif
