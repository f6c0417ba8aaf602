/*
 * The term and the vote, in two slots (files meta.1 and meta.2). Both are written and synced before
 * vote_store_write() returns, so that one of them is whole after a crash at any moment; the valid
 * one with the higher sequence number counts.
 */
#ifndef LEASED_RAFT_VOTE_STORE_H
#define LEASED_RAFT_VOTE_STORE_H

#include "base/status.h"
#include "raft/raft_files.h"

#include <stdint.h>

struct vote_store;

/* Reads, and changes nothing. A directory without slots starts with term 0 and no vote; whether
 * they may be missing (other files are there) is for the caller to say: `must_exist`.
 * STATUS_CORRUPT, STATUS_UNSUPPORTED, STATUS_IO: `out_error` names the file, the damage and what to
 * do. */
enum status vote_store_open(const struct raft_files *files, bool must_exist,
                            struct vote_store **out_store, char *out_error, size_t error_size);
/* Once, when all else was found sound: both slots say the same, and are on disk, before anything is
 * done that rests on them. STATUS_IO, STATUS_NO_SPACE. */
enum status vote_store_confirm(struct vote_store *store, char *out_error, size_t error_size);
void vote_store_close(struct vote_store *store);

uint64_t vote_store_term(const struct vote_store *store);
uint64_t vote_store_vote(const struct vote_store *store);

/* On disk when it returns 0; else an errno, and the node must stop. */
int vote_store_write(struct vote_store *store, uint64_t term, uint64_t vote);

#endif
