/*
 * One line on standard error that says how far long work has come. It appears only on a terminal
 * and only when the work takes long enough for a person to wonder.
 */
#ifndef LEASED_BASE_PROGRESS_H
#define LEASED_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    const char *what; /* "leases" */
    bool is_terminal;
    bool is_shown;
    uint64_t next_ms; /* not to be drawn again before */
};

void progress_init(struct progress *progress, const char *what);
/* Cheap enough to be called for each item. */
void progress_update(struct progress *progress, size_t done, size_t total);
/* The same for work that has its own words. */
void progress_text(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Takes the line away. */
void progress_end(struct progress *progress);

#endif
