#include "doors/consul/consul_keys.h"

#include <endian.h>

static struct bytes join(struct arena *arena, struct bytes a, struct bytes b) {
    uint8_t *memory = arena_alloc(arena, a.size + b.size);
    if (a.size > 0) {
        memcpy(memory, a.data, a.size);
    }
    if (b.size > 0) {
        memcpy(memory + a.size, b.data, b.size);
    }
    return bytes_of(memory, a.size + b.size);
}

struct bytes consul_key_lock(struct arena *arena, struct bytes key) {
    return join(arena, key, bytes_of("\0l", 2));
}

struct bytes consul_key_value(struct arena *arena, struct bytes key) {
    return join(arena, key, bytes_of("\0v", 2));
}

struct key_range consul_key_range(struct arena *arena, struct bytes key) {
    return (struct key_range){.space = KEY_SPACE_CONSUL,
                              .key = join(arena, key, bytes_of("\0", 1)),
                              .range_end = join(arena, key, bytes_of("\1", 1))};
}

/* What follows all that begin so; one zero byte when nothing can. */
static struct bytes end_of_prefix(struct arena *arena, struct bytes prefix) {
    uint8_t *memory = arena_copy(arena, prefix.data, prefix.size);
    for (size_t size = prefix.size; size > 0; size--) {
        if (memory[size - 1] != UINT8_MAX) {
            memory[size - 1]++;
            return bytes_of(memory, size);
        }
    }
    return bytes_of("\0", 1);
}

struct key_range consul_prefix_range(struct arena *arena, struct bytes prefix) {
    struct key_range range = {.space = KEY_SPACE_CONSUL};
    range.key = prefix.size > 0 ? prefix : bytes_of("\0", 1);
    range.range_end = prefix.size > 0 ? end_of_prefix(arena, prefix) : bytes_of("\0", 1);
    return range;
}

bool consul_key_read(const struct record *record, struct bytes *out_key, bool *out_is_value) {
    struct bytes stored = record_key(record);
    if (stored.size < 3 || stored.data[stored.size - 2] != 0) {
        return false;
    }
    *out_key = bytes_of(stored.data, stored.size - 2);
    *out_is_value = stored.data[stored.size - 1] == 'v';
    return true;
}

struct bytes consul_key_deleted(void) {
    return bytes_of("d", 1);
}

struct bytes consul_key_sessions_ended(void) {
    return bytes_of("e", 1);
}

struct bytes consul_key_session(struct arena *arena, struct bytes id) {
    return join(arena, bytes_of("s", 1), id);
}

struct bytes consul_key_bound(struct arena *arena, struct bytes id) {
    return join(arena, bytes_of("b", 1), id);
}

struct key_range consul_bound_range(void) {
    return (struct key_range){
        .space = KEY_SPACE_CONSUL_RECORDS, .key = bytes_of("b", 1), .range_end = bytes_of("c", 1)};
}

struct bytes consul_key_held(struct arena *arena, struct bytes id, struct bytes key) {
    return join(arena, join(arena, bytes_of("m", 1), id), key);
}

struct key_range consul_sessions_range(struct arena *arena, struct bytes id) {
    if (id.size > 0) {
        return (struct key_range){.space = KEY_SPACE_CONSUL_RECORDS,
                                  .key = consul_key_session(arena, id)};
    }
    return (struct key_range){
        .space = KEY_SPACE_CONSUL_RECORDS, .key = bytes_of("s", 1), .range_end = bytes_of("t", 1)};
}

struct key_range consul_held_range(struct arena *arena, struct bytes id) {
    struct bytes prefix = consul_key_held(arena, id, bytes_of("", 0));
    return (struct key_range){.space = KEY_SPACE_CONSUL_RECORDS,
                              .key = prefix,
                              .range_end = end_of_prefix(arena, prefix)};
}

struct bytes consul_key_event(struct arena *arena, uint64_t place) {
    uint64_t number = htobe64(place);
    return join(arena, bytes_of("u", 1), bytes_of(&number, sizeof number));
}

struct bytes consul_key_event_count(void) {
    return bytes_of("w", 1);
}

struct key_range consul_events_range(void) {
    return (struct key_range){
        .space = KEY_SPACE_CONSUL_RECORDS, .key = bytes_of("u", 1), .range_end = bytes_of("v", 1)};
}

/* --- Reading. --- */

struct walk {
    bool (*visit)(void *context, const struct consul_entry *entry);
    void *context;
    struct consul_entry entry; /* of the lock that was met last */
};

/* The lock of a key comes before its value. */
static bool on_record(void *context, const struct record *record) {
    struct walk *walk = context;
    struct bytes key;
    bool is_value;
    if (!consul_key_read(record, &key, &is_value)) {
        return true;
    }
    if (!is_value) {
        walk->entry = (struct consul_entry){.key = key, .modify_index = record->mod_revision};
        if (!consul_lock_decode(record_value(record), &walk->entry.lock)) {
            walk->entry.key.size = 0;
        }
        return true;
    }
    if (!bytes_equal(walk->entry.key, key)) {
        walk->entry = (struct consul_entry){.key = key};
    }
    walk->entry.create_index = record->create_revision;
    if (record->mod_revision > walk->entry.modify_index) {
        walk->entry.modify_index = record->mod_revision;
    }
    return !consul_value_decode(record_value(record), &walk->entry.value) ||
           walk->visit(walk->context, &walk->entry);
}

void consul_keys_visit(const struct key_store *keys, const struct key_range *range,
                       bool (*visit)(void *context, const struct consul_entry *entry),
                       void *context) {
    struct walk walk = {.visit = visit, .context = context};
    (void)key_store_visit(keys, range->space, range->key, range->range_end, on_record, &walk);
}

int64_t consul_keys_revision(const struct key_store *keys, struct bytes key) {
    const struct record *record = key_store_find(keys, KEY_SPACE_CONSUL_RECORDS, key);
    return record != NULL ? record->mod_revision : 1;
}

bool consul_keys_read_session(const struct record *record, struct arena *arena,
                              struct consul_session *out_session) {
    struct bytes key = record_key(record);
    if (key.size != 1 + CONSUL_UUID_SIZE ||
        !consul_session_decode(record_value(record), arena, out_session)) {
        return false;
    }
    out_session->id = bytes_of(key.data + 1, CONSUL_UUID_SIZE);
    out_session->lease_id = record->lease_id;
    out_session->create_index = record->create_revision;
    return true;
}

bool consul_keys_session(const struct key_store *keys, struct arena *arena, struct bytes id,
                         struct consul_session *out_session) {
    const struct record *record =
        key_store_find(keys, KEY_SPACE_CONSUL_RECORDS, consul_key_session(arena, id));
    return record != NULL && consul_keys_read_session(record, arena, out_session);
}
