#include "core/auth_names.h"

#include "core/reserved_keys.h"

#include <string.h>

/* As native_keys.h and registry_keys.h have it: a byte for the kind, the name, NUL, the rest. */
static struct bytes prefix_of(struct key_space_id space, uint8_t kind) {
    if (key_space_equal(space, KEY_SPACE_REGISTRY)) {
        return bytes_from_text(kind == 's' ? RESERVED_KEYS_PREFIX : "");
    }
    switch (kind) {
    case 'r':
        return bytes_from_text("leased/resources/");
    case 'p':
        return bytes_from_text("leased/pools/");
    default:
        return bytes_of("", 0);
    }
}

static bool join(struct bytes prefix, struct bytes name, uint8_t *memory, struct bytes *out) {
    if (prefix.size + name.size > AUTH_NAME_KEY_SIZE) {
        return false;
    }
    memcpy(memory, prefix.data, prefix.size);
    if (name.size > 0) {
        memcpy(memory + prefix.size, name.data, name.size);
    }
    *out = bytes_of(memory, prefix.size + name.size);
    return true;
}

/* Whether [key, range_end) has no key behind those of the name; `end` is where its NUL is. */
static bool stays_within(const struct key_range *range, size_t end) {
    struct bytes range_end = range->range_end;
    if (range_end.size == 0) {
        return true;
    }
    if (range_end.size < end + 1 || memcmp(range_end.data, range->key.data, end) != 0) {
        return false;
    }
    return range_end.data[end] == 0 || (range_end.data[end] == 1 && range_end.size == end + 1);
}

/* Of all names that begin so: the end is that of the names, or the next kind. */
static bool map_end(const struct key_range *range, struct bytes prefix, uint8_t *memory,
                    struct bytes *out) {
    struct bytes end = range->range_end;
    uint8_t kind = range->key.data[0];
    if (end.size > 1 && end.data[0] == kind) {
        return join(prefix, bytes_of(end.data + 1, end.size - 1), memory, out);
    }
    if (end.size != 1 || end.data[0] != kind + 1 || !join(prefix, bytes_of("", 0), memory, out)) {
        return false;
    }
    memory[out->size - 1]++;
    return true;
}

bool auth_names_has(struct key_space_id space) {
    return key_space_equal(space, KEY_SPACE_NATIVE) ||
           key_space_equal(space, KEY_SPACE_ZOOKEEPER) ||
           key_space_equal(space, KEY_SPACE_CONSUL) || key_space_equal(space, KEY_SPACE_REGISTRY);
}

/* A path begins with a slash. Where the end of a range does not, it is behind all paths. */
static bool map_paths(const struct key_range *range, struct auth_name_range *memory,
                      struct key_range *out_range) {
    struct bytes prefix = bytes_from_text("leased/zookeeper");
    *out_range = (struct key_range){.space = KEY_SPACE_ETCD};
    if (range->key.size == 0 || range->key.data[0] != '/' || key_range_is_open(range)) {
        return false;
    }
    return join(prefix, range->key, memory->key, &out_range->key) &&
           (range->range_end.size == 0 ||
            join(prefix, range->range_end, memory->range_end, &out_range->range_end));
}

/* A key, NUL, the kind of its record; or all keys that begin so. */
static bool map_consul(const struct key_range *range, struct auth_name_range *memory,
                       struct key_range *out_range) {
    struct bytes prefix = bytes_from_text("leased/consul/kv/");
    const uint8_t *nul = range->key.size > 0 ? memchr(range->key.data, 0, range->key.size) : NULL;
    *out_range = (struct key_range){.space = KEY_SPACE_ETCD};
    if (nul != NULL && nul > range->key.data) {
        struct bytes name = bytes_of(range->key.data, (size_t)(nul - range->key.data));
        return stays_within(range, name.size) && join(prefix, name, memory->key, &out_range->key);
    }
    struct bytes name = nul == NULL ? range->key : bytes_of("", 0);
    if (range->range_end.size == 0 || !join(prefix, name, memory->key, &out_range->key)) {
        return false;
    }
    if (!key_range_is_open(range)) {
        return join(prefix, range->range_end, memory->range_end, &out_range->range_end);
    }
    (void)join(prefix, bytes_of("", 0), memory->range_end, &out_range->range_end);
    memory->range_end[prefix.size - 1]++;
    return true;
}

bool auth_names_map(const struct key_range *range, struct auth_name_range *memory,
                    struct key_range *out_range) {
    if (key_space_equal(range->space, KEY_SPACE_CONSUL)) {
        return map_consul(range, memory, out_range);
    }
    if (key_space_equal(range->space, KEY_SPACE_ZOOKEEPER)) {
        return map_paths(range, memory, out_range);
    }
    struct bytes prefix =
        range->key.size > 0 ? prefix_of(range->space, range->key.data[0]) : bytes_of("", 0);
    if (prefix.size == 0) {
        return false;
    }
    struct bytes name = bytes_of(range->key.data + 1, range->key.size - 1);
    const uint8_t *nul = name.size > 0 ? memchr(name.data, 0, name.size) : NULL;
    *out_range = (struct key_range){.space = KEY_SPACE_ETCD};
    if (nul != NULL) {
        name.size = (size_t)(nul - name.data);
        return stays_within(range, name.size + 1) &&
               join(prefix, name, memory->key, &out_range->key);
    }
    return join(prefix, name, memory->key, &out_range->key) &&
           map_end(range, prefix, memory->range_end, &out_range->range_end);
}

/* --- Redis. --- */

/* `leased/redis/DATABASE/` and the name; false when there is no such database, or no room. */
static bool join_redis(uint8_t db, struct bytes name, uint8_t *memory, struct bytes *out) {
    static const char prefix[] = "leased/redis/";
    size_t size = sizeof prefix - 1;
    if (db >= AUTH_REDIS_DATABASES || size + 4 + name.size > AUTH_REDIS_KEY_SIZE) {
        return false;
    }
    memcpy(memory, prefix, size);
    if (db >= 10) {
        memory[size++] = (uint8_t)('0' + db / 10);
    }
    memory[size++] = (uint8_t)('0' + db % 10);
    memory[size++] = '/';
    if (name.size > 0) {
        memcpy(memory + size, name.data, name.size);
    }
    *out = bytes_of(memory, size + name.size);
    return true;
}

bool auth_names_map_redis(const struct key_range *range, struct auth_redis_range *memory,
                          struct key_range *out_range) {
    struct bytes key = range->key;
    struct bytes end = range->range_end;
    *out_range = (struct key_range){.space = KEY_SPACE_ETCD};
    if (key.size == 0 || key_range_is_open(range) ||
        !join_redis(key.data[0], bytes_of(key.data + 1, key.size - 1), memory->key,
                    &out_range->key)) {
        return false;
    }
    if (end.size == 0) {
        return true;
    }
    if (end.data[0] == key.data[0]) {
        return join_redis(end.data[0], bytes_of(end.data + 1, end.size - 1), memory->range_end,
                          &out_range->range_end);
    }
    /* To the end of the database: what follows its last slash. */
    if (end.size != 1 || end.data[0] != key.data[0] + 1 ||
        !join_redis(key.data[0], bytes_of("", 0), memory->range_end, &out_range->range_end)) {
        return false;
    }
    memory->range_end[out_range->range_end.size - 1]++;
    return true;
}
