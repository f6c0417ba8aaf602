#include "replication/raft_guard.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/list.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

/* raft_io's own data pointer belongs to raft. */
static struct raft_guard *guard_of(struct raft_io *io) {
    return list_entry(io, struct raft_guard, io);
}

/* libraft takes the first new entry's index for that of a change behind it: a change stands first
 * in its message, or not in it. */
static void cut_before_change(struct raft_guard *guard, struct raft_append_entries *append) {
    for (unsigned i = 1; i < append->n_entries; i++) {
        if (append->entries[i].type == RAFT_CHANGE) {
            /* All entries share one allocation, which goes with the first. */
            append->n_entries = i;
            guard->cut++;
            return;
        }
    }
}

/* A rejection that comes late must not lead the leader back behind what the follower is known to
 * have: from there it would send what the follower's snapshot covers, and the follower would put it
 * at the end of its log. */
static bool admit_result(const struct raft *raft, const struct raft_message *message,
                         struct raft_append_entries_result *result) {
    raft_index match = 0;
    if (result->rejected == 0 || result->term != raft_current_term(raft) ||
        raft_match_index(raft, message->server_id, &match) != 0) {
        return true;
    }
    if (result->rejected <= match) {
        return false;
    }
    if (result->last_log_index < match) {
        result->last_log_index = match;
    }
    return true;
}

bool raft_guard_admit(struct raft_guard *guard, struct raft_message *message) {
    if (message->type == RAFT_APPEND_ENTRIES) {
        struct raft_append_entries *append = &message->append_entries;
        cut_before_change(guard, append);
        raft_index last = append->prev_log_index + append->n_entries;
        /* Of two changes that are committed in one step libraft forgets the first for a moment, and
         * may take a snapshot in it. */
        if (append->n_entries > 0 && append->entries[0].type == RAFT_CHANGE) {
            last = append->prev_log_index;
        }
        if (append->leader_commit > last) {
            append->leader_commit = last;
            guard->clamped++;
        }
    }
    if (message->type == RAFT_INSTALL_SNAPSHOT && guard->is_storing) {
        raft_configuration_close(&message->install_snapshot.conf);
        raft_free(message->install_snapshot.data.base);
        guard->dropped++;
        return false;
    }
    if (message->type == RAFT_APPEND_ENTRIES_RESULT && !raft_bulk_admit(guard, message)) {
        return false;
    }
    /* A knock: no answer of a voter is of term 0. */
    if (message->type == RAFT_REQUEST_VOTE_RESULT && message->request_vote_result.term == 0) {
        return false;
    }
    if (message->type == RAFT_APPEND_ENTRIES || message->type == RAFT_INSTALL_SNAPSHOT) {
        guard->heard_ms = clock_boottime_ms();
    }
    if (message->type == RAFT_REQUEST_VOTE && !raft_votes_admit(guard, message)) {
        return false;
    }
    const struct raft *raft = guard->io.data;
    if (message->type == RAFT_REQUEST_VOTE_RESULT && raft != NULL &&
        raft->state != RAFT_CANDIDATE) {
        guard->results_dropped++;
        return false;
    }
    if (message->type == RAFT_APPEND_ENTRIES_RESULT && raft != NULL &&
        !admit_result(raft, message, &message->append_entries_result)) {
        guard->results_dropped++;
        return false;
    }
    if (message->type == RAFT_TIMEOUT_NOW) {
        guard->transfer_term = message->timeout_now.term + 1;
    }
    return true;
}

/* What raft meant to say, and does not when the leader's first entry was asked for, or a snapshot:
 * no. An index that nobody waits for is ignored; the term is what counts. */
static int send_refusal(struct raft_guard *guard, struct raft_io_send *request,
                        const struct raft_message *message, raft_io_send_cb done) {
    struct raft_message refusal = *message;
    struct raft_append_entries_result *result = &refusal.append_entries_result;
    if (result->rejected == 0) {
        result->rejected = 1;
    }
    result->last_log_index = result->rejected - 1;
    return guard->send(&guard->io, request, &refusal, done);
}

static int guard_send(struct raft_io *io, struct raft_io_send *request,
                      const struct raft_message *message, raft_io_send_cb done) {
    struct raft_guard *guard = guard_of(io);
    if (message->type == RAFT_APPEND_ENTRIES_RESULT && guard->is_refusing) {
        return send_refusal(guard, request, message, done);
    }
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        return raft_bulk_send_entries(guard, request, message, done);
    case RAFT_INSTALL_SNAPSHOT:
        return raft_bulk_send_snapshot(guard, request, message, done);
    case RAFT_REQUEST_VOTE:
        return raft_votes_send(guard, request, message, done);
    default:
        return guard->send(io, request, message, done);
    }
}

static bool is_of_old_term(const struct raft_message *message, const struct raft *raft) {
    raft_term term = message->type == RAFT_APPEND_ENTRIES     ? message->append_entries.term
                     : message->type == RAFT_INSTALL_SNAPSHOT ? message->install_snapshot.term
                                                              : 0;
    return term != 0 && raft != NULL && term < raft_current_term(raft);
}

static void guard_recv(struct raft_io *io, struct raft_message *message) {
    struct raft_guard *guard = guard_of(io);
    if (raft_guard_admit(guard, message)) {
        guard->is_refusing = is_of_old_term(message, io->data);
        guard->recv(io, message);
        guard->is_refusing = false;
        raft_votes_take_turn(io->data);
    }
}

/* What is said again anyway. */
static void said(struct raft_io_send *request, int status) {
    (void)status;
    free(request);
}

static void say(struct raft_guard *guard, const struct raft_message *message) {
    struct raft_io_send *request = calloc(1, sizeof *request);
    if (request != NULL && guard->send(&guard->io, request, message, said) != 0) {
        free(request);
    }
}

void raft_guard_knock(struct raft_guard *guard, raft_id to_id, const char *to_address) {
    struct raft_message message = {
        .type = RAFT_REQUEST_VOTE_RESULT, .server_id = to_id, .server_address = to_address};
    say(guard, &message);
}

void raft_guard_announce(struct raft_guard *guard, const struct raft_guard_commit *commit) {
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES,
                                   .server_id = commit->to_id,
                                   .server_address = commit->to_address};
    message.append_entries.term = commit->term;
    message.append_entries.prev_log_index = commit->index;
    message.append_entries.prev_log_term = commit->term;
    message.append_entries.leader_commit = commit->index;
    say(guard, &message);
}

static int guard_start(struct raft_io *io, unsigned tick_ms, raft_io_tick_cb tick,
                       raft_io_recv_cb recv) {
    struct raft_guard *guard = guard_of(io);
    guard->recv = recv;
    guard->tick = tick;
    return guard->start(io, tick_ms, tick, guard_recv);
}

void raft_guard_tick(struct raft_guard *guard) {
    guard->tick(&guard->io);
}

/* One byte of version, the number of servers, then of each its id, its address as text, and its
 * role. */
bool raft_guard_is_sole_voter(const struct raft_buffer *configuration, raft_id self_id) {
    struct reader reader;
    reader_init(&reader, bytes_of(configuration->base, configuration->len));
    (void)reader_get_u8(&reader);
    uint64_t n = reader_get_u64(&reader);
    bool self_votes = false;
    uint64_t n_voters = 0;
    for (uint64_t i = 0; i < n && !reader.failed; i++) {
        uint64_t id = reader_get_u64(&reader);
        while (!reader.failed && reader_get_u8(&reader) != 0) {
        }
        if (reader_get_u8(&reader) == RAFT_VOTER) {
            n_voters++;
            self_votes |= id == self_id;
        }
    }
    return !reader.failed && n > 1 && n_voters == 1 && self_votes;
}

static bool is_sole_voter(const struct raft_guard *guard, const struct raft_snapshot *snapshot,
                          const struct raft_entry *entries, size_t n_entries) {
    for (size_t i = n_entries; i > 0; i--) {
        if (entries[i - 1].type == RAFT_CHANGE) {
            return raft_guard_is_sole_voter(&entries[i - 1].buf, guard->self_id);
        }
    }
    size_t n_voters = 0;
    bool self_votes = false;
    for (size_t i = 0; snapshot != NULL && i < snapshot->configuration.n; i++) {
        const struct raft_server *server = &snapshot->configuration.servers[i];
        n_voters += server->role == RAFT_VOTER;
        self_votes |= server->role == RAFT_VOTER && server->id == guard->self_id;
    }
    return n_voters == 1 && self_votes && snapshot->configuration.n > 1;
}

static int guard_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
                      struct raft_snapshot **snapshot, raft_index *start_index,
                      struct raft_entry **entries, size_t *n_entries) {
    struct raft_guard *guard = guard_of(io);
    int rv = guard->load(io, term, voted_for, snapshot, start_index, entries, n_entries);
    if (rv == 0 && is_sole_voter(guard, *snapshot, *entries, *n_entries)) {
        rv = guard->set_term(io, *term + 1);
        if (rv == 0) {
            *term += 1;
            *voted_for = 0;
        }
    }
    return rv;
}

int raft_guard_assign(struct raft *raft, struct raft_change *request, raft_id id, int role,
                      raft_change_cb done) {
    int rv = raft_assign(raft, request, id, role, done);
    if (rv != 0 && raft->legacy.change == request) {
        raft->legacy.change = NULL;
    }
    return rv;
}

static void guard_failed(struct raft_guard *guard, const char *what, int status) {
    if (status != 0 && !guard->closing) {
        guard->callbacks->failed(guard->data, what, status);
    }
}

static int guard_set_term(struct raft_io *io, raft_term term) {
    struct raft_guard *guard = guard_of(io);
    int rv = guard->set_term(io, term);
    if (rv != 0) {
        /* Also while closing: raft has no way back from here. */
        guard->callbacks->failed(guard->data, "writing the term", rv);
    }
    return rv;
}

static int guard_set_vote(struct raft_io *io, raft_id id) {
    struct raft_guard *guard = guard_of(io);
    int rv = guard->set_vote(io, id);
    if (rv != 0) {
        guard->callbacks->failed(guard->data, "writing the vote", rv);
    }
    return rv;
}

/* One write to the log: raft's request, behind one of our own. */
struct guard_append {
    struct raft_io_append own;
    struct raft_guard *guard;
    struct raft_io_append *append;
    raft_io_append_cb done;
    struct list in_written;
    int status;
};

void raft_guard_tell_written(struct raft_guard *guard) {
    for (struct list *node; (node = list_pop_first(&guard->written)) != NULL;) {
        struct guard_append *append = list_entry(node, struct guard_append, in_written);
        struct raft_io_append *request = append->append;
        raft_io_append_cb done = append->done;
        int status = append->status;
        free(append);
        done(request, status);
    }
}

/* raft_uv tells of a write before it begins the next: what raft makes of it waits until then. */
static void guard_append_done(struct raft_io_append *own, int status) {
    struct guard_append *append = list_entry(own, struct guard_append, own);
    struct raft_guard *guard = append->guard;
    guard->n_appends--;
    guard->append_progress_ms = clock_boottime_ms();
    guard_failed(guard, "writing the log", status);
    if (status != 0 && !guard->closing) {
        free(append);
        return;
    }
    append->status = status;
    list_append(&guard->written, &append->in_written);
    if (guard->closing) {
        raft_guard_tell_written(guard);
    }
}

static int guard_append(struct raft_io *io, struct raft_io_append *request,
                        const struct raft_entry *entries, unsigned n, raft_io_append_cb done) {
    struct raft_guard *guard = guard_of(io);
    struct guard_append *append = malloc(sizeof *append);
    if (append == NULL) {
        abort();
    }
    *append = (struct guard_append){.guard = guard, .append = request, .done = done};
    if (guard->n_appends++ == 0) {
        guard->append_progress_ms = clock_boottime_ms();
    }
    int rv = guard->append(io, &append->own, entries, n, guard_append_done);
    if (rv != 0) {
        free(append);
        guard->n_appends--;
        guard_failed(guard, "writing the log", rv);
    }
    return rv;
}

static void guard_put_done(struct raft_io_snapshot_put *own, int status) {
    struct raft_guard *guard = list_entry(own, struct raft_guard, own_put);
    /* Entries that were written before the snapshot are told of before it. */
    raft_guard_tell_written(guard);
    guard->is_storing = false;
    if (status != 0 && !guard->closing) {
        guard->callbacks->failed(guard->data, "writing a snapshot", status);
        return;
    }
    /* Told first: libraft looks at once whether the next snapshot is due. */
    if (status == 0) {
        guard->callbacks->stored(guard->data);
    }
    guard->put_done(guard->put, status);
}

static void guard_serialise(uv_work_t *work) {
    struct raft_guard *guard = work->data;
    guard->serialise_status = guard->callbacks->serialise(guard->data, &guard->bytes);
}

static void guard_serialised(uv_work_t *work, int status) {
    struct raft_guard *guard = work->data;
    (void)status;
    guard->is_serialising = false;
    if (guard->serialise_status != 0) {
        guard->callbacks->serialised(guard->data, 0);
        guard->callbacks->failed(guard->data, "serialising a snapshot", guard->serialise_status);
        return;
    }
    /* The array came from fsm.snapshot() with one empty buffer, to be filled in here. */
    assert(guard->snapshot->n_bufs == 1);
    guard->snapshot->bufs[0] = guard->bytes;
    guard->callbacks->serialised(guard->data, guard->bytes.len);
    int rv = guard->snapshot_put(&guard->io, guard->trailing, &guard->own_put, guard->snapshot,
                                 guard_put_done);
    if (rv != 0) {
        guard_put_done(&guard->own_put, rv);
    }
    guard->callbacks->handed_over(guard->data);
}

static int guard_snapshot_put(struct raft_io *io, unsigned trailing,
                              struct raft_io_snapshot_put *put,
                              const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb done) {
    struct raft_guard *guard = guard_of(io);
    assert(!guard->is_storing);
    guard->put = put;
    guard->put_done = done;
    guard->is_storing = true;
    /* A snapshot that came from the leader is bytes already. */
    if (trailing == 0) {
        int rv = guard->snapshot_put(io, trailing, &guard->own_put, snapshot, guard_put_done);
        guard->is_storing = rv == 0;
        return rv;
    }
    guard->trailing = trailing;
    guard->snapshot = snapshot;
    guard->work.data = guard;
    guard->is_serialising = true;
    int rv = uv_queue_work(guard->loop, &guard->work, guard_serialise, guard_serialised);
    assert(rv == 0);
    return 0;
}

void raft_guard_install(struct raft_guard *guard, uv_loop_t *loop, uint64_t self_id,
                        const struct raft_guard_callbacks *callbacks, void *data) {
    struct raft_io *io = &guard->io;
    guard->loop = loop;
    list_init(&guard->written);
    guard->callbacks = callbacks;
    guard->data = data;
    guard->self_id = self_id;
    guard->start = io->start;
    guard->send = io->send;
    guard->snapshot_get = io->snapshot_get;
    guard->append = io->append;
    guard->snapshot_put = io->snapshot_put;
    guard->load = io->load;
    guard->set_term = io->set_term;
    guard->set_vote = io->set_vote;
    io->start = guard_start;
    io->send = guard_send;
    io->append = guard_append;
    io->snapshot_put = guard_snapshot_put;
    io->load = guard_load;
    io->snapshot_get = raft_bulk_get;
    io->set_term = guard_set_term;
    io->set_vote = guard_set_vote;
}
