/*
 * What the ZooKeeper API keeps: znodes, what children change of their parent, sessions, access
 * lists; with the numbers of the protocol that both the wire and the rules need. Encodings are
 * bounds-checked both ways. Pure.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_MODEL_H
#define LEASED_DOORS_ZOOKEEPER_ZK_MODEL_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zk_error {
    ZK_OK = 0,
    ZK_RUNTIME_INCONSISTENCY = -2,
    ZK_MARSHALLING_ERROR = -5,
    ZK_UNIMPLEMENTED = -6,
    ZK_BAD_ARGUMENTS = -8,
    ZK_NO_NODE = -101,
    ZK_NO_AUTH = -102,
    ZK_BAD_VERSION = -103,
    ZK_NO_CHILDREN_FOR_EPHEMERALS = -108,
    ZK_NODE_EXISTS = -110,
    ZK_NOT_EMPTY = -111,
    ZK_SESSION_EXPIRED = -112,
    ZK_INVALID_ACL = -114,
    ZK_AUTH_FAILED = -115,
    ZK_SESSION_MOVED = -118,
    ZK_NO_WATCHER = -121,
    ZK_RECONFIG_DISABLED = -123,
    ZK_QUOTA_EXCEEDED = -125,
    ZK_THROTTLED = -127
};

enum zk_permission {
    ZK_PERMISSION_READ = 1,
    ZK_PERMISSION_WRITE = 2,
    ZK_PERMISSION_CREATE = 4,
    ZK_PERMISSION_DELETE = 8,
    ZK_PERMISSION_ADMIN = 16,
    ZK_PERMISSION_ALL = 31
};

enum {
    ZK_STAT_SIZE = 68,
    ZK_PASSWORD_SIZE = 16,
    ZK_PASSWORD_HASH_SIZE = 32,
    ZK_ACL_MAX = 256,         /* entries of one list */
    ZK_IDENTITIES_MAX = 64,   /* of one connection */
    ZK_OPERATIONS_MAX = 2000, /* of one multi: each changes a node and its parent */
};

/* 40 bits of milliseconds. */
#define ZK_TTL_MS_MAX INT64_C(0xffffffffff)

/* --- Znodes. --- */

enum zk_node_flag {
    ZK_NODE_BUILT_IN = 1, /* of a fresh server: czxid is shown as 0, it cannot be deleted */
    ZK_NODE_CONTAINER = 2,
    ZK_NODE_TTL = 4,
    ZK_NODE_NULL_DATA = 8 /* as it was given, and so it is given back */
};

struct zk_node {
    uint8_t flags;
    int64_t czxid; /* of the record, not of its value */
    int64_t owner; /* the session of an ephemeral node; of the record as well */
    int64_t mzxid; /* the record's revision, unless only the access list was changed since */
    int64_t ctime_ms;
    int64_t mtime_ms;
    int32_t version;
    int32_t aversion;
    int64_t ttl_ms;    /* of ZK_NODE_TTL; of a container, how long it may be empty */
    int64_t ttl_lease; /* counts it; 0: its time has passed, and children keep the node */
    struct bytes acl;  /* encoded; empty: everybody may do everything */
    struct bytes data;
};
void zk_node_encode(struct buffer *out, const struct zk_node *node);
/* Of a record of a node. Views point into it. False: it is none. */
bool zk_node_decode(const struct record *record, struct zk_node *out_node);

/* What children change of their parent. All zero where there is no record. */
struct zk_children {
    int64_t creates;     /* children ever created: the next number of a sequence */
    int64_t pzxid;       /* of the last change; 0: the node's own czxid */
    int64_t sweep_lease; /* 0, or the lease whose end removes the node if it is empty */
};
void zk_children_encode(struct buffer *out, const struct zk_children *children);
bool zk_children_decode(struct bytes value, struct zk_children *out_children);

/* As jute. */
void zk_stat_write(struct buffer *out, const struct zk_node *node,
                   const struct zk_children *children, int64_t n_children);

/* --- Sessions. --- */

struct zk_session {
    int64_t timeout_ms;
    uint64_t connection; /* the number of the connection that has it: random, never used twice */
    uint64_t member_id;  /* where that is */
    uint8_t password_hash[ZK_PASSWORD_HASH_SIZE];
};
void zk_session_encode(struct buffer *out, const struct zk_session *session);
bool zk_session_decode(struct bytes value, struct zk_session *out_session);

/* --- Access lists. --- */

struct zk_id {
    struct bytes scheme;
    struct bytes id;
};
struct zk_acl_entry {
    int32_t permissions;
    struct zk_id id;
};

/* Appends one entry; a list is entries in a row. */
void zk_acl_append(struct buffer *out, const struct zk_acl_entry *entry);
/* The next entry; false: the end, or malformed (reader->failed). */
bool zk_acl_next(struct reader *reader, struct zk_acl_entry *out_entry);
/* Whether the encoded list is one. */
bool zk_acl_is_valid(struct bytes acl);
/* Whether one of the ids has one of the permissions. An id of scheme "super" has all. */
bool zk_acl_allows(struct bytes acl, int permissions, const struct zk_id *ids, size_t n_ids);
/* "10.0.0.0/8" and the like, IPv4; other addresses are compared as they are. */
bool zk_ip_is_pattern(struct bytes pattern);

#endif
