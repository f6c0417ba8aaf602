/*
 * ZooKeeper's protocol as a client speaks it: requests are appended to a buffer, answers are read
 * from bytes that are checked one by one, for a server may be anything. No I/O.
 */
#ifndef LEASED_CLIENT_ZK_CODEC_H
#define LEASED_CLIENT_ZK_CODEC_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zk_opcode {
    ZK_OP_CREATE = 1,
    ZK_OP_DELETE = 2,
    ZK_OP_EXISTS = 3,
    ZK_OP_GET_DATA = 4,
    ZK_OP_SET_DATA = 5,
    ZK_OP_GET_ACL = 6,
    ZK_OP_SET_ACL = 7,
    ZK_OP_PING = 11,
    ZK_OP_GET_CHILDREN2 = 12,
    ZK_OP_MULTI = 14,
    ZK_OP_CREATE_CONTAINER = 19,
    ZK_OP_CREATE_TTL = 21,
    ZK_OP_AUTH = 100,
    ZK_OP_ALL_CHILDREN_NUMBER = 104,
    ZK_OP_CLOSE = -11
};

enum zk_answer_error {
    ZK_ANSWER_OK = 0,
    ZK_ANSWER_NO_NODE = -101,
    ZK_ANSWER_NO_AUTH = -102,
    ZK_ANSWER_NODE_EXISTS = -110,
    ZK_ANSWER_NOT_EMPTY = -111
};

enum {
    ZK_XID_EVENT = -1,
    ZK_XID_PING = -2,
    ZK_XID_AUTH = -4,
    ZK_FRAME_SIZE_MAX = 64 * 1024 * 1024,
    ZK_CREATE_MODE_PERSISTENT = 0,
    ZK_CREATE_MODE_EPHEMERAL = 1,
    ZK_CREATE_MODE_CONTAINER = 4,
    ZK_CREATE_MODE_TTL = 5
};

struct zk_node_stat {
    int64_t czxid;
    int32_t cversion; /* creates and deletes of children */
    int64_t ephemeral_owner;
    int32_t n_children;
};

enum zk_node_kind { ZK_KIND_PERSISTENT, ZK_KIND_CONTAINER, ZK_KIND_TTL, ZK_KIND_EPHEMERAL };

/* From ephemeral_owner, which carries the kind. */
enum zk_node_kind zk_stat_kind(const struct zk_node_stat *stat);
/* Of ZK_KIND_TTL. */
int64_t zk_stat_ttl_ms(const struct zk_node_stat *stat);
/* Children that were ever created: the number that the next sequence gets. */
int64_t zk_stat_creates(const struct zk_node_stat *stat);

/* ---- requests: a frame each ---- */

void zk_put_connect(struct buffer *out, int32_t timeout_ms);
void zk_put_auth(struct buffer *out, const char *scheme, const char *credentials);
/* No body: ping, close. */
void zk_put_plain(struct buffer *out, int32_t xid, enum zk_opcode opcode);
/* A path alone, or with "no watch" or "any version" where the opcode has that. */
void zk_put_path(struct buffer *out, int32_t xid, enum zk_opcode opcode, struct bytes path);

struct zk_new_node {
    enum zk_node_kind kind;
    int64_t ttl_ms;
    struct bytes path;
    bool is_null; /* the data */
    struct bytes data;
    struct bytes acl; /* a whole vector, as zk_get_acl() gives it */
};
void zk_put_create(struct buffer *out, int32_t xid, const struct zk_new_node *node);
void zk_put_set_data(struct buffer *out, int32_t xid, struct bytes path, struct bytes data,
                     bool is_null);
void zk_put_set_acl(struct buffer *out, int32_t xid, struct bytes path, struct bytes acl);
/* A multi that creates and deletes one node n_pairs times: the parent's next sequence number goes
 * up by that, and nothing else stays. */
void zk_put_create_delete_pairs(struct buffer *out, int32_t xid, struct bytes path, size_t n_pairs);

/* "world:anyone" with all rights, as a vector. */
struct bytes zk_acl_open(void);
/* The list with one more entry that has all rights. */
void zk_acl_with(struct buffer *out, struct bytes acl, const char *scheme, const char *id);
/* An entry is a digest whose hash the server hides ("user:x"). */
bool zk_acl_is_masked(struct bytes acl);

/* ---- answers ---- */

enum zk_frame_result { ZK_FRAME_MORE, ZK_FRAME_WHOLE, ZK_FRAME_BAD };

/* The first frame of the input; out_used is what it takes of it. */
enum zk_frame_result zk_take_frame(struct bytes input, struct bytes *out_body, size_t *out_used);

struct zk_connected {
    int32_t timeout_ms; /* 0: refused */
    int64_t session_id;
};
bool zk_get_connected(struct bytes body, struct zk_connected *out);

struct zk_answer {
    int32_t xid;
    int32_t error;
    struct bytes body;
};
bool zk_get_answer(struct bytes frame, struct zk_answer *out);

/* Of the bodies; views point into them. False: malformed. */
bool zk_get_data(struct bytes body, struct bytes *out_data, bool *out_is_null,
                 struct zk_node_stat *out_stat);
bool zk_get_stat(struct bytes body, struct zk_node_stat *out_stat);
bool zk_get_acl(struct bytes body, struct bytes *out_acl);
bool zk_get_number(struct bytes body, int32_t *out_number);

/* Children, one after another. */
struct zk_children_reader {
    struct reader reader;
    size_t left;
};
bool zk_children_begin(struct bytes body, struct zk_children_reader *out_reader);
/* False: the end, or a malformed name. A name has no slash and is not empty. */
bool zk_children_next(struct zk_children_reader *reader, struct bytes *out_name);

#endif
