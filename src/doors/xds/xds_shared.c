#include "doors/xds/xds_shared.h"

#include "core/state_machine.h"
#include "doors/xds/xds_endpoints.h"
#include "doors/xds/xds_name.h"
#include "registry/registry_keys.h"
#include "registry/registry_view.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

enum {
    BUCKETS_MIN = 64,
    /* Records of a service that is read on the loop: about a millisecond. */
    SMALL_RECORDS = 1000,
    /* Others need workers, too. */
    JOBS_MAX = 2,
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
    struct xds_job *job;   /* a worker reads it; NULL: none does */
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

/* What was read of the registry. */
struct reading {
    struct buffer message;
    int64_t revision; /* of the service */
    size_t n_left_out;
    uint64_t hash;
    uint64_t cost_ns;
};

static uint64_t thread_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* A worker may run it: of what is shared it uses what never changes. */
static void read_now(struct reading *reading, const struct xds_shared *shared,
                     const struct hash_key *key, const struct key_store *keys) {
    const struct registry_entry **entries = NULL;
    size_t n = 0;
    uint64_t begun_ns = thread_ns();
    struct arena arena;
    arena_init(&arena);
    reading->revision = registry_view_revision(keys, &arena, shared->name.service);
    xds_endpoints_collect(keys, &arena, &shared->name, &entries, &n);
    struct xds_writer writer = {.out = &reading->message};
    const struct xds_assignment assignment = {.name = name_of(shared),
                                              .near_zone = zone_of(shared)};
    buffer_init(&reading->message);
    reading->n_left_out = xds_endpoints_write(&writer, &assignment, entries, n);
    reading->hash = keyed_hash_bytes(key, bytes_of(reading->message.data, reading->message.size));
    arena_clear(&arena);
    reading->cost_ns = thread_ns() - begun_ns;
}

/* Most changes of a service (a check says something else) leave its endpoints as they are: nobody
 * is told then. */
static void take(struct xds_door *door, struct xds_shared *shared, const struct reading *reading) {
    door->stats.left_out += reading->n_left_out;
    door->stats.encoded++;
    bool is_same = shared->seen_revision != 0 && reading->hash == shared->message_hash &&
                   reading->message.size == shared->message_size;
    shared->seen_revision = reading->revision;
    shared->message_hash = reading->hash;
    shared->message_size = reading->message.size;
    shared->revision = is_same ? shared->revision : reading->revision;
    shared->paused_until_ns =
        reading->cost_ns < CHEAP_NS ? 0 : uv_hrtime() + PAUSE_FACTOR * reading->cost_ns;
    keep_message(door->shared, shared, &reading->message);
}

/* --- By a worker. --- */

struct xds_job {
    struct service_scan scan;
    struct xds_door *door;
    struct xds_shared *shared; /* held */
    struct reading reading;
};

static void run(struct service_scan *scan) {
    struct xds_job *job = list_entry(scan, struct xds_job, scan);
    read_now(&job->reading, job->shared, &job->door->shared->key,
             key_view_store(snapshot_view_keys(scan->view)));
}

static void job_end(struct xds_job *job) {
    struct xds_door *door = job->door;
    bool is_ended = service_scan_end(&job->scan);
    assert(is_ended);
    job->shared->job = NULL;
    xds_shared_release(door->shared, job->shared);
    door->n_jobs--;
    free(job);
}

static void ran(struct service_scan *scan) {
    struct xds_job *job = list_entry(scan, struct xds_job, scan);
    struct xds_door *door = job->door;
    take(door, job->shared, &job->reading);
    job_end(job);
    xds_stream_retry(door);
}

static void revoked(struct service_scan *scan, enum status status) {
    struct xds_job *job = list_entry(scan, struct xds_job, scan);
    struct xds_door *door = job->door;
    (void)status;
    buffer_clear(&job->reading.message);
    job_end(job);
    xds_stream_retry_later(door);
}

/* Refused, it is asked for again. Rights were checked when the name was first read. */
static void job_start(struct xds_door *door, struct xds_shared *shared) {
    if (shared->job != NULL || door->n_jobs >= JOBS_MAX) {
        return;
    }
    struct xds_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return;
    }
    job->scan = (struct service_scan){.run = run, .ran = ran, .revoked = revoked};
    job->door = door;
    job->shared = shared;
    buffer_init(&job->reading.message);
    if (service_scan_start(door->service, &caller_server, &job->scan, NULL, 0) != STATUS_PENDING) {
        free(job);
        return;
    }
    shared->job = job;
    shared->n_holders++;
    door->n_jobs++;
}

/* --- Now, or later. --- */

bool xds_shared_is_waiting(const struct xds_door *door) {
    return door->n_jobs >= JOBS_MAX;
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

static bool is_small(struct xds_door *door, const struct xds_shared *shared) {
    struct key_range range = registry_service_range(&door->arena, shared->name.service);
    return key_store_count(xds_keys(door), range.space, range.key, range.range_end) <=
           SMALL_RECORDS;
}

/* True: it was read. */
static bool catch_up(struct xds_door *door, struct xds_shared *shared, uint64_t now_ns) {
    if (shared->job != NULL || now_ns < shared->paused_until_ns || !xds_shared_has_time(door)) {
        return false;
    }
    if (!is_small(door, shared)) {
        job_start(door, shared);
        return false;
    }
    struct reading reading;
    read_now(&reading, shared, &door->shared->key, xds_keys(door));
    take(door, shared, &reading);
    return true;
}

struct xds_encoded xds_shared_read(struct xds_door *door, struct xds_shared *shared,
                                   int64_t *wanted_revision) {
    int64_t revision = registry_view_revision(xds_keys(door), &door->arena, shared->name.service);
    bool has_message = shared->message_size == 0 || shared->message.size > 0;
    bool is_behind = revision != shared->seen_revision || !has_message;
    if (is_behind) {
        uint64_t begun_ns = uv_hrtime();
        *wanted_revision = *wanted_revision == 0 ? revision : *wanted_revision;
        is_behind = !catch_up(door, shared, begun_ns);
        door->spent_ns += uv_hrtime() - begun_ns;
    }
    arena_reset(&door->arena);
    has_message = !is_behind || (has_message && shared->seen_revision >= *wanted_revision);
    if (has_message) {
        *wanted_revision = 0;
    }
    return (struct xds_encoded){.is_behind = is_behind,
                                .has_message = has_message,
                                .message = bytes_of(shared->message.data, shared->message.size),
                                .revision = shared->revision};
}
