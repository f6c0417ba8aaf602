#include "raft/log_store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static int open_segment(struct log_store *store, uint64_t generation) {
    const struct raft_files_calls *calls = store->files.calls;
    if (store->read_file >= 0 && store->read_generation == generation) {
        return 0;
    }
    if (store->read_file >= 0) {
        calls->close(store->files.data, store->read_file);
        store->read_file = -1;
    }
    char name[LOG_SEGMENT_NAME_SIZE];
    log_segment_name(generation, name);
    int error = calls->open(store->files.data, name, RAFT_FILES_READ, &store->read_file);
    if (error != 0) {
        store->read_file = -1;
        return error;
    }
    store->read_generation = generation;
    return 0;
}

/* How many entries from `first` on lie in one segment, within the bounds. */
static size_t run_length(const struct log_store *store, uint64_t first, uint64_t last,
                         size_t bytes_max, size_t capacity) {
    const struct log_place *begin = log_index_at(&store->index, first);
    size_t n = 1;
    while (n < capacity && first + n <= last) {
        const struct log_place *place = log_index_at(&store->index, first + n);
        if (place->generation != begin->generation ||
            place->offset + log_record_size(place->size) - begin->offset > bytes_max) {
            break;
        }
        n++;
    }
    return n;
}

static struct log_item *decode(const struct log_store *store, uint64_t index,
                               const uint8_t *bytes) {
    const struct log_place *place = log_index_at(&store->index, index);
    uint64_t life = log_store_find_segment(store, place->generation)->life;
    struct log_record record;
    if (!log_record_decode(bytes, log_record_size(place->size), life, place->seed, &record) ||
        record.index != index || record.term != place->term || record.size != place->size) {
        return NULL;
    }
    uint8_t *payload = NULL;
    if (record.size > 0) {
        payload = malloc(record.size);
        if (payload == NULL) {
            abort();
        }
        memcpy(payload, bytes + LOG_RECORD_HEAD_SIZE, record.size);
    }
    return log_item_create((enum log_item_type)record.type, index, record.term, payload,
                           record.size);
}

/* The entries from `first` on that lie in one segment, with one read. */
static int read_run(struct log_store *store, uint64_t first, size_t n,
                    struct log_item **out_items) {
    const struct log_place *begin = log_index_at(&store->index, first);
    const struct log_place *end = log_index_at(&store->index, first + n - 1);
    size_t size = end->offset + log_record_size(end->size) - begin->offset;
    int error = open_segment(store, begin->generation);
    if (error != 0) {
        return error;
    }
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        abort();
    }
    size_t n_bytes = 0;
    size_t n_items = 0;
    error = store->files.calls->read(store->files.data, store->read_file, begin->offset, bytes,
                                     size, &n_bytes);
    if (error == 0 && n_bytes != size) {
        error = EBADMSG;
    }
    while (error == 0 && n_items < n) {
        const struct log_place *place = log_index_at(&store->index, first + n_items);
        out_items[n_items] =
            decode(store, first + n_items, bytes + (place->offset - begin->offset));
        if (out_items[n_items] == NULL) {
            error = EBADMSG;
        } else {
            n_items++;
        }
    }
    free(bytes);
    while (error != 0 && n_items > 0) {
        log_item_release(out_items[--n_items]);
    }
    return error;
}

int log_store_read(struct log_store *store, uint64_t first, uint64_t last, size_t bytes_max,
                   struct log_item **out_items, size_t capacity, size_t *out_n) {
    assert(capacity > 0);
    assert(first > store->index.base);
    assert(last <= log_index_last(&store->index));
    size_t left = bytes_max;
    size_t n = 0;
    int error = log_store_error(store);
    while (error == 0 && first + n <= last && n < capacity) {
        size_t run = run_length(store, first + n, last, left, capacity - n);
        const struct log_place *end = log_index_at(&store->index, first + n + run - 1);
        size_t size = end->offset + log_record_size(end->size) -
                      log_index_at(&store->index, first + n)->offset;
        if (n > 0 && size > left) {
            break;
        }
        error = read_run(store, first + n, run, out_items + n);
        n += error == 0 ? run : 0;
        left = size < left ? left - size : 0;
    }
    while (error != 0 && n > 0) {
        log_item_release(out_items[--n]);
    }
    if (error == 0) {
        *out_n = n;
    }
    return error;
}
