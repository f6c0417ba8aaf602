/*
 * Operations on a log store over a simulated disk, beside a model of what the log must hold. An
 * operation is acknowledged when it returned 0; one that failed or was stopped may have happened or
 * not, but never in part.
 */
#ifndef LEASED_TESTS_STORAGE_LOG_WORKLOAD_H
#define LEASED_TESTS_STORAGE_LOG_WORKLOAD_H

#include "disk_sim.h"
#include "mutant_files.h"
#include "raft/log_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_MODEL_ENTRIES_MAX = 1024, LOG_WORLD_SEGMENT_SIZE = 2048, LOG_WORLD_TEXT_SIZE = 768 };

struct log_model {
    uint64_t last;
    uint64_t terms[LOG_MODEL_ENTRIES_MAX + 1]; /* by index; 0: covered by a snapshot */
    uint64_t trimmed;                          /* entries up to this one may be gone */
    uint64_t snapshot_index;
    uint64_t snapshot_term;
};

enum log_step_kind {
    STEP_APPEND,  /* `a` entries; the last `b` of the log are replaced, in a new term, if b > 0 */
    STEP_PREPARE, /* `a` times */
    STEP_REST,    /* prepare, at rest: a seal */
    STEP_TRIM,    /* a snapshot at the last entry but `a`, and everything before it goes */
    STEP_RESET,   /* a snapshot `a` entries ahead, or `b` back in a new term, is installed */
    STEP_REOPEN
};

struct log_step {
    enum log_step_kind kind;
    unsigned a;
    unsigned b;
};

struct log_workload {
    const char *name;
    const struct log_step *steps;
    size_t n;
};

/* append, truncate, recycle, trim, reset, seal, restart: one for each operation. */
extern const struct log_workload log_workloads[];
extern const size_t n_log_workloads;
/* What goes on after a recovery. */
extern const struct log_workload log_continuation;

struct log_world {
    struct mutant_files files;
    struct log_store *store; /* NULL: not open */
    struct log_model acknowledged;
    struct log_model attempted; /* with the operation that did not return 0 */
    char text[LOG_WORLD_TEXT_SIZE];
};

/* On a disk where nothing was done yet, or what `before` knows; without one of its syncs. */
void log_world_init(struct log_world *world, struct disk_sim *disk, const struct log_world *before,
                    enum sync_site left_out);
/* Opens the log. False: it refused, and `text` says why. */
bool log_world_open(struct log_world *world);
void log_world_close(struct log_world *world);
/* 0 or an errno; a refusal to open is EBADMSG. */
int log_world_step(struct log_world *world, const struct log_step *step);
/* Runs the steps until one fails. 0 or its error. */
int log_world_run(struct log_world *world, const struct log_workload *workload);

/* Is the open log what was acknowledged, or that with the attempted operation? It is taken over as
 * acknowledged. False: `text` says what is wrong. */
bool log_world_check(struct log_world *world);

#endif
