#include "raft/raft_node.h"

#include "base/clock.h"
#include "base/log.h"
#include "raft/convert.h"
#include "raft/raft_codec.h"
#include "raft/raft_guards.h"
#include "raft/raft_node_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Entries that stay in memory for members that lag a little. */
    RECENT_BYTES_MAX = 8 * 1024 * 1024,
    /* A log on disk that is larger than this is cut, whoever is being caught up. */
    LOG_BYTES_KEPT_MAX = 512 * 1024 * 1024,
    /* And one that is so many times as large as the snapshot. */
    LOG_TO_SNAPSHOT_MAX = 3,
    /* Between two lines in the log about the same trouble. */
    CONTRADICTION_LOG_MS = 10 * 1000
};

/* What a leader may make a follower store. */
#define SNAPSHOT_SIZE_MAX ((uint64_t)64 * 1024 * 1024 * 1024)

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
        snprintf(reason, sizeof reason,
                 status == STATUS_UNSUPPORTED
                     ? "the leader's snapshot was written by a newer release of leased: start that "
                       "release on this member"
                     : "the leader's snapshot cannot be read: %s",
                 status_text(status));
        fail(node, status, reason);
    }
}

static void engine_role_changed(void *data) {
    struct raft_node *node = data;
    node->calls->role_changed(node->data);
    /* Streams of a leader that was; a new leader has none yet. */
    raft_sender_stop_all(node->sender);
    if (raft_engine_role(node->engine) == ENGINE_LEADER) {
        snapshot_receiver_cancel(node->receiver);
    }
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

static const struct raft_engine_calls engine_calls = {.store_vote = engine_store_vote,
                                                      .append = engine_append,
                                                      .install = engine_install,
                                                      .trim = engine_trim,
                                                      .send = engine_send,
                                                      .apply = engine_apply,
                                                      .restore = engine_restore,
                                                      .role_changed = engine_role_changed,
                                                      .configuration_changed =
                                                          engine_configuration_changed,
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
    raft_sender_read_done(node->sender, to_id, items, n);
}

static void storage_snapshot_read(void *data, uint64_t to_id, const struct snapshot_meta *meta,
                                  uint64_t offset, struct bytes chunk) {
    struct raft_node *node = data;
    raft_sender_snapshot_read(node->sender, to_id, meta, offset, chunk);
}

static void restore_if_possible(struct raft_node *node) {
    if (!node->is_restore_due || is_dead(node) || !node->calls->can_restore(node->data)) {
        return;
    }
    node->is_restore_due = false;
    raft_engine_installed(node->engine, clock_boottime_ms());
    buffer_clear(&node->restore_payload);
    snapshot_receiver_installed(node->receiver);
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

/* Were the log cut behind a snapshot that is on its way to a member, or behind what it has got
 * since, the member would need the next snapshot as soon as it has this one, and so on for as long
 * as there is load. A snapshot that is much smaller than the log is the shorter way, though. */
static uint64_t trailing_now(const struct raft_node *node, uint64_t snapshot_size) {
    uint64_t index = node->taking_index;
    uint64_t from = raft_sender_needed_from(node->sender);
    uint64_t log_bytes = raft_storage_log_bytes(node->storage);
    if (from >= index || index - from <= node->trailing ||
        log_bytes > LOG_TO_SNAPSHOT_MAX * snapshot_size || log_bytes > LOG_BYTES_KEPT_MAX) {
        return node->trailing;
    }
    return index - from;
}

static void storage_taken(void *data, uint64_t size) {
    struct raft_node *node = data;
    node->is_taking = false;
    assert(size > 0 || is_dead(node));
    bool is_stale = is_dead(node) || raft_engine_snapshot_is_stale(node->engine);
    if (is_stale && !is_dead(node)) {
        raft_engine_snapshot_abandoned(node->engine);
    }
    node->calls->snapshot_ended(node->data, is_stale ? 0 : size);
    if (!is_stale) {
        raft_engine_snapshot_taken(node->engine, size, trailing_now(node, size),
                                   clock_boottime_ms());
    }
}

static void storage_failed(void *data, enum status status, const char *reason) {
    fail(data, status, reason);
}

static bool storage_check(void *data, struct bytes payload) {
    struct raft_node *node = data;
    return node->calls->check_received(node->data, payload);
}

static void storage_received(void *data) {
    struct raft_node *node = data;
    snapshot_receiver_written(node->receiver, STATUS_OK);
}

static const struct raft_storage_callbacks storage_callbacks = {.written = storage_written,
                                                                .log_read = storage_log_read,
                                                                .snapshot_read =
                                                                    storage_snapshot_read,
                                                                .check = storage_check,
                                                                .received = storage_received,
                                                                .installed = storage_installed,
                                                                .taken = storage_taken,
                                                                .failed = storage_failed};

/* --- What the receiver of snapshots asks for. --- */

static void receiver_begin(void *data, const struct snapshot_meta *meta) {
    struct raft_node *node = data;
    raft_storage_receive_begin(node->storage, meta);
}

static void receiver_append(void *data, uint8_t *bytes, size_t size) {
    struct raft_node *node = data;
    raft_storage_receive_append(node->storage, bytes, size);
}

static void receiver_finish(void *data) {
    struct raft_node *node = data;
    raft_storage_receive_finish(node->storage);
}

static void receiver_abort(void *data) {
    struct raft_node *node = data;
    raft_storage_receive_abort(node->storage);
}

static void receiver_send(void *data, uint64_t to_id,
                          const struct message_snapshot_result *result) {
    struct raft_message_view message = {.kind = MESSAGE_SNAPSHOT_RESULT,
                                        .snapshot_result = *result};
    struct raft_node *node = data;
    message.snapshot_result.term = raft_engine_term(node->engine);
    (void)sender_send(node, to_id, &message);
}

static bool receiver_is_wanted(void *data, const struct snapshot_meta *meta) {
    struct raft_node *node = data;
    return raft_engine_role(node->engine) != ENGINE_LEADER &&
           meta->index > raft_engine_commit_index(node->engine);
}

static bool receiver_complete(void *data, uint64_t from_id, uint64_t term,
                              const struct snapshot_meta *meta) {
    struct raft_node *node = data;
    struct raft_message_view message = {.kind = MESSAGE_SNAPSHOT,
                                        .snapshot = {.term = term, .meta = meta}};
    node->is_install_begun = false;
    if (!raft_storage_received_is_good(node->storage)) {
        log_warning("a snapshot from another member cannot be read, and is not installed",
                    LOG_NUMBER("index", meta->index), LOG_NUMBER("size", meta->size));
        node->calls->unreadable_snapshot(node->data);
        return false;
    }
    (void)raft_engine_receive(node->engine, from_id, &message, clock_boottime_ms());
    return node->is_install_begun;
}

static const struct snapshot_receiver_calls receiver_calls = {.begin = receiver_begin,
                                                              .append = receiver_append,
                                                              .finish = receiver_finish,
                                                              .abort = receiver_abort,
                                                              .send = receiver_send,
                                                              .is_wanted = receiver_is_wanted,
                                                              .complete = receiver_complete};

/* --- Messages. --- */

/* A rejection that is being cured is not raft's business; but its sender was heard. */
static void receive_result(struct raft_node *node, uint64_t from_id,
                           struct raft_message_view *message, uint64_t now_ms) {
    if (!raft_sender_admit_rejection(node->sender, from_id, &message->append_result, now_ms)) {
        message->append_result.rejected = 0;
        message->append_result.last_index = 0;
    }
    (void)raft_engine_receive(node->engine, from_id, message, now_ms);
}

static void receive_chunk(struct raft_node *node, uint64_t from_id,
                          const struct message_snapshot *snapshot, uint64_t now_ms) {
    uint64_t term = raft_engine_term(node->engine);
    if (snapshot->term < term || snapshot->term - term > RAFT_GUARDS_TERM_LEAP_MAX) {
        return;
    }
    enum status status = snapshot_receiver_receive(node->receiver, from_id, snapshot, now_ms);
    if (status == STATUS_REQUEST_TOO_LARGE) {
        log_warning("a snapshot of the leader is too large",
                    LOG_NUMBER("bytes", snapshot->meta->size));
    }
}

static bool are_items_good(struct raft_node *node, const struct message_append *append) {
    for (uint32_t i = 0; i < append->n_entries; i++) {
        if (!node->calls->check(node->data, append->items[i])) {
            return false;
        }
    }
    return true;
}

bool raft_node_receive(struct raft_node *node, uint64_t from_id, struct bytes body) {
    struct raft_message_view message;
    uint64_t now_ms = clock_boottime_ms();
    if (is_dead(node)) {
        return true;
    }
    if (raft_codec_decode(body, &message) != STATUS_OK) {
        return false;
    }
    if (message.kind == MESSAGE_APPEND && !are_items_good(node, &message.append)) {
        raft_codec_clear(&message);
        return false;
    }
    switch (message.kind) {
    case MESSAGE_APPEND_RESULT:
        receive_result(node, from_id, &message, now_ms);
        break;
    case MESSAGE_SNAPSHOT:
        receive_chunk(node, from_id, &message.snapshot, now_ms);
        break;
    case MESSAGE_SNAPSHOT_RESULT:
        raft_sender_on_result(node->sender, from_id, &message.snapshot_result, now_ms);
        break;
    default:
        (void)raft_engine_receive(node->engine, from_id, &message, now_ms);
    }
    raft_codec_clear(&message);
    return true;
}

void raft_node_link_lost(struct raft_node *node, uint64_t id) {
    if (!node->is_closing) {
        raft_sender_link_lost(node->sender, id);
    }
}

/* --- The loop. --- */

void raft_node_complete_writes(struct raft_node *node) {
    raft_storage_poll(node->storage);
}

/* Nothing cures it while this process runs: somebody must be told. */
static void tell_contradictions(struct raft_node *node, uint64_t now_ms) {
    uint64_t n = raft_engine_contradictions(node->engine);
    if (n == node->n_contradictions ||
        (node->contradicted_ms != 0 && now_ms - node->contradicted_ms < CONTRADICTION_LOG_MS)) {
        return;
    }
    node->n_contradictions = n;
    node->contradicted_ms = now_ms;
    log_error("the leader's log contradicts what this node has applied, and is not followed: "
              "somebody else spoke as a leader (are members authenticated?), or data was lost. "
              "Restart this node; if this comes again, remove it and add it with an empty data "
              "directory",
              LOG_NUMBER("messages", n));
}

void raft_node_poll(struct raft_node *node, uint64_t now_ms) {
    if (is_dead(node)) {
        return;
    }
    restore_if_possible(node);
    tell_contradictions(node, now_ms);
    raft_engine_poll(node->engine, now_ms);
    raft_sender_pump(node->sender, now_ms);
    snapshot_receiver_poll(node->receiver, now_ms);
}

uint64_t raft_node_deadline_ms(const struct raft_node *node, uint64_t now_ms) {
    return raft_engine_deadline_ms(node->engine, now_ms);
}

struct raft_engine *raft_node_engine(struct raft_node *node) {
    return node->engine;
}

uint64_t raft_node_disk_bytes(const struct raft_node *node) {
    return raft_storage_disk_bytes(node->storage);
}

void raft_node_timing(const struct raft_node *node, struct latency *out_writes,
                      struct latency *out_syncs, uint64_t *out_bytes,
                      struct latency *out_snapshots) {
    raft_storage_timing(node->storage, out_writes, out_syncs, out_bytes, out_snapshots);
}

bool raft_node_is_sending_snapshot(const struct raft_node *node, uint64_t to_id) {
    return raft_sender_is_transferring_to(node->sender, to_id);
}

bool raft_node_is_receiving_snapshot(const struct raft_node *node, uint64_t from_id) {
    return from_id != 0 && snapshot_receiver_from_id(node->receiver) == from_id;
}

/* --- Our own snapshots. --- */

bool raft_node_take_snapshot(struct raft_node *node, uint64_t trailing) {
    struct snapshot_meta meta;
    if (is_dead(node) || node->is_taking || !raft_engine_snapshot_begin(node->engine, &meta)) {
        return false;
    }
    node->is_taking = true;
    node->taking_index = meta.index;
    node->trailing = trailing;
    struct raft_storage_source source = {.serialise = node->calls->serialise, .data = node->data};
    raft_storage_take(node->storage, &meta, &source);
    return true;
}

bool raft_node_is_taking_snapshot(const struct raft_node *node) {
    return node->is_taking;
}

/* --- Opening. --- */

static enum status start_engine(struct raft_node *node, const struct raft_storage_loaded *loaded,
                                const struct raft_node_options *options, char *out_error,
                                size_t error_size) {
    struct raft_engine_options engine_options = {.self_id = options->self_id,
                                                 .heartbeat_ms = options->heartbeat_ms,
                                                 .election_ms = options->election_ms,
                                                 .seed = options->seed,
                                                 .recent_bytes_max = RECENT_BYTES_MAX};
    struct raft_engine_loaded start = {.term = loaded->term,
                                       .vote = loaded->vote,
                                       .snapshot = &loaded->snapshot,
                                       .first_index = loaded->first_index,
                                       .items = loaded->items,
                                       .n_items = loaded->n_items};
    int error = raft_storage_start(node->storage);
    if (error != 0) {
        return node_explain_io("starting the log", error, out_error, error_size);
    }
    node->sender = raft_sender_create(&sender_calls, node);
    node->receiver = snapshot_receiver_create(&receiver_calls, node, SNAPSHOT_SIZE_MAX);
    node->engine = raft_engine_create(&engine_options, &engine_calls, node);
    return raft_engine_start(node->engine, &start, clock_boottime_ms(), out_error, error_size);
}

enum status raft_node_open(uv_loop_t *loop, const struct raft_node_options *options,
                           const struct raft_node_calls *calls, void *data,
                           struct raft_node **out_node, char *out_error, size_t error_size) {
    enum status status = raft_engine_probe(out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    struct raft_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        abort();
    }
    node->calls = calls;
    node->data = data;
    node->files = options->files;
    buffer_init(&node->restore_payload);
    struct raft_convert_options convert = {.check_snapshot = calls->check_snapshot};
    bool is_converted = false;
    status = raft_convert(&node->files, &convert, &is_converted, out_error, error_size);
    if (status != STATUS_OK) {
        free(node);
        return status;
    }
    if (is_converted) {
        log_info("the data directory was converted from the format of release 0.1");
    }
    struct raft_storage_loaded loaded;
    status = raft_storage_open(loop, &node->files, &storage_callbacks, node, &node->storage,
                               &loaded, out_error, error_size);
    if (status != STATUS_OK) {
        free(node);
        return status;
    }
    status = node_prepare_log(node, &loaded, options, out_error, error_size);
    buffer_clear(&loaded.payload);
    if (status == STATUS_OK) {
        status = start_engine(node, &loaded, options, out_error, error_size);
    }
    raft_storage_loaded_clear(&loaded);
    if (status == STATUS_OK) {
        *out_node = node;
    }
    /* Else the process ends now: threads that were started are left. */
    return status;
}

static void storage_closed(void *data) {
    struct raft_node *node = data;
    void (*closed)(void *closed_data) = node->closed;
    void *closed_data = node->closed_data;
    raft_engine_destroy(node->engine);
    raft_sender_destroy(node->sender);
    snapshot_receiver_destroy(node->receiver);
    buffer_clear(&node->restore_payload);
    free(node);
    closed(closed_data);
}

void raft_node_close(struct raft_node *node, void (*closed)(void *data), void *data) {
    node->is_closing = true;
    node->closed = closed;
    node->closed_data = data;
    raft_storage_close(node->storage, storage_closed, node);
}
