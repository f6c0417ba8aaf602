/*
 * The names of a directory of raft_uv, and the files read whole.
 */
#ifndef LEASED_RAFT_LEGACY_FILES_H
#define LEASED_RAFT_LEGACY_FILES_H

#include "base/buffer.h"
#include "raft/raft_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEGACY_NAME_SIZE = 96 };

enum legacy_kind {
    LEGACY_METADATA,      /* first: 1 or 2 */
    LEGACY_SNAPSHOT,      /* first: term, second: index, third: time */
    LEGACY_SNAPSHOT_META, /* likewise */
    LEGACY_CLOSED,        /* first: of the first entry, second: of the last */
    LEGACY_OPEN           /* first: counter */
};

struct legacy_file {
    enum legacy_kind kind;
    uint64_t first;
    uint64_t second;
    uint64_t third;
    char name[LEGACY_NAME_SIZE];
};

struct legacy_list {
    struct legacy_file *items; /* by kind, then ascending by the numbers */
    size_t n;
    size_t capacity;
};

bool legacy_files_parse(const char *name, struct legacy_file *out_file);
/* 0 or an errno; to be cleared in either case. */
int legacy_files_list(const struct raft_files *files, struct legacy_list *out_list);
void legacy_files_clear(struct legacy_list *list);
/* The first of a kind, and how many follow each other. */
struct legacy_file *legacy_files_of(const struct legacy_list *list, enum legacy_kind kind,
                                    size_t *out_n);

/* All of it into an empty buffer. 0 or an errno. */
int legacy_files_read(const struct raft_files *files, const char *name, struct buffer *out_bytes);

#endif
