#include "doors/eureka/eureka_collection.h"

#include "registry/registry_keys.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A walk over the records of the registry, in the order of their keys: a service, its instances,
 * each followed by its checks, then those that were lost. */
struct reading {
    struct eureka_collection *collection;
    const struct eureka_query *query;
    struct arena arena; /* of one instance */
    /* The service. */
    struct bytes service;
    bool is_guarded;
    uint64_t round;
    /* The instance whose checks are being read. */
    bool has_entry;
    struct registry_entry entry;
    const struct record *record;
    int64_t changed_revision;
};

void eureka_collection_init(struct eureka_collection *collection) {
    *collection = (struct eureka_collection){0};
    buffer_init(&collection->memory);
}

void eureka_collection_clear(struct eureka_collection *collection) {
    buffer_clear(&collection->memory);
}

const struct eureka_item *eureka_collection_at(const struct eureka_collection *collection,
                                               size_t index) {
    return (const struct eureka_item *)(const void *)collection->memory.data + index;
}

/* --- Which belong in the list. --- */

/* An instance may have several, with commas between them. */
static bool has_address(struct bytes list, struct bytes wanted) {
    size_t start = 0;
    for (size_t i = 0; i <= list.size; i++) {
        if (i == list.size || list.data[i] == ',') {
            if (bytes_equal(bytes_of(list.data + start, i - start), wanted)) {
                return true;
            }
            start = i + 1;
        }
    }
    return false;
}

static bool has_vip(struct reading *reading, const struct registry_entry *entry) {
    struct eureka_instance shown;
    bool is_secure = reading->query->list == EUREKA_LIST_SECURE_VIP;
    eureka_instance_show(entry, &reading->arena, &shown);
    return has_address(shown.fields[is_secure ? EUREKA_FIELD_SECURE_VIP : EUREKA_FIELD_VIP],
                       reading->query->vip);
}

static bool is_of_vips(const struct eureka_query *query) {
    return query->list == EUREKA_LIST_VIP || query->list == EUREKA_LIST_SECURE_VIP;
}

static void append(struct reading *reading, const struct eureka_item *item) {
    buffer_append(&reading->collection->memory, item, sizeof *item);
    reading->collection->n_items++;
}

static void add_entry(struct reading *reading, const struct registry_entry *entry,
                      const struct record *record, int64_t changed_revision) {
    const struct eureka_query *query = reading->query;
    if (is_of_vips(query) && !has_vip(reading, entry)) {
        return;
    }
    reading->collection->counts.of[eureka_instance_status(entry)]++;
    if (query->list == EUREKA_LIST_DELTA && changed_revision <= query->since_revision) {
        return;
    }
    /* As Eureka does it, one that has registered again was added: npm's client replaces another
     * instance than the one that was modified. */
    bool is_new = !entry->is_kept && record->create_revision > query->since_revision;
    append(reading, &(struct eureka_item){.record = record,
                                          .service = entry->instance.service,
                                          .id = entry->instance.id,
                                          .health = (uint8_t)entry->health,
                                          .action = is_new ? EUREKA_ADDED : EUREKA_MODIFIED,
                                          .is_kept = entry->is_kept});
}

/* --- Records. --- */

static void end_entry(struct reading *reading) {
    if (reading->has_entry) {
        add_entry(reading, &reading->entry, reading->record, reading->changed_revision);
    }
    reading->has_entry = false;
    arena_reset(&reading->arena);
}

static bool read_instance(struct arena *arena, const struct record *record,
                          struct registry_entry *out_entry) {
    struct registry_key key = registry_key_read(record);
    *out_entry = (struct registry_entry){.health = REGISTRY_PASSING};
    if (!registry_instance_decode(record_value(record), arena, &out_entry->instance)) {
        return false;
    }
    out_entry->instance.service = key.service;
    out_entry->instance.id = key.id;
    return true;
}

static bool read_lost(struct arena *arena, const struct record *record, uint64_t *out_round,
                      struct registry_entry *out_entry) {
    struct registry_key key = registry_key_read(record);
    struct registry_lost lost;
    if (!registry_lost_decode(record_value(record), arena, &lost)) {
        return false;
    }
    *out_entry = (struct registry_entry){
        .instance = lost.instance, .health = (enum registry_health)lost.health, .is_kept = true};
    out_entry->instance.service = key.service;
    out_entry->instance.id = key.id;
    *out_round = lost.round;
    return true;
}

static void meet_service(struct reading *reading, const struct record *record,
                         struct bytes service) {
    struct registry_service known;
    bool is_read = registry_service_decode(record_value(record), &known);
    reading->service = service;
    reading->is_guarded = is_read && known.guard_lease_id != 0;
    reading->round = is_read ? known.round : 0;
}

static void meet_check(struct reading *reading, const struct record *record) {
    struct registry_check check;
    if (!reading->has_entry ||
        !registry_check_decode(record_value(record), &reading->arena, &check)) {
        return;
    }
    if (check.health > reading->entry.health) {
        reading->entry.health = (enum registry_health)check.health;
    }
    if (record->mod_revision > reading->changed_revision) {
        reading->changed_revision = record->mod_revision;
    }
}

static void meet_lost(struct reading *reading, const struct record *record, struct bytes service) {
    struct registry_entry entry;
    uint64_t round;
    if (reading->is_guarded && bytes_equal(reading->service, service) &&
        read_lost(&reading->arena, record, &round, &entry) && round == reading->round) {
        add_entry(reading, &entry, record, record->mod_revision);
    }
}

/* The newest version of a key, which is live. */
static bool meet(void *context, const struct record *record) {
    struct reading *reading = context;
    struct registry_key key = registry_key_read(record);
    if (key.kind == REGISTRY_KEY_CHECK) {
        meet_check(reading, record);
        return true;
    }
    end_entry(reading);
    if (key.kind == REGISTRY_KEY_SERVICE) {
        meet_service(reading, record, key.service);
    } else if (key.kind == REGISTRY_KEY_LOST) {
        meet_lost(reading, record, key.service);
    } else if (key.kind == REGISTRY_KEY_INSTANCE) {
        reading->has_entry = read_instance(&reading->arena, record, &reading->entry);
        reading->record = record;
        reading->changed_revision = record->mod_revision;
    }
    return true;
}

/* A key that is gone, and its last version. */
static void meet_deleted(struct reading *reading, const struct record *tombstone,
                         const struct record *last) {
    struct registry_key key = registry_key_read(tombstone);
    if (key.kind == REGISTRY_KEY_CHECK) {
        if (tombstone->mod_revision > reading->changed_revision) {
            reading->changed_revision = tombstone->mod_revision;
        }
        return;
    }
    end_entry(reading);
    bool is_lost = key.kind == REGISTRY_KEY_LOST;
    if (last == NULL || tombstone->mod_revision <= reading->query->since_revision ||
        (key.kind != REGISTRY_KEY_INSTANCE && !is_lost)) {
        return;
    }
    struct registry_key last_key = registry_key_read(last);
    append(reading, &(struct eureka_item){.record = last,
                                          .service = last_key.service,
                                          .id = last_key.id,
                                          .action = EUREKA_DELETED,
                                          .is_kept = is_lost});
}

/* --- Views. --- */

static void read_live(struct reading *reading, const struct key_view *view) {
    for (size_t i = 0; i < reading->query->n_ranges; i++) {
        const struct key_range *range = &reading->query->ranges[i];
        (void)key_view_visit_range(view, range->space, range->key, range->range_end, meet, reading);
        end_entry(reading);
    }
}

static void meet_newest(struct reading *reading, const struct record *newest,
                        const struct record *live) {
    if (newest == NULL) {
        return;
    }
    if (record_is_tombstone(newest)) {
        meet_deleted(reading, newest, live);
    } else {
        (void)meet(reading, newest);
    }
}

/* The versions of a key follow each other, the newest last. */
static void read_history(struct reading *reading, const struct key_view *view) {
    struct key_view_walk *walk = key_view_walk_open(view, KEY_SPACE_REGISTRY);
    const struct record *newest = NULL;
    const struct record *live = NULL; /* the last version of the key that was live */
    const struct record *record;
    while ((record = key_view_walk_next(walk)) != NULL) {
        if (newest != NULL && !bytes_equal(record_stored_key(newest), record_stored_key(record))) {
            meet_newest(reading, newest, live);
            live = NULL;
        }
        newest = record;
        live = record_is_tombstone(record) ? live : record;
    }
    meet_newest(reading, newest, live);
    end_entry(reading);
    key_view_walk_close(walk);
}

/* --- Order. --- */

static int compare_names(struct bytes a, struct bytes b) {
    size_t shared = a.size < b.size ? a.size : b.size;
    int order = shared == 0 ? 0 : strncasecmp((const char *)a.data, (const char *)b.data, shared);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

bool eureka_item_is_beside(const struct eureka_item *a, const struct eureka_item *b) {
    return compare_names(a->service, b->service) == 0;
}

/* What is there comes before what is gone. */
static int compare(const void *first, const void *second) {
    const struct eureka_item *a = first;
    const struct eureka_item *b = second;
    int order = compare_names(a->service, b->service);
    order = order != 0 ? order : bytes_compare(a->service, b->service);
    order = order != 0 ? order : bytes_compare(a->id, b->id);
    order = order != 0 ? order : (a->action > b->action) - (a->action < b->action);
    return order != 0 ? order : a->is_kept - b->is_kept;
}

/* An instance that was lost and is kept, or was replaced, has ended under one key and is there
 * under another. */
static void drop_twice(struct eureka_collection *collection) {
    struct eureka_item *items = (struct eureka_item *)(void *)collection->memory.data;
    size_t n = 0;
    for (size_t i = 0; i < collection->n_items; i++) {
        if (n == 0 || !bytes_equal(items[n - 1].service, items[i].service) ||
            !bytes_equal(items[n - 1].id, items[i].id)) {
            items[n++] = items[i];
        }
    }
    collection->n_items = n;
}

void eureka_collection_fill(struct eureka_collection *collection, const struct key_view *view,
                            const struct eureka_query *query) {
    struct reading reading = {.collection = collection, .query = query};
    arena_init(&reading.arena);
    if (query->list == EUREKA_LIST_DELTA) {
        read_history(&reading, view);
    } else {
        read_live(&reading, view);
    }
    arena_clear(&reading.arena);
    if (collection->n_items > 0) {
        qsort(collection->memory.data, collection->n_items, sizeof(struct eureka_item), compare);
        drop_twice(collection);
    }
}

/* --- As it is shown. --- */

bool eureka_item_show(const struct eureka_item *item, struct arena *arena,
                      struct eureka_instance *out_instance) {
    struct registry_entry entry;
    uint64_t ignored;
    if (item->is_kept ? !read_lost(arena, item->record, &ignored, &entry)
                      : !read_instance(arena, item->record, &entry)) {
        return false;
    }
    if (!item->is_kept) {
        entry.health = (enum registry_health)item->health;
    }
    eureka_instance_show(&entry, arena, out_instance);
    out_instance->action = (enum eureka_action)item->action;
    return true;
}
