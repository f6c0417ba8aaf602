/*
 * `lease bench failover`: how long no write is acknowledged after a node was killed. On each
 * endpoint a put is sent every few milliseconds, whether or not the earlier ones were answered, on
 * a new connection if the last was lost. So the gap is the cluster's, not that of a client's way to
 * find the next node, nor does a put that was lost with the leader keep others waiting. It ends
 * with the first acknowledgement of a put that was sent after the kill.
 */
#include "base/clock.h"
#include "bench/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PUT_TIMEOUT_MS 2000
#define PUT_INTERVAL_MS 5
#define PUTS_MAX (2 * PUT_TIMEOUT_MS / PUT_INTERVAL_MS)

struct sent {
    struct probe *probe;
    uint64_t at_ns; /* 0: free */
};

struct probe {
    struct failover *failover;
    size_t index;
    struct lease_client *client; /* NULL while there is no connection */
    uint64_t member_id;
    uint64_t leader_id;
    uv_timer_t timer;
    struct sent puts[PUTS_MAX];
    size_t next_put;
};

struct failover {
    struct bench *bench;
    struct probe probes[ENDPOINTS_MAX];
    size_t n_probes;
    size_t n_asked;
    uint64_t killed_ns; /* 0: not yet */
    uint64_t gap_ns;    /* 0: not over */
    uint64_t last_ack_ns;
    uint64_t longest_gap_ns; /* between any two acknowledgements, after the kill */
    struct bench_tally *puts;
};

/* ---- connections that come and go ---------------------------------------------------------------
 */

static void on_closed(void *context, const char *reason) {
    struct probe *probe = context;
    if (probe->failover->killed_ns == 0) {
        bench_die("%s", reason);
    }
    lease_client_destroy(probe->client);
    probe->client = NULL;
}

static void connect_probe(struct probe *probe) {
    struct bench *bench = probe->failover->bench;
    struct grpc_client_options options = endpoint_options(bench->endpoints, probe->index);
    options.connect_timeout_ms = PUT_TIMEOUT_MS;
    options.context = probe;
    options.on_closed = on_closed;
    enum status status = lease_client_create(bench->loop, &options, PUT_TIMEOUT_MS, &probe->client);
    if (status != STATUS_OK) {
        bench_die("connection: %s", status_text(status));
    }
}

/* ---- puts ---------------------------------------------------------------------------------------
 */

static void acknowledge(struct failover *failover, uint64_t sent_ns) {
    uint64_t now_ns = clock_boottime_ns();
    bench_record(failover->bench, failover->puts, sent_ns, now_ns);
    if (failover->killed_ns == 0 || sent_ns < failover->killed_ns) {
        return;
    }
    if (failover->gap_ns == 0) {
        failover->gap_ns = now_ns - failover->killed_ns;
        failover->longest_gap_ns = failover->gap_ns;
        uv_stop(failover->bench->loop);
    } else if (now_ns - failover->last_ack_ns > failover->longest_gap_ns) {
        failover->longest_gap_ns = now_ns - failover->last_ack_ns;
    }
    failover->last_ack_ns = now_ns;
}

static void on_put(void *context, const struct lease_answer *answer) {
    struct sent *put = context;
    struct failover *failover = put->probe->failover;
    uint64_t sent_ns = put->at_ns;
    put->at_ns = 0;
    if (answer->code == GRPC_OK) {
        acknowledge(failover, sent_ns);
    } else if (failover->killed_ns == 0) {
        bench_check(answer, "put");
    }
}

static void on_timer(uv_timer_t *timer) {
    struct probe *probe = timer->data;
    struct sent *put = &probe->puts[probe->next_put];
    char key[BENCH_KEY_SIZE_MAX];
    if (probe->client == NULL) {
        connect_probe(probe);
    }
    if (put->at_ns != 0) {
        return; /* as many under way as can be within their time */
    }
    size_t key_size = bench_key(probe->failover->bench, probe->index, key);
    put->probe = probe;
    put->at_ns = clock_boottime_ns();
    if (!lease_client_put(probe->client, bytes_of(key, key_size), bytes_from_text("v"), 0, on_put,
                          put)) {
        put->at_ns = 0;
        return;
    }
    probe->next_put = (probe->next_put + 1) % PUTS_MAX;
}

/* ---- the kill -----------------------------------------------------------------------------------
 */

static void on_status(void *context, const struct lease_answer *answer) {
    struct probe *probe = context;
    bench_check(answer, "status");
    probe->member_id = answer->status->header != NULL ? answer->status->header->member_id : 0;
    probe->leader_id = answer->status->leader;
    probe->failover->n_asked++;
}

static bool all_asked(void *context) {
    const struct failover *failover = context;
    return failover->n_asked == failover->n_probes;
}

/* The index of the endpoint that leads. */
static size_t find_leader(struct failover *failover) {
    for (size_t i = 0; i < failover->n_probes; i++) {
        connect_probe(&failover->probes[i]);
        lease_client_status(failover->probes[i].client, on_status, &failover->probes[i]);
    }
    if (!bench_wait(failover->bench, all_asked, failover, 10 * BENCH_NS_PER_SECOND)) {
        bench_die("not every endpoint answered with its status");
    }
    for (size_t i = 0; i < failover->n_probes; i++) {
        if (failover->probes[i].member_id == failover->probes[i].leader_id) {
            return i;
        }
    }
    bench_die("none of the endpoints leads");
}

static void kill_node(struct failover *failover, size_t leader) {
    struct bench *bench = failover->bench;
    const char *what = arguments_value(bench->arguments, "--kill");
    failover->killed_ns = clock_boottime_ns();
    if (what == NULL) {
        if (kill(bench->pids[leader], SIGKILL) != 0) {
            bench_die("process %d cannot be killed: %s", (int)bench->pids[leader], strerror(errno));
        }
    } else if (system(what) != 0) { /* the caller's own command, on his own command line */
        bench_die("--kill: the command failed: %s", what);
    }
}

static bool is_over(void *context) {
    const struct failover *failover = context;
    return failover->gap_ns != 0;
}

static void report(struct failover *failover, size_t leader) {
    struct bench *bench = failover->bench;
    bench_fact(bench, "killed_endpoint", json_integer((json_int_t)leader), NULL, "%s", "");
    bench_fact(bench, "gap_ms", json_real((double)failover->gap_ns / 1e6), "gap",
               "%.1f ms from the kill to the next acknowledged write",
               (double)failover->gap_ns / 1e6);
    bench_fact(bench, "longest_gap_ms", json_real((double)failover->longest_gap_ns / 1e6),
               "longest", "%.1f ms without an acknowledgement, in all",
               (double)failover->longest_gap_ns / 1e6);
}

static void run_failover(struct bench *bench) {
    struct failover *failover = bench_allocate(1, sizeof *failover);
    *failover = (struct failover){.bench = bench, .n_probes = bench->endpoints->n_items};
    bool by_pid = arguments_value(bench->arguments, "--kill") == NULL;
    uint64_t give_up_ns = bench_option_ns(bench, "--give-up", 30 * BENCH_NS_PER_SECOND);
    if (by_pid && bench->n_pids != failover->n_probes) {
        bench_usage(bench, "--server-pid must name the process of each endpoint, in order, so "
                           "that the leader's can be killed; or give a command with --kill");
    }
    bench->n_clients = failover->n_probes;
    bench->n_connections = failover->n_probes;
    failover->puts = bench_tally_add(bench, "puts");
    for (size_t i = 0; i < failover->n_probes; i++) {
        struct probe *probe = &failover->probes[i];
        *probe = (struct probe){.failover = failover, .index = i};
        uv_timer_init(bench->loop, &probe->timer);
        probe->timer.data = probe;
    }
    size_t leader = find_leader(failover);
    for (size_t i = 0; i < failover->n_probes; i++) {
        uv_timer_start(&failover->probes[i].timer, on_timer, 0, PUT_INTERVAL_MS);
    }
    bench_sleep(bench, bench->warm_up_ns);
    bench_measure_begin(bench);
    kill_node(failover, leader);
    if (!bench_wait(bench, is_over, failover, give_up_ns)) {
        bench_die("no write was acknowledged for %.1f s after the kill", (double)give_up_ns / 1e9);
    }
    bench_sleep(bench, bench->duration_ns);
    bench_measure_end(bench);
    report(failover, leader);
    for (size_t i = 0; i < failover->n_probes; i++) {
        lease_client_destroy(failover->probes[i].client);
        uv_close((uv_handle_t *)&failover->probes[i].timer, NULL);
    }
    uv_run(bench->loop, UV_RUN_DEFAULT);
    free(failover);
}

const struct bench_workload bench_failover = {
    .name = "failover",
    .help = "kill -9 the leader: how long until the next write is acknowledged",
    .takes = {"--duration", "--warm-up", "--kill", "--give-up"},
    .clients_default = 1,
    .connections_default = 1,
    .connects_itself = true,
    .run = run_failover,
};
