#include "doors/native/native_show.h"

#include "base/pb_append.h"
#include "core/auth.h"
#include "doors/native/native_keys.h"

#include <assert.h>

/* --- Finding. --- */

static const struct record *find_record(struct native_door *door, struct bytes key) {
    return key_store_find(native_keys(door), KEY_SPACE_NATIVE_RECORDS, key);
}

bool native_read_session(struct native_door *door, const struct record *record,
                         struct native_session_facts *out) {
    struct native_key key = native_key_read(record);
    struct lease_facts lease;
    *out = (struct native_session_facts){.id = key.id, .created_revision = record->create_revision};
    if (key.kind != NATIVE_KEY_SESSION ||
        !native_session_decode(record_value(record), &out->session) ||
        !lease_table_find(native_leases(door), key.id, &lease)) {
        return false;
    }
    struct key_range requests = native_requests(&door->arena, key.id);
    out->ttl_ms = lease.ttl_ms;
    out->parent_id = lease.parent_id;
    out->n_acquisitions =
        key_store_count(native_keys(door), requests.space, requests.key, requests.range_end);
    return true;
}

bool native_find_session(struct native_door *door, int64_t id, struct native_session_facts *out) {
    const struct record *record = find_record(door, native_key_session(&door->arena, id));
    return record != NULL && native_read_session(door, record, out);
}

bool native_find_acquisition(struct native_door *door, int64_t id, struct native_acquisition *out) {
    const struct record *record = find_record(door, native_key_acquisition(&door->arena, id));
    return record != NULL && native_acquisition_decode(record_value(record), &door->arena, out);
}

struct id_list {
    int64_t *ids;
    size_t n;
    size_t capacity;
};

static bool add_id(struct id_list *list, int64_t id) {
    for (size_t i = 0; i < list->n; i++) {
        if (list->ids[i] == id) {
            return true;
        }
    }
    list->ids[list->n++] = id;
    return list->n < list->capacity;
}

static bool add_holder(void *context, const struct record *record) {
    struct native_taken taken;
    struct native_key key = native_key_read(record);
    if (key.kind == NATIVE_KEY_TAKEN && native_taken_decode(record_value(record), &taken)) {
        return add_id(context, taken.acquisition_id);
    }
    return key.kind != NATIVE_KEY_HOLDER || add_id(context, key.id);
}

size_t native_find_holders(struct native_door *door, bool is_pool, struct bytes name, int64_t *out,
                           size_t capacity) {
    assert(capacity > 0);
    struct id_list list = {.ids = out, .capacity = capacity};
    struct key_range range =
        is_pool ? native_taken_slots(&door->arena, name) : native_holders(&door->arena, name);
    key_store_visit(native_keys(door), range.space, range.key, range.range_end, add_holder, &list);
    return list.n;
}

static size_t find_conflicts(struct native_door *door, const struct native_want *want, int64_t *out,
                             size_t capacity) {
    if (want->is_pool || want->mode == NATIVE_EXCLUSIVE) {
        return native_find_holders(door, want->is_pool, want->name, out, capacity);
    }
    struct id_list list = {.ids = out, .capacity = capacity};
    struct key_range range = native_holders_of(&door->arena, want->name, NATIVE_EXCLUSIVE);
    key_store_visit(native_keys(door), range.space, range.key, range.range_end, add_holder, &list);
    return list.n;
}

size_t native_find_blockers(struct native_door *door, const struct native_acquisition *acquisition,
                            int64_t *out, size_t capacity) {
    size_t n = 0;
    for (size_t i = 0; i < acquisition->n_wants && n == 0; i++) {
        n = find_conflicts(door, &acquisition->wants[i], out, capacity);
    }
    /* A shared one that waits behind an exclusive one that waits: it is held by shared ones. */
    for (size_t i = 0; i < acquisition->n_wants && n == 0; i++) {
        const struct native_want *want = &acquisition->wants[i];
        n = native_find_holders(door, want->is_pool, want->name, out, capacity);
    }
    return n;
}

/* --- Showing. --- */

static bool has_auth(struct native_door *door) {
    return auth_is_enabled(state_view_auth(service_view(door->service)));
}

static bool may_read_range(struct native_door *door, const struct caller *caller,
                           const struct key_range *range) {
    const struct auth *auth = state_view_auth(service_view(door->service));
    return auth_check_range(auth, caller, RIGHT_READ, range) == STATUS_OK;
}

static bool may_read(struct native_door *door, const struct caller *caller, bool is_pool,
                     struct bytes name) {
    if (!has_auth(door)) {
        return true;
    }
    struct key_range range = native_name_range(&door->arena, is_pool, name);
    return may_read_range(door, caller, &range);
}

void native_show_session(struct buffer *out, uint32_t field,
                         const struct native_session_facts *facts, int64_t remaining_ms) {
    size_t session = pb_append_begin(out, field);
    pb_append_int64(out, 1, facts->id);
    pb_append_bytes(out, 2, facts->session.owner);
    pb_append_int64(out, 3, facts->ttl_ms);
    pb_append_uint64(out, 4, facts->session.class);
    pb_append_uint64(out, 5, facts->session.strategy);
    pb_append_int64(out, 6, remaining_ms);
    pb_append_int64(out, 7, facts->created_revision);
    pb_append_int64(out, 8, facts->session.created_wall_ms);
    pb_append_bytes(out, 9, facts->session.note);
    pb_append_int64(out, 10, facts->parent_id);
    pb_append_uint64(out, 11, facts->n_acquisitions);
    pb_append_end(out, session);
}

static void show_want(struct buffer *out, const struct native_want *want) {
    size_t message = pb_append_begin(out, 5);
    if (want->is_pool) {
        pb_append_bytes(out, 3, want->name);
        pb_append_uint64(out, 4, want->n_slots);
    } else {
        pb_append_bytes(out, 1, want->name);
        pb_append_uint64(out, 2, want->mode);
    }
    pb_append_end(out, message);
}

static void show_slots(struct buffer *out, const struct native_acquisition *acquisition,
                       size_t want) {
    size_t message = pb_append_begin(out, 6);
    pb_append_bytes(out, 1, acquisition->wants[want].name);
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        if (acquisition->slots[i].want == want) {
            pb_append_element(out, 2, acquisition->slots[i].name);
        }
    }
    pb_append_end(out, message);
}

bool native_show_acquisition(struct buffer *out, uint32_t field, struct native_door *door,
                             const struct caller *caller,
                             const struct native_acquisition *acquisition) {
    bool is_shown[NATIVE_WANTS_MAX];
    bool is_any = false;
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct native_want *want = &acquisition->wants[i];
        is_shown[i] = may_read(door, caller, want->is_pool, want->name);
        is_any |= is_shown[i];
    }
    if (!is_any) {
        return false;
    }
    size_t message = pb_append_begin(out, field);
    pb_append_int64(out, 1, acquisition->id);
    pb_append_int64(out, 2, acquisition->session_id);
    pb_append_uint64(out, 3, acquisition->stage);
    pb_append_int64(out, 4, acquisition->token);
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        if (is_shown[i]) {
            show_want(out, &acquisition->wants[i]);
        }
    }
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        if (is_shown[i] && acquisition->wants[i].is_pool && acquisition->stage == NATIVE_ACQUIRED) {
            show_slots(out, acquisition, i);
        }
    }
    pb_append_bytes(out, 7, acquisition->value);
    pb_append_bytes(out, 8, acquisition->owner);
    pb_append_int64(out, 9, acquisition->hold_limit_ms);
    pb_append_int64(out, 10, acquisition->asked_wall_ms);
    pb_append_int64(out, 11, acquisition->acquired_wall_ms);
    pb_append_bytes(out, 12, acquisition->request_id);
    pb_append_end(out, message);
    return true;
}

void native_show_acquisitions(struct buffer *out, uint32_t field, struct native_door *door,
                              const struct caller *caller, const int64_t *ids, size_t n) {
    for (size_t i = 0; i < n && out->size < NATIVE_ANSWER_SIZE; i++) {
        struct native_acquisition acquisition;
        if (native_find_acquisition(door, ids[i], &acquisition)) {
            (void)native_show_acquisition(out, field, door, caller, &acquisition);
        }
    }
}

/* The name of a user that may have been removed meanwhile. */
static struct bytes user_name(struct native_door *door, uint64_t user_id) {
    const struct auth *auth = state_view_auth(service_view(door->service));
    struct auth_user user;
    return user_id != 0 && auth_find_user_id(auth, user_id, &user) ? user.name : bytes_of("", 0);
}

bool native_show_ended(struct buffer *out, uint32_t field, struct native_door *door,
                       const struct caller *caller, const struct native_ended *ended) {
    size_t before = out->size;
    size_t message = pb_append_begin(out, field);
    if (ended->has_acquisition &&
        !native_show_acquisition(out, 1, door, caller, &ended->acquisition)) {
        out->size = before;
        return false;
    }
    const struct native_session_facts session = {.id = ended->session_id,
                                                 .session = ended->session,
                                                 .ttl_ms = ended->session_ttl_ms,
                                                 .parent_id = ended->session.parent_id,
                                                 .created_revision = ended->session_revision};
    native_show_session(out, 2, &session, -1);
    pb_append_uint64(out, 3, ended->reason);
    pb_append_bytes(out, 4, user_name(door, ended->user_id));
    pb_append_int64(out, 5, ended->revision);
    pb_append_int64(out, 6, ended->wall_ms);
    /* An expired session was renewed its TTL before, or a little more. */
    pb_append_int64(out, 7, ended->reason == NATIVE_END_EXPIRED ? ended->session_ttl_ms : -1);
    pb_append_end(out, message);
    return true;
}

/* --- The state of a resource. --- */

struct waiter_list {
    int64_t ids[2][NATIVE_WAITERS_SHOWN_MAX];
    size_t n[2];
    size_t max;
    size_t mode;
};

static bool add_waiter(void *context, const struct record *record) {
    struct waiter_list *list = context;
    if (list->n[list->mode] == list->max) {
        return false;
    }
    list->ids[list->mode][list->n[list->mode]++] = native_key_read(record).id;
    return list->n[list->mode] < list->max;
}

/* Each mode is in order; together they are ordered here, by age. */
static size_t find_waiters(struct native_door *door, struct bytes name, size_t max, int64_t *out) {
    struct waiter_list list = {.max = max};
    if (max == 0) {
        return 0;
    }
    for (list.mode = 0; list.mode < 2; list.mode++) {
        struct key_range range = native_waiters_of(&door->arena, name, (enum native_mode)list.mode);
        key_store_visit(native_keys(door), range.space, range.key, range.range_end, add_waiter,
                        &list);
    }
    size_t at[2] = {0, 0};
    size_t n = 0;
    while (n < max && (at[0] < list.n[0] || at[1] < list.n[1])) {
        size_t mode =
            at[1] == list.n[1] || (at[0] < list.n[0] && list.ids[0][at[0]] < list.ids[1][at[1]])
                ? 0
                : 1;
        out[n++] = list.ids[mode][at[mode]++];
    }
    return n;
}

static int64_t fenced_token(struct native_door *door, const struct caller *caller,
                            struct bytes name) {
    const struct key_range range = {.space = KEY_SPACE_ETCD,
                                    .key = native_fence_key(&door->arena, name)};
    const struct record *fence = key_store_find(native_keys(door), range.space, range.key);
    int64_t token = 0;
    bool is_shown = fence != NULL && (!has_auth(door) || may_read_range(door, caller, &range));
    return is_shown && native_fence_read(record_value(fence), &token) ? token : 0;
}

static int64_t last_token(struct native_door *door, const struct caller *caller,
                          struct bytes name) {
    int64_t token = fenced_token(door, caller, name);
    int64_t ids[NATIVE_HOLDERS_SHOWN_MAX];
    size_t n = native_find_holders(door, false, name, ids, NATIVE_HOLDERS_SHOWN_MAX);
    for (size_t i = 0; i < n; i++) {
        struct native_acquisition acquisition;
        if (native_find_acquisition(door, ids[i], &acquisition) && acquisition.token > token) {
            token = acquisition.token;
        }
    }
    return token;
}

void native_show_resource(struct buffer *out, uint32_t field, struct native_door *door,
                          const struct caller *caller, const struct native_state_shown *shown) {
    int64_t ids[NATIVE_WAITERS_SHOWN_MAX];
    size_t message = pb_append_begin(out, field);
    pb_append_bytes(out, 1, shown->name);
    size_t n = native_find_holders(door, false, shown->name, ids, NATIVE_HOLDERS_SHOWN_MAX);
    native_show_acquisitions(out, 2, door, caller, ids, n);
    struct key_range waiters = native_waiters(&door->arena, shown->name);
    pb_append_uint64(
        out, 3, key_store_count(native_keys(door), waiters.space, waiters.key, waiters.range_end));
    n = find_waiters(door, shown->name, shown->n_waiters_max, ids);
    native_show_acquisitions(out, 4, door, caller, ids, n);
    pb_append_int64(out, 5, shown->remaining_ms);
    pb_append_int64(out, 6, last_token(door, caller, shown->name));
    pb_append_end(out, message);
}
