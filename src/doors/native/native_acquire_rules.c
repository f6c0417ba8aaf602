/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "doors/native/native_estimate_rules.h"
#include "doors/native/native_grant_rules.h"
#include "doors/native/native_rules.h"
#include "doors/native/native_session_rules.h"

#include <assert.h>

/* --- Request and answer. --- */

void native_acquire_encode(struct buffer *out, const struct native_acquire *acquire) {
    buffer_put_zigzag(out, acquire->session_id);
    if (acquire->session_id == 0) {
        native_session_create_encode(out, &acquire->session);
    }
    native_wants_put(out, acquire->wants, acquire->n_wants);
    buffer_put_u8(out, acquire->waits);
    buffer_put_varint(out, acquire->queue_limit);
    buffer_put_bytes(out, acquire->value);
    buffer_put_bytes(out, acquire->request_id);
    buffer_put_zigzag(out, acquire->hold_limit_ms);
}

static bool read_request(struct bytes request, struct native_acquire *out_acquire) {
    struct reader reader;
    reader_init(&reader, request);
    *out_acquire = (struct native_acquire){.session_id = reader_get_zigzag(&reader)};
    if (out_acquire->session_id == 0) {
        native_session_create_get(&reader, &out_acquire->session);
    }
    out_acquire->n_wants = native_wants_get(&reader, out_acquire->wants);
    out_acquire->waits = reader_get_u8(&reader) != 0;
    uint64_t queue_limit = reader_get_varint(&reader);
    out_acquire->queue_limit = (uint32_t)queue_limit;
    out_acquire->value = reader_get_bytes(&reader);
    out_acquire->request_id = reader_get_bytes(&reader);
    out_acquire->hold_limit_ms = reader_get_zigzag(&reader);
    return !reader.failed && reader_left(&reader) == 0 && queue_limit <= UINT32_MAX;
}

static void write_answer(struct buffer *answer, const struct native_acquired *acquired) {
    buffer_put_u8(answer, (uint8_t)acquired->result);
    buffer_put_u8(answer, acquired->is_repeated);
    buffer_put_varint(answer, acquired->n_before);
    buffer_put_zigzag(answer, acquired->session_id);
    if (acquired->result != NATIVE_RESULT_REFUSED) {
        native_acquisition_encode(answer, &acquired->acquisition);
    }
}

bool native_acquired_decode(struct bytes answer, struct arena *arena,
                            struct native_acquired *out_acquired) {
    struct reader reader;
    struct native_acquired acquired = {0};
    reader_init(&reader, answer);
    uint8_t result = reader_get_u8(&reader);
    acquired.result = (enum native_acquire_result)result;
    acquired.is_repeated = reader_get_u8(&reader) != 0;
    acquired.n_before = (uint32_t)reader_get_varint(&reader);
    acquired.session_id = reader_get_zigzag(&reader);
    if (reader.failed || result > NATIVE_RESULT_ACQUIRED) {
        return false;
    }
    struct bytes rest = bytes_of(answer.data + reader.position, reader_left(&reader));
    if (result == NATIVE_RESULT_REFUSED
            ? rest.size > 0
            : !native_acquisition_decode(rest, arena, &acquired.acquisition)) {
        return false;
    }
    *out_acquired = acquired;
    return true;
}

/* --- Checks. --- */

static enum status check_request(struct native_acquire *acquire) {
    if (!native_wants_normalize(acquire->wants, acquire->n_wants) ||
        !native_text_is_valid(acquire->value, NATIVE_VALUE_SIZE_MAX) ||
        !native_text_is_valid(acquire->request_id, NATIVE_REQUEST_ID_SIZE_MAX) ||
        acquire->hold_limit_ms < 0 || acquire->hold_limit_ms > LEASE_TTL_MS_MAX) {
        return STATUS_INVALID;
    }
    return acquire->session_id == 0 ? native_session_create_check(&acquire->session) : STATUS_OK;
}

/* All that needs the caller's rights. Afterwards the run acts for the server: it looks at queues in
 * which others wait, and may grant to them. */
static enum status check_rights(struct native_work *work, const struct native_acquire *acquire) {
    int64_t lease_id = acquire->session_id != 0 ? acquire->session_id : acquire->session.parent_id;
    for (size_t i = 0; i < acquire->n_wants; i++) {
        struct key_range range =
            native_name_range(work->arena, acquire->wants[i].is_pool, acquire->wants[i].name);
        if (!rule_may(work->run, RIGHT_WRITE, &range)) {
            return STATUS_PERMISSION_DENIED;
        }
    }
    if (lease_id != 0 && !rule_lease_use(work->run, lease_id)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    rule_act_for_server(work->run);
    return STATUS_OK;
}

static size_t count_range(struct native_work *work, const struct key_range *range) {
    return rule_count(work->run, range->space, range->key, range->range_end);
}

/* How many wait before an id. */
static size_t count_want(struct native_work *work, const struct native_want *want, int64_t id) {
    struct arena *arena = work->arena;
    if (want->is_pool) {
        struct key_range range = native_pool_waiters(arena, want->name);
        range.range_end = native_key_pool_waiter(arena, want->name, id);
        return count_range(work, &range);
    }
    struct key_range exclusive =
        native_waiters_between(arena, want->name, NATIVE_EXCLUSIVE, INT64_MIN, id);
    struct key_range shared =
        native_waiters_between(arena, want->name, NATIVE_SHARED, INT64_MIN, id);
    return count_range(work, &exclusive) + count_range(work, &shared);
}

/* STATUS_TOO_MANY_REQUESTS: so many that no other may wait. */
static enum status count_before(struct native_work *work, const struct native_want *wants,
                                size_t n_wants, int64_t id, uint32_t *out_n) {
    enum status status = STATUS_OK;
    size_t most = 0;
    for (size_t i = 0; i < n_wants; i++) {
        size_t n = count_want(work, &wants[i], id);
        size_t max = wants[i].is_pool ? NATIVE_POOL_WAITERS_MAX : NATIVE_WAITERS_MAX;
        status = n >= max ? STATUS_TOO_MANY_REQUESTS : status;
        most = n > most ? n : most;
    }
    *out_n = (uint32_t)most;
    return status;
}

/* The new one joins the pools that it wants, as the run sees them. */
static enum status join_pools(struct native_work *work,
                              const struct native_acquisition *acquisition) {
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct native_want *want = &acquisition->wants[i];
        if (!want->is_pool) {
            continue;
        }
        struct native_pool_state *state = native_work_pool(work, want->name);
        switch (native_pool_state_load(state, work->run, RULE_RECORDS_MAX / 4)) {
        case NATIVE_POOL_MISSING:
            return STATUS_KEY_NOT_FOUND;
        case NATIVE_POOL_TOO_MUCH:
            return STATUS_TOO_MANY_REQUESTS;
        case NATIVE_POOL_LOADED:
            break;
        }
        if (want->n_slots > state->config.n_slots) {
            return STATUS_INVALID;
        }
        const struct native_pool_waiter waiter = {.n_slots = want->n_slots,
                                                  .waits_for_pool_alone = acquisition->n_wants == 1,
                                                  .owner = acquisition->owner};
        native_pool_state_join(state, work->arena, acquisition->id, &waiter);
    }
    return STATUS_OK;
}

/* With its own and that of its session, if it begins one. */
static bool has_room_for_keys(struct native_work *work, const struct native_acquire *acquire) {
    size_t n = 2;
    for (size_t i = 0; i < acquire->n_wants; i++) {
        n += acquire->wants[i].is_pool ? acquire->wants[i].n_slots : 1;
    }
    return acquire->session_id == 0 ||
           n + rule_lease_key_count(work->run, acquire->session_id) <= NATIVE_SESSION_KEYS_MAX;
}

/* --- A request that was made before. --- */

static bool find_repeated(struct native_work *work, const struct native_acquire *acquire,
                          struct native_acquisition *out_acquisition) {
    if (acquire->session_id == 0) {
        return false;
    }
    struct bytes key = native_key_request(work->arena, acquire->session_id, acquire->request_id,
                                          acquire->wants, acquire->n_wants);
    const struct record *record = rule_get(work->run, KEY_SPACE_NATIVE_RECORDS, key);
    uint64_t id = 0;
    if (record == NULL || record->value_size != sizeof id) {
        return false;
    }
    for (size_t i = 0; i < sizeof id; i++) {
        id = id << 8 | record_value(record).data[i];
    }
    return native_work_find(work, (int64_t)id, out_acquisition) &&
           out_acquisition->session_id == acquire->session_id;
}

/* A call that does not wait gets no share of a place in the queue. */
static enum status repeat(struct native_work *work, const struct native_acquire *acquire,
                          struct native_acquired *acquired) {
    struct native_acquisition *acquisition = &acquired->acquisition;
    if (!native_wants_equal(acquisition->wants, acquisition->n_wants, acquire->wants,
                            acquire->n_wants)) {
        return STATUS_INVALID;
    }
    acquired->is_repeated = true;
    acquired->session_id = acquire->session_id;
    if (acquisition->stage == NATIVE_QUEUED) {
        (void)count_before(work, acquire->wants, acquire->n_wants, acquisition->id,
                           &acquired->n_before);
    }
    if (acquisition->stage == NATIVE_QUEUED && !acquire->waits) {
        acquired->result = NATIVE_RESULT_REFUSED;
        return STATUS_OK;
    }
    acquired->result =
        acquisition->stage == NATIVE_ACQUIRED ? NATIVE_RESULT_ACQUIRED : NATIVE_RESULT_QUEUED;
    acquisition->call++;
    native_grant_write(work, acquisition);
    return STATUS_OK;
}

/* --- A new one. --- */

static enum status find_owner(struct native_work *work, const struct native_acquire *acquire,
                              struct bytes *out_owner) {
    struct native_session session;
    if (acquire->session_id == 0) {
        *out_owner = acquire->session.owner;
        return STATUS_OK;
    }
    if (!native_work_find_session(work, acquire->session_id, &session)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    *out_owner = session.owner;
    return STATUS_OK;
}

static enum status carry_out(struct native_work *work, const struct native_acquire *acquire,
                             uint64_t user_id, bool fits, struct native_acquired *acquired) {
    struct native_acquisition *acquisition = &acquired->acquisition;
    int64_t session_id = acquire->session_id;
    enum status status = STATUS_OK;
    if (session_id == 0) {
        status = native_session_start(work, &acquire->session, user_id, &session_id);
    }
    if (status != STATUS_OK) {
        return status;
    }
    acquisition->session_id = session_id;
    acquired->session_id = session_id;
    native_grant_put_request(work, acquisition);
    if (fits) {
        native_grant(work, acquisition, NULL, 0);
        acquired->result = NATIVE_RESULT_ACQUIRED;
    } else {
        native_grant_queue(work, acquisition);
        acquired->result = NATIVE_RESULT_QUEUED;
        /* One more that waits: shares are smaller, and somebody else may be next. */
        for (size_t i = 0; i < acquisition->n_wants; i++) {
            if (acquisition->wants[i].is_pool) {
                native_work_touch(work, &acquisition->wants[i]);
            }
        }
    }
    (void)native_work_finish(work);
    return STATUS_OK;
}

static enum status acquire_new(struct native_work *work, const struct native_acquire *acquire,
                               uint64_t user_id, struct native_acquired *acquired) {
    struct native_acquisition *acquisition = &acquired->acquisition;
    *acquisition = (struct native_acquisition){.id = rule_revision(work->run),
                                               .call = 1,
                                               .n_wants = acquire->n_wants,
                                               .value = acquire->value,
                                               .request_id = acquire->request_id,
                                               .hold_limit_ms = acquire->hold_limit_ms,
                                               .asked_wall_ms = rule_wall_ms(work->run)};
    memcpy(acquisition->wants, acquire->wants, sizeof acquisition->wants);
    enum status status = find_owner(work, acquire, &acquisition->owner);
    if (status == STATUS_OK) {
        status = count_before(work, acquire->wants, acquire->n_wants, acquisition->id,
                              &acquired->n_before);
    }
    if (status == STATUS_OK) {
        status = join_pools(work, acquisition);
    }
    if (status != STATUS_OK) {
        return status;
    }
    bool fits = native_grant_fits(work, acquisition);
    if (!fits && (!acquire->waits ||
                  (acquire->queue_limit != 0 && acquired->n_before >= acquire->queue_limit))) {
        acquired->result = NATIVE_RESULT_REFUSED;
        return STATUS_OK;
    }
    if (!has_room_for_keys(work, acquire)) {
        return STATUS_TOO_MANY_KEYS;
    }
    return carry_out(work, acquire, user_id, fits, acquired);
}

static enum status run_acquire(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct native_work work;
    struct native_acquire acquire;
    struct native_acquired acquired = {0};
    uint64_t user_id = rule_caller(run)->user_id;
    if (!read_request(request, &acquire)) {
        return STATUS_MALFORMED;
    }
    native_work_init(&work, run);
    enum status status = check_request(&acquire);
    if (status == STATUS_OK) {
        status = check_rights(&work, &acquire);
    }
    if (status == STATUS_OK) {
        status = find_repeated(&work, &acquire, &acquired.acquisition)
                     ? repeat(&work, &acquire, &acquired)
                     : acquire_new(&work, &acquire, user_id, &acquired);
    }
    if (status == STATUS_OK) {
        write_answer(answer, &acquired);
    }
    return status;
}

static size_t estimate_acquire(const struct key_store *keys, const struct lease_table *leases,
                               struct bytes request) {
    struct native_acquire acquire;
    (void)leases;
    return read_request(request, &acquire) && native_wants_normalize(acquire.wants, acquire.n_wants)
               ? native_estimate_wants(keys, acquire.wants, acquire.n_wants, acquire.session_id,
                                       acquire.request_id)
               : 0;
}

const struct rule native_rule_acquire = {.number = NATIVE_RULE_ACQUIRE,
                                         .name = "native acquire",
                                         .since_version = CLUSTER_VERSION_RULES,
                                         .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                         .run = run_acquire,
                                         .estimate = estimate_acquire};
