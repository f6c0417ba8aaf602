/*
 * The bytes of a snapshot file, version 1. Numbers are little-endian; sums are CRC-32C.
 *
 *     header    64 bytes  magic, version, chunk size, index, term, zeros, sum of the header
 *     payload             contiguous, so that it can be sent and mapped as it is
 *     trailer             index, term, configuration index, payload size, size of the
 *                         configuration, number of chunks, configuration, sum of each chunk
 *     footer    32 bytes  offset and size of the trailer, sum of the trailer, magic, sum of
 *                         the footer
 *
 * The sums follow the payload because it is written as it is made: its size is known at the end.
 * Later versions keep magic, version and sum of the header where they are.
 */
#ifndef LEASED_RAFT_SNAPSHOT_FORMAT_H
#define LEASED_RAFT_SNAPSHOT_FORMAT_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "raft/snapshot_store.h"

#include <stddef.h>
#include <stdint.h>

enum {
    SNAPSHOT_FORMAT_VERSION = 1,
    SNAPSHOT_HEADER_SIZE = 64,
    SNAPSHOT_FOOTER_SIZE = 32,
    SNAPSHOT_TRAILER_FIXED_SIZE = 40, /* without configuration and sums */
    SNAPSHOT_NAME_SIZE = 64
};

/* Into SNAPSHOT_NAME_SIZE bytes. */
void snapshot_format_name(char *name, uint64_t index, uint64_t term);
/* Whether it is the name of a whole snapshot. */
bool snapshot_format_parse_name(const char *name, uint64_t *out_index, uint64_t *out_term);
/* The temporary file of a writer. `hint`: lower-case letters and digits. */
void snapshot_format_temporary_name(char *name, const char *hint);
bool snapshot_format_is_temporary(const char *name);

/* Both append to the buffer. */
void snapshot_format_header(struct buffer *buffer, uint64_t index, uint64_t term);
void snapshot_format_trailer(struct buffer *buffer, const struct snapshot_meta *meta,
                             const uint32_t *sums, size_t n_sums);

size_t snapshot_format_chunk_count(uint64_t payload_size);

/* Each returns NULL, or what is wrong, for "<file> is damaged: <what>". Bytes are untrusted. */
const char *snapshot_format_check_header(struct bytes header, uint64_t index, uint64_t term,
                                         uint32_t *out_version);
/* `footer_offset`: where it stands in the file. */
const char *snapshot_format_check_footer(struct bytes footer, uint64_t footer_offset,
                                         uint64_t *out_trailer_offset, uint32_t *out_trailer_sum);
/* `out_sums` points into the trailer: little-endian, unaligned. */
const char *snapshot_format_check_trailer(struct bytes trailer, uint64_t trailer_offset,
                                          uint32_t trailer_sum, uint64_t index, uint64_t term,
                                          struct snapshot_meta *out_meta, const uint8_t **out_sums);

#endif
