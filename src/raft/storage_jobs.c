/* What the threads do for the storage: the log's lane, the lane for snapshots that travel between
 * members, and the workers that make the log's next segment and write our own snapshots. */
#include "raft/convert.h"
#include "raft/raft_storage_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Items read at once for a member that lags. */
enum { READ_ITEMS_MAX = 1024 };

/* --- The log lane. --- */

/* Items of jobs that follow each other go to the disk in one write. */
static void run_appends(struct raft_storage *storage, struct list *first, struct list *end) {
    size_t n = 0;
    for (struct list *node = first; node != end; node = node->next) {
        n += list_entry(node, struct storage_job, lane_job.link)->n;
    }
    struct log_item **items = malloc(n * sizeof *items);
    if (items == NULL) {
        abort();
    }
    n = 0;
    for (struct list *node = first; node != end; node = node->next) {
        struct storage_job *job = list_entry(node, struct storage_job, lane_job.link);
        memcpy(items + n, job->items, job->n * sizeof *items);
        n += job->n;
    }
    int error = log_store_append(storage->log, items, n);
    free(items);
    for (struct list *node = first; node != end; node = node->next) {
        struct storage_job *job = list_entry(node, struct storage_job, lane_job.link);
        job->error = error;
        job->what = "writing the log";
    }
}

static bool follows(const struct storage_job *before, const struct storage_job *job) {
    return job->kind == JOB_APPEND && before->kind == JOB_APPEND &&
           job->items[0]->index == before->items[before->n - 1]->index + 1;
}

static void run_read_log(struct raft_storage *storage, struct storage_job *job) {
    job->items = calloc(READ_ITEMS_MAX, sizeof *job->items);
    if (job->items == NULL) {
        abort();
    }
    uint64_t first = log_store_first_index(storage->log);
    uint64_t last = log_store_last_index(storage->log);
    if (job->last < last) {
        last = job->last;
    }
    if (job->first < first || job->first > last) {
        return; /* trimmed or truncated since */
    }
    job->what = "reading the log";
    job->error = log_store_read(storage->log, job->first, last, job->bytes_max, job->items,
                                READ_ITEMS_MAX, &job->n);
}

static void run_log_job(struct raft_storage *storage, struct storage_job *job) {
    switch (job->kind) {
    case JOB_TRIM:
        job->what = "trimming the log";
        job->error = log_store_trim(storage->log, job->first);
        return;
    case JOB_READ_LOG:
        run_read_log(storage, job);
        return;
    case JOB_RESET:
        job->what = "resetting the log behind a snapshot";
        job->error = log_store_reset(storage->log, job->meta->index, job->meta->term);
        return;
    default:
        assert(false);
    }
}

void storage_run_log(void *data, struct list *jobs) {
    struct raft_storage *storage = data;
    for (struct list *node = jobs->next, *next; node != jobs; node = next) {
        struct storage_job *job = list_entry(node, struct storage_job, lane_job.link);
        next = node->next;
        if (storage->has_log_failed) {
            job->error = ECANCELED;
            continue;
        }
        if (job->kind == JOB_APPEND) {
            struct storage_job *last = job;
            while (next != jobs &&
                   follows(last, list_entry(next, struct storage_job, lane_job.link))) {
                last = list_entry(next, struct storage_job, lane_job.link);
                next = next->next;
            }
            run_appends(storage, node, next);
        } else {
            run_log_job(storage, job);
        }
        storage->has_log_failed = job->error != 0;
    }
    __atomic_store_n(&storage->log_bytes, log_store_disk_bytes(storage->log), __ATOMIC_RELAXED);
}

/* An error here shows again in the next write, which has somebody to tell. */
void storage_idle_log(void *data, bool is_resting) {
    struct raft_storage *storage = data;
    if (is_resting) {
        (void)log_store_seal(storage->log);
    }
}

int storage_prepare_log(struct raft_storage *storage) {
    int error;
    bool is_over;
    do {
        error = log_store_prepare(storage->log, &is_over);
    } while (!is_over);
    return error;
}

/* --- The bulk lane. --- */

static void close_reader(struct raft_storage *storage) {
    if (storage->reading != NULL) {
        snapshot_reader_close(storage->reading);
        storage->reading = NULL;
    }
}

static void run_read_snapshot(struct raft_storage *storage, struct storage_job *job) {
    const struct snapshot_meta *open =
        storage->reading == NULL ? NULL : snapshot_reader_meta(storage->reading);
    if (open == NULL || open->index != job->first || open->term != job->last) {
        close_reader(storage);
        if (snapshot_reader_open(&storage->files, job->first, job->last, &storage->reading) != 0) {
            storage->reading = NULL;
            return; /* a newer one has taken its place */
        }
    }
    job->meta = malloc(sizeof *job->meta);
    if (job->meta == NULL) {
        abort();
    }
    *job->meta = *snapshot_reader_meta(storage->reading);
    job->what = "reading a snapshot";
    job->error =
        snapshot_reader_chunk(storage->reading, job->offset,
                              buffer_reserve(&job->bytes, SNAPSHOT_CHUNK_SIZE), &job->bytes.size);
    if (job->offset + job->bytes.size >= job->meta->size) {
        close_reader(storage); /* a reader holds the file's room on disk */
    }
}

static void abort_receiving(struct raft_storage *storage) {
    if (storage->receiving != NULL) {
        snapshot_writer_abort(storage->receiving);
        storage->receiving = NULL;
    }
}

int storage_read_payload(const struct raft_files *files, const struct snapshot_meta *meta,
                         struct buffer *out_payload) {
    struct snapshot_reader *reader = NULL;
    int error = snapshot_reader_open(files, meta->index, meta->term, &reader);
    uint64_t size = error == 0 ? snapshot_reader_meta(reader)->size : 0;
    while (error == 0 && out_payload->size < size) {
        size_t n = 0;
        error = snapshot_reader_chunk(reader, out_payload->size,
                                      buffer_reserve(out_payload, SNAPSHOT_CHUNK_SIZE), &n);
        out_payload->size += n;
        if (error == 0 && n == 0) {
            error = EBADMSG;
        }
    }
    if (reader != NULL) {
        snapshot_reader_close(reader);
    }
    return error;
}

/* It is synced when it is installed. But what cannot be restored must not take the log's place. */
static void run_receive_finish(struct raft_storage *storage, struct storage_job *job) {
    struct buffer payload;
    job->what = "reading a snapshot from the leader";
    if (storage->receiving == NULL) {
        job->error = ENOENT;
        return;
    }
    buffer_init(&payload);
    job->error = snapshot_writer_read_back(storage->receiving, &payload);
    storage->is_received_good =
        job->error == 0 &&
        storage->callbacks->check(storage->data, bytes_of(payload.data, payload.size));
    buffer_clear(&payload);
}

static void run_install(struct raft_storage *storage, struct storage_job *job) {
    job->what = "storing a snapshot from the leader";
    struct snapshot_writer *writer = storage->receiving;
    storage->receiving = NULL;
    if (writer == NULL) {
        job->error = ENOENT;
        return;
    }
    job->error = snapshot_writer_commit(writer);
    if (job->error == 0) {
        job->error = storage_read_payload(&storage->files, job->meta, &job->bytes);
    }
}

static void run_bulk_job(struct raft_storage *storage, struct storage_job *job) {
    switch (job->kind) {
    case JOB_READ_SNAPSHOT:
        run_read_snapshot(storage, job);
        return;
    case JOB_RECEIVE_BEGIN:
        abort_receiving(storage);
        job->what = "creating a file for a snapshot from the leader";
        job->error =
            snapshot_writer_open(&storage->files, job->meta, "received", &storage->receiving);
        return;
    case JOB_RECEIVE_APPEND:
        job->what = "writing a snapshot from the leader";
        job->error = storage->receiving == NULL
                         ? ENOENT
                         : snapshot_writer_append(storage->receiving,
                                                  bytes_of(job->bytes.data, job->bytes.size));
        return;
    case JOB_RECEIVE_FINISH:
        run_receive_finish(storage, job);
        return;
    case JOB_RECEIVE_ABORT:
        abort_receiving(storage);
        return;
    case JOB_INSTALL:
        run_install(storage, job);
        return;
    default:
        assert(false);
    }
}

void storage_run_bulk(void *data, struct list *jobs) {
    struct raft_storage *storage = data;
    for (struct list *node = jobs->next; node != jobs; node = node->next) {
        run_bulk_job(storage, list_entry(node, struct storage_job, lane_job.link));
    }
}

/* --- Our own snapshot. --- */

int storage_take(struct raft_storage *storage) {
    struct snapshot_writer *writer = NULL;
    int error = snapshot_writer_open(&storage->files, &storage->take_meta, "taken", &writer);
    if (error != 0) {
        return error;
    }
    error = storage->take_source.serialise(storage->take_source.data, writer);
    storage->take_size = snapshot_writer_size(writer);
    if (error != 0) {
        snapshot_writer_abort(writer);
        return error;
    }
    error = snapshot_writer_commit(writer);
    return error != 0 ? error : raft_convert_discard_old(&storage->files);
}

void storage_close_bulk(struct raft_storage *storage) {
    abort_receiving(storage);
    close_reader(storage);
}
