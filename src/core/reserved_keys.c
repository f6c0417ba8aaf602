#include "core/reserved_keys.h"

enum status reserved_keys_check_put(struct key_space_id space, struct bytes key) {
    return reserved_keys_has(space, key) ? STATUS_KEY_READ_ONLY : STATUS_OK;
}

static bool is_mirror(const struct record *record) {
    return record != NULL && record->lease_id != 0;
}

static bool meet(void *context, const struct record *record) {
    bool *is_met = context;
    *is_met = is_mirror(record);
    return !*is_met;
}

/* Stops at the first that it meets. */
static bool is_mirror_in(const struct key_store *keys, struct bytes from, struct bytes to) {
    bool is_met = false;
    if (bytes_compare(from, to) < 0) {
        (void)key_store_visit(keys, KEY_SPACE_ETCD, from, to, meet, &is_met);
    }
    return is_met;
}

enum status reserved_keys_check_delete(const struct key_store *keys, struct key_space_id space,
                                       struct bytes key, struct bytes range_end) {
    const struct bytes first = bytes_from_text(RESERVED_KEYS_PREFIX);
    const struct bytes end = bytes_from_text(RESERVED_KEYS_END);
    bool is_refused = false;
    if (!key_space_equal(space, KEY_SPACE_ETCD)) {
        return STATUS_OK;
    }
    if (range_end.size == 0) {
        is_refused = reserved_keys_has(space, key) && is_mirror(key_store_find(keys, space, key));
    } else {
        bool is_open = range_end.size == 1 && range_end.data[0] == 0;
        is_refused = is_mirror_in(keys, bytes_compare(key, first) > 0 ? key : first,
                                  is_open || bytes_compare(range_end, end) > 0 ? end : range_end);
    }
    return is_refused ? STATUS_KEY_READ_ONLY : STATUS_OK;
}

enum status reserved_keys_check_rule(struct key_space_id home, struct key_space_id space,
                                     struct bytes key) {
    return reserved_keys_has(space, key) && !key_space_equal(home, KEY_SPACE_REGISTRY)
               ? STATUS_KEY_READ_ONLY
               : STATUS_OK;
}
