#include "raft/log_store.h"

#include "base/clock.h"
#include "raft/log_store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Head, payload and padding of a record. */
enum { PARTS_PER_RECORD = 3 };

static uint8_t zeros[LOG_RECORD_ALIGNMENT];

/* --- segments --- */

void log_store_add_segment(struct log_store *store, const struct log_segment *segment) {
    if (store->n_chain == store->chain_capacity) {
        store->chain_capacity = store->chain_capacity == 0 ? 16 : 2 * store->chain_capacity;
        store->chain = realloc(store->chain, store->chain_capacity * sizeof *store->chain);
        if (store->chain == NULL) {
            abort();
        }
    }
    store->chain[store->n_chain++] = *segment;
}

const struct log_segment *log_store_find_segment(const struct log_store *store,
                                                 uint64_t generation) {
    size_t low = 0;
    size_t high = store->n_chain;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store->chain[middle].generation < generation) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    assert(low < store->n_chain);
    assert(store->chain[low].generation == generation);
    return &store->chain[low];
}

static const struct log_segment *current(const struct log_store *store) {
    return &store->chain[store->n_chain - 1];
}

/* The segments before the one that holds the first entry behind `upto` do not count any more. */
static void drop_segments(struct log_store *store, uint64_t upto) {
    if (store->n_chain == 0) {
        return;
    }
    uint64_t keep = current(store)->generation;
    if (upto < log_index_last(&store->index)) {
        uint64_t first = upto < store->index.base ? store->index.base : upto;
        keep = log_index_at(&store->index, first + 1)->generation;
    }
    size_t n = 0;
    while (store->chain[n].generation < keep) {
        log_garbage_add(store, (struct log_file){LOG_FILE_SEGMENT, store->chain[n].generation,
                                                 store->chain[n].size});
        n++;
    }
    log_index_forget_before(&store->index, (uint32_t)keep);
    memmove(store->chain, store->chain + n, (store->n_chain - n) * sizeof *store->chain);
    store->n_chain -= n;
}

/* --- one write --- */

static void group_reserve(struct log_group *group, size_t n_records) {
    if (n_records > group->heads_capacity) {
        group->heads_capacity = n_records;
        group->heads = realloc(group->heads, n_records * LOG_RECORD_HEAD_SIZE);
        group->parts = realloc(group->parts, n_records * PARTS_PER_RECORD * sizeof *group->parts);
        if (group->heads == NULL || group->parts == NULL) {
            abort();
        }
    }
    group->n_heads = 0;
    group->n_parts = 0;
}

static void group_add_part(struct log_group *group, const void *bytes, size_t size) {
    if (size > 0) {
        group->parts[group->n_parts++] = (struct iovec){(void *)(uintptr_t)bytes, size};
    }
}

/* At the tail. There is room. */
static void group_add_record(struct log_store *store, struct log_record *record,
                             const void *payload) {
    struct log_group *group = &store->group;
    assert(group->n_heads < group->heads_capacity);
    uint8_t *head = group->heads + group->n_heads++ * LOG_RECORD_HEAD_SIZE;
    record->life = current(store)->life;
    record->sequence = ++store->sequence;
    record->batch = store->batch + 1;
    log_record_encode(record, store->tail_chain, payload, head);
    group_add_part(group, head, LOG_RECORD_HEAD_SIZE);
    group_add_part(group, payload, record->size);
    group_add_part(group, zeros, log_record_padding(record->size));
    store->tail += log_record_size(record->size);
    store->tail_chain = record->chain;
}

static int group_flush(struct log_store *store) {
    struct log_group *group = &store->group;
    if (group->n_parts == 0) {
        return 0;
    }
    const struct raft_files_calls *calls = store->files.calls;
    uint64_t begun_us = clock_stopwatch_us();
    int error = calls->write(store->files.data, store->file, group->offset, group->parts,
                             (int)group->n_parts);
    uint64_t written_us = clock_stopwatch_us();
    if (error == 0) {
        error = calls->sync(store->files.data, store->file);
    }
    uint64_t synced_us = clock_stopwatch_us();
    latency_add(&store->syncs, synced_us - written_us);
    latency_add(&store->writes, synced_us - begun_us);
    latency_bump(&store->written_bytes, store->tail - group->offset);
    group->n_heads = 0;
    group->n_parts = 0;
    group->offset = store->tail;
    return error;
}

/* Goes on in a new segment that has room for this record. The part of the batch that is in the old
 * one is synced first, so that a record in the new one shows that the old one is whole. */
static int roll(struct log_store *store, uint64_t record_size) {
    int error = group_flush(store);
    if (error != 0) {
        return error;
    }
    int file;
    struct log_segment segment;
    uint64_t needed = LOG_SEGMENT_HEADER_SIZE + log_record_size(LOG_START_SIZE) + record_size;
    error = log_spare_take(store, needed, &file, &segment);
    if (error != 0) {
        return error;
    }
    struct log_start start = {.previous_generation = 0};
    if (store->n_chain > 0) {
        start = (struct log_start){
            .previous_generation = current(store)->generation,
            .previous_end = store->tail,
            .previous_chain = store->tail_chain,
        };
    }
    if (store->file >= 0) {
        store->files.calls->close(store->files.data, store->file);
    }
    store->file = file;
    store->must_roll = false;
    store->tail = LOG_SEGMENT_HEADER_SIZE;
    store->tail_chain = segment.chain;
    store->group.offset = store->tail;
    log_store_add_segment(store, &segment);
    log_start_encode(&start, store->group.start);
    uint64_t last = log_index_last(&store->index);
    struct log_record record = {
        .type = RECORD_START,
        .index = last,
        .term = log_index_term(&store->index, last),
        .size = LOG_START_SIZE,
    };
    group_add_record(store, &record, store->group.start);
    return 0;
}

/* `out_seed`: the chain of the record before it. May be NULL. */
static int put(struct log_store *store, struct log_record *record, const void *payload,
               uint32_t *out_seed) {
    uint64_t size = log_record_size(record->size);
    if (store->must_roll || store->tail + size > current(store)->size) {
        int error = roll(store, size);
        if (error != 0) {
            return error;
        }
    }
    if (out_seed != NULL) {
        *out_seed = store->tail_chain;
    }
    group_add_record(store, record, payload);
    return 0;
}

static int put_item(struct log_store *store, const struct log_item *item, bool is_last) {
    assert(item->index > store->index.base);
    assert(item->index <= log_index_last(&store->index) + 1);
    assert(item->term > 0);
    if (item->index <= log_index_last(&store->index)) {
        uint64_t last = item->index - 1;
        struct log_record truncate = {
            .type = RECORD_TRUNCATE,
            .index = last,
            .term = log_index_term(&store->index, last),
        };
        int error = put(store, &truncate, NULL, NULL);
        if (error != 0) {
            return error;
        }
        log_index_truncate(&store->index, last);
    }
    struct log_record record = {
        .type = (uint8_t)item->type,
        .flags = is_last ? RECORD_LAST_OF_BATCH : 0,
        .index = item->index,
        .term = item->term,
        .size = (uint32_t)item->size,
    };
    uint32_t seed;
    int error = put(store, &record, item->bytes, &seed);
    if (error != 0) {
        return error;
    }
    struct log_place place = {
        .term = item->term,
        .generation = (uint32_t)current(store)->generation,
        .offset = (uint32_t)(store->tail - log_record_size(record.size)),
        .size = record.size,
        .seed = seed,
    };
    log_index_append(&store->index, &place);
    return 0;
}

int log_store_error(const struct log_store *store) {
    return __atomic_load_n(&store->error, __ATOMIC_ACQUIRE);
}

static int fail(struct log_store *store, int error) {
    int none = 0;
    if (error != 0) {
        __atomic_compare_exchange_n(&store->error, &none, error, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
    }
    return error;
}

static void begin_batch(struct log_store *store, size_t n_records) {
    group_reserve(&store->group, n_records);
    store->group.offset = store->tail;
}

static int end_batch(struct log_store *store, bool is_seal) {
    int error = group_flush(store);
    if (error == 0) {
        store->batch++;
        store->is_sealed = is_seal;
    }
    return error;
}

/* A batch of one record. */
static int write_record(struct log_store *store, enum log_record_type type, uint64_t index,
                        uint64_t term) {
    struct log_record record = {
        .type = (uint8_t)type,
        .flags = RECORD_LAST_OF_BATCH,
        .index = index,
        .term = term,
    };
    begin_batch(store, 2);
    int error = put(store, &record, NULL, NULL);
    return error != 0 ? error : end_batch(store, type == RECORD_SEAL);
}

int log_store_append(struct log_store *store, struct log_item *const *items, size_t n) {
    int error = log_store_error(store);
    if (error != 0 || n == 0) {
        return error;
    }
    /* Each item may need a truncation before it, and a new segment. */
    begin_batch(store, 2 * n + 1);
    for (size_t i = 0; i < n && error == 0; i++) {
        error = put_item(store, items[i], i + 1 == n);
    }
    if (error == 0) {
        error = end_batch(store, false);
    }
    return fail(store, error);
}

int log_store_write_reset(struct log_store *store, uint64_t index, uint64_t term) {
    int error = write_record(store, RECORD_RESET, index, term);
    if (error == 0) {
        log_index_reset(&store->index, index, term);
    }
    return fail(store, error);
}

int log_store_reset(struct log_store *store, uint64_t snapshot_index, uint64_t snapshot_term) {
    int error = log_store_error(store);
    if (error != 0) {
        return error;
    }
    error = log_store_write_reset(store, snapshot_index, snapshot_term);
    if (error == 0) {
        drop_segments(store, snapshot_index);
    }
    return error;
}

int log_store_trim(struct log_store *store, uint64_t upto) {
    int error = log_store_error(store);
    if (error != 0) {
        return error;
    }
    assert(upto <= log_index_last(&store->index));
    drop_segments(store, upto);
    return 0;
}

int log_store_seal(struct log_store *store) {
    int error = log_store_error(store);
    if (error == 0 && !store->is_sealed) {
        error = write_record(store, RECORD_SEAL, 0, 0);
    }
    return fail(store, error);
}

int log_store_prepare(struct log_store *store, bool *out_is_over) {
    *out_is_over = true;
    int error = log_store_error(store);
    if (error != 0 || __atomic_load_n(&store->is_spare_awaited, __ATOMIC_RELAXED)) {
        return error;
    }
    log_spare_lock(store);
    if (store->n_garbage > 0) {
        error = log_garbage_free(store);
    }
    if (error == 0) {
        error = log_spare_step(store, store->segment_size);
    }
    log_spare_unlock(store);
    *out_is_over = error != 0 || log_store_is_prepared(store);
    return fail(store, error);
}

bool log_store_is_prepared(const struct log_store *store) {
    return __atomic_load_n(&store->is_prepared, __ATOMIC_RELAXED);
}

/* --- the rest --- */

void log_store_close(struct log_store *store) {
    if (store == NULL) {
        return;
    }
    log_spare_clear(store);
    if (store->file >= 0) {
        store->files.calls->close(store->files.data, store->file);
    }
    if (store->read_file >= 0) {
        store->files.calls->close(store->files.data, store->read_file);
    }
    log_index_clear(&store->index);
    free(store->group.heads);
    free(store->group.parts);
    free(store->garbage);
    free(store->chain);
    pthread_mutex_destroy(&store->spare_mutex);
    free(store);
}

uint64_t log_store_first_index(const struct log_store *store) {
    return store->index.base + 1;
}

uint64_t log_store_last_index(const struct log_store *store) {
    return log_index_last(&store->index);
}

uint64_t log_store_entry_term(const struct log_store *store, uint64_t index) {
    return log_index_at(&store->index, index)->term;
}

void log_store_timing(const struct log_store *store, struct latency *out_writes,
                      struct latency *out_syncs, uint64_t *out_bytes) {
    latency_copy(&store->writes, out_writes);
    latency_copy(&store->syncs, out_syncs);
    *out_bytes = __atomic_load_n(&store->written_bytes, __ATOMIC_RELAXED);
}

uint64_t log_store_disk_bytes(const struct log_store *store) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < store->n_chain; i++) {
        bytes += store->chain[i].size;
    }
    return bytes + __atomic_load_n(&store->spare_bytes, __ATOMIC_RELAXED);
}
