/*
 * A data directory of a release before 0.2 becomes one of this release, once, at start, before the
 * stores are opened. It can be stopped at any call and started again: either the old files count or
 * the new ones do.
 *
 *     converting    is there while new files are written; what it finds of them is removed
 *     converted     has taken its place: the new files are whole and count from now on, and the old
 *                   ones are being renamed to old-<name>; then it is removed
 */
#ifndef LEASED_RAFT_CONVERT_H
#define LEASED_RAFT_CONVERT_H

#include "base/bytes.h"
#include "base/status.h"
#include "raft/raft_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raft_convert_options {
    /* Whether a payload is a whole snapshot of the state machine: STATUS_OK, STATUS_CORRUPT,
     * STATUS_UNSUPPORTED. */
    enum status (*check_snapshot)(struct bytes payload);
    uint64_t log_segment_size; /* as in log_store.h; 0: the default */
};

/* Nothing to do for a directory that is empty or of this release. STATUS_CORRUPT (damage, or files
 * of both kinds), STATUS_UNSUPPORTED, STATUS_IO, STATUS_NO_SPACE: the old files are as they were,
 * and `out_error` names the file, what is wrong, and what to do. `out_is_converted`: it was done
 * now. */
enum status raft_convert(const struct raft_files *files, const struct raft_convert_options *options,
                         bool *out_is_converted, char *out_error, size_t error_size);

/* Removes the old files that were put aside. Called when a snapshot of this release is on disk. 0
 * or an errno, after which it can be called again. */
int raft_convert_discard_old(const struct raft_files *files);

#endif
