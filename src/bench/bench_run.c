#include "bench/bench_run.h"

#include "bench/bench.h"
#include "bench/bench_plot.h"
#include "bench/bench_report.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define DURATION_NS_DEFAULT (5 * BENCH_NS_PER_SECOND)
#define WARM_UP_NS_DEFAULT (1 * BENCH_NS_PER_SECOND)
#define PREFIX_DEFAULT "/bench/"
#define RATE_MAX 1e8

static const struct bench_workload *const workloads[] = {
    &bench_grant,       &bench_keepalive,     &bench_put,        &bench_range,
    &bench_txn,         &bench_watch,         &bench_lock,       &bench_mixed,
    &bench_expire,      &bench_lateness,      &bench_memory,     &bench_failover,
    &bench_connections, &bench_fill_workload, &bench_redis_lock, &bench_zk_create,
};
#define N_WORKLOADS (sizeof workloads / sizeof workloads[0])

const struct option_entry bench_options[] = {
    {"--connections", 'c', "N", "TCP connections, spread over the endpoints"},
    {"--server-pid", 0, "PID,...", "report CPU seconds and memory of these processes"},
    {"--prefix", 0, "TEXT", "of the keys that are written (" PREFIX_DEFAULT ")"},
    {"--plot", 0, "FILE", "write the latency percentiles as an SVG picture"},
    {"--clients", 'n', "N", "operations in flight in all"},
    {"--rate", 'r', "N", "open loop: N operations a second, each timed from when it was due"},
    {"--duration", 'd', "TIME", "of the measured window (5s)"},
    {"--warm-up", 'w', "TIME", "before it (1s)"},
    {"--ttl", 0, "S", "of leases, in seconds"},
    {"--leases", 0, "N", "how many leases there are"},
    {"--streams", 0, "N", "renewal or watch streams, spread over the connections"},
    {"--keys-per-lease", 0, "N", "keys attached to each lease"},
    {"--keys", 0, "N", "different keys (10000)"},
    {"--value-size", 0, "BYTES", "of each value"},
    {"--serializable", 0, NULL, "range: from the node's own memory, perhaps stale"},
    {"--locks", 0, "N", "how many locks are contended for (1)"},
    {"--settle", 0, "TIME", "how long memory may settle before it is read (5s)"},
    {"--stagger", 0, "TIME", "start one lease every so often (500ms)"},
    {"--give-up", 0, "TIME", "how long to wait for the end (120s; failover 30s)"},
    {"--kill", 0, "COMMAND", "what kills a node, instead of SIGKILL to the leader's process"},
    {NULL, 0, NULL, NULL},
};
/* The first of the table are for all. */
#define N_COMMON_OPTIONS 4

static const struct bench_workload *find_workload(const char *name) {
    for (size_t i = 0; i < N_WORKLOADS; i++) {
        if (strcmp(workloads[i]->name, name) == 0) {
            return workloads[i];
        }
    }
    return NULL;
}

static bool takes(const struct bench_workload *workload, const struct option_entry *option) {
    for (size_t i = 0; i < BENCH_TAKES_MAX && workload->takes[i] != NULL; i++) {
        if (strcmp(workload->takes[i], option->name) == 0) {
            return true;
        }
    }
    return option < &bench_options[N_COMMON_OPTIONS];
}

/* An option that would be ignored is a mistake about what is measured. */
static void refuse_others(struct bench *bench) {
    const struct arguments *arguments = bench->arguments;
    const struct option_entry *end = bench_options + sizeof bench_options / sizeof bench_options[0];
    for (size_t i = 0; i < arguments->n_given; i++) {
        const struct option_entry *option = arguments->given[i].option;
        bool is_ours = option >= bench_options && option < end;
        if (is_ours && !takes(bench->workload, option)) {
            bench_usage(bench, "%s has no meaning here", option->name);
        }
    }
}

static void take_rate(struct bench *bench) {
    const char *text = arguments_value(bench->arguments, "--rate");
    if (text == NULL) {
        return;
    }
    char *end;
    bench->rate = strtod(text, &end);
    if (end == text || *end != 0 || !(bench->rate > 0) || bench->rate > RATE_MAX) {
        bench_usage(bench, "--rate %s: operations a second, more than 0, are needed", text);
    }
}

static void take_options(struct bench *bench) {
    const struct arguments *arguments = bench->arguments;
    const struct bench_workload *workload = bench->workload;
    refuse_others(bench);
    bench->n_clients =
        (size_t)bench_option(bench, "--clients", workload->clients_default, 1, BENCH_CLIENTS_MAX);
    bench->duration_ns = bench_option_ns(bench, "--duration", DURATION_NS_DEFAULT);
    bench->warm_up_ns = bench_option_ns(bench, "--warm-up", WARM_UP_NS_DEFAULT);
    bench->plot = arguments_value(arguments, "--plot");
    take_rate(bench);
    bench->prefix = arguments_value(arguments, "--prefix");
    if (bench->prefix == NULL) {
        bench->prefix = PREFIX_DEFAULT;
    }
    if (bench->prefix[0] == 0 || strlen(bench->prefix) > BENCH_KEY_SIZE_MAX / 2) {
        bench_usage(bench, "--prefix: 1 to %d characters are needed", BENCH_KEY_SIZE_MAX / 2);
    }
    const char *pids = arguments_value(arguments, "--server-pid");
    if (pids != NULL && !process_usage_parse_pids(pids, bench->pids, &bench->n_pids)) {
        bench_usage(bench, "--server-pid %s: process ids with commas, at most %d, are needed", pids,
                    PROCESS_USAGE_PIDS_MAX);
    }
    if (workload->needs_pid && bench->n_pids == 0) {
        bench_usage(bench, "--server-pid is needed");
    }
}

/* Thousands of connections are ordinary here. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void plot(struct bench *bench) {
    char title[256];
    snprintf(title, sizeof title, "lease bench %s, %zu clients", bench->workload->name,
             bench->n_clients);
    FILE *out = fopen(bench->plot, "w");
    if (out == NULL) {
        bench_die("--plot %s: %s", bench->plot, strerror(errno));
    }
    bool is_written = bench_plot_write(bench->tallies, bench->n_tallies, title, out);
    if (fclose(out) != 0 || !is_written) {
        bench_die("--plot %s: cannot be written", bench->plot);
    }
}

bool bench_has_workload(const char *name) {
    return find_workload(name) != NULL;
}

enum bench_exit bench_run(const struct bench_settings *settings) {
    struct bench bench = {
        .workload = find_workload(settings->workload),
        .loop = settings->loop,
        .arguments = settings->arguments,
        .endpoints = settings->endpoints,
        .timeout_ms = settings->timeout_ms,
        .is_json = settings->is_json,
    };
    assert(bench.workload != NULL);
    bench.facts = json_object();
    take_options(&bench);
    raise_file_limit();
    size_t n_connections = (size_t)bench_option(
        &bench, "--connections", bench.workload->connections_default, 1, BENCH_CONNECTIONS_MAX);
    if (!bench.workload->connects_itself) {
        bench_connect_all(&bench, n_connections);
    }
    bench.workload->run(&bench);
    bench_report(&bench);
    if (bench.plot != NULL) {
        plot(&bench);
    }
    for (size_t i = 0; bench.connections != NULL && i < bench.n_connections; i++) {
        lease_client_destroy(bench.connections[i]);
    }
    for (size_t i = 0; i < bench.n_tallies; i++) {
        free(bench.tallies[i].latency_ns);
    }
    free(bench.connections);
    json_decref(bench.facts);
    return bench.failed ? BENCH_EXIT_FAILED : BENCH_EXIT_OK;
}

void bench_print_workloads(FILE *out) {
    fputs("workloads:\n", out);
    for (size_t i = 0; i < N_WORKLOADS; i++) {
        const struct bench_workload *workload = workloads[i];
        fprintf(out, "  %-12s %s\n              ", workload->name, workload->help);
        for (size_t j = 0; j < BENCH_TAKES_MAX && workload->takes[j] != NULL; j++) {
            fprintf(out, " %s", workload->takes[j]);
        }
        fputc('\n', out);
    }
}
