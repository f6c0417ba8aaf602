/*
 * What the files of this folder share: the service itself. Proposals (proposals.c) become entries,
 * entries come back to be applied (apply.c), the leader watches deadlines (expiry.c) and the disk
 * (disk_watch.c), snapshots cut the log (log_size.c).
 */
#ifndef LEASED_REPLICATION_SERVICE_INTERNAL_H
#define LEASED_REPLICATION_SERVICE_INTERNAL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/list.h"
#include "core/service.h"
#include "replication/births.h"
#include "replication/leader_lease.h"
#include "replication/lease_clock.h"
#include "replication/peer_transport.h"
#include "replication/peers.h"
#include "replication/raft_guard.h"
#include "replication/replication.h"

#include <raft.h>
#include <raft/uv.h>
#include <stdbool.h>
#include <uv.h>

enum {
    /* Entries on their way at once. While these are, what arrives is gathered into the next one. */
    PROPOSALS_IN_FLIGHT_MAX = 4,
    /* Leases ended by one entry: few enough that applying it holds nobody up for long. */
    EXPIRY_BATCH_MAX = 2048,
    EXPIRY_IN_FLIGHT_MAX = 2,
    LATENESS_BUCKETS = 12,
    /* Those of the table and, for a while, those that were removed from it. */
    LINKS_MAX = 4 * MEMBERS_MAX,
    /* A request that found no leader, or whose leader went silent, is given up. */
    PROPOSAL_TIMEOUT_MS = 5000,
    /* The answer leaves at the end of this turn of the loop; the deadline is counted from then
     * (safety rule 2), so that the holder always stops first. */
    ANSWER_MARGIN_MS = 2
};

/* Bytes of commands waiting or on their way; more are refused. */
#define PROPOSALS_BYTES_MAX ((size_t)64 * 1024 * 1024)

/* The requests of one entry, in the order of its commands. */
struct proposal {
    struct raft_apply apply;
    struct service *service;
    struct list link;
    struct list requests;
    uint64_t sequence;
    uint64_t submitted_ms;
    uint64_t n_commands;
    struct buffer commands; /* until it is handed on */
    uint64_t forwarded_to;  /* the leader that was asked to propose it; 0: we propose it */
    bool is_of_peer;        /* proposed for another node: nobody here waits for it */
};

/* What a server of raft's configuration has been told to be committed. */
struct announced {
    uint64_t id;
    uint64_t index;
};

struct expiry_batch {
    struct service_request request;
    struct service *service;
    bool in_flight;
    size_t n;
    int64_t ids[EXPIRY_BATCH_MAX];
    uint32_t epochs[EXPIRY_BATCH_MAX];
    uint64_t due_ms[EXPIRY_BATCH_MAX];
};

struct service {
    uv_loop_t *loop;
    struct replication_options options;
    struct raft raft;
    struct peer_transport transport;
    struct raft_fsm fsm;
    struct raft_guard guard;
    struct state_machine *machine;
    bool failed;
    bool closing;
    void (*closed)(void *data);
    void *closed_data;

    /* proposals.c */
    uint64_t incarnation;
    uint64_t sequence;           /* of the newest proposal */
    uint64_t sequence_applied;   /* of the newest one of ours that was applied */
    struct proposal *open;       /* gathering; NULL: none */
    struct buffer free_commands; /* room for the next one to gather in */
    struct list ready;           /* gathered, waiting for room in flight */
    struct list in_flight;       /* given to raft and not applied yet, oldest first */
    size_t n_in_flight;
    size_t pending_bytes;
    struct list refused[STATUS_COUNT]; /* requests to be told so at the end of the turn */
    bool has_refused;
    uint32_t lease_id_prefix;
    uint32_t lease_id_counter;

    /* leadership.c */
    uint64_t barrier_term; /* the term whose first entry has been proposed; 0: none */
    bool serving;          /* leader, and an entry of this term was applied */
    struct service_request barrier;

    /* cluster.c */
    struct peers *peers; /* NULL: this node is alone */
    struct leader_lease lease;
    struct voter_promise promise;
    struct list waiting_reads;
    struct list peer_reads;
    struct list held_renewals;                   /* until there is a leader that may answer them */
    uint64_t token;                              /* the newest given to a question */
    uint64_t ping_ms;                            /* when the last round went out */
    uint64_t knock_ms;                           /* when raft's connections were last tried */
    struct announced announced[2 * MEMBERS_MAX]; /* in the order of raft's configuration */
    uint64_t last_leader_id;
    uint64_t leader_heard_ms; /* when it last spoke to us */
    bool was_authority;
    uv_timer_t ping_timer;
    uv_timer_t election_timer;
    uint64_t election_due_ms; /* what it is armed for, by raft's clock; 0: it is not */
    struct raft_transfer transfer;
    bool is_transferring;
    bool is_transfer_begun; /* raft has been asked */
    uint64_t transfer_to;   /* 0: to whoever is fit, because we stop */
    struct service_transfer *transfer_request;
    bool is_raft_closing;
    uint64_t transfer_since_ms;
    bool is_handed_over; /* somebody else leads now, or nobody would: raft may be closed */

    /* members.c */
    uint64_t members_version; /* of the table, when it was last looked at */
    uint64_t members_ms;      /* when that was */
    size_t n_linked;
    uint64_t linked[LINKS_MAX]; /* whom peers.c keeps a link to */
    size_t n_seen;
    uint64_t seen[LINKS_MAX]; /* who opened a connection to us */
    struct service_request publish;
    bool is_publishing;
    uint64_t published_ms;
    bool is_turned_away;
    struct births births; /* as they are stored */
    struct service_request begin;

    /* force_new_cluster.c */
    struct service_request forced;
    bool is_forcing;     /* a change of the table is under way */
    bool is_forced_done; /* the table names this member alone */

    /* reconfigure.c */
    struct raft_change change;
    bool is_changing;
    uint64_t changing_ms;

    /* member_changes.c */
    struct list changes;

    /* expiry.c */
    struct expiry_batch *expiry[EXPIRY_IN_FLIGHT_MAX];
    struct list waiting_renewals;
    uint64_t turn_ms;       /* when the loop last came round */
    uint64_t turn_work_ms;  /* what this thread had worked until then */
    uint64_t polled_ms;     /* what came before this has been read when polling is over: the lease
                             * clock's time */
    uint64_t hold_until_ms; /* after a stall or an election nothing expires before this */
    bool is_held;           /* see there */
    uv_timer_t expiry_timer;
    uint64_t expiry_timer_ms; /* when it fires; UINT64_MAX: not running */
    struct lease_clock lease_clock;
    uint64_t loaded_index; /* the last entry that was in the log when this process started */
    uint64_t loaded_ms;    /* the lease clock's time then */

    /* checkpoints.c */
    size_t n_noting;                   /* batches on their way */
    struct checkpoint_batch *clearing; /* gathering; NULL: none */

    /* apply.c */
    struct arena arena;
    struct snapshot_view *view; /* of the snapshot being made; NULL: none */
    size_t n_snapshot_jobs;     /* snapshots being made for clients */
    bool reclaiming;
    uv_idle_t idle; /* runs while there is background work */
    bool idle_runs;

    /* log_size.c */
    size_t log_bytes;         /* applied since the last snapshot */
    size_t log_bytes_at_view; /* of which the one being made covers this much */
    size_t log_entries;       /* the same in entries */
    size_t log_entries_at_view;
    size_t snapshot_bytes; /* size of the last snapshot */

    /* disk_watch.c */
    uv_timer_t disk_timer;
    uv_work_t disk_work;
    bool disk_probing;
    int disk_errno;
    uint64_t snapshot_begun_ms;
    uint64_t disk_bytes; /* as it was at disk_bytes_ms */
    uint64_t disk_bytes_ms;

    uv_prepare_t prepare;
    uv_check_t check;
    unsigned n_handles_open;

    struct service_info counters; /* only its counters are used */
};

/* proposals.c */
void proposals_init(struct service *service);
void proposals_clear(struct service *service);
/* Hands what was gathered to raft, as far as there is room. */
void proposals_flush(struct service *service);
/* Takes out the oldest proposal that has not been applied if it is this one, else NULL. It stays
 * alive until raft is done with it. */
struct proposal *proposals_match(struct service *service, uint64_t sequence);
/* Fails everything that has not been applied. */
void proposals_fail_all(struct service *service, enum status status);
void proposals_refuse(struct service *service, struct service_request *request, enum status status);
/* Submits although the service does not serve yet: the first entry of a term. */
void proposals_submit(struct service *service, struct service_request *request,
                      const struct command *command);

/* Another node asks us, the leader, to propose. */
void proposals_of_peer(struct service *service, uint64_t from_id, const struct peer_frame *frame);
/* The leader did not propose it: it may be tried again. */
void proposals_refused_by_peer(struct service *service, uint64_t sequence);
/* What went over this link may or may not have been proposed. */
void proposals_link_lost(struct service *service, uint64_t id);
/* Gives up what has waited for too long. */
void proposals_turn(struct service *service, uint64_t leader_id, uint64_t now_ms);
void proposal_finish_forwarded(struct service *service, struct proposal *proposal);

/* leadership.c */
void leadership_poll(struct service *service);

/* cluster.c */
enum status cluster_open(struct service *service, char *out_error, size_t error_size);
void cluster_turn(struct service *service);
bool cluster_is_alone(const struct service *service);
/* True while this node may answer from memory: it leads, and nobody else can. */
bool cluster_is_authority(const struct service *service, uint64_t now_ms);
uint64_t cluster_leader(struct service *service);
/* This node leads from this term on. */
void cluster_lead(struct service *service, uint64_t term);
bool cluster_may_vote(void *data, uint64_t candidate_id);
/* This node follows nobody, or somebody whom it has not heard for an election timeout. */
bool cluster_is_leaderless(void *data);
/* Opens the port for peers, when there are some. STATUS_CANNOT_LISTEN with a reason. */
enum status cluster_open_peers(struct service *service, char *out_error, size_t error_size);

/* force_new_cluster.c */
/* The table of members still names some that --force-new-cluster gave up. */
bool force_new_cluster_is_pending(const struct service *service);
/* Proposes the next change of the table, when this node may. */
void force_new_cluster_poll(struct service *service, uint64_t now_ms);

/* members.c */
/* Of raft's newest configuration; NULL: it is none of them. */
const struct raft_server *members_server(const struct service *service, uint64_t id);
/* Where a member listens for peers; false: nobody knows. */
bool members_address(const struct service *service, uint64_t id,
                     char out_address[PEER_ADDRESS_SIZE_MAX + 1]);
enum peer_answer members_admit(void *data, uint64_t id, uint64_t birth);
void members_asked(void *data, uint64_t id, struct arena *arena, struct peer_frame *out_answer);
void members_turned_away(void *data, enum peer_answer answer);
/* What an earlier run of this process knew of the members' data directories. */
void members_remember(struct service *service);
/* The leader's lease rests on these from now on. */
void members_count_voters(struct service *service);
/* The command that writes down the first members; false: it has been done. */
bool members_begin(struct service *service, struct arena *arena, struct command *out_command);
bool members_is_learner(const struct service *service);
void members_turn(struct service *service, uint64_t now_ms);

/* reconfigure.c */
bool reconfigure_can_lose(const struct service *service, uint64_t id, uint64_t now_ms);
bool reconfigure_can_promote(const struct service *service, uint64_t id, uint64_t now_ms);
void reconfigure_turn(struct service *service, uint64_t now_ms);

/* member_changes.c */
void member_changes_turn(struct service *service, uint64_t now_ms);
/* Another node asks us, the leader. */
void member_changes_of_peer(struct service *service, uint64_t from_id,
                            const struct peer_frame *frame);
void member_changes_result(struct service *service, const struct peer_frame *frame);
void member_changes_link_lost(struct service *service, uint64_t id);
void member_changes_fail(struct service *service, enum status status);

/* questions.c */
void questions_turn(struct service *service, uint64_t leader_id, uint64_t now_ms);
/* Until there is a leader that may answer it. */
void questions_hold_renewal(struct service *service, struct service_renewal *renewal);
/* Questions on their way may be lost. */
void questions_ask_again(struct service *service);
void questions_fail(struct service *service, enum status status);
void questions_on_read(struct service *service, uint64_t from_id, const struct peer_frame *frame);
void questions_on_read_result(struct service *service, const struct peer_frame *frame);
void questions_on_renew(struct service *service, uint64_t from_id, const struct peer_frame *frame);
void questions_on_renew_result(struct service *service, const struct peer_frame *frame);

/* transfer.c */
void transfer_turn(struct service *service, uint64_t now_ms);
/* A leader that stops gives its lease up, then its leadership away, so that the others need not
 * wait for an election. False: there is nobody to hand over to. */
bool transfer_on_stop(struct service *service);
/* Gives leadership to whoever is most fit for it. */
void transfer_to_another(struct service *service);
/* The others are gone, too: nobody will take over. */
bool transfer_is_late(const struct service *service);

/* expiry.c */
/* Before anything is applied. */
void expiry_init_clock(struct service *service);
/* This node is no longer alone. */
void expiry_has_company(struct service *service);
void expiry_init(struct service *service);
void expiry_clear(struct service *service);
/* After polling: ends what is due, unless sockets must be read first. */
void expiry_run(struct service *service);
/* Leases are being ended. */
bool expiry_is_under_way(const struct service *service);
/* Before polling: sets the timer for the next deadline. */
void expiry_arm(struct service *service);
/* The time that leases run out on. */
uint64_t expiry_now_ms(const struct service *service);
/* There is a leader, so there is a quorum. */
void expiry_leader_seen(struct service *service, uint64_t now_ms);
/* service_renew() or service_time_left(), as the question says. */
enum status service_ask(struct service *service, struct service_renewal *renewal,
                        int64_t *out_ttl_ms);
/* The answer of a node that may give it. STATUS_PENDING: it is given later. */
enum status expiry_answer(struct service *service, struct service_renewal *renewal,
                          int64_t *out_ttl_ms);
void expiry_fail_renewals(struct service *service, enum status status);

/* checkpoints.c */
/* Before polling: proposes what the next leader must know, and what this turn has to clear. */
void checkpoints_turn(struct service *service);
/* The renewal is answered when the checkpoint of its lease is gone. */
void checkpoints_clear(struct service *service, struct service_renewal *renewal, uint32_t epoch);
/* Proposes what has been gathered to be cleared. */
void checkpoints_flush(struct service *service);

/* apply.c */
void apply_init(struct service *service);
/* Starts the background work when there is some. */
void apply_background(struct service *service);

/* log_size.c */
void log_size_added(struct service *service, size_t bytes);
void log_size_view_opened(struct service *service);
void log_size_stored(struct service *service);

/* disk_watch.c */
void disk_watch_init(struct service *service);
void disk_watch_stop(struct service *service);
/* The disk cannot be written, for the reason given: stops the node. */
void disk_watch_fail(struct service *service, int error_number);
/* Stops the node when the disk has no room for a snapshot of this size: raft_uv would give what it
 * wrote of it back, say nothing, and not try again for long. */
void disk_watch_expect(struct service *service, size_t snapshot_size);

/* service.c */
void service_fail(struct service *service, enum status status, const char *reason);
void service_close_raft(struct service *service);
extern const struct raft_guard_callbacks service_guard_callbacks;

#endif
