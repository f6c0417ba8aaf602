/*
 * When history is compacted by itself (--auto-compaction-…). It decides only: time and revision
 * come in, the revision to compact to comes out.
 */
#ifndef LEASED_SERVER_COMPACTOR_H
#define LEASED_SERVER_COMPACTOR_H

#include <stddef.h>
#include <stdint.h>

enum {
    COMPACTOR_SAMPLES = 10,                        /* of a retention: how finely time is known */
    COMPACTOR_REVISION_INTERVAL_MS = 5 * 60 * 1000 /* between compactions by revision */
};

struct compactor_sample {
    uint64_t time_ms;
    int64_t revision;
};

struct compactor {
    uint64_t retention_ms;        /* 0: not by time */
    uint64_t retention_revisions; /* 0: not by revision */
    uint64_t next_ms;
    int64_t compacted_revision; /* the last one asked for */
    size_t n_samples;
    struct compactor_sample samples[COMPACTOR_SAMPLES + 1]; /* oldest first */
};

/* At most one of the two retentions is not 0; both 0: never compacts. */
void compactor_init(struct compactor *compactor, uint64_t retention_ms,
                    uint64_t retention_revisions, uint64_t now_ms);

/* To be called often. Returns the revision to compact to, 0: not now. */
int64_t compactor_tick(struct compactor *compactor, uint64_t now_ms, int64_t revision);

#endif
