/*
 * A file that is read as bytes in memory, for as long as it is mapped.
 */
#ifndef LEASED_SERVER_MAPPED_FILE_H
#define LEASED_SERVER_MAPPED_FILE_H

#include "base/bytes.h"
#include "base/status.h"

#include <stddef.h>

/* STATUS_INVALID with a reason: it cannot be read, is no regular file, or is empty. */
enum status mapped_file_open(const char *path, struct bytes *out_bytes, char *out_error,
                             size_t error_size);
/* Accepts what was never opened: bytes without data. */
void mapped_file_close(struct bytes bytes);

#endif
