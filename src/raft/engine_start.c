/* What the disk holds becomes raft's beginning; and whether the library is the one we know. */
#include "raft/raft_engine_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIBRAFT_VERSION_MIN = 2200, LIBRAFT_VERSION_MAX = 2299 };

_Static_assert(RAFT_VERSION_NUMBER >= LIBRAFT_VERSION_MIN, "libraft 0.22 is needed");
_Static_assert(RAFT_VERSION_NUMBER <= LIBRAFT_VERSION_MAX, "libraft 0.22 is needed");

/* Debian's shared library does not export it; the static one has it. */
extern int raft_version_number(void) __attribute__((weak));

struct refusal {
    char *text;
    size_t size;
};

static enum status refuse(struct refusal refusal, const char *reason) {
    snprintf(refusal.text, refusal.size, "%s", reason);
    return STATUS_CORRUPT;
}

static bool has_snapshot(const struct raft_engine_loaded *loaded) {
    return loaded->snapshot != NULL && loaded->snapshot->index != 0;
}

static bool is_log_sound(const struct raft_engine_loaded *loaded) {
    uint64_t term = 1;
    for (size_t i = 0; i < loaded->n_items; i++) {
        const struct log_item *item = loaded->items[i];
        if (item->index != loaded->first_index + i || item->term < term ||
            item->term > loaded->term) {
            return false;
        }
        term = item->term;
    }
    return true;
}

/* Without a snapshot the log begins with the first configuration; with one it has the snapshot's
 * last entry, or begins behind it. */
static bool meets_snapshot(const struct raft_engine_loaded *loaded) {
    if (!has_snapshot(loaded)) {
        return loaded->first_index == 1 &&
               (loaded->n_items == 0 || loaded->items[0]->type == LOG_CHANGE);
    }
    uint64_t index = loaded->snapshot->index;
    if (loaded->first_index == index + 1) {
        return true;
    }
    return loaded->first_index > 0 && loaded->first_index <= index &&
           loaded->n_items > index - loaded->first_index &&
           loaded->items[index - loaded->first_index]->term == loaded->snapshot->term;
}

static enum status check(const struct raft_engine_loaded *loaded, struct refusal refusal) {
    bool is_empty = loaded->n_items == 0 && !has_snapshot(loaded);
    if (loaded->term == 0 && (loaded->vote != 0 || !is_empty)) {
        return refuse(refusal, "there is a log or a snapshot, but no term");
    }
    if (loaded->term >= RAFT_GUARDS_TERM_MAX) {
        return refuse(refusal, "the stored term is not possible");
    }
    if (has_snapshot(loaded) && loaded->snapshot->term > loaded->term) {
        return refuse(refusal, "the snapshot is of a later term than the stored one");
    }
    if (!is_log_sound(loaded)) {
        return refuse(refusal, "the entries of the log do not follow each other");
    }
    if (!meets_snapshot(loaded)) {
        return refuse(refusal, "the log does not meet the snapshot");
    }
    return STATUS_OK;
}

/* The configuration as snapshot and log say it. */
static bool load_configuration(struct raft_engine *engine,
                               const struct raft_engine_loaded *loaded) {
    struct raft_config config;
    if (has_snapshot(loaded)) {
        const struct snapshot_meta *meta = loaded->snapshot;
        if (meta->configuration_size > sizeof meta->configuration ||
            raft_config_decode(bytes_of(meta->configuration, meta->configuration_size), &config) !=
                STATUS_OK) {
            return false;
        }
        engine_config_set(&engine->committed, &config, meta->configuration_index);
        engine->newest = engine->committed;
    }
    for (size_t i = 0; i < loaded->n_items; i++) {
        const struct log_item *item = loaded->items[i];
        if (item->type != LOG_CHANGE) {
            continue;
        }
        if (raft_config_decode(bytes_of(item->bytes, item->size), &config) != STATUS_OK) {
            return false;
        }
        if (item->index > engine->newest.index) {
            engine_config_advance(&engine->newest, &config, item->index);
        }
    }
    engine->is_config_told = engine->newest.index == 0;
    if (engine->newest.index > 1 && engine->newest.index > engine->committed.index) {
        engine->unconfirmed_index = engine->newest.index;
    }
    return true;
}

static void load_log(struct raft_engine *engine, const struct raft_engine_loaded *loaded) {
    log_cache_reset(&engine->log, loaded->first_index);
    for (size_t i = 0; i < loaded->n_items; i++) {
        log_cache_append(&engine->log, loaded->items[i]);
    }
    engine->loaded_index = log_cache_last(&engine->log);
    engine->writes.stored = log_cache_last(&engine->log);
    if (has_snapshot(loaded)) {
        engine->snapshot = *loaded->snapshot;
        engine->applied_index = loaded->snapshot->index;
        engine->applied_term = loaded->snapshot->term;
    }
}

static void feed_start(struct raft_engine *engine, const struct raft_engine_loaded *loaded,
                       uint64_t term, uint64_t vote) {
    struct raft_entry *entries = raft_calloc(loaded->n_items + 1, sizeof *entries);
    if (entries == NULL) {
        abort();
    }
    for (size_t i = 0; i < loaded->n_items; i++) {
        const struct log_item *item = loaded->items[i];
        entries[i].term = item->term;
        entries[i].type = (enum raft_entry_type)item->type;
        entries[i].buf = (struct raft_buffer){.base = item->bytes, .len = item->size};
    }
    struct raft_snapshot_metadata metadata = {0};
    struct raft_event event = {.type = RAFT_START};
    event.start.term = term;
    event.start.voted_for = vote;
    event.start.start_index = loaded->first_index;
    event.start.entries = entries;
    event.start.n_entries = (unsigned)loaded->n_items;
    if (has_snapshot(loaded)) {
        metadata.index = loaded->snapshot->index;
        metadata.term = loaded->snapshot->term;
        metadata.configuration_index = loaded->snapshot->configuration_index;
        metadata.configuration = engine_config_export(&engine->committed.config);
        event.start.metadata = &metadata;
    }
    /* libraft frees the entries when it fails, and only then. */
    if (engine_step(engine, &event) == 0) {
        raft_free(entries);
    }
    engine_apply(engine);
}

enum status raft_engine_start(struct raft_engine *engine, const struct raft_engine_loaded *loaded,
                              uint64_t now_ms, char *out_error, size_t error_size) {
    struct refusal refusal = {.text = out_error, .size = error_size};
    enum status status = check(loaded, refusal);
    if (status != STATUS_OK) {
        return status;
    }
    if (!load_configuration(engine, loaded)) {
        return refuse(refusal, "a stored configuration cannot be read");
    }
    engine_set_time(engine, now_ms);
    load_log(engine, loaded);
    uint64_t term = loaded->term;
    uint64_t vote = loaded->vote;
    if (raft_guards_is_on(GUARD_SOLE_VOTER) &&
        raft_config_is_sole_voter(&engine->newest.config, engine->options.self_id)) {
        /* libraft makes it leader at once, of a term that may have had entries which are lost. */
        term++;
        vote = 0;
        if (engine->calls.store_vote(engine->data, term, vote) != STATUS_OK) {
            snprintf(out_error, error_size, "the term could not be stored");
            return STATUS_IO;
        }
    }
    engine->is_started = true;
    feed_start(engine, loaded, term, vote);
    if (engine->has_failed) {
        return refuse(refusal, "libraft does not accept what is stored");
    }
    return STATUS_OK;
}

/* --- The library. --- */

/* One voter alone, which leads at once, and an entry of its own. */
static bool keeps_submitted_array(void) {
    struct raft raft;
    memset(&raft, 0, sizeof raft);
    struct raft_configuration configuration;
    raft_configuration_init(&configuration);
    struct raft_entry first = {.term = 1, .type = RAFT_CHANGE};
    if (raft_init(&raft, NULL, NULL, 1, "-") != 0 ||
        raft_configuration_add(&configuration, 1, "-", RAFT_VOTER) != 0 ||
        raft_configuration_encode(&configuration, &first.buf) != 0) {
        abort();
    }
    raft_configuration_close(&configuration);
    raft.tracer = NULL;
    struct raft_update update = {0};
    struct raft_event start = {.type = RAFT_START, .time = 1};
    start.start.term = 2;
    start.start.start_index = 1;
    start.start.entries = &first;
    start.start.n_entries = 1;
    struct raft_entry entry = {.term = 2, .type = RAFT_COMMAND, .batch = raft_malloc(1)};
    struct raft_event submit = {.type = RAFT_SUBMIT, .time = 2};
    submit.submit.entries = &entry;
    submit.submit.n = 1;
    void *batch = entry.batch;
    bool is_kept = raft_step(&raft, &start, &update) == 0 && raft_state(&raft) == RAFT_LEADER &&
                   raft_step(&raft, &submit, &update) == 0 &&
                   (update.flags & RAFT_UPDATE_ENTRIES) != 0 && update.entries.batch == &entry &&
                   update.entries.n == 1 && entry.batch == batch;
    raft_free(batch);
    raft_free(first.buf.base);
    raft_close(&raft, NULL);
    return is_kept;
}

enum status raft_engine_probe(char *out_error, size_t error_size) {
    int version = raft_version_number != NULL ? raft_version_number() : RAFT_VERSION_NUMBER;
    if (version < LIBRAFT_VERSION_MIN || version > LIBRAFT_VERSION_MAX) {
        snprintf(out_error, error_size,
                 "libraft %d.%d.%d is loaded, and leased is written for 0.22: install that version",
                 version / 10000, version / 100 % 100, version % 100);
        return STATUS_UNSUPPORTED;
    }
    if (!keeps_submitted_array()) {
        snprintf(out_error, error_size,
                 "the libraft that is loaded says that it is 0.22 but treats memory as a later one "
                 "does: install 0.22.1");
        return STATUS_UNSUPPORTED;
    }
    return STATUS_OK;
}
