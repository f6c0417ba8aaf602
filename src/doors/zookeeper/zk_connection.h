/*
 * The ZooKeeper door in memory: the door, its connections, and their requests on the way. Requests
 * of one connection are answered in the order in which they came. Changes are submitted as they
 * come, several at a time. A read waits for the changes before it and is answered before the next
 * change is applied; where this member cannot answer from memory, a change waits for the reads.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_CONNECTION_H
#define LEASED_DOORS_ZOOKEEPER_ZK_CONNECTION_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/list.h"
#include "core/service.h"
#include "doors/authenticator.h"
#include "doors/door.h"
#include "doors/zookeeper/zk_hash.h"
#include "doors/zookeeper/zk_model.h"
#include "doors/zookeeper/zk_quota.h"
#include "doors/zookeeper/zk_request_model.h"
#include "doors/zookeeper/zk_watches.h"
#include "net/raw_protocol.h"

enum zk_opcode {
    ZK_OP_CREATE = 1,
    ZK_OP_DELETE = 2,
    ZK_OP_EXISTS = 3,
    ZK_OP_GET_DATA = 4,
    ZK_OP_SET_DATA = 5,
    ZK_OP_GET_ACL = 6,
    ZK_OP_SET_ACL = 7,
    ZK_OP_GET_CHILDREN = 8,
    ZK_OP_SYNC = 9,
    ZK_OP_PING = 11,
    ZK_OP_GET_CHILDREN2 = 12,
    ZK_OP_CHECK = 13,
    ZK_OP_MULTI = 14,
    ZK_OP_CREATE2 = 15,
    ZK_OP_RECONFIG = 16,
    ZK_OP_CHECK_WATCHES = 17,
    ZK_OP_REMOVE_WATCHES = 18,
    ZK_OP_CREATE_CONTAINER = 19,
    ZK_OP_CREATE_TTL = 21,
    ZK_OP_MULTI_READ = 22,
    ZK_OP_AUTH = 100,
    ZK_OP_SET_WATCHES = 101,
    ZK_OP_SASL = 102,
    ZK_OP_GET_EPHEMERALS = 103,
    ZK_OP_GET_ALL_CHILDREN_NUMBER = 104,
    ZK_OP_SET_WATCHES2 = 105,
    ZK_OP_ADD_WATCH = 106,
    ZK_OP_WHO_AM_I = 107,
    ZK_OP_CLOSE_SESSION = -11
};

enum {
    ZK_FRAME_SIZE_MAX = 0xfffff, /* jute.maxbuffer */
    ZK_REQUESTS_MAX = 1000,      /* of one connection, on their way */
    /* Queued for all clients of the server: above it nobody is sent much that cannot wait. */
    ZK_QUEUED_MUCH = 64 * 1024 * 1024,
    ZK_XID_EVENT = -1,
    ZK_XID_PING = -2,
    ZK_XID_AUTH = -4
};

/* The flags of the door, in the order of its table. */
enum {
    ZK_FLAG_TIMEOUT_MIN,
    ZK_FLAG_TIMEOUT_MAX,
    ZK_FLAG_CONTAINER_CHECK,
    ZK_FLAG_SUPER_DIGEST,
    ZK_N_FLAGS
};

struct zk_counters {
    uint64_t received;
    uint64_t sent;
    uint64_t connections; /* accepted */
    uint64_t sessions_opened;
    uint64_t sessions_resumed;
    uint64_t sessions_refused; /* not found, or another password */
    uint64_t sessions_moved;
    uint64_t sessions_expired; /* with a connection here */
    uint64_t auth_failures;
    uint64_t events;
};

/* How long requests took, in milliseconds. */
struct zk_latency {
    uint64_t n;
    uint64_t sum_ms;
    uint64_t min_ms;
    uint64_t max_ms;
};

/* What takes a look at everything, and when it was looked at. */
struct zk_counted {
    bool is_known;
    uint64_t at_ms;
    size_t sessions;
    size_t ephemerals;
    size_t files;
};

struct zk_door {
    const struct door_environment *environment;
    struct service *service;
    struct arena arena;    /* of one request */
    struct buffer scratch; /* a rule's request */
    struct buffer reply;   /* a frame */
    struct list connections;
    size_t n_connections;
    size_t n_requests;       /* on their way, of all connections */
    struct zk_hash sessions; /* those with a connection here */
    struct hash_key key;
    struct zk_watches watches;
    uint64_t next_number; /* of a connection */
    /* What has been changed is told up to this revision: zk_events.h. */
    struct service_watch changes;
    bool is_watching;
    int64_t seen_revision;
    uint64_t told_records;  /* behind it, that have been told as well */
    bool is_late;           /* not all has been told */
    struct bytes event_acl; /* of the node that an event is about */
    struct zk_counters counters;
    struct zk_latency latency;
    struct zk_counted counted; /* zk_stats.c */
    /* Connections with reads that go on in the next iteration, and what reads have taken of this
     * one: zk_delays.h. */
    struct list delayed;
    uv_timer_t *delay_timer;
    uint64_t slice_iteration;
    uint64_t slice_begun_ns;
    uint64_t slice_used_ns;
    /* Connections whose next change waits for those of others, or for history to be freed, and
     * those whose next answer waits for room. */
    struct list delayed_changes;
    uv_timer_t *changes_timer;
    bool is_resuming_changes;
    size_t rewritten;       /* by changes on their way, beside their requests */
    size_t n_large_changes; /* on their way: nodes may be larger by then than they are now */
    /* Events that wait for those who are told of them, and what this iteration has told:
     * zk_tellings.h. */
    struct list events;
    size_t event_bytes;
    struct zk_event *event_now; /* that several are told of; NULL: none waits for it */
    bool is_telling_many;
    uint64_t told_iteration;
    size_t told_bytes;
    size_t told_work;     /* to find out who is told */
    bool is_late_to_send; /* events wait for time */
};

enum zk_connection_state {
    ZK_NEW,        /* nothing has come */
    ZK_CONNECTING, /* the session's rule is on its way */
    ZK_CONNECTED,
    ZK_CLOSING, /* closeSession is on its way */
    ZK_DROPPED  /* nothing more is said: what became of its requests is not known */
};

struct zk_connection {
    struct list in_door;
    struct zk_hash_node in_sessions;
    struct zk_door *door;
    struct raw_connection *raw; /* NULL: it is over */
    enum zk_connection_state state;
    uint64_t number;
    int64_t session_id; /* 0: none yet */
    int32_t timeout_ms;
    bool is_old_client; /* does not know of read-only servers */
    bool is_renewing;   /* these two keep the struct until they are done */
    bool is_connecting;
    bool is_paused;
    bool is_delayed;
    struct list in_delayed;
    bool is_change_delayed;
    struct list in_delayed_changes;
    struct list requests; /* on their way, in order */
    size_t n_requests;
    size_t n_waiting_changes;   /* of these, not submitted yet */
    size_t n_changes_under_way; /* submitted and not done */
    size_t n_waiting_reads;     /* for the changes before them */
    size_t n_active_reads;      /* asked for, or ready to be answered */
    uint64_t read_renewal;      /* that the last read waits for */
    struct service_renewal renewal;
    uint64_t renewed_iteration;
    uint64_t renewals_begun;
    uint64_t renewals_done; /* the number of the last one that succeeded */
    uint32_t pings_now;     /* to be answered when the renewal is done */
    uint32_t pings_later;   /* came while one was on its way: answered after another */
    bool is_touched_later;
    struct zk_watcher watcher;
    /* Events that wait, and up to where it has been told all: zk_tellings.h. */
    struct list tellings;
    size_t telling_bytes;
    int64_t told_zxid;
    int64_t compared_since;
    bool is_setting_watches; /* again, and not all of them are set */
    bool is_behind;          /* too far */
    /* Ids: their count (varint), then scheme and id of each. */
    struct buffer ids;
    size_t n_ids;
    struct zk_login *login;
    uint64_t opened_ms;
    uint64_t received;
    uint64_t sent;
    int32_t last_type;
    struct zk_latency latency;
};

/* --- zk_connection.c --- */

extern const struct raw_protocol zk_protocol;

/* Empties a buffer of the door, to be written anew. What a large answer took is given back, unless
 * the last one was large too: of each every page would have to be got again. */
struct buffer *zk_door_buffer(struct buffer *buffer);

/* Sends one answer: header and body. `body` is jute. Counted. */
void zk_connection_reply(struct zk_connection *connection, int32_t xid, int64_t zxid, int32_t error,
                         struct bytes body);
/* The session is over, or another connection's: no more answers. */
void zk_connection_drop(struct zk_connection *connection, const char *reason);
struct zk_connection *zk_connection_of_session(const struct zk_door *door, int64_t session_id);
struct zk_connection *zk_connection_of_watcher(struct zk_watcher *watcher);
int64_t zk_connection_zxid(const struct zk_connection *connection);
/* Stops input while so much is on its way; goes on later. */
void zk_connection_flow(struct zk_connection *connection);
void zk_connection_free_if_over(struct zk_connection *connection);

/* --- zk_connect.c: how a session begins, lives and moves. --- */

void zk_connect(struct zk_connection *connection, struct bytes frame);
/* The client was heard of: its session lives on. Gives the number of the renewal that has to be
 * done before it may be answered: it counts its session from when it asked. */
uint64_t zk_connect_touch(struct zk_connection *connection, bool is_ping);
/* By the newest record: its session lives, and no other connection has taken it over. */
bool zk_connect_has_session(const struct zk_connection *connection);

/* --- zk_requests.c: requests on their way. --- */

/* `renewal`: of zk_connect_touch(). */
void zk_requests_take(struct zk_connection *connection, int32_t xid, int32_t type,
                      struct bytes body, uint64_t renewal);
/* A renewal is done: answers what waited for it. */
void zk_requests_renewed(struct zk_connection *connection);
/* Goes on where the slice of time was over, or the client had not taken enough. */
void zk_requests_go_on(struct zk_connection *connection);
/* The connection is over. */
void zk_requests_drop(struct zk_connection *connection);

/* --- zk_change.c: changes as the rule wants them. --- */

bool zk_change_is(int32_t type);
/* The bytes that a change writes anew beside those of its request, by what is there now and what is
 * on its way; 0 for what is small. */
size_t zk_change_rewritten(struct zk_door *door, int32_t type, struct bytes body);
/* Appends the rule's request. Anything but ZK_OK: it is refused with that. */
enum zk_error zk_change_encode(struct zk_connection *connection, int32_t type, struct bytes body,
                               struct buffer *out);
/* Appends the body of the answer; gives its error. */
enum zk_error zk_change_answer(int32_t type, struct bytes body, struct bytes answer,
                               struct buffer *out);

/* --- zk_read.c --- */

/* The path whose right to read is needed; empty: none. */
struct bytes zk_read_path(int32_t type, struct bytes body);
/* Whether it may take long, so that nobody should have to wait for its end. */
bool zk_read_is_long(int32_t type, struct bytes body);
/* Whether its answer may be more than so many bytes, by what is there now. */
bool zk_read_is_more(struct zk_door *door, int32_t type, struct bytes body, size_t size);
/* How far a read that may take long has come. Zeroed: not begun. */
struct zk_read_progress;
/* Does a part of what has to be done before it is answered. False: nothing of it is left. */
bool zk_read_prepare(struct zk_connection *connection, int32_t type, struct bytes body,
                     struct zk_read_progress *progress);
/* Appends the body of the answer. */
enum zk_error zk_read_answer(struct zk_connection *connection, int32_t type, struct bytes body,
                             const struct zk_read_progress *progress, struct buffer *out);

/* --- zk_watch_requests.c --- */

/* How far a request with many paths has been done. Zeroed: not begun. */
struct zk_watch_progress {
    size_t position; /* in its body */
    size_t left;     /* of the list */
    unsigned list;
    bool is_done;
    enum zk_error error;
};
struct zk_read_progress {
    struct zk_watch_progress watches; /* of setWatches */
    struct zk_quota_count quota;      /* of the statistics that are shown */
};
/* Does a part of it; what is not done then is to be asked for again. */
void zk_watch_set(struct zk_connection *connection, int32_t type, struct bytes body,
                  struct zk_watch_progress *progress);
enum zk_error zk_watch_add(struct zk_connection *connection, struct bytes body, struct buffer *out);
enum zk_error zk_watch_remove(struct zk_connection *connection, struct bytes body, bool is_check);

/* --- zk_access.c: who the client is, and what an access list may say. --- */

/* The ids that a connection has from the beginning: its address, its certificate. */
void zk_access_begin(struct zk_connection *connection);
/* An auth packet: answered at once or later. */
void zk_access_auth(struct zk_connection *connection, int32_t xid, struct bytes body);
void zk_access_cancel(struct zk_connection *connection);
/* The ids, in arena memory. */
size_t zk_access_ids(const struct zk_connection *connection, struct arena *arena,
                     const struct zk_id **out_ids);
/* Reads a vector of ACLs and appends it encoded, with "auth" made into the connection's ids. */
enum zk_error zk_access_read_acl(const struct zk_connection *connection, struct reader *reader,
                                 struct buffer *out);

/* --- zk_metrics.c --- */

void zk_metrics_write(const struct zk_door *door, struct buffer *out);

/* --- zk_words.c: four-letter words. --- */

bool zk_words_is(struct bytes word);
void zk_words_answer(struct zk_connection *connection, struct bytes word);

#endif
