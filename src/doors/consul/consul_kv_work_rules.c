/* Pure: run by every replica when the command is applied, with the same result. */
#include "doors/consul/consul_kv_work_rules.h"

#include <string.h>

void consul_work_init(struct consul_work *work, struct rule_run *run) {
    *work = (struct consul_work){.run = run};
}

/* --- The keys by name. Not a hash table: clients choose the names, rules have no secret, and a
 * hash that everybody can compute is one that somebody will make meet. --- */

/* The place of a name, or where it would be: the first that is not below it. */
static size_t seek(const struct consul_work *work, struct bytes name) {
    size_t low = 0;
    size_t high = work->n_keys;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(work->by_name[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const struct consul_work *work, size_t at, struct bytes name) {
    return at < work->n_keys && bytes_equal(work->by_name[at]->name, name);
}

static struct consul_work_key **grown(struct consul_work *work, struct consul_work_key **keys,
                                      size_t capacity) {
    struct consul_work_key **copy =
        arena_calloc(rule_arena(work->run), capacity, sizeof(struct consul_work_key *));
    for (size_t i = 0; i < work->n_keys; i++) {
        copy[i] = keys[i];
    }
    return copy;
}

static void reserve(struct consul_work *work, size_t n_more) {
    size_t capacity = work->capacity == 0 ? 16 : work->capacity;
    while (capacity < work->n_keys + n_more) {
        capacity *= 2;
    }
    if (capacity > work->capacity) {
        work->keys = grown(work, work->keys, capacity);
        work->by_name = grown(work, work->by_name, capacity);
        work->capacity = capacity;
    }
}

static void note_revision(struct consul_work_key *key, const struct record *record) {
    if (record->mod_revision > key->modify_index) {
        key->modify_index = record->mod_revision;
    }
}

static struct consul_work_key *load(struct consul_work *work, struct bytes name) {
    struct arena *arena = rule_arena(work->run);
    struct consul_work_key *key = arena_calloc(arena, 1, sizeof *key);
    key->name = name;
    const struct record *lock = rule_get(work->run, KEY_SPACE_CONSUL, consul_key_lock(arena, name));
    if (lock != NULL && consul_lock_decode(record_value(lock), &key->lock)) {
        key->had_lock = true;
        key->held_before = key->lock.session;
        note_revision(key, lock);
    }
    const struct record *value =
        rule_get(work->run, KEY_SPACE_CONSUL, consul_key_value(arena, name));
    if (value != NULL && consul_value_decode(record_value(value), &key->value)) {
        key->exists = true;
        key->was_there = true;
        key->create_index = value->create_revision;
        note_revision(key, value);
    }
    return key;
}

struct consul_work_key *consul_work_key(struct consul_work *work, struct bytes name) {
    size_t at = seek(work, name);
    if (is_at(work, at, name)) {
        return work->by_name[at];
    }
    reserve(work, 1);
    struct consul_work_key *key = load(work, name);
    memmove(&work->by_name[at + 1], &work->by_name[at],
            (work->n_keys - at) * sizeof(struct consul_work_key *));
    work->by_name[at] = key;
    work->keys[work->n_keys++] = key;
    return key;
}

/* --- Trees. --- */

struct names {
    struct arena *arena;
    struct bytes *names;
    size_t n;
    size_t capacity;
};

static bool note_name(void *context, const struct record *record) {
    struct names *names = context;
    struct bytes name;
    bool is_value;
    if (!consul_key_read(record, &name, &is_value) || !is_value) {
        return true;
    }
    if (names->n == names->capacity) {
        size_t capacity = names->capacity == 0 ? 64 : 2 * names->capacity;
        struct bytes *grown = arena_calloc(names->arena, capacity, sizeof *grown);
        for (size_t i = 0; i < names->n; i++) {
            grown[i] = names->names[i];
        }
        names->names = grown;
        names->capacity = capacity;
    }
    names->names[names->n++] = name;
    return true;
}

static bool begins_with(struct bytes text, struct bytes prefix) {
    return text.size >= prefix.size &&
           (prefix.size == 0 || memcmp(text.data, prefix.data, prefix.size) == 0);
}

/* The keys behind the first `n_before` are new and in order: they are merged into those by name. */
static void merge(struct consul_work *work, size_t n_before) {
    size_t n_old = n_before;
    size_t n_new = work->n_keys;
    for (size_t to = work->n_keys; n_new > n_before; to--) {
        bool is_old = n_old > 0 && bytes_compare(work->by_name[n_old - 1]->name,
                                                 work->keys[n_new - 1]->name) > 0;
        work->by_name[to - 1] = is_old ? work->by_name[--n_old] : work->keys[--n_new];
    }
}

/* Loads those that are not known yet; the names are in order. */
static void load_all(struct consul_work *work, const struct names *names) {
    size_t n_before = work->n_keys;
    size_t n_keys = n_before;
    size_t at = 0;
    bool is_refused = false;
    reserve(work, names->n);
    for (size_t i = 0; i < names->n && !is_refused; i++) {
        while (at < n_before && bytes_compare(work->by_name[at]->name, names->names[i]) < 0) {
            at++;
        }
        if (at == n_before || !bytes_equal(work->by_name[at]->name, names->names[i])) {
            is_refused = rule_records_left(work->run) == 0; /* by what load() looks at */
            work->keys[n_keys++] = load(work, names->names[i]);
        }
    }
    work->n_keys = n_keys;
    merge(work, n_before);
}

struct consul_work_key *const *consul_work_tree(struct consul_work *work, struct bytes prefix,
                                                size_t *out_n) {
    struct arena *arena = rule_arena(work->run);
    struct names names = {.arena = arena};
    struct key_range range = consul_prefix_range(arena, prefix);
    *out_n = 0;
    if (!rule_visit(work->run, range.space, range.key, range.range_end, note_name, &names)) {
        return NULL; /* refused */
    }
    load_all(work, &names);
    size_t begin = seek(work, prefix);
    size_t end = begin;
    while (end < work->n_keys && begins_with(work->by_name[end]->name, prefix)) {
        end++;
    }
    struct consul_work_key **found =
        arena_calloc(arena, end - begin, sizeof(struct consul_work_key *));
    for (size_t i = begin; i < end; i++) {
        if (work->by_name[i]->exists) {
            found[(*out_n)++] = work->by_name[i];
        }
    }
    return found;
}

/* --- Changes. --- */

void consul_work_set(struct consul_work *work, struct consul_work_key *key, uint64_t flags,
                     struct bytes value) {
    int64_t revision = rule_revision(work->run);
    if (key->exists && key->value.flags == flags && bytes_equal(key->value.value, value)) {
        return;
    }
    key->create_index = key->exists ? key->create_index : revision;
    key->exists = true;
    key->value.flags = flags;
    key->value.value = value;
    key->value_changed = true;
    key->modify_index = revision;
}

/* Keys of this run that the session acquires are not counted yet. */
static size_t locks_of(struct consul_work *work, struct bytes id) {
    struct key_range range = consul_held_range(rule_arena(work->run), id);
    size_t n = rule_count(work->run, range.space, range.key, range.range_end);
    for (size_t i = 0; i < work->n_keys; i++) {
        n += work->keys[i]->lock_changed && bytes_equal(work->keys[i]->lock.session, id) ? 1 : 0;
    }
    return n;
}

bool consul_work_lock(struct consul_work *work, struct consul_work_key *key,
                      const struct consul_session *session) {
    if (key->name.size > CONSUL_LOCK_KEY_SIZE_MAX ||
        locks_of(work, session->id) >= CONSUL_SESSION_LOCKS_MAX) {
        return false;
    }
    uint64_t lock_index = key->exists ? key->lock.lock_index : 0;
    key->lock = (struct consul_lock){.lock_index = lock_index + 1,
                                     .session = session->id,
                                     .lease_id = session->lease_id,
                                     .deletes = session->deletes};
    key->lock_changed = true;
    /* The value goes with the session. */
    key->value_changed = key->value_changed || (key->exists && session->deletes);
    key->modify_index = rule_revision(work->run);
    return true;
}

void consul_work_unlock(struct consul_work *work, struct consul_work_key *key) {
    key->value_changed = key->value_changed || key->lock.deletes;
    key->lock = (struct consul_lock){.lock_index = key->lock.lock_index};
    key->lock_changed = true;
    key->modify_index = rule_revision(work->run);
}

void consul_work_delete(struct consul_work *work, struct consul_work_key *key) {
    struct lease_facts ignored;
    bool is_delayed = key->lock.delay_lease_id != 0 &&
                      rule_lease_find(work->run, key->lock.delay_lease_id, &ignored);
    if (!key->exists) {
        return;
    }
    key->exists = false;
    key->was_deleted = true;
    key->value_changed = true;
    key->lock_changed = true;
    key->lock.lock_index = 0;
    key->lock.session = bytes_of("", 0);
    key->lock.lease_id = 0;
    key->lock.delay_lease_id = is_delayed ? key->lock.delay_lease_id : 0;
    key->modify_index = 0;
}

/* --- Writing. --- */

/* False: the run is refused. What is there can be deleted, and anything be put, unless it is. */
static bool store_value(struct consul_work *work, const struct consul_work_key *key,
                        int64_t lease_id) {
    struct bytes name = consul_key_value(rule_arena(work->run), key->name);
    if (key->was_deleted && key->was_there && !rule_delete(work->run, KEY_SPACE_CONSUL, name)) {
        return false;
    }
    if (!key->exists) {
        return true;
    }
    struct buffer value;
    buffer_init(&value);
    consul_value_encode(&value, &key->value);
    bool is_put = rule_put(work->run, KEY_SPACE_CONSUL, name, bytes_of(value.data, value.size),
                           lease_id) != 0;
    buffer_clear(&value);
    return is_put;
}

/* The lock of a key that is not there is kept for its lock-delay, and goes with that. */
static void store_lock(struct consul_work *work, const struct consul_work_key *key,
                       int64_t lease_id) {
    struct bytes name = consul_key_lock(rule_arena(work->run), key->name);
    if (!key->exists && key->lock.delay_lease_id == 0) {
        (void)rule_delete(work->run, KEY_SPACE_CONSUL, name);
        return;
    }
    struct buffer value;
    buffer_init(&value);
    consul_lock_encode(&value, &key->lock);
    (void)rule_put(work->run, KEY_SPACE_CONSUL, name, bytes_of(value.data, value.size),
                   key->exists ? lease_id : key->lock.delay_lease_id);
    buffer_clear(&value);
}

static void store_held(struct consul_work *work, const struct consul_work_key *key) {
    struct arena *arena = rule_arena(work->run);
    if (bytes_equal(key->held_before, key->lock.session)) {
        return;
    }
    if (key->held_before.size > 0) {
        (void)rule_delete(work->run, KEY_SPACE_CONSUL_RECORDS,
                          consul_key_held(arena, key->held_before, key->name));
    }
    if (key->lock.session.size > 0) {
        (void)rule_put(work->run, KEY_SPACE_CONSUL_RECORDS,
                       consul_key_held(arena, key->lock.session, key->name), bytes_of("", 0),
                       key->lock.lease_id);
    }
}

void consul_work_store(struct consul_work *work) {
    bool is_deleted = false;
    bool is_refused = false;
    for (size_t i = 0; i < work->n_keys && !is_refused; i++) {
        const struct consul_work_key *key = work->keys[i];
        /* With a session that deletes, both records go with its lease. */
        int64_t lease_id = key->lock.session.size > 0 && key->lock.deletes ? key->lock.lease_id : 0;
        if (key->value_changed && (key->exists || key->was_there)) {
            is_refused = !store_value(work, key, lease_id);
            is_deleted = is_deleted || !key->exists;
        }
        if (key->lock_changed && (key->exists || key->had_lock)) {
            store_lock(work, key, lease_id);
        }
        store_held(work, key);
    }
    if (is_deleted) {
        (void)rule_put(work->run, KEY_SPACE_CONSUL_RECORDS, consul_key_deleted(), bytes_of("", 0),
                       0);
    }
}

/* --- Sessions. --- */

bool consul_work_session(struct rule_run *run, struct bytes id,
                         struct consul_session *out_session) {
    struct arena *arena = rule_arena(run);
    const struct record *record =
        rule_get(run, KEY_SPACE_CONSUL_RECORDS, consul_key_session(arena, id));
    return record != NULL && consul_keys_read_session(record, arena, out_session);
}

bool consul_work_may_use(struct rule_run *run, const struct consul_session *session) {
    const struct caller *caller = rule_caller(run);
    if (session->user_id == 0 || session->user_id == caller->user_id) {
        return true;
    }
    struct key_range all = consul_prefix_range(rule_arena(run), bytes_of("", 0));
    return rule_may(run, RIGHT_WRITE, &all);
}
