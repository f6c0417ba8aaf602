/* What snapshot_store_find() needs of a reader beyond snapshot_store.h: the reason of a refusal. */
#ifndef LEASED_RAFT_SNAPSHOT_READER_H
#define LEASED_RAFT_SNAPSHOT_READER_H

#include "raft/snapshot_store.h"

#include <stddef.h>

enum { SNAPSHOT_READER_WHY_SIZE = 160 };

/* As snapshot_reader_open(); for EBADMSG and ENOTSUP (a newer version) `out_why` says what is
 * wrong, in SNAPSHOT_READER_WHY_SIZE bytes. */
int snapshot_reader_open_explained(const struct raft_files *files, uint64_t index, uint64_t term,
                                   struct snapshot_reader **out_reader, char *out_why);

#endif
