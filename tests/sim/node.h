/*
 * A simulated machine with one leased process on it: its clocks, its disk, and its turns of the
 * event loop. The process is the product's own replication and core; what it asks of libuv, of the
 * clocks, of the disk and of other nodes is answered by stand-ins that know the node that runs
 * (node_current()).
 */
#ifndef LEASED_SIM_NODE_H
#define LEASED_SIM_NODE_H

#include "core/service.h"
#include "machine_disk.h"
#include "replication/replication.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { NODES_MAX = 8 };

struct node_item; /* something that waits to be read by the process */

struct node {
    size_t index;
    uint64_t id;
    char name[24];
    char address[32];
    char data_dir[32];
    char url[48]; /* for peers and, as far as it matters here, for clients */
    const char *urls[2];

    /* Its place in the cluster. A machine that has none waits for one (operator.c). */
    bool is_in_service;
    bool is_joining;                           /* it was added to a cluster that was there */
    uint64_t data_dir_id;                      /* of its data directory */
    struct replication_member told[NODES_MAX]; /* the members when it joined */
    size_t n_told;
    bool is_dead;       /* it never comes back; whoever runs the cluster removes it */
    uint64_t retire_us; /* it was removed: it goes then; 0: it was not */
    uint32_t heartbeat_ms;
    uint32_t election_ms;

    /* The machine. */
    int64_t rate_ppm;      /* how much faster its clocks run than true time */
    uint64_t boot_us;      /* what CLOCK_BOOTTIME said at the beginning */
    uint64_t frozen_us;    /* not counted by any of its clocks, in true time */
    uint64_t suspended_us; /* not counted by CLOCK_MONOTONIC, in true time */
    uint64_t asleep_until_us;
    uint64_t thaw_us;
    int64_t wall_offset_ms; /* jumps */
    struct machine_disk disk;

    /* The process. */
    bool is_up;
    bool is_stopping;
    uint64_t generation; /* counts processes: what belongs to an earlier one is nobody's */
    struct service *service;
    uv_loop_t *loop;
    jmp_buf death; /* where to go when the process must end in the middle of a turn */
    bool is_in_turn;
    bool is_catching_up;     /* after a stall: what had arrived must be read first */
    uint64_t catch_up_until; /* number of the last item that had arrived */
    uint64_t elapsed_us;     /* in this turn */
    uint64_t worked_us;      /* of all turns: what the thread's own clock says */
    uint64_t free_us;        /* no turn before this */
    uint64_t turn_end_us;    /* of the last turn, stops within it included */
    uint64_t wake_us;        /* the next turn; UINT64_MAX: none is planned */
    uint64_t stall_us;       /* a stop that hits in the middle of a turn */
    uint64_t stall_reads;    /* after so many looks at the clock */
    struct node_item *first_item;
    struct node_item **last_item;
    uint64_t n_arrived;
    uint64_t n_read;
    struct loop_sim *handles; /* what its event loop has: loop_sim.h */
    struct raft_lane *lanes;  /* its threads: lane_sim.h */

    /* What checks know about it. */
    bool was_authority;
};

struct node_options {
    size_t n_nodes; /* machines */
    size_t n_first; /* of which so many begin the cluster */
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    bool has_mixed_timers; /* each process draws its own */
    bool has_worst_timers; /* the first node's are the longest and its clock is the slowest */
    size_t log_bytes_max;
    bool strict_reads;
    unsigned drift_permille; /* how far a clock's rate may be off, nodes' and clients' */
};

void nodes_init(const struct node_options *options);
size_t nodes_count(void);
bool nodes_have_worst_timers(void);
/* The longest of all. */
uint32_t nodes_election_ms(void);
unsigned nodes_drift_permille(void);
/* Of a clock. */
int64_t nodes_random_rate_ppm(void);
struct node *node_at(size_t index);
struct node *node_by_id(uint64_t id);
/* host:port; NULL: nobody listens there. */
struct node *node_by_address(const char *address);
struct node *node_of_loop(const uv_loop_t *loop);
/* The node whose turn it is; NULL: none. */
struct node *node_current(void);

/* True time as the node's turn has come to: what it does now happens then. */
uint64_t node_now_us(const struct node *node);
uint64_t node_boottime_us(const struct node *node);
uint64_t node_monotonic_us(const struct node *node);
/* How long, in true time, until the node's clock has advanced by this much. */
uint64_t node_true_us(const struct node *node, uint64_t local_us);

/* An empty machine becomes the member with this id, of a cluster whose members it is told. */
void node_commission(struct node *node, uint64_t id, const struct replication_member *told,
                     size_t n_told);
/* The member is gone for good, and its disk with it. */
void node_retire(struct node *node);

void node_start(struct node *node);
/* The process ends at once. `is_power`: the machine, too, and what was not synced may be lost. */
void node_crash(struct node *node, bool is_power);
/* As on SIGTERM. */
void node_stop(struct node *node);
/* SIGSTOP, for so long: while it waits in its poll, or wherever it is in its next turn; or the
 * machine sleeps and CLOCK_MONOTONIC stands still; or it is frozen and knows of nothing. */
enum stall {
    STALL_STOPPED,
    STALL_MID_TURN,
    STALL_ASLEEP,
    STALL_FROZEN /* all of its clocks stand still, as a virtual machine's may */
};
void node_stall(struct node *node, uint64_t for_us, enum stall stall);
/* Ends the process from inside its own turn; does not return. */
__attribute__((noreturn)) void node_die(struct node *node);

/* Something arrived: it is read in one of the next turns of this process, unless that is gone by
 * then. `read` is called with the node current; `drop` (may be NULL) frees what nobody will read.
 */
void node_deliver(struct node *node, void (*read)(struct node *node, void *data),
                  void (*drop)(void *data), void *data);
/* Sees to it that the node has a turn at this time. */
void node_wake(struct node *node, uint64_t time_us);

/* For whoever reads the trace of a seed that failed. */
void node_trace_state(const struct node *node);

bool node_is_authority(struct node *node);
bool node_is_leader(struct node *node);
/* The term that it leads in; 0: it does not. */
uint64_t node_leads_term(struct node *node);

#endif
