/*
 * A segment of raft_uv, the log of releases before 0.2, as bytes: a word with its format, then
 * batches. A batch: two checksums of four bytes each, the number of entries, for each entry its
 * term, type and size, then the entries. Our own entries say at which index they stand and how far
 * the process that proposed them had applied, so that a write that a crash cut short can be told
 * from damage.
 */
#ifndef LEASED_RAFT_LEGACY_SEGMENT_H
#define LEASED_RAFT_LEGACY_SEGMENT_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct legacy_entry {
    uint64_t term;
    uint64_t own_index; /* the one it was proposed for; 0: it does not say */
    uint8_t type;       /* numbered as in log_item.h */
    struct bytes bytes;
};

struct legacy_segment_end {
    size_t offset;        /* behind the last batch that is whole */
    uint64_t n_entries;   /* before that */
    uint64_t first_index; /* of the first entry, by what the entries say; 0: none does */
    bool is_whole;        /* nothing stands behind it */
};

/* Called for the entries of whole batches, in order; false ends the walk with STATUS_INVALID. */
typedef bool (*legacy_segment_found)(void *data, const struct legacy_entry *entry);

/* STATUS_CORRUPT: entries behind the end of what is whole prove that what is missing was
 * acknowledged, or an entry does not match its own checksum though its batch does.
 * STATUS_UNSUPPORTED: another format. `found` may be NULL. `out_end` is filled in any case. */
enum status legacy_segment_walk(struct bytes segment, legacy_segment_found found, void *data,
                                struct legacy_segment_end *out_end);

#endif
