#include "raft/snapshot_store.h"

#include "raft/snapshot_format.h"
#include "raft/snapshot_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_COUNT = 2 };

/* --- the names in the directory --- */

struct listing {
    struct listed {
        uint64_t index; /* 0: a temporary file */
        uint64_t term;
        char name[SNAPSHOT_NAME_SIZE];
    } * items;
    size_t n;
    size_t capacity;
};

static void add_found(void *data, const char *name) {
    struct listing *listing = data;
    uint64_t index = 0;
    uint64_t term = 0;
    if (strlen(name) >= SNAPSHOT_NAME_SIZE ||
        (!snapshot_format_parse_name(name, &index, &term) && !snapshot_format_is_temporary(name))) {
        return;
    }
    if (listing->n == listing->capacity) {
        listing->capacity = listing->capacity == 0 ? 8 : 2 * listing->capacity;
        listing->items = realloc(listing->items, listing->capacity * sizeof(*listing->items));
        if (listing->items == NULL) {
            abort();
        }
    }
    struct listed *item = &listing->items[listing->n++];
    item->index = index;
    item->term = term;
    memcpy(item->name, name, strlen(name) + 1);
}

/* Newest first, temporary files last. */
static int compare(const void *a, const void *b) {
    const struct listed *x = a;
    const struct listed *y = b;
    if (x->index != y->index) {
        return x->index < y->index ? 1 : -1;
    }
    return (x->term < y->term) - (x->term > y->term);
}

/* `items` is the caller's to free, also after an error. */
static int list_files(const struct raft_files *files, struct listing *out_listing) {
    *out_listing = (struct listing){0};
    int error = files->calls->list(files->data, add_found, out_listing);
    if (error == 0 && out_listing->n > 0) {
        qsort(out_listing->items, out_listing->n, sizeof(*out_listing->items), compare);
    }
    return error;
}

/* --- finding --- */

static int check_payload(struct snapshot_reader *reader, char *out_why) {
    uint64_t size = snapshot_reader_meta(reader)->size;
    uint8_t *chunk = malloc(SNAPSHOT_CHUNK_SIZE);
    if (chunk == NULL) {
        abort();
    }
    int error = 0;
    size_t n = 0;
    for (uint64_t offset = 0; error == 0 && offset < size; offset += SNAPSHOT_CHUNK_SIZE) {
        error = snapshot_reader_chunk(reader, offset, chunk, &n);
        if (error == EBADMSG) {
            snprintf(out_why, SNAPSHOT_READER_WHY_SIZE,
                     "the %d bytes from byte %llu on do not match their checksum",
                     SNAPSHOT_CHUNK_SIZE, (unsigned long long)(SNAPSHOT_HEADER_SIZE + offset));
        }
    }
    free(chunk);
    return error;
}

static enum status explain(int error, const char *name, const char *why, char *out_error,
                           size_t error_size) {
    if (error == EBADMSG) {
        snprintf(out_error, error_size,
                 "the snapshot %s is damaged: %s. Nothing was changed. In a cluster, move the data "
                 "directory of this node away and add the node again; else restore the data "
                 "directory from a backup.",
                 name, why);
        return STATUS_CORRUPT;
    }
    if (error == ENOTSUP) {
        snprintf(out_error, error_size,
                 "the snapshot %s cannot be read: %s, which a newer release wrote. Nothing was "
                 "changed. Start the newer release.",
                 name, why);
        return STATUS_UNSUPPORTED;
    }
    snprintf(out_error, error_size,
             "reading the snapshot %s failed: %s. Nothing was changed. Check the disk and start "
             "again.",
             name, strerror(error));
    return STATUS_IO;
}

static enum status check_newest(const struct raft_files *files, const struct listed *newest,
                                struct snapshot_meta *out_meta, char *out_error,
                                size_t error_size) {
    char why[SNAPSHOT_READER_WHY_SIZE];
    struct snapshot_reader *reader = NULL;
    int error = snapshot_reader_open_explained(files, newest->index, newest->term, &reader, why);
    if (error == 0) {
        error = check_payload(reader, why);
    }
    if (error == 0) {
        *out_meta = *snapshot_reader_meta(reader);
    }
    snapshot_reader_close(reader);
    return error == 0 ? STATUS_OK : explain(error, newest->name, why, out_error, error_size);
}

enum status snapshot_store_find(const struct raft_files *files, struct snapshot_meta *out_meta,
                                char *out_error, size_t error_size) {
    struct listing listing;
    enum status status = STATUS_OK;
    int error = list_files(files, &listing);
    if (error != 0) {
        snprintf(out_error, error_size, "listing the data directory failed: %s", strerror(error));
        status = STATUS_IO;
    } else if (listing.n == 0 || listing.items[0].index == 0) {
        memset(out_meta, 0, sizeof(*out_meta));
    } else {
        status = check_newest(files, &listing.items[0], out_meta, out_error, error_size);
    }
    free(listing.items);
    return status;
}

/* --- removing --- */

static int remove_files(const struct raft_files *files, bool with_temporary) {
    struct listing listing;
    int error = list_files(files, &listing);
    bool is_changed = false;
    for (size_t i = 0; error == 0 && i < listing.n; i++) {
        bool is_temporary = listing.items[i].index == 0;
        if (is_temporary ? !with_temporary : i < KEPT_COUNT) {
            continue;
        }
        error = files->calls->unlink(files->data, listing.items[i].name);
        if (error == ENOENT) { /* somebody else pruned it */
            error = 0;
        }
        is_changed = true;
    }
    free(listing.items);
    return error == 0 && is_changed ? files->calls->sync_directory(files->data) : error;
}

int snapshot_store_prune(const struct raft_files *files) {
    return remove_files(files, false);
}

int snapshot_store_clean(const struct raft_files *files) {
    return remove_files(files, true);
}

static uint64_t file_size(const struct raft_files *files, const char *name) {
    int file = -1;
    uint64_t size = 0;
    if (files->calls->open(files->data, name, RAFT_FILES_READ, &file) != 0) {
        return 0; /* gone since it was listed */
    }
    (void)files->calls->size(files->data, file, &size);
    (void)files->calls->close(files->data, file);
    return size;
}

uint64_t snapshot_store_disk_bytes(const struct raft_files *files) {
    struct listing listing;
    uint64_t sum = 0;
    (void)list_files(files, &listing);
    for (size_t i = 0; i < listing.n; i++) {
        sum += file_size(files, listing.items[i].name);
    }
    free(listing.items);
    return sum;
}
