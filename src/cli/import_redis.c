/*
 * `lease import redis://…`: all keys of the source are looked at, page by page, beside those of the
 * same name at the destination; then those of the destination that the source does not have.
 */
#include "cli/import_redis_internal.h"

#include <stdlib.h>

/* ---- pages of keys ---- */

struct scan {
    struct redis_link *link;
    char cursor[32];
    bool is_over;
    struct resp_reply keys;
};

static bool scan_next(struct redis_import *state, struct scan *scan) {
    struct redis_link *link = scan->link;
    struct resp_reply reply;
    bool has_pattern = state->job->pattern[0] != '\0';
    arena_reset(&state->page);
    redis_link_begin(link, "SCAN", bytes_from_text(scan->cursor), has_pattern ? 4 : 2);
    resp_put_word(&link->out, bytes_from_text("COUNT"));
    resp_put_number(&link->out, REDIS_PAGE);
    if (has_pattern) {
        resp_put_word(&link->out, bytes_from_text("MATCH"));
        resp_put_word(&link->out, bytes_from_text(state->job->pattern));
    }
    if (!redis_link_send(link) || !redis_link_expect(link, &state->page, RESP_ARRAY, &reply)) {
        return false;
    }
    if (reply.n_items != 2 || reply.items[0].text.size >= sizeof scan->cursor ||
        reply.items[1].kind != RESP_ARRAY) {
        return import_fail(state->job, "%s: its answer to SCAN is none", link->url->place.host);
    }
    memcpy(scan->cursor, reply.items[0].text.data, reply.items[0].text.size);
    scan->cursor[reply.items[0].text.size] = '\0';
    scan->is_over = strcmp(scan->cursor, "0") == 0;
    scan->keys = reply.items[1];
    return true;
}

static bool settle_page(struct redis_import *state, const struct resp_reply *keys) {
    for (size_t first = 0; first < keys->n_items && import_goes_on(state->job);) {
        arena_reset(&state->batch);
        state->n_items = 0;
        for (; first < keys->n_items && state->n_items < REDIS_BATCH_MAX; first++) {
            state->items[state->n_items++] = (struct redis_item){.key = keys->items[first].text};
        }
        if (!redis_import_settle(state)) {
            return false;
        }
    }
    return true;
}

static bool scan_source(struct redis_import *state) {
    struct scan scan = {.link = &state->source, .cursor = "0"};
    while (!scan.is_over && import_goes_on(state->job)) {
        if (!scan_next(state, &scan) || !settle_page(state, &scan.keys)) {
            return false;
        }
    }
    return true;
}

/* ---- what only the destination has ---- */

/* Which of the keys the source has; those that it has not are deleted, or counted. */
static bool remove_page(struct redis_import *state, const struct resp_reply *keys) {
    size_t n_gone = 0;
    arena_reset(&state->batch);
    for (size_t i = 0; i < keys->n_items; i++) {
        redis_link_key(&state->source, "EXISTS", keys->items[i].text);
    }
    if (!redis_link_send(&state->source)) {
        return false;
    }
    for (size_t i = 0; i < keys->n_items; i++) {
        struct resp_reply reply;
        if (!redis_link_expect(&state->source, &state->batch, RESP_INTEGER, &reply)) {
            return false;
        }
        if (reply.integer == 0) {
            n_gone++;
            if (state->mode == IMPORT_WRITE) {
                redis_link_key(&state->destination, "DEL", keys->items[i].text);
            }
        }
    }
    state->job->counts.removed += state->mode == IMPORT_COMPARE ? n_gone : 0;
    if (state->mode == IMPORT_COMPARE || !redis_link_send(&state->destination)) {
        return state->mode == IMPORT_COMPARE;
    }
    for (; n_gone > 0; n_gone--) {
        struct resp_reply reply;
        if (!redis_link_expect(&state->destination, &state->batch, RESP_INTEGER, &reply)) {
            return false;
        }
        state->job->counts.removed += reply.integer > 0;
    }
    return true;
}

static bool scan_destination(struct redis_import *state) {
    struct scan scan = {.link = &state->destination, .cursor = "0"};
    while (!scan.is_over && import_goes_on(state->job)) {
        if (!scan_next(state, &scan) || !remove_page(state, &scan.keys)) {
            return false;
        }
    }
    return true;
}

/* ---- databases ---- */

/* "db3:keys=1,…" at the beginning of a line. */
static void take_keyspace(struct redis_import *state, struct bytes text) {
    for (size_t i = 0; i + 3 < text.size; i++) {
        if ((i > 0 && text.data[i - 1] != '\n') || memcmp(text.data + i, "db", 2) != 0) {
            continue;
        }
        size_t number = 0;
        size_t at = i + 2;
        for (; at < text.size && text.data[at] >= '0' && text.data[at] <= '9'; at++) {
            number = number < IMPORT_DATABASES_MAX ? number * 10 + (size_t)(text.data[at] - '0')
                                                   : number;
        }
        if (at > i + 2 && number < IMPORT_DATABASES_MAX) {
            state->databases[number] = true;
        }
    }
}

/* Those that have keys on either side; one that had some before stays on the list. */
static bool list_databases(struct redis_import *state) {
    struct redis_link *const links[] = {&state->source, &state->destination};
    if (!state->job->is_all_databases) {
        return true;
    }
    for (size_t i = 0; i < 2; i++) {
        struct resp_reply reply;
        resp_put_texts(&links[i]->out, "INFO", "keyspace", NULL);
        if (!redis_link_send(links[i]) ||
            !redis_link_expect(links[i], &state->batch, RESP_BULK, &reply)) {
            return false;
        }
        take_keyspace(state, reply.text);
    }
    return true;
}

static uint32_t first_database(const struct redis_import *state) {
    return state->job->is_all_databases ? 0 : state->job->source.database;
}

/* Chooses the next database on both sides, from `database` on. False through `out_found`: no
 * more. */
static bool select_database(struct redis_import *state, uint32_t *database, bool *out_found) {
    struct import_job *job = state->job;
    *out_found = false;
    if (!job->is_all_databases) {
        *out_found = *database == job->source.database;
        return !*out_found ||
               (redis_link_select(&state->source, &state->batch, job->source.database) &&
                redis_link_select(&state->destination, &state->batch, job->destination.database));
    }
    while (*database < IMPORT_DATABASES_MAX && !state->databases[*database]) {
        (*database)++;
    }
    *out_found = *database < IMPORT_DATABASES_MAX;
    return !*out_found || (redis_link_select(&state->source, &state->batch, *database) &&
                           redis_link_select(&state->destination, &state->batch, *database));
}

/* ---- the life of a run ---- */

static void close_redis(void *opaque) {
    struct redis_import *state = opaque;
    redis_link_close(&state->source);
    redis_link_close(&state->destination);
    arena_clear(&state->page);
    arena_clear(&state->batch);
    free(state);
}

static void *open_redis(struct import_job *job) {
    struct redis_import *state = calloc(1, sizeof *state);
    if (state == NULL) {
        abort();
    }
    state->job = job;
    arena_init(&state->page);
    arena_init(&state->batch);
    const struct import_url *to = &job->destination;
    const char *user = to->password[0] != '\0' ? to->user : job->user.name;
    const char *password = to->password[0] != '\0' ? to->password : job->user.password;
    if (!redis_link_open(&state->source, job, &job->source, job->source.user,
                         job->source.password) ||
        !redis_link_open(&state->destination, job, to, user, password)) {
        close_redis(state);
        return NULL;
    }
    return state;
}

/* With a pattern the first page that has a key tells. */
static bool look_for_keys(struct redis_import *state, bool *out_is_empty) {
    struct scan scan = {.link = &state->destination, .cursor = "0"};
    while (!scan.is_over) {
        if (!scan_next(state, &scan)) {
            return false;
        }
        if (scan.keys.n_items > 0) {
            *out_is_empty = false;
            return true;
        }
    }
    return true;
}

static bool count_keys(struct redis_import *state, uint64_t *estimate) {
    struct resp_reply reply;
    resp_put_texts(&state->source.out, "DBSIZE", NULL);
    if (!redis_link_send(&state->source) ||
        !redis_link_expect(&state->source, &state->batch, RESP_INTEGER, &reply)) {
        return false;
    }
    *estimate += reply.integer > 0 ? (uint64_t)reply.integer : 0;
    return true;
}

static bool look(void *opaque, bool *out_is_empty, uint64_t *out_estimate) {
    struct redis_import *state = opaque;
    bool is_found;
    *out_is_empty = true;
    *out_estimate = 0;
    if (!list_databases(state)) {
        return false;
    }
    for (uint32_t database = first_database(state);; database++) {
        if (!select_database(state, &database, &is_found)) {
            return false;
        }
        if (!is_found) {
            return true;
        }
        if (!count_keys(state, out_estimate) || !look_for_keys(state, out_is_empty)) {
            return false;
        }
    }
}

/* What only the destination has is of no interest in the first round into an empty one. */
static bool run_round(void *opaque, enum import_mode mode) {
    struct redis_import *state = opaque;
    bool is_found;
    bool is_first = state->job->round <= 1 && state->job->is_destination_empty;
    state->mode = mode;
    arena_reset(&state->batch);
    if (!list_databases(state)) {
        return false;
    }
    for (uint32_t database = first_database(state);; database++) {
        if (!select_database(state, &database, &is_found)) {
            return false;
        }
        if (!is_found || state->job->is_interrupted) {
            return true;
        }
        if (!scan_source(state) || (!is_first && !scan_destination(state))) {
            return false;
        }
    }
}

static bool finish(void *opaque) {
    (void)opaque;
    return true;
}

const struct import_kind import_redis = {
    .unit = "keys",
    .open = open_redis,
    .look = look,
    .round = run_round,
    .finish = finish,
    .close = close_redis,
};
