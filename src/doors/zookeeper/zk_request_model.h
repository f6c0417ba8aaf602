/*
 * Requests of the rules, as the wire encodes them and the rules decode them. Both check every byte:
 * a request is in the log before a rule sees it.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_REQUEST_MODEL_H
#define LEASED_DOORS_ZOOKEEPER_ZK_REQUEST_MODEL_H

#include "doors/zookeeper/zk_model.h"

#include "base/arena.h"

/* --- A session begins, or another connection takes it over. --- */

struct zk_connect_request {
    int64_t session_id; /* 0: a new one */
    /* Of a new session the chosen password's; of an old one what the client has shown. */
    struct zk_session session;
};
void zk_connect_encode(struct buffer *out, const struct zk_connect_request *request);
bool zk_connect_decode(struct bytes bytes, struct zk_connect_request *out_request);
/* The answer: session id (zigzag; 0: there is no such session, or another password). */

/* --- Changes of nodes. --- */

enum zk_operation_kind {
    ZK_OPERATION_ERROR = 0, /* refused by the door already, in its place among the others */
    ZK_OPERATION_CREATE = 1,
    ZK_OPERATION_DELETE = 2,
    ZK_OPERATION_SET_DATA = 3,
    ZK_OPERATION_SET_ACL = 4,
    ZK_OPERATION_CHECK = 5
};

enum zk_create_flag {
    ZK_CREATE_EPHEMERAL = 1,
    ZK_CREATE_SEQUENCE = 2,
    ZK_CREATE_CONTAINER = 4,
    ZK_CREATE_TTL = 8,
    ZK_CREATE_STAT = 16 /* is part of the answer */
};

struct zk_operation {
    enum zk_operation_kind kind;
    uint8_t create_flags;
    bool is_null; /* the data */
    int32_t error;
    int32_t version; /* -1: any */
    int64_t ttl_ms;  /* of a container: how long it may be empty */
    struct bytes path;
    struct bytes acl; /* encoded */
    struct bytes data;
};

/* Who asks. */
struct zk_asker {
    int64_t session_id;
    uint64_t connection;
    const struct zk_id *ids;
    size_t n_ids;
};

void zk_asker_encode(struct buffer *out, const struct zk_asker *asker);
/* The ids are in arena memory, their texts in that of the reader. */
void zk_asker_decode(struct reader *reader, struct arena *arena, struct zk_asker *out_asker);

/* A change: the asker, then operations to the end. */
void zk_operation_encode(struct buffer *out, const struct zk_operation *operation);
/* Sets reader->failed when it is malformed. */
void zk_operation_decode(struct reader *reader, struct zk_operation *out_operation);

/* The answer: for each operation its error (zigzag) and its result as jute (bytes). When one has
 * failed nothing was changed: those before it have ZK_OK, those behind it
 * ZK_RUNTIME_INCONSISTENCY, and no results. A session that is not the asker's: one error alone. */

#endif
