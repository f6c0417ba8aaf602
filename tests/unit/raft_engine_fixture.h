/* One engine, with everything it asks for written down. */
#ifndef LEASED_TESTS_RAFT_ENGINE_FIXTURE_H
#define LEASED_TESTS_RAFT_ENGINE_FIXTURE_H

#include "raft/raft_engine_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIXTURE_HEARTBEAT_MS = 100,
    FIXTURE_ELECTION_MS = 1000,
    FIXTURE_START_MS = 1000,
    FIXTURE_SENT_MAX = 4096
};

struct fixture_sent {
    uint64_t to_id;
    struct raft_message_view view;
};

struct fixture {
    struct raft_engine *engine;
    uint64_t now_ms;
    bool is_holding; /* a promise not to vote stands */
    bool is_leaderless;
    bool fails_to_store;
    uint64_t term;
    uint64_t vote;
    size_t n_votes_stored;
    size_t n_writes; /* under way */
    uint64_t written_last;
    uint64_t trimmed_upto;
    size_t n_installs;
    uint64_t installing_index;
    uint64_t restored_index;
    uint64_t applied_index;
    size_t n_role_changes;
    size_t n_sent_at_role_change;
    size_t n_configuration_changes;
    bool has_failed;
    char reason[128];
    bool proposes_in_apply;
    size_t n_sent;
    struct fixture_sent sent[FIXTURE_SENT_MAX];
};

static struct fixture fixture;

static enum status fixture_store_vote(void *data, uint64_t term, uint64_t vote) {
    struct fixture *f = data;
    f->term = term;
    f->vote = vote;
    f->n_votes_stored++;
    return f->fails_to_store ? STATUS_IO : STATUS_OK;
}

static void fixture_append(void *data, struct log_item *const *items, size_t n) {
    struct fixture *f = data;
    f->n_writes++;
    f->written_last = items[n - 1]->index;
    for (size_t i = 0; i < n; i++) {
        log_item_release(items[i]);
    }
}

static void fixture_install(void *data, const struct snapshot_meta *meta) {
    struct fixture *f = data;
    f->n_installs++;
    f->installing_index = meta->index;
}

static void fixture_trim(void *data, uint64_t upto) {
    struct fixture *f = data;
    f->trimmed_upto = upto;
}

static void fixture_send(void *data, uint64_t to_id, const struct raft_message_view *view) {
    struct fixture *f = data;
    if (f->n_sent == FIXTURE_SENT_MAX) {
        abort();
    }
    f->sent[f->n_sent++] = (struct fixture_sent){.to_id = to_id, .view = *view};
}

static void fixture_apply(void *data, const struct log_item *item) {
    struct fixture *f = data;
    f->applied_index = item->index;
    if (f->proposes_in_apply) {
        f->proposes_in_apply = false;
        if (raft_engine_propose(f->engine, calloc(1, 8), 8, f->now_ms) != STATUS_OK) {
            abort();
        }
    }
}

static void fixture_restore(void *data, const struct snapshot_meta *meta) {
    struct fixture *f = data;
    f->restored_index = meta->index;
}

static void fixture_role_changed(void *data) {
    struct fixture *f = data;
    f->n_role_changes++;
    f->n_sent_at_role_change = f->n_sent;
}

static void fixture_configuration_changed(void *data) {
    struct fixture *f = data;
    f->n_configuration_changes++;
}

static bool fixture_may_vote(void *data, uint64_t candidate_id) {
    const struct fixture *f = data;
    (void)candidate_id;
    return !f->is_holding;
}

static bool fixture_is_leaderless(void *data) {
    const struct fixture *f = data;
    return f->is_leaderless;
}

static void fixture_failed(void *data, const char *reason) {
    struct fixture *f = data;
    f->has_failed = true;
    snprintf(f->reason, sizeof f->reason, "%s", reason);
}

static const struct raft_engine_calls fixture_calls = {
    .store_vote = fixture_store_vote,
    .append = fixture_append,
    .install = fixture_install,
    .trim = fixture_trim,
    .send = fixture_send,
    .apply = fixture_apply,
    .restore = fixture_restore,
    .role_changed = fixture_role_changed,
    .configuration_changed = fixture_configuration_changed,
    .may_vote = fixture_may_vote,
    .is_leaderless = fixture_is_leaderless,
    .failed = fixture_failed,
};

/* A configuration in a word: "VVbs-" are two voters, a standby, a spare, and no server 5. */
static inline struct raft_config fixture_config(const char *roles) {
    struct raft_config config = {0};
    for (uint64_t i = 0; roles[i] != 0; i++) {
        char address[16];
        snprintf(address, sizeof address, "n%u", (unsigned)i + 1);
        if (roles[i] != '-') {
            raft_config_add(&config, i + 1, address,
                            roles[i] == 'V'   ? CONFIG_VOTER
                            : roles[i] == 's' ? CONFIG_SPARE
                                              : CONFIG_STANDBY);
        }
    }
    return config;
}

static inline struct log_item *fixture_change(uint64_t index, uint64_t term, const char *roles) {
    struct raft_config config = fixture_config(roles);
    struct buffer buffer;
    buffer_init(&buffer);
    raft_config_encode(&buffer, &config);
    return log_item_create(LOG_CHANGE, index, term, buffer.data, buffer.size);
}

static inline struct log_item *fixture_command(uint64_t index, uint64_t term) {
    return log_item_create(LOG_COMMAND, index, term, calloc(1, 8), 8);
}

static inline struct snapshot_meta fixture_meta(uint64_t index, uint64_t term,
                                                uint64_t configuration_index, const char *roles) {
    struct snapshot_meta meta = {
        .index = index, .term = term, .configuration_index = configuration_index};
    struct log_item *item = fixture_change(1, 1, roles);
    meta.configuration_size = item->size;
    memcpy(meta.configuration, item->bytes, item->size);
    log_item_release(item);
    return meta;
}

static inline void fixture_create(uint64_t self_id) {
    fixture = (struct fixture){.now_ms = FIXTURE_START_MS};
    struct raft_engine_options options = {.self_id = self_id,
                                          .heartbeat_ms = FIXTURE_HEARTBEAT_MS,
                                          .election_ms = FIXTURE_ELECTION_MS,
                                          .seed = 7,
                                          .recent_bytes_max = 1 << 20};
    fixture.engine = raft_engine_create(&options, &fixture_calls, &fixture);
}

static inline enum status fixture_start(const struct raft_engine_loaded *loaded) {
    char error[128];
    return raft_engine_start(fixture.engine, loaded, fixture.now_ms, error, sizeof error);
}

/* Entry 1 is this configuration, of term 1; then commands of `term`. */
static inline void fixture_boot(uint64_t self_id, const char *roles, uint64_t term,
                                size_t n_commands) {
    struct log_item *items[64];
    items[0] = fixture_change(1, 1, roles);
    for (size_t i = 1; i <= n_commands; i++) {
        items[i] = fixture_command(i + 1, term);
    }
    fixture_create(self_id);
    struct raft_engine_loaded loaded = {
        .term = term, .first_index = 1, .items = items, .n_items = n_commands + 1};
    if (fixture_start(&loaded) != STATUS_OK) {
        abort();
    }
    for (size_t i = 0; i <= n_commands; i++) {
        log_item_release(items[i]);
    }
}

static inline void fixture_close(void) {
    raft_engine_destroy(fixture.engine);
    fixture.engine = NULL;
}

/* Commands are 'c'; anything else is released by the caller. Entries are released. */
static inline void fixture_receive_append(uint64_t from_id, uint64_t term, uint64_t prev_index,
                                          uint64_t prev_term, uint64_t commit,
                                          struct log_item **items, uint32_t n) {
    struct raft_message_view view = {.kind = MESSAGE_APPEND,
                                     .append = {.term = term,
                                                .prev_index = prev_index,
                                                .prev_term = prev_term,
                                                .commit = commit,
                                                .n_entries = n,
                                                .items = items}};
    (void)raft_engine_receive(fixture.engine, from_id, &view, fixture.now_ms);
    for (uint32_t i = 0; i < n; i++) {
        log_item_release(items[i]);
    }
}

/* n commands of the message's own term. */
static inline void fixture_receive_commands(uint64_t from_id, uint64_t term, uint64_t prev_index,
                                            uint64_t prev_term, uint64_t commit, uint32_t n) {
    struct log_item *items[64];
    for (uint32_t i = 0; i < n; i++) {
        items[i] = fixture_command(prev_index + 1 + i, term);
    }
    fixture_receive_append(from_id, term, prev_index, prev_term, commit, items, n);
}

static inline void fixture_receive_result(uint64_t from_id, uint64_t term, uint64_t rejected,
                                          uint64_t last_index) {
    struct raft_message_view view = {
        .kind = MESSAGE_APPEND_RESULT,
        .append_result = {.term = term, .rejected = rejected, .last_index = last_index}};
    (void)raft_engine_receive(fixture.engine, from_id, &view, fixture.now_ms);
}

static inline void fixture_receive_vote(uint64_t from_id, struct message_vote vote) {
    struct raft_message_view view = {.kind = MESSAGE_VOTE, .vote = vote};
    (void)raft_engine_receive(fixture.engine, from_id, &view, fixture.now_ms);
}

static inline void fixture_receive_vote_result(uint64_t from_id, uint64_t term, bool is_pre_vote,
                                               bool is_granted) {
    struct raft_message_view view = {
        .kind = MESSAGE_VOTE_RESULT,
        .vote_result = {.term = term, .is_pre_vote = is_pre_vote, .is_granted = is_granted}};
    (void)raft_engine_receive(fixture.engine, from_id, &view, fixture.now_ms);
}

static inline bool fixture_receive_snapshot(uint64_t from_id, uint64_t term,
                                            const struct snapshot_meta *meta) {
    struct raft_message_view view = {.kind = MESSAGE_SNAPSHOT,
                                     .snapshot = {.term = term, .meta = meta}};
    return raft_engine_receive(fixture.engine, from_id, &view, fixture.now_ms);
}

static inline void fixture_written(void) {
    while (fixture.n_writes > 0) {
        fixture.n_writes--;
        raft_engine_written(fixture.engine, fixture.now_ms);
    }
}

static inline void fixture_poll(void) {
    raft_engine_poll(fixture.engine, fixture.now_ms);
}

static inline void fixture_poll_at_deadline(void) {
    uint64_t deadline_ms = raft_engine_deadline_ms(fixture.engine, fixture.now_ms);
    if (deadline_ms > fixture.now_ms) {
        fixture.now_ms = deadline_ms;
    }
    fixture_poll();
}

/* Becomes leader by the votes of server 2; its first entry is not on disk yet. */
static inline void fixture_lead(void) {
    fixture_poll_at_deadline();
    fixture_receive_vote_result(2, raft_engine_term(fixture.engine) + 1, true, true);
    fixture_receive_vote_result(2, raft_engine_term(fixture.engine), false, true);
    if (raft_engine_role(fixture.engine) != ENGINE_LEADER) {
        abort();
    }
}

/* Leads, with an entry of its own term that is on disk and acknowledged by server 2. */
static inline void fixture_lead_committed(void) {
    fixture_lead();
    fixture_poll();
    fixture_written();
    fixture_receive_result(2, raft_engine_term(fixture.engine), 0,
                           raft_engine_last_index(fixture.engine));
}

/* Loses its leadership to a term that nobody leads, and wins the next. */
static inline void fixture_lead_again(void) {
    fixture_receive_result(2, raft_engine_term(fixture.engine) + 1, 1, 0);
    fixture_lead();
    fixture_poll();
    fixture_written();
}

static inline void fixture_propose(size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t *bytes = calloc(1, 8);
        if (raft_engine_propose(fixture.engine, bytes, 8, fixture.now_ms) != STATUS_OK) {
            abort();
        }
    }
}

/* The last message of a kind that was sent, from the n-th on; NULL: none. */
static inline const struct fixture_sent *fixture_last_sent(enum raft_message_kind kind,
                                                           size_t from) {
    for (size_t i = fixture.n_sent; i > from; i--) {
        if (fixture.sent[i - 1].view.kind == kind) {
            return &fixture.sent[i - 1];
        }
    }
    return NULL;
}

static inline size_t fixture_count_sent(enum raft_message_kind kind, size_t from) {
    size_t n = 0;
    for (size_t i = from; i < fixture.n_sent; i++) {
        n += fixture.sent[i].view.kind == kind;
    }
    return n;
}

#endif
