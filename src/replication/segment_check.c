#include "replication/segment_check.h"

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
};

static bool entry_is_good(struct bytes entry, uint8_t type, struct last_entry *last) {
    struct reader ignored;
    /* Barriers and configurations are libraft's own. */
    if (type != RAFT_COMMAND) {
        return true;
    }
    struct log_entry_header header;
    if (log_entry_decode(entry, &header, &ignored) == STATUS_CORRUPT) {
        return false;
    }
    *last = (struct last_entry){.known = true, .header = header};
    return true;
}

/* Walks one batch; false at its first fault. */
static bool walk_batch(struct reader *reader, struct last_entry *last) {
    (void)reader_get_u64(reader);
    uint64_t n = reader_get_u64(reader);
    if (reader->failed || n == 0 || n > reader_left(reader) / ENTRY_HEADER_SIZE) {
        return false;
    }
    size_t headers = reader->position;
    reader->position += (size_t)n * ENTRY_HEADER_SIZE;
    for (uint64_t i = 0; i < n; i++) {
        struct reader header;
        reader_init(&header, bytes_of(reader->data + headers + i * ENTRY_HEADER_SIZE,
                                      ENTRY_HEADER_SIZE));
        (void)reader_get_u64(&header);
        uint32_t type = reader_get_u32(&header);
        uint32_t size = reader_get_u32(&header);
        if (size > reader_left(reader) ||
            !entry_is_good(bytes_of(reader->data + reader->position, size), (uint8_t)type, last)) {
            return false;
        }
        reader->position += size;
    }
    return true;
}

enum status segment_check_bytes(struct bytes segment, size_t *out_damage) {
    struct reader reader;
    struct last_entry last = {0};
    reader_init(&reader, segment);
    (void)reader_get_u64(&reader);
    size_t damage = reader.position;
    while (reader_left(&reader) > CHECKSUMS_SIZE + COUNT_SIZE && walk_batch(&reader, &last)) {
        damage = reader.position;
    }
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

static enum status check_file(int directory, const char *name, size_t *out_damage) {
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
    status = segment_check_bytes(bytes_of(bytes, (size_t)info.st_size), out_damage);
    munmap(bytes, (size_t)info.st_size);
close_file:
    close(fd);
    return status;
}

enum status segment_check(const char *data_dir, char *out_error, size_t error_size) {
    DIR *directory = opendir(data_dir);
    if (directory == NULL) {
        snprintf(out_error, error_size, "opening %s: %s", data_dir, strerror(errno));
        return STATUS_IO;
    }
    enum status status = STATUS_OK;
    for (struct dirent *file; status == STATUS_OK && (file = readdir(directory)) != NULL;) {
        size_t damage = 0;
        if (strncmp(file->d_name, "open-", 5) != 0) {
            continue;
        }
        status = check_file(dirfd(directory), file->d_name, &damage);
        if (status == STATUS_CORRUPT) {
            snprintf(out_error, error_size,
                     "%s/%s is damaged at byte %zu: entries there were acknowledged, and later ones "
                     "can still be read. Nothing was changed. Restore the data directory from a "
                     "backup, or move it away to start empty.",
                     data_dir, file->d_name, damage);
        } else if (status == STATUS_IO) {
            snprintf(out_error, error_size, "reading %s/%s: %s", data_dir, file->d_name,
                     strerror(errno));
        }
    }
    closedir(directory);
    return status;
}
