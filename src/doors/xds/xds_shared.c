#include "doors/xds/xds_shared.h"

#include "doors/xds/xds_endpoints.h"
#include "doors/xds/xds_name.h"
#include "registry/registry_view.h"

#include <assert.h>
#include <stdlib.h>

enum {
    BUCKETS_MIN = 64,
    /* What is read faster than this is read at every change. */
    CHEAP_NS = 1000 * 1000,
    PAUSE_FACTOR = 9,
    /* What one iteration of the loop spends on reading, but for the last one that it begins. */
    READ_NS_MAX = 5 * 1000 * 1000,
    /* Of all messages that are kept; beyond it the oldest are made again when they are needed. */
    BYTES_MAX = 64 * 1024 * 1024
};

struct xds_shared {
    struct xds_shared *next; /* in its bucket */
    uint64_t hash;
    size_t n_holders;
    struct xds_name name;  /* views into `text` */
    int64_t seen_revision; /* of the service, at which it was last read; 0: never */
    int64_t revision;
    uint64_t paused_until_ns; /* of the loop's clock */
    struct list in_kept;      /* of the table, while it has its message */
    struct buffer message;
    size_t message_size; /* and its hash, also when it is not kept */
    uint64_t message_hash;
    size_t name_size;
    size_t zone_size;
    uint8_t text[]; /* the name, the zone */
};

struct xds_shared_table {
    struct hash_key key;
    struct xds_shared **buckets;
    size_t n_buckets; /* a power of two */
    size_t n;
    struct list kept; /* oldest first */
    size_t n_bytes;   /* of messages */
};

static struct bytes name_of(const struct xds_shared *shared) {
    return bytes_of(shared->text, shared->name_size);
}

static struct bytes zone_of(const struct xds_shared *shared) {
    return bytes_of(shared->text + shared->name_size, shared->zone_size);
}

/* --- The table. --- */

struct xds_shared_table *xds_shared_table_create(void) {
    struct xds_shared_table *table = calloc(1, sizeof *table);
    struct xds_shared **buckets = calloc(BUCKETS_MIN, sizeof *buckets);
    if (table == NULL || buckets == NULL) {
        abort();
    }
    hash_key_fill(&table->key);
    table->buckets = buckets;
    table->n_buckets = BUCKETS_MIN;
    list_init(&table->kept);
    return table;
}

void xds_shared_table_destroy(struct xds_shared_table *table) {
    assert(table->n == 0);
    free(table->buckets);
    free(table);
}

/* Without memory the buckets stay as they are, and grow longer. */
static void grow(struct xds_shared_table *table) {
    size_t n_buckets = 2 * table->n_buckets;
    struct xds_shared **buckets = calloc(n_buckets, sizeof *buckets);
    if (buckets == NULL) {
        return;
    }
    for (size_t i = 0; i < table->n_buckets; i++) {
        struct xds_shared *shared = table->buckets[i];
        while (shared != NULL) {
            struct xds_shared *next = shared->next;
            struct xds_shared **bucket = &buckets[shared->hash & (n_buckets - 1)];
            shared->next = *bucket;
            *bucket = shared;
            shared = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->n_buckets = n_buckets;
}

static struct xds_shared *create(struct bytes name, struct bytes zone) {
    struct xds_shared *shared = calloc(1, sizeof *shared + name.size + zone.size);
    if (shared == NULL) {
        return NULL;
    }
    shared->name_size = name.size;
    shared->zone_size = zone.size;
    memcpy(shared->text, name.data, name.size);
    if (zone.size > 0) {
        memcpy(shared->text + name.size, zone.data, zone.size);
    }
    buffer_init(&shared->message);
    list_init(&shared->in_kept);
    bool is_valid = xds_name_parse(name_of(shared), &shared->name);
    assert(is_valid);
    return shared;
}

struct xds_shared *xds_shared_hold(struct xds_shared_table *table, struct bytes name,
                                   struct bytes near_zone) {
    uint64_t hash = keyed_hash_bytes(&table->key, name) +
                    UINT64_C(0x9e3779b97f4a7c15) * keyed_hash_bytes(&table->key, near_zone);
    struct xds_shared *shared = table->buckets[hash & (table->n_buckets - 1)];
    while (shared != NULL && !(shared->hash == hash && bytes_equal(name_of(shared), name) &&
                               bytes_equal(zone_of(shared), near_zone))) {
        shared = shared->next;
    }
    if (shared == NULL) {
        shared = create(name, near_zone);
        if (shared == NULL) {
            return NULL;
        }
        if (table->n >= table->n_buckets) {
            grow(table);
        }
        shared->hash = hash;
        struct xds_shared **bucket = &table->buckets[hash & (table->n_buckets - 1)];
        shared->next = *bucket;
        *bucket = shared;
        table->n++;
    }
    shared->n_holders++;
    return shared;
}

static void drop_message(struct xds_shared_table *table, struct xds_shared *shared) {
    list_remove(&shared->in_kept);
    table->n_bytes -= shared->message.capacity;
    buffer_clear(&shared->message);
}

static void keep_message(struct xds_shared_table *table, struct xds_shared *shared,
                         const struct buffer *message) {
    drop_message(table, shared);
    shared->message = *message;
    table->n_bytes += message->capacity;
    list_append(&table->kept, &shared->in_kept);
    while (table->n_bytes > BYTES_MAX && table->kept.next != &shared->in_kept) {
        drop_message(table, list_entry(table->kept.next, struct xds_shared, in_kept));
    }
}

void xds_shared_release(struct xds_shared_table *table, struct xds_shared *shared) {
    if (--shared->n_holders > 0) {
        return;
    }
    struct xds_shared **link = &table->buckets[shared->hash & (table->n_buckets - 1)];
    while (*link != shared) {
        link = &(*link)->next;
    }
    *link = shared->next;
    table->n--;
    drop_message(table, shared);
    free(shared);
}

/* --- Reading. --- */

/* Most changes of a service (a check says something else) leave its endpoints as they are: nobody
 * is told then. */
static void encode(struct xds_door *door, struct xds_shared *shared, int64_t revision) {
    const struct registry_entry **entries = NULL;
    size_t n = 0;
    xds_endpoints_collect(xds_keys(door), &door->arena, &shared->name, &entries, &n);
    struct buffer message;
    buffer_init(&message);
    struct xds_writer writer = {.out = &message};
    const struct xds_assignment assignment = {.name = name_of(shared),
                                              .near_zone = zone_of(shared)};
    door->stats.left_out += xds_endpoints_write(&writer, &assignment, entries, n);
    door->stats.encoded++;
    uint64_t hash = keyed_hash_bytes(&door->shared->key, bytes_of(message.data, message.size));
    bool is_same = shared->seen_revision != 0 && hash == shared->message_hash &&
                   message.size == shared->message_size;
    shared->seen_revision = revision;
    shared->message_hash = hash;
    shared->message_size = message.size;
    shared->revision = is_same ? shared->revision : revision;
    keep_message(door->shared, shared, &message);
}

bool xds_shared_has_time(struct xds_door *door) {
    /* The number changes before and after each poll. */
    uint64_t iteration = service_iteration(door->service);
    if (iteration - door->iteration >= 2) {
        door->iteration = iteration;
        door->spent_ns = 0;
    }
    return door->spent_ns < READ_NS_MAX;
}

struct xds_encoded xds_shared_read(struct xds_door *door, struct xds_shared *shared) {
    int64_t revision = registry_view_revision(xds_keys(door), &door->arena, shared->name.service);
    bool is_dropped = shared->message_size > 0 && shared->message.size == 0;
    bool is_behind = revision != shared->seen_revision || is_dropped;
    uint64_t begun_ns = is_behind ? uv_hrtime() : 0;
    if (is_behind && begun_ns >= shared->paused_until_ns && xds_shared_has_time(door)) {
        encode(door, shared, revision);
        uint64_t ended_ns = uv_hrtime();
        uint64_t cost_ns = ended_ns - begun_ns;
        door->spent_ns += cost_ns;
        shared->paused_until_ns = cost_ns < CHEAP_NS ? 0 : ended_ns + PAUSE_FACTOR * cost_ns;
        is_behind = false;
    }
    arena_reset(&door->arena);
    return (struct xds_encoded){.is_behind = is_behind,
                                .message = bytes_of(shared->message.data, shared->message.size),
                                .revision = shared->revision};
}
