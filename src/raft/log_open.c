#include "raft/log_recovery.h"
#include "raft/log_store_internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char advice[] = "Nothing was changed. Restore the data directory from a backup; on a "
                             "member of a cluster, remove "
                             "the member, delete its data directory and add it again.";

/* A file of the log, as it was found. */
struct found {
    enum log_file_kind kind;
    uint64_t number;
    uint64_t size;
    bool has_start;
    bool has_records; /* that do not count: of a batch that was being written in a crash */
    struct log_segment segment;
    struct log_start start;
};

struct opening {
    struct raft_files files;
    const struct log_store_options *options;
    struct found *found; /* by number */
    size_t n_found;
    size_t found_capacity;
    size_t *chain; /* positions in `found` */
    size_t n_chain;
    uint8_t *bytes; /* of the segment that is looked at */
    struct log_recovery recovery;
    char *error;
    size_t error_size;
};

/* --- errors --- */

__attribute__((format(printf, 3, 4))) static enum status
refuse(struct opening *opening, enum status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(opening->error, opening->error_size, format, arguments);
    va_end(arguments);
    return status;
}

static enum status refuse_file(struct opening *opening, const char *name, int error) {
    return refuse(opening, error == ENOSPC ? STATUS_NO_SPACE : STATUS_IO,
                  "%s: %s. The log was not opened.", name, strerror(error));
}

static enum status refuse_damage(struct opening *opening) {
    char name[LOG_SEGMENT_NAME_SIZE];
    log_segment_name(opening->recovery.problem_generation, name);
    return refuse(opening, STATUS_CORRUPT, "%s is damaged at offset %" PRIu64 ": %s. %s", name,
                  opening->recovery.problem_offset, opening->recovery.problem, advice);
}

/* --- which files there are --- */

static void add_found(void *data, const char *name) {
    struct opening *opening = data;
    struct found found = {.number = 0};
    if (!log_file_parse_name(name, &found.kind, &found.number)) {
        return;
    }
    if (opening->n_found == opening->found_capacity) {
        opening->found_capacity = opening->found_capacity == 0 ? 32 : 2 * opening->found_capacity;
        opening->found = realloc(opening->found, opening->found_capacity * sizeof *opening->found);
        if (opening->found == NULL) {
            abort();
        }
    }
    opening->found[opening->n_found++] = found;
}

static bool is_segment(const struct found *found) {
    return found->kind == LOG_FILE_SEGMENT;
}

static int compare_found(const void *a, const void *b) {
    const struct found *left = a;
    const struct found *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

static enum status check_header(struct opening *opening, struct found *found, const char *name,
                                const uint8_t *bytes, size_t n) {
    enum status status = log_segment_decode_header(bytes, n, &found->segment);
    if (status == STATUS_UNSUPPORTED) {
        return refuse(
            opening, status,
            "%s was written by a newer version of leased. Nothing was changed. Start that "
            "version, or restore a backup that this one wrote.",
            name);
    }
    if (status != STATUS_OK || found->segment.generation != found->number) {
        return refuse(opening, STATUS_CORRUPT,
                      "%s is damaged at offset 0: its header is not valid. %s", name, advice);
    }
    if (found->segment.size != found->size || found->size > LOG_SEGMENT_SIZE_MAX) {
        return refuse(opening, STATUS_CORRUPT,
                      "%s is damaged: it has %" PRIu64 " bytes instead of %" PRIu64 ". %s", name,
                      found->size, found->segment.size, advice);
    }
    struct log_record record;
    found->has_start = log_segment_decode_start(&found->segment, bytes, n, &record, &found->start);
    return STATUS_OK;
}

static enum status look_at(struct opening *opening, struct found *found) {
    const struct raft_files_calls *calls = opening->files.calls;
    void *data = opening->files.data;
    char name[LOG_SEGMENT_NAME_SIZE];
    uint8_t bytes[LOG_SEGMENT_HEADER_SIZE + LOG_RECORD_HEAD_SIZE + LOG_START_SIZE];
    size_t n = 0;
    int file;
    log_file_name(found->kind, found->number, name);
    int error = calls->open(data, name, RAFT_FILES_READ, &file);
    if (error != 0) {
        return refuse_file(opening, name, error);
    }
    error = calls->size(data, file, &found->size);
    if (error == 0 && is_segment(found)) {
        error = calls->read(data, file, 0, bytes, sizeof bytes, &n);
    }
    calls->close(data, file);
    if (error != 0) {
        return refuse_file(opening, name, error);
    }
    return is_segment(found) ? check_header(opening, found, name, bytes, n) : STATUS_OK;
}

static enum status find_files(struct opening *opening) {
    const struct raft_files_calls *calls = opening->files.calls;
    int error = calls->list(opening->files.data, add_found, opening);
    if (error != 0) {
        return refuse_file(opening, "the data directory", error);
    }
    if (opening->n_found > 0) {
        qsort(opening->found, opening->n_found, sizeof *opening->found, compare_found);
    }
    uint64_t size_max = 0;
    for (size_t i = 0; i < opening->n_found; i++) {
        enum status status = look_at(opening, &opening->found[i]);
        if (status != STATUS_OK) {
            return status;
        }
        if (is_segment(&opening->found[i]) && opening->found[i].size > size_max) {
            size_max = opening->found[i].size;
        }
    }
    opening->bytes = malloc(size_max + 1);
    opening->chain = malloc((opening->n_found + 1) * sizeof *opening->chain);
    if (opening->bytes == NULL || opening->chain == NULL) {
        abort();
    }
    return STATUS_OK;
}

/* --- which segments count --- */

static size_t find_segment(const struct opening *opening, uint64_t generation) {
    size_t position = 0;
    while (position < opening->n_found && (!is_segment(&opening->found[position]) ||
                                           opening->found[position].number != generation)) {
        position++;
    }
    return position;
}

/* From the newest one that was begun, back along the links, to where the log was trimmed. */
static enum status link_segments(struct opening *opening) {
    size_t position = opening->n_found;
    while (position > 0 && !opening->found[position - 1].has_start) {
        position--;
    }
    if (position == 0) {
        return STATUS_OK;
    }
    position--;
    for (;;) {
        const struct found *found = &opening->found[position];
        opening->chain[opening->n_chain++] = position;
        size_t previous = find_segment(opening, found->start.previous_generation);
        if (previous == opening->n_found) {
            break;
        }
        if (!opening->found[previous].has_start || previous >= position) {
            char name[LOG_SEGMENT_NAME_SIZE];
            log_segment_name(opening->found[previous].number, name);
            return refuse(opening, STATUS_CORRUPT,
                          "%s is damaged at offset %d: its first record is not valid. %s", name,
                          LOG_SEGMENT_HEADER_SIZE, advice);
        }
        position = previous;
    }
    for (size_t i = 0; i < opening->n_chain / 2; i++) { /* oldest first */
        size_t swap = opening->chain[i];
        opening->chain[i] = opening->chain[opening->n_chain - 1 - i];
        opening->chain[opening->n_chain - 1 - i] = swap;
    }
    return STATUS_OK;
}

static enum status load(struct opening *opening, const struct found *found) {
    const struct raft_files_calls *calls = opening->files.calls;
    char name[LOG_SEGMENT_NAME_SIZE];
    size_t n = 0;
    int file;
    log_segment_name(found->number, name);
    int error = calls->open(opening->files.data, name, RAFT_FILES_READ, &file);
    if (error == 0) {
        error = calls->read(opening->files.data, file, 0, opening->bytes, found->size, &n);
        calls->close(opening->files.data, file);
    }
    if (error == 0 && n != found->size) {
        error = EIO;
    }
    return error == 0 ? STATUS_OK : refuse_file(opening, name, error);
}

static enum status replay(struct opening *opening) {
    for (size_t i = 0; i < opening->n_chain; i++) {
        const struct found *found = &opening->found[opening->chain[i]];
        uint64_t end = 0;
        if (i + 1 < opening->n_chain) {
            end = opening->found[opening->chain[i + 1]].start.previous_end;
        }
        enum status status = load(opening, found);
        if (status != STATUS_OK) {
            return status;
        }
        if (log_recovery_replay(&opening->recovery, &found->segment, opening->bytes, end) !=
            STATUS_OK) {
            return refuse_damage(opening);
        }
    }
    if (opening->n_chain > 0 && opening->recovery.whole.generation == 0 &&
        opening->recovery.is_base_open) {
        const struct found *found = &opening->found[opening->chain[0]];
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
    for (size_t i = 0; i < opening->n_found; i++) {
        struct found *found = &opening->found[i];
        if (!is_segment(found) || found->number < whole->generation) {
            continue;
        }
        enum status status = load(opening, found);
        if (status != STATUS_OK) {
            return status;
        }
        uint64_t offset =
            found->number == whole->generation ? whole->offset : LOG_SEGMENT_HEADER_SIZE;
        if (log_recovery_look_behind(&opening->recovery, &found->segment, opening->bytes, offset,
                                     &found->has_records) != STATUS_OK) {
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
    store->garbage = malloc((opening->n_found + 1) * sizeof *store->garbage);
    if (store->garbage == NULL) {
        abort();
    }
    for (size_t i = 0; i < opening->n_found; i++) {
        const struct found *found = &opening->found[i];
        struct log_file file = {found->kind, found->number, found->size};
        bool is_newest = i + 1 == opening->n_found;
        bool is_usual = found->size == store->segment_size;
        if (found->number > store->generation_last) {
            store->generation_last = found->number;
        }
        if (is_segment(found) && is_in_chain(store, found->number)) {
            continue;
        }
        if (is_segment(found) && is_newest && is_usual && !found->has_records) {
            store->spare =
                (struct log_spare){.state = SPARE_READY, .file = -1, .segment = found->segment};
        } else if (found->kind == LOG_FILE_FREE && is_usual && store->n_free < LOG_FREE_MAX) {
            store->free_files[store->n_free++] = file;
        } else {
            store->garbage[store->n_garbage++] = file;
        }
    }
}

static void build(struct opening *opening, bool is_torn, struct log_store *store) {
    struct log_recovery *recovery = &opening->recovery;
    for (size_t i = 0; i < opening->n_chain; i++) {
        const struct log_segment *segment = &opening->found[opening->chain[i]].segment;
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
        return error == 0 ? STATUS_OK : refuse_file(opening, name, error);
    }
    uint64_t begin = opening->recovery.last_batch;
    size_t n = 0;
    struct iovec part = {.iov_base = opening->bytes, .iov_len = store->tail - begin};
    log_segment_name(opening->recovery.whole.generation, name);
    error = calls->open(data, name, RAFT_FILES_WRITE, &store->file);
    if (error != 0) {
        store->file = -1;
        return refuse_file(opening, name, error);
    }
    error = calls->read(data, store->file, begin, opening->bytes, part.iov_len, &n);
    if (error == 0 && n != part.iov_len) {
        error = EIO;
    }
    if (error == 0) {
        error = calls->write(data, store->file, begin, &part, 1);
    }
    if (error == 0) {
        error = calls->sync(data, store->file);
    }
    return error == 0 ? STATUS_OK : refuse_file(opening, name, error);
}

static enum status refuse_gap(struct opening *opening, const struct log_store *store) {
    return refuse(opening, STATUS_CORRUPT,
                  "The log begins with entry %" PRIu64
                  ", but the newest snapshot ends with entry %" PRIu64
                  ": a snapshot or a segment of the log is missing. %s",
                  store->index.base + 1, opening->options->snapshot_index, advice);
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
    return error == 0 ? STATUS_OK : refuse_file(opening, "log", error);
}

static enum status open_store(struct opening *opening, struct log_store *store) {
    bool is_torn = false;
    enum status status = find_files(opening);
    if (status == STATUS_OK) {
        status = link_segments(opening);
    }
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
    struct opening opening = {
        .files = *files, .options = options, .error = out_error, .error_size = error_size};
    struct log_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        abort();
    }
    store->files = *files;
    store->segment_size =
        options->segment_size == 0 ? LOG_SEGMENT_SIZE_DEFAULT : options->segment_size;
    assert(store->segment_size >= LOG_SEGMENT_SIZE_MIN);
    assert(store->segment_size <= LOG_SEGMENT_SIZE_MAX);
    store->file = -1;
    store->spare.file = -1;
    store->read_file = -1;
    log_recovery_init(&opening.recovery, options->term);
    enum status status = open_store(&opening, store);
    log_recovery_clear(&opening.recovery);
    free(opening.found);
    free(opening.chain);
    free(opening.bytes);
    if (status == STATUS_OK) {
        *out_store = store;
    } else {
        log_store_close(store);
    }
    return status;
}
