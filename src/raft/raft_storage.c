#include "raft/raft_storage.h"

#include "base/clock.h"
#include "base/log.h"
#include "raft/raft_storage_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A write that takes longer is told of, */
    SLOW_MS = 2000,
    /* and again after this. */
    SLOW_WARNING_MS = 10000
};

static void *allocate(size_t size) {
    void *memory = calloc(1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
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

static struct storage_job *job_create(struct raft_storage *storage, enum storage_job_kind kind);

static void job_free(struct storage_job *job) {
    for (size_t i = 0; i < job->n; i++) {
        log_item_release(job->items[i]);
    }
    free(job->items);
    free(job->meta);
    buffer_clear(&job->bytes);
    free(job);
}

static void submit(struct raft_storage *storage, struct raft_lane *lane, struct storage_job *job) {
    storage->n_jobs++;
    raft_lane_submit(lane, &job->lane_job);
}

static void install_goes_on(struct raft_storage *storage, struct storage_job *job) {
    struct storage_job *reset = job_create(storage, JOB_RESET);
    reset->meta = job->meta;
    reset->bytes = job->bytes;
    job->meta = NULL;
    buffer_init(&job->bytes);
    submit(storage, storage->log_lane, reset);
}

static void append_begun(struct raft_storage *storage) {
    if (storage->n_appends++ == 0) {
        storage->append_progress_ms = clock_boottime_ms();
    }
}

static void append_ended(struct raft_storage *storage) {
    storage->n_appends--;
    storage->append_progress_ms = clock_boottime_ms();
}

/* A disk that is slow but works is waited for, and told of. */
static void warn_if_slow(struct raft_storage *storage) {
    if (storage->n_appends == 0) {
        return;
    }
    uint64_t now_ms = clock_boottime_ms();
    uint64_t waits_ms = clock_elapsed_ms(now_ms, storage->append_progress_ms);
    if (waits_ms >= SLOW_MS && clock_elapsed_ms(now_ms, storage->warned_ms) >= SLOW_WARNING_MS) {
        storage->warned_ms = now_ms;
        log_warning("slow fdatasync: the disk is slow",
                    LOG_NUMBER("oldest write waits ms", waits_ms));
    }
}

static void job_report(struct raft_storage *storage, struct storage_job *job) {
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

/* --- The log's next segment: making one takes many syncs, and no write waits for them. --- */

static void prepare_run(uv_work_t *work) {
    struct raft_storage *storage = work->data;
    storage->prepare_error = storage_prepare_log(storage);
}

static void prepare_done(uv_work_t *work, int status) {
    struct raft_storage *storage = work->data;
    (void)status;
    storage->is_preparing = false;
    if (storage->prepare_error != 0) {
        fail(storage, "preparing a segment of the log", storage->prepare_error);
    }
    close_if_idle(storage);
}

static void prepare_if_due(struct raft_storage *storage) {
    if (storage->is_preparing || storage->is_closing || storage->has_failed ||
        log_store_is_prepared(storage->log)) {
        return;
    }
    storage->is_preparing = true;
    storage->prepare_work.data = storage;
    int rv = uv_queue_work(storage->loop, &storage->prepare_work, prepare_run, prepare_done);
    assert(rv == 0);
}

/* --- Jobs. --- */

static void job_done(struct raft_job *lane_job) {
    struct storage_job *job = list_entry(lane_job, struct storage_job, lane_job);
    struct raft_storage *storage = job->storage;
    storage->n_jobs--;
    if (job->kind == JOB_APPEND) {
        append_ended(storage);
    }
    if (job->error != 0 && job->error != ECANCELED) {
        fail(storage, job->what, job->error);
    }
    if (job->error == 0 && !storage->has_failed && !storage->is_closing) {
        job_report(storage, job);
    }
    job_free(job);
    prepare_if_due(storage);
    close_if_idle(storage);
}

static struct storage_job *job_create(struct raft_storage *storage, enum storage_job_kind kind) {
    struct storage_job *job = allocate(sizeof *job);
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
    struct storage_job *job = job_create(storage, JOB_APPEND);
    job->items = allocate(n * sizeof(struct log_item *));
    memcpy(job->items, items, n * sizeof(struct log_item *));
    job->n = n;
    append_begun(storage);
    submit(storage, storage->log_lane, job);
}

void raft_storage_trim(struct raft_storage *storage, uint64_t upto) {
    struct storage_job *job = job_create(storage, JOB_TRIM);
    job->first = upto;
    submit(storage, storage->log_lane, job);
}

void raft_storage_read_log(struct raft_storage *storage, uint64_t to_id, uint64_t first,
                           uint64_t last, size_t bytes_max) {
    struct storage_job *job = job_create(storage, JOB_READ_LOG);
    job->to_id = to_id;
    job->first = first;
    job->last = last;
    job->bytes_max = bytes_max;
    submit(storage, storage->log_lane, job);
}

void raft_storage_read_snapshot(struct raft_storage *storage, uint64_t to_id, uint64_t index,
                                uint64_t term, uint64_t offset) {
    struct storage_job *job = job_create(storage, JOB_READ_SNAPSHOT);
    job->to_id = to_id;
    job->first = index;
    job->last = term;
    job->offset = offset;
    submit(storage, storage->bulk_lane, job);
}

void raft_storage_receive_begin(struct raft_storage *storage, const struct snapshot_meta *meta) {
    struct storage_job *job = job_create(storage, JOB_RECEIVE_BEGIN);
    job->meta = copy_meta(meta);
    submit(storage, storage->bulk_lane, job);
}

void raft_storage_receive_append(struct raft_storage *storage, uint8_t *bytes, size_t size) {
    struct storage_job *job = job_create(storage, JOB_RECEIVE_APPEND);
    job->bytes = (struct buffer){.data = bytes, .size = size, .capacity = size};
    submit(storage, storage->bulk_lane, job);
}

void raft_storage_receive_finish(struct raft_storage *storage) {
    submit(storage, storage->bulk_lane, job_create(storage, JOB_RECEIVE_FINISH));
}

bool raft_storage_received_is_good(const struct raft_storage *storage) {
    return storage->is_received_good;
}

void raft_storage_receive_abort(struct raft_storage *storage) {
    submit(storage, storage->bulk_lane, job_create(storage, JOB_RECEIVE_ABORT));
}

void raft_storage_install(struct raft_storage *storage, const struct snapshot_meta *meta) {
    struct storage_job *job = job_create(storage, JOB_INSTALL);
    job->meta = copy_meta(meta);
    submit(storage, storage->bulk_lane, job);
}

/* --- Our own snapshot. --- */

static void take_run(uv_work_t *work) {
    struct raft_storage *storage = work->data;
    storage->take_error = storage_take(storage);
}

static void take_done(uv_work_t *work, int status) {
    struct raft_storage *storage = work->data;
    (void)status;
    storage->is_taking = false;
    latency_add(&storage->takes, clock_stopwatch_us() - storage->take_begun_us);
    if (storage->take_error != 0) {
        fail(storage, "writing a snapshot", storage->take_error);
    }
    storage->callbacks->taken(storage->data, storage->take_error == 0 ? storage->take_size : 0);
    close_if_idle(storage);
}

void raft_storage_take(struct raft_storage *storage, const struct snapshot_meta *meta,
                       const struct raft_storage_source *source) {
    assert(!storage->is_taking);
    storage->is_taking = true;
    storage->take_begun_us = clock_stopwatch_us();
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
    int error = storage_read_payload(&storage->files, &loaded->snapshot, &loaded->payload);
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
    enum status status =
        vote_store_open(&storage->files, survey.has_log, &storage->votes, out_error, error_size);
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
    storage_close_bulk(storage);
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
    struct raft_lane_work log_work = {
        .run = storage_run_log, .idle = storage_idle_log, .data = storage, .is_prompt = true};
    struct raft_lane_work bulk_work = {.run = storage_run_bulk, .data = storage};
    int error = snapshot_store_clean(&storage->files);
    if (error == 0) {
        error = raft_lane_open(storage->loop, &log_work, &storage->log_lane);
        storage->n_lanes_open += error == 0;
    }
    if (error == 0) {
        error = raft_lane_open(storage->loop, &bulk_work, &storage->bulk_lane);
        storage->n_lanes_open += error == 0;
    }
    if (error == 0) {
        prepare_if_due(storage);
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
    warn_if_slow(storage);
}

bool raft_storage_is_busy(const struct raft_storage *storage) {
    return storage->n_jobs > 0 || storage->is_taking || storage->is_preparing;
}

uint64_t raft_storage_log_bytes(const struct raft_storage *storage) {
    return __atomic_load_n(&storage->log_bytes, __ATOMIC_RELAXED);
}

void raft_storage_timing(const struct raft_storage *storage, struct latency *out_writes,
                         struct latency *out_syncs, uint64_t *out_bytes,
                         struct latency *out_snapshots) {
    log_store_timing(storage->log, out_writes, out_syncs, out_bytes);
    *out_snapshots = storage->takes;
}

uint64_t raft_storage_disk_bytes(const struct raft_storage *storage) {
    return raft_storage_log_bytes(storage) + snapshot_store_disk_bytes(&storage->files);
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
