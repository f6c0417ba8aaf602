/*
 * Snapshots on disk: written in chunks to a temporary file, synced, renamed to snap-<index>-<term>,
 * directory synced; so a snapshot under its own name is whole. The payload is contiguous; sums of
 * its chunks, the metadata and the size are in the file too. The newest two are kept.
 *
 * Blocking; each writer and reader is used by one thread at a time, several may be open at once.
 */
#ifndef LEASED_RAFT_SNAPSHOT_STORE_H
#define LEASED_RAFT_SNAPSHOT_STORE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "raft/raft_files.h"

#include <stddef.h>
#include <stdint.h>

enum { SNAPSHOT_CHUNK_SIZE = 256 * 1024, SNAPSHOT_CONFIGURATION_SIZE_MAX = 16 * 1024 };

struct snapshot_meta {
    uint64_t index; /* 0: there is no snapshot */
    uint64_t term;
    uint64_t configuration_index;
    size_t configuration_size;
    uint8_t configuration[SNAPSHOT_CONFIGURATION_SIZE_MAX]; /* as libraft encodes it */
    uint64_t size;                                          /* of the payload */
};

/* The newest snapshot, fully checked; index 0: none. Temporary files are ignored (and removed by
 * snapshot_store_clean()). STATUS_CORRUPT when the newest is damaged: it is never passed over for
 * an older one, whose log may be gone. */
enum status snapshot_store_find(const struct raft_files *files, struct snapshot_meta *out_meta,
                                char *out_error, size_t error_size);
/* At start, when no writer is open: removes temporary files of writers that are gone, and all
 * snapshots but the newest two. 0 or errno. */
int snapshot_store_clean(const struct raft_files *files);
/* At any time: removes all snapshots but the newest two. Each commit does so. 0 or errno. */
int snapshot_store_prune(const struct raft_files *files);

struct snapshot_writer;
/* `meta->size` is not looked at: the payload is what is appended. `name_hint` distinguishes the
 * temporary files of a snapshot being taken and one being received. 0 or an errno. */
int snapshot_writer_open(const struct raft_files *files, const struct snapshot_meta *meta,
                         const char *name_hint, struct snapshot_writer **out_writer);
int snapshot_writer_append(struct snapshot_writer *writer, struct bytes bytes);
/* The payload so far, appended to the buffer. 0 or an errno. */
int snapshot_writer_read_back(struct snapshot_writer *writer, struct buffer *out_payload);
uint64_t snapshot_writer_size(const struct snapshot_writer *writer);
/* Durable under its own name when it returns 0, and older ones but one are removed. After an errno
 * (also that of an earlier append) it may be there or not, but whole if it is. The writer is gone
 * either way. */
int snapshot_writer_commit(struct snapshot_writer *writer);
/* Removes the temporary file. */
void snapshot_writer_abort(struct snapshot_writer *writer);

struct snapshot_reader;
/* 0, an errno, or EBADMSG when the metadata are damaged; the payload is not read yet. */
int snapshot_reader_open(const struct raft_files *files, uint64_t index, uint64_t term,
                         struct snapshot_reader **out_reader);
const struct snapshot_meta *snapshot_reader_meta(const struct snapshot_reader *reader);
/* Bytes of the payload at `offset`, which is a multiple of SNAPSHOT_CHUNK_SIZE: one chunk, checked.
 * 0, an errno, EINVAL for another offset, or EBADMSG when it does not match its sum. Nothing (0
 * bytes) behind the end. `bytes` has room for a chunk. The file may have been unlinked since. */
int snapshot_reader_chunk(struct snapshot_reader *reader, uint64_t offset, void *bytes,
                          size_t *out_size);
/* Accepts NULL. */
void snapshot_reader_close(struct snapshot_reader *reader);

uint64_t snapshot_store_disk_bytes(const struct raft_files *files);

#endif
