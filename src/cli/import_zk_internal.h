/* What the files of `lease import zk://…` share: one walk through two trees at once. */
#ifndef LEASED_CLI_IMPORT_ZK_INTERNAL_H
#define LEASED_CLI_IMPORT_ZK_INTERNAL_H

#include "cli/import.h"
#include "cli/zk_link.h"

enum {
    ZK_BATCH_MAX = 128,
    ZK_IDENTITY_SIZE_MAX = 128,
    /* Longer ways for a sequence are refused: about 1,000 numbers go in one change. */
    ZK_SEQUENCE_GAP_MAX = 20 * 1000 * 1000
};

/* One node on one side. */
struct zk_side {
    int32_t error;
    bool is_null;
    struct zk_node_stat stat;
    struct bytes data;
    struct bytes acl;
    struct bytes *children; /* sorted */
    size_t n_children;
};

/* A node by its path below the two roots: "" or "/a/b". */
struct zk_item {
    struct bytes suffix;
    struct zk_side source;
    struct zk_side destination;
    bool is_changed; /* something was written */
    bool is_new;     /* it was created */
    bool has_failed;
};

struct zk_paths {
    struct bytes *items;
    size_t n_items;
    size_t capacity;
};

/* A list that the node has in the end; until then `lease` may change it too. */
struct zk_final_acl {
    struct bytes path;
    struct bytes acl;
};

struct zk_sequence {
    struct bytes path;
    int64_t creates;
};

struct zk_import {
    struct import_job *job;
    struct zk_link source;
    struct zk_link destination;
    enum import_mode mode;
    char identity[ZK_IDENTITY_SIZE_MAX]; /* our own for this run, as access lists name it */
    struct arena batch;
    struct arena round_memory;
    struct arena run_memory;
    struct zk_paths queue; /* suffixes to look at, parents before children */
    struct zk_item items[ZK_BATCH_MAX];
    size_t n_items;
    struct zk_final_acl *acls;
    size_t n_acls;
    size_t acls_capacity;
    struct zk_sequence *sequences;
    size_t n_sequences;
    size_t sequences_capacity;
};

void zk_paths_add(struct zk_paths *paths, struct bytes path);

/* Root and suffix as one path, in the arena. */
struct bytes zk_import_path(struct arena *arena, const struct import_url *url, struct bytes suffix);

/* ---- import_zk_nodes.c ---- */

/* Reads state->items on both sides. */
bool zk_import_read(struct zk_import *state);
/* Compares them, writes what differs, and adds their children to the queue. */
bool zk_import_settle(struct zk_import *state);

/* ---- import_zk_ends.c: what comes after a round, or after the last ---- */

/* Deletes a node of the destination with all below it, but for ephemeral ones; in mode
 * IMPORT_COMPARE it only counts. */
bool zk_import_remove(struct zk_import *state, struct bytes suffix);
/* Parents' sequences go on where they are at the source. */
bool zk_import_sequences(struct zk_import *state);
/* Access lists as they are at the source. */
bool zk_import_acls(struct zk_import *state);

#endif
