/* The whole content of a small key, or a piece of a large one: read, compared, written. */
#include "cli/import_redis_internal.h"

#include <stdlib.h>

void redis_content_ask(struct redis_link *link, enum redis_type type, struct bytes key) {
    switch (type) {
    case REDIS_STRING:
        redis_link_key(link, "GET", key);
        return;
    case REDIS_HASH:
        redis_link_key(link, "HGETALL", key);
        return;
    case REDIS_SET:
        redis_link_key(link, "SMEMBERS", key);
        return;
    default:
        break;
    }
    bool is_list = type == REDIS_LIST;
    redis_link_begin(link, is_list ? "LRANGE" : "ZRANGE", key, is_list ? 2 : 3);
    resp_put_number(&link->out, 0);
    resp_put_number(&link->out, -1);
    if (!is_list) {
        resp_put_word(&link->out, bytes_from_text("WITHSCORES"));
    }
}

/* ---- comparing ---- */

/* As a number: 3 and 3.0 are the same, and so are two ways to write an infinity. */
static double score_of(struct bytes text) {
    char room[64];
    size_t size = text.size < sizeof room - 1 ? text.size : sizeof room - 1;
    memcpy(room, text.data, size);
    room[size] = '\0';
    return strtod(room, NULL);
}

/* A member and what belongs to it. */
struct pair {
    struct bytes name;
    struct bytes value;
};

static int compare_pairs(const void *a, const void *b) {
    return bytes_compare(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

static struct pair *sorted_pairs(struct arena *arena, const struct resp_reply *content,
                                 size_t step) {
    size_t n_pairs = content->n_items / step;
    struct pair *pairs = arena_calloc(arena, n_pairs, sizeof *pairs);
    for (size_t i = 0; i < n_pairs; i++) {
        pairs[i].name = content->items[i * step].text;
        pairs[i].value = content->items[i * step + step - 1].text;
    }
    qsort(pairs, n_pairs, sizeof *pairs, compare_pairs);
    return pairs;
}

static bool is_equal_unordered(struct arena *arena, enum redis_type type,
                               const struct resp_reply *a, const struct resp_reply *b) {
    size_t step = type == REDIS_SET ? 1 : 2;
    struct pair *left = sorted_pairs(arena, a, step);
    struct pair *right = sorted_pairs(arena, b, step);
    for (size_t i = 0; i < a->n_items / step; i++) {
        bool is_same_value = type == REDIS_ZSET
                                 ? score_of(left[i].value) == score_of(right[i].value)
                                 : bytes_equal(left[i].value, right[i].value);
        if (!bytes_equal(left[i].name, right[i].name) || !is_same_value) {
            return false;
        }
    }
    return true;
}

bool redis_content_is_equal(struct redis_import *state, const struct redis_item *item) {
    const struct resp_reply *a = &item->source.content;
    const struct resp_reply *b = &item->destination.content;
    if (item->source.type == REDIS_STRING) {
        return bytes_equal(a->text, b->text);
    }
    if (a->n_items != b->n_items || a->n_items == 0) {
        return a->n_items == b->n_items;
    }
    if (item->source.type != REDIS_LIST) {
        return is_equal_unordered(&state->batch, item->source.type, a, b);
    }
    for (size_t i = 0; i < a->n_items; i++) {
        if (!bytes_equal(a->items[i].text, b->items[i].text)) {
            return false;
        }
    }
    return true;
}

/* ---- sizes ---- */

size_t redis_content_bytes(const struct resp_reply *content) {
    size_t size = content->text.size;
    for (size_t i = 0; i < content->n_items; i++) {
        size += content->items[i].text.size;
    }
    return size;
}

bool redis_content_fits(const struct redis_side *side) {
    if (side->content.text.size > REDIS_VALUE_MAX) {
        return false;
    }
    for (size_t i = 0; i < side->content.n_items; i++) {
        if (side->content.items[i].text.size > REDIS_VALUE_MAX) {
            return false;
        }
    }
    return true;
}

static size_t step_of(enum redis_type type) {
    return type == REDIS_HASH || type == REDIS_ZSET ? 2 : 1;
}

size_t redis_content_piece(enum redis_type type, const struct resp_reply *content, size_t first) {
    size_t step = step_of(type);
    size_t size = 0;
    size_t end = first;
    while (end + step <= content->n_items && end - first < REDIS_CHUNK * step &&
           (size < REDIS_CHUNK_BYTES || end == first)) {
        size += content->items[end].text.size + content->items[end + step - 1].text.size;
        if (size > REDIS_CHUNK_BYTES && end > first) {
            break;
        }
        end += step;
    }
    return end;
}

/* ---- writing ---- */

void redis_content_put(struct redis_link *link, enum redis_type type, struct bytes key,
                       const struct resp_reply *content, size_t first, size_t end) {
    static const char *const names[REDIS_TYPES] = {
        [REDIS_HASH] = "HSET", [REDIS_LIST] = "RPUSH", [REDIS_SET] = "SADD", [REDIS_ZSET] = "ZADD"};
    redis_link_begin(link, names[type], key, end - first);
    for (size_t i = first; i < end; i += step_of(type)) {
        if (type == REDIS_ZSET) {
            resp_put_word(&link->out, content->items[i + 1].text); /* the score comes first */
        }
        resp_put_word(&link->out, content->items[i].text);
        if (type == REDIS_HASH) {
            resp_put_word(&link->out, content->items[i + 1].text);
        }
    }
}
