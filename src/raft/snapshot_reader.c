#include "raft/snapshot_reader.h"

#include "base/buffer.h"
#include "base/crc32.h"
#include "raft/snapshot_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct snapshot_reader {
    struct raft_files files;
    int file;
    struct snapshot_meta meta;
    struct buffer trailer;
    const uint8_t *sums; /* in the trailer */
};

/* EBADMSG when the file ends before. */
static int read_at(struct snapshot_reader *reader, uint64_t offset, void *bytes, size_t size) {
    size_t n = 0;
    int error =
        reader->files.calls->read(reader->files.data, reader->file, offset, bytes, size, &n);
    if (error == 0 && n < size) {
        error = EBADMSG;
    }
    return error;
}

static int refuse(char *out_why, const char *why) {
    snprintf(out_why, SNAPSHOT_READER_WHY_SIZE, "%s", why);
    return EBADMSG;
}

static int read_header(struct snapshot_reader *reader, uint64_t index, uint64_t term,
                       char *out_why) {
    uint8_t header[SNAPSHOT_HEADER_SIZE];
    uint32_t version = 0;
    int error = read_at(reader, 0, header, sizeof(header));
    if (error != 0) {
        return error;
    }
    const char *why =
        snapshot_format_check_header(bytes_of(header, sizeof(header)), index, term, &version);
    if (why != NULL) {
        return refuse(out_why, why);
    }
    if (version != SNAPSHOT_FORMAT_VERSION) {
        snprintf(out_why, SNAPSHOT_READER_WHY_SIZE, "it has version %u of the format", version);
        return ENOTSUP;
    }
    return 0;
}

static int read_trailer(struct snapshot_reader *reader, uint64_t index, uint64_t term,
                        uint64_t file_size, char *out_why) {
    uint8_t footer[SNAPSHOT_FOOTER_SIZE];
    uint64_t footer_offset = file_size - SNAPSHOT_FOOTER_SIZE;
    uint64_t trailer_offset = 0;
    uint32_t trailer_sum = 0;
    int error = read_at(reader, footer_offset, footer, sizeof(footer));
    if (error != 0) {
        return error;
    }
    const char *why = snapshot_format_check_footer(bytes_of(footer, sizeof(footer)), footer_offset,
                                                   &trailer_offset, &trailer_sum);
    if (why != NULL) {
        return refuse(out_why, why);
    }
    size_t size = (size_t)(footer_offset - trailer_offset);
    error = read_at(reader, trailer_offset, buffer_reserve(&reader->trailer, size), size);
    if (error != 0) {
        return error;
    }
    reader->trailer.size = size;
    why = snapshot_format_check_trailer(bytes_of(reader->trailer.data, size), trailer_offset,
                                        trailer_sum, index, term, &reader->meta, &reader->sums);
    return why == NULL ? 0 : refuse(out_why, why);
}

static int read_all_but_payload(struct snapshot_reader *reader, uint64_t index, uint64_t term,
                                char *out_why) {
    uint64_t size = 0;
    int error = reader->files.calls->size(reader->files.data, reader->file, &size);
    if (error != 0) {
        return error;
    }
    if (size < SNAPSHOT_HEADER_SIZE + SNAPSHOT_TRAILER_FIXED_SIZE + SNAPSHOT_FOOTER_SIZE) {
        return refuse(out_why, "its end is missing");
    }
    error = read_header(reader, index, term, out_why);
    return error != 0 ? error : read_trailer(reader, index, term, size, out_why);
}

int snapshot_reader_open_explained(const struct raft_files *files, uint64_t index, uint64_t term,
                                   struct snapshot_reader **out_reader, char *out_why) {
    struct snapshot_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        abort();
    }
    reader->files = *files;
    buffer_init(&reader->trailer);
    refuse(out_why, "its end is missing");
    char name[SNAPSHOT_NAME_SIZE];
    snapshot_format_name(name, index, term);
    int error = files->calls->open(files->data, name, RAFT_FILES_READ, &reader->file);
    if (error != 0) {
        free(reader);
        return error;
    }
    error = read_all_but_payload(reader, index, term, out_why);
    if (error != 0) {
        snapshot_reader_close(reader);
        return error;
    }
    *out_reader = reader;
    return 0;
}

int snapshot_reader_open(const struct raft_files *files, uint64_t index, uint64_t term,
                         struct snapshot_reader **out_reader) {
    char why[SNAPSHOT_READER_WHY_SIZE];
    return snapshot_reader_open_explained(files, index, term, out_reader, why);
}

const struct snapshot_meta *snapshot_reader_meta(const struct snapshot_reader *reader) {
    return &reader->meta;
}

int snapshot_reader_chunk(struct snapshot_reader *reader, uint64_t offset, void *bytes,
                          size_t *out_size) {
    if (offset % SNAPSHOT_CHUNK_SIZE != 0) {
        return EINVAL;
    }
    uint64_t left = offset < reader->meta.size ? reader->meta.size - offset : 0;
    size_t size = left < SNAPSHOT_CHUNK_SIZE ? (size_t)left : SNAPSHOT_CHUNK_SIZE;
    if (size == 0) {
        *out_size = 0;
        return 0;
    }
    int error = read_at(reader, SNAPSHOT_HEADER_SIZE + offset, bytes, size);
    if (error != 0) {
        return error;
    }
    struct reader sum;
    reader_init(&sum, bytes_of(reader->sums + offset / SNAPSHOT_CHUNK_SIZE * 4, 4));
    if (reader_get_u32(&sum) != crc32c(0, bytes, size)) {
        return EBADMSG;
    }
    *out_size = size;
    return 0;
}

void snapshot_reader_close(struct snapshot_reader *reader) {
    if (reader == NULL) {
        return;
    }
    /* Nothing was written: a failed close loses nothing. */
    (void)reader->files.calls->close(reader->files.data, reader->file);
    buffer_clear(&reader->trailer);
    free(reader);
}
