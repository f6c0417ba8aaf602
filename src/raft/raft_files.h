/*
 * The only way to a file: every call that log, votes and snapshots make on the data directory goes
 * through this table, so that tests can fail the n-th call, stop after the n-th call, lose what was
 * not synced and tear what was being written. Names are relative to one directory and contain no
 * slash. Calls block; those on different files may be made from different threads at once.
 *
 * Every call returns 0 or an errno.
 */
#ifndef LEASED_RAFT_RAFT_FILES_H
#define LEASED_RAFT_RAFT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum raft_files_mode {
    RAFT_FILES_READ,  /* must exist, is not written */
    RAFT_FILES_WRITE, /* must exist, is read and written */
    RAFT_FILES_CREATE /* must not exist */
};

struct raft_files_calls {
    int (*open)(void *data, const char *name, enum raft_files_mode mode, int *out_file);
    int (*close)(void *data, int file);
    int (*size)(void *data, int file, uint64_t *out_size);
    /* Reads up to `size` bytes; fewer only at the end of the file. */
    int (*read)(void *data, int file, uint64_t offset, void *bytes, size_t size, size_t *out_n);
    /* Writes all of it, or fails. */
    int (*write)(void *data, int file, uint64_t offset, const struct iovec *parts, int n_parts);
    /* The bytes and the size of the file are on disk (fdatasync). */
    int (*sync)(void *data, int file);
    /* Waits until the device has been given these bytes. Promises nothing: it keeps work from
     * gathering for the next sync, of this file or another, and takes no commit of the file
     * system's journal, which a sync of a file that grows does. */
    int (*write_back)(void *data, int file, uint64_t offset, uint64_t size);
    /* Zeros that take room on disk, from 0 to `size`: later writes there cannot run out of space
     * and change no metadata of the file system. */
    int (*allocate)(void *data, int file, uint64_t size);
    int (*rename)(void *data, const char *from, const char *to);
    int (*unlink)(void *data, const char *name);
    /* Creations, renames and unlinks are on disk. */
    int (*sync_directory)(void *data);
    /* Calls `found` for each regular file, in any order. */
    int (*list)(void *data, void (*found)(void *found_data, const char *name), void *found_data);
};

struct raft_files {
    const struct raft_files_calls *calls;
    void *data;
};

/* The real ones, on a directory that exists. Returns 0 or an errno. */
int raft_files_open(const char *directory, struct raft_files *out_files);
void raft_files_close(struct raft_files *files);

#endif
