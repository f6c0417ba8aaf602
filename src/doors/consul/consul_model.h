/*
 * What the Consul API keeps of keys and sessions: values and their codec, pure.
 *
 * A key has two records. The value's is written when value or flags change; the lock's when
 * somebody acquires or releases it. So a session's end rewrites no values, however large, and the
 * later of both revisions is Consul's ModifyIndex.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_MODEL_H
#define LEASED_DOORS_CONSUL_CONSUL_MODEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONSUL_KEY_SIZE_MAX = 8192,
    CONSUL_VALUE_SIZE_MAX = 512 * 1024,
    CONSUL_UUID_SIZE = 36,
    CONSUL_TEXT_SIZE_MAX = 4096, /* of a session's name or node */
    CONSUL_SESSION_CHECKS_MAX = 64,
    /* So that the end of a session is one revision within the bounds of rule.h. */
    CONSUL_SESSION_LOCKS_MAX = 2000,
    CONSUL_LOCK_KEY_SIZE_MAX = 1024,
    CONSUL_TXN_OPS_MAX = 128
};

#define CONSUL_TTL_MS_MIN INT64_C(1000)
#define CONSUL_TTL_MS_MAX (INT64_C(24) * 3600 * 1000)
enum { CONSUL_TTL_MULTIPLIER_MAX = 10 };
#define CONSUL_LOCK_DELAY_MS_DEFAULT (INT64_C(15) * 1000)
#define CONSUL_LOCK_DELAY_MS_MAX (INT64_C(60) * 1000)

/* Eight, four, four, four and twelve hexadecimal digits. */
bool consul_uuid_is_valid(struct bytes text);
/* Not empty, no NUL, not too long. */
bool consul_key_is_valid(struct bytes key);

/* The record of a value. */
struct consul_value {
    uint64_t flags;
    struct bytes value;
};
void consul_value_encode(struct buffer *out, const struct consul_value *value);
bool consul_value_decode(struct bytes bytes, struct consul_value *out_value);

/* The record of a lock. A key that was never locked has none. */
struct consul_lock {
    uint64_t lock_index;
    struct bytes session;   /* who holds it; empty: nobody */
    int64_t lease_id;       /* of that session */
    bool deletes;           /* the key goes with the session */
    int64_t delay_lease_id; /* while this lease exists, the lock-delay lasts; 0: none */
    struct bytes previous;  /* the session whose end began the lock-delay */
};
void consul_lock_encode(struct buffer *out, const struct consul_lock *lock);
bool consul_lock_decode(struct bytes bytes, struct consul_lock *out_lock);

/* A key as clients see it. */
struct consul_entry {
    struct bytes key;
    struct consul_value value;
    struct consul_lock lock;
    int64_t create_index;
    int64_t modify_index;
};

struct consul_session {
    struct bytes id; /* of its key, as the next two of its record */
    int64_t lease_id;
    int64_t create_index;
    struct bytes name;
    struct bytes node;
    bool deletes;
    int64_t ttl_ms;      /* 0: without end */
    int64_t lifetime_ms; /* without a renewal; not kept: see consul_session_create_encode() */
    int64_t lock_delay_ms;
    size_t n_node_checks;
    const struct bytes *node_checks;
    size_t n_service_checks;
    const struct bytes *service_checks; /* struct consul_check_name, encoded */
    uint64_t user_id;                   /* who created it; 0: nobody, and anybody may use it */
};
void consul_session_encode(struct buffer *out, const struct consul_session *session);
/* The arrays are arena memory. */
bool consul_session_decode(struct bytes bytes, struct arena *arena,
                           struct consul_session *out_session);
/* A check that a session is bound to: which one of which instance. */
struct consul_check_name {
    struct bytes service;
    struct bytes id;
    struct bytes check;
};
void consul_check_name_encode(struct buffer *out, const struct consul_check_name *name);
bool consul_check_name_decode(struct bytes bytes, struct consul_check_name *out_name);

bool consul_session_is_valid(const struct consul_session *session);

#endif
