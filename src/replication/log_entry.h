/*
 * One raft entry: a header, the commands of one iteration of the loop, a checksum, and zeros up to
 * a multiple of eight bytes. The header tells whose proposal it is, so that the node that proposed
 * it finds the requests that wait for it.
 */
#ifndef LEASED_REPLICATION_LOG_ENTRY_H
#define LEASED_REPLICATION_LOG_ENTRY_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdint.h>

/* The first word of every entry, with the version of the format. An entry starts at a multiple of
 * eight bytes in a segment, so it can be found again behind damage. */
#define LOG_ENTRY_MAGIC UINT32_C(0x3145534c) /* LSE1 */
enum { LOG_ENTRY_ALIGNMENT = 8 };

/* Larger entries are slow to replicate and held in memory by everyone. */
enum { LOG_ENTRY_COMMANDS_SIZE_MAX = 256 * 1024 };

struct log_entry_header {
    uint64_t incarnation;  /* a random number of the proposing process */
    uint64_t sequence;     /* counts that process's entries, from 1 */
    uint64_t acknowledged; /* the newest sequence of that process applied when this was proposed */
    uint64_t term;         /* in which it was proposed */
    uint64_t index;  /* its place in the log: a log with a hole must not be taken for a whole */
    int64_t wall_ms; /* information only */
    uint64_t n_commands;
};

/* The whole entry in memory from malloc(), which the caller owns. */
uint8_t *log_entry_encode(const struct log_entry_header *header, struct bytes commands,
                          size_t *out_size);

/* Checks the checksum; the reader then stands at the first command. Bytes behind the entry do not
 * matter. STATUS_CORRUPT, STATUS_UNSUPPORTED (written by another version). */
enum status log_entry_decode(struct bytes entry, struct log_entry_header *out_header,
                             struct reader *out_reader);

#endif
