/* A batch of keys: read on both sides, compared, written where they differ. */
#include "cli/import_redis_internal.h"

#include "base/clock.h"

#include <stdlib.h>

/* ---- reading ---- */

static enum redis_type type_of(struct bytes text) {
    static const char *const names[REDIS_TYPES] = {
        [REDIS_NONE] = "none", [REDIS_STRING] = "string", [REDIS_HASH] = "hash",
        [REDIS_LIST] = "list", [REDIS_SET] = "set",       [REDIS_ZSET] = "zset",
    };
    for (enum redis_type type = REDIS_NONE; type < REDIS_OTHER; type++) {
        if (bytes_equal(text, bytes_from_text(names[type]))) {
            return type;
        }
    }
    return REDIS_OTHER;
}

/* The destination's clock, read before any time to live is: what is left of a key at the source is
 * counted from a moment that is not later than when it was read, on the clock that will end it. */
static bool read_clock(struct redis_import *state) {
    struct resp_reply reply;
    struct redis_link *link = &state->destination;
    resp_put_texts(&link->out, "TIME", NULL);
    if (!redis_link_send(link) || !redis_link_expect(link, &state->batch, RESP_ARRAY, &reply)) {
        return false;
    }
    if (reply.n_items != 2 || reply.items[0].text.size > 18 || reply.items[1].text.size > 6) {
        return import_fail(state->job, "the destination's TIME is none");
    }
    char seconds[24] = "";
    char micros[8] = "";
    memcpy(seconds, reply.items[0].text.data, reply.items[0].text.size);
    memcpy(micros, reply.items[1].text.data, reply.items[1].text.size);
    state->destination_wall_ms = atoll(seconds) * 1000 + atoll(micros) / 1000;
    return true;
}

static bool ask_facts(struct redis_import *state, struct redis_link *link) {
    for (size_t i = 0; i < state->n_items; i++) {
        redis_link_key(link, "TYPE", state->items[i].key);
        redis_link_key(link, "PTTL", state->items[i].key);
    }
    return redis_link_send(link);
}

static bool take_facts(struct redis_import *state, struct redis_link *link) {
    for (size_t i = 0; i < state->n_items; i++) {
        struct redis_item *item = &state->items[i];
        bool is_source = link == &state->source;
        struct redis_side *side = is_source ? &item->source : &item->destination;
        struct resp_reply type;
        struct resp_reply ttl;
        if (!redis_link_expect(link, &state->batch, RESP_STATUS, &type) ||
            !redis_link_expect(link, &state->batch, RESP_INTEGER, &ttl)) {
            return false;
        }
        side->type = ttl.integer == -2 ? REDIS_NONE : type_of(type.text);
        side->ttl_ms = ttl.integer;
        if (is_source) {
            snprintf(item->type_text, sizeof item->type_text, "%.*s", (int)type.text.size,
                     (const char *)type.text.data);
        }
    }
    return true;
}

static bool read_facts(struct redis_import *state) {
    if (!read_clock(state)) {
        return false;
    }
    uint64_t began_ms = clock_boottime_ms();
    bool is_read = ask_facts(state, &state->source) && ask_facts(state, &state->destination) &&
                   take_facts(state, &state->source) && take_facts(state, &state->destination);
    state->read_ms = clock_elapsed_ms(clock_boottime_ms(), began_ms);
    return is_read;
}

static bool has_value(const struct redis_side *side) {
    return side->type != REDIS_NONE && side->type != REDIS_OTHER;
}

/* Sizes, and later contents, of the destination are of use only beside those of the source. */
static bool is_comparable(const struct redis_item *item) {
    return has_value(&item->source) && item->destination.type == item->source.type;
}

static bool is_wanted(const struct redis_item *item, bool is_source) {
    return is_source ? has_value(&item->source) : is_comparable(item);
}

static bool ask_sizes(struct redis_import *state, struct redis_link *link) {
    static const char *const names[REDIS_TYPES] = {[REDIS_STRING] = "STRLEN",
                                                   [REDIS_HASH] = "HLEN",
                                                   [REDIS_LIST] = "LLEN",
                                                   [REDIS_SET] = "SCARD",
                                                   [REDIS_ZSET] = "ZCARD"};
    for (size_t i = 0; i < state->n_items; i++) {
        if (is_wanted(&state->items[i], link == &state->source)) {
            redis_link_key(link, names[state->items[i].source.type], state->items[i].key);
        }
    }
    return redis_link_send(link);
}

/* An error: the key is of another type by now. */
static bool take_sizes(struct redis_import *state, struct redis_link *link) {
    bool is_source = link == &state->source;
    for (size_t i = 0; i < state->n_items; i++) {
        struct redis_item *item = &state->items[i];
        struct resp_reply reply;
        if (!is_wanted(item, is_source)) {
            continue;
        }
        if (!redis_link_reply(link, &state->batch, &reply)) {
            return false;
        }
        (is_source ? &item->source : &item->destination)->size =
            reply.kind == RESP_INTEGER ? reply.integer : -1;
    }
    return true;
}

static bool is_small(const struct redis_side *side) {
    return side->size >= 0 && !redis_side_is_large(side);
}

/* Content of the destination is read where it could be the same. */
static bool is_content_wanted(const struct redis_item *item, bool is_source) {
    return is_wanted(item, is_source) && is_small(&item->source) &&
           (is_source || item->destination.size == item->source.size);
}

static bool ask_contents(struct redis_import *state, struct redis_link *link) {
    for (size_t i = 0; i < state->n_items; i++) {
        struct redis_item *item = &state->items[i];
        if (is_content_wanted(item, link == &state->source)) {
            redis_content_ask(link, item->source.type, item->key);
        }
    }
    return redis_link_send(link);
}

static bool take_contents(struct redis_import *state, struct redis_link *link) {
    bool is_source = link == &state->source;
    for (size_t i = 0; i < state->n_items; i++) {
        struct redis_item *item = &state->items[i];
        struct redis_side *side = is_source ? &item->source : &item->destination;
        if (!is_content_wanted(item, is_source)) {
            continue;
        }
        if (!redis_link_reply(link, &state->batch, &side->content)) {
            return false;
        }
        bool has_pairs = item->source.type == REDIS_HASH || item->source.type == REDIS_ZSET;
        side->has_content =
            side->content.kind == (item->source.type == REDIS_STRING ? RESP_BULK : RESP_ARRAY) &&
            (!has_pairs || side->content.n_items % 2 == 0);
    }
    return true;
}

static bool read_batch(struct redis_import *state) {
    struct redis_link *source = &state->source;
    struct redis_link *destination = &state->destination;
    return read_facts(state) && ask_sizes(state, source) && ask_sizes(state, destination) &&
           take_sizes(state, source) && take_sizes(state, destination) &&
           ask_contents(state, source) && ask_contents(state, destination) &&
           take_contents(state, source) && take_contents(state, destination);
}

/* ---- comparing ---- */

static bool is_same_ttl(const struct redis_import *state, const struct redis_item *item) {
    int64_t here = item->source.ttl_ms;
    int64_t there = item->destination.ttl_ms;
    int64_t noise_ms = (int64_t)state->read_ms;
    if (here < 0 || there < 0) {
        return here == there;
    }
    return there <= here + noise_ms + REDIS_TTL_LATE_MS &&
           there >= here - noise_ms - REDIS_TTL_EARLY_MS;
}

static bool is_too_large(const struct redis_item *item) {
    return item->source.type == REDIS_STRING && item->source.size > REDIS_VALUE_MAX;
}

/* A large string is one value all the same. */
static bool compare_large_string(struct redis_import *state, struct redis_item *item) {
    redis_content_ask(&state->source, REDIS_STRING, item->key);
    redis_content_ask(&state->destination, REDIS_STRING, item->key);
    if (!redis_link_send(&state->source) || !redis_link_send(&state->destination) ||
        !redis_link_reply(&state->source, &state->batch, &item->source.content) ||
        !redis_link_reply(&state->destination, &state->batch, &item->destination.content)) {
        return false;
    }
    item->source.has_content = item->source.content.kind == RESP_BULK;
    item->verdict = item->destination.content.kind == RESP_BULK && item->source.has_content &&
                            redis_content_is_equal(state, item)
                        ? REDIS_EQUAL
                        : REDIS_DIFFERENT;
    return true;
}

static bool judge_large(struct redis_import *state, struct redis_item *item) {
    if (item->source.type == REDIS_STRING) {
        return compare_large_string(state, item);
    }
    item->verdict = REDIS_DIFFERENT;
    return item->destination.type != item->source.type ||
           item->destination.size != item->source.size || redis_large_compare(state, item);
}

static bool judge(struct redis_import *state, struct redis_item *item) {
    const struct redis_side *source = &item->source;
    if (source->type == REDIS_NONE) {
        item->verdict = REDIS_GONE;
        return true;
    }
    if (source->type == REDIS_OTHER || is_too_large(item)) {
        item->verdict = REDIS_UNSUPPORTED;
        return true;
    }
    if (source->size < 0 || (is_small(source) && !source->has_content)) {
        item->verdict = REDIS_MOVED;
        return true;
    }
    if (!is_small(source)) {
        if (!judge_large(state, item)) {
            return false;
        }
    } else if (!redis_content_fits(source)) {
        item->verdict = REDIS_UNSUPPORTED;
    } else {
        item->verdict = item->destination.has_content && redis_content_is_equal(state, item)
                            ? REDIS_EQUAL
                            : REDIS_DIFFERENT;
    }
    if (item->verdict == REDIS_EQUAL && !is_same_ttl(state, item)) {
        item->verdict = REDIS_TTL_DIFFERS;
    }
    return true;
}

/* ---- writing ---- */

size_t redis_import_put_ttl(struct redis_import *state, const struct redis_item *item) {
    struct redis_link *link = &state->destination;
    if (item->source.ttl_ms < 0) {
        return 0;
    }
    redis_link_begin(link, "PEXPIREAT", item->key, 1);
    resp_put_number(&link->out, state->destination_wall_ms + item->source.ttl_ms);
    return 1;
}

static void put_string(struct redis_import *state, struct redis_item *item) {
    struct redis_link *link = &state->destination;
    bool has_ttl = item->source.ttl_ms >= 0;
    redis_link_begin(link, "SET", item->key, has_ttl ? 3 : 1);
    resp_put_word(&link->out, item->source.content.text);
    if (has_ttl) {
        resp_put_word(&link->out, bytes_from_text("PXAT"));
        resp_put_number(&link->out, state->destination_wall_ms + item->source.ttl_ms);
    }
    item->n_replies = 1;
}

/* In one transaction where it is not too large for that: nobody sees a half. */
static void put_elements(struct redis_import *state, struct redis_item *item) {
    struct redis_link *link = &state->destination;
    const struct resp_reply *content = &item->source.content;
    bool is_atomic = redis_content_bytes(content) <= 2 * REDIS_CHUNK_BYTES;
    if (is_atomic) {
        resp_put_texts(&link->out, "MULTI", NULL);
        item->n_replies++;
    }
    redis_link_key(link, "DEL", item->key);
    item->n_replies++;
    for (size_t first = 0; first < content->n_items;) {
        size_t end = redis_content_piece(item->source.type, content, first);
        redis_content_put(link, item->source.type, item->key, content, first, end);
        item->n_replies += 1 + redis_import_put_ttl(state, item);
        first = end;
    }
    if (is_atomic) {
        resp_put_texts(&link->out, "EXEC", NULL);
        item->n_replies++;
    }
}

static void put_ttl_alone(struct redis_import *state, struct redis_item *item) {
    if (item->source.ttl_ms < 0) {
        redis_link_key(&state->destination, "PERSIST", item->key);
        item->n_replies = 1;
    } else {
        item->n_replies = redis_import_put_ttl(state, item);
    }
}

/* Its replies are read with those of the others; a large one has read its own. */
static bool put_item(struct redis_import *state, struct redis_item *item) {
    switch (item->verdict) {
    case REDIS_GONE:
        if (item->destination.type != REDIS_NONE) {
            redis_link_key(&state->destination, "DEL", item->key);
            item->n_replies = 1;
        }
        return true;
    case REDIS_TTL_DIFFERS:
        put_ttl_alone(state, item);
        return true;
    case REDIS_DIFFERENT:
        if (item->source.type == REDIS_STRING) {
            put_string(state, item);
        } else if (is_small(&item->source)) {
            put_elements(state, item);
        }
        return true;
    default:
        return true;
    }
}

static void item_failed(struct redis_import *state, struct redis_item *item, struct bytes error) {
    char text[IMPORT_PROBLEM_SIZE_MAX];
    if (!item->has_failed) {
        item->has_failed = true;
        snprintf(text, sizeof text, "%.*s", (int)error.size, (const char *)error.data);
        import_problem(state->job, item->key, text);
    }
}

static bool take_replies(struct redis_import *state, struct redis_item *item) {
    for (; item->n_replies > 0; item->n_replies--) {
        struct resp_reply reply;
        if (!redis_link_reply(&state->destination, &state->batch, &reply)) {
            return false;
        }
        if (reply.kind == RESP_ERROR) {
            item_failed(state, item, reply.text);
        }
        for (size_t i = 0; i < reply.n_items; i++) { /* of EXEC */
            if (reply.items[i].kind == RESP_ERROR) {
                item_failed(state, item, reply.items[i].text);
            }
        }
    }
    return true;
}

/* Large strings are sent one by one, so that little is on its way at once. */
static bool flush_if_long(struct redis_import *state, size_t *next, size_t end) {
    if (state->destination.out.size < REDIS_CHUNK_BYTES && end < state->n_items) {
        return true;
    }
    if (!redis_link_send(&state->destination)) {
        return false;
    }
    for (; *next < end; (*next)++) {
        if (!take_replies(state, &state->items[*next])) {
            return false;
        }
    }
    return true;
}

static bool is_large_copy(const struct redis_item *item) {
    return item->verdict == REDIS_DIFFERENT && item->source.type != REDIS_STRING &&
           !is_small(&item->source);
}

static bool write_batch(struct redis_import *state) {
    size_t next = 0;
    for (size_t i = 0; i < state->n_items; i++) {
        if (!put_item(state, &state->items[i]) || !flush_if_long(state, &next, i + 1)) {
            return false;
        }
    }
    for (size_t i = 0; i < state->n_items; i++) {
        if (is_large_copy(&state->items[i]) && !redis_large_copy(state, &state->items[i])) {
            return false;
        }
    }
    return true;
}

/* ---- counting ---- */

static void count_unsupported(struct redis_import *state, struct redis_item *item) {
    char text[IMPORT_PROBLEM_SIZE_MAX];
    state->job->counts.unsupported++;
    if (item->source.type == REDIS_OTHER) {
        snprintf(text, sizeof text, "not copied: its type is %s", item->type_text);
    } else {
        snprintf(text, sizeof text, "not copied: a value of it is larger than leased stores");
    }
    if (!state->job->skips_unsupported) {
        import_problem(state->job, item->key, text);
    }
}

static void count(struct redis_import *state, struct redis_item *item) {
    struct import_counts *counts = &state->job->counts;
    counts->seen += item->verdict != REDIS_GONE;
    if (item->has_failed) {
        counts->failed++;
        return;
    }
    switch (item->verdict) {
    case REDIS_EQUAL:
        counts->equal++;
        return;
    case REDIS_GONE:
        counts->removed += item->destination.type != REDIS_NONE;
        return;
    case REDIS_UNSUPPORTED:
        count_unsupported(state, item);
        return;
    case REDIS_DIFFERENT:
        counts->copied += item->destination.type == REDIS_NONE;
        counts->replaced += item->destination.type != REDIS_NONE;
        counts->bytes += redis_content_bytes(&item->source.content);
        return;
    case REDIS_TTL_DIFFERS:
    case REDIS_MOVED:
        counts->replaced++;
    }
}

bool redis_import_settle(struct redis_import *state) {
    if (!read_batch(state)) {
        return false;
    }
    for (size_t i = 0; i < state->n_items; i++) {
        if (!judge(state, &state->items[i])) {
            return false;
        }
    }
    if (state->mode == IMPORT_WRITE && !write_batch(state)) {
        return false;
    }
    for (size_t i = 0; i < state->n_items; i++) {
        count(state, &state->items[i]);
    }
    return true;
}
