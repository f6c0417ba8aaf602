/*
 * What raft_uv does not look at before it starts to tidy up: that a log has its metadata, and that
 * the newest snapshot is whole. Checked first, a damaged data directory is left exactly as it was
 * found. Only reads.
 */
#ifndef LEASED_REPLICATION_STORE_CHECK_H
#define LEASED_REPLICATION_STORE_CHECK_H

#include "base/status.h"

#include <stddef.h>

/* STATUS_CORRUPT or STATUS_IO with a reason in `out_error`. */
enum status store_check(const char *data_dir, char *out_error, size_t error_size);

#endif
