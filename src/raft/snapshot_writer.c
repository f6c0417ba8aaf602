/* The writer of snapshot_store.h. */
#include "base/buffer.h"
#include "base/crc32.h"
#include "raft/snapshot_format.h"
#include "raft/snapshot_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Written back in between: a sync of the log waits behind what the disk was given before it, and
 * that must never be much. A snapshot takes longer for it, and nobody waits for one. */
enum { WRITE_BACK_SIZE = 256 * 1024 };

struct snapshot_writer {
    struct raft_files files;
    int file;
    bool is_open;
    int error; /* the first one: nothing is written after it */
    char name[SNAPSHOT_NAME_SIZE];
    struct snapshot_meta meta; /* its size grows with what is appended */
    uint64_t written_back;     /* bytes of the payload */
    struct buffer chunk;       /* the newest bytes, less than a chunk */
    uint32_t *sums;
    size_t n_sums;
    size_t sums_capacity;
};

static int write_at(struct snapshot_writer *writer, uint64_t offset, struct bytes bytes) {
    struct iovec part = {.iov_base = (void *)bytes.data, .iov_len = bytes.size};
    return writer->files.calls->write(writer->files.data, writer->file, offset, &part, 1);
}

static void close_file(struct snapshot_writer *writer, int *error) {
    if (!writer->is_open) {
        return;
    }
    writer->is_open = false;
    int close_error = writer->files.calls->close(writer->files.data, writer->file);
    if (*error == 0) {
        *error = close_error;
    }
}

static void free_writer(struct snapshot_writer *writer) {
    buffer_clear(&writer->chunk);
    free(writer->sums);
    free(writer);
}

int snapshot_writer_open(const struct raft_files *files, const struct snapshot_meta *meta,
                         const char *name_hint, struct snapshot_writer **out_writer) {
    assert(meta->index > 0);
    assert(meta->configuration_size <= SNAPSHOT_CONFIGURATION_SIZE_MAX);
    struct snapshot_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        abort();
    }
    writer->files = *files;
    writer->meta = *meta;
    writer->meta.size = 0;
    buffer_init(&writer->chunk);
    snapshot_format_temporary_name(writer->name, name_hint);
    /* One of a writer that is gone. */
    int error = files->calls->unlink(files->data, writer->name);
    if (error == 0 || error == ENOENT) {
        error = files->calls->open(files->data, writer->name, RAFT_FILES_CREATE, &writer->file);
    }
    if (error != 0) {
        free_writer(writer);
        return error;
    }
    writer->is_open = true;
    snapshot_format_header(&writer->chunk, meta->index, meta->term);
    error = write_at(writer, 0, bytes_of(writer->chunk.data, writer->chunk.size));
    writer->chunk.size = 0;
    if (error != 0) {
        snapshot_writer_abort(writer);
        return error;
    }
    *out_writer = writer;
    return 0;
}

static void add_sum(struct snapshot_writer *writer, uint32_t sum) {
    if (writer->n_sums == writer->sums_capacity) {
        writer->sums_capacity = writer->sums_capacity == 0 ? 64 : 2 * writer->sums_capacity;
        writer->sums = realloc(writer->sums, writer->sums_capacity * sizeof(*writer->sums));
        if (writer->sums == NULL) {
            abort();
        }
    }
    writer->sums[writer->n_sums++] = sum;
}

/* The next chunk; only the last one is shorter than the others. */
static int write_chunk(struct snapshot_writer *writer, struct bytes bytes) {
    uint64_t offset = (uint64_t)writer->n_sums * SNAPSHOT_CHUNK_SIZE;
    int error = write_at(writer, SNAPSHOT_HEADER_SIZE + offset, bytes);
    if (error != 0) {
        return error;
    }
    add_sum(writer, crc32c(0, bytes.data, bytes.size));
    uint64_t from = writer->written_back;
    uint64_t size = offset + bytes.size - from;
    if (size < WRITE_BACK_SIZE) {
        return 0;
    }
    writer->written_back += size;
    return writer->files.calls->write_back(writer->files.data, writer->file,
                                           SNAPSHOT_HEADER_SIZE + from, size);
}

static int append(struct snapshot_writer *writer, struct bytes bytes) {
    while (bytes.size > 0) {
        size_t room = SNAPSHOT_CHUNK_SIZE - writer->chunk.size;
        size_t n = bytes.size < room ? bytes.size : room;
        int error = 0;
        if (n == SNAPSHOT_CHUNK_SIZE) {
            error = write_chunk(writer, bytes_of(bytes.data, n));
        } else {
            buffer_append(&writer->chunk, bytes.data, n);
            if (writer->chunk.size == SNAPSHOT_CHUNK_SIZE) {
                error = write_chunk(writer, bytes_of(writer->chunk.data, writer->chunk.size));
                writer->chunk.size = 0;
            }
        }
        if (error != 0) {
            return error;
        }
        bytes = bytes_of(bytes.data + n, bytes.size - n);
        writer->meta.size += n;
    }
    return 0;
}

int snapshot_writer_append(struct snapshot_writer *writer, struct bytes bytes) {
    if (writer->error == 0) {
        writer->error = append(writer, bytes);
    }
    return writer->error;
}

int snapshot_writer_read_back(struct snapshot_writer *writer, struct buffer *out_payload) {
    uint64_t written = (uint64_t)writer->n_sums * SNAPSHOT_CHUNK_SIZE;
    for (uint64_t offset = 0; offset < written; offset += SNAPSHOT_CHUNK_SIZE) {
        size_t n = 0;
        int error = writer->files.calls->read(
            writer->files.data, writer->file, SNAPSHOT_HEADER_SIZE + offset,
            buffer_reserve(out_payload, SNAPSHOT_CHUNK_SIZE), SNAPSHOT_CHUNK_SIZE, &n);
        if (error != 0 || n != SNAPSHOT_CHUNK_SIZE) {
            return error != 0 ? error : EIO;
        }
        out_payload->size += n;
    }
    buffer_append(out_payload, writer->chunk.data, writer->chunk.size);
    return 0;
}

uint64_t snapshot_writer_size(const struct snapshot_writer *writer) {
    return writer->meta.size;
}

static int write_end(struct snapshot_writer *writer) {
    if (writer->chunk.size > 0) {
        int error = write_chunk(writer, bytes_of(writer->chunk.data, writer->chunk.size));
        if (error != 0) {
            return error;
        }
    }
    writer->chunk.size = 0;
    snapshot_format_trailer(&writer->chunk, &writer->meta, writer->sums, writer->n_sums);
    int error = write_at(writer, SNAPSHOT_HEADER_SIZE + writer->meta.size,
                         bytes_of(writer->chunk.data, writer->chunk.size));
    return error != 0 ? error : writer->files.calls->sync(writer->files.data, writer->file);
}

int snapshot_writer_commit(struct snapshot_writer *writer) {
    const struct raft_files_calls *calls = writer->files.calls;
    int error = writer->error != 0 ? writer->error : write_end(writer);
    close_file(writer, &error);
    if (error == 0) {
        char name[SNAPSHOT_NAME_SIZE];
        snapshot_format_name(name, writer->meta.index, writer->meta.term);
        error = calls->rename(writer->files.data, writer->name, name);
    }
    if (error != 0) {
        snapshot_writer_abort(writer);
        return error;
    }
    error = calls->sync_directory(writer->files.data);
    if (error == 0) {
        /* What cannot be removed now takes room, and is tried again with the next snapshot. */
        (void)snapshot_store_prune(&writer->files);
    }
    free_writer(writer);
    return error;
}

void snapshot_writer_abort(struct snapshot_writer *writer) {
    int ignored = 0;
    close_file(writer, &ignored);
    /* What is left is removed by snapshot_store_clean(), or by the next writer of that name. */
    (void)writer->files.calls->unlink(writer->files.data, writer->name);
    free_writer(writer);
}
