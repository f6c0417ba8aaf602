#include "doors/zookeeper/zk_keys.h"

#include <string.h>

/* --- Paths. --- */

/* The code point of a UTF-8 sequence of at most three bytes and its size; 0: it is none. ZooKeeper
 * looks at UTF-16: what needs two units there (four bytes here) is refused as a surrogate. */
static uint32_t code_point(const uint8_t *bytes, size_t left, size_t *out_size) {
    static const uint32_t least[4] = {0, 0, 0x80, 0x800};
    size_t size = bytes[0] < 0x80 ? 1 : bytes[0] >> 5 == 6 ? 2 : bytes[0] >> 4 == 14 ? 3 : 0;
    if (size == 0 || size > left) {
        return 0;
    }
    uint32_t point = size == 1 ? bytes[0] : bytes[0] & (0x7fU >> size);
    for (size_t i = 1; i < size; i++) {
        if (bytes[i] >> 6 != 2) {
            return 0;
        }
        point = point << 6 | (bytes[i] & 0x3f);
    }
    *out_size = size;
    return point < least[size] ? 0 : point;
}

static bool is_allowed(uint32_t point) {
    return point > 0x1f && !(point >= 0x7f && point <= 0x9f) &&
           !(point >= 0xd800 && point <= 0xf8ff) && point < 0xfff0;
}

static bool is_name(struct bytes name) {
    return name.size > 0 && !bytes_equal(name, bytes_of(".", 1)) &&
           !bytes_equal(name, bytes_of("..", 2));
}

static bool are_characters(struct bytes path) {
    for (size_t i = 0, size = 1; i < path.size; i += size) {
        if (!is_allowed(code_point(path.data + i, path.size - i, &size))) {
            return false;
        }
    }
    return true;
}

bool zk_path_is_valid(struct bytes path, bool is_sequence) {
    if (path.size == 0 || path.size > ZK_PATH_SIZE_MAX - ZK_SEQUENCE_SIZE || path.data[0] != '/' ||
        !are_characters(path)) {
        return false;
    }
    if (path.size == 1) {
        return true;
    }
    size_t begin = 1;
    for (size_t i = 1; i <= path.size; i++) {
        if (i < path.size && path.data[i] != '/') {
            continue;
        }
        /* The last name of a sequence has digits behind it. */
        if (!(is_sequence && i == path.size) && !is_name(bytes_of(path.data + begin, i - begin))) {
            return false;
        }
        begin = i + 1;
    }
    return true;
}

static size_t last_slash(struct bytes path) {
    const uint8_t *slash = path.size > 0 ? memrchr(path.data, '/', path.size) : NULL;
    return slash == NULL ? 0 : (size_t)(slash - path.data);
}

bool zk_path_is_root(struct bytes path) {
    return path.size == 1;
}

struct bytes zk_path_parent(struct bytes path) {
    size_t at = last_slash(path);
    if (path.size <= 1) {
        return bytes_of(path.data, 0);
    }
    return bytes_of(path.data, at == 0 ? 1 : at);
}

struct bytes zk_path_name(struct bytes path) {
    size_t at = last_slash(path) + 1;
    return at > path.size ? bytes_of(path.data, 0) : bytes_of(path.data + at, path.size - at);
}

bool zk_path_is_within(struct bytes path, struct bytes ancestor) {
    if (zk_path_is_root(ancestor)) {
        return true;
    }
    return path.size >= ancestor.size && memcmp(path.data, ancestor.data, ancestor.size) == 0 &&
           (path.size == ancestor.size || path.data[ancestor.size] == '/');
}

struct bytes zk_path_add_sequence(struct arena *arena, struct bytes path, int32_t number) {
    uint8_t *text = arena_alloc(arena, path.size + ZK_SEQUENCE_SIZE);
    uint32_t left = number < 0 ? 0U - (uint32_t)number : (uint32_t)number;
    size_t size = 10 + (left >= 1000000000U && number < 0);
    memcpy(text, path.data, path.size);
    for (size_t i = size; i > 0; i--, left /= 10) {
        text[path.size + i - 1] = (uint8_t)('0' + left % 10);
    }
    if (number < 0) {
        text[path.size] = '-';
    }
    return bytes_of(text, path.size + size);
}

/* --- Keys. --- */

static size_t depth_of(struct bytes path) {
    size_t depth = 0;
    for (size_t i = 0; i < path.size; i++) {
        depth += path.data[i] == '/';
    }
    return path.size == 1 ? 0 : depth;
}

static uint8_t *begin_key(struct arena *arena, uint8_t kind, size_t depth, struct bytes path,
                          size_t extra) {
    uint8_t *key = arena_alloc(arena, ZK_KEY_PREFIX + path.size + extra);
    key[0] = kind;
    key[1] = (uint8_t)(depth >> 8);
    key[2] = (uint8_t)depth;
    memcpy(key + ZK_KEY_PREFIX, path.data, path.size);
    return key;
}

struct bytes zk_key_node(struct arena *arena, struct bytes path) {
    return bytes_of(begin_key(arena, ZK_KEY_NODE, depth_of(path), path, 0),
                    ZK_KEY_PREFIX + path.size);
}

struct bytes zk_key_children(struct arena *arena, struct bytes path) {
    return bytes_of(begin_key(arena, ZK_KEY_CHILDREN, depth_of(path), path, 0),
                    ZK_KEY_PREFIX + path.size);
}

void zk_key_children_range(struct arena *arena, struct bytes path, struct bytes *out_begin,
                           struct bytes *out_end) {
    size_t depth = depth_of(path) + 1;
    /* All children's paths begin with the parent's and a slash, which that of "/" is itself. */
    size_t extra = zk_path_is_root(path) ? 0 : 1;
    uint8_t *begin = begin_key(arena, ZK_KEY_NODE, depth, path, extra);
    uint8_t *end = begin_key(arena, ZK_KEY_NODE, depth, path, extra);
    size_t size = ZK_KEY_PREFIX + path.size + extra;
    begin[size - 1] = '/';
    end[size - 1] = '/' + 1;
    *out_begin = bytes_of(begin, size);
    *out_end = bytes_of(end, size);
}

struct bytes zk_key_session(uint8_t memory[ZK_SESSION_KEY_SIZE], int64_t session_id) {
    memory[0] = ZK_KEY_SESSION;
    for (int i = 0; i < 8; i++) {
        memory[1 + i] = (uint8_t)((uint64_t)session_id >> (56 - 8 * i));
    }
    return bytes_of(memory, ZK_SESSION_KEY_SIZE);
}

bool zk_key_path(struct bytes key, uint8_t kind, struct bytes *out_path) {
    if (key.size <= ZK_KEY_PREFIX || key.data[0] != kind) {
        return false;
    }
    *out_path = bytes_of(key.data + ZK_KEY_PREFIX, key.size - ZK_KEY_PREFIX);
    return true;
}

bool zk_key_session_id(struct bytes key, int64_t *out_id) {
    uint64_t id = 0;
    if (key.size != ZK_SESSION_KEY_SIZE || key.data[0] != ZK_KEY_SESSION) {
        return false;
    }
    for (size_t i = 1; i < key.size; i++) {
        id = id << 8 | key.data[i];
    }
    *out_id = (int64_t)id;
    return true;
}
