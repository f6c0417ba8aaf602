/* Pools: made, changed, removed and looked at. */
#include "lease/lib_message.h"
#include "lease/lib_read.h"
#include "lease/lib_result.h"

#include <string.h>

enum { SLOT_SIZE_MAX = 128, SLOTS_MAX = 65536 };

static const char no_pools[] = "etcd has no pools";

static enum lease_status check_pool(const struct lease_pool *pool) {
    enum lease_status status = lib_check_name(pool->name);
    if (status == LEASE_OK && pool->n_slots > SLOTS_MAX) {
        status = lib_error(LEASE_INVALID, "a pool has at most %d slots", SLOTS_MAX);
    }
    for (size_t i = 0; status == LEASE_OK && i < pool->n_slots; i++) {
        size_t size = strlen(pool->slots[i]);
        if (size == 0 || size > SLOT_SIZE_MAX) {
            status = lib_error(LEASE_INVALID, "a slot has 1 to %d bytes", SLOT_SIZE_MAX);
        }
    }
    return status;
}

enum lease_status lease_pool_set(struct lease_connection *connection,
                                 const struct lease_pool *pool) {
    enum lease_status status = check_pool(pool);
    if (status == LEASE_OK) {
        status = lib_need_native(connection, no_pools);
    }
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Pools/Set", .is_repeatable = true};
    struct buffer message;
    struct buffer share;
    buffer_init(&message);
    buffer_init(&share);
    lib_put_text(&message, 1, pool->name);
    for (size_t i = 0; i < pool->n_slots; i++) {
        lib_put_text(&message, 2, pool->slots[i]);
    }
    lib_put_int(&message, 3, pool->hold_limit_ms);
    for (size_t i = 0; i < pool->n_shares; i++) {
        lib_put_text(&share, 1, pool->shares[i].owner);
        lib_put_int(&share, 2, pool->shares[i].weight);
        lib_put_message(&message, 4, &share);
    }
    lib_put_message(&request.message, 1, &message);
    buffer_clear(&message);
    buffer_clear(&share);
    return lib_tell(connection, &request);
}

enum lease_status lease_pool_remove(struct lease_connection *connection, const char *pool) {
    enum lease_status status = lib_check_name(pool);
    if (status == LEASE_OK) {
        status = lib_need_native(connection, no_pools);
    }
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Pools/Remove"};
    lib_put_text(&request.message, 1, pool);
    return lib_tell(connection, &request);
}

static bool read_pool_item(struct arena *arena, struct bytes message, void *out) {
    return lib_read_pool_state(arena, message, out);
}

static bool read_pools(struct arena *arena, struct bytes message, void *out, void *context) {
    (void)context;
    struct lease_pool_list *list = out;
    struct lib_array array;
    if (!lib_read_array(arena, message, 2, sizeof(struct lease_pool), read_pool_item, &array)) {
        return false;
    }
    list->items = array.items;
    list->n_items = array.n_items;
    return true;
}

static bool read_one_pool(struct arena *arena, struct bytes message, void *out, void *context) {
    struct lease_pool_list list;
    if (!read_pools(arena, message, &list, context) || list.n_items != 1) {
        return false;
    }
    memcpy(out, list.items, sizeof *list.items);
    return true;
}

enum lease_status lease_pool_get(struct lease_connection *connection, const char *pool,
                                 const struct lease_pool **out_pool) {
    enum lease_status status = lib_check_name(pool);
    if (status == LEASE_OK) {
        status = lib_need_native(connection, no_pools);
    }
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Pools/Get", .is_repeatable = true};
    lib_put_text(&request.message, 1, pool);
    return lib_look(connection, &request, sizeof **out_pool, read_one_pool, NULL,
                    (const void **)out_pool);
}

enum lease_status lease_pool_list(struct lease_connection *connection,
                                  const struct lease_pool_list **out_list) {
    enum lease_status status = lib_need_native(connection, no_pools);
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Pools/List", .is_repeatable = true};
    return lib_look(connection, &request, sizeof **out_list, read_pools, NULL,
                    (const void **)out_list);
}
