/*
 * Keys of KEY_SPACE_ZOOKEEPER, and the paths in them.
 *
 *     n DEPTH PATH   a znode (struct zk_node). DEPTH is how many names the path has, two bytes,
 *                    highest first: the children of a node are one range, whose keys are counted
 *                    without being looked at. The key of an ephemeral node is attached to its
 *                    session's lease; its create revision is czxid, the fencing token.
 *     c DEPTH PATH   what children change of their parent (struct zk_children)
 *     s SESSION      a session (struct zk_session), attached to its lease, whose id is the
 * session's
 *
 * A right to a path, while leased's authentication is on, is the right to the key PATH, which
 * nobody writes: see core/auth_names.h.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_KEYS_H
#define LEASED_DOORS_ZOOKEEPER_ZK_KEYS_H

#include "base/arena.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZK_KEY_NODE = 'n',
    ZK_KEY_CHILDREN = 'c',
    ZK_KEY_SESSION = 's',
    ZK_KEY_PREFIX = 3,        /* before the path */
    ZK_PATH_SIZE_MAX = 65535, /* and so fewer names than two bytes can count */
    ZK_SEQUENCE_SIZE = 11,    /* "%010d" of any int */
    ZK_SESSION_KEY_SIZE = 9
};

/* ZooKeeper's rules for a path: begins with a slash and does not end with one, no empty, "." or
 * ".." name, no control characters, nothing that is not a character. `is_sequence`: digits will
 * follow, so it may end with a slash. */
bool zk_path_is_valid(struct bytes path, bool is_sequence);
/* "/" for "/a"; of "/" itself it is empty. */
struct bytes zk_path_parent(struct bytes path);
/* The part behind the last slash. */
struct bytes zk_path_name(struct bytes path);
bool zk_path_is_root(struct bytes path);
/* Whether `path` is `ancestor` or below it. */
bool zk_path_is_within(struct bytes path, struct bytes ancestor);
/* Path and "%010d" of the number, in arena memory. */
struct bytes zk_path_add_sequence(struct arena *arena, struct bytes path, int32_t number);

/* Keys are built in memory of the arena. */
struct bytes zk_key_node(struct arena *arena, struct bytes path);
struct bytes zk_key_children(struct arena *arena, struct bytes path);
/* The range of the keys of a node's children: [begin, end). */
void zk_key_children_range(struct arena *arena, struct bytes path, struct bytes *out_begin,
                           struct bytes *out_end);
struct bytes zk_key_session(uint8_t memory[ZK_SESSION_KEY_SIZE], int64_t session_id);

/* The path of a key of a node or its children; false: it is another key. */
bool zk_key_path(struct bytes key, uint8_t kind, struct bytes *out_path);
bool zk_key_session_id(struct bytes key, int64_t *out_id);

#endif
