/*
 * Keys of more elements than one batch should hold: the source is read page by page, and the
 * destination asked for just these elements.
 */
#include "cli/import_redis_internal.h"

#include <stdlib.h>

/* ---- pages of the source ---- */

struct pages {
    struct redis_import *state;
    struct redis_item *item;
    struct arena arena;
    char cursor[32];
    int64_t first; /* of a list */
    bool is_last;
    struct resp_reply content; /* of this page */
};

static void pages_begin(struct pages *pages, struct redis_import *state, struct redis_item *item) {
    *pages = (struct pages){.state = state, .item = item, .cursor = "0"};
    arena_init(&pages->arena);
}

static bool next_of_list(struct pages *pages) {
    struct redis_link *link = &pages->state->source;
    redis_link_begin(link, "LRANGE", pages->item->key, 2);
    resp_put_number(&link->out, pages->first);
    resp_put_number(&link->out, pages->first + REDIS_CHUNK - 1);
    if (!redis_link_send(link) || !redis_link_reply(link, &pages->arena, &pages->content)) {
        return false;
    }
    pages->first += REDIS_CHUNK;
    pages->is_last = pages->content.n_items < REDIS_CHUNK;
    return true;
}

static bool next_of_scan(struct pages *pages) {
    static const char *const names[REDIS_TYPES] = {
        [REDIS_HASH] = "HSCAN", [REDIS_SET] = "SSCAN", [REDIS_ZSET] = "ZSCAN"};
    struct redis_link *link = &pages->state->source;
    struct resp_reply reply;
    redis_link_begin(link, names[pages->item->source.type], pages->item->key, 3);
    resp_put_word(&link->out, bytes_from_text(pages->cursor));
    resp_put_word(&link->out, bytes_from_text("COUNT"));
    resp_put_number(&link->out, REDIS_CHUNK);
    if (!redis_link_send(link) || !redis_link_reply(link, &pages->arena, &reply)) {
        return false;
    }
    bool is_page = reply.kind == RESP_ARRAY && reply.n_items == 2 &&
                   reply.items[0].text.size < sizeof pages->cursor &&
                   reply.items[1].kind == RESP_ARRAY;
    if (!is_page) { /* an error: it is of another type now */
        pages->is_last = true;
        pages->content = (struct resp_reply){.kind = RESP_ERROR};
        return true;
    }
    memcpy(pages->cursor, reply.items[0].text.data, reply.items[0].text.size);
    pages->cursor[reply.items[0].text.size] = '\0';
    pages->is_last = strcmp(pages->cursor, "0") == 0;
    pages->content = reply.items[1];
    return true;
}

static bool pages_next(struct pages *pages) {
    arena_reset(&pages->arena);
    return pages->item->source.type == REDIS_LIST ? next_of_list(pages) : next_of_scan(pages);
}

/* ---- comparing ---- */

static void ask_pieces(struct redis_link *link, struct pages *pages, size_t first, size_t end) {
    const struct resp_reply *content = &pages->content;
    struct bytes key = pages->item->key;
    switch (pages->item->source.type) {
    case REDIS_LIST:
        redis_link_begin(link, "LRANGE", key, 2);
        resp_put_number(&link->out, pages->first - REDIS_CHUNK + (int64_t)first);
        resp_put_number(&link->out, pages->first - REDIS_CHUNK + (int64_t)end - 1);
        return;
    case REDIS_SET:
        redis_link_begin(link, "SMISMEMBER", key, end - first);
        for (size_t i = first; i < end; i++) {
            resp_put_word(&link->out, content->items[i].text);
        }
        return;
    default:
        redis_link_begin(link, pages->item->source.type == REDIS_HASH ? "HMGET" : "ZMSCORE", key,
                         (end - first) / 2);
        for (size_t i = first; i < end; i += 2) {
            resp_put_word(&link->out, content->items[i].text);
        }
    }
}

static bool is_same_element(enum redis_type type, const struct resp_reply *content, size_t index,
                            const struct resp_reply *there) {
    switch (type) {
    case REDIS_LIST:
        return there->kind == RESP_BULK && bytes_equal(content->items[index].text, there->text);
    case REDIS_SET:
        return there->kind == RESP_INTEGER && there->integer == 1;
    case REDIS_HASH:
        return there->kind == RESP_BULK && bytes_equal(content->items[index + 1].text, there->text);
    default: {
        char left[64];
        char right[64];
        snprintf(left, sizeof left, "%.*s", (int)content->items[index + 1].text.size,
                 (const char *)content->items[index + 1].text.data);
        snprintf(right, sizeof right, "%.*s", (int)there->text.size,
                 there->text.size > 0 ? (const char *)there->text.data : "");
        return there->kind == RESP_BULK && strtod(left, NULL) == strtod(right, NULL);
    }
    }
}

/* One page against the destination. */
static bool compare_page(struct pages *pages, bool *out_is_equal) {
    enum redis_type type = pages->item->source.type;
    struct redis_link *link = &pages->state->destination;
    size_t step = type == REDIS_HASH || type == REDIS_ZSET ? 2 : 1;
    *out_is_equal = pages->content.kind == RESP_ARRAY && pages->content.n_items % step == 0;
    for (size_t first = 0; *out_is_equal && first < pages->content.n_items;) {
        size_t end = redis_content_piece(type, &pages->content, first);
        struct resp_reply reply;
        ask_pieces(link, pages, first, end);
        if (!redis_link_send(link) || !redis_link_reply(link, &pages->arena, &reply)) {
            return false;
        }
        *out_is_equal = reply.kind == RESP_ARRAY && reply.n_items == (end - first) / step;
        for (size_t i = 0; *out_is_equal && i < reply.n_items; i++) {
            *out_is_equal =
                is_same_element(type, &pages->content, first + i * step, &reply.items[i]);
        }
        first = end;
    }
    return true;
}

bool redis_large_compare(struct redis_import *state, struct redis_item *item) {
    struct pages pages;
    bool is_equal = true;
    bool is_read = true;
    pages_begin(&pages, state, item);
    while (is_equal && is_read && !pages.is_last) {
        is_read = pages_next(&pages) && compare_page(&pages, &is_equal);
    }
    arena_clear(&pages.arena);
    item->verdict = is_equal ? REDIS_EQUAL : REDIS_DIFFERENT;
    return is_read;
}

/* ---- copying ---- */

static bool take_replies(struct pages *pages, size_t n_replies) {
    for (size_t i = 0; i < n_replies; i++) {
        struct resp_reply reply;
        if (!redis_link_reply(&pages->state->destination, &pages->arena, &reply)) {
            return false;
        }
        if (reply.kind == RESP_ERROR && !pages->item->has_failed) {
            char text[IMPORT_PROBLEM_SIZE_MAX];
            pages->item->has_failed = true;
            snprintf(text, sizeof text, "%.*s", (int)reply.text.size,
                     (const char *)reply.text.data);
            import_problem(pages->state->job, pages->item->key, text);
        }
    }
    return true;
}

/* The time to live follows each piece: a key that ends in between must not begin again without
 * one. */
static bool copy_page(struct pages *pages) {
    struct redis_link *link = &pages->state->destination;
    struct redis_item *item = pages->item;
    const struct redis_side page = {.content = pages->content};
    if (pages->content.kind != RESP_ARRAY || !redis_content_fits(&page)) {
        item->has_failed = true;
        import_problem(pages->state->job, item->key,
                       pages->content.kind != RESP_ARRAY
                           ? "changed its type while it was copied"
                           : "has an element that is larger than leased stores");
        return true;
    }
    for (size_t first = 0; first < pages->content.n_items;) {
        size_t end = redis_content_piece(item->source.type, &pages->content, first);
        if (end == first) {
            break; /* half of a pair */
        }
        redis_content_put(link, item->source.type, item->key, &pages->content, first, end);
        size_t n_replies = 1 + redis_import_put_ttl(pages->state, item);
        if (!redis_link_send(link) || !take_replies(pages, n_replies)) {
            return false;
        }
        first = end;
    }
    pages->state->job->counts.bytes += redis_content_bytes(&pages->content);
    return true;
}

bool redis_large_copy(struct redis_import *state, struct redis_item *item) {
    struct pages pages;
    pages_begin(&pages, state, item);
    redis_link_key(&state->destination, "DEL", item->key);
    bool is_read = redis_link_send(&state->destination) && take_replies(&pages, 1);
    while (is_read && !pages.is_last && !item->has_failed) {
        is_read = pages_next(&pages) && copy_page(&pages);
    }
    arena_clear(&pages.arena);
    return is_read;
}
