/* Snapshots: taken here, sent, and installed in the place of the log. */
#include "raft/raft_engine_internal.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

bool raft_engine_snapshot_begin(struct raft_engine *engine, struct snapshot_meta *out_meta) {
    if (engine->has_failed || engine->is_taking || engine->is_installing ||
        engine->applied_index <= engine->snapshot.index ||
        engine->applied_index > engine->writes.stored || engine->committed.index == 0) {
        return false;
    }
    struct buffer buffer;
    buffer_init(&buffer);
    raft_config_encode(&buffer, &engine->committed.config);
    struct snapshot_meta *meta = &engine->taking;
    *meta = (struct snapshot_meta){.index = engine->applied_index,
                                   .term = engine->applied_term,
                                   .configuration_index = engine->committed.index,
                                   .configuration_size = buffer.size};
    bool fits = buffer.size <= sizeof meta->configuration;
    if (fits) {
        memcpy(meta->configuration, buffer.data, buffer.size);
        *out_meta = *meta;
    }
    buffer_clear(&buffer);
    engine->is_taking = fits;
    engine->is_taking_stale = false;
    return fits;
}

void raft_engine_snapshot_taken(struct raft_engine *engine, uint64_t size, uint64_t trailing,
                                uint64_t now_ms) {
    if (engine->has_failed || !engine->is_taking) {
        return;
    }
    engine_set_time(engine, now_ms);
    engine->is_taking = false;
    if (engine->is_taking_stale) {
        return;
    }
    engine->taking.size = size;
    engine->snapshot = engine->taking;
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    event.snapshot.metadata.index = engine->snapshot.index;
    event.snapshot.metadata.term = engine->snapshot.term;
    event.snapshot.metadata.configuration_index = engine->snapshot.configuration_index;
    struct raft_config config;
    enum status status = raft_config_decode(
        bytes_of(engine->snapshot.configuration, engine->snapshot.configuration_size), &config);
    assert(status == STATUS_OK);
    event.snapshot.metadata.configuration = engine_config_export(&config);
    event.snapshot.trailing = trailing > UINT_MAX ? UINT_MAX : (unsigned)trailing;
    if (engine_step(engine, &event) == 0 && !engine->has_failed &&
        engine->snapshot.index > event.snapshot.trailing) {
        uint64_t upto = engine->snapshot.index - event.snapshot.trailing;
        log_cache_drop(&engine->log, upto);
        engine->calls.trim(engine->data, upto);
    }
    engine_apply(engine);
}

bool raft_engine_snapshot_is_stale(const struct raft_engine *engine) {
    return engine->is_taking_stale;
}

void raft_engine_snapshot_abandoned(struct raft_engine *engine) {
    engine->is_taking = false;
    engine->is_taking_stale = false;
}

void engine_install_begin(struct raft_engine *engine, struct raft_snapshot_metadata *metadata) {
    engine->is_installing = true;
    engine->install_metadata = *metadata;
    engine->is_taking_stale = engine->is_taking;
    log_cache_reset(&engine->log, metadata->index + 1);
    engine->loaded_index = 0;
    write_order_void(&engine->writes);
    engine->calls.install(engine->data, &engine->installing);
}

void raft_engine_installed(struct raft_engine *engine, uint64_t now_ms) {
    if (engine->has_failed || !engine->is_installing) {
        return;
    }
    engine_set_time(engine, now_ms);
    struct raft_config config;
    enum status status = raft_config_decode(
        bytes_of(engine->installing.configuration, engine->installing.configuration_size), &config);
    assert(status == STATUS_OK);
    engine->snapshot = engine->installing;
    engine->is_installing = false;
    engine->applied_index = engine->snapshot.index;
    engine->applied_term = engine->snapshot.term;
    engine->writes.stored = engine->snapshot.index;
    engine_config_set(&engine->committed, &config, engine->snapshot.configuration_index);
    engine->newest = engine->committed;
    engine->unconfirmed_index = 0;
    engine->is_config_told = false;
    engine->calls.restore(engine->data, &engine->snapshot);
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    event.persisted_snapshot.metadata = engine->install_metadata;
    event.persisted_snapshot.last = true;
    engine->install_metadata.configuration = (struct raft_configuration){0};
    (void)engine_step(engine, &event);
    engine_apply(engine);
}

static struct engine_snapshot_sent *sent_to(struct raft_engine *engine, uint64_t id) {
    struct engine_snapshot_sent *oldest = &engine->sent[0];
    for (size_t i = 0; i < RAFT_CONFIG_SERVERS_MAX; i++) {
        struct engine_snapshot_sent *sent = &engine->sent[i];
        if (sent->to_id == id) {
            return sent;
        }
        if (sent->sent_ms < oldest->sent_ms) {
            oldest = sent;
        }
    }
    return oldest;
}

void engine_send_snapshot(struct raft_engine *engine, uint64_t to_id, uint64_t term) {
    *sent_to(engine, to_id) = (struct engine_snapshot_sent){
        .to_id = to_id, .index = engine->snapshot.index, .sent_ms = engine->now_ms};
    struct raft_message_view view = {.kind = MESSAGE_SNAPSHOT,
                                     .snapshot = {.term = term, .meta = &engine->snapshot}};
    engine->calls.send(engine->data, to_id, &view);
}

uint64_t engine_snapshot_sent_index(const struct raft_engine *engine, uint64_t id,
                                    uint64_t within_ms) {
    for (size_t i = 0; i < RAFT_CONFIG_SERVERS_MAX; i++) {
        const struct engine_snapshot_sent *sent = &engine->sent[i];
        if (sent->to_id == id && engine->now_ms - sent->sent_ms < within_ms) {
            return sent->index;
        }
    }
    return 0;
}
