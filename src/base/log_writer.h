/*
 * A thread that writes log lines, so that nobody who logs waits for a full pipe, a slow terminal or
 * a hanging disk. Lines wait in a bounded queue; a line that finds no room is dropped and counted,
 * and the count is written as soon as there is room again.
 */
#ifndef LEASED_BASE_LOG_WRITER_H
#define LEASED_BASE_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No line is longer. */
enum { LOG_WRITER_LINE_BYTES_MAX = 8192 };

/* Formats the line that tells of dropped ones; returns its size. Called by the thread. */
typedef size_t log_writer_notice(uint64_t n_dropped, char out_line[LOG_WRITER_LINE_BYTES_MAX]);

/* False: no thread could be started, and nothing has changed. Not to be called twice without
 * log_writer_stop(). */
bool log_writer_start(int fd, log_writer_notice *notice);

/* Queues a line or drops it; never waits for the descriptor. A line that `is_minor` is dropped
 * while there is still room for others. False: the thread does not run. */
bool log_writer_put(const char *line, size_t size, bool is_minor);

/* Waits until everything queued is written, at most so long. */
void log_writer_flush(unsigned timeout_ms);

/* Flushes and ends the thread. A thread that is stuck in a write is left behind: the process is
 * about to end. */
void log_writer_stop(unsigned timeout_ms);

#endif
