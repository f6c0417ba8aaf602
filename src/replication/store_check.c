#include "replication/store_check.h"

#include "base/bytes.h"
#include "core/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* raft_uv's metadata file: format, version, term, vote. */
enum { METADATA_SIZE = 32, METADATA_FORMAT = 1 };

/* Why a file cannot be used, in words; NULL: it can. */
typedef const char *(*file_check)(struct bytes content);

struct snapshot_name {
    unsigned long long term;
    unsigned long long index;
    unsigned long long timestamp;
};

struct contents {
    bool has_log;
    bool has_snapshot;
    struct snapshot_name newest;
};

static bool is_newer(const struct snapshot_name *a, const struct snapshot_name *b) {
    if (a->term != b->term) {
        return a->term > b->term;
    }
    return a->index != b->index ? a->index > b->index : a->timestamp > b->timestamp;
}

/* Its description is written first; a crash in between leaves one without a snapshot. */
static bool has_data(int directory, const char *description, int end) {
    char name[NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*s", end - (int)strlen(".meta"), description);
    return faccessat(directory, name, F_OK, 0) == 0;
}

static void note(int directory, const char *name, struct contents *contents) {
    struct snapshot_name snapshot;
    unsigned long long first, last;
    int end = 0;
    if (sscanf(name, "snapshot-%llu-%llu-%llu.meta%n", &snapshot.term, &snapshot.index,
               &snapshot.timestamp, &end) == 3 &&
        end > 0 && name[end] == '\0' && has_data(directory, name, end)) {
        if (!contents->has_snapshot || is_newer(&snapshot, &contents->newest)) {
            contents->newest = snapshot;
        }
        contents->has_snapshot = true;
    } else if (sscanf(name, "%llu-%llu%n", &first, &last, &end) == 2 && name[end] == '\0') {
        contents->has_log = true;
    }
}

/* Writes the reason, if there is one. */
static enum status check_file(int directory, const char *data_dir, const char *name,
                              file_check check, char *out_error, size_t error_size) {
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        snprintf(out_error, error_size, "reading %s/%s: %s", data_dir, name, strerror(errno));
        enum status status = errno == ENOENT ? STATUS_CORRUPT : STATUS_IO;
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    size_t size = (size_t)info.st_size;
    void *mapped = size > 0 ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (mapped == MAP_FAILED) {
        snprintf(out_error, error_size, "reading %s/%s: %s", data_dir, name, strerror(errno));
        return STATUS_IO;
    }
    const char *fault = check(bytes_of(mapped, size));
    if (mapped != NULL) {
        munmap(mapped, size);
    }
    if (fault == NULL) {
        return STATUS_OK;
    }
    snprintf(out_error, error_size,
             "%s/%s %s. Nothing was changed. Restore the data directory from a backup, or move it "
             "away to start empty.",
             data_dir, name, fault);
    return STATUS_CORRUPT;
}

static const char *metadata_fault(struct bytes content) {
    struct reader reader;
    reader_init(&reader, content);
    bool is_good = content.size == METADATA_SIZE && reader_get_u64(&reader) == METADATA_FORMAT;
    return is_good ? NULL : "is damaged, and it is all that tells of the term and the vote";
}

/* raft_uv alternates between two files, so that a crash while it writes one leaves the other. */
static enum status check_metadata(int directory, const char *data_dir, char *out_error,
                                  size_t error_size) {
    enum status status =
        check_file(directory, data_dir, "metadata2", metadata_fault, out_error, error_size);
    if (status != STATUS_OK) {
        status =
            check_file(directory, data_dir, "metadata1", metadata_fault, out_error, error_size);
    }
    return status;
}

/* A snapshot is written to another name first, so one that has its own name is whole. */
static const char *snapshot_fault(struct bytes content) {
    struct reader reader;
    reader_init(&reader, content);
    uint64_t size = reader_get_u64(&reader);
    if (reader.failed || size > reader_left(&reader) ||
        snapshot_check(bytes_of(content.data + reader.position, (size_t)size)) == STATUS_CORRUPT) {
        return "is damaged: the snapshot does not match its checksum";
    }
    return NULL;
}

static enum status check_contents(int directory, const char *data_dir,
                                  const struct contents *contents, char *out_error,
                                  size_t error_size) {
    enum status status = STATUS_OK;
    if (contents->has_log || contents->has_snapshot) {
        status = check_metadata(directory, data_dir, out_error, error_size);
    }
    if (status == STATUS_OK && contents->has_snapshot) {
        char name[96];
        snprintf(name, sizeof name, "snapshot-%llu-%llu-%llu", contents->newest.term,
                 contents->newest.index, contents->newest.timestamp);
        status = check_file(directory, data_dir, name, snapshot_fault, out_error, error_size);
    }
    return status;
}

enum status store_check(const char *data_dir, char *out_error, size_t error_size) {
    DIR *directory = opendir(data_dir);
    if (directory == NULL) {
        snprintf(out_error, error_size, "opening %s: %s", data_dir, strerror(errno));
        return STATUS_IO;
    }
    struct contents contents = {0};
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        note(dirfd(directory), file->d_name, &contents);
    }
    enum status status =
        check_contents(dirfd(directory), data_dir, &contents, out_error, error_size);
    closedir(directory);
    return status;
}
