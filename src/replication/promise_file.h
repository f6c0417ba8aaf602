/*
 * The longest promise that this voter may have given, on disk. A promise lasts as long as the
 * leader's ping says, which may be longer than this member's own election timeout; so a voter that
 * starts again can only know from its disk how long it has to wait before it may vote (safety
 * rule 4). The file is written before a longer promise is given than any before.
 */
#ifndef LEASED_REPLICATION_PROMISE_FILE_H
#define LEASED_REPLICATION_PROMISE_FILE_H

#include "base/status.h"
#include "raft/raft_files.h"

#include <stdint.h>

/* No leader is promised more: it is refused, and told nothing. */
enum { PROMISE_MS_MAX = 60 * 1000 };

struct promise_file {
    struct raft_files files;
    uint32_t own_ms;     /* this member's own */
    uint32_t longest_ms; /* as stored */
    uint64_t until_ms;   /* when the last promise of that length ends */
};

/* `initial_ms`: what is assumed, and stored, where there is no file. STATUS_CORRUPT, STATUS_IO,
 * STATUS_NO_SPACE. */
enum status promise_file_open(struct promise_file *file, const struct raft_files *files,
                              uint32_t initial_ms, uint64_t now_ms, char *out_error,
                              size_t error_size);
/* A promise of this length is about to be given. Another length than this member's own is rounded
 * up to a second, so that whatever a leader asks for costs few writes. 0, or an errno: it must not
 * be given. A length is forgotten when the last promise of that length has ended and shorter ones
 * are given. */
int promise_file_note(struct promise_file *file, uint32_t promise_ms, uint64_t now_ms);

#endif
