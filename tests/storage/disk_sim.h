/*
 * A simulated disk behind raft/raft_files.h: one directory in memory, without a real file. It fails
 * or stops at the n-th call, runs full, forgets at a crash any part of what was not synced, and
 * lets bits flip. Everything random comes from its seed, so that a run that fails fails again.
 *
 * What it models, as the least that POSIX promises:
 * - a write is visible at once, and on disk only after sync() of that file. At a crash each
 * unsynced write survives whole, in some of its 512-byte sectors, or not at all; the newest one of
 * a file may end at any byte. A lost write may still have extended the file, with zeros;
 * - after a sync() that failed, the writes before it are not on disk and no later sync() cares;
 * - creations, renames and unlinks are on disk only after sync_directory(). At a crash each
 * survives or not, but never without the earlier ones on the same names. A rename is atomic;
 * - what is allocated and not written reads as zeros.
 *
 * Instances are independent and cheap. Calls through disk_sim_files() may come from several
 * threads; the functions below may not be called while they do.
 */
#ifndef LEASED_TESTS_STORAGE_DISK_SIM_H
#define LEASED_TESTS_STORAGE_DISK_SIM_H

#include "base/bytes.h"
#include "raft/raft_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum disk_sim_call {
    DISK_SIM_OPEN,
    DISK_SIM_CLOSE,
    DISK_SIM_SIZE,
    DISK_SIM_READ,
    DISK_SIM_WRITE,
    DISK_SIM_SYNC,
    DISK_SIM_WRITE_BACK,
    DISK_SIM_ALLOCATE,
    DISK_SIM_RENAME,
    DISK_SIM_UNLINK,
    DISK_SIM_SYNC_DIRECTORY,
    DISK_SIM_LIST,
    DISK_SIM_ANY_CALL /* the number of kinds, and any of them */
};

enum { DISK_SIM_SECTOR_SIZE = 512, DISK_SIM_NAME_SIZE = 128 };

struct disk_sim;

struct disk_sim *disk_sim_create(uint64_t seed);
/* Accepts NULL. */
void disk_sim_destroy(struct disk_sim *disk);
/* A disk with the same files, synced and not; without open files, faults and counts. From one run
 * that was stopped, many crashes can be tried. */
struct disk_sim *disk_sim_clone(const struct disk_sim *disk, uint64_t seed);
/* Borrowed: valid as long as the disk is. */
struct raft_files disk_sim_files(struct disk_sim *disk);

/* --- faults --- */

/* Calls of a kind since the disk was created or disk_sim_reset_counts() was called. */
uint64_t disk_sim_count(const struct disk_sim *disk, enum disk_sim_call kind);
void disk_sim_reset_counts(struct disk_sim *disk);
const char *disk_sim_call_text(enum disk_sim_call kind);

struct disk_sim_fault {
    enum disk_sim_call kind;
    uint64_t at;     /* the at-th call of that kind from now on, from 1; 0: no fault */
    int error;       /* what it returns */
    bool is_partial; /* a write: some first bytes of it happen */
    bool is_lasting; /* every later call of that kind fails too */
};
/* Replaces the fault that was set before. */
void disk_sim_fail(struct disk_sim *disk, struct disk_sim_fault fault);
/* The machine loses power during the n-th call from now on (0: never): part of that call may
 * happen; it and every later one returns EIO, and these change nothing, until disk_sim_crash(). */
void disk_sim_stop_at(struct disk_sim *disk, uint64_t n);
bool disk_sim_is_stopped(const struct disk_sim *disk);
/* The call that failed or stopped last ("write snap-1 at 4096, 12 bytes"); "" when none did. */
const char *disk_sim_fault_text(const struct disk_sim *disk);

/* Calls of this kind on names that begin with `prefix` do nothing and return 0: for mutants of a
 * missing sync. The kind is a sync; NULL: nothing is ignored any more. */
void disk_sim_ignore(struct disk_sim *disk, enum disk_sim_call kind, const char *prefix);

/* Bytes of all files may not grow beyond this: ENOSPC. UINT64_MAX: no limit, as in the beginning.
 */
void disk_sim_set_capacity(struct disk_sim *disk, uint64_t bytes);
uint64_t disk_sim_used(const struct disk_sim *disk);

enum disk_sim_crash {
    DISK_SIM_LOSE_ANY, /* any subset of what was not synced */
    DISK_SIM_LOSE_ALL, /* nothing of it is left */
    DISK_SIM_LOSE_NONE /* the process was killed, the machine goes on */
};
/* Files are closed, faults are off, and the disk runs again with what survived, all of it synced.
 */
void disk_sim_crash(struct disk_sim *disk, enum disk_sim_crash loss);

/* --- looking at files and damaging them, without a call being counted --- */

bool disk_sim_exists(const struct disk_sim *disk, const char *name);
/* Of a file that is there; valid until the disk changes. */
struct bytes disk_sim_view(const struct disk_sim *disk, const char *name);
/* Names in order of creation: NULL when there are not so many. */
const char *disk_sim_name(const struct disk_sim *disk, size_t position);
/* Creates or replaces a file; it is on disk at once. */
void disk_sim_put(struct disk_sim *disk, const char *name, struct bytes bytes);
/* Of a file that is there and synced, `offset` in it. `bit`: 0 to 7. */
void disk_sim_flip_bit(struct disk_sim *disk, const char *name, uint64_t offset, unsigned bit);
/* The file is there and synced. A size beyond its end adds zeros. */
void disk_sim_resize(struct disk_sim *disk, const char *name, uint64_t size);
void disk_sim_remove(struct disk_sim *disk, const char *name);
/* Files that were opened and not closed. */
size_t disk_sim_open_files(const struct disk_sim *disk);
/* Something is not synced, so that a crash could lose it. */
bool disk_sim_is_dirty(const struct disk_sim *disk);

/* A random number below `limit`, from the disk's seed. */
uint64_t disk_sim_random(struct disk_sim *disk, uint64_t limit);

#endif
