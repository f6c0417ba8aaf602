/*
 * `lease import zk://…`: both trees are walked together, parents first, in batches; what differs is
 * written. Sessions are kept on both sides.
 */
#include "cli/import_zk_internal.h"

#include "base/sha1.h"
#include "tls/tls_crypto.h"

#include <stdlib.h>

/* ---- paths ---- */

void zk_paths_add(struct zk_paths *paths, struct bytes path) {
    if (paths->n_items == paths->capacity) {
        paths->capacity = paths->capacity > 0 ? paths->capacity * 2 : 1024;
        paths->items = realloc(paths->items, paths->capacity * sizeof *paths->items);
        if (paths->items == NULL) {
            abort();
        }
    }
    paths->items[paths->n_items++] = path;
}

struct bytes zk_import_path(struct arena *arena, const struct import_url *url,
                            struct bytes suffix) {
    size_t root_size = strlen(url->path);
    if (suffix.size == 0) {
        return bytes_of(url->path, root_size);
    }
    root_size = root_size > 1 ? root_size : 0; /* "/" itself is in the suffix */
    uint8_t *path = arena_alloc(arena, root_size + suffix.size);
    memcpy(path, url->path, root_size);
    memcpy(path + root_size, suffix.data, suffix.size);
    return bytes_of(path, root_size + suffix.size);
}

/* ---- our own identity ---- */

static void put_base64(const uint8_t *bytes, size_t size, char *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= i + 2 < size ? bytes[i + 2] : 0;
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = i + 1 < size ? digits[group >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[group & 63] : '=';
    }
    *out = '\0';
}

/* A digest that nobody else knows: nodes that end with a list which `lease` has no right in are
 * still its own until all is copied. */
static bool take_identity(struct zk_import *state) {
    uint8_t random[18];
    uint8_t hash[SHA1_SIZE];
    char secret[32];
    char credentials[64];
    char text[40];
    tls_random(random, sizeof random);
    put_base64(random, sizeof random, secret);
    snprintf(credentials, sizeof credentials, "lease-import:%s", secret);
    sha1(bytes_from_text(credentials), hash);
    put_base64(hash, sizeof hash, text);
    snprintf(state->identity, sizeof state->identity, "lease-import:%s", text);
    return zk_link_auth(&state->destination, "digest", credentials);
}

/* "digest:user:password", for both sides. */
static bool show_auth(struct zk_import *state, const char *auth) {
    char scheme[32];
    const char *colon = strchr(auth, ':');
    if (colon == NULL || (size_t)(colon - auth) >= sizeof scheme) {
        return import_fail(state->job,
                           "--auth %s: SCHEME:CREDENTIALS is needed, as in "
                           "digest:user:password",
                           auth);
    }
    snprintf(scheme, sizeof scheme, "%.*s", (int)(colon - auth), auth);
    return zk_link_auth(&state->source, scheme, colon + 1) &&
           zk_link_auth(&state->destination, scheme, colon + 1);
}

static bool show_identities(struct zk_import *state) {
    struct import_job *job = state->job;
    if (job->user.name != NULL) {
        char credentials[2 * CLI_USER_SIZE_MAX];
        snprintf(credentials, sizeof credentials, "%s:%s", job->user.name, job->user.password);
        if (!zk_link_auth(&state->destination, "digest", credentials)) {
            return false;
        }
    }
    for (size_t i = 0; i < job->n_auths; i++) {
        if (!show_auth(state, job->auths[i])) {
            return false;
        }
    }
    return take_identity(state);
}

/* ---- the life of a run ---- */

static void close_zk(void *opaque) {
    struct zk_import *state = opaque;
    zk_link_close(&state->source);
    zk_link_close(&state->destination);
    arena_clear(&state->batch);
    arena_clear(&state->round_memory);
    arena_clear(&state->run_memory);
    free(state->queue.items);
    free(state->acls);
    free(state->sequences);
    free(state);
}

static void *open_zk(struct import_job *job) {
    struct zk_import *state = calloc(1, sizeof *state);
    if (state == NULL) {
        abort();
    }
    state->job = job;
    arena_init(&state->batch);
    arena_init(&state->round_memory);
    arena_init(&state->run_memory);
    if (!zk_link_open(&state->source, job, &job->source) ||
        !zk_link_open(&state->destination, job, &job->destination) || !show_identities(state)) {
        close_zk(state);
        return NULL;
    }
    return state;
}

static bool ask_one(struct zk_import *state, struct zk_link *link, enum zk_opcode opcode,
                    struct bytes path, struct zk_answer *out_answer) {
    zk_link_ask(link, opcode, path);
    return zk_link_send(link) && zk_link_answer(link, &state->batch, out_answer);
}

/* The root has one node of its own. */
static size_t n_built_in(const struct import_url *url) {
    return strcmp(url->path, "/") == 0 ? 1 : 0;
}

static bool look(void *opaque, bool *out_is_empty, uint64_t *out_estimate) {
    struct zk_import *state = opaque;
    struct import_job *job = state->job;
    struct zk_answer answer;
    struct zk_children_reader children;
    struct bytes root = bytes_from_text(job->source.path);
    int32_t number = 0;
    if (!ask_one(state, &state->source, ZK_OP_EXISTS, root, &answer)) {
        return false;
    }
    if (answer.error != ZK_ANSWER_OK) {
        return import_fail(job, "the source has no node %s (error %d)", job->source.path,
                           answer.error);
    }
    if (!ask_one(state, &state->source, ZK_OP_ALL_CHILDREN_NUMBER, root, &answer)) {
        return false;
    }
    bool is_known = answer.error == ZK_ANSWER_OK && zk_get_number(answer.body, &number);
    *out_estimate = is_known ? (uint64_t)number + 1 : 0;
    if (!ask_one(state, &state->destination, ZK_OP_GET_CHILDREN2,
                 bytes_from_text(job->destination.path), &answer)) {
        return false;
    }
    *out_is_empty = answer.error == ZK_ANSWER_NO_NODE ||
                    (answer.error == ZK_ANSWER_OK && n_built_in(&job->destination) == 1 &&
                     zk_children_begin(answer.body, &children) && children.left <= 1);
    return true;
}

/* The nodes above the root of the destination, which nobody copies. */
static bool create_above(struct zk_import *state) {
    const char *path = state->job->destination.path;
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct zk_answer answer;
        const struct zk_new_node node = {.path = bytes_of(path, (size_t)(slash - path)),
                                         .acl = zk_acl_open()};
        zk_put_create(&state->destination.out, zk_link_xid(&state->destination), &node);
        if (!zk_link_send(&state->destination) ||
            !zk_link_answer(&state->destination, &state->batch, &answer)) {
            return false;
        }
        if (answer.error != ZK_ANSWER_OK && answer.error != ZK_ANSWER_NODE_EXISTS) {
            return import_fail(state->job, "the destination refuses the node %.*s (error %d)",
                               (int)node.path.size, (const char *)node.path.data, answer.error);
        }
    }
    return true;
}

static void take_batch(struct zk_import *state, size_t *next) {
    for (state->n_items = 0; state->n_items < ZK_BATCH_MAX && *next < state->queue.n_items;
         state->n_items++) {
        state->items[state->n_items] = (struct zk_item){.suffix = state->queue.items[(*next)++]};
    }
}

static bool walk(struct zk_import *state) {
    size_t next = 0;
    while (next < state->queue.n_items && import_goes_on(state->job)) {
        arena_reset(&state->batch);
        take_batch(state, &next);
        if (!zk_import_read(state) || !zk_import_settle(state)) {
            return false;
        }
        if (state->queue.n_items > state->job->estimate) {
            state->job->estimate = state->queue.n_items;
        }
    }
    return true;
}

static bool run_round(void *opaque, enum import_mode mode) {
    struct zk_import *state = opaque;
    state->mode = mode;
    state->queue.n_items = 0;
    state->n_sequences = 0;
    arena_reset(&state->batch);
    arena_reset(&state->round_memory);
    zk_paths_add(&state->queue, bytes_of("", 0));
    if (mode == IMPORT_WRITE && !create_above(state)) {
        return false;
    }
    return walk(state) && (mode == IMPORT_COMPARE || zk_import_sequences(state));
}

static bool finish(void *opaque) {
    return zk_import_acls(opaque);
}

const struct import_kind import_zk = {
    .unit = "nodes",
    .open = open_zk,
    .look = look,
    .round = run_round,
    .finish = finish,
    .close = close_zk,
};
