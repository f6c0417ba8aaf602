#include "raft/log_store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void log_spare_lock(struct log_store *store) {
    pthread_mutex_lock(&store->spare_mutex);
}

static uint64_t count_bytes(const struct log_store *store) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < store->n_free; i++) {
        bytes += store->free_files[i].size;
    }
    for (size_t i = 0; i < store->n_garbage; i++) {
        bytes += store->garbage[i].size;
    }
    if (store->spare.state == SPARE_ZEROING) {
        return bytes + store->spare.progress;
    }
    return store->spare.state == SPARE_NONE ? bytes : bytes + store->spare.segment.size;
}

void log_spare_unlock(struct log_store *store) {
    bool is_prepared = store->spare.state == SPARE_READY && store->n_garbage == 0;
    __atomic_store_n(&store->spare_bytes, count_bytes(store), __ATOMIC_RELAXED);
    __atomic_store_n(&store->is_prepared, is_prepared, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&store->spare_mutex);
}

static void add_garbage(struct log_store *store, struct log_file file) {
    if (store->n_garbage == store->garbage_capacity) {
        store->garbage_capacity = store->garbage_capacity == 0 ? 16 : 2 * store->garbage_capacity;
        store->garbage = realloc(store->garbage, store->garbage_capacity * sizeof *store->garbage);
        if (store->garbage == NULL) {
            abort();
        }
    }
    store->garbage[store->n_garbage++] = file;
}

void log_garbage_add(struct log_store *store, struct log_file file) {
    if (store->read_file >= 0 && store->read_generation == file.number) {
        store->files.calls->close(store->files.data, store->read_file);
        store->read_file = -1;
    }
    log_spare_lock(store);
    add_garbage(store, file);
    log_spare_unlock(store);
}

/* Only what was a segment is used again: the size of any other file may not be on disk. Renames
 * need no sync here: if one is lost, the file is a segment that nothing links to. */
int log_garbage_free(struct log_store *store) {
    struct log_file file = store->garbage[--store->n_garbage];
    char name[LOG_SEGMENT_NAME_SIZE];
    char free_name[LOG_SEGMENT_NAME_SIZE];
    log_file_name(file.kind, file.number, name);
    if (file.kind != LOG_FILE_SEGMENT || file.size != store->segment_size ||
        store->n_free == LOG_FREE_MAX) {
        return store->files.calls->unlink(store->files.data, name);
    }
    log_file_name(LOG_FILE_FREE, file.number, free_name);
    int error = store->files.calls->rename(store->files.data, name, free_name);
    if (error == 0) {
        file.kind = LOG_FILE_FREE;
        store->free_files[store->n_free++] = file;
    }
    return error;
}

static int begin(struct log_store *store, uint64_t size) {
    struct log_spare *spare = &store->spare;
    const struct raft_files_calls *calls = store->files.calls;
    char name[LOG_SEGMENT_NAME_SIZE];
    int error = 0;
    *spare = (struct log_spare){.file = -1, .segment.size = size};
    while (store->n_free == 0 && store->n_garbage > 0 && error == 0) {
        error = log_garbage_free(store);
    }
    if (error != 0) {
        return error;
    }
    if (size == store->segment_size && store->n_free > 0) {
        spare->kind = LOG_FILE_FREE;
        spare->number = store->free_files[--store->n_free].number;
        /* It must have lost the name of a segment before its header is written over: a crash
         * would leave a segment that has another's header. */
        error = calls->sync_directory(store->files.data);
        if (error != 0) {
            return error;
        }
        log_file_name(spare->kind, spare->number, name);
        error = calls->open(store->files.data, name, RAFT_FILES_WRITE, &spare->file);
        spare->state = error == 0 ? SPARE_BLANK : SPARE_NONE;
        return error;
    }
    spare->kind = LOG_FILE_NEW;
    spare->number = ++store->generation_last;
    log_file_name(spare->kind, spare->number, name);
    error = calls->open(store->files.data, name, RAFT_FILES_CREATE, &spare->file);
    spare->state = error == 0 ? SPARE_ZEROING : SPARE_NONE;
    return error;
}

static int zero(struct log_store *store, uint64_t step) {
    struct log_spare *spare = &store->spare;
    const struct raft_files_calls *calls = store->files.calls;
    uint64_t left = spare->segment.size - spare->progress;
    uint64_t size = left < step ? left : step;
    int error = calls->allocate(store->files.data, spare->file, spare->progress + size);
    if (error == 0) {
        /* Not a sync: the one of the header is enough, and each would commit the file system's
         * journal, behind which the log's own syncs wait. */
        error = calls->write_back(store->files.data, spare->file, spare->progress, size);
    }
    spare->progress += size;
    if (error != 0) {
        /* The room is not held by a file that is of no use; the error is told in any case. */
        char name[LOG_SEGMENT_NAME_SIZE];
        log_file_name(spare->kind, spare->number, name);
        calls->close(store->files.data, spare->file);
        calls->unlink(store->files.data, name);
        spare->state = SPARE_NONE;
        spare->file = -1;
        return error;
    }
    if (spare->progress == spare->segment.size) {
        spare->state = SPARE_BLANK;
    }
    return 0;
}

/* The header is on disk before the file has a segment's name, and the name before it is used. */
static int finish(struct log_store *store) {
    struct log_spare *spare = &store->spare;
    const struct raft_files_calls *calls = store->files.calls;
    char name_before[LOG_SEGMENT_NAME_SIZE];
    char name[LOG_SEGMENT_NAME_SIZE];
    uint8_t header[LOG_SEGMENT_HEADER_SIZE];
    spare->segment.generation = ++store->generation_last;
    assert(spare->segment.generation <= UINT32_MAX);
    if (getrandom(&spare->segment.life, sizeof spare->segment.life, 0) !=
        (ssize_t)sizeof spare->segment.life) {
        return EIO;
    }
    log_segment_encode_header(&spare->segment, header);
    log_file_name(spare->kind, spare->number, name_before);
    log_segment_name(spare->segment.generation, name);
    struct iovec part = {.iov_base = header, .iov_len = sizeof header};
    int error = calls->write(store->files.data, spare->file, 0, &part, 1);
    if (error == 0) {
        error = calls->sync(store->files.data, spare->file);
    }
    if (error == 0) {
        error = calls->rename(store->files.data, name_before, name);
    }
    if (error == 0) {
        error = calls->sync_directory(store->files.data);
    }
    if (error == 0) {
        spare->state = SPARE_READY;
    }
    return error;
}

static int advance(struct log_store *store, uint64_t size, uint64_t step) {
    switch (store->spare.state) {
    case SPARE_NONE:
        return begin(store, size);
    case SPARE_ZEROING:
        return zero(store, step);
    case SPARE_BLANK:
        return finish(store);
    case SPARE_READY:
        break;
    }
    return 0;
}

int log_spare_step(struct log_store *store, uint64_t size) {
    return advance(store, size, LOG_SPARE_STEP_SIZE);
}

/* It is too small for a record of unusual size. */
static void discard_spare(struct log_store *store) {
    struct log_spare *spare = &store->spare;
    struct log_file file = {spare->kind, spare->number, spare->segment.size};
    if (spare->state == SPARE_READY) {
        file.kind = LOG_FILE_SEGMENT;
        file.number = spare->segment.generation;
    }
    log_spare_clear(store);
    add_garbage(store, file);
}

static int take(struct log_store *store, uint64_t size, int *out_file,
                struct log_segment *out_segment) {
    struct log_spare *spare = &store->spare;
    uint64_t wanted = size > store->segment_size ? size : store->segment_size;
    int error = log_store_error(store);
    if (error == 0 && spare->state != SPARE_NONE && spare->segment.size < size) {
        discard_spare(store);
    }
    while (error == 0 && spare->state != SPARE_READY) {
        error = advance(store, wanted, wanted); /* somebody waits: at once */
    }
    if (error != 0) {
        return error;
    }
    if (spare->file < 0) {
        /* Found when the log was opened. */
        char name[LOG_SEGMENT_NAME_SIZE];
        log_segment_name(spare->segment.generation, name);
        error = store->files.calls->open(store->files.data, name, RAFT_FILES_WRITE, &spare->file);
        if (error != 0) {
            return error;
        }
    }
    *out_file = spare->file;
    *out_segment = spare->segment;
    *spare = (struct log_spare){.file = -1};
    return 0;
}

int log_spare_take(struct log_store *store, uint64_t size, int *out_file,
                   struct log_segment *out_segment) {
    __atomic_store_n(&store->is_spare_awaited, true, __ATOMIC_RELAXED);
    log_spare_lock(store);
    __atomic_store_n(&store->is_spare_awaited, false, __ATOMIC_RELAXED);
    int error = take(store, size, out_file, out_segment);
    log_spare_unlock(store);
    return error;
}

void log_spare_clear(struct log_store *store) {
    if (store->spare.file >= 0) {
        store->files.calls->close(store->files.data, store->spare.file);
    }
    store->spare = (struct log_spare){.file = -1};
}
