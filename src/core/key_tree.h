/*
 * The ordered index of the key store: a B+tree whose slots point to each key's newest record, live
 * or tombstone. It owns its nodes, never the records. It is copy-on-write by epoch: a change copies
 * a node only when an open view can see it, so without views everything is changed in place.
 *
 * Live keys are counted in every subtree: counting a range costs two descents, and a scan of live
 * keys steps over whole subtrees of tombstones.
 */
#ifndef LEASED_CORE_KEY_TREE_H
#define LEASED_CORE_KEY_TREE_H

#include "base/bytes.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every node off the right edge is at least a quarter full, so sixteen levels hold 2^64 keys. */
enum { KEY_TREE_HEIGHT_MAX = 16 };

struct key_tree_node;

struct key_tree {
    struct key_tree_node *root; /* NULL: empty */
    uint64_t epoch;             /* of nodes made now; starts at 1 */
    uint64_t epoch_shared;      /* nodes made up to here may be seen by a view; 0: no view */
    struct key_tree_node *retired_first; /* replaced while a view could see them, oldest first */
    struct key_tree_node *retired_last;
    size_t slots;
    size_t bytes; /* of nodes, those retired included */
};

void key_tree_init(struct key_tree *tree);
/* Releases the nodes. No view may be open. */
void key_tree_clear(struct key_tree *tree);

/* Puts a record in the slot of its key, and returns the record that had the slot, or NULL. The
 * record's key, sizes and being a tombstone or not must be final. */
struct record *key_tree_set(struct key_tree *tree, struct record *record);
/* Takes the slot of a key out. The key must have one. */
void key_tree_remove(struct key_tree *tree, struct bytes key);

/* Declares every node there is as seen by a view, and returns the epoch that names the view. */
uint64_t key_tree_share(struct key_tree *tree);
/* Some view ended. The arguments are the oldest and newest epochs of those still open, 0 for none;
 * frees the nodes that none of them can see. */
void key_tree_unshare(struct key_tree *tree, uint64_t epoch_oldest, uint64_t epoch_newest);

/* --- Reading, from a root: the tree's, or one that a view kept. --- */

/* The record in the slot of a key, or NULL. */
struct record *key_tree_find(const struct key_tree_node *root, struct bytes key);
/* Live keys, and live keys below `key`. */
size_t key_tree_live(const struct key_tree_node *root);
size_t key_tree_live_below(const struct key_tree_node *root, struct bytes key);

/* Goes through slots in key order. Any change of the tree ends its use. */
struct key_tree_cursor {
    bool live_only;
    unsigned depth; /* 0: past the end */
    struct {
        const struct key_tree_node *node;
        unsigned index;
    } path[KEY_TREE_HEIGHT_MAX];
};

/* Stands on the first slot whose key is not below `key`; with `live_only`, tombstones are left
 * out. */
void key_tree_seek(const struct key_tree_node *root, struct bytes key, bool live_only,
                   struct key_tree_cursor *out_cursor);
/* The record where the cursor stands; NULL past the end. */
struct record *key_tree_cursor_record(const struct key_tree_cursor *cursor);
void key_tree_cursor_next(struct key_tree_cursor *cursor);

/* Asserts order, fill, counts and separators; for tests. */
void key_tree_validate(const struct key_tree *tree);

#endif
