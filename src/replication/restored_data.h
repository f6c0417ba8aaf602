/*
 * Raft's files of a member whose cluster begins with a state that it was given instead of an empty
 * one: a snapshot that all of its first members have alike, as if the cluster had agreed on it, and
 * no log. The server then starts on the directory as on any other.
 */
#ifndef LEASED_REPLICATION_RESTORED_DATA_H
#define LEASED_REPLICATION_RESTORED_DATA_H

#include "base/status.h"
#include "core/snapshot.h"
#include "replication/replication.h"

#include <stddef.h>

struct restored_data {
    const struct replication_member *members; /* all of them, at least one */
    size_t n_members;
    uint64_t token_hash; /* see join.h */
    /* The state; its members are empty and are filled in here. */
    struct snapshot_target *state;
    void (*progress)(void *data, uint64_t written); /* bytes; may be NULL */
    void *progress_data;
};

/* Into a directory that exists, is empty and is nobody else's. Durable when it returns STATUS_OK.
 * STATUS_IO, STATUS_NO_SPACE, STATUS_INVALID (two members are one): `out_error` says why. */
enum status restored_data_write(const char *raft_dir, const struct restored_data *data,
                                char *out_error, size_t error_size);

#endif
