/* A batch of nodes: read on both sides, compared, written where they differ. */
#include "cli/import_zk_internal.h"

#include <stdlib.h>

/* ---- reading ---- */

static int compare_names(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static bool take_children(struct zk_import *state, struct zk_side *side, struct bytes body) {
    struct zk_children_reader reader;
    if (!zk_children_begin(body, &reader)) {
        return false;
    }
    size_t n_names = reader.left;
    side->children = arena_calloc(&state->batch, n_names, sizeof *side->children);
    while (zk_children_next(&reader, &side->children[side->n_children])) {
        side->n_children++;
        if (side->n_children == n_names) {
            break;
        }
    }
    if (side->n_children > 1) {
        qsort(side->children, side->n_children, sizeof *side->children, compare_names);
    }
    return side->n_children == n_names;
}

static bool malformed(struct zk_import *state, const struct zk_link *link) {
    return import_fail(state->job, "%s sent an answer that is not of the protocol",
                       link->url->place.host);
}

/* The three answers of one node; the first error counts. */
static bool take_side(struct zk_import *state, struct zk_link *link, struct zk_side *side) {
    struct zk_answer answers[3];
    for (int i = 0; i < 3; i++) {
        if (!zk_link_answer(link, &state->batch, &answers[i])) {
            return false;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (answers[i].error != ZK_ANSWER_OK) {
            side->error = answers[i].error;
            return true;
        }
    }
    bool is_whole = zk_get_data(answers[0].body, &side->data, &side->is_null, &side->stat) &&
                    zk_get_acl(answers[1].body, &side->acl) &&
                    take_children(state, side, answers[2].body);
    return is_whole || malformed(state, link);
}

static bool ask_side(struct zk_import *state, struct zk_link *link) {
    for (size_t i = 0; i < state->n_items; i++) {
        struct bytes path = zk_import_path(&state->batch, link->url, state->items[i].suffix);
        zk_link_ask(link, ZK_OP_GET_DATA, path);
        zk_link_ask(link, ZK_OP_GET_ACL, path);
        zk_link_ask(link, ZK_OP_GET_CHILDREN2, path);
    }
    return zk_link_send(link);
}

bool zk_import_read(struct zk_import *state) {
    if (!ask_side(state, &state->source) || !ask_side(state, &state->destination)) {
        return false;
    }
    for (size_t i = 0; i < state->n_items; i++) {
        if (!take_side(state, &state->source, &state->items[i].source)) {
            return false;
        }
    }
    for (size_t i = 0; i < state->n_items; i++) {
        if (!take_side(state, &state->destination, &state->items[i].destination)) {
            return false;
        }
    }
    return true;
}

/* ---- comparing ---- */

static bool is_there(const struct zk_side *side) {
    return side->error == ZK_ANSWER_OK;
}

static bool is_ephemeral(const struct zk_side *side) {
    return is_there(side) && zk_stat_kind(&side->stat) == ZK_KIND_EPHEMERAL;
}

static bool is_same_kind(const struct zk_side *a, const struct zk_side *b) {
    return zk_stat_kind(&a->stat) == zk_stat_kind(&b->stat) &&
           (zk_stat_kind(&a->stat) != ZK_KIND_TTL ||
            zk_stat_ttl_ms(&a->stat) == zk_stat_ttl_ms(&b->stat));
}

static bool is_same_data(const struct zk_side *a, const struct zk_side *b) {
    return a->is_null == b->is_null && bytes_equal(a->data, b->data);
}

/* The list while the run lasts: with our own identity unless everybody may do everything. */
static struct bytes running_acl(struct zk_import *state, struct bytes acl) {
    struct buffer list;
    if (bytes_equal(acl, zk_acl_open())) {
        return acl;
    }
    buffer_init(&list);
    zk_acl_with(&list, acl, "digest", state->identity);
    struct bytes copy = bytes_of(arena_copy(&state->batch, list.data, list.size), list.size);
    buffer_clear(&list);
    return copy;
}

static bool is_same_acl(struct zk_import *state, const struct zk_item *item) {
    return bytes_equal(item->destination.acl, item->source.acl) ||
           bytes_equal(item->destination.acl, running_acl(state, item->source.acl));
}

/* The nodes of the server itself are not anybody's data. */
static bool is_built_in(const struct import_url *url, struct bytes suffix, struct bytes name) {
    return suffix.size == 0 && strcmp(url->path, "/") == 0 &&
           bytes_equal(name, bytes_from_text("zookeeper"));
}

static struct bytes child_suffix(struct arena *arena, struct bytes suffix, struct bytes name) {
    uint8_t *path = arena_alloc(arena, suffix.size + 1 + name.size);
    memcpy(path, suffix.data, suffix.size);
    path[suffix.size] = '/';
    memcpy(path + suffix.size + 1, name.data, name.size);
    return bytes_of(path, suffix.size + 1 + name.size);
}

static void queue_children(struct zk_import *state, const struct zk_item *item) {
    for (size_t i = 0; i < item->source.n_children; i++) {
        struct bytes name = item->source.children[i];
        if (!is_built_in(&state->job->source, item->suffix, name)) {
            zk_paths_add(&state->queue, child_suffix(&state->round_memory, item->suffix, name));
        }
    }
}

/* Children that only the destination has. */
static bool remove_others(struct zk_import *state, const struct zk_item *item) {
    const struct zk_side *source = &item->source;
    const struct zk_side *destination = &item->destination;
    size_t at = 0;
    for (size_t i = 0; i < destination->n_children; i++) {
        struct bytes name = destination->children[i];
        while (at < source->n_children && bytes_compare(source->children[at], name) < 0) {
            at++;
        }
        bool is_shared = at < source->n_children && bytes_equal(source->children[at], name);
        if (!is_shared && !is_built_in(&state->job->destination, item->suffix, name) &&
            !zk_import_remove(state, child_suffix(&state->batch, item->suffix, name))) {
            return false;
        }
    }
    return true;
}

/* ---- writing ---- */

static void keep_acl(struct zk_import *state, struct bytes path, struct bytes acl) {
    if (bytes_equal(acl, zk_acl_open())) {
        return;
    }
    if (state->n_acls == state->acls_capacity) {
        state->acls_capacity = state->acls_capacity > 0 ? state->acls_capacity * 2 : 256;
        state->acls = realloc(state->acls, state->acls_capacity * sizeof *state->acls);
        if (state->acls == NULL) {
            abort();
        }
    }
    state->acls[state->n_acls++] = (struct zk_final_acl){
        .path = bytes_of(arena_copy(&state->run_memory, path.data, path.size), path.size),
        .acl = bytes_of(arena_copy(&state->run_memory, acl.data, acl.size), acl.size),
    };
}

static void keep_sequence(struct zk_import *state, struct bytes path, int64_t creates) {
    if (state->n_sequences == state->sequences_capacity) {
        state->sequences_capacity =
            state->sequences_capacity > 0 ? state->sequences_capacity * 2 : 256;
        state->sequences =
            realloc(state->sequences, state->sequences_capacity * sizeof *state->sequences);
        if (state->sequences == NULL) {
            abort();
        }
    }
    state->sequences[state->n_sequences++] = (struct zk_sequence){
        .path = bytes_of(arena_copy(&state->round_memory, path.data, path.size), path.size),
        .creates = creates,
    };
}

enum { WRITES_MAX = 2 * ZK_BATCH_MAX };

/* Requests on their way, by the node that each is of. */
struct writes {
    struct zk_item *items[WRITES_MAX];
    size_t n_items;
};

static void put_node(struct zk_import *state, struct zk_item *item, struct writes *writes) {
    struct zk_link *link = &state->destination;
    const struct zk_side *source = &item->source;
    struct bytes path = zk_import_path(&state->batch, link->url, item->suffix);
    if (!is_there(&item->destination)) {
        const struct zk_new_node node = {.kind = zk_stat_kind(&source->stat),
                                         .ttl_ms = zk_stat_ttl_ms(&source->stat),
                                         .path = path,
                                         .is_null = source->is_null,
                                         .data = source->data,
                                         .acl = running_acl(state, source->acl)};
        item->is_new = true;
        zk_put_create(&link->out, zk_link_xid(link), &node);
        writes->items[writes->n_items++] = item;
        keep_acl(state, path, source->acl);
        return;
    }
    if (!is_same_data(source, &item->destination)) {
        zk_put_set_data(&link->out, zk_link_xid(link), path, source->data, source->is_null);
        writes->items[writes->n_items++] = item;
    }
    if (!is_same_acl(state, item)) {
        zk_put_set_acl(&link->out, zk_link_xid(link), path, running_acl(state, source->acl));
        writes->items[writes->n_items++] = item;
        keep_acl(state, path, source->acl);
    }
}

static const char *error_text(int32_t error, char *room, size_t size) {
    if (error == ZK_ANSWER_NO_AUTH) {
        return "its access list does not allow that; show an identity with --auth";
    }
    snprintf(room, size, "error %d of the ZooKeeper protocol", error);
    return room;
}

static void item_failed(struct zk_import *state, struct zk_item *item, const char *side,
                        const char *what) {
    char text[IMPORT_PROBLEM_SIZE_MAX];
    snprintf(text, sizeof text, "%s: %s", side, what);
    if (!item->has_failed) {
        item->has_failed = true;
        state->job->counts.failed++;
        import_problem(state->job, zk_import_path(&state->batch, &state->job->source, item->suffix),
                       text);
    }
}

static bool take_writes(struct zk_import *state, const struct writes *writes) {
    char room[64];
    for (size_t i = 0; i < writes->n_items; i++) {
        struct zk_answer answer;
        struct zk_item *item = writes->items[i];
        if (!zk_link_answer(&state->destination, &state->batch, &answer)) {
            return false;
        }
        if (answer.error == ZK_ANSWER_OK) {
            item->is_changed = true;
        } else {
            item_failed(state, item, "destination", error_text(answer.error, room, sizeof room));
        }
    }
    return true;
}

/* ---- a node ---- */

/* Is gone at the source, or there for a session alone: then it goes at the destination as well,
 * where a session of the destination may have its own. */
static bool settle_absent(struct zk_import *state, struct zk_item *item) {
    state->job->counts.ephemeral += is_ephemeral(&item->source);
    return !is_there(&item->destination) || is_ephemeral(&item->destination) ||
           item->suffix.size == 0 || zk_import_remove(state, item->suffix);
}

static void settle_unreadable(struct zk_import *state, struct zk_item *item) {
    char room[64];
    if (state->job->skips_unsupported) {
        state->job->counts.unsupported++;
        return;
    }
    item_failed(state, item, "source",
                item->source.error != ZK_ANSWER_OK
                    ? error_text(item->source.error, room, sizeof room)
                    : "its access list is hidden; show an identity with ADMIN with --auth");
}

static bool settle_present(struct zk_import *state, struct zk_item *item, bool *out_writes) {
    struct zk_side *destination = &item->destination;
    char room[64];
    state->job->counts.seen++;
    if (destination->error != ZK_ANSWER_OK && destination->error != ZK_ANSWER_NO_NODE) {
        item_failed(state, item, "destination", error_text(destination->error, room, sizeof room));
        return true;
    }
    if (is_there(destination) && !is_same_kind(&item->source, destination)) {
        if (is_ephemeral(destination)) {
            item_failed(state, item, "destination", "a live session has an ephemeral node there");
            return true;
        }
        if (!zk_import_remove(state, item->suffix)) {
            return false;
        }
        destination->error = ZK_ANSWER_NO_NODE;
        destination->n_children = 0;
    }
    *out_writes = !is_there(destination) || !is_same_data(&item->source, destination) ||
                  !is_same_acl(state, item);
    queue_children(state, item);
    return remove_others(state, item);
}

/* A parent whose sequence is behind. */
static void settle_sequence(struct zk_import *state, struct zk_item *item) {
    int64_t creates = zk_stat_creates(&item->source.stat);
    int64_t there = is_there(&item->destination) ? zk_stat_creates(&item->destination.stat) : 0;
    if (state->mode == IMPORT_WRITE && creates > there) {
        keep_sequence(state, zk_import_path(&state->batch, &state->job->destination, item->suffix),
                      creates);
    }
}

static void count_item(struct zk_import *state, const struct zk_item *item, bool writes) {
    struct import_counts *counts = &state->job->counts;
    bool is_written = state->mode == IMPORT_COMPARE ? writes : item->is_changed;
    bool is_new = state->mode == IMPORT_COMPARE ? !is_there(&item->destination) : item->is_new;
    if (item->has_failed) {
        return;
    }
    if (!is_written) {
        counts->equal++;
        return;
    }
    counts->copied += is_new;
    counts->replaced += !is_new;
    counts->bytes += item->source.data.size;
}

/* What is known without writing. `out_is_copied`: it is a node to be copied. */
static bool settle_item(struct zk_import *state, struct zk_item *item, bool *out_is_copied,
                        bool *out_writes) {
    if (item->source.error == ZK_ANSWER_NO_NODE || is_ephemeral(&item->source)) {
        return settle_absent(state, item);
    }
    if (!is_there(&item->source) || zk_acl_is_masked(item->source.acl)) {
        settle_unreadable(state, item);
        return true;
    }
    *out_is_copied = true;
    return settle_present(state, item, out_writes);
}

bool zk_import_settle(struct zk_import *state) {
    struct writes writes = {.n_items = 0};
    bool is_copied[ZK_BATCH_MAX] = {false};
    bool is_written[ZK_BATCH_MAX] = {false};
    for (size_t i = 0; i < state->n_items; i++) {
        if (!settle_item(state, &state->items[i], &is_copied[i], &is_written[i])) {
            return false;
        }
    }
    /* Only now, since removing has asked and waited for its own answers. */
    for (size_t i = 0; i < state->n_items; i++) {
        if (is_copied[i] && !state->items[i].has_failed) {
            settle_sequence(state, &state->items[i]);
        }
        if (is_written[i] && state->mode == IMPORT_WRITE) {
            put_node(state, &state->items[i], &writes);
        }
    }
    if (!zk_link_send(&state->destination) || !take_writes(state, &writes)) {
        return false;
    }
    for (size_t i = 0; i < state->n_items; i++) {
        if (is_copied[i]) {
            count_item(state, &state->items[i], is_written[i]);
        }
    }
    return zk_link_stay(&state->source);
}
