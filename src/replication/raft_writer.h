/*
 * Writes the log for raft_uv, in a thread of its own. raft_uv asks the kernel for asynchronous
 * writes; with RWF_DSYNC the kernel hands each to workers that are bound to a processor, and on a
 * busy machine these wait for their turn twice. A thread that waits for the disk itself is woken by
 * the disk. What is durable, and when, is the same. See docs/decisions/0019.
 */
#ifndef LEASED_REPLICATION_RAFT_WRITER_H
#define LEASED_REPLICATION_RAFT_WRITER_H

#include <linux/aio_abi.h>
#include <stdbool.h>

/* A durable write whose end is told through an eventfd, as raft_uv asks for them. */
bool raft_writer_takes(const struct iocb *iocb);

/* Starts the write; the iocb and its buffers stay the caller's and must not be touched until the
 * end is told. False: no memory or no thread, and nothing was started. */
bool raft_writer_submit(aio_context_t context, const struct iocb *iocb);

/* The end of a write of this context that was told of and not yet taken. False: there is none. */
bool raft_writer_finished(aio_context_t context, struct io_event *out_event);

/* The context ends: waits, as the kernel would, until nothing of it is on its way any more. */
void raft_writer_end(aio_context_t context);

#endif
