#include "registry/registry_view.h"

#include "registry/registry_keys.h"

#include <string.h>

/* --- Services. --- */

bool registry_view_service(const struct key_store *keys, struct arena *arena, struct bytes service,
                           struct registry_service *out_service) {
    const struct record *record =
        key_store_find(keys, KEY_SPACE_REGISTRY, registry_key_service(arena, service));
    if (record == NULL || !registry_service_decode(record_value(record), out_service)) {
        return false;
    }
    out_service->name = service;
    out_service->revision = record->mod_revision;
    return true;
}

int64_t registry_view_revision(const struct key_store *keys, struct arena *arena,
                               struct bytes service) {
    const struct record *record =
        key_store_find(keys, KEY_SPACE_REGISTRY, registry_key_service(arena, service));
    if (record == NULL) {
        record = key_store_find(keys, KEY_SPACE_REGISTRY_RECORDS, registry_key_deleted());
    }
    return record == NULL ? 1 : record->mod_revision;
}

struct names {
    struct bytes after;
    bool (*visit)(void *context, struct bytes service);
    void *context;
};

static bool show_name(void *context, const struct record *record) {
    struct names *names = context;
    struct bytes key = record_key(record);
    struct bytes name = bytes_of(key.data + 1, key.size - 1);
    return bytes_equal(name, names->after) || names->visit(names->context, name);
}

void registry_view_visit_services(const struct key_store *keys, struct arena *arena,
                                  struct bytes after,
                                  bool (*visit)(void *context, struct bytes service),
                                  void *context) {
    struct names names = {.after = after, .visit = visit, .context = context};
    struct key_range range = registry_names_range(arena, bytes_of("", 0));
    (void)key_store_visit(keys, range.space, registry_key_name(arena, after), range.range_end,
                          show_name, &names);
}

/* --- Instances. --- */

/* A walk over instances, each followed by its checks, and beside them over the kept ones. */
struct walk {
    struct arena *arena;
    struct bytes service;
    uint64_t round;
    struct record **lost;
    size_t n_lost;
    size_t at_lost;
    /* The instance whose checks are being read. */
    struct registry_entry entry;
    bool has_entry;
    struct registry_check checks[REGISTRY_CHECKS_MAX];
    bool (*visit)(void *context, const struct registry_entry *entry);
    void *context;
    bool is_stopped;
    size_t n_records;
};

static void judge(struct registry_entry *entry) {
    for (size_t i = 0; i < entry->n_checks; i++) {
        if (entry->checks[i].health > entry->health) {
            entry->health = (enum registry_health)entry->checks[i].health;
        }
    }
    entry->is_serving = registry_instance_state(&entry->instance) == REGISTRY_UP &&
                        entry->health != REGISTRY_CRITICAL;
}

static bool read_lost(struct arena *arena, const struct record *record, struct bytes service,
                      uint64_t round, struct registry_entry *out_entry) {
    struct registry_lost lost;
    if (!registry_lost_decode(record_value(record), arena, &lost) || lost.round != round) {
        return false;
    }
    *out_entry = (struct registry_entry){
        .instance = lost.instance, .health = (enum registry_health)lost.health, .is_kept = true};
    out_entry->instance.service = service;
    out_entry->instance.id = registry_key_read(record).id;
    out_entry->instance.revision = record->mod_revision;
    judge(out_entry);
    return true;
}

/* The kept ones whose ids come before; all that are left when there is no id. */
static void show_kept(struct walk *walk, const struct bytes *before) {
    while (walk->at_lost < walk->n_lost && !walk->is_stopped) {
        const struct record *record = walk->lost[walk->at_lost];
        struct registry_entry entry;
        if (before != NULL && bytes_compare(registry_key_read(record).id, *before) >= 0) {
            return;
        }
        walk->at_lost++;
        walk->n_records++;
        if (read_lost(walk->arena, record, walk->service, walk->round, &entry)) {
            walk->is_stopped = !walk->visit(walk->context, &entry);
        }
    }
}

static void show_entry(struct walk *walk) {
    if (!walk->has_entry || walk->is_stopped) {
        return;
    }
    walk->has_entry = false;
    show_kept(walk, &walk->entry.instance.id);
    if (walk->is_stopped) {
        return;
    }
    size_t size = walk->entry.n_checks * sizeof walk->checks[0];
    walk->entry.checks = arena_copy(walk->arena, walk->checks, size);
    judge(&walk->entry);
    walk->is_stopped = !walk->visit(walk->context, &walk->entry);
}

static void read_check(struct walk *walk, const struct record *record, struct bytes id) {
    struct registry_check *check = &walk->checks[walk->entry.n_checks];
    if (walk->has_entry && walk->entry.n_checks < REGISTRY_CHECKS_MAX &&
        registry_check_decode(record_value(record), walk->arena, check)) {
        check->id = id;
        check->revision = record->mod_revision;
        walk->entry.n_checks++;
    }
}

static bool meet(void *context, const struct record *record) {
    struct walk *walk = context;
    struct registry_key key = registry_key_read(record);
    walk->n_records++;
    if (key.kind == REGISTRY_KEY_CHECK) {
        read_check(walk, record, key.check);
        return true;
    }
    show_entry(walk);
    struct registry_instance *instance = &walk->entry.instance;
    walk->entry = (struct registry_entry){.health = REGISTRY_PASSING};
    walk->has_entry = registry_instance_decode(record_value(record), walk->arena, instance);
    instance->service = walk->service;
    instance->id = key.id;
    instance->token = record->create_revision;
    instance->revision = record->mod_revision;
    instance->lease_id = record->lease_id;
    return !walk->is_stopped;
}

static void collect_kept(const struct key_store *keys, struct walk *walk, struct bytes after) {
    struct registry_service service;
    walk->n_records++;
    if (!registry_view_service(keys, walk->arena, walk->service, &service) ||
        service.guard_lease_id == 0) {
        return;
    }
    struct key_range range = registry_lost_range(walk->arena, walk->service);
    walk->round = service.round;
    if (after.size > 0) {
        range.key = registry_key_lost(walk->arena, walk->service, after);
    }
    key_store_collect(keys, range.space, range.key, range.range_end, walk->arena, &walk->lost,
                      &walk->n_lost);
    bool is_after_itself = walk->n_lost > 0 && after.size > 0 &&
                           bytes_equal(registry_key_read(walk->lost[0]).id, after);
    walk->at_lost = is_after_itself ? 1 : 0;
}

size_t registry_view_visit(const struct key_store *keys, struct arena *arena, struct bytes service,
                           bool (*visit)(void *context, const struct registry_entry *entry),
                           void *context) {
    return registry_view_visit_after(keys, arena, service, bytes_of("", 0), visit, context);
}

size_t registry_view_visit_after(const struct key_store *keys, struct arena *arena,
                                 struct bytes service, struct bytes after,
                                 bool (*visit)(void *context, const struct registry_entry *entry),
                                 void *context) {
    struct walk walk = {.arena = arena, .service = service, .visit = visit, .context = context};
    struct key_range range = registry_instances_range(arena, service);
    if (after.size > 0) {
        /* Behind its checks. */
        range.key = registry_checks_range(arena, service, after).range_end;
    }
    collect_kept(keys, &walk, after);
    (void)key_store_visit(keys, range.space, range.key, range.range_end, meet, &walk);
    show_entry(&walk);
    show_kept(&walk, NULL);
    return walk.n_records;
}

static bool find_kept(const struct key_store *keys, struct arena *arena, struct bytes service,
                      struct bytes id, struct registry_entry *out_entry) {
    struct registry_service known;
    const struct record *record =
        key_store_find(keys, KEY_SPACE_REGISTRY, registry_key_lost(arena, service, id));
    return record != NULL && registry_view_service(keys, arena, service, &known) &&
           known.guard_lease_id != 0 && read_lost(arena, record, service, known.round, out_entry);
}

static bool keep_entry(void *context, const struct registry_entry *entry) {
    struct registry_entry *out_entry = context;
    *out_entry = *entry;
    return true;
}

bool registry_view_find(const struct key_store *keys, struct arena *arena, struct bytes service,
                        struct bytes id, struct registry_entry *out_entry) {
    struct walk walk = {
        .arena = arena, .service = service, .visit = keep_entry, .context = out_entry};
    const struct record *record =
        key_store_find(keys, KEY_SPACE_REGISTRY, registry_key_instance(arena, service, id));
    if (record == NULL) {
        return find_kept(keys, arena, service, id, out_entry);
    }
    (void)meet(&walk, record);
    struct key_range range = registry_checks_range(arena, service, id);
    (void)key_store_visit(keys, range.space, range.key, range.range_end, meet, &walk);
    bool is_found = walk.has_entry;
    show_entry(&walk);
    return is_found;
}

/* --- By id alone. --- */

struct by_id {
    const struct key_store *keys;
    struct arena *arena;
    struct bytes id;
    bool (*visit)(void *context, const struct registry_entry *entry);
    void *context;
    size_t n;
};

static bool meet_index(void *context, const struct record *record) {
    struct by_id *by_id = context;
    struct registry_entry entry;
    struct bytes key = record_key(record);
    struct bytes service = bytes_of(key.data + 2 + by_id->id.size, key.size - 2 - by_id->id.size);
    by_id->n++;
    return !registry_view_find(by_id->keys, by_id->arena, service, by_id->id, &entry) ||
           by_id->visit(by_id->context, &entry);
}

size_t registry_view_visit_id(const struct key_store *keys, struct arena *arena, struct bytes id,
                              bool (*visit)(void *context, const struct registry_entry *entry),
                              void *context) {
    struct by_id by_id = {
        .keys = keys, .arena = arena, .id = id, .visit = visit, .context = context};
    struct key_range range = registry_index_range(arena, id);
    (void)key_store_visit(keys, range.space, range.key, range.range_end, meet_index, &by_id);
    return by_id.n;
}
