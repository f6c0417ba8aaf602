#include "raft/raft_node.h"

#include "base/clock.h"
#include "raft/raft_codec.h"
#include "raft/raft_sender.h"
#include "raft/raft_storage.h"
#include "raft/snapshot_receiver.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Entries that stay in memory for members that lag a little. */
    RECENT_BYTES_MAX = 8 * 1024 * 1024
};

/* What a leader may make a follower store. */
#define SNAPSHOT_SIZE_MAX ((uint64_t)64 * 1024 * 1024 * 1024)

struct raft_node {
    const struct raft_node_calls *calls;
    void *data;
    uint64_t self_id;
    struct raft_files files;
    struct raft_storage *storage;
    struct raft_engine *engine;
    struct raft_sender *sender;
    struct snapshot_receiver *receiver;
    bool is_closing;
    bool has_failed;
    void (*closed)(void *data);
    void *closed_data;

    /* The snapshot being taken. */
    bool is_taking;
    uint64_t trailing;

    /* One that came from the leader, until the state can be replaced. */
    bool is_install_begun;
    bool is_restore_due;
    struct snapshot_meta restore_meta;
    struct buffer restore_payload;
};

static void fail(struct raft_node *node, enum status status, const char *reason) {
    if (!node->has_failed && !node->is_closing) {
        node->has_failed = true;
        node->calls->failed(node->data, status, reason);
    }
}

static bool is_dead(const struct raft_node *node) {
    return node->is_closing || node->has_failed;
}

/* --- What the engine asks for. --- */

static enum status engine_store_vote(void *data, uint64_t term, uint64_t vote) {
    struct raft_node *node = data;
    int error = raft_storage_store_vote(node->storage, term, vote);
    if (error == 0) {
        return STATUS_OK;
    }
    char reason[256];
    snprintf(reason, sizeof reason, "writing the term and the vote failed: %s", strerror(error));
    enum status status = raft_storage_status(error);
    fail(node, status, reason);
    return status;
}

static void engine_append(void *data, struct log_item *const *items, size_t n) {
    struct raft_node *node = data;
    raft_storage_append(node->storage, items, n);
}

static void engine_install(void *data, const struct snapshot_meta *meta) {
    struct raft_node *node = data;
    node->is_install_begun = true;
    raft_storage_install(node->storage, meta);
}

static void engine_trim(void *data, uint64_t upto) {
    struct raft_node *node = data;
    raft_storage_trim(node->storage, upto);
}

static void engine_send(void *data, uint64_t to_id, const struct raft_message_view *message) {
    struct raft_node *node = data;
    raft_sender_post(node->sender, to_id, message, clock_boottime_ms());
}

static void engine_apply(void *data, const struct log_item *item) {
    struct raft_node *node = data;
    node->calls->apply(node->data, item);
}

static void engine_restore(void *data, const struct snapshot_meta *meta) {
    struct raft_node *node = data;
    assert(meta->index == node->restore_meta.index);
    enum status status = node->calls->restore(
        node->data, bytes_of(node->restore_payload.data, node->restore_payload.size));
    if (status != STATUS_OK) {
        char reason[256];
        snprintf(reason, sizeof reason, "the leader's snapshot cannot be read: %s",
                 status_text(status));
        fail(node, STATUS_CORRUPT, reason);
    }
}

static void engine_role_changed(void *data) {
    struct raft_node *node = data;
    node->calls->role_changed(node->data);
    /* Streams of a leader that was; a new leader has none yet. */
    raft_sender_stop_all(node->sender);
}

static void engine_configuration_changed(void *data) {
    struct raft_node *node = data;
    node->calls->configuration_changed(node->data);
}

static bool engine_may_vote(void *data, uint64_t candidate_id) {
    struct raft_node *node = data;
    return node->calls->may_vote(node->data, candidate_id);
}

static bool engine_is_leaderless(void *data) {
    struct raft_node *node = data;
    return node->calls->is_leaderless(node->data);
}

static void engine_failed(void *data, const char *reason) {
    fail(data, STATUS_CORRUPT, reason);
}

static const struct raft_engine_calls engine_calls = {
    .store_vote = engine_store_vote,
    .append = engine_append,
    .install = engine_install,
    .trim = engine_trim,
    .send = engine_send,
    .apply = engine_apply,
    .restore = engine_restore,
    .role_changed = engine_role_changed,
    .configuration_changed = engine_configuration_changed,
    .may_vote = engine_may_vote,
    .is_leaderless = engine_is_leaderless,
    .failed = engine_failed};

/* --- What the sender asks for. --- */

static size_t sender_room(void *data, uint64_t to_id) {
    struct raft_node *node = data;
    return node->calls->room(node->data, to_id);
}

/* Entries and chunks wait for room; everything else is small and must not wait behind them. */
static bool is_urgent(const struct raft_message_view *message) {
    return message->kind != MESSAGE_SNAPSHOT &&
           (message->kind != MESSAGE_APPEND || message->append.n_entries == 0);
}

static bool sender_send(void *data, uint64_t to_id, const struct raft_message_view *message) {
    struct raft_node *node = data;
    struct buffer *buffer = node->calls->frame_begin(node->data, to_id, is_urgent(message));
    if (buffer == NULL) {
        return false;
    }
    raft_codec_encode(buffer, message);
    node->calls->frame_end(node->data, to_id);
    return true;
}

static struct log_item *sender_item(void *data, uint64_t index) {
    struct raft_node *node = data;
    return raft_engine_item(node->engine, index);
}

static void sender_read_log(void *data, uint64_t to_id, uint64_t first, uint64_t last,
                            size_t bytes_max) {
    struct raft_node *node = data;
    raft_storage_read_log(node->storage, to_id, first, last, bytes_max);
}

static void sender_read_snapshot(void *data, uint64_t to_id, uint64_t index, uint64_t term,
                                 uint64_t offset) {
    struct raft_node *node = data;
    raft_storage_read_snapshot(node->storage, to_id, index, term, offset);
}

static const struct raft_sender_calls sender_calls = {.room = sender_room,
                                                      .send = sender_send,
                                                      .item = sender_item,
                                                      .read_log = sender_read_log,
                                                      .read_snapshot = sender_read_snapshot};

/* --- What the disk has done. --- */

static void storage_written(void *data) {
    struct raft_node *node = data;
    if (!is_dead(node)) {
        raft_engine_written(node->engine, clock_boottime_ms());
    }
}

static void storage_log_read(void *data, uint64_t to_id, struct log_item **items, size_t n) {
    struct raft_node *node = data;
    raft_sender_read_done(node->sender, to_id, items, n, clock_boottime_ms());
}

static void storage_snapshot_read(void *data, uint64_t to_id, const struct snapshot_meta *meta,
                                  uint64_t offset, struct bytes chunk) {
    struct raft_node *node = data;
    raft_sender_snapshot_read(node->sender, to_id, meta, offset, chunk, clock_boottime_ms());
}

static void restore_if_possible(struct raft_node *node) {
    if (!node->is_restore_due || is_dead(node) || !node->calls->can_restore(node->data)) {
        return;
    }
    node->is_restore_due = false;
    raft_engine_installed(node->engine, clock_boottime_ms());
    buffer_clear(&node->restore_payload);
}

static void storage_installed(void *data, const struct snapshot_meta *meta,
                              struct buffer *payload) {
    struct raft_node *node = data;
    node->restore_meta = *meta;
    node->restore_payload = *payload;
    buffer_init(payload);
    node->is_install_begun = false;
    node->is_restore_due = true;
    restore_if_possible(node);
}

static void storage_taken(void *data, uint64_t size) {
    struct raft_node *node = data;
    node->is_taking = false;
    bool is_stale = is_dead(node) || raft_engine_snapshot_is_stale(node->engine);
    if (is_stale && !is_dead(node)) {
        raft_engine_snapshot_abandoned(node->engine);
    }
    node->calls->snapshot_ended(node->data, is_stale ? 0 : size);
    if (!is_stale) {
        raft_engine_snapshot_taken(node->engine, size, node->trailing, clock_boottime_ms());
    }
}

static void storage_failed(void *data, enum status status, const char *reason) {
    fail(data, status, reason);
}
