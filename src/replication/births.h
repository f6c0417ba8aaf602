/*
 * Which data directory each member had when it was last seen. A directory gets a random number when
 * it is made, its birth; a member that comes with another one has lost its votes and what it helped
 * to acknowledge, and may not go on under its id. The table of members has the births, too, but a
 * node that has just started does not know yet how much of its log is committed: so they are kept
 * in a small file of their own, replaced as a whole.
 *
 * A second line of defence: a file that cannot be read is taken for none.
 */
#ifndef LEASED_REPLICATION_BIRTHS_H
#define LEASED_REPLICATION_BIRTHS_H

#include "base/bytes.h"
#include "core/member_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BIRTHS_TEXT_SIZE_MAX = 64 * MEMBERS_MAX };

struct births {
    size_t n;
    struct {
        uint64_t id;
        uint64_t birth;
    } members[MEMBERS_MAX];
};

/* Those of the table, in its order. */
void births_of_table(const struct member_table *table, struct births *out_births);
/* 0: not known. */
uint64_t births_find(const struct births *births, uint64_t id);
bool births_equal(const struct births *a, const struct births *b);

/* The text of the file; returns its size. */
size_t births_encode(const struct births *births, char out_text[BIRTHS_TEXT_SIZE_MAX]);
/* False for anything but what births_encode() wrote. */
bool births_decode(struct bytes text, struct births *out_births);

/* Empty when there is none. */
void births_load(const char *path, struct births *out_births);
/* False: it could not be written; the old one is there still. */
bool births_store(const char *path, const struct births *births);

#endif
