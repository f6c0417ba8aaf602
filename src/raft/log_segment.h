/*
 * Segment files of the log: their names, their headers and the record that every one begins with.
 *
 * log-<generation> is a segment: its header was on disk before it got that name. Without a START
 * record it is the spare, whose turn has not come. free-<number> was a segment, has its size and no
 * content that counts, and is to be used again. new-<number> is being made. A generation is never
 * used again, and neither is a `life`, a random number that every record carries: what an earlier
 * life of the file left behind is never taken for a record of this one, nor are bytes that a client
 * chose.
 */
#ifndef LEASED_RAFT_LOG_SEGMENT_H
#define LEASED_RAFT_LOG_SEGMENT_H

#include "base/status.h"
#include "raft/log_record.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOG_SEGMENT_HEADER_SIZE = 48, LOG_SEGMENT_NAME_SIZE = 32, LOG_SEGMENT_VERSION = 1 };
/* Offsets are kept in 32 bits. */
#define LOG_SEGMENT_SIZE_MAX (UINT64_C(1) << 31)

struct log_segment {
    uint64_t generation;
    uint64_t life;
    uint64_t size;  /* of the file */
    uint32_t chain; /* seeds the START record: the header's own sum */
};

/* What a START record says beside its index and term, which are the last of the log before it. */
struct log_start {
    uint64_t previous_generation; /* 0: the log begins here */
    uint64_t previous_end;        /* what lies behind this in the segment before does not count */
    uint32_t previous_chain;      /* of the last record before that */
};

enum { LOG_START_SIZE = 24 };

enum log_file_kind { LOG_FILE_SEGMENT, LOG_FILE_FREE, LOG_FILE_NEW };

void log_file_name(enum log_file_kind kind, uint64_t number, char out_name[LOG_SEGMENT_NAME_SIZE]);
void log_segment_name(uint64_t generation, char out_name[LOG_SEGMENT_NAME_SIZE]);
/* False: a file that is not the log's. */
bool log_file_parse_name(const char *name, enum log_file_kind *out_kind, uint64_t *out_number);

/* Sets segment->chain. */
void log_segment_encode_header(struct log_segment *segment,
                               uint8_t out_bytes[LOG_SEGMENT_HEADER_SIZE]);
/* STATUS_CORRUPT, or STATUS_UNSUPPORTED when a newer version wrote it. `out_segment->size` is the
 * one that the header names. */
enum status log_segment_decode_header(const uint8_t *bytes, uint64_t size,
                                      struct log_segment *out_segment);

void log_start_encode(const struct log_start *start, uint8_t out_bytes[LOG_START_SIZE]);
/* The START record of a segment whose bytes these are. False: there is none that is valid. */
bool log_segment_decode_start(const struct log_segment *segment, const uint8_t *bytes,
                              uint64_t size, struct log_record *out_record,
                              struct log_start *out_start);

#endif
