/* What is not a copy of one node: removing trees, sequences of parents, the last access lists. */
#include "cli/import_zk_internal.h"

#include "tls/tls_crypto.h"

#include <stdlib.h>

enum { MULTI_SIZE_MAX = 256 * 1024, PAIRS_MAX = 1000, PAIR_SIZE = 100 };

/* ---- removing ---- */

/* Adds the children of paths[from..to) and drops ephemeral nodes (as empty paths). */
static bool list_below(struct zk_import *state, struct zk_paths *paths, size_t from, size_t to) {
    struct zk_link *link = &state->destination;
    for (size_t i = from; i < to; i++) {
        zk_link_ask(link, ZK_OP_GET_DATA, paths->items[i]);
        zk_link_ask(link, ZK_OP_GET_CHILDREN2, paths->items[i]);
    }
    if (!zk_link_send(link)) {
        return false;
    }
    for (size_t i = from; i < to; i++) {
        struct zk_answer data;
        struct zk_answer list;
        struct zk_node_stat stat = {0};
        struct bytes value;
        bool is_null;
        struct zk_children_reader reader;
        struct bytes name;
        struct bytes path = paths->items[i];
        if (!zk_link_answer(link, &state->batch, &data) ||
            !zk_link_answer(link, &state->batch, &list)) {
            return false;
        }
        bool is_ephemeral = data.error == ZK_ANSWER_OK &&
                            zk_get_data(data.body, &value, &is_null, &stat) &&
                            zk_stat_kind(&stat) == ZK_KIND_EPHEMERAL;
        if (is_ephemeral || data.error == ZK_ANSWER_NO_NODE) {
            paths->items[i] = bytes_of(NULL, 0);
            continue;
        }
        if (list.error != ZK_ANSWER_OK || !zk_children_begin(list.body, &reader)) {
            continue;
        }
        while (zk_children_next(&reader, &name)) {
            uint8_t *child = arena_alloc(&state->batch, path.size + 1 + name.size);
            memcpy(child, path.data, path.size);
            child[path.size] = '/';
            memcpy(child + path.size + 1, name.data, name.size);
            zk_paths_add(paths, bytes_of(child, path.size + 1 + name.size));
        }
    }
    return true;
}

static bool list_tree(struct zk_import *state, struct zk_paths *paths) {
    for (size_t from = 0; from < paths->n_items;) {
        size_t to = from + ZK_BATCH_MAX < paths->n_items ? from + ZK_BATCH_MAX : paths->n_items;
        if (!list_below(state, paths, from, to)) {
            return false;
        }
        from = to;
    }
    return true;
}

static bool delete_paths(struct zk_import *state, const struct bytes *paths, size_t n_paths) {
    struct zk_link *link = &state->destination;
    for (size_t i = n_paths; i > 0; i--) {
        zk_link_ask(link, ZK_OP_DELETE, paths[i - 1]);
    }
    if (!zk_link_send(link)) {
        return false;
    }
    for (size_t i = n_paths; i > 0; i--) {
        struct zk_answer answer;
        if (!zk_link_answer(link, &state->batch, &answer)) {
            return false;
        }
        if (answer.error == ZK_ANSWER_OK) {
            state->job->counts.removed++;
        } else if (answer.error != ZK_ANSWER_NO_NODE) {
            state->job->counts.failed++;
            import_problem(state->job, paths[i - 1],
                           answer.error == ZK_ANSWER_NOT_EMPTY
                               ? "not removed at the destination: a live session has a node in it"
                               : "not removed at the destination: its access list forbids it");
        }
    }
    return true;
}

/* Children before their parents: the list has parents first. */
static bool delete_tree(struct zk_import *state, struct zk_paths *paths) {
    size_t n_kept = 0;
    for (size_t i = 0; i < paths->n_items; i++) {
        if (paths->items[i].size > 0) {
            paths->items[n_kept++] = paths->items[i];
        }
    }
    if (state->mode == IMPORT_COMPARE) {
        state->job->counts.removed += n_kept;
        return true;
    }
    while (n_kept > 0) {
        size_t n_now = n_kept < ZK_BATCH_MAX ? n_kept : ZK_BATCH_MAX;
        if (!delete_paths(state, paths->items + n_kept - n_now, n_now)) {
            return false;
        }
        n_kept -= n_now;
    }
    return true;
}

bool zk_import_remove(struct zk_import *state, struct bytes suffix) {
    struct zk_paths paths = {.items = NULL};
    zk_paths_add(&paths, zk_import_path(&state->batch, state->destination.url, suffix));
    bool is_done = list_tree(state, &paths) && delete_tree(state, &paths);
    free(paths.items);
    return is_done;
}

/* ---- sequences ---- */

static bool read_creates(struct zk_import *state, struct bytes path, int64_t *out_creates) {
    struct zk_answer answer;
    struct zk_node_stat stat;
    zk_link_ask(&state->destination, ZK_OP_EXISTS, path);
    if (!zk_link_send(&state->destination) ||
        !zk_link_answer(&state->destination, &state->batch, &answer)) {
        return false;
    }
    bool is_there = answer.error == ZK_ANSWER_OK && zk_get_stat(answer.body, &stat);
    *out_creates = is_there ? zk_stat_creates(&stat) : INT64_MAX;
    return true;
}

/* The number of the next sequential child is the count of children ever created, and nothing sets
 * it but creating. A multi that creates and deletes one name again and again counts, and writes
 * nothing but the count. */
static bool raise_creates(struct zk_import *state, struct bytes path, int64_t gap) {
    struct zk_link *link = &state->destination;
    uint8_t random[8];
    char name[32];
    tls_random(random, sizeof random);
    int size = snprintf(name, sizeof name, "%slease-import-%02x%02x%02x%02x",
                        path.size > 1 ? "/" : "", random[0], random[1], random[2], random[3]);
    uint8_t *child = arena_alloc(&state->batch, path.size + (size_t)size);
    memcpy(child, path.data, path.size);
    memcpy(child + path.size, name, (size_t)size);
    size_t child_size = path.size + (size_t)size;
    size_t n_fit = MULTI_SIZE_MAX / (2 * child_size + PAIR_SIZE) + 1;
    while (gap > 0 && import_goes_on(state->job)) {
        struct zk_answer answer;
        size_t n_pairs = n_fit < PAIRS_MAX ? n_fit : PAIRS_MAX;
        n_pairs = (int64_t)n_pairs < gap ? n_pairs : (size_t)gap;
        zk_put_create_delete_pairs(&link->out, zk_link_xid(link), bytes_of(child, child_size),
                                   n_pairs);
        if (!zk_link_send(link) || !zk_link_answer(link, &state->round_memory, &answer) ||
            !zk_link_stay(&state->source)) {
            return false;
        }
        if (answer.error != ZK_ANSWER_OK) {
            return true; /* the count tells */
        }
        gap -= (int64_t)n_pairs;
    }
    return true;
}

static bool settle_sequence(struct zk_import *state, const struct zk_sequence *sequence) {
    int64_t creates;
    if (!read_creates(state, sequence->path, &creates)) {
        return false;
    }
    int64_t gap = sequence->creates - creates;
    if (creates == INT64_MAX || gap <= 0) {
        return true;
    }
    if (gap <= ZK_SEQUENCE_GAP_MAX && (!raise_creates(state, sequence->path, gap) ||
                                       !read_creates(state, sequence->path, &creates))) {
        return false;
    }
    if (creates < sequence->creates && !state->job->is_interrupted) {
        state->job->counts.failed++;
        import_problem(state->job, sequence->path,
                       gap > ZK_SEQUENCE_GAP_MAX
                           ? "its sequence is more than 20,000,000 ahead, which is not copied"
                           : "its sequence could not be raised to that of the source");
    }
    return true;
}

bool zk_import_sequences(struct zk_import *state) {
    for (size_t i = 0; i < state->n_sequences; i++) {
        arena_reset(&state->batch);
        if (!settle_sequence(state, &state->sequences[i])) {
            return false;
        }
        if (state->job->is_interrupted) {
            break;
        }
    }
    return true;
}

/* ---- access lists ---- */

bool zk_import_acls(struct zk_import *state) {
    struct zk_link *link = &state->destination;
    bool are_set = true;
    for (size_t from = 0; from < state->n_acls;) {
        size_t to = from + ZK_BATCH_MAX < state->n_acls ? from + ZK_BATCH_MAX : state->n_acls;
        arena_reset(&state->batch);
        for (size_t i = from; i < to; i++) {
            zk_put_set_acl(&link->out, zk_link_xid(link), state->acls[i].path, state->acls[i].acl);
        }
        if (!zk_link_send(link)) {
            return false;
        }
        for (size_t i = from; i < to; i++) {
            struct zk_answer answer;
            if (!zk_link_answer(link, &state->batch, &answer)) {
                return false;
            }
            if (answer.error != ZK_ANSWER_OK && answer.error != ZK_ANSWER_NO_NODE) {
                are_set = false;
                state->job->total.failed++;
                import_problem(state->job, state->acls[i].path, "its access list was not set");
            }
        }
        from = to;
    }
    return are_set;
}
