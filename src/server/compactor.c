#include "server/compactor.h"

#include <assert.h>
#include <string.h>

static uint64_t sample_interval_ms(const struct compactor *compactor) {
    return (compactor->retention_ms + COMPACTOR_SAMPLES - 1) / COMPACTOR_SAMPLES;
}

void compactor_init(struct compactor *compactor, uint64_t retention_ms,
                    uint64_t retention_revisions, uint64_t now_ms) {
    assert(retention_ms == 0 || retention_revisions == 0);
    memset(compactor, 0, sizeof *compactor);
    compactor->retention_ms = retention_ms;
    compactor->retention_revisions = retention_revisions;
    compactor->next_ms =
        now_ms + (retention_revisions != 0 ? (uint64_t)COMPACTOR_REVISION_INTERVAL_MS : 0);
}

static int64_t ask_for(struct compactor *compactor, int64_t revision) {
    if (revision <= compactor->compacted_revision) {
        return 0;
    }
    compactor->compacted_revision = revision;
    return revision;
}

/* The revision of the youngest sample that is as old as the retention. */
static int64_t tick_by_time(struct compactor *compactor, uint64_t now_ms, int64_t revision) {
    int64_t old_revision = 0;
    size_t n_old = 0;
    while (n_old < compactor->n_samples &&
           compactor->samples[n_old].time_ms + compactor->retention_ms <= now_ms) {
        old_revision = compactor->samples[n_old].revision;
        n_old++;
    }
    compactor->n_samples -= n_old;
    memmove(compactor->samples, compactor->samples + n_old,
            compactor->n_samples * sizeof compactor->samples[0]);
    /* Samples are an interval apart and none is older than the retention: there is room. */
    assert(compactor->n_samples < COMPACTOR_SAMPLES + 1);
    compactor->samples[compactor->n_samples++] =
        (struct compactor_sample){.time_ms = now_ms, .revision = revision};
    compactor->next_ms = now_ms + sample_interval_ms(compactor);
    return ask_for(compactor, old_revision);
}

int64_t compactor_tick(struct compactor *compactor, uint64_t now_ms, int64_t revision) {
    if (now_ms < compactor->next_ms) {
        return 0;
    }
    if (compactor->retention_ms != 0) {
        return tick_by_time(compactor, now_ms, revision);
    }
    if (compactor->retention_revisions != 0) {
        compactor->next_ms = now_ms + COMPACTOR_REVISION_INTERVAL_MS;
        if (revision > 0 && (uint64_t)revision > compactor->retention_revisions) {
            return ask_for(compactor, revision - (int64_t)compactor->retention_revisions);
        }
    }
    return 0;
}
