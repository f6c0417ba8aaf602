/*
 * liblease: leases, locks, elections, pools and fences of a leased server or cluster, and of etcd
 * as far as etcd can do them.
 *
 *     struct lease_connection *connection;
 *     struct lease_session *session;
 *     struct lease_hold *hold;
 *     lease_open(NULL, &connection);
 *     lease_session_create(connection, NULL, &session);
 *     if (lease_lock(session, "backup", LEASE_WAIT_FOREVER, &hold) == LEASE_OK) {
 *         while (lease_valid_for_ms(session) > 1000 && work_is_left()) {
 *             write_block(lease_hold_token(hold));
 *         }
 *         lease_release(hold);
 *         lease_hold_destroy(hold);
 *     }
 *     lease_session_end(session);
 *     lease_session_destroy(session);
 *     lease_close(connection);
 *
 * Time. A session is valid for as long as lease_valid_for_ms() is above zero. It is counted from
 * the moment in which the last successful renewal was sent, on CLOCK_BOOTTIME, less a tenth of the
 * TTL for clocks that run at different rates. The server counts from when it answers. So the holder
 * always knows before the server lets the next one in, also after it was stopped or its machine
 * slept.
 *
 * Threads. Every function may be called from any thread, on different objects or on the same one;
 * an object must not be used by anybody any more when it is destroyed. A function that says that it
 * waits must not be called from a callback (LEASE_INVALID); the others may. Callbacks are called
 * one at a time and without locks held: by a thread of the library, or, with `foreign_loop`, by
 * lease_process() and by functions that wait. That thread also renews the sessions of the
 * connection: a callback that runs longer than half of a TTL can lose them. So it should only take
 * a note of what it was told, or wake another thread. The same is true of the time between two
 * lease_process().
 *
 * Processes. A connection and all that came of it belong to the process that opened it. In a child
 * of fork() its functions give LEASE_INVALID, nothing is valid, and callbacks do not come.
 * Destroying and closing send nothing and wait for nothing there, so the parent keeps what it has;
 * lease_close() closes the child's descriptors, and the copied memory stays until the child ends or
 * calls exec(). The child opens a connection of its own.
 *
 * Texts are UTF-8 and end with NUL; the library copies what it is given. Names of resources and
 * pools have 1 to 256 bytes, owners and slots 1 to 128. Outputs are written only on LEASE_OK. Every
 * structure that a caller fills begins with its size, so that later releases can add fields: begin
 * with its INIT macro.
 */
#ifndef LEASE_H
#define LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LEASE_API __attribute__((visibility("default")))
#else
#define LEASE_API
#endif

#define LEASE_VERSION_MAJOR 0
#define LEASE_VERSION_MINOR 3
#define LEASE_VERSION_PATCH 0

/* "0.3.0": of the library that is in use, which may be newer than this header. */
LEASE_API const char *lease_version(void);

/* What a structure that a caller fills begins with. */
#ifdef __cplusplus
#define LEASE_INIT(type)                                                                           \
    { sizeof(type) }
#else
#define LEASE_INIT(type)                                                                           \
    { .size = sizeof(type) }
#endif

/* ---- what came of a call ---- */

#define LEASE_STATUS_LIST(X)                                                                       \
    X(OK, 0, "ok")                                                                                 \
    X(INVALID, 1, "invalid argument, or a call that waits from a callback")                        \
    X(UNAVAILABLE, 2, "no server can be reached, or none has a quorum")                            \
    X(TIMEOUT, 3, "not done in time")                                                              \
    X(BUSY, 4, "held by somebody else")                                                            \
    X(CANCELED, 5, "canceled")                                                                     \
    X(LOST, 6, "the session has ended or is not valid any more")                                   \
    X(NOT_FOUND, 7, "not found")                                                                   \
    X(EXISTS, 8, "exists already")                                                                 \
    X(DENIED, 9, "not authenticated, or no permission")                                            \
    X(REFUSED, 10, "refused in this state")                                                        \
    X(QUEUE_FULL, 11, "too many wait, or a limit of the server is reached")                        \
    X(STALE, 12, "the token is older than one that was seen")                                      \
    X(UNSUPPORTED, 13, "this server cannot do that")                                               \
    X(PROTOCOL, 14, "the server sent something malformed, or failed")

enum lease_status {
#define LEASE_STATUS_ENUM(name, number, text) LEASE_##name = number,
    LEASE_STATUS_LIST(LEASE_STATUS_ENUM)
#undef LEASE_STATUS_ENUM
        LEASE_STATUS_COUNT
};

/* The text of a status. Never NULL. */
LEASE_API const char *lease_status_text(enum lease_status status);

/* A sentence about the last call of this thread that did not give LEASE_OK: what happened, why, and
 * what to do. "" before the first. Valid until the thread's next such call. */
LEASE_API const char *lease_error(void);

/* ---- connections ---- */

/* A connection to one cluster, over whichever of its endpoints answers. Connects when it is first
 * needed, and again when it was lost, to the next endpoint in turn. */
struct lease_connection;

enum lease_protocol {
    LEASE_PROTOCOL_ANY = 0,    /* leased's own, or etcd's when the server does not know it */
    LEASE_PROTOCOL_NATIVE = 1, /* leased.v1 */
    LEASE_PROTOCOL_ETCD = 2    /* leases, keys and transactions of etcd's API */
};

struct lease_options {
    size_t size;
    /* As etcd's tools write them, with commas: "host", "host:port", "http://…", "https://…",
     * "unix:///path", "unixs:///path". NULL: the environment's LEASE_ENDPOINTS, else
     * 127.0.0.1:2379. At most 16. */
    const char *endpoints;
    /* TLS: PEM files. Any of them makes endpoints without a scheme speak TLS. Without ca_file the
     * system's authorities are trusted. */
    const char *ca_file;
    const char *cert_file;
    const char *key_file;
    /* The server's certificate is not verified: anybody may be on the other side. */
    bool insecure_skip_verify;
    /* A user of the server with a password, or a token that it or an issuer gave. */
    const char *user;
    const char *password;
    const char *token;
    uint32_t connect_timeout_ms; /* one attempt at one endpoint; 0: 2,000 */
    uint32_t request_timeout_ms; /* one request with all its attempts; 0: 5,000 */
    enum lease_protocol protocol;
    /* The library starts no thread; the caller's loop drives it. */
    bool foreign_loop;
    /* Who its sessions belong to, for people. NULL: "host:pid". */
    const char *owner;
};
#define LEASE_OPTIONS_INIT LEASE_INIT(struct lease_options)

/* NULL: all defaults. LEASE_INVALID: an endpoint or a file, lease_error() says which. Does not
 * connect yet and does not wait. */
LEASE_API enum lease_status lease_open(const struct lease_options *options,
                                       struct lease_connection **out_connection);
/* Every session, hold, wait and watch of it must have been destroyed. Sessions that were not ended
 * run out on the server. Accepts NULL. From a callback of the library's thread it takes effect when
 * that callback has returned; with `foreign_loop` it must not be called from one. */
LEASE_API void lease_close(struct lease_connection *connection);

/* Waits until a server answers: to find wrong endpoints, files or passwords early. */
LEASE_API enum lease_status lease_connect(struct lease_connection *connection);

/* LEASE_PROTOCOL_ANY: not known yet. */
LEASE_API enum lease_protocol lease_protocol_used(struct lease_connection *connection);

/* For a foreign loop: wait until the descriptor (an epoll) is readable, then call lease_process().
 * Timers make it readable as well. */
LEASE_API int lease_fd(struct lease_connection *connection);
/* When lease_process() wants to be called at the latest; -1: only when the descriptor is readable.
 */
LEASE_API int lease_timeout_ms(struct lease_connection *connection);
/* Does what can be done without waiting, and calls callbacks. */
LEASE_API void lease_process(struct lease_connection *connection);

/* ---- sessions ---- */

/* A lease on the server with an owner, and its keeper here. What it acquires ends with it. */
struct lease_session;

/* What it is for: gives the usual TTL and strategy. */
enum lease_class {
    LEASE_CLASS_NONE = 0,        /* as LOCK */
    LEASE_CLASS_LOCK = 1,        /* 15 s, at half */
    LEASE_CLASS_LEADER = 2,      /* 10 s, continuous */
    LEASE_CLASS_SESSION = 3,     /* 15 min, on activity */
    LEASE_CLASS_RESERVATION = 4, /* 1 h, explicit */
    LEASE_CLASS_CACHE = 5        /* 5 min, never */
};

/* When it is renewed. */
enum lease_strategy {
    LEASE_STRATEGY_DEFAULT = 0,    /* of its class */
    LEASE_STRATEGY_HALF = 1,       /* when half of the TTL has passed */
    LEASE_STRATEGY_CONTINUOUS = 2, /* whenever an eighth of it has */
    LEASE_STRATEGY_ACTIVITY = 3,   /* at half, if lease_session_touch() was called since */
    LEASE_STRATEGY_EXPLICIT = 4,   /* by lease_session_renew() alone */
    LEASE_STRATEGY_NEVER = 5       /* it runs out */
};

enum lease_session_state {
    LEASE_SESSION_VALID = 0,
    LEASE_SESSION_JEOPARDY = 1, /* the last renewal failed or is late; still valid */
    LEASE_SESSION_LOST = 2,     /* not valid any more; for good */
    LEASE_SESSION_ENDED = 3     /* by lease_session_end() */
};

enum lease_event {
    LEASE_EVENT_JEOPARDY = 1, /* begin to stop, or hope for RESTORED */
    LEASE_EVENT_RESTORED = 2, /* after JEOPARDY: a renewal succeeded */
    LEASE_EVENT_LOST = 3      /* once, and the last one: all that it had is not yours any more */
};

/* `reason` is a sentence, valid during the call. */
typedef void lease_event_callback(struct lease_session *session, enum lease_event event,
                                  const char *reason, void *context);

struct lease_session_options {
    size_t size;
    enum lease_class purpose;
    int64_t ttl_ms; /* 0: the usual one of its class. etcd knows whole seconds: rounded up */
    enum lease_strategy strategy;
    const char *owner; /* NULL: the connection's */
    const char *note;  /* for people: a command line */
    int64_t parent_id; /* the session whose end ends this one; 0: none */
    lease_event_callback *on_event;
    void *context;
};
#define LEASE_SESSION_OPTIONS_INIT LEASE_INIT(struct lease_session_options)

/* NULL: all defaults. Waits for the server's answer. */
LEASE_API enum lease_status lease_session_create(struct lease_connection *connection,
                                                 const struct lease_session_options *options,
                                                 struct lease_session **out_session);
/* The same without waiting: `done` is called once, with NULL unless the status is LEASE_OK.
 * `reason` is a sentence, valid during the call. */
typedef void lease_session_created(struct lease_session *session, enum lease_status status,
                                   const char *reason, void *context);
LEASE_API enum lease_status lease_session_create_start(struct lease_connection *connection,
                                                       const struct lease_session_options *options,
                                                       lease_session_created *done, void *context);

/* How long it is certainly still valid; 0 or less: it is not, and will not be again. Never longer
 * than the server lets it live. Costs no system call but the clock. In a child of fork() 0. */
LEASE_API int64_t lease_valid_for_ms(const struct lease_session *session);
/* The same as a moment of CLOCK_BOOTTIME in milliseconds. */
LEASE_API uint64_t lease_valid_until_ms(const struct lease_session *session);
LEASE_API int64_t lease_session_id(const struct lease_session *session);
LEASE_API int64_t lease_session_ttl_ms(const struct lease_session *session);
LEASE_API enum lease_session_state lease_session_state(const struct lease_session *session);

/* There was activity. Never waits. */
LEASE_API void lease_session_touch(struct lease_session *session);
/* Renews now and waits for the answer. LEASE_LOST: it has ended. */
LEASE_API enum lease_status lease_session_renew(struct lease_session *session);
/* Another TTL, counted anew. Waits. etcd: LEASE_UNSUPPORTED. */
LEASE_API enum lease_status lease_session_change(struct lease_session *session, int64_t ttl_ms);
/* Gives back all that it has, at once. Waits. From the call on it is not valid, whatever the
 * result; when the server was not reached it runs out there. No callback is called for it any more.
 */
LEASE_API enum lease_status lease_session_end(struct lease_session *session);
/* The same without waiting for the answer. */
LEASE_API void lease_session_end_start(struct lease_session *session);
/* Releases the memory; not renewed any more. No callback is called after it returns, unless it is
 * called from that callback. Accepts NULL. */
LEASE_API void lease_session_destroy(struct lease_session *session);

/* Sessions of others, by id. All of them wait. `out_ttl_ms` may be NULL. */
LEASE_API enum lease_status lease_renew_id(struct lease_connection *connection, int64_t session_id,
                                           int64_t *out_ttl_ms);
LEASE_API enum lease_status lease_end_id(struct lease_connection *connection, int64_t session_id);

/* ---- acquiring ---- */

enum lease_mode { LEASE_EXCLUSIVE = 0, LEASE_SHARED = 1 };

/* A resource by name, or some slots of a pool. */
struct lease_want {
    const char *resource; /* NULL: a pool */
    enum lease_mode mode;
    const char *pool;
    uint32_t slots; /* 0: 1 */
};

enum { LEASE_WANTS_MAX = 16 };
#define LEASE_NO_WAIT INT64_C(0)
#define LEASE_WAIT_FOREVER INT64_C(-1)

enum lease_stage { LEASE_STAGE_QUEUED = 0, LEASE_STAGE_ACQUIRED = 1 };

struct lease_slot {
    const char *pool;
    const char *slot;
};

/* What somebody has or waits for. */
struct lease_acquisition {
    int64_t id; /* of its place in the queue */
    int64_t session_id;
    enum lease_stage stage;
    int64_t token; /* 0: queued */
    const struct lease_want *wants;
    size_t n_wants;
    const struct lease_slot *slots;
    size_t n_slots;
    const char *value;
    const char *owner;
    int64_t hold_limit_ms; /* 0: none */
    int64_t asked_wall_ms; /* since 1970; 0: not known */
    int64_t acquired_wall_ms;
    const char *request_id;
};

/* Where a wait stands. Valid during the call. */
struct lease_progress {
    uint32_t position;                       /* 1: next; 0: not known */
    const struct lease_acquisition *holders; /* some of those who have it now */
    size_t n_holders;
    int64_t holder_remaining_ms; /* of the first one's session; -1: not known */
};
typedef void lease_progress_callback(const struct lease_progress *progress, void *context);

struct lease_acquire_options {
    size_t size;
    const struct lease_want *wants; /* 1 to LEASE_WANTS_MAX: all of them, or none */
    size_t n_wants;
    int64_t wait_ms;       /* LEASE_NO_WAIT, LEASE_WAIT_FOREVER, or a limit */
    const char *value;     /* for observers: a leader's address */
    int64_t hold_limit_ms; /* given back after so long, whatever is renewed; 0: no limit */
    uint32_t queue_limit;  /* LEASE_QUEUE_FULL when more wait before; 0: no limit */
    lease_progress_callback *on_progress; /* NULL, or called when the place is known, and again */
    void *context;
};
#define LEASE_ACQUIRE_OPTIONS_INIT LEASE_INIT(struct lease_acquire_options)

/* Something acquired. */
struct lease_hold;
/* An acquisition under way. */
struct lease_wait;

/* Begins to acquire and does not wait. `done`, if not NULL, is called once; then the wait must
 * still be destroyed. */
typedef void lease_acquired(struct lease_wait *wait, enum lease_status status, const char *reason,
                            void *context);
LEASE_API enum lease_status lease_acquire_start(struct lease_session *session,
                                                const struct lease_acquire_options *options,
                                                lease_acquired *done, void *context,
                                                struct lease_wait **out_wait);
/* Waits at most so long (LEASE_WAIT_FOREVER: until it is decided; LEASE_NO_WAIT: looks) for its
 * result: LEASE_OK, with a hold that is the caller's from then on; LEASE_BUSY: not free, and
 * wait_ms was 0; LEASE_TIMEOUT: wait_ms is over, or, with lease_wait_is_over() false, this call's
 * own limit; LEASE_CANCELED; LEASE_LOST: the session ended. */
LEASE_API enum lease_status lease_wait_finish(struct lease_wait *wait, int64_t limit_ms,
                                              struct lease_hold **out_hold);
LEASE_API bool lease_wait_is_over(const struct lease_wait *wait);
/* Leaves the queue: the wait ends with LEASE_CANCELED, or with LEASE_OK when it was too late. Does
 * not wait; may be called from any thread. */
LEASE_API void lease_wait_cancel(struct lease_wait *wait);
/* Cancels it if it is not over, and gives back what nobody took over. Accepts NULL. What is given
 * back while no server can be reached is given back later, as by lease_release(). */
LEASE_API void lease_wait_destroy(struct lease_wait *wait);

/* lease_acquire_start() and lease_wait_finish() in one. Waits. */
LEASE_API enum lease_status lease_acquire(struct lease_session *session,
                                          const struct lease_acquire_options *options,
                                          struct lease_hold **out_hold);
/* The usual cases of it. All of them wait as `wait_ms` says, lease_try() for the answer alone. */
LEASE_API enum lease_status lease_lock(struct lease_session *session, const char *resource,
                                       int64_t wait_ms, struct lease_hold **out_hold);
LEASE_API enum lease_status lease_try(struct lease_session *session, const char *resource,
                                      struct lease_hold **out_hold);
LEASE_API enum lease_status lease_lock_shared(struct lease_session *session, const char *resource,
                                              int64_t wait_ms, struct lease_hold **out_hold);
/* The same for who has to look at something else while it waits, as at signals: this call waits at
 * most `limit_ms`, above 0. When it is not decided by then it gives LEASE_TIMEOUT and out_wait,
 * which keeps its place in the queue and goes on; in all other cases out_wait is NULL. */
LEASE_API enum lease_status lease_lock_within(struct lease_session *session, const char *resource,
                                              enum lease_mode mode, int64_t wait_ms,
                                              int64_t limit_ms, struct lease_hold **out_hold,
                                              struct lease_wait **out_wait);
LEASE_API enum lease_status lease_reserve(struct lease_session *session, const char *pool,
                                          uint32_t slots, int64_t wait_ms,
                                          struct lease_hold **out_hold);
/* An election: whoever has the resource leads, and `value` is what observers see. To resign is
 * lease_release(). */
LEASE_API enum lease_status lease_campaign(struct lease_session *session, const char *resource,
                                           const char *value, int64_t wait_ms,
                                           struct lease_hold **out_hold);

/* The fencing token: it only ever grows, over all resources. Send it with everything that is done
 * under the hold, so that the resource can refuse an older one. */
LEASE_API int64_t lease_hold_token(const struct lease_hold *hold);
/* All about it, as it was acquired. Valid as long as the hold. */
LEASE_API const struct lease_acquisition *lease_hold_acquisition(const struct lease_hold *hold);
LEASE_API struct lease_session *lease_hold_session(const struct lease_hold *hold);
/* As lease_valid_for_ms() of its session, and not longer than its hold limit. */
LEASE_API int64_t lease_hold_valid_for_ms(const struct lease_hold *hold);
/* Gives it back. Waits. LEASE_NOT_FOUND: it had ended already. It is not valid from the call on.
 * LEASE_UNAVAILABLE, LEASE_TIMEOUT: the library goes on giving it back for as long as its session
 * lives; another call asks again. */
LEASE_API enum lease_status lease_release(struct lease_hold *hold);
/* The same without waiting for the answer. */
LEASE_API void lease_release_start(struct lease_hold *hold);
/* Another value for observers. Waits. LEASE_NOT_FOUND: it had ended, and is not valid. */
LEASE_API enum lease_status lease_proclaim(struct lease_hold *hold, const char *value);
/* Hands it to a session by id, or (to_session_id 0) to the first waiting one of this owner, before
 * all others. Waits. From LEASE_OK on it is theirs. LEASE_REFUSED: there is no such session, or
 * nobody of that owner waits for the same, and it is held as before. LEASE_NOT_FOUND: it had ended.
 * Where no answer came it is not valid either. etcd: LEASE_UNSUPPORTED. */
LEASE_API enum lease_status lease_transfer(struct lease_hold *hold, int64_t to_session_id,
                                           const char *to_owner);
/* Releases the memory, not the resource; also after its session was destroyed. Accepts NULL. */
LEASE_API void lease_hold_destroy(struct lease_hold *hold);

/* ---- fences ---- */

/* The server remembers the highest token seen for a resource. LEASE_OK: `token` is not older, and
 * is remembered. LEASE_STALE: refused. out_highest, which may be NULL, is written in both cases.
 * Waits. */
LEASE_API enum lease_status lease_fence_check(struct lease_connection *connection,
                                              const char *resource, int64_t token,
                                              int64_t *out_highest);
/* 0: none was seen. Waits. */
LEASE_API enum lease_status lease_fence_get(struct lease_connection *connection,
                                            const char *resource, int64_t *out_highest);

/* ---- looking: all of these wait; what they give is released by lease_free() ---- */

/* Releases what a function below gave. Accepts NULL. */
LEASE_API void lease_free(const void *result);

struct lease_resource {
    const char *name;
    const struct lease_acquisition *holders;
    size_t n_holders;
    uint32_t n_waiting;
    const struct lease_acquisition *first_waiting;
    size_t n_first_waiting;
    int64_t remaining_ms; /* of the first holder's session; -1: not known */
    int64_t last_token;   /* the highest of its holders and its fence; 0: there is neither */
    int64_t revision;     /* as of which it is true */
};

struct lease_resource_list {
    const struct lease_resource *items;
    size_t n_items;
    bool more; /* ask again, after the last name */
};

/* A resource that nobody has has no holders. Shows up to n_waiters of those who wait. */
LEASE_API enum lease_status lease_resource_get(struct lease_connection *connection,
                                               const char *resource, uint32_t n_waiters,
                                               const struct lease_resource **out_resource);
/* Those whose names begin with `prefix`, in order, after the name `after` (NULL: from the first);
 * limit 0: as many as the server gives. etcd: LEASE_UNSUPPORTED. */
LEASE_API enum lease_status lease_resource_list(struct lease_connection *connection,
                                                const char *prefix, const char *after,
                                                uint32_t limit,
                                                const struct lease_resource_list **out_list);

struct lease_session_info {
    int64_t id;
    const char *owner;
    int64_t ttl_ms;
    enum lease_class purpose;
    enum lease_strategy strategy;
    int64_t remaining_ms; /* -1: not known */
    int64_t created_revision;
    int64_t created_wall_ms;
    const char *note;
    int64_t parent_id;
    uint32_t n_acquisitions;
};

struct lease_session_list {
    const struct lease_session_info *items;
    size_t n_items;
    const struct lease_acquisition *acquisitions; /* of these sessions */
    size_t n_acquisitions;
    bool more; /* ask again, after the last id */
};

enum { LEASE_WITH_ACQUISITIONS = 1, LEASE_WITH_REMAINING = 2 };

/* One session with all that it has: a list of one. LEASE_NOT_FOUND. */
LEASE_API enum lease_status lease_session_get(struct lease_connection *connection,
                                              int64_t session_id,
                                              const struct lease_session_list **out_list);
/* Those whose owners begin with `owner_prefix` (NULL: all), after the id `after_id`. `flags` of
 * LEASE_WITH_… */
LEASE_API enum lease_status lease_session_list(struct lease_connection *connection,
                                               const char *owner_prefix, int64_t after_id,
                                               uint32_t limit, unsigned flags,
                                               const struct lease_session_list **out_list);

/* ---- pools; etcd: LEASE_UNSUPPORTED ---- */

struct lease_share {
    const char *owner;
    uint32_t weight;
};

struct lease_slot_state {
    const char *slot;
    int64_t acquisition_id;
    int64_t token;
    const char *owner;
};

struct lease_pool {
    const char *name;
    const char *const *slots;
    size_t n_slots;
    int64_t hold_limit_ms;            /* 0: none */
    const struct lease_share *shares; /* owners that are not named have weight 1 */
    size_t n_shares;
    const struct lease_slot_state *taken; /* not read by lease_pool_set() */
    size_t n_taken;
    uint32_t n_waiting;
};

struct lease_pool_list {
    const struct lease_pool *items;
    size_t n_items;
};

/* Makes it or changes it. Slots that are taken and not named any more go when they are given back.
 */
LEASE_API enum lease_status lease_pool_set(struct lease_connection *connection,
                                           const struct lease_pool *pool);
/* LEASE_REFUSED while somebody has a slot or waits. */
LEASE_API enum lease_status lease_pool_remove(struct lease_connection *connection,
                                              const char *pool);
LEASE_API enum lease_status lease_pool_get(struct lease_connection *connection, const char *pool,
                                           const struct lease_pool **out_pool);
LEASE_API enum lease_status lease_pool_list(struct lease_connection *connection,
                                            const struct lease_pool_list **out_list);

/* ---- what happened; etcd: LEASE_UNSUPPORTED ---- */

enum lease_end_reason {
    LEASE_END_NONE = 0,
    LEASE_END_RELEASED = 1,
    LEASE_END_EXPIRED = 2,
    LEASE_END_REVOKED = 3,
    LEASE_END_PARENT = 4,
    LEASE_END_TRANSFERRED = 5,
    LEASE_END_HOLD_LIMIT = 6,
    LEASE_END_SESSION_ENDED = 7,
    LEASE_END_LEFT_QUEUE = 8
};
/* "expired", "released", … Never NULL. */
LEASE_API const char *lease_end_reason_text(enum lease_end_reason reason);

struct lease_ended {
    const struct lease_acquisition *acquisition; /* NULL: of a session without any */
    const struct lease_session_info *session;    /* NULL: not known */
    enum lease_end_reason reason;
    const char *by; /* the user that asked for it */
    int64_t revision;
    int64_t wall_ms;
    int64_t last_renewal_before_ms; /* of an expiry: how long before its end; -1: not known */
};

struct lease_history {
    const struct lease_ended *ended; /* newest first */
    size_t n_ended;
    const struct lease_acquisition *holders; /* now */
    size_t n_holders;
    const struct lease_session_info *session; /* NULL: not asked for, or ended */
};

/* One of them is given. */
struct lease_why_query {
    size_t size;
    const char *resource;
    const char *pool;
    int64_t session_id;
    int64_t acquisition_id;
    uint32_t limit; /* 0: as many as the server gives */
};
#define LEASE_WHY_QUERY_INIT LEASE_INIT(struct lease_why_query)

LEASE_API enum lease_status lease_why(struct lease_connection *connection,
                                      const struct lease_why_query *query,
                                      const struct lease_history **out_history);

/* ---- watching ---- */

struct lease_watch;

/* With every change of the holders, and first with the state now. A connection that was lost is
 * made again and the state told again. Valid during the call. NULL: the watch has ended for the
 * reason that `status` and `reason` say, and nothing more comes. */
typedef void lease_resource_callback(const struct lease_resource *resource,
                                     enum lease_status status, const char *reason, void *context);
/* Does not wait. */
LEASE_API enum lease_status lease_observe(struct lease_connection *connection, const char *resource,
                                          lease_resource_callback *callback, void *context,
                                          struct lease_watch **out_watch);

enum lease_change_type {
    LEASE_CHANGE_QUEUED = 0,
    LEASE_CHANGE_ACQUIRED = 1,
    LEASE_CHANGE_ENDED = 2,
    LEASE_CHANGE_PROCLAIMED = 3
};

struct lease_change {
    int64_t revision;
    enum lease_change_type type;
    const struct lease_acquisition *acquisition; /* NULL: of an end, see `ended` */
    const struct lease_ended *ended;             /* NULL unless it is an end */
};

typedef void lease_change_callback(const struct lease_change *change, enum lease_status status,
                                   const char *reason, void *context);
/* What happens to resources and pools whose names begin with `prefix`, from a revision on (0: from
 * now on). A connection that was lost is made again, and the changes go on where they stopped. Does
 * not wait. etcd: the watch ends with LEASE_UNSUPPORTED. */
LEASE_API enum lease_status lease_watch_changes(struct lease_connection *connection,
                                                const char *prefix, int64_t start_revision,
                                                lease_change_callback *callback, void *context,
                                                struct lease_watch **out_watch);
/* Ends it and releases it. No callback is called after it returns, unless it is called from that
 * callback. Accepts NULL. */
LEASE_API void lease_watch_destroy(struct lease_watch *watch);

/* ---- discovery ---- */

/* A service is registered by a key of the etcd API that is attached to the lease of its server
 * (`lease grant 10s --key /services/web/1 --value 10.0.0.1:80`, `etcdctl put --lease`): when the
 * server dies the key goes. A directory has all keys under a prefix in memory and keeps them up to
 * date by a watch. It also asks about once a second whether it has missed something, and knows so
 * how old its entries are. It never forgets them by itself: while no server can be reached they
 * stay, and their age grows. Works with leased and etcd. */
struct lease_directory;

/* Keys and values end with a NUL that is not counted. */
struct lease_entry {
    const char *key;
    size_t key_size;
    const char *value;
    size_t value_size;
    int64_t lease_id; /* 0: attached to none */
    int64_t revision; /* of its last change */
};

struct lease_entry_list {
    const struct lease_entry *items; /* in the order of their keys */
    size_t n_items;
    int64_t revision;
    int64_t age_ms; /* they are those of a moment at most so long ago */
};

/* Something has changed, or, with another status than LEASE_OK, the directory is not kept up to
 * date any more, for this reason. Many changes may be told at once. */
typedef void lease_directory_callback(struct lease_directory *directory, enum lease_status status,
                                      const char *reason, void *context);
/* `prefix` "": all keys. `callback` may be NULL. At most 100,000 keys. Does not wait. */
LEASE_API enum lease_status lease_discover(struct lease_connection *connection, const char *prefix,
                                           lease_directory_callback *callback, void *context,
                                           struct lease_directory **out_directory);
/* Waits until it has its entries, at most so long (LEASE_WAIT_FOREVER: no limit). */
LEASE_API enum lease_status lease_directory_wait(struct lease_directory *directory,
                                                 int64_t limit_ms);
/* What it has, from memory: does not wait. Released by lease_free(). LEASE_UNAVAILABLE: nothing
 * came yet. */
LEASE_API enum lease_status lease_directory_entries(struct lease_directory *directory,
                                                    const struct lease_entry_list **out_list);
/* How old its entries may be; -1: it has none yet. */
LEASE_API int64_t lease_directory_age_ms(struct lease_directory *directory);
/* Before its connection is closed. No callback is called after it returns, unless it is called from
 * that callback. Accepts NULL. */
LEASE_API void lease_directory_destroy(struct lease_directory *directory);

/* ---- services: registering an instance. All of it needs leased: etcd gives LEASE_UNSUPPORTED ----
 */

/* An instance of a service in the registry of the server. A registration is a lease: it is renewed
 * here for as long as it lives, and gone from every view when it was not renewed in time. */
struct lease_registration;

enum lease_instance_state {
    LEASE_INSTANCE_DEFAULT = 0,
    LEASE_INSTANCE_STARTING = 1,
    LEASE_INSTANCE_UP = 2,
    LEASE_INSTANCE_DRAINING = 3, /* takes no new work */
    LEASE_INSTANCE_OUT_OF_SERVICE = 4,
    LEASE_INSTANCE_DOWN = 5
};
/* "up", "draining", … Never NULL. */
LEASE_API const char *lease_instance_state_text(enum lease_instance_state state);

enum lease_health { LEASE_PASSING = 0, LEASE_WARNING = 1, LEASE_CRITICAL = 2 };
/* "passing", … Never NULL. */
LEASE_API const char *lease_health_text(enum lease_health health);

struct lease_pair {
    const char *key;
    const char *value;
};

enum lease_check_kind {
    LEASE_CHECK_TTL = 1, /* reported by lease_registration_report(); silence is critical */
    LEASE_CHECK_HTTP = 2,
    LEASE_CHECK_TCP = 3,
    LEASE_CHECK_GRPC = 4,
    LEASE_CHECK_COMMAND = 5, /* run by the server, where its operator allows it */
    LEASE_CHECK_ALIAS = 6    /* as another instance is: target is "service" or "service/id" */
};

/* A check of an instance, run by the server unless it is LEASE_CHECK_TTL. Zeros and NULL mean the
 * server's defaults. */
struct lease_check {
    const char *id; /* unique within the instance */
    enum lease_check_kind kind;
    const char *target; /* URL, host:port */
    const char *const *command;
    size_t n_command;
    const char *method; /* of HTTP; of gRPC: the service's name */
    const struct lease_pair *headers;
    size_t n_headers;
    const char *body_match; /* the answer's body has to contain it */
    bool tls;               /* of gRPC and TCP */
    bool skip_verification;
    int64_t interval_ms;
    int64_t timeout_ms;
    int64_t ttl_ms;              /* of LEASE_CHECK_TTL */
    uint32_t rises;              /* results in a row that make it passing */
    uint32_t falls;              /* and critical */
    int64_t deregister_after_ms; /* critical for so long: the instance goes */
    enum lease_health health;    /* what it begins with */
};

enum lease_registration_event {
    LEASE_REGISTRATION_LATE = 1,     /* a renewal failed; it is tried again */
    LEASE_REGISTRATION_AGAIN = 2,    /* it had ended and was registered again, with a new token */
    LEASE_REGISTRATION_REPLACED = 3, /* the last one: another process has registered the same id
                                        later. This one is not registered again: stop */
    LEASE_REGISTRATION_FAILED = 4    /* the last one: the server refuses it for good */
};
typedef void lease_registration_callback(struct lease_registration *registration,
                                         enum lease_registration_event event, const char *reason,
                                         void *context);

struct lease_register_options {
    size_t size;
    const char *service;
    const char *id;      /* unique within the service; NULL: "host:pid" */
    const char *address; /* an IP address or a host name */
    uint32_t port;
    const char *const *tags;
    size_t n_tags;
    const struct lease_pair *metadata;
    size_t n_metadata;
    const char *zone;
    const char *version;
    int32_t weight;                  /* 0: 1. -1: listed, never chosen */
    enum lease_instance_state state; /* LEASE_INSTANCE_DEFAULT: up */
    int64_t ttl_ms;                  /* 0: 15,000; at least 1,000 */
    const char *node;                /* NULL: the host's name */
    const char *owner;               /* NULL: the connection's */
    const struct lease_check *checks;
    size_t n_checks;
    lease_registration_callback *on_event;
    void *context;
};
#define LEASE_REGISTER_OPTIONS_INIT LEASE_INIT(struct lease_register_options)

/* Registers, in the place of whoever had the id before, and waits. From then on it is renewed, and
 * registered again when its lease has ended, unless another process has registered the same id
 * meanwhile. */
LEASE_API enum lease_status lease_register(struct lease_connection *connection,
                                           const struct lease_register_options *options,
                                           struct lease_registration **out_registration);
LEASE_API const char *lease_registration_id(const struct lease_registration *registration);
/* Grows with every registration of the id. */
LEASE_API int64_t lease_registration_token(const struct lease_registration *registration);
/* Renewed within its time, as far as is known here, and not replaced. */
LEASE_API bool lease_registration_is_valid(const struct lease_registration *registration);
/* LEASE_OK, or for which reason it is over: LEASE_STALE when it was replaced. */
LEASE_API enum lease_status
lease_registration_status(const struct lease_registration *registration);
/* Another state of its own, also for when it is registered again. Waits. LEASE_STALE: replaced. */
LEASE_API enum lease_status lease_registration_set_state(struct lease_registration *registration,
                                                         enum lease_instance_state state);
/* What a check of LEASE_CHECK_TTL found. Waits. */
LEASE_API enum lease_status lease_registration_report(struct lease_registration *registration,
                                                      const char *check, enum lease_health health,
                                                      const char *output);
/* Takes it away. With `drain_ms` above 0 it is listed as draining for so long before, which the
 * server counts. Waits for the answer, not for the time. It is not renewed any more. */
LEASE_API enum lease_status lease_deregister(struct lease_registration *registration,
                                             int64_t drain_ms);
/* Releases the memory; not renewed any more. Accepts NULL. */
LEASE_API void lease_registration_destroy(struct lease_registration *registration);

/* ---- services: discovery ---- */

struct lease_instance {
    const char *service;
    const char *id;
    const char *address;
    uint32_t port;
    const char *const *tags;
    size_t n_tags;
    const struct lease_pair *metadata;
    size_t n_metadata;
    const char *zone;
    const char *version;
    const char *node;
    const char *owner;
    uint32_t weight;                 /* 0: never chosen */
    enum lease_instance_state state; /* an operator's override goes before its own */
    bool is_overridden;
    enum lease_health health;
    bool is_serving; /* up, and not critical */
    bool is_kept;    /* its lease has ended; the mass-failure guard keeps it listed */
    bool is_expired; /* not confirmed for longer than its TTL: nobody knows whether it lives */
    int64_t ttl_ms;  /* -1: until it is deregistered */
    int64_t token;
    int64_t lease_id;
    int64_t revision;
    int64_t registered_wall_ms;
};

struct lease_service_settings {
    int64_t grace_ms;
    uint32_t guard_percent; /* 101: no guard */
    uint32_t guard_minimum;
    int64_t guard_window_ms;
    int64_t guard_hold_ms;
};

struct lease_service_info {
    const char *name;
    uint32_t n_live;
    uint32_t n_lost;
    bool is_guarded; /* the mass-failure guard keeps lost instances listed */
    int64_t guarded_wall_ms;
    uint64_t n_guarded;                     /* how often it was */
    struct lease_service_settings settings; /* in effect */
    int64_t revision;                       /* grows with every change of the service */
};

struct lease_instance_list {
    const struct lease_instance *items;
    size_t n_items;
    struct lease_service_info service;
    int64_t age_ms; /* they are those of a moment at most so long ago */
};

/* A service in memory, kept up to date by a watch that only changes of this service wake. It also
 * asks from time to time whether it has missed something, and so knows how old its instances are.
 * An instance that was not confirmed for longer than the TTL of its lease is marked, and not
 * picked: nobody can know whether it still lives. */
struct lease_service;

typedef void lease_service_callback(struct lease_service *service, enum lease_status status,
                                    const char *reason, void *context);

struct lease_service_options {
    size_t size;
    const char *service;
    const char *zone;        /* those of this zone first */
    const char *const *tags; /* only those with all of these */
    size_t n_tags;
    bool with_unhealthy; /* lists also those that are not serving; they are never picked */
    bool picks_expired;  /* rather an instance that nobody knows about than none */
    /* NULL, or called when something has changed; with another status than LEASE_OK it is not kept
     * up to date any more. Many changes may be told at once. */
    lease_service_callback *callback;
    void *context;
};
#define LEASE_SERVICE_OPTIONS_INIT LEASE_INIT(struct lease_service_options)

/* Does not wait. */
LEASE_API enum lease_status lease_service_open(struct lease_connection *connection,
                                               const struct lease_service_options *options,
                                               struct lease_service **out_service);
/* Waits until it has its instances, at most so long (LEASE_WAIT_FOREVER: no limit). */
LEASE_API enum lease_status lease_service_wait(struct lease_service *service, int64_t limit_ms);
/* From memory, near ones first, then by id. Released by lease_free(). LEASE_UNAVAILABLE: nothing
 * came yet. */
LEASE_API enum lease_status lease_service_instances(struct lease_service *service,
                                                    const struct lease_instance_list **out_list);
/* One that serves, at random by weight, of the near ones if there are any. Released by
 * lease_free(). LEASE_NOT_FOUND: none serves. LEASE_UNAVAILABLE: all that is known is older than
 * the leases. */
LEASE_API enum lease_status lease_service_pick(struct lease_service *service,
                                               const struct lease_instance **out_instance);
/* How old its instances may be; -1: it has none yet. */
LEASE_API int64_t lease_service_age_ms(struct lease_service *service);
/* Before its connection is closed. No callback is called after it returns, unless it is called from
 * that callback. Accepts NULL. */
LEASE_API void lease_service_close(struct lease_service *service);

struct lease_service_list {
    const struct lease_service_info *items;
    size_t n_items;
    bool more; /* ask again, after the last name */
};

/* All of these wait; lists are released by lease_free(). */
LEASE_API enum lease_status lease_service_list(struct lease_connection *connection,
                                               const char *prefix, const char *after,
                                               uint32_t limit,
                                               const struct lease_service_list **out_list);
/* Zeros mean the defaults. */
LEASE_API enum lease_status lease_service_set(struct lease_connection *connection,
                                              const char *service,
                                              const struct lease_service_settings *settings);
/* The operator's word, which goes before the instance's own; LEASE_INSTANCE_DEFAULT takes it away.
 */
LEASE_API enum lease_status lease_instance_override(struct lease_connection *connection,
                                                    const char *service, const char *id,
                                                    enum lease_instance_state state);
/* Whichever registration it is. LEASE_NOT_FOUND. */
LEASE_API enum lease_status lease_instance_deregister(struct lease_connection *connection,
                                                      const char *service, const char *id,
                                                      int64_t drain_ms);

#ifdef __cplusplus
}
#endif

#endif
