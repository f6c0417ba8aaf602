/*
 * Which data directory each member had when it was last seen. A directory gets a random number when
 * it is made; a member that comes with another one has lost its votes and what it helped
 * to acknowledge, and may not go on under its id. The table of members has these numbers, too, but
 * a node that has just started does not know yet how much of its log is committed: so they are kept
 * in a small file of their own, replaced as a whole.
 *
 * A second line of defence: a file that cannot be read is taken for none.
 */
#ifndef LEASED_REPLICATION_DATA_DIR_IDS_H
#define LEASED_REPLICATION_DATA_DIR_IDS_H

#include "base/bytes.h"
#include "core/member_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DATA_DIR_IDS_TEXT_SIZE_MAX = 64 * MEMBERS_MAX };

struct data_dir_ids {
    size_t n;
    struct {
        uint64_t id;
        uint64_t data_dir_id;
    } members[MEMBERS_MAX];
};

/* Those of the table, in its order. */
void data_dir_ids_of_table(const struct member_table *table, struct data_dir_ids *out_ids);
/* 0: not known. */
uint64_t data_dir_ids_find(const struct data_dir_ids *ids, uint64_t id);
bool data_dir_ids_equal(const struct data_dir_ids *a, const struct data_dir_ids *b);

/* The text of the file; returns its size. */
size_t data_dir_ids_encode(const struct data_dir_ids *ids,
                           char out_text[DATA_DIR_IDS_TEXT_SIZE_MAX]);
/* False for anything but what data_dir_ids_encode() wrote. */
bool data_dir_ids_decode(struct bytes text, struct data_dir_ids *out_ids);

/* Empty when there is none. */
void data_dir_ids_load(const char *path, struct data_dir_ids *out_ids);
/* False: it could not be written; the old one is there still. */
bool data_dir_ids_store(const char *path, const struct data_dir_ids *ids);

#endif
