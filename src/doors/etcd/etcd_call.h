/*
 * What the services of this door share: the door itself, unary calls that wait for the service,
 * answers, and the timer of streams that need one.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_CALL_H
#define LEASED_DOORS_ETCD_ETCD_CALL_H

#include "base/arena.h"
#include "base/keyed_hash.h"
#include "base/list.h"
#include "base/pb_writer.h"
#include "doors/authenticator.h"
#include "doors/etcd/etcd_access.h"
#include "doors/etcd/etcd_clients.h"
#include "doors/etcd/etcd_door.h"
#include "doors/etcd/etcd_error.h"
#include "doors/etcd/etcd_response.h"
#include "net/grpc.h"

/* How often streams are looked at: those that need their leader or quiet-time notices, and those
 * that owe a progress answer. */
enum { ETCD_TICK_MS = 100, ETCD_TICK_URGENT_MS = 5 };

/* Part of a stream that wants to be looked at now and then. `tick` must not remove tickers. */
struct etcd_ticker {
    void (*tick)(struct etcd_ticker *ticker, uint64_t now_ms);
    struct list link;
};

struct etcd_call;
struct etcd_long_read;
struct etcd_queues;
struct etcd_renewal_turns;

/* A gRPC client takes no message above this, whatever it was configured with. */
#define ETCD_ANSWER_SIZE_MAX ((size_t)INT32_MAX)
/* Of a change or a transaction, which is made at once. What they show of records is bounded before
 * they are carried out (KEY_WORK_TXN_MAX); this is more. */
#define ETCD_OUTCOME_SIZE_MAX ((size_t)64 * 1024 * 1024)

struct etcd_door {
    struct service *service;
    struct authenticator *authenticator;
    struct etcd_door_options options;
    const struct net_server *net; /* for its statistics; NULL: none */
    uint64_t quota_bytes;         /* of keys and their history, shown in the metrics */
    struct etcd_access access;
    bool has_gateway;
    struct etcd_identity identity;
    uint64_t leader_id;
    uint64_t identity_ms;        /* when the two above were asked for */
    uint64_t identity_iteration; /* of the service, when the time was last looked at */
    struct arena arena;          /* of the request being handled */
    struct hash_key hash_key;    /* of tables of ids that clients choose */
    struct list free_calls;
    size_t n_free_calls;
    size_t whole_bytes; /* of large answers that are written at once: etcd_long_read.h */
    uv_timer_t timer;
    struct list tickers;
    size_t n_urgent; /* tickers that want the fast pace */
    struct service_renewal *spare_renewal;
    struct etcd_renewal_turns *renewal_turns; /* whose renewals are asked for next */
    struct etcd_queues *queues;               /* calls that wait for locks and elections */
    size_t queue_records;                     /* looked at, and not yet counted by the service */
    struct etcd_door_stats stats;
    struct etcd_clients clients; /* calls by the version of the client */
};

/* A unary call that waits for the service. It belongs to the service until its callback: when the
 * client goes away first, only `call` is taken from it. */
struct etcd_call {
    struct grpc_call *call; /* NULL: the client went away */
    struct etcd_door *door;
    union {
        struct service_request request;
        struct service_read read;
        struct service_renewal question;
        struct service_transfer transfer;
        struct authenticator_hash hash;
        struct authenticator_login login;
    };
    /* Not NULL while it is with the authenticator: takes it back when the client goes away. */
    void (*cancel)(struct etcd_call *waiting);
    union {
        void (*reply)(struct etcd_call *waiting, const struct outcome *outcome);
        void (*resume)(struct grpc_call *call, struct bytes message);
        void (*answered)(struct grpc_call *call, struct bytes message, enum status status,
                         int64_t remaining_ms);
    };
    /* NULL: etcd_error_of() */
    const struct etcd_error *(*error_of)(enum status status);
    uint8_t *message; /* of a read: a copy */
    size_t message_size;
    struct arena shape_arena;
    const struct txn_request *shape; /* of a transaction, see etcd_txn.h */
    struct alarm_entry alarm;        /* of an alarm request */
    bool alarm_changes;
    struct etcd_long_read *long_read; /* NULL: it is none */
    struct list free_link;
};

static inline struct etcd_door *etcd_door_of(const struct grpc_call *call) {
    return grpc_call_context(call);
}

/* The header of an answer, of the newest revision or of a given one. */
struct etcd_header etcd_header_now(struct etcd_door *door);
struct etcd_header etcd_header_at(struct etcd_door *door, int64_t revision);
bool etcd_has_leader(struct etcd_door *door);
/* True when the client insists on a leader ("hasleader: true"). */
bool etcd_wants_leader(struct grpc_call *call);
/* Counts the call under the version that its client says it has. Unary calls are counted by
 * etcd_call_refused(). */
void etcd_count_client(struct grpc_call *call, enum etcd_client_kind kind);

/* The caller of a call, as the authenticator says. */
const struct caller *etcd_caller(const struct grpc_call *call);

const struct key_store *etcd_keys(const struct etcd_door *door);

/* --- Answers: begin, write exactly `size` bytes, end. --- */

/* Answers can be asked for faster than they are taken. False: a read of this size has no room now,
 * and the call was finished. */
bool etcd_has_room_for(struct grpc_call *call, size_t size);
/* False: too large for any client; the call has been ended with an error. */
bool etcd_answer_begin(struct grpc_call *call, size_t size, struct pb_writer *writer);
/* Sends it; a stream goes on. */
void etcd_answer_end(struct grpc_call *call, struct pb_writer *writer);
/* Sends it and ends the call. */
void etcd_answer_finish(struct grpc_call *call, struct pb_writer *writer);
/* The whole answer is a header. */
void etcd_answer_header(struct grpc_call *call, struct etcd_header header);
/* The whole answer is an empty message. */
void etcd_answer_empty(struct grpc_call *call);

/* --- Unary calls. --- */

/* The beginning of every unary call: counts it, and refuses it when its client insists on a leader
 * while there is none. */
bool etcd_call_refused(struct grpc_call *call);
/* The same of a stream that sends only. */
bool etcd_stream_refused(struct grpc_call *call);

/* Submits a command; `reply` is called when it was carried out and the client is still there.
 * Errors are answered here. Returns the call's object, for what `reply` needs to know: it may be
 * written to until the caller returns. */
struct etcd_call *etcd_call_submit(struct grpc_call *call, const struct command *command,
                                   void (*reply)(struct etcd_call *waiting,
                                                 const struct outcome *outcome));

/* The object of a call that waits; NULL: the call was ended because memory is out. It is given
 * back when the call is answered, before or after. */
struct etcd_call *etcd_call_create(struct grpc_call *call);
void etcd_call_destroy(struct etcd_call *waiting);
/* Keeps a copy of the message, or of a part of it. False: memory is out. */
bool etcd_call_keep(struct etcd_call *waiting, struct bytes message);

/* True: the state may be read now. False: `resume` is called with the same message when it may be,
 * or the call is refused with the reason. The ranges are those that will be read. */
bool etcd_call_may_read(struct grpc_call *call, struct bytes message,
                        const struct key_range *ranges, size_t n_ranges,
                        void (*resume)(struct grpc_call *call, struct bytes message));

/* The same for a read that may be stale: true, or the call was refused with the reason. */
bool etcd_call_may_read_local(struct grpc_call *call, const struct key_range *ranges,
                              size_t n_ranges);

/* Calls `resume` once the state may be read, at once when it may be already. */
void etcd_call_read(struct grpc_call *call, struct bytes message, const struct key_range *ranges,
                    size_t n_ranges, void (*resume)(struct grpc_call *call, struct bytes message));

/* The same, for a caller that is not the call's. */
void etcd_call_read_as(struct grpc_call *call, const struct caller *caller, struct bytes message,
                       void (*resume)(struct grpc_call *call, struct bytes message));

/* True when the caller has the role "root", or authentication is off; false: the call was refused.
 * `what` is for the log. */
bool etcd_call_is_root(struct grpc_call *call, const char *what);
bool etcd_call_is_user(struct grpc_call *call, const char *what);

/* Asks for the time that is left of a lease, which only the leader knows; `answered` gets it with
 * STATUS_OK, or STATUS_LEASE_NOT_FOUND. Other statuses are answered here. `shows_keys`: the answer
 * will have the lease's keys. */
void etcd_call_ask_time_left(struct grpc_call *call, struct bytes message, int64_t lease_id,
                             bool shows_keys,
                             void (*answered)(struct grpc_call *call, struct bytes message,
                                              enum status status, int64_t remaining_ms));

/* Gives leadership to another member and answers when that is done. */
void etcd_call_move_leader(struct grpc_call *call, uint64_t member_id);

/* For every unary method: forgets the call in the object that waits for the service. */
void etcd_call_closed(struct grpc_call *call);
/* For every method that may read long (etcd_long_read.h). */
void etcd_call_writable(struct grpc_call *call);

/* --- Tickers. --- */

void etcd_ticker_init(struct etcd_ticker *ticker,
                      void (*tick)(struct etcd_ticker *ticker, uint64_t now_ms));
/* Harmless when it is done already. */
void etcd_ticker_start(struct etcd_door *door, struct etcd_ticker *ticker);
void etcd_ticker_stop(struct etcd_door *door, struct etcd_ticker *ticker);
/* The door ticks fast while any ticker is urgent. */
void etcd_ticker_hurry(struct etcd_door *door, bool hurry);

/* --- The services. --- */

struct etcd_methods {
    const struct grpc_method *methods;
    size_t n_methods;
};
extern const struct etcd_methods etcd_kv_methods;
extern const struct etcd_methods etcd_lease_methods;
extern const struct etcd_methods etcd_keepalive_methods;
extern const struct etcd_methods etcd_watch_methods;
extern const struct etcd_methods etcd_maintenance_methods;
extern const struct etcd_methods etcd_snapshot_methods;
extern const struct etcd_methods etcd_cluster_methods;
extern const struct etcd_methods etcd_auth_methods;
extern const struct etcd_methods etcd_health_methods;
extern const struct etcd_methods etcd_reflection_methods;
extern const struct etcd_methods etcd_lock_methods;
extern const struct etcd_methods etcd_election_methods;
extern const struct etcd_methods etcd_observe_methods;

/* --- For the registry of doors. --- */

extern const struct door_request etcd_requests[];

/* Appends the door's own metrics, and those that dashboards and alerts made for etcd look for. */
void etcd_metrics_write(const struct etcd_door *door, struct buffer *out);

#endif
