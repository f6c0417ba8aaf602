#include "replication/segment_check.h"

#include "base/crc32_msb.h"
#include "replication/log_entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <raft.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A segment of raft_uv: a word with its format, then batches. A batch: two checksums of four bytes
 * each, the number of entries, for each entry its term, type and size, then the entries. */
enum { FORMAT_SIZE = 8, CHECKSUMS_SIZE = 8, COUNT_SIZE = 8, ENTRY_HEADER_SIZE = 16 };

/* What the readable part of a segment told. */
struct last_entry {
    bool known;
    struct log_entry_header header;
    uint64_t n_entries;   /* read so far, libraft's own included */
    uint64_t first_index; /* of the segment's first entry; 0: not known */
};

static bool entry_is_good(struct bytes entry, uint8_t type, struct last_entry *last) {
    struct reader ignored;
    last->n_entries++;
    /* Barriers and configurations are libraft's own. */
    if (type != RAFT_COMMAND) {
        return true;
    }
    struct log_entry_header header;
    if (log_entry_decode(entry, &header, &ignored) == STATUS_CORRUPT) {
        return false;
    }
    if (!last->known) {
        last->first_index = header.index - (last->n_entries - 1);
    }
    last->known = true;
    last->header = header;
    return true;
}

/* raft_uv cuts the log where its own sums do not fit, so they are looked at first. */
static uint32_t raft_checksum(const uint8_t *data, size_t size) {
    return crc32_msb(0, data, size);
}

/* Walks one batch; false at its first fault. */
static bool walk_batch(struct reader *reader, struct last_entry *last) {
    uint32_t headers_checksum = reader_get_u32(reader);
    uint32_t data_checksum = reader_get_u32(reader);
    size_t start = reader->position;
    uint64_t n = reader_get_u64(reader);
    if (reader->failed || n == 0 || n > reader_left(reader) / ENTRY_HEADER_SIZE) {
        return false;
    }
    size_t headers = reader->position;
    reader->position += (size_t)n * ENTRY_HEADER_SIZE;
    size_t data = reader->position;
    if (raft_checksum(reader->data + start, data - start) != headers_checksum) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        struct reader header;
        reader_init(&header,
                    bytes_of(reader->data + headers + i * ENTRY_HEADER_SIZE, ENTRY_HEADER_SIZE));
        (void)reader_get_u64(&header);
        uint32_t type = reader_get_u32(&header);
        uint32_t size = reader_get_u32(&header);
        if (size > reader_left(reader) ||
            !entry_is_good(bytes_of(reader->data + reader->position, size), (uint8_t)type, last)) {
            return false;
        }
        reader->position += size;
    }
    return raft_checksum(reader->data + data, reader->position - data) == data_checksum;
}

enum status segment_check_bytes(struct bytes segment, size_t *out_damage,
                                uint64_t *out_first_index) {
    struct reader reader;
    struct last_entry last = {0};
    reader_init(&reader, segment);
    (void)reader_get_u64(&reader);
    size_t damage = reader.position;
    while (reader_left(&reader) > CHECKSUMS_SIZE + COUNT_SIZE && walk_batch(&reader, &last)) {
        damage = reader.position;
    }
    *out_first_index = last.first_index;
    /* Whatever can still be read behind that place. */
    uint64_t first_missing = 0;
    for (size_t at = damage; at + LOG_ENTRY_ALIGNMENT < segment.size; at += LOG_ENTRY_ALIGNMENT) {
        struct log_entry_header header;
        struct reader ignored;
        if (segment.data[at] != (uint8_t)LOG_ENTRY_MAGIC ||
            log_entry_decode(bytes_of(segment.data + at, segment.size - at), &header, &ignored) !=
                STATUS_OK) {
            continue;
        }
        if (first_missing == 0) {
            bool same_process = last.known && last.header.incarnation == header.incarnation;
            first_missing = same_process ? last.header.sequence + 1 : header.sequence - 1;
        }
        if (first_missing > 0 && header.acknowledged >= first_missing) {
            *out_damage = damage;
            return STATUS_CORRUPT;
        }
    }
    return STATUS_OK;
}

static enum status check_file(int directory, const char *name, size_t *out_damage,
                              uint64_t *out_first_index) {
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return STATUS_IO;
    }
    enum status status = STATUS_OK;
    struct stat info;
    if (fstat(fd, &info) != 0) {
        status = STATUS_IO;
        goto close_file;
    }
    if (info.st_size <= FORMAT_SIZE) {
        goto close_file;
    }
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        status = STATUS_IO;
        goto close_file;
    }
    status =
        segment_check_bytes(bytes_of(bytes, (size_t)info.st_size), out_damage, out_first_index);
    munmap(bytes, (size_t)info.st_size);
close_file:
    close(fd);
    return status;
}

/* How far the log reaches without its open segments, and where those begin. */
struct extent {
    uint64_t closed_end;
    uint64_t open_start; /* UINT64_MAX: nothing in them */
};

static void note_closed(const char *name, struct extent *extent) {
    unsigned long long first, last, term, index, time;
    int end = 0;
    if (sscanf(name, "%llu-%llu%n", &first, &last, &end) == 2 && name[end] == '\0') {
        extent->closed_end = last > extent->closed_end ? last : extent->closed_end;
    } else if (sscanf(name, "snapshot-%llu-%llu-%llu%n", &term, &index, &time, &end) == 3 &&
               name[end] == '\0') {
        extent->closed_end = index > extent->closed_end ? index : extent->closed_end;
    }
}

static enum status check_open(const char *data_dir, int directory, const char *name,
                              struct extent *extent, char *out_error, size_t error_size) {
    size_t damage = 0;
    uint64_t first_index = 0;
    enum status status = check_file(directory, name, &damage, &first_index);
    if (status == STATUS_CORRUPT) {
        snprintf(out_error, error_size,
                 "%s/%s is damaged at byte %zu: entries there were acknowledged, and later ones "
                 "can still be read. Nothing was changed. Restore the data directory from a "
                 "backup, or move it away to start empty.",
                 data_dir, name, damage);
    } else if (status == STATUS_IO) {
        snprintf(out_error, error_size, "reading %s/%s: %s", data_dir, name, strerror(errno));
    }
    if (first_index != 0 && first_index < extent->open_start) {
        extent->open_start = first_index;
    }
    return status;
}

enum status segment_check(const char *data_dir, char *out_error, size_t error_size) {
    DIR *directory = opendir(data_dir);
    if (directory == NULL) {
        snprintf(out_error, error_size, "opening %s: %s", data_dir, strerror(errno));
        return STATUS_IO;
    }
    struct extent extent = {.open_start = UINT64_MAX};
    enum status status = STATUS_OK;
    for (struct dirent *file; status == STATUS_OK && (file = readdir(directory)) != NULL;) {
        if (strncmp(file->d_name, "open-", 5) == 0) {
            status = check_open(data_dir, dirfd(directory), file->d_name, &extent, out_error,
                                error_size);
        } else {
            note_closed(file->d_name, &extent);
        }
    }
    closedir(directory);
    if (status == STATUS_OK && extent.open_start != UINT64_MAX &&
        extent.open_start > extent.closed_end + 1) {
        snprintf(out_error, error_size,
                 "the log in %s has a hole: it ends at entry %llu and goes on at entry %llu, so a "
                 "segment is missing. Nothing was changed. Restore the data directory from a "
                 "backup, or move it away to start empty.",
                 data_dir, (unsigned long long)extent.closed_end,
                 (unsigned long long)extent.open_start);
        return STATUS_CORRUPT;
    }
    return status;
}
