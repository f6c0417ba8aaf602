#include "core/reserved_keys.h"

bool reserved_keys_are_in(const struct key_store *keys, struct key_space_id space, struct bytes key,
                          struct bytes range_end) {
    /* The last byte of the prefix is a slash, which '0' follows. */
    static const char end_of_all[] = "leased/services0";
    const struct bytes first = bytes_from_text(RESERVED_KEYS_PREFIX);
    const struct bytes end = bytes_from_text(end_of_all);
    if (range_end.size == 0) {
        return reserved_keys_has(space, key) && key_store_find(keys, space, key) != NULL;
    }
    bool is_open = range_end.size == 1 && range_end.data[0] == 0;
    struct bytes from = bytes_compare(key, first) > 0 ? key : first;
    struct bytes to = is_open || bytes_compare(range_end, end) > 0 ? end : range_end;
    return key_space_equal(space, KEY_SPACE_ETCD) && bytes_compare(from, to) < 0 &&
           key_store_count(keys, space, from, to) > 0;
}
