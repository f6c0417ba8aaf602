#include "raft/raft_engine_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries that may be on their way to a member unacknowledged; libraft's default of 32 would make
 * a round trip the limit. The sender bounds their bytes. */
enum { INFLIGHT_ENTRIES_MAX = 4096 };

/* libraft takes a snapshot for lost after this. The sender knows better, and a member that does not
 * get it says so by rejecting heartbeats. */
enum { INSTALL_TIMEOUT_MS = 10 * 60 * 1000 };

/* libraft reads its state through pointers that are not const. */
static struct raft *raft_of(const struct raft_engine *engine) {
    return (struct raft *)(uintptr_t)&engine->raft;
}

/* --- Life. --- */

static void init_raft(struct raft *raft, uint64_t id) {
    memset(raft, 0, sizeof *raft); /* raft_init() leaves some of it as it was */
    int rv = raft_init(raft, NULL, NULL, id, "-");
    if (rv != 0) {
        abort();
    }
    raft->tracer = NULL; /* the default one formats a line for each step */
    raft_set_pre_vote(raft, true);
}

struct raft_engine *raft_engine_create(const struct raft_engine_options *options,
                                       const struct raft_engine_calls *calls, void *data) {
    assert(options->self_id != 0);
    assert(options->self_id != ENGINE_NOBODY_ID);
    assert(options->heartbeat_ms > 0);
    assert(options->election_ms > 0);
    struct raft_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        abort();
    }
    engine->options = *options;
    engine->calls = *calls;
    engine->data = data;
    init_raft(&engine->raft, options->self_id);
    raft_seed(&engine->raft, options->seed);
    raft_set_heartbeat_timeout(&engine->raft, options->heartbeat_ms);
    raft_set_election_timeout(&engine->raft, options->election_ms);
    raft_set_install_snapshot_timeout(&engine->raft, INSTALL_TIMEOUT_MS);
    raft_set_max_inflight_entries(&engine->raft, INFLIGHT_ENTRIES_MAX);
    election_stagger_init(&engine->stagger, options->heartbeat_ms, options->election_ms,
                          options->seed);
    log_cache_init(&engine->log, 1);
    write_order_init(&engine->writes, 0);
    engine->is_config_told = true;
    return engine;
}

void raft_engine_destroy(struct raft_engine *engine) {
    if (engine == NULL) {
        return;
    }
    raft_close(&engine->raft, NULL);
    raft_configuration_close(&engine->install_metadata.configuration);
    log_cache_clear(&engine->log);
    write_order_clear(&engine->writes);
    free(engine);
}

void engine_fail(struct raft_engine *engine, const char *reason) {
    if (!engine->has_failed) {
        engine->has_failed = true;
        engine->calls.failed(engine->data, reason);
    }
}

void engine_set_time(struct raft_engine *engine, uint64_t now_ms) {
    if (now_ms > engine->now_ms) {
        engine->now_ms = now_ms;
    }
}

/* --- Events. --- */

void raft_engine_written(struct raft_engine *engine, uint64_t now_ms) {
    if (engine->has_failed || !write_order_end(&engine->writes)) {
        return;
    }
    engine_set_time(engine, now_ms);
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};
    event.persisted_entries.index = engine->writes.stored;
    (void)engine_step(engine, &event);
    engine_apply(engine);
    engine_members_poll(engine);
}

static void poll_timeout(struct raft_engine *engine) {
    uint64_t due_ms = raft_timeout(&engine->raft);
    if (engine->now_ms < due_ms || engine->now_ms < engine->rearm_ms) {
        return;
    }
    struct raft_guards_view view = engine_view(engine);
    if (raft_guards_needs_new_term(&view)) {
        engine_begin_term(engine);
    }
    if (engine->has_failed) {
        return;
    }
    struct raft_event event = {.type = RAFT_TIMEOUT};
    (void)engine_step(engine, &event);
    engine->rearm_ms = raft_guards_rearm_ms(raft_timeout(&engine->raft), engine->now_ms,
                                            engine->options.heartbeat_ms);
    engine_apply(engine);
}

uint64_t engine_last_term(const struct raft_engine *engine) {
    const struct log_item *last = log_cache_get(&engine->log, log_cache_last(&engine->log));
    return last != NULL ? last->term : engine->applied_term;
}

/* A leader learns what is committed, and may change the configuration, by an entry of its own term.
 * libraft adds one only when there are entries of which it does not know. */
static void poll_barrier(struct raft_engine *engine) {
    uint64_t term = raft_current_term(&engine->raft);
    if (!engine_is_leader(engine) || engine_last_term(engine) == term ||
        engine->transfer_to_id != 0) {
        return;
    }
    struct log_item *item =
        log_item_create(LOG_BARRIER, raft_engine_last_index(engine) + 1, term, NULL, 0);
    (void)engine_submit(engine, &item, 1);
    log_item_release(item);
    engine_apply(engine);
}

void raft_engine_poll(struct raft_engine *engine, uint64_t now_ms) {
    if (engine->has_failed) {
        return;
    }
    engine_set_time(engine, now_ms);
    if (engine->held.n > 0) {
        engine_release_votes(engine);
    }
    if (!engine->has_failed) {
        poll_timeout(engine);
    }
    if (!engine->has_failed) {
        poll_barrier(engine);
    }
    engine_members_poll(engine);
}

uint64_t raft_engine_deadline_ms(const struct raft_engine *engine, uint64_t now_ms) {
    if (engine->has_failed) {
        return UINT64_MAX;
    }
    uint64_t deadline_ms = raft_timeout(&engine->raft);
    if (deadline_ms < engine->rearm_ms) {
        deadline_ms = engine->rearm_ms;
    }
    uint64_t members_ms = engine_members_deadline_ms(engine, now_ms);
    if (members_ms < deadline_ms) {
        deadline_ms = members_ms;
    }
    /* Nobody tells when a promise ends; it is never long. */
    if (engine->held.n > 0 && now_ms + 1 < deadline_ms) {
        deadline_ms = now_ms + 1;
    }
    return deadline_ms;
}

/* --- Requests. --- */

enum status raft_engine_propose(struct raft_engine *engine, uint8_t *bytes, size_t size,
                                uint64_t now_ms) {
    if (engine->has_failed || !engine_is_leader(engine) || engine->transfer_to_id != 0) {
        return STATUS_NO_LEADER;
    }
    engine_set_time(engine, now_ms);
    struct log_item *item = log_item_create(LOG_COMMAND, raft_engine_last_index(engine) + 1,
                                            raft_current_term(&engine->raft), bytes, size);
    int rv = engine_submit(engine, &item, 1);
    if (rv != 0) {
        item->bytes = NULL; /* the caller keeps them */
    }
    log_item_release(item);
    engine_apply(engine);
    return rv == 0 ? STATUS_OK : STATUS_NO_LEADER;
}

void raft_engine_announce_commit(struct raft_engine *engine, uint64_t to_id) {
    if (engine->has_failed || !engine_is_leader(engine) || engine->applied_index == 0 ||
        to_id == engine->options.self_id ||
        raft_engine_match_index(engine, to_id) < engine->applied_index) {
        return;
    }
    struct raft_message_view view = {.kind = MESSAGE_APPEND,
                                     .append = {.term = raft_current_term(&engine->raft),
                                                .prev_index = engine->applied_index,
                                                .prev_term = engine->applied_term,
                                                .commit = engine->applied_index}};
    engine->calls.send(engine->data, to_id, &view);
}

/* --- State. --- */

enum raft_engine_role raft_engine_role(const struct raft_engine *engine) {
    switch (raft_state(raft_of(engine))) {
    case RAFT_LEADER:
        return ENGINE_LEADER;
    case RAFT_CANDIDATE:
        return ENGINE_CANDIDATE;
    default:
        return ENGINE_FOLLOWER;
    }
}

uint64_t raft_engine_term(const struct raft_engine *engine) {
    return raft_current_term(&engine->raft);
}

uint64_t raft_engine_leader_id(const struct raft_engine *engine) {
    raft_id id = 0;
    const char *address;
    switch (raft_engine_role(engine)) {
    case ENGINE_LEADER:
        return engine->options.self_id;
    case ENGINE_CANDIDATE:
        return 0;
    case ENGINE_FOLLOWER:
        /* libraft keeps the leader of an older term until it hears of another. */
        if (engine->leader_term == raft_current_term(&engine->raft)) {
            raft_leader(raft_of(engine), &id, &address);
        }
        return id;
    }
    return 0;
}

uint64_t raft_engine_last_index(const struct raft_engine *engine) {
    return log_cache_last(&engine->log);
}

uint64_t raft_engine_commit_index(const struct raft_engine *engine) {
    return engine->is_installing ? engine->applied_index : raft_commit_index(&engine->raft);
}

uint64_t raft_engine_applied_index(const struct raft_engine *engine) {
    return engine->applied_index;
}

uint64_t raft_engine_loaded_index(const struct raft_engine *engine) {
    return engine->loaded_index;
}

uint64_t raft_engine_match_index(const struct raft_engine *engine, uint64_t id) {
    raft_index index;
    return raft_match_index(&engine->raft, id, &index) == 0 ? index : 0;
}

uint64_t raft_engine_contradictions(const struct raft_engine *engine) {
    return engine->n_contradictions;
}

uint64_t raft_engine_heard_ms(const struct raft_engine *engine) {
    return engine->heard_ms;
}

const struct raft_config *raft_engine_configuration(const struct raft_engine *engine) {
    return &engine->newest.config;
}

bool raft_engine_has_uncommitted_change(const struct raft_engine *engine) {
    return engine->newest.index > engine->applied_index;
}

struct log_item *raft_engine_item(const struct raft_engine *engine, uint64_t index) {
    return log_cache_get(&engine->log, index);
}

size_t raft_engine_memory_bytes(const struct raft_engine *engine) {
    return engine->log.bytes;
}

bool raft_engine_is_installing(const struct raft_engine *engine) {
    return engine->is_installing;
}

struct raft_guards_view engine_view(const struct raft_engine *engine) {
    enum raft_engine_role role = raft_engine_role(engine);
    return (struct raft_guards_view){.self_id = engine->options.self_id,
                                     .term = raft_current_term(&engine->raft),
                                     .is_leader = role == ENGINE_LEADER,
                                     .is_candidate = role == ENGINE_CANDIDATE,
                                     .is_pre_voting = engine->is_pre_voting,
                                     .is_installing = engine->is_installing,
                                     .last_index = log_cache_last(&engine->log),
                                     .applied_index = engine->applied_index,
                                     .applied_term = engine->applied_term,
                                     .stored_index = engine->writes.stored,
                                     .config = &engine->newest.config};
}
