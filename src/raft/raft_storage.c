#include "raft/raft_storage.h"

#include "raft/convert.h"
#include "raft/log_store.h"
#include "raft/raft_lane.h"
#include "raft/vote_store.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum job_kind {
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
struct job {
    struct raft_job lane_job;
    struct raft_storage *storage;
    enum job_kind kind;
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

/* Items read at once for a member that lags. */
enum { READ_ITEMS_MAX = 1024 };

struct raft_storage {
    uv_loop_t *loop;
    struct raft_files files;
    const struct raft_storage_callbacks *callbacks;
    void *data;
    struct vote_store *votes;
    struct log_store *log;     /* the log lane's after the start */
    struct raft_lane *log_lane;
    struct raft_lane *bulk_lane;
    size_t n_jobs;
    bool has_failed;
    bool is_closing;
    unsigned n_lanes_open;
    void (*closed)(void *data);
    void *closed_data;
    uint64_t log_bytes; /* written by the log lane, read by the loop */

    /* The bulk lane's. */
    struct snapshot_writer *receiving;
    struct snapshot_reader *reading;

    /* Our own snapshot. */
    uv_work_t take_work;
    bool is_taking;
    struct snapshot_meta take_meta;
    struct raft_storage_source take_source;
    uint64_t take_size;
    int take_error;
};

static void *allocate(size_t size) {
    void *memory = calloc(1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

/* --- The log lane. --- */

/* Items of jobs that follow each other go to the disk in one write. */
static void run_appends(struct raft_storage *storage, struct list *first, struct list *end) {
    size_t n = 0;
    for (struct list *node = first; node != end; node = node->next) {
        n += list_entry(node, struct job, lane_job.link)->n;
    }
    struct log_item **items = malloc(n * sizeof *items);
    if (items == NULL) {
        abort();
    }
    n = 0;
    for (struct list *node = first; node != end; node = node->next) {
        struct job *job = list_entry(node, struct job, lane_job.link);
        memcpy(items + n, job->items, job->n * sizeof *items);
        n += job->n;
    }
    int error = log_store_append(storage->log, items, n);
    free(items);
    for (struct list *node = first; node != end; node = node->next) {
        struct job *job = list_entry(node, struct job, lane_job.link);
        job->error = error;
        job->what = "writing the log";
    }
}

static bool follows(const struct job *before, const struct job *job) {
    return job->kind == JOB_APPEND && before->kind == JOB_APPEND &&
           job->items[0]->index == before->items[before->n - 1]->index + 1;
}

static void run_read_log(struct raft_storage *storage, struct job *job) {
    job->items = allocate(READ_ITEMS_MAX * sizeof *job->items);
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

static void run_log_job(struct raft_storage *storage, struct job *job) {
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

static void run_log(void *data, struct list *jobs) {
    struct raft_storage *storage = data;
    bool has_failed = false;
    for (struct list *node = jobs->next, *next; node != jobs; node = next) {
        struct job *job = list_entry(node, struct job, lane_job.link);
        next = node->next;
        if (has_failed) {
            job->error = ECANCELED;
            continue;
        }
        if (job->kind == JOB_APPEND) {
            struct job *last = job;
            while (next != jobs && follows(last, list_entry(next, struct job, lane_job.link))) {
                last = list_entry(next, struct job, lane_job.link);
                next = next->next;
            }
            run_appends(storage, node, next);
        } else {
            run_log_job(storage, job);
        }
        has_failed = job->error != 0;
    }
    __atomic_store_n(&storage->log_bytes, log_store_disk_bytes(storage->log), __ATOMIC_RELAXED);
}

/* An error here shows again in the next write, which has somebody to tell. */
static void idle_log(void *data, bool is_resting) {
    struct raft_storage *storage = data;
    (void)log_store_prepare(storage->log, is_resting);
}

/* --- The bulk lane. --- */

static void close_reader(struct raft_storage *storage) {
    if (storage->reading != NULL) {
        snapshot_reader_close(storage->reading);
        storage->reading = NULL;
    }
}

static void run_read_snapshot(struct raft_storage *storage, struct job *job) {
    const struct snapshot_meta *open =
        storage->reading == NULL ? NULL : snapshot_reader_meta(storage->reading);
    if (open == NULL || open->index != job->first || open->term != job->last) {
        close_reader(storage);
        if (snapshot_reader_open(&storage->files, job->first, job->last, &storage->reading) != 0) {
            storage->reading = NULL;
            return; /* a newer one has taken its place */
        }
    }
    job->meta = allocate(sizeof *job->meta);
    *job->meta = *snapshot_reader_meta(storage->reading);
    job->what = "reading a snapshot";
    job->error = snapshot_reader_chunk(storage->reading, job->offset,
                                       buffer_reserve(&job->bytes, SNAPSHOT_CHUNK_SIZE),
                                       &job->bytes.size);
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

static int read_payload(const struct raft_files *files, const struct snapshot_meta *meta,
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

static void run_install(struct raft_storage *storage, struct job *job) {
    job->what = "storing a snapshot from the leader";
    struct snapshot_writer *writer = storage->receiving;
    storage->receiving = NULL;
    if (writer == NULL) {
        job->error = ENOENT;
        return;
    }
    job->error = snapshot_writer_commit(writer);
    if (job->error == 0) {
        job->error = read_payload(&storage->files, job->meta, &job->bytes);
    }
}

static void run_bulk_job(struct raft_storage *storage, struct job *job) {
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
        return; /* the order of the lane is enough: it is synced when it is installed */
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

static void run_bulk(void *data, struct list *jobs) {
    struct raft_storage *storage = data;
    for (struct list *node = jobs->next; node != jobs; node = node->next) {
        run_bulk_job(storage, list_entry(node, struct job, lane_job.link));
    }
}

/* --- On the loop. --- */

static void close_if_idle(struct raft_storage *storage);

enum status raft_storage_status(int error) {
    if (error == ENOSPC || error == EDQUOT) {
        return STATUS_NO_SPACE;
    }
    return error == EBADMSG ? STATUS_CORRUPT : STATUS_IO;
}

static void fail(struct raft_storage *storage, const char *what, int error) {
    if (storage->has_failed || storage->is_closing) {
        return;
    }
    storage->has_failed = true;
    char reason[256];
    enum status status = raft_storage_status(error);
    snprintf(reason, sizeof reason, "%s failed: %s", what,
             error == EBADMSG ? "the bytes on disk do not match their checksum" : strerror(error));
    storage->callbacks->failed(storage->data, status, reason);
}

static struct job *job_create(struct raft_storage *storage, enum job_kind kind);

static void job_free(struct job *job) {
    for (size_t i = 0; i < job->n; i++) {
        log_item_release(job->items[i]);
    }
    free(job->items);
    free(job->meta);
    buffer_clear(&job->bytes);
    free(job);
}

static void submit(struct raft_storage *storage, struct raft_lane *lane, struct job *job) {
    storage->n_jobs++;
    raft_lane_submit(lane, &job->lane_job);
}

static void install_goes_on(struct raft_storage *storage, struct job *job) {
    struct job *reset = job_create(storage, JOB_RESET);
    reset->meta = job->meta;
    reset->bytes = job->bytes;
    job->meta = NULL;
    buffer_init(&job->bytes);
    submit(storage, storage->log_lane, reset);
}

static void job_report(struct raft_storage *storage, struct job *job) {
    const struct raft_storage_callbacks *callbacks = storage->callbacks;
    switch (job->kind) {
    case JOB_APPEND:
        for (size_t i = 0; i < job->n; i++) {
            log_item_release(job->items[i]);
        }
        job->n = 0;
        callbacks->written(storage->data);
        return;
    case JOB_TRIM:
        return;
    case JOB_READ_LOG: {
        size_t n = job->n;
        job->n = 0; /* the callee's now */
        callbacks->log_read(storage->data, job->to_id, job->items, n);
        return;
    }
    case JOB_READ_SNAPSHOT:
        callbacks->snapshot_read(storage->data, job->to_id, job->meta, job->offset,
                                 bytes_of(job->bytes.data, job->bytes.size));
        return;
    case JOB_RECEIVE_BEGIN:
    case JOB_RECEIVE_APPEND:
    case JOB_RECEIVE_FINISH:
    case JOB_RECEIVE_ABORT:
        callbacks->received(storage->data);
        return;
    case JOB_INSTALL:
        install_goes_on(storage, job);
        return;
    case JOB_RESET:
        callbacks->installed(storage->data, job->meta, &job->bytes);
        return;
    }
}

static void job_done(struct raft_job *lane_job) {
    struct job *job = list_entry(lane_job, struct job, lane_job);
    struct raft_storage *storage = job->storage;
    storage->n_jobs--;
    if (job->error != 0 && job->error != ECANCELED) {
        fail(storage, job->what, job->error);
    }
    if (job->error == 0 && !storage->has_failed && !storage->is_closing) {
        job_report(storage, job);
    }
    job_free(job);
    close_if_idle(storage);
}

static struct job *job_create(struct raft_storage *storage, enum job_kind kind) {
    struct job *job = allocate(sizeof *job);
    job->storage = storage;
    job->kind = kind;
    job->lane_job.done = job_done;
    buffer_init(&job->bytes);
    return job;
}

static struct snapshot_meta *copy_meta(const struct snapshot_meta *meta) {
    struct snapshot_meta *copy = allocate(sizeof *copy);
    *copy = *meta;
    return copy;
}

int raft_storage_store_vote(struct raft_storage *storage, uint64_t term, uint64_t vote) {
    return vote_store_write(storage->votes, term, vote);
}

void raft_storage_append(struct raft_storage *storage, struct log_item *const *items, size_t n) {
    struct job *job = job_create(storage, JOB_APPEND);
    job->items = allocate(n * sizeof(struct log_item *));
    memcpy(job->items, items, n * sizeof(struct log_item *));
    job->n = n;
    submit(storage, storage->log_lane, job);
}

void raft_storage_trim(struct raft_storage *storage, uint64_t upto) {
    struct job *job = job_create(storage, JOB_TRIM);
    job->first = upto;
    submit(storage, storage->log_lane, job);
}

void raft_storage_read_log(struct raft_storage *storage, uint64_t to_id, uint64_t first,
                           uint64_t last, size_t bytes_max) {
    struct job *job = job_create(storage, JOB_READ_LOG);
    job->to_id = to_id;
    job->first = first;
    job->last = last;
    job->bytes_max = bytes_max;
    submit(storage, storage->log_lane, job);
}

void raft_storage_read_snapshot(struct raft_storage *storage, uint64_t to_id, uint64_t index,
                                uint64_t term, uint64_t offset) {
    struct job *job = job_create(storage, JOB_READ_SNAPSHOT);
    job->to_id = to_id;
    job->first = index;
    job->last = term;
    job->offset = offset;
    submit(storage, storage->bulk_lane, job);
}

void raft_storage_receive_begin(struct raft_storage *storage, const struct snapshot_meta *meta) {
    struct job *job = job_create(storage, JOB_RECEIVE_BEGIN);
    job->meta = copy_meta(meta);
    submit(storage, storage->bulk_lane, job);
}

void raft_storage_receive_append(struct raft_storage *storage, uint8_t *bytes, size_t size) {
    struct job *job = job_create(storage, JOB_RECEIVE_APPEND);
    job->bytes = (struct buffer){.data = bytes, .size = size, .capacity = size};
    submit(storage, storage->bulk_lane, job);
}

void raft_storage_receive_finish(struct raft_storage *storage) {
    submit(storage, storage->bulk_lane, job_create(storage, JOB_RECEIVE_FINISH));
}

void raft_storage_receive_abort(struct raft_storage *storage) {
    submit(storage, storage->bulk_lane, job_create(storage, JOB_RECEIVE_ABORT));
}

void raft_storage_install(struct raft_storage *storage, const struct snapshot_meta *meta) {
    struct job *job = job_create(storage, JOB_INSTALL);
    job->meta = copy_meta(meta);
    submit(storage, storage->bulk_lane, job);
}

/* --- Our own snapshot. --- */

static void take_run(uv_work_t *work) {
    struct raft_storage *storage = work->data;
    struct snapshot_writer *writer = NULL;
    int error = snapshot_writer_open(&storage->files, &storage->take_meta, "taken", &writer);
    if (error == 0) {
        error = storage->take_source.serialise(storage->take_source.data, writer);
        storage->take_size = snapshot_writer_size(writer);
        if (error == 0) {
            error = snapshot_writer_commit(writer);
            error = error != 0 ? error : raft_convert_discard_old(&storage->files);
        } else {
            snapshot_writer_abort(writer);
        }
    }
    storage->take_error = error;
}

static void take_done(uv_work_t *work, int status) {
    struct raft_storage *storage = work->data;
    (void)status;
    storage->is_taking = false;
    if (storage->take_error != 0) {
        fail(storage, "writing a snapshot", storage->take_error);
    }
    if (storage->take_error == 0 && !storage->has_failed) {
        storage->callbacks->taken(storage->data, storage->take_size);
    }
    close_if_idle(storage);
}

void raft_storage_take(struct raft_storage *storage, const struct snapshot_meta *meta,
                       const struct raft_storage_source *source) {
    assert(!storage->is_taking);
    storage->is_taking = true;
    storage->take_meta = *meta;
    storage->take_source = *source;
    storage->take_work.data = storage;
    int rv = uv_queue_work(storage->loop, &storage->take_work, take_run, take_done);
    assert(rv == 0);
}

/* --- Life. --- */

void raft_storage_loaded_clear(struct raft_storage_loaded *loaded) {
    for (size_t i = 0; i < loaded->n_items; i++) {
        log_item_release(loaded->items[i]);
    }
    free(loaded->items);
    buffer_clear(&loaded->payload);
    *loaded = (struct raft_storage_loaded){0};
}

static enum status load_log(struct raft_storage *storage, struct raft_storage_loaded *loaded,
                            char *out_error, size_t error_size) {
    uint64_t first = log_store_first_index(storage->log);
    uint64_t last = log_store_last_index(storage->log);
    loaded->first_index = first;
    size_t n = (size_t)(last + 1 - first);
    loaded->items = allocate((n > 0 ? n : 1) * sizeof *loaded->items);
    while (loaded->n_items < n) {
        size_t got = 0;
        int error = log_store_read(storage->log, first + loaded->n_items, last, SIZE_MAX,
                                   loaded->items + loaded->n_items, n - loaded->n_items, &got);
        if (error != 0 || got == 0) {
            snprintf(out_error, error_size, "reading the log failed: %s", strerror(error));
            return STATUS_IO;
        }
        loaded->n_items += got;
    }
    return STATUS_OK;
}

static enum status load_snapshot(struct raft_storage *storage, struct raft_storage_loaded *loaded,
                                 char *out_error, size_t error_size) {
    enum status status =
        snapshot_store_find(&storage->files, &loaded->snapshot, out_error, error_size);
    if (status != STATUS_OK || loaded->snapshot.index == 0) {
        return status;
    }
    int error = read_payload(&storage->files, &loaded->snapshot, &loaded->payload);
    if (error != 0) {
        snprintf(out_error, error_size, "reading the newest snapshot failed: %s", strerror(error));
        return error == EBADMSG ? STATUS_CORRUPT : STATUS_IO;
    }
    return STATUS_OK;
}

struct survey {
    bool has_log;
};

static void survey_file(void *data, const char *name) {
    struct survey *survey = data;
    if (strncmp(name, "log-", 4) == 0 || strncmp(name, "snap-", 5) == 0) {
        survey->has_log = true;
    }
}

static enum status open_stores(struct raft_storage *storage, struct raft_storage_loaded *loaded,
                               char *out_error, size_t error_size) {
    struct survey survey = {0};
    int error = storage->files.calls->list(storage->files.data, survey_file, &survey);
    if (error != 0) {
        snprintf(out_error, error_size, "listing the data directory failed: %s", strerror(error));
        return STATUS_IO;
    }
    enum status status = vote_store_open(&storage->files, survey.has_log, &storage->votes,
                                         out_error, error_size);
    if (status == STATUS_OK) {
        status = load_snapshot(storage, loaded, out_error, error_size);
    }
    if (status != STATUS_OK) {
        return status;
    }
    loaded->term = vote_store_term(storage->votes);
    loaded->vote = vote_store_vote(storage->votes);
    struct log_store_options options = {.snapshot_index = loaded->snapshot.index,
                                        .snapshot_term = loaded->snapshot.term,
                                        .term = loaded->term};
    status = log_store_open(&storage->files, &options, &storage->log, out_error, error_size);
    if (status == STATUS_OK) {
        status = load_log(storage, loaded, out_error, error_size);
    }
    if (status == STATUS_OK) {
        status = vote_store_confirm(storage->votes, out_error, error_size);
    }
    return status;
}

static void storage_free(struct raft_storage *storage) {
    abort_receiving(storage);
    close_reader(storage);
    if (storage->log != NULL) {
        log_store_close(storage->log);
    }
    if (storage->votes != NULL) {
        vote_store_close(storage->votes);
    }
    free(storage);
}

enum status raft_storage_open(uv_loop_t *loop, const struct raft_files *files,
                              const struct raft_storage_callbacks *callbacks, void *data,
                              struct raft_storage **out_storage,
                              struct raft_storage_loaded *out_loaded, char *out_error,
                              size_t error_size) {
    struct raft_storage *storage = allocate(sizeof *storage);
    storage->loop = loop;
    storage->files = *files;
    storage->callbacks = callbacks;
    storage->data = data;
    *out_loaded = (struct raft_storage_loaded){0};
    enum status status = open_stores(storage, out_loaded, out_error, error_size);
    if (status != STATUS_OK) {
        raft_storage_loaded_clear(out_loaded);
        storage_free(storage);
        return status;
    }
    storage->log_bytes = log_store_disk_bytes(storage->log);
    *out_storage = storage;
    return STATUS_OK;
}

int raft_storage_start(struct raft_storage *storage) {
    struct raft_lane_work log_work = {.run = run_log, .idle = idle_log, .data = storage};
    struct raft_lane_work bulk_work = {.run = run_bulk, .data = storage};
    int error = snapshot_store_clean(&storage->files);
    if (error == 0) {
        error = raft_lane_open(storage->loop, &log_work, &storage->log_lane);
        storage->n_lanes_open += error == 0;
    }
    if (error == 0) {
        error = raft_lane_open(storage->loop, &bulk_work, &storage->bulk_lane);
        storage->n_lanes_open += error == 0;
    }
    return error;
}

int raft_storage_append_now(struct raft_storage *storage, struct log_item *const *items, size_t n) {
    assert(storage->n_lanes_open == 0);
    return log_store_append(storage->log, items, n);
}

void raft_storage_poll(struct raft_storage *storage) {
    raft_lane_poll(storage->log_lane);
    raft_lane_poll(storage->bulk_lane);
}

bool raft_storage_is_busy(const struct raft_storage *storage) {
    return storage->n_jobs > 0 || storage->is_taking;
}

uint64_t raft_storage_disk_bytes(const struct raft_storage *storage) {
    return __atomic_load_n(&storage->log_bytes, __ATOMIC_RELAXED) +
           snapshot_store_disk_bytes(&storage->files);
}

static void lane_closed(void *data) {
    struct raft_storage *storage = data;
    if (--storage->n_lanes_open > 0) {
        return;
    }
    void (*closed)(void *closed_data) = storage->closed;
    void *closed_data = storage->closed_data;
    storage_free(storage);
    closed(closed_data);
}

static void close_if_idle(struct raft_storage *storage) {
    if (storage->is_closing && !raft_storage_is_busy(storage)) {
        raft_lane_close(storage->log_lane, lane_closed, storage);
        raft_lane_close(storage->bulk_lane, lane_closed, storage);
    }
}

void raft_storage_close(struct raft_storage *storage, void (*closed)(void *data), void *data) {
    storage->is_closing = true;
    storage->closed = closed;
    storage->closed_data = data;
    close_if_idle(storage);
}
