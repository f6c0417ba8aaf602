#include "doors/native/native_estimate_rules.h"

#include "core/key_work.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_pool_state_rules.h"

enum {
    /* An acquisition that is found, decoded and compared. */
    WORK_A_CANDIDATE = 2 * KEY_WORK_A_VERSION,
    /* Of a record that is written, in the time that a record takes which is looked at. */
    BYTES_WRITTEN = 8
};

static size_t count(const struct key_store *keys, const struct key_range *range) {
    return key_store_count(keys, range->space, range->key, range->range_end);
}

static size_t work_of_pool(const struct key_store *keys, struct arena *arena, struct bytes name) {
    const struct record *record =
        key_store_find(keys, KEY_SPACE_NATIVE, native_key_pool(arena, name));
    if (record == NULL) {
        return 0;
    }
    struct key_range taken = native_taken_slots(arena, name);
    struct key_range waiters = native_pool_waiters(arena, name);
    return NATIVE_POOL_WORK_A_SLOT * (native_pool_read_count(record_value(record)) +
                                      count(keys, &taken) + count(keys, &waiters));
}

static size_t work_of_pools(const struct key_store *keys, struct arena *arena,
                            const struct native_want *wants, size_t n_wants) {
    size_t work = 0;
    for (size_t i = 0; i < n_wants; i++) {
        work += wants[i].is_pool ? work_of_pool(keys, arena, wants[i].name) : 0;
    }
    return work;
}

static const struct record *find(const struct key_store *keys, struct arena *arena, int64_t id) {
    return key_store_find(keys, KEY_SPACE_NATIVE_RECORDS, native_key_acquisition(arena, id));
}

static size_t work_of_record(const struct record *record) {
    return record == NULL ? 0 : record->value_size / BYTES_WRITTEN;
}

size_t native_estimate_pool(const struct key_store *keys, struct bytes name) {
    struct arena arena;
    arena_init(&arena);
    size_t work = work_of_pool(keys, &arena, name);
    arena_clear(&arena);
    return work;
}

/* A request that was made before writes its acquisition again, with all its slots. */
static size_t work_of_repeated(const struct key_store *keys, struct arena *arena,
                               struct bytes request_key) {
    const struct record *record = key_store_find(keys, KEY_SPACE_NATIVE_RECORDS, request_key);
    uint64_t id = 0;
    if (record == NULL || record->value_size != sizeof id) {
        return 0;
    }
    for (size_t i = 0; i < sizeof id; i++) {
        id = id << 8 | record_value(record).data[i];
    }
    return work_of_record(find(keys, arena, (int64_t)id));
}

static bool has_pool(const struct native_want *wants, size_t n) {
    bool has = false;
    for (size_t i = 0; i < n && !has; i++) {
        has = wants[i].is_pool;
    }
    return has;
}

size_t native_estimate_wants(const struct key_store *keys, const struct native_want *wants,
                             size_t n_wants, int64_t session_id, struct bytes request_id) {
    struct arena arena;
    if (!has_pool(wants, n_wants)) {
        return 0; /* resources are little work */
    }
    arena_init(&arena);
    size_t work = work_of_pools(keys, &arena, wants, n_wants);
    if (session_id != 0) {
        work += work_of_repeated(
            keys, &arena, native_key_request(&arena, session_id, request_id, wants, n_wants));
    }
    arena_clear(&arena);
    return work;
}

size_t native_estimate_proclaim(const struct key_store *keys, int64_t acquisition_id) {
    struct arena arena;
    arena_init(&arena);
    size_t work = work_of_record(find(keys, &arena, acquisition_id));
    arena_clear(&arena);
    return work;
}

static size_t work_of_release(const struct key_store *keys, struct arena *arena, int64_t id,
                              struct native_acquisition *out_acquisition) {
    const struct record *record = find(keys, arena, id);
    if (record == NULL ||
        !native_acquisition_decode(record_value(record), arena, out_acquisition)) {
        out_acquisition->n_wants = 0;
        return 0;
    }
    return KEY_WORK_A_DELETE * out_acquisition->n_slots +
           work_of_pools(keys, arena, out_acquisition->wants, out_acquisition->n_wants);
}

size_t native_estimate_release(const struct key_store *keys, int64_t acquisition_id) {
    struct arena arena;
    struct native_acquisition ignored;
    arena_init(&arena);
    size_t work = work_of_release(keys, &arena, acquisition_id, &ignored);
    arena_clear(&arena);
    return work;
}

static struct key_range candidates_of(struct arena *arena, const struct native_want *want,
                                      int64_t to_session_id) {
    if (to_session_id != 0) {
        return native_requests(arena, to_session_id);
    }
    return want->is_pool ? native_pool_waiters(arena, want->name)
                         : native_waiters_of(arena, want->name, want->mode);
}

size_t native_estimate_transfer(const struct key_store *keys, int64_t acquisition_id,
                                int64_t to_session_id) {
    struct arena arena;
    struct native_acquisition held;
    arena_init(&arena);
    size_t work = work_of_release(keys, &arena, acquisition_id, &held);
    if (held.n_wants > 0) {
        struct key_range range = candidates_of(&arena, &held.wants[0], to_session_id);
        work += WORK_A_CANDIDATE * count(keys, &range);
    }
    arena_clear(&arena);
    return work;
}
