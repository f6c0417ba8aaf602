#include "net/route_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 64 };

void route_table_init(struct route_table *table) {
    *table = (struct route_table){0};
}

void route_table_clear(struct route_table *table) {
    route_tree_clear(&table->tree);
    for (size_t i = 0; i < table->n_slots; i++) {
        free(table->slots[i].stats);
    }
    free(table->slots);
    route_table_init(table);
}

/* Names differ at their end. The paths are ours, so colliding ones cannot be chosen; an unknown
 * path costs one look at a table that is at most half full. */
static size_t hash(struct bytes path) {
    uint64_t end = 0;
    if (path.size >= sizeof end) {
        memcpy(&end, path.data + path.size - sizeof end, sizeof end);
    }
    uint64_t value = (end ^ path.size << 56) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(value >> 32);
}

/* The slot of this path or the empty one where it belongs. */
static struct method_route *slot_of(const struct route_table *table, struct bytes path) {
    size_t mask = table->n_slots - 1;
    size_t i = hash(path) & mask;
    while (table->slots[i].method != NULL && !bytes_equal(table->slots[i].path, path)) {
        i = (i + 1) & mask;
    }
    return &table->slots[i];
}

static void grow(struct route_table *table) {
    struct route_table wider = *table;
    wider.n_slots = table->n_slots == 0 ? SLOTS_MIN : table->n_slots * 2;
    wider.slots = calloc(wider.n_slots, sizeof *wider.slots);
    if (wider.slots == NULL) {
        abort();
    }
    for (size_t i = 0; i < table->n_slots; i++) {
        if (table->slots[i].method != NULL) {
            *slot_of(&wider, table->slots[i].path) = table->slots[i];
        }
    }
    free(table->slots);
    *table = wider;
}

bool route_table_add_method(struct route_table *table, const struct grpc_method *method,
                            void *context) {
    assert(method->path != NULL);
    assert(method->on_message != NULL);
    if (table->n_methods * 2 >= table->n_slots) {
        grow(table);
    }
    struct bytes path = bytes_from_text(method->path);
    struct method_route *slot = slot_of(table, path);
    bool is_replaced = slot->method != NULL;
    table->n_methods += is_replaced ? 0 : 1;
    struct grpc_stats *stats = is_replaced ? slot->stats : calloc(1, sizeof *stats);
    if (stats == NULL) {
        abort();
    }
    *slot =
        (struct method_route){.method = method, .path = path, .context = context, .stats = stats};
    return is_replaced;
}

const struct method_route *route_table_find_method(const struct route_table *table,
                                                   struct bytes path) {
    if (table->n_slots == 0) {
        return NULL;
    }
    const struct method_route *slot = slot_of(table, path);
    return slot->method != NULL ? slot : NULL;
}

/* "/service/" begins a path. */
static bool begins_with_service(struct bytes path, struct bytes service) {
    return path.size > service.size + 2 && memcmp(path.data + 1, service.data, service.size) == 0 &&
           path.data[service.size + 1] == '/';
}

bool route_table_has_service(const struct route_table *table, struct bytes service) {
    for (size_t i = 0; i < table->n_slots; i++) {
        const struct method_route *slot = &table->slots[i];
        if (slot->method != NULL && begins_with_service(slot->path, service)) {
            return true;
        }
    }
    return false;
}

void route_table_explain(const struct route_table *table, struct bytes path, char *out_text,
                         size_t text_size) {
    const uint8_t *slash = path.size > 1 ? memrchr(path.data + 1, '/', path.size - 1) : NULL;
    if (slash == NULL || path.data[0] != '/') {
        snprintf(out_text, text_size, "malformed method name: \"%.*s\"", (int)path.size,
                 (const char *)path.data);
        return;
    }
    struct bytes service = bytes_of(path.data + 1, (size_t)(slash - path.data) - 1);
    if (route_table_has_service(table, service)) {
        snprintf(out_text, text_size, "unknown method %.*s for service %.*s",
                 (int)(path.size - service.size - 2), (const char *)slash + 1, (int)service.size,
                 (const char *)service.data);
        return;
    }
    snprintf(out_text, text_size, "unknown service %.*s", (int)service.size,
             (const char *)service.data);
}
