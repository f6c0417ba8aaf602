/*
 * The key store as one would write it without caring for speed: every key with all its versions,
 * nothing ever thrown away. What the real store answers is compared with this.
 */
#ifndef LEASED_TESTS_KEY_STORE_REFERENCE_H
#define LEASED_TESTS_KEY_STORE_REFERENCE_H

#include "core/key_store.h"

#include <stdio.h>
#include <stdlib.h>

extern uint64_t model_seed;
extern uint64_t model_step;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s is false; seed %llu, step %llu\n", __FILE__, __LINE__,      \
                    #condition, (unsigned long long)model_seed, (unsigned long long)model_step);   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { KEY_MAX = 32 };

struct ref_version {
    int64_t create, mod, version, lease; /* version 0: a tombstone */
    uint32_t sub;
    uint32_t value_size;
    uint8_t value[24];
};

struct ref_key {
    struct key_space_id space;
    uint32_t size;
    uint8_t bytes[KEY_MAX];
    size_t n;
    size_t capacity;
    struct ref_version *versions;
};

struct ref_store {
    struct ref_key *keys; /* sorted, never taken out */
    size_t n;
    size_t capacity;
    int64_t revision;
    int64_t compacted;
    uint32_t n_changes;
};

static inline struct bytes ref_key_bytes(const struct ref_key *key) {
    return bytes_of(key->bytes, key->size);
}

static inline int ref_compare(const struct ref_key *key, struct key_space_id space,
                              struct bytes bytes) {
    int order = (int)key->space.value - (int)space.value;
    return order != 0 ? order : bytes_compare(ref_key_bytes(key), bytes);
}

/* The key's place, made when missing. */
static inline struct ref_key *ref_key(struct ref_store *ref, struct key_space_id space,
                                      struct bytes bytes) {
    size_t i = 0;
    size_t high = ref->n;
    while (i < high) {
        size_t middle = (i + high) / 2;
        if (ref_compare(&ref->keys[middle], space, bytes) < 0) {
            i = middle + 1;
        } else {
            high = middle;
        }
    }
    if (i < ref->n && ref_compare(&ref->keys[i], space, bytes) == 0) {
        return &ref->keys[i];
    }
    if (ref->n == ref->capacity) {
        ref->capacity = ref->capacity * 2 + 16;
        ref->keys = realloc(ref->keys, ref->capacity * sizeof ref->keys[0]);
        CHECK(ref->keys != NULL);
    }
    memmove(&ref->keys[i + 1], &ref->keys[i], (ref->n - i) * sizeof ref->keys[0]);
    ref->keys[i] = (struct ref_key){.space = space, .size = (uint32_t)bytes.size};
    memcpy(ref->keys[i].bytes, bytes.data, bytes.size);
    ref->n++;
    return &ref->keys[i];
}

static inline const struct ref_version *ref_at(const struct ref_key *key, int64_t revision) {
    for (size_t i = key->n; i > 0; i--) {
        if (key->versions[i - 1].mod <= revision) {
            return key->versions[i - 1].version == 0 ? NULL : &key->versions[i - 1];
        }
    }
    return NULL;
}

static inline void ref_write(struct ref_store *ref, struct key_space_id space,
                             struct bytes key_bytes, bool is_tombstone, struct bytes value,
                             int64_t lease) {
    struct ref_key *key = ref_key(ref, space, key_bytes);
    const struct ref_version *old = ref_at(key, INT64_MAX);
    struct ref_version next = {.mod = ref->revision + 1, .sub = ref->n_changes++};
    if (!is_tombstone) {
        next.create = old == NULL ? next.mod : old->create;
        next.version = old == NULL ? 1 : old->version + 1;
        next.lease = lease;
        next.value_size = (uint32_t)value.size;
        memcpy(next.value, value.data, value.size);
    }
    if (key->n == key->capacity) {
        key->capacity = key->capacity * 2 + 4;
        key->versions = realloc(key->versions, key->capacity * sizeof key->versions[0]);
        CHECK(key->versions != NULL);
    }
    key->versions[key->n++] = next;
}

static inline bool ref_in_range(struct bytes key, struct bytes from, struct bytes end) {
    if (end.size == 0) {
        return bytes_equal(key, from);
    }
    if (bytes_compare(key, from) < 0) {
        return false;
    }
    return (end.size == 1 && end.data[0] == 0) || bytes_compare(key, end) < 0;
}

static inline void ref_check_record(const struct ref_key *key, const struct ref_version *version,
                                    const struct record *record) {
    CHECK(bytes_equal(record_key(record), ref_key_bytes(key)));
    CHECK(key_space_equal(record_space(record), key->space));
    CHECK(bytes_equal(record_value(record), bytes_of(version->value, version->value_size)));
    CHECK(record->create_revision == version->create);
    CHECK(record->mod_revision == version->mod);
    CHECK(record->version == version->version);
    CHECK(record->lease_id == version->lease);
    CHECK(record->sub_revision == version->sub);
}

/* Whether version i of a key is still told of at compaction C: written at C or later, or read at
 * C. */
static inline bool ref_is_held(const struct ref_key *key, size_t i, int64_t compacted) {
    return key->versions[i].mod >= compacted || ref_at(key, compacted) == &key->versions[i];
}

static inline void ref_clear(struct ref_store *ref) {
    for (size_t i = 0; i < ref->n; i++) {
        free(ref->keys[i].versions);
    }
    free(ref->keys);
}

#endif
