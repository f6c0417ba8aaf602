/* Messages of other members, through the guards into raft. */
#include "raft/raft_engine_internal.h"

#include <stdlib.h>

enum { INSTALL_PATIENCE_MS = 30 * 1000 };

/* libraft keeps a leader's address; nobody asks for it. */
static const char *address_of(const struct raft_engine *engine, uint64_t id) {
    const struct raft_config_server *server = raft_config_find(&engine->newest.config, id);
    return server != NULL ? server->address : "-";
}

struct raft_message engine_message_from(const struct raft_engine *engine, uint64_t from_id,
                                        enum raft_message_type type) {
    return (struct raft_message){
        .type = type, .server_id = from_id, .server_address = address_of(engine, from_id)};
}

void engine_feed(struct raft_engine *engine, struct raft_message *message) {
    struct raft_event event = {.type = RAFT_RECEIVE};
    event.receive.message = message;
    (void)engine_step(engine, &event);
    engine_apply(engine);
}

/* --- Entries. --- */

/* Gives raft the first n entries. It frees the batch, or names it in its update: it is a byte of no
 * meaning, and the entries' bytes stay where they are. */
static void feed_append(struct raft_engine *engine, uint64_t from_id,
                        const struct message_append *append, size_t n) {
    struct raft_entry *entries = NULL;
    if (n > 0) {
        entries = calloc(n, sizeof *entries);
        void *batch = raft_malloc(1);
        if (entries == NULL || batch == NULL) {
            abort();
        }
        for (size_t i = 0; i < n; i++) {
            const struct log_item *item = append->items[i];
            entries[i].term = item->term;
            entries[i].type = (enum raft_entry_type)item->type;
            entries[i].buf = (struct raft_buffer){.base = item->bytes, .len = item->size};
            entries[i].batch = batch;
        }
    }
    struct raft_message message = engine_message_from(engine, from_id, RAFT_APPEND_ENTRIES);
    message.append_entries = (struct raft_append_entries){
        .term = append->term,
        .prev_log_index = append->prev_index,
        .prev_log_term = append->prev_term,
        .leader_commit = raft_guards_clamp_commit(append->commit, append->prev_index, n),
        .entries = entries,
        .n_entries = (unsigned)n};
    engine->leader_term = append->term;
    engine->heard_ms = engine->now_ms;
    engine->feeding = append->items;
    engine->feeding_first = append->prev_index + 1;
    engine->n_feeding = n;
    struct raft_event event = {.type = RAFT_RECEIVE};
    event.receive.message = &message;
    (void)engine_step(engine, &event);
    engine->n_feeding = 0;
    free(entries);
    engine_apply(engine);
}

/* libraft decodes a configuration without looking for its end. */
static bool has_sound_changes(const struct message_append *append) {
    for (uint32_t i = 0; i < append->n_entries; i++) {
        const struct log_item *item = append->items[i];
        struct raft_config config;
        if (item->type == LOG_CHANGE &&
            raft_config_decode(bytes_of(item->bytes, item->size), &config) != STATUS_OK) {
            return false;
        }
    }
    return true;
}

static uint64_t term_of(const struct raft_engine *engine, uint64_t index) {
    if (index == engine->applied_index) {
        return engine->applied_term;
    }
    const struct log_item *item = log_cache_get(&engine->log, index);
    return item != NULL ? item->term : 0;
}

static bool is_new_change(const struct raft_engine *engine, const struct message_append *append) {
    const struct log_item *item = append->n_entries > 0 ? append->items[0] : NULL;
    return item != NULL && item->type == LOG_CHANGE && term_of(engine, item->index) != item->term &&
           term_of(engine, append->prev_index) == append->prev_term;
}

/* Portion by portion: what is committed of one is applied before the next. */
static void feed_portions(struct raft_engine *engine, uint64_t from_id,
                          struct message_append append) {
    for (;;) {
        size_t n = raft_guards_portion(append.items, append.n_entries);
        if (is_new_change(engine, &append) && engine->unconfirmed_index < append.items[0]->index) {
            engine_config_confirm(engine);
        }
        if (engine->has_failed) {
            return;
        }
        feed_append(engine, from_id, &append, n);
        bool is_refused =
            n > 0 && term_of(engine, append.prev_index + n) != append.items[n - 1]->term;
        if (n == append.n_entries || is_refused || engine->has_failed || engine->is_installing ||
            raft_current_term(&engine->raft) != append.term ||
            raft_engine_role(engine) != ENGINE_FOLLOWER) {
            return;
        }
        append.prev_index += n;
        append.prev_term = append.items[n - 1]->term;
        append.items += n;
        append.n_entries -= (uint32_t)n;
    }
}

static bool is_contradicted(const struct raft_engine *engine, uint64_t index, uint64_t term) {
    uint64_t known = index <= engine->applied_index ? term_of(engine, index) : 0;
    return known != 0 && known != term;
}

/* What is applied is committed, and every later leader has it. One who has something else is no
 * leader, or was not when this was applied. */
static bool contradicts(const struct raft_engine *engine, const struct message_append *append) {
    if (is_contradicted(engine, append->prev_index, append->prev_term)) {
        return true;
    }
    for (uint32_t i = 0; i < append->n_entries; i++) {
        if (is_contradicted(engine, append->items[i]->index, append->items[i]->term)) {
            return true;
        }
    }
    return false;
}

static void send_refusal(struct raft_engine *engine, uint64_t to_id, uint64_t index) {
    struct raft_guards_view view = engine_view(engine);
    struct raft_message_view message = {.kind = MESSAGE_APPEND_RESULT,
                                        .append_result = raft_guards_refusal(&view, index)};
    engine->calls.send(engine->data, to_id, &message);
}

static void receive_append(struct raft_engine *engine, uint64_t from_id,
                           const struct message_append *received) {
    struct raft_guards_view view = engine_view(engine);
    struct message_append append = *received;
    if (raft_guards_is_of_old_term(&view, append.term)) {
        send_refusal(engine, from_id, append.prev_index);
        return;
    }
    const struct log_item *first = log_cache_get(&engine->log, 1);
    if (!raft_guards_admit_append(&view, &append, first != NULL ? first->term : 0) ||
        !has_sound_changes(&append)) {
        return;
    }
    if (engine->is_installing) {
        if (append.prev_index == engine->installing.index &&
            append.prev_term != engine->installing.term) {
            return;
        }
        /* raft would drop the entries; the leader must go on hearing from us. */
        feed_append(engine, from_id, &append, 0);
        return;
    }
    /* libraft gives up at a message that contradicts what is committed. */
    if (raft_guards_is_on(GUARD_PREFIX) && contradicts(engine, &append)) {
        engine->n_contradictions++;
        return;
    }
    raft_guards_move_prefix(&view, &append);
    if ((append.prev_index == view.applied_index && append.prev_term != view.applied_term) ||
        (append.n_entries > 0 && append.items[0]->term < append.prev_term)) {
        engine->n_contradictions++;
        return;
    }
    feed_portions(engine, from_id, append);
}

static void feed_append_result(struct raft_engine *engine, uint64_t from_id,
                               const struct message_append_result *result) {
    struct raft_message message = engine_message_from(engine, from_id, RAFT_APPEND_ENTRIES_RESULT);
    message.append_entries_result =
        (struct raft_append_entries_result){.version = 2,
                                            .term = result->term,
                                            .rejected = result->rejected,
                                            .last_log_index = result->last_index};
    engine_feed(engine, &message);
}

/* Heartbeats to a member that waits for a snapshot name the newest one. libraft looks for
 * rejections of that which it sent, and would not see that it is lost: it is given one. Not while
 * the member, by what it says it has, may be installing it. */
static void reject_older_snapshot(struct raft_engine *engine, uint64_t from_id,
                                  const struct message_append_result *received) {
    uint64_t sent_index = engine_snapshot_sent_index(engine, from_id, UINT64_MAX);
    if (engine->has_failed || !engine_is_leader(engine) || received->rejected == 0 ||
        received->rejected != engine->snapshot.index || sent_index >= received->rejected ||
        sent_index <= raft_engine_match_index(engine, from_id)) {
        return;
    }
    struct message_append_result result = *received;
    if (result.last_index >= sent_index) {
        if (engine_snapshot_sent_index(engine, from_id, INSTALL_PATIENCE_MS) == sent_index) {
            return;
        }
        result.last_index = sent_index - 1;
    }
    result.rejected = sent_index;
    feed_append_result(engine, from_id, &result);
}

static void receive_append_result(struct raft_engine *engine, uint64_t from_id,
                                  const struct message_append_result *received) {
    struct raft_guards_view view = engine_view(engine);
    struct message_append_result result = *received;
    if (!raft_guards_admit_append_result(
            &view, from_id, raft_engine_match_index(engine, from_id),
            engine_snapshot_sent_index(engine, from_id, engine->options.election_ms), &result)) {
        return;
    }
    feed_append_result(engine, from_id, &result);
    reject_older_snapshot(engine, from_id, &result);
}

/* --- Snapshots. --- */

static bool is_sound_snapshot(const struct message_snapshot *snapshot) {
    const struct snapshot_meta *meta = snapshot->meta;
    struct raft_config config;
    return meta != NULL && meta->index > 0 && meta->term > 0 && meta->term <= snapshot->term &&
           meta->configuration_index > 0 && meta->configuration_index <= meta->index &&
           meta->configuration_size <= sizeof meta->configuration &&
           raft_config_decode(bytes_of(meta->configuration, meta->configuration_size), &config) ==
               STATUS_OK;
}

static bool receive_snapshot(struct raft_engine *engine, uint64_t from_id,
                             const struct message_snapshot *snapshot) {
    struct raft_guards_view view = engine_view(engine);
    if (!is_sound_snapshot(snapshot)) {
        return false;
    }
    const struct snapshot_meta *meta = snapshot->meta;
    if (raft_guards_is_of_old_term(&view, snapshot->term)) {
        send_refusal(engine, from_id, meta->index);
        return false;
    }
    if (!raft_guards_admit_snapshot(&view, snapshot->term)) {
        return false;
    }
    if (!engine->is_installing && meta->index <= engine->applied_index) {
        /* All of it is here. The answer says so. */
        struct message_append heartbeat = {.term = snapshot->term,
                                           .prev_index = engine->applied_index,
                                           .prev_term = engine->applied_term};
        feed_append(engine, from_id, &heartbeat, 0);
        return false;
    }
    if (!engine->is_installing) {
        engine->installing = *meta;
    }
    struct raft_config config;
    (void)raft_config_decode(bytes_of(meta->configuration, meta->configuration_size), &config);
    struct raft_message message = engine_message_from(engine, from_id, RAFT_INSTALL_SNAPSHOT);
    message.install_snapshot =
        (struct raft_install_snapshot){.term = snapshot->term,
                                       .last_index = meta->index,
                                       .last_term = meta->term,
                                       .conf = engine_config_export(&config),
                                       .conf_index = meta->configuration_index};
    engine->leader_term = snapshot->term;
    engine->heard_ms = engine->now_ms;
    engine_feed(engine, &message);
    return engine->is_installing;
}

/* --- All of them. --- */

static uint64_t term_of_message(const struct raft_message_view *message) {
    switch (message->kind) {
    case MESSAGE_APPEND:
        return message->append.term;
    case MESSAGE_APPEND_RESULT:
        return message->append_result.term;
    case MESSAGE_VOTE:
        return message->vote.term;
    case MESSAGE_VOTE_RESULT:
        return message->vote_result.term;
    case MESSAGE_TIMEOUT_NOW:
        return message->timeout_now.term;
    case MESSAGE_SNAPSHOT:
        return message->snapshot.term;
    case MESSAGE_SNAPSHOT_RESULT:
        return message->snapshot_result.term;
    }
    return 0;
}

bool raft_engine_receive(struct raft_engine *engine, uint64_t from_id,
                         const struct raft_message_view *message, uint64_t now_ms) {
    struct raft_guards_view view = engine_view(engine);
    bool is_snapshot = message->kind == MESSAGE_SNAPSHOT;
    if (engine->has_failed || from_id == 0 || from_id == engine->options.self_id ||
        from_id == ENGINE_NOBODY_ID || !raft_guards_admit_term(&view, term_of_message(message))) {
        return !is_snapshot;
    }
    engine_set_time(engine, now_ms);
    bool is_wanted = true;
    switch (message->kind) {
    case MESSAGE_APPEND:
        receive_append(engine, from_id, &message->append);
        break;
    case MESSAGE_APPEND_RESULT:
        receive_append_result(engine, from_id, &message->append_result);
        break;
    case MESSAGE_VOTE:
        engine_receive_vote(engine, from_id, &message->vote);
        break;
    case MESSAGE_VOTE_RESULT:
        engine_receive_vote_result(engine, from_id, &message->vote_result);
        break;
    case MESSAGE_TIMEOUT_NOW:
        engine_receive_timeout_now(engine, from_id, &message->timeout_now);
        break;
    case MESSAGE_SNAPSHOT:
        is_wanted = receive_snapshot(engine, from_id, &message->snapshot);
        break;
    case MESSAGE_SNAPSHOT_RESULT:
        break; /* the sender's */
    }
    engine_members_poll(engine);
    return is_wanted;
}
