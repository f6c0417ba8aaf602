#include "doors/native/native_work_rules.h"

#include "doors/native/native_grant_rules.h"

#include <assert.h>
#include <string.h>

enum {
    /* Kept back for what is left: the names of a session that is as full as can be. */
    LEFT_VALUE_SIZE = 32 * 1024,
    LEFT_KEYS_MAX = 48,
    CHANGES_KEPT = LEFT_KEYS_MAX + 2,
    RECORDS_KEPT = 8 * CHANGES_KEPT,
    BYTES_KEPT = LEFT_KEYS_MAX * (LEFT_VALUE_SIZE + 1024),
    RECORDS_TO_TELL = 8
};

void native_work_init(struct native_work *work, struct rule_run *run) {
    *work = (struct native_work){.run = run, .arena = rule_arena(run)};
}

bool native_work_has_room(const struct native_work *work, size_t records, size_t changes,
                          size_t bytes) {
    return rule_records_left(work->run) >= RECORDS_KEPT + records &&
           rule_changes_left(work->run) >= CHANGES_KEPT + changes &&
           rule_bytes_left(work->run) >= BYTES_KEPT + bytes;
}

size_t native_work_records_kept(void) {
    return RECORDS_KEPT;
}

/* --- What is touched. --- */

static void add_queue(struct native_work *work, struct bytes name, int64_t after) {
    struct native_queue *queue = arena_alloc(work->arena, sizeof *queue);
    *queue = (struct native_queue){.name = name, .after = after};
    if (work->queues_last == NULL) {
        work->queues_first = queue;
    } else {
        work->queues_last->next = queue;
    }
    work->queues_last = queue;
}

/* The place of a pool among those by name, or where it would be. */
static size_t seek_pool(const struct native_work *work, struct bytes name) {
    size_t low = 0;
    size_t high = work->n_pools;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(work->pools_by_name[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void reserve_pool(struct native_work *work) {
    if (work->n_pools < work->pools_capacity) {
        return;
    }
    size_t capacity = work->pools_capacity == 0 ? 16 : 2 * work->pools_capacity;
    struct native_pool_state **copy =
        arena_alloc(work->arena, capacity * sizeof(struct native_pool_state *));
    if (work->n_pools > 0) {
        memcpy(copy, work->pools_by_name, work->n_pools * sizeof(struct native_pool_state *));
    }
    work->pools_by_name = copy;
    work->pools_capacity = capacity;
}

struct native_pool_state *native_work_pool(struct native_work *work, struct bytes name) {
    size_t at = seek_pool(work, name);
    if (at < work->n_pools && bytes_equal(work->pools_by_name[at]->name, name)) {
        return work->pools_by_name[at];
    }
    struct native_pool_state *pool = arena_alloc(work->arena, sizeof *pool);
    *pool = (struct native_pool_state){.name = name};
    *(work->pools_last == NULL ? &work->pools : &work->pools_last->next) = pool;
    work->pools_last = pool;
    reserve_pool(work);
    memmove(&work->pools_by_name[at + 1], &work->pools_by_name[at],
            (work->n_pools - at) * sizeof(struct native_pool_state *));
    work->pools_by_name[at] = pool;
    work->n_pools++;
    return pool;
}

void native_work_touch(struct native_work *work, const struct native_want *want) {
    if (want->is_pool) {
        native_work_pool(work, want->name)->is_unsettled = true;
    } else {
        add_queue(work, want->name, INT64_MIN);
    }
}

/* --- Records. --- */

bool native_work_find(struct native_work *work, int64_t id,
                      struct native_acquisition *out_acquisition) {
    const struct record *record =
        rule_get(work->run, KEY_SPACE_NATIVE_RECORDS, native_key_acquisition(work->arena, id));
    return record != NULL &&
           native_acquisition_decode(record_value(record), work->arena, out_acquisition) &&
           out_acquisition->id == id && out_acquisition->session_id == record->lease_id;
}

bool native_work_find_session(struct native_work *work, int64_t id,
                              struct native_session *out_session) {
    const struct record *record =
        rule_get(work->run, KEY_SPACE_NATIVE_RECORDS, native_key_session(work->arena, id));
    return record != NULL && native_session_decode(record_value(record), out_session);
}

static bool take_first(void *context, const struct record *record) {
    const struct record **first = context;
    *first = record;
    return false;
}

bool native_work_first(struct native_work *work, const struct key_range *range, int64_t *out_id) {
    const struct record *first = NULL;
    (void)rule_visit(work->run, range->space, range->key, range->range_end, take_first, &first);
    if (first == NULL) {
        return false;
    }
    *out_id = native_key_read(first).id;
    return true;
}

/* --- Ends. --- */

static uint64_t read_count(struct bytes value) {
    uint64_t number = 0;
    for (size_t i = 0; i < value.size && i < 8; i++) {
        number = number << 8 | value.data[i];
    }
    return number;
}

void native_work_tell(struct native_work *work, struct native_ended *ended) {
    if (work->n_ended == 0) {
        const struct record *count =
            rule_get(work->run, KEY_SPACE_NATIVE_RECORDS, native_key_ended_count());
        work->n_ended = count == NULL ? 0 : read_count(record_value(count));
    }
    struct buffer value;
    buffer_init(&value);
    ended->number = ++work->n_ended;
    ended->revision = rule_revision(work->run);
    ended->wall_ms = rule_wall_ms(work->run);
    native_ended_encode(&value, ended);
    if (native_work_has_room(work, RECORDS_TO_TELL, 1, value.size)) {
        work->has_ended = true;
        (void)rule_put(work->run, KEY_SPACE_NATIVE_RECORDS,
                       native_key_ended(work->arena, ended->number),
                       bytes_of(value.data, value.size), 0);
    }
    buffer_clear(&value);
}

static void write_count(struct native_work *work) {
    uint8_t value[8];
    for (size_t i = 0; i < sizeof value; i++) {
        value[i] = (uint8_t)(work->n_ended >> (56 - 8 * i));
    }
    (void)rule_put(work->run, KEY_SPACE_NATIVE_RECORDS, native_key_ended_count(),
                   bytes_of(value, sizeof value), 0);
}

/* --- What is left. --- */

void native_work_resume(struct native_work *work, struct bytes value) {
    struct reader reader;
    reader_init(&reader, value);
    while (!reader.failed && reader_left(&reader) > 0) {
        bool is_pool = reader_get_u8(&reader) != 0;
        int64_t after = reader_get_zigzag(&reader);
        struct bytes name = reader_get_bytes(&reader);
        if (reader.failed) {
            return;
        }
        if (is_pool) {
            native_work_pool(work, name)->is_unsettled = true;
        } else {
            add_queue(work, name, after);
        }
    }
}

struct left {
    struct native_work *work;
    struct buffer value;
    uint32_t n_keys;
};

static void write_left(struct left *left) {
    if (left->value.size > 0) {
        struct native_work *work = left->work;
        /* Hooks of one revision may each leave something. */
        struct lease_facts ended = {0};
        enum lease_end ignored;
        (void)rule_ended_lease(work->run, &ended, &ignored);
        (void)rule_put(
            work->run, KEY_SPACE_NATIVE_RECORDS,
            native_key_unsettled(work->arena, rule_revision(work->run), ended.id, left->n_keys++),
            bytes_of(left->value.data, left->value.size), 0);
        left->value.size = 0;
    }
}

static void add_left(struct left *left, bool is_pool, struct bytes name, int64_t after) {
    buffer_put_u8(&left->value, is_pool);
    buffer_put_zigzag(&left->value, after);
    buffer_put_bytes(&left->value, name);
    if (left->value.size >= LEFT_VALUE_SIZE) {
        write_left(left);
    }
}

static bool write_rest(struct native_work *work) {
    struct left left = {.work = work};
    bool has_rest = work->queues_first != NULL;
    for (const struct native_pool_state *pool = work->pools; pool != NULL; pool = pool->next) {
        has_rest = has_rest || pool->is_unsettled;
    }
    if (!has_rest) {
        return false;
    }
    buffer_init(&left.value);
    for (const struct native_queue *queue = work->queues_first; queue != NULL;
         queue = queue->next) {
        add_left(&left, false, queue->name, queue->after);
    }
    for (const struct native_pool_state *pool = work->pools; pool != NULL; pool = pool->next) {
        if (pool->is_unsettled) {
            add_left(&left, true, pool->name, 0);
        }
    }
    write_left(&left);
    buffer_clear(&left.value);
    return true;
}

static struct native_pool_state *first_unsettled(const struct native_work *work) {
    struct native_pool_state *pool = work->pools;
    while (pool != NULL && !pool->is_unsettled) {
        pool = pool->next;
    }
    return pool;
}

/* A grant may touch pools, never resources: who has become a holder conflicts with nobody with whom
 * it did not conflict as a waiter. */
static void settle(struct native_work *work) {
    while (work->queues_first != NULL && native_grant_settle_queue(work, work->queues_first)) {
        work->queues_first = work->queues_first->next;
    }
    if (work->queues_first != NULL) {
        return;
    }
    work->queues_last = NULL;
    struct native_pool_state *pool;
    while ((pool = first_unsettled(work)) != NULL) {
        pool->is_unsettled = false;
        if (!native_grant_settle_pool(work, pool)) {
            pool->is_unsettled = true;
            return;
        }
    }
}

bool native_work_finish(struct native_work *work) {
    settle(work);
    bool has_rest = write_rest(work);
    if (work->has_ended) {
        write_count(work);
    }
    return has_rest;
}
