#include "doors/dns/dns_cache.h"

#include "base/keyed_hash.h"
#include "core/service.h"
#include "core/state_machine.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SLOTS = 1024,                 /* a power of two */
    BYTES_MAX = 64 * 1024 * 1024, /* of all but the largest service */
    STALE_MS_MAX = 10 * 1000,     /* what was newest longer ago is not shown any more */
    ENTRIES_MIN = 16
};

/* One service; another one with the same place replaces it. */
struct slot {
    struct arena arena; /* of all that follows */
    size_t n_bytes;     /* about */
    struct bytes service;
    int64_t revision;   /* 0: nothing is here */
    uint64_t newest_ms; /* when it was known to be that of the service */
    struct dns_instances instances;
};

struct job;

struct dns_cache {
    struct service *service;
    struct job *job; /* what a worker reads; NULL: nothing */
    struct hash_key key;
    struct arena scratch;
    size_t n_bytes;
    struct slot slots[SLOTS];
};

struct dns_cache *dns_cache_create(struct service *service) {
    struct dns_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        abort();
    }
    cache->service = service;
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
    assert(cache->job == NULL); /* the service is closed */
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
    slot->newest_ms = service_now_ms(cache->service);
    return &slot->instances;
}

/* --- Reading: the store's memory may go, so everything is copied. --- */

struct reading {
    struct slot *slot;
    struct registry_entry *entries; /* malloc() */
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
                                                      .zone = copy(slot, from->zone),
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
        struct registry_entry *entries =
            realloc(reading->entries, capacity * sizeof *reading->entries);
        if (entries == NULL) {
            abort();
        }
        reading->entries = entries;
        reading->capacity = capacity;
    }
    copy_entry(reading->slot, entry, &reading->entries[reading->n++]);
    return true;
}

static void fill(struct slot *slot, const struct key_store *keys, struct arena *scratch) {
    struct reading reading = {.slot = slot};
    slot->revision = registry_view_revision(keys, scratch, slot->service);
    registry_view_visit(keys, scratch, slot->service, take, &reading);
    struct registry_entry *entries = allocate(slot, reading.n, sizeof *entries);
    if (reading.n > 0) {
        memcpy(entries, reading.entries, reading.n * sizeof *entries);
    }
    free(reading.entries);
    slot->instances = (struct dns_instances){.n = reading.n, .entries = entries};
}

static const struct slot *largest_of(const struct dns_cache *cache) {
    const struct slot *largest = &cache->slots[0];
    for (size_t i = 1; i < SLOTS; i++) {
        largest = cache->slots[i].n_bytes > largest->n_bytes ? &cache->slots[i] : largest;
    }
    return largest;
}

/* The place of a service, empty, with room for it. The largest one stays, however large it is: what
 * only a worker can read would be gone whenever anything else is read. */
static struct slot *make_room(struct dns_cache *cache, struct bytes service) {
    struct slot *slot = slot_of(cache, service);
    slot_clear(cache, slot);
    if (cache->n_bytes <= BYTES_MAX) {
        return slot;
    }
    const struct slot *largest = largest_of(cache);
    for (size_t i = 0; i < SLOTS && cache->n_bytes - largest->n_bytes > BYTES_MAX; i++) {
        if (&cache->slots[i] != largest) {
            slot_clear(cache, &cache->slots[i]);
        }
    }
    return slot;
}

const struct dns_instances *dns_cache_read(struct dns_cache *cache, const struct key_store *keys,
                                           struct bytes service) {
    struct slot *slot = make_room(cache, service);
    arena_reset(&cache->scratch);
    slot->service = copy(slot, service);
    slot->newest_ms = service_now_ms(cache->service);
    fill(slot, keys, &cache->scratch);
    cache->n_bytes += slot->n_bytes;
    arena_clear(&cache->scratch);
    return &slot->instances;
}

/* --- By a worker. --- */

struct job {
    struct service_scan scan;
    struct dns_cache *cache;
    struct slot slot; /* of no table yet */
};

static void run(struct service_scan *scan) {
    struct job *job = list_entry(scan, struct job, scan);
    struct arena scratch;
    arena_init(&scratch);
    fill(&job->slot, key_view_store(snapshot_view_keys(scan->view)), &scratch);
    arena_clear(&scratch);
}

static void job_end(struct job *job) {
    bool is_ended = service_scan_end(&job->scan);
    assert(is_ended);
    job->cache->job = NULL;
    free(job);
}

static void ran(struct service_scan *scan) {
    struct job *job = list_entry(scan, struct job, scan);
    struct slot *slot = make_room(job->cache, job->slot.service);
    *slot = job->slot;
    job->cache->n_bytes += slot->n_bytes;
    job_end(job);
}

static void revoked(struct service_scan *scan, enum status status) {
    struct job *job = list_entry(scan, struct job, scan);
    (void)status; /* the next query asks again */
    arena_clear(&job->slot.arena);
    job_end(job);
}

/* Who may ask is looked at with every query. */
static void job_start(struct dns_cache *cache, struct bytes service) {
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return;
    }
    job->scan = (struct service_scan){.run = run, .ran = ran, .revoked = revoked};
    job->cache = cache;
    arena_init(&job->slot.arena);
    job->slot.service = copy(&job->slot, service);
    job->slot.newest_ms = service_now_ms(cache->service);
    if (service_scan_start(cache->service, &caller_server, &job->scan, NULL, 0) != STATUS_PENDING) {
        arena_clear(&job->slot.arena);
        free(job);
        return;
    }
    cache->job = job;
}

const struct dns_instances *dns_cache_read_later(struct dns_cache *cache, struct bytes service) {
    struct slot *slot = slot_of(cache, service);
    if (cache->job == NULL) {
        job_start(cache, service);
    }
    bool is_known = slot->revision != 0 && bytes_equal(slot->service, service) &&
                    service_now_ms(cache->service) - slot->newest_ms <= STALE_MS_MAX;
    return is_known ? &slot->instances : NULL;
}
