/*
 * Two calls that libraft makes into the C library and that would hold the loop up. The linker gives
 * libraft ours instead: a new segment is written with zeros before it is used, and an AIO context
 * is ended by a thread of its own. Why: docs/decisions/0014. And one that it makes to itself, for
 * each byte of the log: its checksum. Why: docs/decisions/0020.
 */
#ifndef LEASED_REPLICATION_RAFT_CALLS_H
#define LEASED_REPLICATION_RAFT_CALLS_H

#include <raft.h>
#include <sys/types.h>

/* Allocations of exactly this size are segments. */
enum { RAFT_CALLS_SEGMENT_SIZE = 8 * 1024 * 1024 };

/* Tells raft_uv the size; to be called once, before it starts. */
void raft_calls_install(struct raft_io *io);

/* Called by libraft as posix_fallocate(), by a worker. Returns 0 or an errno. */
int raft_calls_allocate(int fd, off_t offset, off_t size) __asm__("posix_fallocate");

/* Why the newest segment could not be allocated, 0 if it could. raft_uv keeps that to itself, and
 * tries again only after its pause for disks: an entry that needs the segment waits so long. */
int raft_calls_segment_error(void);

/* Called by libraft, and by every other library, as syscall(). All but io_destroy is passed on.
 * There are six arguments, whatever was given: the library's own passes on as many. */
long raft_calls_syscall(long number, long a, long b, long c, long d, long e,
                        long f) __asm__("syscall");

/* Called by a libraft that is linked statically as byteCrc32(). */
unsigned raft_calls_checksum(const void *data, size_t size,
                             unsigned from) __asm__("__wrap_byteCrc32");

#endif
