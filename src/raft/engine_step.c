/* A step of raft, and carrying out its update in the one order that is safe: term and vote, the
 * log, change of role, messages, and commits last. */
#include "raft/raft_engine_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static bool store_vote(struct raft_engine *engine) {
    enum status status = engine->calls.store_vote(engine->data, raft_current_term(&engine->raft),
                                                  raft_voted_for(&engine->raft));
    if (status != STATUS_OK) {
        engine_fail(engine, "the term and the vote could not be stored");
        return false;
    }
    return true;
}

/* The item that raft names by its index: one of those that it was given, or a barrier of its own.
 */
static struct log_item *item_of(struct raft_engine *engine, const struct raft_entry *entry,
                                uint64_t index) {
    if (engine->n_feeding > 0) {
        if (index < engine->feeding_first || index - engine->feeding_first >= engine->n_feeding) {
            return NULL;
        }
        return log_item_reference(engine->feeding[index - engine->feeding_first]);
    }
    return entry->type == RAFT_BARRIER ? log_item_create(LOG_BARRIER, index, entry->term, NULL, 0)
                                       : NULL;
}

static bool truncate_log(struct raft_engine *engine, uint64_t index) {
    uint64_t last = log_cache_last(&engine->log);
    if (index > last + 1 || index <= engine->applied_index || index < engine->log.first) {
        engine_fail(engine, "libraft put entries where they cannot be");
        return false;
    }
    if (index <= last) {
        log_cache_truncate(&engine->log, index);
        if (engine->loaded_index >= index) {
            engine->loaded_index = index - 1;
        }
        write_order_truncate(&engine->writes, index);
        engine_config_truncate(engine, index);
    }
    return true;
}

static void append_entries(struct raft_engine *engine, const struct raft_update *update) {
    uint64_t first = update->entries.index;
    unsigned n = update->entries.n;
    if (!truncate_log(engine, first)) {
        return;
    }
    struct log_item **items = malloc(n * sizeof(struct log_item *));
    if (items == NULL) {
        abort();
    }
    unsigned k = 0;
    while (k < n) {
        struct log_item *item =
            item_of(engine, engine->n_feeding > 0 ? NULL : &update->entries.batch[k], first + k);
        if (item == NULL) {
            break;
        }
        items[k++] = item;
        log_cache_append(&engine->log, item);
        if (item->type == LOG_CHANGE) {
            engine_config_append(engine, item);
        }
    }
    if (k == n) {
        write_order_begin(&engine->writes, first, first + n - 1);
        engine->calls.append(engine->data, items, n);
    } else {
        for (unsigned i = 0; i < k; i++) {
            log_item_release(items[i]);
        }
        engine_fail(engine, "libraft named entries that it was not given");
    }
    free(items);
}

static void send_append(struct raft_engine *engine, uint64_t to_id,
                        const struct raft_append_entries *append) {
    struct raft_message_view view = {.kind = MESSAGE_APPEND,
                                     .append = {.term = append->term,
                                                .prev_index = append->prev_log_index,
                                                .prev_term = append->prev_log_term,
                                                .commit = append->leader_commit,
                                                .n_entries = append->n_entries}};
    engine->calls.send(engine->data, to_id, &view);
}

static void send_append_result(struct raft_engine *engine, uint64_t to_id,
                               const struct raft_append_entries_result *result) {
    struct raft_message_view view = {.kind = MESSAGE_APPEND_RESULT,
                                     .append_result = {.term = result->term,
                                                       .rejected = result->rejected,
                                                       .last_index = result->last_log_index}};
    engine->calls.send(engine->data, to_id, &view);
}

static void send_vote(struct raft_engine *engine, uint64_t to_id,
                      const struct raft_request_vote *vote) {
    engine->is_pre_voting = vote->pre_vote;
    engine_send_vote(engine, to_id,
                     (struct message_vote){.term = vote->term,
                                           .last_index = vote->last_log_index,
                                           .last_term = vote->last_log_term,
                                           .disrupt_leader = vote->disrupt_leader,
                                           .is_pre_vote = vote->pre_vote});
}

static void send_vote_result(struct raft_engine *engine, uint64_t to_id,
                             const struct raft_request_vote_result *result) {
    engine_send_vote_result(engine, to_id,
                            (struct message_vote_result){.term = result->term,
                                                         .is_granted = result->vote_granted,
                                                         .is_pre_vote = result->pre_vote});
}

static void send_timeout_now(struct raft_engine *engine, uint64_t to_id,
                             const struct raft_timeout_now *timeout_now) {
    struct raft_message_view view = {.kind = MESSAGE_TIMEOUT_NOW,
                                     .timeout_now = {.term = timeout_now->term,
                                                     .last_index = timeout_now->last_log_index,
                                                     .last_term = timeout_now->last_log_term}};
    engine->calls.send(engine->data, to_id, &view);
}

static void send_message(struct raft_engine *engine, const struct raft_message *message) {
    uint64_t to_id = message->server_id;
    if (to_id == ENGINE_NOBODY_ID) {
        return;
    }
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        send_append(engine, to_id, &message->append_entries);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        send_append_result(engine, to_id, &message->append_entries_result);
        break;
    case RAFT_REQUEST_VOTE:
        send_vote(engine, to_id, &message->request_vote);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        send_vote_result(engine, to_id, &message->request_vote_result);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        if (message->install_snapshot.last_index != engine->snapshot.index) {
            engine_fail(engine, "libraft wants to send a snapshot that is not the newest");
            break;
        }
        engine_send_snapshot(engine, to_id, message->install_snapshot.term);
        break;
    case RAFT_TIMEOUT_NOW:
        send_timeout_now(engine, to_id, &message->timeout_now);
        break;
    }
}

/* What only libraft can break. */
static void check_expectations(struct raft_engine *engine) {
    if (raft_last_index(&engine->raft) != log_cache_last(&engine->log)) {
        engine_fail(engine, "libraft's log is not the one in memory");
    } else if (!engine->is_installing && raft_commit_index(&engine->raft) < engine->applied_index) {
        engine_fail(engine, "libraft's commit index is below what is applied");
    }
}

static void tell_changes(struct raft_engine *engine) {
    enum raft_engine_role role = raft_engine_role(engine);
    uint64_t term = raft_current_term(&engine->raft);
    uint64_t leader_id = raft_engine_leader_id(engine);
    if (role != engine->told_role || term != engine->told_term ||
        leader_id != engine->told_leader_id) {
        engine->told_role = role;
        engine->told_term = term;
        engine->told_leader_id = leader_id;
        engine->calls.role_changed(engine->data);
    }
    if (!engine->is_config_told) {
        engine->is_config_told = true;
        engine->calls.configuration_changed(engine->data);
    }
}

static void carry_out(struct raft_engine *engine, struct raft_update *update) {
    if ((update->flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) != 0 &&
        !store_vote(engine)) {
        return;
    }
    if ((update->flags & RAFT_UPDATE_ENTRIES) != 0) {
        append_entries(engine, update);
    }
    if ((update->flags & RAFT_UPDATE_SNAPSHOT) != 0) {
        engine_install_begin(engine, &update->snapshot.metadata);
    }
    if (!engine->has_failed) {
        check_expectations(engine);
    }
    if (engine->has_failed) {
        return;
    }
    tell_changes(engine);
    if ((update->flags & RAFT_UPDATE_MESSAGES) != 0) {
        for (unsigned i = 0; i < update->messages.n && !engine->has_failed; i++) {
            send_message(engine, &update->messages.batch[i]);
        }
    }
}

/* Raft draws how long it waits when it becomes follower or candidate, and when it was due. */
static void stagger(struct raft_engine *engine, const struct raft_event *event,
                    const struct raft_update *update) {
    if (event->type == RAFT_TIMEOUT || (update->flags & RAFT_UPDATE_STATE) != 0) {
        election_stagger_forget(&engine->stagger);
    }
    uint64_t leader_id =
        raft_engine_role(engine) == ENGINE_FOLLOWER ? raft_engine_leader_id(engine) : 0;
    election_stagger_apply(&engine->stagger, &engine->raft, &engine->newest.config,
                           engine->options.self_id, leader_id);
}

int engine_step(struct raft_engine *engine, struct raft_event *event) {
    struct raft_update update = {0};
    event->time = engine->now_ms;
    event->capacity = 0;
    int rv = raft_step(&engine->raft, event, &update);
    if (rv != 0) {
        if (event->type != RAFT_SUBMIT && event->type != RAFT_TRANSFER) {
            char reason[128];
            snprintf(reason, sizeof reason, "libraft failed at an event of type %d: %s",
                     (int)event->type, raft_strerror(rv));
            engine_fail(engine, reason);
        }
        return rv;
    }
    void *batch = (update.flags & RAFT_UPDATE_ENTRIES) != 0 ? update.entries.batch[0].batch : NULL;
    carry_out(engine, &update);
    raft_free(batch);
    if (!engine->has_failed) {
        stagger(engine, event, &update);
    }
    return 0;
}

void engine_apply(struct raft_engine *engine) {
    if (engine->is_applying) {
        return;
    }
    engine->is_applying = true;
    /* While a snapshot is being installed the commit index is ahead of the disk. */
    while (!engine->has_failed && !engine->is_installing &&
           engine->applied_index < raft_commit_index(&engine->raft)) {
        struct log_item *item = log_cache_get(&engine->log, engine->applied_index + 1);
        if (item == NULL) {
            engine_fail(engine, "a committed entry is not in the log");
            break;
        }
        log_item_reference(item);
        engine->applied_index = item->index;
        engine->applied_term = item->term;
        if (item->type == LOG_CHANGE) {
            engine_config_commit(engine, item);
        }
        if (!engine->has_failed) {
            engine->calls.apply(engine->data, item);
        }
        log_item_release(item);
    }
    engine->is_applying = false;
    uint64_t stored = engine->writes.stored;
    log_cache_shrink(&engine->log, engine->options.recent_bytes_max,
                     stored < engine->applied_index ? stored : engine->applied_index);
}

int engine_submit(struct raft_engine *engine, struct log_item *const *items, size_t n) {
    if (!raft_guards_may_submit(items, n)) {
        return RAFT_INVALID;
    }
    struct raft_entry *entries = calloc(n, sizeof *entries);
    void *batch = raft_malloc(1);
    if (entries == NULL || batch == NULL) {
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        entries[i].term = items[i]->term;
        entries[i].type = (enum raft_entry_type)items[i]->type;
        entries[i].buf = (struct raft_buffer){.base = items[i]->bytes, .len = items[i]->size};
        entries[i].batch = batch;
    }
    struct raft_event event = {.type = RAFT_SUBMIT};
    event.submit.entries = entries;
    event.submit.n = (unsigned)n;
    engine->feeding = items;
    engine->feeding_first = items[0]->index;
    engine->n_feeding = n;
    int rv = engine_step(engine, &event);
    engine->n_feeding = 0;
    if (rv != 0) {
        raft_free(batch);
        check_expectations(engine);
    }
    free(entries);
    return rv;
}
