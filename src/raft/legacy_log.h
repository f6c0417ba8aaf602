/*
 * The log of a directory of raft_uv: which of its segments belong to it, and in which order. Closed
 * segments say by their names where they stand, open ones by their entries. What the snapshot
 * covers may be missing; any other hole is damage.
 */
#ifndef LEASED_RAFT_LEGACY_LOG_H
#define LEASED_RAFT_LEGACY_LOG_H

#include "base/status.h"
#include "raft/legacy_files.h"
#include "raft/legacy_report.h"
#include "raft/legacy_store.h"

#include <stddef.h>
#include <stdint.h>

struct legacy_log_bounds {
    uint64_t snapshot_index; /* 0: none */
    uint64_t snapshot_term;
    uint64_t term; /* no entry is of a later one */
};

struct legacy_log {
    struct legacy_log_segment {
        char name[LEGACY_NAME_SIZE];
        uint64_t first_index;
        uint64_t n_entries;
    } * segments; /* contiguous */
    size_t n_segments;
    uint64_t last_index; /* 0: the log is empty, or the snapshot replaces it */
};

/* Reads and checks all of it, into an empty one. To be cleared in any case. */
enum status legacy_log_load(struct legacy_log *log, const struct raft_files *files,
                            const struct legacy_list *list, const struct legacy_log_bounds *bounds,
                            const struct legacy_report *report);
void legacy_log_clear(struct legacy_log *log);
/* Entries behind this index: see legacy_store_read(). */
int legacy_log_read(const struct legacy_log *log, const struct raft_files *files, uint64_t index,
                    legacy_store_found found, void *data);

#endif
