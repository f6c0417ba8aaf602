/*
 * What the files of this folder share: the service, made of one struct for each of them. Proposals
 * (proposals.c) become entries, entries come back to be applied (apply.c), the leader watches
 * deadlines (expiry.c), snapshots cut the log (snapshots.c). A file writes its own struct only.
 */
#ifndef LEASED_REPLICATION_SERVICE_INTERNAL_H
#define LEASED_REPLICATION_SERVICE_INTERNAL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/latency.h"
#include "base/list.h"
#include "core/service.h"
#include "peers/peers.h"
#include "raft/raft_engine.h"
#include "raft/raft_node.h"
#include "replication/data_dir_ids.h"
#include "replication/leader_lease.h"
#include "replication/lease_clock.h"
#include "replication/peer_frames.h"
#include "replication/promise_file.h"
#include "replication/replication.h"
#include "replication/version_inquiry.h"

#include <stdbool.h>
#include <uv.h>

enum {
    /* Entries on their way at once. While these are, what arrives is gathered into the next one. */
    PROPOSALS_IN_FLIGHT_MAX = 4,
    /* And their bytes: one more entry departs below this. */
    PROPOSALS_IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024,
    /* Entries that are not committed, beyond which other nodes' proposals are refused: more than
     * all members can have on their way if each keeps to PROPOSALS_IN_FLIGHT_MAX. And the bytes of
     * their proposals; nobody that keeps to PROPOSALS_IN_FLIGHT_BYTES_MAX is refused for its own.
     */
    PEER_PROPOSALS_MAX = 4 * MEMBERS_MAX * PROPOSALS_IN_FLIGHT_MAX,
    PEER_PROPOSALS_BYTES_MAX = 96 * 1024 * 1024,
    /* Leases ended by one entry: few enough that applying it holds nobody up for long. */
    EXPIRY_BATCH_MAX = 2048,
    EXPIRY_IN_FLIGHT_MAX = 2,
    LATENESS_BUCKETS = 12,
    /* Those of the table and, for a while, those that were removed from it. */
    LINKS_MAX = 4 * MEMBERS_MAX,
    /* A request that found no leader, or whose leader went silent, is given up. */
    PROPOSAL_TIMEOUT_MS = 5000,
    /* The answer leaves at the end of this iteration of the loop; the deadline is counted from then
     * (safety rule 2), so that the holder always stops first. */
    ANSWER_MARGIN_MS = 2
};

/* Bytes of commands waiting or on their way; more are refused. */
#define PROPOSALS_BYTES_MAX ((size_t)64 * 1024 * 1024)

/* Work of transactions that are waiting or on their way. While there is as much, those that are
 * much work are refused; what others submit waits some fifty milliseconds for it. */
enum { PROPOSALS_WORK_MAX = 2 * 1024 * 1024, PROPOSALS_WORK_MUCH = 1024 };

/* The requests of one entry, in the order of its commands. */
struct proposal {
    struct list link;
    struct list requests;
    uint64_t sequence;
    uint64_t submitted_ms;
    uint64_t submitted_us;
    uint64_t term; /* in which we proposed or forwarded it */
    uint64_t n_commands;
    size_t work;            /* that its transactions may be: see txn_estimate.h */
    struct buffer commands; /* until it is handed on */
    size_t size;            /* of the commands, once it is */
    uint64_t forwarded_to;  /* the leader that was asked to propose it; 0: we propose it */
};

/* proposals.c */
struct proposals {
    uint64_t incarnation;
    uint64_t sequence;           /* of the newest proposal */
    uint64_t sequence_applied;   /* of the newest one of ours that was applied */
    uint64_t sequence_left_out;  /* the newest number that no proposal has */
    uint64_t forwards_to;        /* whom the newest one was forwarded to; 0: proposed here */
    uint64_t forwards_term;      /* in which that was */
    struct proposal *open;       /* gathering; NULL: none */
    struct buffer free_commands; /* room for the next one to gather in */
    struct list ready;           /* gathered, waiting for room in flight */
    struct list in_flight;       /* proposed or forwarded, and not applied yet, oldest first */
    size_t n_in_flight;
    size_t in_flight_bytes;
    size_t pending_bytes;
    size_t pending_work;               /* of all that are gathering, waiting or on their way */
    struct list refused[STATUS_COUNT]; /* requests to be told so at the end of the iteration */
    bool has_refused;
    bool is_state_replaced; /* by a snapshot, since proposals_flush() looked */
    uint32_t lease_id_prefix;
    uint32_t lease_id_counter;
};

/* peer_proposals.c */
struct peer_proposal {
    uint64_t index; /* of its entry */
    uint64_t from_id;
    size_t bytes;
};

/* The newest proposal of a member. */
struct peer_order {
    uint64_t from_id; /* 0: none */
    uint64_t incarnation;
    uint64_t sequence;
    uint64_t term; /* in which it was taken; 0: it was refused */
};

struct peer_proposals {
    uint64_t term; /* in which they were proposed */
    struct peer_proposal ring[PEER_PROPOSALS_MAX];
    size_t first;
    size_t n;
    size_t bytes; /* of all */
    struct peer_order orders[MEMBERS_MAX];
};

/* leadership.c */
struct leadership {
    uint64_t term; /* in which this node leads and has proposed its first entry; 0: none */
    bool serving;  /* leader, and an entry of this term was applied */
    /* The newest term in which raft said that this node leads, and what was committed at that
     * moment. */
    uint64_t elected_term;
    uint64_t elected_commit;
};

/* forwarding.c */
struct forwarding {
    struct list waiting_reads;
    bool has_ready_reads; /* some of them are to be answered in the next iteration */
    struct list peer_reads;
    size_t n_peer_reads;
    uint64_t request_id; /* the newest given to a question */
};

/* renewals.c */
enum { RENEWAL_SLOTS = 1024 };
struct renewals {
    struct list held;                 /* until a leader may answer them, or is asked for them */
    struct list asked[RENEWAL_SLOTS]; /* of the leader, by request_id */
    size_t n_asked;
    size_t n_peer_questions; /* of other nodes, wherever they wait */
    uint64_t looked_ms;      /* when all that wait were last looked at */
};

/* A member that has been told of a commit. */
struct announced {
    uint64_t id;
    uint64_t index;
};

/* cluster.c */
struct cluster {
    uint64_t ping_ms;                            /* when the last round went out */
    struct announced announced[2 * MEMBERS_MAX]; /* in the order of raft's configuration */
    uint64_t last_leader_id;
    uint64_t leader_heard_ms; /* when it last spoke to us */
    bool was_authority;
    uv_timer_t ping_timer;
    uv_timer_t raft_timer;
    uint64_t raft_timer_ms; /* what it is armed for; UINT64_MAX: it is not */
    size_t n_timers;
    struct service_timers timers[LINKS_MAX]; /* as the members said in their hello */
    /* Listening while there are no members but this one; service->peers once there are. */
    struct peers *lone_peers;
};

/* transfer.c */
struct transfer {
    bool is_under_way;
    bool is_begun;  /* raft has been asked */
    uint64_t to_id; /* 0: to whoever is fit, because we stop */
    uint64_t since_ms;
    struct service_transfer *request;
    bool is_over; /* while closing: somebody else leads now, or nobody would */
};

/* A member that opened a connection to us, and where it said that it listens. */
struct seen_member {
    uint64_t id;
    char address[PEER_ADDRESS_SIZE_MAX + 1];
};

/* members.c */
struct members {
    uint64_t version;    /* of the table, when it was last looked at */
    uint64_t checked_ms; /* when that was */
    size_t n_linked;
    uint64_t linked[LINKS_MAX]; /* whom peers keeps a link to */
    size_t n_seen;
    struct seen_member seen[LINKS_MAX]; /* who opened a connection to us */
    uint64_t candidate_id; /* who asked last for this node's vote and is no member; 0: nobody */
    struct service_request request; /* that publishes this member */
    bool is_publishing;
    uint64_t published_ms;
    bool is_turned_away;
    uint64_t removed_ms; /* since when others say that this member was removed; 0: they do not */
    struct data_dir_ids data_dir_ids; /* as they are stored */
    bool is_warned;                   /* that users are asked for while members are not */
};

/* What a member has said that it knows. */
struct heard_version {
    uint64_t id;
    uint32_t version;
    uint64_t heard_ms;
};

/* versions.c */
struct versions {
    size_t n;
    struct heard_version heard[LINKS_MAX];
    bool is_raising; /* it has been proposed */
};

/* force_new_cluster.c */
struct force_new_cluster {
    struct service_request request;
    bool is_asked; /* it is under way */
    bool request_is_key;
    bool has_new_key; /* of tokens */
    bool is_done;
};

struct expiry_batch {
    struct service_request request;
    struct service *service;
    bool in_flight;
    size_t work; /* that ending them may be, in units of key_work.h */
    size_t n;
    int64_t ids[EXPIRY_BATCH_MAX];
    uint32_t epochs[EXPIRY_BATCH_MAX];
    uint64_t due_ms[EXPIRY_BATCH_MAX];
};

/* expiry.c */
/* A renewal whose caller may write the keys of the lease, and what that depends on. */
enum { ALLOWED_RENEWALS = 256 };
struct allowed_renewal {
    int64_t id;
    uint64_t user_id;
    uint64_t auth_version;
    uint64_t auth_generation;
    int64_t revision;
};
struct expiry {
    struct allowed_renewal allowed[ALLOWED_RENEWALS];
    struct expiry_batch *batches[EXPIRY_IN_FLIGHT_MAX];
    struct list waiting_renewals;
    uint64_t iteration_ms;      /* when the loop last came round */
    uint64_t iteration_work_ms; /* what this thread had worked until then */
    uint64_t polled_ms;         /* what came before this has been read when polling is over: the
                                 * lease clock's time */
    uint64_t hold_until_ms;     /* after a stall or an election nothing expires before this */
    bool is_held;               /* see there */
    uint64_t pause_until_ms;    /* by the lease clock: the last ends were much work */
    uint64_t long_until_us;     /* the same: the time of long keys that ended under pressure */
    uint64_t put_off_us;        /* until then: the last lease that waits for such time */
    uint64_t oldest_due_ms;     /* of those that wait, which comes next */
    uint64_t oldest_until_ms;   /* when; in the past: none does */
    uv_timer_t timer;
    uint64_t timer_ms; /* when it fires; UINT64_MAX: not running */
    struct lease_clock clock;
    uint64_t loaded_ms; /* the lease clock's time when this process had read its log */
};

/* checkpoints.c */
struct checkpoints {
    size_t n_noting;                   /* batches on their way */
    struct checkpoint_batch *clearing; /* gathering; NULL: none */
};

/* snapshots.c */
struct snapshots {
    struct snapshot_view *view; /* of the snapshot being made; NULL: none */
    size_t log_bytes;           /* applied since the last snapshot */
    size_t log_bytes_at_view;   /* of which the one being made covers this much */
    size_t log_work;            /* the same in work of transactions and rules: see key_work.h */
    size_t log_work_at_view;
    size_t log_entries; /* the same in entries */
    size_t log_entries_at_view;
    size_t last_size;    /* of the last snapshot */
    uint64_t disk_bytes; /* as it was at disk_bytes_ms */
    uint64_t disk_bytes_ms;
};

/* quota.c */
struct quota {
    uint64_t bytes;
    uint64_t history_bytes_max; /* more is compacted */
    struct service_request alarm;
    bool is_alarming;
    struct service_request compaction;
    int64_t compaction_revision;
    bool is_compacting;
    int64_t seen_revision; /* when sizes were last looked at */
    uint64_t seen_lease_bytes;
    int64_t pressed_revision; /* compacted when there was last no pressure, or some was relieved */
    uint64_t pressed_ms;      /* when that was */
    uint64_t kept_until_us;   /* the time of values that were written again under pressure */
};

/* refusals.c */
struct refusals {
    uint64_t since_ms; /* the interval that is being counted */
    uint64_t n;        /* in it */
};

/* scans.c */
enum {
    /* Parts of scans that run at the same time: our own snapshots need a worker, too. */
    SCANS_RUNNING_MAX = 2
};
struct scan_job {
    uv_work_t work;
    struct service_scan *scan; /* NULL: free */
};
struct scans {
    struct scan_job jobs[SCANS_RUNNING_MAX];
    struct list waiting;    /* for a view */
    struct list continuing; /* for a worker */
    struct list open;       /* with a view, and nothing to do */
    struct list refused;    /* have waited, and may not begin any more */
    size_t n_waiting;
    size_t n_open;          /* views */
    uint64_t first_open_ms; /* since when there is one, without a pause in which all was freed */
    uint64_t last_end_ms;   /* when the last one was closed */
    uv_timer_t timer;       /* runs while there are any */
    bool is_looking;
    bool is_closing;
    bool prefers_new; /* next time, if there are both */
};

/* monitor.c */
struct monitor {
    struct latency commits;
    struct latency applies;
    uint64_t slow_applies;
    uint64_t slow_logged_ms;
    uint64_t
        change_refused_ms; /* when it was last logged that members cannot be changed; 0: never */
    uint64_t leader_changes;
    uint64_t leader_id; /* the last that was seen */
    uint64_t proposals_failed;
    uint64_t ping_failures;
    uint64_t pinged_ms; /* when the newest round of pings was sent, as they say */
    uint64_t pinged_us; /* the same, better */
    struct {
        uint64_t id; /* 0: free */
        struct latency latency;
    } round_trips[LINKS_MAX];
};

/* Work that can wait: apply.c. */
struct background {
    bool is_reclaiming;
    uv_idle_t handle; /* runs while there is some */
    bool is_running;
};

struct service {
    uv_loop_t *loop;
    struct replication_options options;
    struct state_machine *machine;
    struct raft_files files;
    struct raft_node *node;
    struct raft_engine *engine; /* of the node */
    struct peers *peers;        /* NULL: this node is alone */
    struct arena arena;
    bool failed;
    bool closing;
    bool is_node_closing;
    void (*closed)(void *data);
    void *closed_data;
    uv_prepare_t prepare;
    uv_check_t check;
    uint64_t iteration; /* see service_iteration() */
    unsigned n_handles_open;

    struct proposals proposals;
    struct peer_proposals peer_proposals;
    struct leadership leadership;
    struct forwarding forwarding;
    struct renewals renewals;
    struct cluster cluster;
    struct leader_lease leader_lease;
    struct voter_promise promise;
    struct promise_file promise_file;
    struct transfer transfer;
    struct members members;
    struct versions versions;
    struct force_new_cluster force_new_cluster;
    struct version_inquiry version_inquiry;
    struct list changes;   /* member_changes.c */
    size_t n_peer_changes; /* of other nodes, on their way */
    struct expiry expiry;
    struct checkpoints checkpoints;
    struct snapshots snapshots;
    struct scans scans;
    struct background background;
    struct monitor monitor;
    uint64_t unreadable_ms; /* when an entry was last refused, see apply_check(); 0: never */
    size_t read_work;       /* of reads on the loop in this iteration: see service_allow_work() */
    struct refusals refusals;
    struct quota quota;
    struct list revoked_watches;  /* watches.c */
    struct service_info counters; /* only its counters are used */
};

/* quota.c */
void quota_init(struct service *service);
/* STATUS_NO_SPACE: the request would not fit the quota, and the alarm is raised.
 * STATUS_TOO_MANY_REQUESTS: it would once history is freed, which goes on. */
enum status quota_check(struct service *service, const struct command *command);
/* Of values that the command writes again without bringing them along; 0 for small ones. */
size_t quota_work_of_kept(const struct service *service, const struct command *command);
/* The leader compacts history that takes too much memory. */
void quota_poll(struct service *service, uint64_t now_ms);

/* proposals.c */
void proposals_init(struct service *service);
void proposals_clear(struct service *service);
/* Proposes what was gathered, or sends it to the leader, as far as there is room. */
void proposals_flush(struct service *service);
/* The proposal in flight with this number; NULL: none. */
struct proposal *proposals_match(struct service *service, uint64_t sequence);
/* It was applied and its requests have been answered. */
void proposals_finish(struct service *service, struct proposal *proposal);
/* Fails everything that has not been applied. */
void proposals_fail_all(struct service *service, enum status status);
/* What we proposed in a term that is over may or may not be committed. */
void proposals_leadership_lost(struct service *service);
void proposals_refuse(struct service *service, struct service_request *request, enum status status);
/* Submits although the service does not serve yet: the first entry of a term. */
void proposals_submit(struct service *service, struct service_request *request,
                      const struct command *command);
/* Of one command, encoded: --max-request-bytes, as far as every member takes it. */
size_t proposals_command_size_max(const struct service *service);
/* Gives the commands to raft, as an entry of whoever gathered them; sets the header's term, index
 * and time. STATUS_NO_LEADER. */
struct log_entry_header;
enum status proposals_propose(struct service *service, struct log_entry_header *header,
                              struct bytes commands);
/* The leader did not propose it. STATUS_REQUEST_TOO_LARGE and STATUS_TOO_MANY_REQUESTS are told;
 * with anything else it may be tried again. */
void proposals_refused_by_peer(struct service *service, uint64_t from_id, uint64_t sequence,
                               enum status status);
/* What went over this link may or may not have been proposed. */
void proposals_link_lost(struct service *service, uint64_t id);
/* A snapshot took the place of entries that were never applied here: what was forwarded may be
 * among them. */
void proposals_state_replaced(struct service *service);
/* Gives up what has waited for too long. */
void proposals_poll(struct service *service, uint64_t leader_id, uint64_t now_ms);

/* peer_proposals.c */
/* Another node asks us, the leader, to propose. */
void peer_proposals_take(struct service *service, uint64_t from_id, const struct peer_frame *frame);

/* leadership.c */
void leadership_poll(struct service *service);
/* Within the step in which raft's role or term changed. */
void leadership_role_changed(void *data);

/* cluster.c */
enum status cluster_open(struct service *service, char *out_error, size_t error_size);
void cluster_poll(struct service *service);
/* Other members are known, or must be heard of, from the start. */
bool cluster_has_company(const struct service *service);
bool cluster_is_alone(const struct service *service);
/* True while this node may answer from memory: it leads, and nobody else can. */
bool cluster_is_authority(const struct service *service, uint64_t now_ms);
uint64_t cluster_leader(struct service *service);
/* This node leads from this term on. */
void cluster_lead(struct service *service, uint64_t term);
bool cluster_may_vote(void *data, uint64_t candidate_id);
/* This node follows nobody, or somebody whom it has not heard for an election timeout. */
bool cluster_is_leaderless(void *data);
/* Opens the port for peers before there are some, where that is asked for. */
void cluster_listen_alone(struct service *service);
/* Opens the port for peers, when there are some. STATUS_CANNOT_LISTEN with a reason. */
enum status cluster_open_peers(struct service *service, char *out_error, size_t error_size);
/* False: the link is down or full. */
bool cluster_send(struct service *service, uint64_t to_id, const struct peer_frame *frame);
/* What raft sends. */
size_t cluster_room(void *data, uint64_t to_id);
struct buffer *cluster_frame_begin(void *data, uint64_t to_id, bool is_urgent);
void cluster_frame_end(void *data, uint64_t to_id);

/* members.c */
/* Of raft's newest configuration; NULL: it is none of them. */
const struct raft_config_server *members_server(const struct service *service, uint64_t id);
/* Where a member listens for peers; false: nobody knows. */
bool members_address(const struct service *service, uint64_t id,
                     char out_address[PEER_ADDRESS_SIZE_MAX + 1]);
enum peer_answer members_admit(void *data, const struct peer_hello *hello);
void members_asked(void *data, uint64_t id, struct buffer *out_body);
void members_turned_away(void *data, uint64_t by_id, enum peer_answer answer);
/* What an earlier run of this process knew of the members' data directories. */
void members_remember(struct service *service);
/* The leader's lease rests on these from now on. */
void members_count_voters(struct service *service);
/* The command that writes down the first members; false: it has been done. */
bool members_begin(struct service *service, struct arena *arena, struct command *out_command);
/* Only who has a certificate of ours, or the secret, is a member. */
bool members_are_proven(const struct service *service);
bool members_is_learner(const struct service *service);
/* Asked for this node's vote, and is to hear the answer. */
void members_note_candidate(struct service *service, uint64_t id);
void members_poll(struct service *service, uint64_t now_ms);

/* versions.c */
/* The newest version of the cluster that this member knows. */
uint32_t versions_known(const struct service *service);
/* What a pong says in the place of the ping's lease_ms. */
uint32_t versions_pong(const struct service *service, uint32_t lease_ms);
void versions_heard(struct service *service, uint64_t from_id, uint32_t lease_ms);
/* The process there may be another one the next time. */
void versions_forget(struct service *service, uint64_t id);
/* A term begins. Alone, the version is raised with its first entry. */
void versions_lead(struct service *service);
/* Raises the version when all members know more. */
void versions_poll(struct service *service, uint64_t now_ms);
/* STATUS_UNSUPPORTED: some member may not know it. */
enum status versions_allow(const struct service *service, const struct command *command);

/* force_new_cluster.c */
/* The flag was given and others still are in the table of members. */
bool force_new_cluster_is_pending(const struct service *service);
void force_new_cluster_poll(struct service *service, uint64_t now_ms);

/* reconfigure.c */
bool reconfigure_can_lose(const struct service *service, uint64_t id, uint64_t now_ms);
bool reconfigure_can_promote(const struct service *service, uint64_t id, uint64_t now_ms);
void reconfigure_poll(struct service *service, uint64_t now_ms);

/* member_changes.c */
void member_changes_poll(struct service *service, uint64_t now_ms);
/* Another node asks us, the leader. */
void member_changes_of_peer(struct service *service, uint64_t from_id,
                            const struct peer_frame *frame);
void member_changes_result(struct service *service, uint64_t from_id,
                           const struct peer_frame *frame);
void member_changes_link_lost(struct service *service, uint64_t id);
void member_changes_fail(struct service *service, enum status status);

/* forwarding.c */
enum {
    /* A question that found no leader for so long is given up. */
    FORWARDING_TIMEOUT_MS = 5000
};
void forwarding_poll(struct service *service, uint64_t leader_id, uint64_t now_ms);
/* There is another leader, or another link to it: what was asked is asked again. */
void forwarding_ask_again(struct service *service);
void forwarding_fail(struct service *service, enum status status);
void forwarding_on_read(struct service *service, uint64_t from_id, const struct peer_frame *frame);
void forwarding_on_read_result(struct service *service, uint64_t from_id,
                               const struct peer_frame *frame);
/* A question that is not on its way. */
bool forwarding_may_ask(uint64_t request_id, uint64_t sent_ms, uint64_t now_ms);
/* An answer is lost when the leader has no link to us yet, or no room on it: the question is asked
 * once more, under the same number, so that a late answer counts too. */
bool forwarding_is_overdue(const struct service *service, uint64_t sent_ms, uint64_t now_ms);
/* Only the leader was asked. */
bool forwarding_is_of_leader(const struct service *service, uint64_t from_id);

/* renewals.c */
void renewals_init(struct service *service);
/* Until the leader may answer it, or this node leads; then done() is called. */
void renewals_hold(struct service *service, struct service_renewal *renewal);
void renewals_poll(struct service *service, uint64_t leader_id, uint64_t now_ms);
void renewals_ask_again(struct service *service);
void renewals_fail(struct service *service, enum status status);
void renewals_on_renew(struct service *service, uint64_t from_id, const struct peer_frame *frame);
void renewals_on_result(struct service *service, uint64_t from_id, const struct peer_frame *frame);

/* transfer.c */
void transfer_poll(struct service *service, uint64_t now_ms);
/* A leader that stops gives its lease up, then its leadership away, so that the others need not
 * wait for an election. False: there is nobody to hand over to. */
bool transfer_on_stop(struct service *service);
/* Gives leadership to the voter that is most fit for it. False: there is none, or a transfer is
 * under way. */
bool transfer_to_another(struct service *service);
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
/* The answer of a node that may give it, at `clock_ms` of CLOCK_BOOTTIME, which is now.
 * STATUS_PENDING: it is given later. */
enum status expiry_answer(struct service *service, struct service_renewal *renewal,
                          uint64_t clock_ms, int64_t *out_ttl_ms);
/* What becomes of the leader's answer when the keys of the lease are shown here: its keys may be
 * others than ours. */
enum status expiry_check_shown(struct service *service, const struct service_renewal *renewal,
                               enum status status);
void expiry_fail_renewals(struct service *service, enum status status);

/* checkpoints.c */
/* Before polling: proposes what the next leader must know, and what this iteration has to clear. */
void checkpoints_poll(struct service *service);
/* The renewal is answered when the checkpoint of its lease is gone. */
void checkpoints_clear(struct service *service, struct service_renewal *renewal, uint32_t epoch);
/* Proposes what has been gathered to be cleared. */
void checkpoints_flush(struct service *service);

/* apply.c */
void apply_init(struct service *service);
/* Whether an entry of another member's could be applied: entry_check.h. */
bool apply_check(void *data, const struct log_item *item);
void apply_unreadable_snapshot(void *data);
/* A committed entry. */
void apply_item(void *data, const struct log_item *item);
/* Starts the background work when there is some. */
void apply_background(struct service *service);
/* There is history to free, and nobody reads what it was part of. */
bool apply_can_reclaim(const struct service *service);

/* snapshots.c */
/* An entry of the log that was applied. */
struct snapshots_addition {
    size_t log_bytes;
    size_t work;            /* in units of key_work.h */
    uint64_t written_bytes; /* to the key store */
};
void snapshots_added(struct service *service, const struct snapshots_addition *added);
/* Takes one when enough was written since the last. */
void snapshots_poll(struct service *service);
/* Somebody reads a view: nothing can be reclaimed. */
bool snapshots_are_read(const struct service *service);
/* In a worker: whether it can be restored. */
bool snapshots_check_received(void *data, struct bytes payload);
bool snapshots_can_restore(void *data);
enum status snapshots_restore(void *data, struct bytes payload);
int snapshots_serialise(void *data, struct snapshot_writer *writer);
void snapshots_ended(void *data, uint64_t size);

/* refusals.c */
/* Counts and logs a refusal for want of rights. Returns the status. */
enum status refusals_note(struct service *service, const struct caller *caller, enum status status,
                          const char *what);
const char *refusals_name_of(const struct command *command);

/* watches.c */
/* Ends watches that must not go on. */
void watches_poll(struct service *service);

/* scans.c */
void scans_init(struct service *service);
/* Ends every scan but those that run just now. */
void scans_close(struct service *service);
/* The state must not be replaced, nor what was compacted given back. */
bool scans_are_open(const struct service *service);

/* service.c */
void service_fail(struct service *service, enum status status, const char *reason);
void service_close_node(struct service *service);

#endif
