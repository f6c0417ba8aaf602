#include "doors/dns/dns_cache.h"

#include "base/keyed_hash.h"

#include <stdlib.h>

enum {
    SLOTS = 1024, /* a power of two */
    BYTES_MAX = 64 * 1024 * 1024,
    ENTRIES_MIN = 16
};

/* One service; another one with the same place replaces it. */
struct slot {
    struct arena arena; /* of all that follows */
    size_t n_bytes;     /* about */
    struct bytes service;
    int64_t revision; /* 0: nothing is here */
    struct dns_instances instances;
};

struct dns_cache {
    struct hash_key key;
    struct arena scratch;
    size_t n_bytes;
    struct slot slots[SLOTS];
};

struct dns_cache *dns_cache_create(void) {
    struct dns_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        abort();
    }
    hash_key_fill(&cache->key);
    arena_init(&cache->scratch);
    for (size_t i = 0; i < SLOTS; i++) {
        arena_init(&cache->slots[i].arena);
    }
    return cache;
}

static void slot_clear(struct dns_cache *cache, struct slot *slot) {
    cache->n_bytes -= slot->n_bytes;
    arena_clear(&slot->arena);
    *slot = (struct slot){0};
    arena_init(&slot->arena);
}

void dns_cache_destroy(struct dns_cache *cache) {
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < SLOTS; i++) {
        slot_clear(cache, &cache->slots[i]);
    }
    arena_clear(&cache->scratch);
    free(cache);
}

static struct slot *slot_of(struct dns_cache *cache, struct bytes service) {
    return &cache->slots[keyed_hash_bytes(&cache->key, service) & (SLOTS - 1)];
}

const struct dns_instances *dns_cache_find(struct dns_cache *cache, const struct key_store *keys,
                                           struct bytes service) {
    struct slot *slot = slot_of(cache, service);
    arena_reset(&cache->scratch);
    if (slot->revision == 0 || !bytes_equal(slot->service, service) ||
        slot->revision != registry_view_revision(keys, &cache->scratch, service)) {
        return NULL;
    }
    return &slot->instances;
}

/* --- Reading: the store's memory may go, so everything is copied. --- */

struct reading {
    struct slot *slot;
    struct registry_entry *entries;
    size_t n;
    size_t capacity;
};

static void *allocate(struct slot *slot, size_t count, size_t size) {
    slot->n_bytes += count * size;
    return arena_calloc(&slot->arena, count, size);
}

static struct bytes copy(struct slot *slot, struct bytes text) {
    uint8_t *memory = allocate(slot, text.size, 1);
    if (text.size > 0) {
        memcpy(memory, text.data, text.size);
    }
    return bytes_of(memory, text.size);
}

static void copy_entry(struct slot *slot, const struct registry_entry *entry,
                       struct registry_entry *out_entry) {
    const struct registry_instance *from = &entry->instance;
    struct bytes *tags = allocate(slot, from->n_tags, sizeof *tags);
    struct registry_pair *pairs = allocate(slot, from->n_metadata, sizeof *pairs);
    for (size_t i = 0; i < from->n_tags; i++) {
        tags[i] = copy(slot, from->tags[i]);
    }
    for (size_t i = 0; i < from->n_metadata; i++) {
        pairs[i] = (struct registry_pair){.key = copy(slot, from->metadata[i].key),
                                          .value = copy(slot, from->metadata[i].value)};
    }
    *out_entry = (struct registry_entry){.instance = {.service = slot->service,
                                                      .id = copy(slot, from->id),
                                                      .address = copy(slot, from->address),
                                                      .node = copy(slot, from->node),
                                                      .port = from->port,
                                                      .weight = from->weight,
                                                      .lease_id = from->lease_id,
                                                      .n_tags = from->n_tags,
                                                      .tags = tags,
                                                      .n_metadata = from->n_metadata,
                                                      .metadata = pairs},
                                         .is_serving = true};
}

static bool take(void *context, const struct registry_entry *entry) {
    struct reading *reading = context;
    if (!entry->is_serving) {
        return true;
    }
    if (reading->n == reading->capacity) {
        size_t capacity = reading->capacity == 0 ? ENTRIES_MIN : 2 * reading->capacity;
        struct registry_entry *entries = allocate(reading->slot, capacity, sizeof *entries);
        if (reading->n > 0) {
            memcpy(entries, reading->entries, reading->n * sizeof *entries);
        }
        reading->entries = entries;
        reading->capacity = capacity;
    }
    copy_entry(reading->slot, entry, &reading->entries[reading->n++]);
    return true;
}

const struct dns_instances *dns_cache_read(struct dns_cache *cache, const struct key_store *keys,
                                           struct bytes service) {
    struct slot *slot = slot_of(cache, service);
    slot_clear(cache, slot);
    for (size_t i = 0; i < SLOTS && cache->n_bytes > BYTES_MAX; i++) {
        slot_clear(cache, &cache->slots[i]);
    }
    arena_reset(&cache->scratch);
    slot->service = copy(slot, service);
    slot->revision = registry_view_revision(keys, &cache->scratch, service);
    struct reading reading = {.slot = slot};
    registry_view_visit(keys, &cache->scratch, service, take, &reading);
    slot->instances = (struct dns_instances){.n = reading.n, .entries = reading.entries};
    cache->n_bytes += slot->n_bytes;
    arena_clear(&cache->scratch);
    return &slot->instances;
}
