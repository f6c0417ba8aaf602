/*
 * The parts of the log store: log_store.c writes, log_recovery.c opens, log_reader.c reads,
 * log_spare.c makes segments ahead and takes files back. Included by them alone.
 */
#ifndef LEASED_RAFT_LOG_STORE_INTERNAL_H
#define LEASED_RAFT_LOG_STORE_INTERNAL_H

#include "raft/log_index.h"
#include "raft/log_segment.h"
#include "raft/log_store.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/uio.h>

enum {
    LOG_SEGMENT_SIZE_DEFAULT = 8 * 1024 * 1024,
    LOG_SEGMENT_SIZE_MIN = 512,
    /* Zeros given to the device in one step: no append's sync waits behind more. */
    LOG_SPARE_STEP_SIZE = 256 * 1024,
    /* Trimmed files kept for use; more are removed. As many as the longest log has (256 MiB):
     * making and removing files costs the disk more than writing to them, and no more room is taken
     * than the log took before it was trimmed. */
    LOG_FREE_MAX = 32,
};

enum log_spare_state {
    SPARE_NONE,
    SPARE_ZEROING, /* a new file grows */
    SPARE_BLANK,   /* a new or a free file has its size */
    SPARE_READY    /* log-<generation>: a header and nothing behind it */
};

struct log_spare {
    enum log_spare_state state;
    int file;                /* -1: not open */
    enum log_file_kind kind; /* which name it has */
    uint64_t number;
    uint64_t progress; /* bytes zeroed */
    struct log_segment segment;
};

struct log_file {
    enum log_file_kind kind;
    uint64_t number;
    uint64_t size;
};

/* The records of one write that is being put together. */
struct log_group {
    uint8_t *heads; /* LOG_RECORD_HEAD_SIZE each */
    size_t n_heads;
    size_t heads_capacity;
    struct iovec *parts;
    size_t n_parts;
    uint64_t offset; /* where it goes */
    uint8_t start[LOG_START_SIZE];
};

struct log_store {
    struct raft_files files;
    uint64_t segment_size;
    struct log_index index;

    /* Segments that count, oldest first. The last is the one being written, unless must_roll. */
    struct log_segment *chain;
    size_t n_chain;
    size_t chain_capacity;
    int file;       /* of the last; -1: not open, and must_roll */
    bool must_roll; /* the next record goes to a new segment */
    bool is_sealed; /* the last batch is a seal, or there is none */
    uint64_t tail;  /* the end of the last whole batch in the last segment */
    uint32_t tail_chain;
    uint64_t sequence; /* of the last record */
    uint64_t batch;    /* of the last whole batch */

    struct log_group group;

    pthread_mutex_t spare_mutex; /* of the spare and of the files below */
    struct log_spare spare;
    uint64_t generation_last; /* the highest number ever given to a file */
    struct log_file free_files[LOG_FREE_MAX];
    size_t n_free;
    /* Files that do not count and still have their names: many may be trimmed at once, and they
     * are freed one by one so that no append waits for all of them. */
    struct log_file *garbage;
    size_t n_garbage;
    size_t garbage_capacity;
    /* Read without the mutex. */
    uint64_t spare_bytes;  /* of all these files */
    bool is_prepared;      /* the spare is ready and there is no garbage */
    bool is_spare_awaited; /* the log's thread wants the mutex for a segment */

    int read_file; /* -1: none */
    uint64_t read_generation;

    /* Written by the log's thread, read in any. */
    struct latency writes;
    struct latency syncs;
    uint64_t written_bytes;

    int error; /* the first one: nothing more is done. Atomic: log_store_prepare() may set it */
};

/* --- log_spare.c --- */

void log_spare_lock(struct log_store *store);
/* Tells what may be read without the mutex, and unlocks it. */
void log_spare_unlock(struct log_store *store);
/* One bounded step towards a spare of this size. With the mutex held. */
int log_spare_step(struct log_store *store, uint64_t size);
/* Takes a segment of at least `size` for writing; makes one if there is none ready. */
int log_spare_take(struct log_store *store, uint64_t size, int *out_file,
                   struct log_segment *out_segment);
/* The file does not count any more. */
void log_garbage_add(struct log_store *store, struct log_file file);
/* Keeps one of these files for use, or removes it. There is one. With the mutex held. */
int log_garbage_free(struct log_store *store);
void log_spare_clear(struct log_store *store);

/* --- log_store.c --- */

/* Of this operation, or of an earlier one. */
int log_store_error(const struct log_store *store);
int log_store_write_reset(struct log_store *store, uint64_t index, uint64_t term);
void log_store_add_segment(struct log_store *store, const struct log_segment *segment);
const struct log_segment *log_store_find_segment(const struct log_store *store,
                                                 uint64_t generation);

#endif
