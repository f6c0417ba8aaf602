/*
 * Looks at the open segments of raft_uv before raft_uv does. At its start raft_uv cuts an open
 * segment at the first batch that does not check, taking it for a write that the crash cut short.
 * Mostly it is; but when an entry behind it was proposed after the missing ones had been applied,
 * then those were acknowledged, and the disk has lost them. That must stop the node, not shorten
 * its log. It also looks for holes: open segments do not tell where in the log they belong, so
 * raft_uv would put them behind whatever is left; our entries tell.
 */
#ifndef LEASED_REPLICATION_SEGMENT_CHECK_H
#define LEASED_REPLICATION_SEGMENT_CHECK_H

#include "base/bytes.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* STATUS_CORRUPT with an explanation for a person, STATUS_IO. */
enum status segment_check(const char *data_dir, char *out_error, size_t error_size);

/* One open segment's bytes. STATUS_CORRUPT, with the offset of the damage. `out_first_index`: of
 * its first entry, 0 when it has none of ours. */
enum status segment_check_bytes(struct bytes segment, size_t *out_damage,
                                uint64_t *out_first_index);

#endif
