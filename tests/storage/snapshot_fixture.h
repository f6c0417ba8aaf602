/* Snapshots with contents that follow from their index, on a simulated disk. */
#ifndef LEASED_TESTS_STORAGE_SNAPSHOT_FIXTURE_H
#define LEASED_TESTS_STORAGE_SNAPSHOT_FIXTURE_H

#include "disk_sim.h"
#include "raft/snapshot_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static inline uint8_t snapshot_fixture_byte(uint64_t index, uint64_t offset) {
    return (uint8_t)(index * 31 + offset * 7 + (offset >> 8) * 13 + (offset >> 16));
}

/* On the heap: it is large. */
static inline struct snapshot_meta *snapshot_fixture_meta(uint64_t index) {
    struct snapshot_meta *meta = calloc(1, sizeof(*meta));
    if (meta == NULL) {
        abort();
    }
    meta->index = index;
    meta->term = index / 10;
    meta->configuration_index = index - 1;
    meta->configuration_size = 40 + index % 7;
    for (size_t i = 0; i < meta->configuration_size; i++) {
        meta->configuration[i] = (uint8_t)(index + i);
    }
    return meta;
}

static inline int snapshot_fixture_open(const struct raft_files *files, uint64_t index,
                                        const char *hint, struct snapshot_writer **out_writer) {
    struct snapshot_meta *meta = snapshot_fixture_meta(index);
    int error = snapshot_writer_open(files, meta, hint, out_writer);
    free(meta);
    return error;
}

/* The next `size` bytes of it, `step` at once. */
static inline int snapshot_fixture_append(struct snapshot_writer *writer, uint64_t index,
                                          size_t size, size_t step) {
    uint8_t *bytes = malloc(step);
    if (bytes == NULL) {
        abort();
    }
    int error = 0;
    while (error == 0 && size > 0) {
        size_t n = size < step ? size : step;
        for (size_t i = 0; i < n; i++) {
            bytes[i] = snapshot_fixture_byte(index, snapshot_writer_size(writer) + i);
        }
        error = snapshot_writer_append(writer, bytes_of(bytes, n));
        size -= n;
    }
    free(bytes);
    return error;
}

static inline int snapshot_fixture_write(const struct raft_files *files, uint64_t index,
                                         size_t size, size_t step, const char *hint) {
    struct snapshot_writer *writer = NULL;
    int error = snapshot_fixture_open(files, index, hint, &writer);
    if (error != 0) {
        return error;
    }
    error = snapshot_fixture_append(writer, index, size, step);
    if (error != 0) {
        snapshot_writer_abort(writer);
        return error;
    }
    return snapshot_writer_commit(writer);
}

/* Whether metadata and payload are those of the fixture, read through a reader. */
static inline bool snapshot_fixture_is_whole(const struct raft_files *files,
                                             const struct snapshot_meta *meta) {
    struct snapshot_meta *expected = snapshot_fixture_meta(meta->index);
    bool is_whole =
        meta->term == expected->term &&
        meta->configuration_index == expected->configuration_index &&
        meta->configuration_size == expected->configuration_size &&
        memcmp(meta->configuration, expected->configuration, expected->configuration_size) == 0;
    free(expected);
    struct snapshot_reader *reader = NULL;
    if (snapshot_reader_open(files, meta->index, meta->term, &reader) != 0) {
        return false;
    }
    uint8_t *chunk = malloc(SNAPSHOT_CHUNK_SIZE);
    if (chunk == NULL) {
        abort();
    }
    size_t n = 1;
    for (uint64_t offset = 0; is_whole && offset < meta->size; offset += n) {
        is_whole = snapshot_reader_chunk(reader, offset, chunk, &n) == 0 && n > 0;
        for (size_t i = 0; is_whole && i < n; i++) {
            is_whole = chunk[i] == snapshot_fixture_byte(meta->index, offset + i);
        }
    }
    free(chunk);
    snapshot_reader_close(reader);
    return is_whole;
}

#endif
