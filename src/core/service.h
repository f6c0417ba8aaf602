/*
 * What a door may ask: submit a command, make a read safe, renew a lease, watch keys, look at the
 * state. Declared here, below the doors, and carried out by replication, which no door may include.
 *
 * Every call names its caller (caller.h); rights are checked here and, for a command, again when it
 * is applied. While authentication is off every caller may do everything.
 *
 * Everything happens on the loop's thread. Requests are embedded in the caller's own objects and
 * must stay alive until they are done; there is no cancel: a caller that lost interest ignores
 * the answer. The `private` part of a request belongs to the service and needs no initial value.
 */
#ifndef LEASED_CORE_SERVICE_H
#define LEASED_CORE_SERVICE_H

#include "base/list.h"
#include "base/status.h"
#include "core/caller.h"
#include "core/command.h"
#include "core/permission.h"
#include "core/state_view.h"
#include "core/watch_hub.h"

struct service;

/* A command on its way. */
struct service_request {
    /* Called exactly once, never from inside service_submit(). When the command was refused or
     * could not be committed, outcome has only a status (those of command_check(),
     * STATUS_NO_LEADER, _LEADER_CHANGED, _TIMED_OUT, _NO_SPACE, _STOPPED, _TOO_MANY_REQUESTS,
     * _REQUEST_TOO_LARGE). */
    void (*done)(struct service_request *request, const struct outcome *outcome);
    struct {
        struct list link;
        uint32_t size; /* of its command as it was encoded */
    } private;
};

/* Checks the command (command_check()) and encodes it before it returns: what it borrows may go.
 * Everything submitted in one iteration of the loop becomes one log entry. For a grant with id 0
 * the service chooses a free id. */
void service_submit(struct service *service, const struct caller *caller,
                    struct service_request *request, const struct command *command);

/* Takes back what was submitted, if it has not been handed on to the log or to the leader: true,
 * and done() is not called. Otherwise it goes its way. For who has told that an earlier request is
 * lost, and may not have a later one done. */
bool service_withdraw(struct service *service, struct service_request *request);

/* True when so much has been submitted and not yet been given to the log that more would only wait:
 * whoever can choose submits later. */
bool service_is_congested(const struct service *service);

/* While history that takes too much of the quota is being freed, whoever makes more of it had
 * better wait: beyond the quota and an eighth of it puts are refused, whoever asks. */
enum history_pressure {
    HISTORY_PRESSURE_NONE,
    HISTORY_PRESSURE_HIGH, /* for changes that are large, or many of one client */
    HISTORY_PRESSURE_FULL  /* for all */
};
enum history_pressure service_history_pressure(const struct service *service);

/* A linearizable read: the state may be read once ready() is called, at once for the leader in
 * possession of its leader lease. */
struct service_read {
    void (*ready)(struct service_read *read, enum status status);
    struct {
        struct list link;
        uint64_t asked_ms;
        uint64_t sent_ms;         /* when the leader was last asked */
        uint64_t request_id;      /* 0: the leader has not been asked yet */
        uint64_t index;           /* what must be applied first; 0: not known yet */
        bool is_of_client;        /* its rights may change meanwhile */
        bool asks_majority;       /* whatever the leader lease says */
        uint64_t auth_generation; /* at which the caller's rights were checked */
    } private;
};
/* The ranges are those that will be read, borrowed for the call; none for what has no keys (leases,
 * members). STATUS_OK: read now, ready() will not be called. STATUS_PENDING: ready() is called
 * later, with STATUS_AUTH_OLD_REVISION when users or roles changed meanwhile. Anything else:
 * refused. */
enum status service_read(struct service *service, const struct caller *caller,
                         struct service_read *read, const struct key_range *ranges,
                         size_t n_ranges);
/* The same without an object, as most reads wait for nothing. STATUS_PENDING: it has to wait, and
 * service_read() is to be called. */
enum status service_read_now(struct service *service, const struct caller *caller,
                             const struct key_range *ranges, size_t n_ranges);
/* The same for a read that may be stale: it is answered at once. */
enum status service_read_local(struct service *service, const struct caller *caller,
                               const struct key_range *ranges, size_t n_ranges);
/* For what wants to know whether this node can be served by a majority just now: as a read of the
 * server's own, but a leader asks the others although it has its leader lease. */
enum status service_confirm(struct service *service, struct service_read *read);

/* The renewal of a lease. */
struct service_renewal {
    int64_t id;
    /* The space of the protocol that asks: leases of others do not exist for it. While the version
     * of the cluster is one that knows none but etcd's, others are answered STATUS_UNSUPPORTED. */
    struct key_space_id owner;
    /* Of service_time_left(): the caller is shown the lease's keys, and must be allowed to read
     * them. */
    bool shows_keys;
    /* ttl_ms is the full TTL when status is STATUS_OK. STATUS_LEASE_NOT_FOUND, _NO_LEADER, … */
    void (*done)(struct service_renewal *renewal, enum status status, int64_t ttl_ms);
    struct {
        struct list link;
        uint64_t asked_ms;
        uint64_t sent_ms;
        uint64_t request_id;
        struct caller caller;
        bool only_ask;
    } private;
};
/* The caller must be allowed to write the keys that are attached to the lease. STATUS_PENDING:
 * done() is called later. Anything else is the answer: done() is not called. */
enum status service_renew(struct service *service, const struct caller *caller,
                          struct service_renewal *renewal, int64_t *out_ttl_ms);

/* The same, but renews nothing and answers with the time that is left: only the leader knows it. */
enum status service_time_left(struct service *service, const struct caller *caller,
                              struct service_renewal *question, int64_t *out_remaining_ms);

/* A watch of keys. */
struct service_watch {
    /* As in struct watcher_callbacks: false means that the batch was not taken and that the watch
     * lags until service_watch_resume(). Must not begin or end watches. */
    bool (*deliver)(struct service_watch *watch, const struct watch_batch *batch);
    /* What it would be given next was compacted away; the watch has ended. */
    void (*compacted)(struct service_watch *watch, int64_t compacted_revision);
    /* The caller may not read these keys any more; the watch has ended. */
    void (*revoked)(struct service_watch *watch, enum status status);
    struct {
        struct watcher *watcher; /* NULL: it has not begun, or has ended */
        struct service *service;
        struct list link; /* of watches that are to be revoked */
        struct caller caller;
        uint64_t auth_generation; /* at which the caller's rights were checked */
    } private;
};
struct service_watch_options {
    struct key_range range; /* borrowed for the call */
    int64_t start_revision; /* 0 or less: from now on */
    bool without_puts;
    bool without_deletes;
};
/* Delivers nothing before it returns. The caller looks itself whether the start was compacted.
 * Anything but STATUS_OK: refused, and nothing was begun. */
enum status service_watch(struct service *service, const struct caller *caller,
                          struct service_watch *watch, const struct service_watch_options *options);
/* Harmless when it has ended, or was zeroed and never begun. */
void service_unwatch(struct service *service, struct service_watch *watch);
/* It can take more again. */
void service_watch_resume(struct service *service, struct service_watch *watch);
/* True when nothing is owed: a progress notification may claim the store's revision. */
bool service_watch_is_current(struct service *service, const struct service_watch *watch);

/* Leadership given to another member. */
struct service_transfer {
    /* STATUS_OK: it leads. STATUS_TIMED_OUT: it did not take over; we may still lead. */
    void (*done)(struct service_transfer *transfer, enum status status);
};
/* STATUS_PENDING: done() is called later. STATUS_NO_LEADER: this node does not lead.
 * STATUS_INVALID: no such member. STATUS_TOO_MANY_REQUESTS: one is under way. STATUS_OK: it leads
 * already. */
enum status service_move_leader(struct service *service, const struct caller *caller,
                                struct service_transfer *transfer, uint64_t member_id);

/* A change of the cluster's members. */
struct service_change {
    uint64_t id; /* of the member; of a new one it is set when the change is done */
    /* STATUS_OK: all nodes know, and raft follows. STATUS_MEMBER_…, _PEER_URL_EXISTS,
     * _TOO_MANY_LEARNERS, _TOO_MANY_MEMBERS, _MEMBERS_NOT_ENOUGH, _UNHEALTHY: nothing was changed.
     * _NO_LEADER, _LEADER_CHANGED, _TIMED_OUT: it may still come about. */
    void (*done)(struct service_change *change, enum status status);
};
/* Any node may be asked. The facts are borrowed for the call: of a new member its role and its peer
 * URLs, of another its id and what changes. done() is always called, later. */
void service_change_members(struct service *service, const struct caller *caller,
                            struct service_change *change, enum member_action action,
                            const struct member_facts *facts);

/* For what has no keys and changes nothing: the caller must be a user that is known, or one with
 * the role "root". STATUS_OK, or why not (STATUS_USER_EMPTY, _AUTH_TOKEN_INVALID,
 * _PERMISSION_DENIED). `what` names the request, for the log. */
enum status service_check_user(struct service *service, const struct caller *caller,
                               const char *what);
enum status service_check_admin(struct service *service, const struct caller *caller,
                                const char *what);

/* The state, to be read in this iteration (after a service_read()). */
const struct state_view *service_view(const struct service *service);
/* Whether a read on the loop that is so much work (key_work.h) may run now. False: others have had
 * their share of this iteration of the loop; it is to be refused with STATUS_TOO_MANY_REQUESTS. */
bool service_allow_work(struct service *service, size_t work);

/* Which commands may be used: see cluster_version.h. What needs a later version is refused with
 * STATUS_UNSUPPORTED. */
uint32_t service_cluster_version(struct service *service);
/* Monotonic time. */
uint64_t service_now_ms(struct service *service);
/* Another number before and after each poll of the loop: what hardly ever changes need not be asked
 * for by every request. */
uint64_t service_iteration(const struct service *service);

/*
 * A read that takes long: a view of the state, read by a worker while the loop goes on. It is read
 * in parts: run() in the worker, then ran() on the loop, which asks for the next part when it has
 * room for it, or ends the scan. Views are few and others wait for them: a scan that is not
 * continued is revoked after a while.
 */
enum service_scan_state {
    SCAN_WAITING,    /* for a view */
    SCAN_CONTINUING, /* for a worker */
    SCAN_RUNNING,
    SCAN_IDLE, /* until service_scan_continue() or service_scan_end() */
    SCAN_ENDED
};
struct service_scan {
    struct snapshot_view *view; /* from the first run() on */
    /* In a worker: may use the view and what belongs to the scan, and nothing else. */
    void (*run)(struct service_scan *scan);
    void (*ran)(struct service_scan *scan);
    /* service_scan_end() has to follow at once. Not while it runs. STATUS_TOO_MANY_REQUESTS: the
     * view is needed elsewhere. STATUS_AUTH_OLD_REVISION, or a refusal: the caller's rights changed
     * before there was a view. */
    void (*revoked)(struct service_scan *scan, enum status status);
    /* Not 0: the keys of this lease will be shown, and the caller must be allowed to read them. */
    int64_t lease_id;
    /* The whole state will be shown: the caller must be an administrator. */
    bool is_whole;
    struct {
        struct service *service;
        enum service_scan_state state;
        struct list link;
        struct caller caller;
        uint64_t auth_generation; /* at which its rights were checked */
        enum status refused;      /* why it may not begin any more */
        uint64_t opened_ms;
        uint64_t idle_since_ms;
    } private;
};
/* The ranges are those that will be read. STATUS_PENDING: run() follows, on a state at least as new
 * as now. STATUS_TOO_MANY_REQUESTS, or any other: refused. */
enum status service_scan_start(struct service *service, const struct caller *caller,
                               struct service_scan *scan, const struct key_range *ranges,
                               size_t n_ranges);
/* Inside ran() or later: the next part. */
void service_scan_continue(struct service_scan *scan);
/* Gives the view back. False: it runs just now, ran() follows, and then it has to be ended. */
bool service_scan_end(struct service_scan *scan);

/* What is known of a member. Texts belong to the service. URL lists end with NULL. */
struct service_member {
    uint64_t id;
    const char *name;
    const char *const *client_urls;
    const char *const *peer_urls;
    bool is_learner;
    bool is_started;
};

struct service_info {
    uint64_t cluster_id;
    uint64_t member_id;
    uint64_t leader_id;       /* 0: none */
    uint32_t cluster_version; /* see cluster_version.h */
    bool is_learner;          /* this node does not vote, or not yet */
    uint64_t term;
    uint64_t last_index;
    uint64_t applied_index;
    uint64_t disk_bytes;      /* log and snapshots */
    size_t log_bytes;         /* of entries held in memory */
    uint64_t snapshots;       /* taken since the start */
    uint64_t entries;         /* proposed since the start */
    uint64_t commands;        /* in those entries */
    uint64_t renewals;        /* since the start */
    uint64_t expired;         /* leases, since the start */
    uint64_t checkpoints;     /* of leases that were not renewed in time, since the start */
    uint64_t unauthenticated; /* requests refused because their caller is not known */
    uint64_t denied;          /* requests refused because their caller may not */
    /* How late leases expired, from deadline to applied; upper bounds in
     * service_lateness_bounds_ms, the last bucket is open. */
    uint64_t lateness_buckets[12];
    uint64_t lateness_sum_ms;
    /* CPU time of the loop's thread in one iteration, in which everybody waits: the most of all,
     * and how many took SERVICE_SLOW_ITERATION_MS or more. */
    uint64_t loop_cpu_ms_max;
    uint64_t slow_iterations;
};
enum { SERVICE_SLOW_ITERATION_MS = 100 };
extern const uint32_t service_lateness_bounds_ms[11];

/* A member that was heard of with other timers than ours. */
struct service_timers {
    uint64_t member_id;
    uint32_t heartbeat_ms;
    uint32_t election_ms;
};
/* Those members; at most `capacity`. Returns how many were written. */
size_t service_differing_timers(struct service *service, struct service_timers *out_timers,
                                size_t capacity);

void service_info(struct service *service, struct service_info *out_info);
/* The members; at most `capacity`. Returns how many there are. */
size_t service_members(struct service *service, struct service_member *out_members,
                       size_t capacity);

#endif
