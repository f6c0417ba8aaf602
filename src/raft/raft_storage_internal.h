/* What the two halves of the storage share: the loop's (raft_storage.c) and the threads'
 * (storage_jobs.c). */
#ifndef LEASED_RAFT_RAFT_STORAGE_INTERNAL_H
#define LEASED_RAFT_RAFT_STORAGE_INTERNAL_H

#include "raft/log_store.h"
#include "raft/raft_lane.h"
#include "raft/raft_storage.h"
#include "raft/vote_store.h"

enum storage_job_kind {
    JOB_APPEND,
    JOB_TRIM,
    JOB_READ_LOG,
    JOB_RESET,
    JOB_READ_SNAPSHOT,
    JOB_RECEIVE_BEGIN,
    JOB_RECEIVE_APPEND,
    JOB_RECEIVE_FINISH,
    JOB_RECEIVE_ABORT,
    JOB_INSTALL
};

/* One piece of work for a lane. */
struct storage_job {
    struct raft_job lane_job;
    struct raft_storage *storage;
    enum storage_job_kind kind;
    int error;
    const char *what; /* what failed */
    size_t n;
    struct log_item **items;
    uint64_t to_id;
    uint64_t first; /* or the snapshot's index, or up to where to trim */
    uint64_t last;  /* or the snapshot's term */
    uint64_t offset;
    size_t bytes_max;
    struct snapshot_meta *meta;
    struct buffer bytes;
};

struct raft_storage {
    uv_loop_t *loop;
    struct raft_files files;
    const struct raft_storage_callbacks *callbacks;
    void *data;
    struct vote_store *votes;
    struct log_store *log; /* the log lane's after the start */
    struct raft_lane *log_lane;
    struct raft_lane *bulk_lane;
    size_t n_jobs;
    size_t n_appends;            /* of these */
    uint64_t append_progress_ms; /* when one began while none was, or the last one ended */
    uint64_t warned_ms;
    bool has_failed;
    bool is_closing;
    unsigned n_lanes_open;
    void (*closed)(void *data);
    void *closed_data;
    uint64_t log_bytes; /* written by the log lane, read by the loop */

    /* The log's next segment, made by a worker. */
    uv_work_t prepare_work;
    bool is_preparing;
    int prepare_error;

    /* The log lane's: what follows a job that failed is not done, in this batch or a later one. */
    bool has_log_failed;

    /* The bulk lane's. */
    struct snapshot_writer *receiving;
    bool is_received_good; /* the loop's to read when the last call on the file has ended */
    struct snapshot_reader *reading;

    /* Our own snapshot. */
    uv_work_t take_work;
    bool is_taking;
    struct snapshot_meta take_meta;
    struct raft_storage_source take_source;
    uint64_t take_size;
    uint64_t take_begun_us;
    struct latency takes;
    int take_error;
};

/* Work functions of the lanes: in their threads. `data` is the storage. */
void storage_run_log(void *data, struct list *jobs);
void storage_idle_log(void *data, bool is_resting);
void storage_run_bulk(void *data, struct list *jobs);
/* The log's next segment, in a worker: 0 or an errno. */
int storage_prepare_log(struct raft_storage *storage);
/* Our own snapshot, in a worker: 0 or an errno. */
int storage_take(struct raft_storage *storage);
/* Blocking: the whole payload of this snapshot. 0 or an errno. */
int storage_read_payload(const struct raft_files *files, const struct snapshot_meta *meta,
                         struct buffer *out_payload);
/* Closes what the bulk lane had open. */
void storage_close_bulk(struct raft_storage *storage);

#endif
