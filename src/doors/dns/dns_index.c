#include "doors/dns/dns_index.h"

#include "doors/dns/dns_lookup.h"
#include "registry/registry_keys.h"
#include "registry/registry_model.h"

#include <stdlib.h>

enum {
    KINDS = 3,
    KIND_SELF = KINDS, /* by service and id: to find an entry that changes or goes */
    LINKS = KINDS + 1,
    BUCKETS_MIN = 64,
    FILL_RECORDS = 512, /* in one iteration of the loop */
    RETRY_MS = 1000
};

struct entry;
/* Many may have one address or one node, so leaving a bucket must not mean to walk through it. */
struct link {
    struct link *next;
    struct link **before; /* what points to it */
    struct entry *entry;  /* NULL: it is in no bucket */
    uint64_t hash;
};

struct entry {
    struct link links[LINKS];
    uint16_t service_size;
    uint16_t id_size;
    uint8_t text[]; /* service, id */
};

struct dns_index {
    struct service *service; /* NULL: it is gone */
    uv_timer_t timer;        /* fills; closed with the index */
    struct service_watch watch;
    struct hash_key key;
    struct arena arena;
    struct link **buckets;
    size_t n_buckets; /* a power of two */
    size_t n_links;
    size_t n_entries;
    bool is_watching;
    bool is_complete;
    struct buffer filled_to; /* the key of the last record that was looked at */
};

/* --- The table. --- */

static struct bytes entry_service(const struct entry *entry) {
    return bytes_of(entry->text, entry->service_size);
}

static struct bytes entry_id(const struct entry *entry) {
    return bytes_of(entry->text + entry->service_size, entry->id_size);
}

static uint64_t hash_of(const struct dns_index *index, unsigned kind, struct bytes value) {
    return keyed_hash_bytes(&index->key, value) ^ kind * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t hash_of_self(const struct dns_index *index, struct bytes service, struct bytes id) {
    return hash_of(index, KIND_SELF, service) * 31 + hash_of(index, KIND_SELF, id);
}

static struct link **bucket_of(const struct dns_index *index, uint64_t hash) {
    return &index->buckets[hash & (index->n_buckets - 1)];
}

static void push(struct link **bucket, struct link *link) {
    link->next = *bucket;
    link->before = bucket;
    if (link->next != NULL) {
        link->next->before = &link->next;
    }
    *bucket = link;
}

static void grow(struct dns_index *index) {
    struct link **old = index->buckets;
    size_t n_old = index->n_buckets;
    index->n_buckets = n_old == 0 ? BUCKETS_MIN : 2 * n_old;
    index->buckets = calloc(index->n_buckets, sizeof(struct link *));
    if (index->buckets == NULL) {
        abort();
    }
    for (size_t i = 0; i < n_old; i++) {
        for (struct link *link = old[i], *next; link != NULL; link = next) {
            next = link->next;
            push(bucket_of(index, link->hash), link);
        }
    }
    free(old);
}

static void link_add(struct dns_index *index, struct entry *entry, unsigned kind, uint64_t hash) {
    if (index->n_links >= index->n_buckets) {
        grow(index);
    }
    entry->links[kind] = (struct link){.entry = entry, .hash = hash};
    push(bucket_of(index, hash), &entry->links[kind]);
    index->n_links++;
}

static void link_remove(struct dns_index *index, struct link *link) {
    if (link->entry == NULL) {
        return;
    }
    *link->before = link->next;
    if (link->next != NULL) {
        link->next->before = link->before;
    }
    link->entry = NULL;
    index->n_links--;
}

static struct entry *find(const struct dns_index *index, struct bytes service, struct bytes id) {
    if (index->n_buckets == 0) {
        return NULL;
    }
    uint64_t hash = hash_of_self(index, service, id);
    for (struct link *link = *bucket_of(index, hash); link != NULL; link = link->next) {
        struct entry *entry = link->entry;
        if (link == &entry->links[KIND_SELF] && link->hash == hash &&
            bytes_equal(entry_service(entry), service) && bytes_equal(entry_id(entry), id)) {
            return entry;
        }
    }
    return NULL;
}

static void entry_remove(struct dns_index *index, struct entry *entry) {
    for (unsigned i = 0; i < LINKS; i++) {
        link_remove(index, &entry->links[i]);
    }
    index->n_entries--;
    free(entry);
}

static void clear(struct dns_index *index) {
    for (size_t i = 0; i < index->n_buckets; i++) {
        while (index->buckets[i] != NULL) {
            entry_remove(index, index->buckets[i]->entry);
        }
    }
    index->is_complete = false;
    index->filled_to.size = 0;
}

/* --- Records. --- */

static struct bytes folded(struct arena *arena, struct bytes text) {
    uint8_t *copy = arena_copy(arena, text.data, text.size);
    for (size_t i = 0; i < text.size; i++) {
        copy[i] = text.data[i] >= 'A' && text.data[i] <= 'Z' ? (uint8_t)(text.data[i] + 32)
                                                             : text.data[i];
    }
    return bytes_of(copy, text.size);
}

static void entry_add(struct dns_index *index, const struct registry_key *key,
                      const struct registry_instance *instance) {
    struct entry *entry = calloc(1, sizeof *entry + key->service.size + key->id.size);
    struct dns_address address;
    if (entry == NULL) {
        abort();
    }
    entry->service_size = (uint16_t)key->service.size;
    entry->id_size = (uint16_t)key->id.size;
    memcpy(entry->text, key->service.data, key->service.size);
    memcpy(entry->text + key->service.size, key->id.data, key->id.size);
    link_add(index, entry, KIND_SELF, hash_of_self(index, key->service, key->id));
    if (dns_address_parse(instance->address, &address)) {
        struct bytes bytes = bytes_of(address.bytes, address.size);
        link_add(index, entry, DNS_INDEX_ADDRESS, hash_of(index, DNS_INDEX_ADDRESS, bytes));
    }
    if (instance->node.size > 0) {
        struct bytes node = folded(&index->arena, instance->node);
        link_add(index, entry, DNS_INDEX_NODE, hash_of(index, DNS_INDEX_NODE, node));
    }
    struct bytes service = folded(&index->arena, key->service);
    if (!bytes_equal(service, key->service)) {
        link_add(index, entry, DNS_INDEX_SERVICE, hash_of(index, DNS_INDEX_SERVICE, service));
    }
    index->n_entries++;
}

/* Says how it is now; doing it twice does no harm. */
static void note(struct dns_index *index, const struct record *record) {
    struct registry_key key = registry_key_read(record);
    struct registry_instance instance;
    if (key.kind != REGISTRY_KEY_INSTANCE) {
        return;
    }
    arena_reset(&index->arena);
    struct entry *old = find(index, key.service, key.id);
    if (old != NULL) {
        entry_remove(index, old);
    }
    if (!record_is_tombstone(record) &&
        registry_instance_decode(record_value(record), &index->arena, &instance)) {
        entry_add(index, &key, &instance);
    }
}

/* --- The watch. --- */

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct dns_index *index = list_entry(watch, struct dns_index, watch);
    for (size_t i = 0; i < batch->n_events; i++) {
        note(index, batch->events[i]);
    }
    return true;
}

static void fill(uv_timer_t *timer);

/* Begins again, from what is there. */
static void begin_again(struct dns_index *index, uint64_t after_ms) {
    index->is_watching = false;
    clear(index);
    uv_timer_start(&index->timer, fill, after_ms, 0);
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    begin_again(list_entry(watch, struct dns_index, watch), 0);
}

static void revoked(struct service_watch *watch, enum status status) {
    (void)status;
    begin_again(list_entry(watch, struct dns_index, watch), RETRY_MS);
}

static bool begin_watch(struct dns_index *index) {
    const struct service_watch_options options = {
        .range = registry_prefix_range(&index->arena, (struct bytes){0})};
    index->watch =
        (struct service_watch){.deliver = deliver, .compacted = compacted, .revoked = revoked};
    index->is_watching =
        service_watch(index->service, &caller_server, &index->watch, &options) == STATUS_OK;
    return index->is_watching;
}

struct filling {
    struct dns_index *index;
    size_t n_left;
    const struct record *last;
};

static bool fill_one(void *context, const struct record *record) {
    struct filling *filling = context;
    note(filling->index, record);
    filling->last = record;
    return --filling->n_left > 0;
}

/* Live records from the last place on. What changes meanwhile the watch tells, whichever comes
 * first: both say how it is now. */
static void fill(uv_timer_t *timer) {
    struct dns_index *index = timer->data;
    struct filling filling = {.index = index, .n_left = FILL_RECORDS};
    struct arena arena;
    if (index->service == NULL) {
        return;
    }
    if (!index->is_watching && !begin_watch(index)) {
        uv_timer_start(timer, fill, RETRY_MS, 0);
        return;
    }
    arena_init(&arena);
    struct key_range range = registry_prefix_range(&arena, (struct bytes){0});
    if (index->filled_to.size > 0) {
        range.key = bytes_of(index->filled_to.data, index->filled_to.size);
    }
    const struct state_view *view = service_view(index->service);
    key_store_visit(state_view_keys(view), range.space, range.key, range.range_end, fill_one,
                    &filling);
    if (filling.n_left > 0) {
        index->is_complete = true;
    } else {
        /* The next key: this one with a zero behind it. */
        struct bytes last = record_key(filling.last);
        index->filled_to.size = 0;
        buffer_append(&index->filled_to, last.data, last.size);
        buffer_put_u8(&index->filled_to, 0);
        uv_timer_start(timer, fill, 1, 0);
    }
    arena_clear(&arena);
}

/* --- Life. --- */

struct dns_index *dns_index_create(uv_loop_t *loop, struct service *service) {
    struct dns_index *index = calloc(1, sizeof *index);
    if (index == NULL) {
        abort();
    }
    index->service = service;
    hash_key_fill(&index->key);
    arena_init(&index->arena);
    buffer_init(&index->filled_to);
    uv_timer_init(loop, &index->timer);
    uv_unref((uv_handle_t *)&index->timer);
    index->timer.data = index;
    uv_timer_start(&index->timer, fill, 0, 0);
    return index;
}

static void on_closed(uv_handle_t *handle) {
    struct dns_index *index = handle->data;
    clear(index);
    free(index->buckets);
    buffer_clear(&index->filled_to);
    arena_clear(&index->arena);
    free(index);
}

void dns_index_destroy(struct dns_index *index) {
    if (index != NULL) {
        index->service = NULL;
        uv_close((uv_handle_t *)&index->timer, on_closed);
    }
}

bool dns_index_is_complete(const struct dns_index *index) {
    return index->is_complete;
}

size_t dns_index_count(const struct dns_index *index) {
    return index->n_entries;
}

void dns_index_visit(const struct dns_index *index, enum dns_index_kind kind, struct bytes value,
                     bool (*visit)(void *context, struct bytes service, struct bytes id),
                     void *context) {
    if (index->n_buckets == 0) {
        return;
    }
    uint64_t hash = hash_of(index, kind, value);
    for (struct link *link = *bucket_of(index, hash); link != NULL; link = link->next) {
        if (link->hash == hash && link == &link->entry->links[kind] &&
            !visit(context, entry_service(link->entry), entry_id(link->entry))) {
            return;
        }
    }
}
