#include "core/reserved_keys.h"

/* What is attached to no lease mirrors nothing: a backup of etcd's keys alone was restored, or an
 * older release has written it. */
static bool meet(void *context, const struct record *record) {
    bool *is_mirror = context;
    *is_mirror = record->lease_id != 0;
    return !*is_mirror;
}

bool reserved_keys_are_in(const struct key_store *keys, struct key_space_id space, struct bytes key,
                          struct bytes range_end) {
    /* The last byte of the prefix is a slash, which '0' follows. */
    static const char end_of_all[] = "leased/services0";
    const struct bytes first = bytes_from_text(RESERVED_KEYS_PREFIX);
    const struct bytes end = bytes_from_text(end_of_all);
    bool is_mirror = false;
    if (range_end.size == 0) {
        const struct record *record =
            reserved_keys_has(space, key) ? key_store_find(keys, space, key) : NULL;
        return record != NULL && record->lease_id != 0;
    }
    bool is_open = range_end.size == 1 && range_end.data[0] == 0;
    struct bytes from = bytes_compare(key, first) > 0 ? key : first;
    struct bytes to = is_open || bytes_compare(range_end, end) > 0 ? end : range_end;
    if (key_space_equal(space, KEY_SPACE_ETCD) && bytes_compare(from, to) < 0) {
        (void)key_store_visit(keys, space, from, to, meet, &is_mirror);
    }
    return is_mirror;
}
