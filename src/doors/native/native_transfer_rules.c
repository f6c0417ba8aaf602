/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "doors/native/native_estimate_rules.h"
#include "doors/native/native_grant_rules.h"
#include "doors/native/native_rules.h"
#include "doors/native/native_session_rules.h"

/* Places of a queue, or requests of a session, among which a successor is looked for. */
enum { CANDIDATES_MAX = 8192 };

/* --- Request and answer. --- */

void native_transfer_encode(struct buffer *out, const struct native_transfer *transfer) {
    buffer_put_zigzag(out, transfer->acquisition_id);
    buffer_put_zigzag(out, transfer->session_id);
    buffer_put_zigzag(out, transfer->to_session_id);
    buffer_put_bytes(out, transfer->to_owner);
}

static bool read_request(struct bytes request, struct native_transfer *out_transfer) {
    struct reader reader;
    reader_init(&reader, request);
    out_transfer->acquisition_id = reader_get_zigzag(&reader);
    out_transfer->session_id = reader_get_zigzag(&reader);
    out_transfer->to_session_id = reader_get_zigzag(&reader);
    out_transfer->to_owner = reader_get_bytes(&reader);
    return !reader.failed && reader_left(&reader) == 0;
}

bool native_transferred_decode(struct bytes answer, struct arena *arena,
                               struct native_transferred *out_transferred) {
    return native_acquisition_decode(answer, arena, &out_transferred->acquisition);
}

/* --- The successor. --- */

struct candidates {
    int64_t *ids;
    size_t n;
};

static bool add_id(struct candidates *candidates, int64_t id) {
    candidates->ids[candidates->n++] = id;
    return candidates->n < CANDIDATES_MAX;
}

static bool add_place(void *context, const struct record *record) {
    return add_id(context, native_key_read(record).id);
}

static bool add_request(void *context, const struct record *record) {
    uint64_t id = 0;
    for (size_t i = 0; i < 8 && i < record->value_size; i++) {
        id = id << 8 | record_value(record).data[i];
    }
    return add_id(context, (int64_t)id);
}

/* Whoever waits for the first thing that is handed over, or whatever the session has asked for. */
static void gather(struct native_work *work, const struct native_transfer *transfer,
                   const struct native_acquisition *held, struct candidates *candidates) {
    const struct native_want *want = &held->wants[0];
    struct arena *arena = work->arena;
    candidates->ids = arena_alloc(arena, CANDIDATES_MAX * sizeof candidates->ids[0]);
    if (transfer->to_session_id != 0) {
        struct key_range range = native_requests(arena, transfer->to_session_id);
        (void)rule_visit(work->run, range.space, range.key, range.range_end, add_request,
                         candidates);
        return;
    }
    struct key_range range = want->is_pool ? native_pool_waiters(arena, want->name)
                                           : native_waiters_of(arena, want->name, want->mode);
    (void)rule_visit(work->run, range.space, range.key, range.range_end, add_place, candidates);
}

/* The oldest one that waits for the same. */
static bool find_waiting(struct native_work *work, const struct native_transfer *transfer,
                         const struct native_acquisition *held,
                         struct native_acquisition *out_found) {
    struct candidates candidates = {0};
    bool is_found = false;
    gather(work, transfer, held, &candidates);
    for (size_t i = 0; i < candidates.n; i++) {
        struct native_acquisition candidate;
        bool is_meant =
            (!is_found || candidates.ids[i] < out_found->id) &&
            native_work_find(work, candidates.ids[i], &candidate) &&
            candidate.stage == NATIVE_QUEUED &&
            (transfer->to_session_id != 0 ? candidate.session_id == transfer->to_session_id
                                          : bytes_equal(candidate.owner, transfer->to_owner)) &&
            native_wants_equal(candidate.wants, candidate.n_wants, held->wants, held->n_wants);
        if (is_meant) {
            *out_found = candidate;
            is_found = true;
        }
    }
    return is_found;
}

static struct bytes text_of_id(struct arena *arena, int64_t id) {
    static const char prefix[] = "transfer/";
    uint8_t *text = arena_alloc(arena, sizeof prefix + NATIVE_FENCE_DIGITS);
    memcpy(text, prefix, sizeof prefix - 1);
    native_fence_write(id, text + sizeof prefix - 1);
    return bytes_of(text, sizeof prefix - 1 + NATIVE_FENCE_DIGITS);
}

/* A session that does not wait gets it as if it had asked in this revision. Its request id is one
 * that no other request has. Only within one user: to have a key attached means to need the right
 * to it for every renewal. */
static enum status make_new(struct native_work *work, const struct native_transfer *transfer,
                            const struct native_acquisition *held, uint64_t user_id,
                            struct native_acquisition *out_new) {
    struct native_session session;
    if (!native_work_find_session(work, transfer->to_session_id, &session)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    if (user_id != 0 && session.user_id != user_id) {
        return STATUS_PERMISSION_DENIED;
    }
    if (rule_lease_key_count(work->run, transfer->to_session_id) + 2 + held->n_wants +
            held->n_slots >
        NATIVE_SESSION_KEYS_MAX) {
        return STATUS_TOO_MANY_KEYS;
    }
    *out_new =
        (struct native_acquisition){.id = rule_revision(work->run),
                                    .session_id = transfer->to_session_id,
                                    .call = 1,
                                    .n_wants = held->n_wants,
                                    .owner = session.owner,
                                    .request_id = text_of_id(work->arena, rule_revision(work->run)),
                                    .asked_wall_ms = rule_wall_ms(work->run)};
    memcpy(out_new->wants, held->wants, sizeof out_new->wants);
    native_grant_put_request(work, out_new);
    return STATUS_OK;
}

static void hand_over(struct native_work *work, const struct native_acquisition *held,
                      struct native_acquisition *next, uint64_t user_id) {
    struct native_session session = {0};
    int64_t session_revision = 0;
    const struct record *record = rule_get(work->run, KEY_SPACE_NATIVE_RECORDS,
                                           native_key_session(work->arena, held->session_id));
    if (record != NULL && native_session_decode(record_value(record), &session)) {
        session_revision = record->create_revision;
    }
    native_grant_remove(work, held);
    native_session_tell(work, held->session_id, &session, session_revision, NATIVE_END_TRANSFERRED,
                        user_id, held);
    native_grant(work, next, held->slots, held->n_slots);
    (void)native_work_finish(work);
}

static enum status run_transfer(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct native_work work;
    struct native_transfer transfer;
    struct native_acquisition held;
    struct native_acquisition next;
    uint64_t user_id = rule_caller(run)->user_id;
    if (!read_request(request, &transfer)) {
        return STATUS_MALFORMED;
    }
    bool has_owner = transfer.to_owner.size > 0;
    if (has_owner == (transfer.to_session_id != 0) ||
        transfer.to_session_id == transfer.session_id ||
        !native_text_is_valid(transfer.to_owner, NATIVE_OWNER_SIZE_MAX)) {
        return STATUS_INVALID;
    }
    native_work_init(&work, run);
    if (!rule_lease_use(run, transfer.session_id)) {
        return STATUS_KEY_NOT_FOUND;
    }
    rule_act_for_server(run);
    if (!native_work_find(&work, transfer.acquisition_id, &held) ||
        held.session_id != transfer.session_id || held.stage != NATIVE_ACQUIRED) {
        return STATUS_KEY_NOT_FOUND;
    }
    enum status status = STATUS_OK;
    if (!find_waiting(&work, &transfer, &held, &next)) {
        status =
            has_owner ? STATUS_LEASE_NOT_FOUND : make_new(&work, &transfer, &held, user_id, &next);
    }
    if (status == STATUS_OK) {
        hand_over(&work, &held, &next, user_id);
        native_acquisition_encode(answer, &next);
    }
    return status;
}

static size_t estimate_transfer(const struct key_store *keys, const struct lease_table *leases,
                                struct bytes request) {
    struct native_transfer transfer;
    (void)leases;
    return read_request(request, &transfer)
               ? native_estimate_transfer(keys, transfer.acquisition_id, transfer.to_session_id)
               : 0;
}

const struct rule native_rule_transfer = {.number = NATIVE_RULE_TRANSFER,
                                          .name = "native transfer",
                                          .since_version = CLUSTER_VERSION_RULES,
                                          .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                          .run = run_transfer,
                                          .estimate = estimate_transfer};
