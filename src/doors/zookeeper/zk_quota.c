#include "doors/zookeeper/zk_quota.h"

#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_model.h"

#include <inttypes.h>
#include <stdio.h>

static const char quota_begin[] = "/zookeeper/quota/";
static const char stats_end[] = "/zookeeper_stats";

struct bytes zk_quota_path(struct bytes stats_path) {
    enum { BEGIN = sizeof quota_begin - 1, END = sizeof stats_end - 1 };
    /* ZooKeeper keeps none of "/", whose statistics would have no name between the two. */
    if (stats_path.size <= BEGIN + END || memcmp(stats_path.data, quota_begin, BEGIN) != 0 ||
        memcmp(stats_path.data + stats_path.size - END, stats_end, END) != 0) {
        return bytes_of(NULL, 0);
    }
    return bytes_of(stats_path.data + BEGIN - 1, stats_path.size - BEGIN - END + 1);
}

struct part {
    struct zk_quota_count *count;
    size_t left;
    struct bytes last; /* key */
};

static bool add_node(void *context, const struct record *record) {
    struct part *part = context;
    struct zk_node node;
    if (zk_node_decode(record, &node)) {
        part->count->count++;
        part->count->bytes += (int64_t)node.data.size;
    }
    part->last = record_key(record);
    part->left--;
    return part->left > 0;
}

static void go_on_at(struct zk_quota_count *count, struct bytes key, size_t n_zeros) {
    static const uint8_t zero = 0;
    count->from.size = 0;
    buffer_append(&count->from, key.data, key.size);
    buffer_append(&count->from, &zero, n_zeros);
}

static void set_depth(uint8_t *key, unsigned depth) {
    key[1] = (uint8_t)(depth >> 8);
    key[2] = (uint8_t)depth;
}

/* The nodes of one depth are a range of keys, and below a depth without any there are none. */
void zk_quota_count_part(struct zk_quota_count *count, const struct key_store *keys,
                         struct arena *arena, struct bytes path, size_t n_max) {
    struct part part = {.count = count, .left = n_max};
    struct bytes begin;
    struct bytes end;
    zk_key_children_range(arena, path, &begin, &end);
    uint8_t *first = arena_copy(arena, begin.data, begin.size);
    uint8_t *behind = arena_copy(arena, end.data, end.size);
    if (count->depth == 0) {
        const struct record *itself =
            key_store_find(keys, KEY_SPACE_ZOOKEEPER, zk_key_node(arena, path));
        count->is_done = itself == NULL;
        if (itself != NULL) {
            (void)add_node(&part, itself);
        }
        count->depth = (unsigned)first[1] << 8 | first[2];
        go_on_at(count, begin, 0);
    }
    while (part.left > 0 && !count->is_done) {
        set_depth(behind, count->depth);
        size_t n =
            key_store_visit(keys, KEY_SPACE_ZOOKEEPER, bytes_of(count->from.data, count->from.size),
                            bytes_of(behind, end.size), add_node, &part);
        count->is_depth_found = count->is_depth_found || n > 0;
        if (part.left == 0) {
            go_on_at(count, part.last, 1);
        } else if (!count->is_depth_found) {
            count->is_done = true;
        } else {
            set_depth(first, ++count->depth);
            count->is_depth_found = false;
            go_on_at(count, bytes_of(first, begin.size), 0);
        }
    }
}

void zk_quota_count_clear(struct zk_quota_count *count) {
    buffer_clear(&count->from);
}

struct bytes zk_quota_text(const struct zk_quota_count *count, struct arena *arena) {
    enum { TEXT_SIZE_MAX = 64 };
    char *text = arena_alloc(arena, TEXT_SIZE_MAX);
    int size = snprintf(text, TEXT_SIZE_MAX, "count=%" PRId64 ",bytes=%" PRId64, count->count,
                        count->bytes);
    return bytes_of(text, (size_t)size);
}
