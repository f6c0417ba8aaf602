/*
 * The files of a log as they are found on disk, before anything counts: which segments there are,
 * which of them are linked, and their bytes. Used by log_open.c alone.
 */
#ifndef LEASED_RAFT_LOG_SURVEY_H
#define LEASED_RAFT_LOG_SURVEY_H

#include "base/status.h"
#include "raft/log_segment.h"
#include "raft/raft_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file of the log, as it was found. */
struct log_found {
    enum log_file_kind kind;
    uint64_t number;
    uint64_t size;
    bool has_start;
    bool has_records; /* that do not count: of a batch that was being written in a crash */
    struct log_segment segment;
    struct log_start start;
};

struct log_survey {
    struct raft_files files;
    struct log_found *found; /* by number */
    size_t n_found;
    size_t found_capacity;
    size_t *chain; /* positions in `found`, oldest first: the segments that are linked */
    size_t n_chain;
    uint8_t *bytes; /* of the segment that was loaded last; room for the largest */
    char *error;    /* the caller's */
    size_t error_size;
};

static inline bool log_found_is_segment(const struct log_found *found) {
    return found->kind == LOG_FILE_SEGMENT;
}

/* Finds the files and links the segments. STATUS_IO, STATUS_CORRUPT, STATUS_UNSUPPORTED: the error
 * is told. To be cleared in any case. */
enum status log_survey_init(struct log_survey *survey, const struct raft_files *files,
                            char *out_error, size_t error_size);
void log_survey_clear(struct log_survey *survey);

/* Reads a segment into survey->bytes. */
enum status log_survey_load(struct log_survey *survey, const struct log_found *found);

/* What an operator can do about damage. */
extern const char log_survey_advice[];
/* Write the error, and return the status. */
enum status log_survey_refuse(struct log_survey *survey, enum status status, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));
enum status log_survey_refuse_file(struct log_survey *survey, const char *name, int error);

#endif
