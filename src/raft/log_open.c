#include "raft/log_recovery.h"
#include "raft/log_store_internal.h"
#include "raft/log_survey.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct opening {
    const struct log_store_options *options;
    struct log_survey survey;
    struct log_recovery recovery;
    char *error;
    size_t error_size;
};

static enum status refuse_damage(struct opening *opening) {
    char name[LOG_SEGMENT_NAME_SIZE];
    log_segment_name(opening->recovery.problem_generation, name);
    return log_survey_refuse(
        &opening->survey, STATUS_CORRUPT, "%s is damaged at offset %" PRIu64 ": %s. %s", name,
        opening->recovery.problem_offset, opening->recovery.problem, log_survey_advice);
}

static enum status replay(struct opening *opening) {
    for (size_t i = 0; i < opening->survey.n_chain; i++) {
        const struct log_found *found = &opening->survey.found[opening->survey.chain[i]];
        uint64_t end = 0;
        if (i + 1 < opening->survey.n_chain) {
            end = opening->survey.found[opening->survey.chain[i + 1]].start.previous_end;
        }
        enum status status = log_survey_load(&opening->survey, found);
        if (status != STATUS_OK) {
            return status;
        }
        if (log_recovery_replay(&opening->recovery, &found->segment, opening->survey.bytes, end) !=
            STATUS_OK) {
            return refuse_damage(opening);
        }
    }
    if (opening->survey.n_chain > 0 && opening->recovery.whole.generation == 0 &&
        opening->recovery.is_base_open) {
        const struct log_found *found = &opening->survey.found[opening->survey.chain[0]];
        opening->recovery.problem_generation = found->number;
        opening->recovery.problem_offset = LOG_SEGMENT_HEADER_SIZE;
        snprintf(opening->recovery.problem, sizeof opening->recovery.problem,
                 "it continues a segment that is missing, and holds no whole batch");
        return refuse_damage(opening);
    }
    return STATUS_OK;
}

static enum status look_behind(struct opening *opening, bool *out_is_torn) {
    const struct log_position *whole = &opening->recovery.whole;
    for (size_t i = 0; i < opening->survey.n_found; i++) {
        struct log_found *found = &opening->survey.found[i];
        if (!log_found_is_segment(found) || found->number < whole->generation) {
            continue;
        }
        enum status status = log_survey_load(&opening->survey, found);
        if (status != STATUS_OK) {
            return status;
        }
        uint64_t offset =
            found->number == whole->generation ? whole->offset : LOG_SEGMENT_HEADER_SIZE;
        if (log_recovery_look_behind(&opening->recovery, &found->segment, opening->survey.bytes,
                                     offset, &found->has_records) != STATUS_OK) {
            return refuse_damage(opening);
        }
        *out_is_torn = *out_is_torn || found->has_records;
    }
    return STATUS_OK;
}

/* --- the store --- */

static bool is_in_chain(const struct log_store *store, uint64_t generation) {
    for (size_t i = 0; i < store->n_chain; i++) {
        if (store->chain[i].generation == generation) {
            return true;
        }
    }
    return false;
}

/* The spare, files for use, and files that are in nobody's way until log_store_prepare(). */
static void sort_files(const struct opening *opening, struct log_store *store) {
    for (size_t i = 0; i < opening->survey.n_found; i++) {
        const struct log_found *found = &opening->survey.found[i];
        struct log_file file = {found->kind, found->number, found->size};
        bool is_newest = i + 1 == opening->survey.n_found;
        bool is_usual = found->size == store->segment_size;
        if (found->number > store->generation_last) {
            store->generation_last = found->number;
        }
        if (log_found_is_segment(found) && is_in_chain(store, found->number)) {
            continue;
        }
        if (log_found_is_segment(found) && is_newest && is_usual && !found->has_records) {
            store->spare =
                (struct log_spare){.state = SPARE_READY, .file = -1, .segment = found->segment};
        } else if (found->kind == LOG_FILE_FREE && is_usual && store->n_free < LOG_FREE_MAX) {
            store->free_files[store->n_free++] = file;
        } else {
            log_garbage_add(store, file);
        }
    }
    log_spare_lock(store);
    log_spare_unlock(store); /* tells of the files found */
}

static void build(struct opening *opening, bool is_torn, struct log_store *store) {
    struct log_recovery *recovery = &opening->recovery;
    for (size_t i = 0; i < opening->survey.n_chain; i++) {
        const struct log_segment *segment =
            &opening->survey.found[opening->survey.chain[i]].segment;
        if (segment->generation <= recovery->whole.generation) {
            log_store_add_segment(store, segment);
        }
    }
    sort_files(opening, store);
    store->index = recovery->index;
    log_index_init(&recovery->index, 0, 0);
    if (store->n_chain == 0) {
        log_index_reset(&store->index, opening->options->snapshot_index,
                        opening->options->snapshot_term);
    }
    store->must_roll = is_torn || store->n_chain == 0;
    store->is_sealed = recovery->is_sealed && !is_torn;
    store->tail = recovery->whole.offset;
    store->tail_chain = recovery->whole.chain;
    store->sequence = recovery->whole.sequence;
    store->batch = recovery->whole.batch;
}

/* A process that was killed, or whose last sync failed, may have left a batch that is read here and
 * is not on disk; so may a name. Both are made sure of before they count. A sync alone would not
 * do: after one that failed, the kernel takes what was not written for clean. So the last batch is
 * written again, with the very bytes that are there. All before it was synced. */
static enum status confirm(struct opening *opening, struct log_store *store) {
    const struct raft_files_calls *calls = store->files.calls;
    void *data = store->files.data;
    char name[LOG_SEGMENT_NAME_SIZE] = "the data directory";
    int error = calls->sync_directory(data);
    if (error != 0 || store->n_chain == 0) {
        return error == 0 ? STATUS_OK : log_survey_refuse_file(&opening->survey, name, error);
    }
    uint64_t begin = opening->recovery.last_batch;
    size_t n = 0;
    struct iovec part = {.iov_base = opening->survey.bytes, .iov_len = store->tail - begin};
    log_segment_name(opening->recovery.whole.generation, name);
    error = calls->open(data, name, RAFT_FILES_WRITE, &store->file);
    if (error != 0) {
        store->file = -1;
        return log_survey_refuse_file(&opening->survey, name, error);
    }
    error = calls->read(data, store->file, begin, opening->survey.bytes, part.iov_len, &n);
    if (error == 0 && n != part.iov_len) {
        error = EIO;
    }
    if (error == 0) {
        error = calls->write(data, store->file, begin, &part, 1);
    }
    if (error == 0) {
        error = calls->sync(data, store->file);
    }
    return error == 0 ? STATUS_OK : log_survey_refuse_file(&opening->survey, name, error);
}

static enum status refuse_gap(struct opening *opening, const struct log_store *store) {
    return log_survey_refuse(
        &opening->survey, STATUS_CORRUPT,
        "The log begins with entry %" PRIu64 ", but the newest snapshot ends with entry %" PRIu64
        ": a snapshot or a segment of the log is missing. %s",
        store->index.base + 1, opening->options->snapshot_index, log_survey_advice);
}

/* The log holds the snapshot's last entry or begins behind it, or is discarded: the snapshot was
 * installed, and a crash came before the log was reset. */
static enum status meet_snapshot(struct opening *opening, struct log_store *store) {
    const struct log_store_options *options = opening->options;
    const struct log_index *index = &store->index;
    if (log_index_last(index) >= options->snapshot_index &&
        log_index_term(index, options->snapshot_index) == options->snapshot_term) {
        return STATUS_OK;
    }
    int error = log_store_write_reset(store, options->snapshot_index, options->snapshot_term);
    return error == 0 ? STATUS_OK : log_survey_refuse_file(&opening->survey, "log", error);
}

static enum status open_store(struct opening *opening, struct log_store *store) {
    bool is_torn = false;
    enum status status =
        log_survey_init(&opening->survey, &store->files, opening->error, opening->error_size);
    if (status == STATUS_OK) {
        status = replay(opening);
    }
    if (status == STATUS_OK) {
        status = look_behind(opening, &is_torn);
    }
    if (status != STATUS_OK) {
        return status;
    }
    build(opening, is_torn, store);
    if (store->index.base > opening->options->snapshot_index) {
        return refuse_gap(opening, store);
    }
    status = confirm(opening, store);
    return status == STATUS_OK ? meet_snapshot(opening, store) : status;
}

enum status log_store_open(const struct raft_files *files, const struct log_store_options *options,
                           struct log_store **out_store, char *out_error, size_t error_size) {
    struct opening opening = {.options = options, .error = out_error, .error_size = error_size};
    struct log_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        abort();
    }
    store->files = *files;
    store->segment_size =
        options->segment_size == 0 ? LOG_SEGMENT_SIZE_DEFAULT : options->segment_size;
    assert(store->segment_size >= LOG_SEGMENT_SIZE_MIN);
    assert(store->segment_size <= LOG_SEGMENT_SIZE_MAX);
    pthread_mutex_init(&store->spare_mutex, NULL);
    store->file = -1;
    store->spare.file = -1;
    store->read_file = -1;
    log_recovery_init(&opening.recovery, options->term);
    enum status status = open_store(&opening, store);
    log_recovery_clear(&opening.recovery);
    log_survey_clear(&opening.survey);
    if (status == STATUS_OK) {
        *out_store = store;
    } else {
        log_store_close(store);
    }
    return status;
}
