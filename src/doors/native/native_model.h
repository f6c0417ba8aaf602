/*
 * What the native API keeps: sessions, acquisitions, pools and what has ended, as records of keys
 * (native_keys.h). All of it is keys and leases, so snapshots, watches, revisions and fencing
 * tokens come with it. Decoders trust no byte.
 *
 * An acquisition is one request for 1 to NATIVE_WANTS_MAX things, all or nothing, with one place in
 * every queue that it needs. Its id is the revision in which it was asked for; its token is the
 * revision in which it was granted, which is the create revision of the keys of its holds.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_MODEL_H
#define LEASED_DOORS_NATIVE_NATIVE_MODEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Checked by the rules; the door refuses the same before anything is proposed. */
enum {
    NATIVE_NAME_SIZE_MAX = 256, /* of resources and pools */
    NATIVE_OWNER_SIZE_MAX = 128,
    NATIVE_SLOT_SIZE_MAX = 128,
    NATIVE_NOTE_SIZE_MAX = 1024,
    NATIVE_VALUE_SIZE_MAX = 4096,
    NATIVE_REQUEST_ID_SIZE_MAX = 256,
    NATIVE_WANTS_MAX = 16,
    NATIVE_POOL_SLOTS_MAX = 1024, /* also of all pools that one acquisition wants */
    NATIVE_POOL_SHARES_MAX = 256,
    NATIVE_WEIGHT_MAX = 1000000,
    NATIVE_WAITERS_MAX = 65536,     /* of one resource */
    NATIVE_POOL_WAITERS_MAX = 4096, /* of one pool: its order is looked at as a whole */
    /* Keys of one session: three and one for each want of an acquisition, so that its end is little
     * work. */
    NATIVE_SESSION_KEYS_MAX = 4096,
    NATIVE_SESSION_DEPTH_MAX = 4, /* of sessions under sessions */
    NATIVE_TTL_MS_MIN = 250,
    NATIVE_ENDED_MAX = 4096 /* ends that are remembered */
};

/* --- Names. --- */

/* UTF-8 without NUL, 1 to `size_max` bytes. */
bool native_name_is_valid(struct bytes name, size_t size_max);
/* The same, or empty. */
bool native_text_is_valid(struct bytes text, size_t size_max);

/* --- What is wanted. --- */

enum native_mode { NATIVE_EXCLUSIVE = 0, NATIVE_SHARED = 1 };

struct native_want {
    bool is_pool;
    enum native_mode mode; /* of a resource */
    uint32_t n_slots;      /* of a pool: at least 1 */
    struct bytes name;
};

/* Checks them and puts them in their one order: resources by name, then pools by name. False: none
 * or too many, a bad name or number, a name twice, more than NATIVE_POOL_SLOTS_MAX slots. */
bool native_wants_normalize(struct native_want *wants, size_t n);
/* Their bytes. Reading sets reader->failed when they are malformed; they may still be invalid. */
void native_wants_put(struct buffer *out, const struct native_want *wants, size_t n);
size_t native_wants_get(struct reader *reader, struct native_want wants[NATIVE_WANTS_MAX]);
bool native_wants_equal(const struct native_want *a, size_t n_a, const struct native_want *b,
                        size_t n_b);

/* --- Sessions: the value of its key. --- */

/* As in leased_v1.proto. */
enum native_class {
    NATIVE_CLASS_NONE = 0,
    NATIVE_CLASS_LOCK = 1,
    NATIVE_CLASS_LEADER = 2,
    NATIVE_CLASS_SESSION = 3,
    NATIVE_CLASS_RESERVATION = 4,
    NATIVE_CLASS_CACHE = 5,
    NATIVE_CLASSES = 6,
    /* Of the leases that count hold limits: no session, never renewed, not in the wire's list. */
    NATIVE_CLASS_HOLD_LIMIT = 255
};
enum { NATIVE_STRATEGIES = 5 };

/* The usual TTL of a class. */
int64_t native_class_ttl_ms(enum native_class class);

enum native_end_reason {
    NATIVE_END_NONE = 0,
    NATIVE_END_RELEASED = 1,
    NATIVE_END_EXPIRED = 2,
    NATIVE_END_REVOKED = 3,
    NATIVE_END_PARENT = 4,
    NATIVE_END_TRANSFERRED = 5,
    NATIVE_END_HOLD_LIMIT = 6,
    NATIVE_END_SESSION_ENDED = 7,
    NATIVE_END_LEFT_QUEUE = 8,
    NATIVE_END_REASONS = 9
};

/* TTL, parent and class are facts of the lease (lease_table_find()); of an ended session they are
 * in its record. */
struct native_session {
    struct bytes owner;
    struct bytes note;
    uint8_t class;
    uint8_t strategy;
    uint64_t user_id; /* that created it; 0: nobody */
    int64_t created_wall_ms;
    int64_t ttl_ms; /* when it was created */
    int64_t parent_id;
    /* Set in the revision in which the session is ended by a request. */
    uint8_t end_reason;
    uint64_t end_user_id;
};
void native_session_encode(struct buffer *out, const struct native_session *session);
/* Texts point into the value. */
bool native_session_decode(struct bytes value, struct native_session *out_session);

/* --- Acquisitions: the value of its key. --- */

enum native_stage { NATIVE_QUEUED = 0, NATIVE_ACQUIRED = 1 };

/* A slot that an acquisition has. */
struct native_slot {
    uint32_t want; /* index of its want */
    struct bytes name;
};

struct native_acquisition {
    int64_t id;
    int64_t session_id;
    enum native_stage stage;
    int64_t token; /* 0 while it is queued */
    /* How often it was asked for with the same request id: a call that has gone gives the place
     * back only when no later call came to share it. From 1 on. */
    uint32_t call;
    size_t n_wants;
    struct native_want wants[NATIVE_WANTS_MAX]; /* normalized */
    size_t n_slots;
    struct native_slot *slots; /* by want; in arena memory */
    struct bytes value;
    struct bytes owner;
    struct bytes request_id; /* empty: the wants are the id */
    int64_t hold_limit_ms;   /* 0: none; from the grant on the least of its own and its pools' */
    int64_t hold_lease_id;   /* counts the hold limit; 0: none */
    int64_t asked_wall_ms;
    int64_t acquired_wall_ms;
};
void native_acquisition_encode(struct buffer *out, const struct native_acquisition *acquisition);
/* Texts point into the value. */
bool native_acquisition_decode(struct bytes value, struct arena *arena,
                               struct native_acquisition *out_acquisition);

/* --- Pools: the values of its keys. --- */

struct native_share {
    struct bytes owner;
    uint32_t weight; /* at least 1; of owners that are not named: 1 */
};
struct native_pool {
    size_t n_slots;
    struct bytes *slots;   /* names, in the order in which they are given out */
    struct bytes **sorted; /* the same by name; only of one that was decoded */
    int64_t hold_limit_ms;
    size_t n_shares;
    struct native_share *shares;
};
/* Sizes, names, weights, nothing twice. */
bool native_pool_is_valid(const struct native_pool *pool);
void native_pool_encode(struct buffer *out, const struct native_pool *pool);
/* Arrays are arena memory, texts point into the value. */
bool native_pool_decode(struct bytes value, struct arena *arena, struct native_pool *out_pool);
/* How many slots it has; 0 when it cannot be read. The rest is not looked at. */
size_t native_pool_read_count(struct bytes value);

/* A slot that is taken. Its token is the create revision of the key. */
struct native_taken {
    int64_t acquisition_id;
    struct bytes owner;
};
void native_taken_encode(struct buffer *out, const struct native_taken *taken);
bool native_taken_decode(struct bytes value, struct native_taken *out_taken);

/* A place in the queue of a pool. */
struct native_pool_waiter {
    uint32_t n_slots;
    bool waits_for_pool_alone; /* it is its only want */
    struct bytes owner;
};
void native_pool_waiter_encode(struct buffer *out, const struct native_pool_waiter *waiter);
bool native_pool_waiter_decode(struct bytes value, struct native_pool_waiter *out_waiter);

/* --- What has ended. --- */

struct native_ended {
    uint64_t number; /* counts ends, from 1 on; greater is later */
    uint8_t reason;
    uint64_t user_id; /* that asked for it; 0: nobody, or authentication was off */
    int64_t revision;
    int64_t wall_ms;
    int64_t session_id;
    int64_t session_ttl_ms;
    int64_t session_revision; /* in which it was created */
    struct native_session session;
    bool has_acquisition; /* false: a session that had none */
    struct native_acquisition acquisition;
};
void native_ended_encode(struct buffer *out, const struct native_ended *ended);
bool native_ended_decode(struct bytes value, struct arena *arena, struct native_ended *out_ended);
/* Whether it concerns a resource or a pool of this name. */
bool native_ended_is_about(const struct native_ended *ended, bool is_pool, struct bytes name);

#endif
