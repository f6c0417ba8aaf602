/* The data directories under tests/fixtures/legacy-*, made by release 0.1.0, on a simulated disk.
 */
#ifndef LEASED_TESTS_STORAGE_LEGACY_FIXTURE_H
#define LEASED_TESTS_STORAGE_LEGACY_FIXTURE_H

#include "base/buffer.h"
#include "base/crc32.h"
#include "disk_sim.h"
#include "raft/convert.h"
#include "raft/log_store.h"
#include "raft/snapshot_store.h"
#include "raft/vote_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEGACY_FIXTURE_SEGMENT_SIZE = 64 * 1024 };

static const char *const legacy_fixture_names[] = {"legacy-log", "legacy-snapshot",
                                                   "legacy-member"};
enum { LEGACY_FIXTURE_COUNT = 3 };

struct legacy_fixture_facts {
    unsigned long long term;
    unsigned long long last_index;
    unsigned long long keys;
};

static inline void legacy_fixture_put(struct disk_sim *disk, const char *folder, const char *file,
                                      size_t size) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    uint8_t *bytes = calloc(1, size + 1);
    assert(bytes != NULL);
    FILE *stored = fopen(path, "rb");
    if (stored != NULL) { /* else it is all zeros */
        size_t n = fread(bytes, 1, size + 1, stored);
        assert(n <= size);
        (void)n;
        fclose(stored);
    }
    disk_sim_put(disk, file + strlen("raft/"), bytes_of(bytes, size));
    free(bytes);
}

/* `open_size_max`: the zeros at the end of open segments make tests slow. */
static inline struct disk_sim *legacy_fixture_load(const char *name, uint64_t seed,
                                                   size_t open_size_max,
                                                   struct legacy_fixture_facts *out_facts) {
    struct disk_sim *disk = disk_sim_create(seed);
    const char *root = getenv("LEASED_SOURCE_ROOT");
    char folder[300];
    char path[400];
    char line[256];
    snprintf(folder, sizeof(folder), "%s/tests/fixtures/%s", root == NULL ? "." : root, name);
    snprintf(path, sizeof(path), "%s/contents", folder);
    FILE *contents = fopen(path, "r");
    assert(contents != NULL);
    *out_facts = (struct legacy_fixture_facts){0};
    while (fgets(line, sizeof(line), contents) != NULL) {
        char word[128];
        unsigned long long number = 0;
        if (sscanf(line, "file raft/%100s %llu", word, &number) == 2) {
            char file[160];
            bool is_open = strncmp(word, "open-", 5) == 0;
            snprintf(file, sizeof(file), "raft/%s", word);
            size_t size = (size_t)number;
            legacy_fixture_put(disk, folder, file,
                               is_open && size > open_size_max ? open_size_max : size);
        } else if (sscanf(line, "fact term %llu", &number) == 1) {
            out_facts->term = number;
        } else if (sscanf(line, "fact last_index %llu", &number) == 1) {
            out_facts->last_index = number;
        } else if (sscanf(line, "fact keys %llu", &number) == 1) {
            out_facts->keys = number;
        }
    }
    fclose(contents);
    return disk;
}

/* As snapshot_check() in core: magic word and checksum. */
static inline enum status legacy_fixture_check(struct bytes payload) {
    if (payload.size < 16 || memcmp(payload.data, "leasedsn", 8) != 0) {
        return STATUS_CORRUPT;
    }
    struct reader reader;
    reader_init(&reader, bytes_of(payload.data + payload.size - 4, 4));
    return reader_get_u32(&reader) == crc32c(0, payload.data, payload.size - 4) ? STATUS_OK
                                                                                : STATUS_CORRUPT;
}

static inline enum status legacy_fixture_convert(struct disk_sim *disk, bool *out_is_converted,
                                                 char *out_error, size_t error_size) {
    struct raft_files files = disk_sim_files(disk);
    struct raft_convert_options options = {.check_snapshot = legacy_fixture_check,
                                           .log_segment_size = LEGACY_FIXTURE_SEGMENT_SIZE};
    out_error[0] = '\0';
    return raft_convert(&files, &options, out_is_converted, out_error, error_size);
}

/* What the stores of this release find, all of it. */
struct legacy_fixture_state {
    enum status status;
    char error[512];
    uint64_t term;
    uint64_t vote;
    uint64_t snapshot_index;
    uint64_t snapshot_term;
    uint64_t first_index;
    uint64_t last_index;
    uint64_t n_of_type[4]; /* entries */
    struct buffer bytes;   /* payload, then entries: term, type, size, bytes */
};

static inline void legacy_fixture_clear(struct legacy_fixture_state *state) {
    buffer_clear(&state->bytes);
}

static inline void legacy_fixture_read_payload(const struct raft_files *files,
                                               struct legacy_fixture_state *state) {
    struct snapshot_meta *meta = calloc(1, sizeof(*meta));
    struct snapshot_reader *reader = NULL;
    state->status = snapshot_store_find(files, meta, state->error, sizeof(state->error));
    state->snapshot_index = meta->index;
    state->snapshot_term = meta->term;
    if (state->status == STATUS_OK && meta->index > 0) {
        if (snapshot_reader_open(files, meta->index, meta->term, &reader) != 0) {
            state->status = STATUS_IO;
        }
        size_t n = 1;
        for (uint64_t offset = 0; state->status == STATUS_OK && offset < meta->size; offset += n) {
            uint8_t *room = buffer_reserve(&state->bytes, SNAPSHOT_CHUNK_SIZE);
            if (snapshot_reader_chunk(reader, offset, room, &n) != 0 || n == 0) {
                state->status = STATUS_CORRUPT;
                break;
            }
            state->bytes.size += n;
        }
        snapshot_reader_close(reader);
        buffer_append(&state->bytes, meta->configuration, meta->configuration_size);
        buffer_put_u64(&state->bytes, meta->configuration_index);
    }
    free(meta);
}

static inline void legacy_fixture_read_log(const struct raft_files *files,
                                           struct legacy_fixture_state *state) {
    struct log_store_options options = {.segment_size = LEGACY_FIXTURE_SEGMENT_SIZE,
                                        .snapshot_index = state->snapshot_index,
                                        .snapshot_term = state->snapshot_term,
                                        .term = state->term};
    struct log_store *log = NULL;
    state->status = log_store_open(files, &options, &log, state->error, sizeof(state->error));
    if (state->status != STATUS_OK) {
        return;
    }
    state->first_index = log_store_first_index(log);
    state->last_index = log_store_last_index(log);
    for (uint64_t next = state->first_index; next <= state->last_index;) {
        struct log_item *items[64];
        size_t n = 0;
        if (log_store_read(log, next, state->last_index, 1 << 20, items, 64, &n) != 0 || n == 0) {
            state->status = STATUS_CORRUPT;
            break;
        }
        for (size_t i = 0; i < n; i++) {
            assert(items[i]->index == next + i);
            state->n_of_type[items[i]->type & 3]++;
            buffer_put_u64(&state->bytes, items[i]->term);
            buffer_put_u8(&state->bytes, (uint8_t)items[i]->type);
            buffer_put_bytes(&state->bytes, bytes_of(items[i]->bytes, items[i]->size));
            log_item_release(items[i]);
        }
        next += n;
    }
    log_store_close(log);
}

static inline void legacy_fixture_read(struct disk_sim *disk, struct legacy_fixture_state *state) {
    struct raft_files files = disk_sim_files(disk);
    struct vote_store *votes = NULL;
    *state = (struct legacy_fixture_state){0};
    buffer_init(&state->bytes);
    state->status = vote_store_open(&files, true, &votes, state->error, sizeof(state->error));
    if (state->status != STATUS_OK) {
        return;
    }
    state->term = vote_store_term(votes);
    state->vote = vote_store_vote(votes);
    vote_store_close(votes);
    legacy_fixture_read_payload(&files, state);
    if (state->status == STATUS_OK) {
        legacy_fixture_read_log(&files, state);
    }
}

static inline bool legacy_fixture_is_equal(const struct legacy_fixture_state *a,
                                           const struct legacy_fixture_state *b) {
    return a->status == STATUS_OK && b->status == STATUS_OK && a->term == b->term &&
           a->vote == b->vote && a->snapshot_index == b->snapshot_index &&
           a->snapshot_term == b->snapshot_term && a->first_index == b->first_index &&
           a->last_index == b->last_index &&
           bytes_equal(bytes_of(a->bytes.data, a->bytes.size),
                       bytes_of(b->bytes.data, b->bytes.size));
}

#endif
