#include "registry/registry_estimate_rules.h"

#include "core/key_store.h"
#include "registry/registry_keys.h"
#include "registry/registry_request_model.h"

/* Bytes in the time that a record takes (key_work.h). What is written is copied several times,
 * becomes JSON, and stays in memory for as long as history does. */
enum { BYTES_READ = 128, BYTES_WRITTEN = 8 };

static bool add_size(void *context, const struct record *record) {
    size_t *size = context;
    *size += record->value_size;
    return true;
}

static size_t estimate(const struct key_store *keys, struct bytes service, struct bytes id,
                       bool writes_checks) {
    struct arena arena;
    size_t written = 0;
    size_t checks = 0;
    arena_init(&arena);
    const struct record *instance =
        key_store_find(keys, KEY_SPACE_REGISTRY, registry_key_instance(&arena, service, id));
    if (instance != NULL) {
        const struct record *mirror =
            key_store_find(keys, KEY_SPACE_ETCD, registry_key_mirror(&arena, service, id));
        struct key_range range = registry_checks_range(&arena, service, id);
        (void)key_store_visit(keys, range.space, range.key, range.range_end, add_size, &checks);
        written = instance->value_size + (mirror != NULL ? mirror->value_size : 0) +
                  (writes_checks ? checks : 0);
    }
    arena_clear(&arena);
    return checks / BYTES_READ + written / BYTES_WRITTEN;
}

static size_t estimate_named(const struct key_store *keys, struct bytes request,
                             bool writes_checks) {
    struct reader reader;
    reader_init(&reader, request);
    struct bytes service = reader_get_bytes(&reader);
    struct bytes id = reader_get_bytes(&reader);
    return reader.failed ? 0 : estimate(keys, service, id, writes_checks);
}

size_t registry_estimate_change(const struct key_store *keys, const struct lease_table *leases,
                                struct bytes request) {
    (void)leases;
    return estimate_named(keys, request, false);
}

size_t registry_estimate_move(const struct key_store *keys, const struct lease_table *leases,
                              struct bytes request) {
    (void)leases;
    return estimate_named(keys, request, true);
}

size_t registry_estimate_reports(const struct key_store *keys, const struct lease_table *leases,
                                 struct bytes request) {
    const struct registry_report *reports;
    struct arena arena;
    size_t work = 0;
    size_t one = 0;
    size_t n = 0;
    (void)leases;
    arena_init(&arena);
    if (registry_reports_decode(request, &arena, &reports, &n)) {
        for (size_t i = 0; i < n; i++) {
            bool is_same = i > 0 && bytes_equal(reports[i].service, reports[i - 1].service) &&
                           bytes_equal(reports[i].id, reports[i - 1].id);
            one = is_same ? one : estimate(keys, reports[i].service, reports[i].id, false);
            work += one;
        }
    }
    arena_clear(&arena);
    return work;
}
