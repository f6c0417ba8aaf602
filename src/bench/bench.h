/*
 * The frame of `lease bench`: what the command line asked for, the connections, the measured window
 * and what was found in it. It is a tool for measuring: whatever fails ends the program with a
 * message: results of a run in which something failed are discarded.
 */
#ifndef LEASED_BENCH_BENCH_H
#define LEASED_BENCH_BENCH_H

#include "base/arguments.h"
#include "bench/histogram.h"
#include "bench/process_usage.h"
#include "client/endpoint.h"
#include "client/lease_client.h"

#include <jansson.h>
#include <stdnoreturn.h>
#include <uv.h>

#define BENCH_CONNECTIONS_MAX 10000
#define BENCH_CLIENTS_MAX 1000000
#define BENCH_KEY_SIZE_MAX 128
#define BENCH_VALUE_SIZE_MAX (1024 * 1024)
#define BENCH_COUNT_MAX 20000000
#define BENCH_TALLIES_MAX 8
#define BENCH_TAKES_MAX 16
#define BENCH_FACTS_MAX 24
#define BENCH_FACT_TEXT_SIZE_MAX 192
#define BENCH_NS_PER_SECOND UINT64_C(1000000000)

/* The exit codes of `lease`. */
enum bench_exit { BENCH_EXIT_OK = 0, BENCH_EXIT_FAILED = 1, BENCH_EXIT_USAGE = 2 };

struct bench;

struct bench_workload {
    const char *name;
    const char *help;
    /* The options it takes beside those that all take, up to the first NULL. */
    const char *takes[BENCH_TAKES_MAX];
    int64_t clients_default;
    int64_t connections_default;
    bool connects_itself; /* bench->connections stays empty */
    bool needs_pid;
    void (*run)(struct bench *bench);
};

extern const struct bench_workload bench_grant;
extern const struct bench_workload bench_fill_workload;
extern const struct bench_workload bench_keepalive;
extern const struct bench_workload bench_put;
extern const struct bench_workload bench_range;
extern const struct bench_workload bench_txn;
extern const struct bench_workload bench_watch;
extern const struct bench_workload bench_lock;
extern const struct bench_workload bench_mixed;
extern const struct bench_workload bench_expire;
extern const struct bench_workload bench_lateness;
extern const struct bench_workload bench_memory;
extern const struct bench_workload bench_failover;
extern const struct bench_workload bench_connections;
extern const struct bench_workload bench_redis_lock;
extern const struct bench_workload bench_zk_create;

/* What was counted and timed of one kind of operation, within the window. */
struct bench_tally {
    const char *name;   /* "put" */
    uint64_t count;     /* answered within the window */
    uint64_t scheduled; /* open loop: due within the window */
    uint64_t unsent;    /* open loop: due within the window and not sent by its end */
    struct histogram *latency_ns;
};

/* A line of the report that belongs to one workload. */
struct bench_fact {
    const char *title;
    char text[BENCH_FACT_TEXT_SIZE_MAX];
};

struct bench {
    const struct bench_workload *workload;

    /* From struct bench_settings. */
    uv_loop_t *loop;
    struct arguments *arguments;
    const struct endpoint_list *endpoints;
    uint32_t timeout_ms;
    bool is_json;

    size_t n_clients;
    double rate; /* operations a second in all; 0: as fast as they are answered */
    uint64_t duration_ns;
    uint64_t warm_up_ns;
    const char *prefix;
    const char *plot; /* NULL: none */
    pid_t pids[PROCESS_USAGE_PIDS_MAX];
    size_t n_pids;

    struct lease_client **connections;
    size_t n_connections;

    /* The window, and what it cost. */
    bool is_measuring;
    uint64_t begin_ns;
    uint64_t end_ns; /* 0 before its end */
    struct process_usage servers_begin[PROCESS_USAGE_PIDS_MAX];
    struct process_usage server_begin; /* the sum of those that lived to the end */
    struct process_usage server_end;
    double own_cpu_begin_seconds;
    double own_cpu_seconds;
    struct bench_tally tallies[BENCH_TALLIES_MAX];
    size_t n_tallies;
    json_t *facts; /* for --json, all of them */
    struct bench_fact fact_lines[BENCH_FACTS_MAX];
    size_t n_fact_lines;
    bool failed; /* the report shows a violation: exit code 1 */
};

noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program unless the answer is good. */
void bench_check(const struct lease_answer *answer, const char *what);
void bench_check_code(enum grpc_code code, const char *text, const char *what);
/* calloc() that ends the program instead of failing. */
void *bench_allocate(size_t count, size_t size);

/* An option as a number, or as a time; a wrong one ends the program with exit code 2. */
int64_t bench_option(struct bench *bench, const char *name, int64_t fallback, int64_t min,
                     int64_t max);
uint64_t bench_option_ns(struct bench *bench, const char *name, uint64_t fallback_ns);
noreturn void bench_usage(struct bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One connection, ready; the i-th goes to the endpoints round robin. */
struct lease_client *bench_connect(struct bench *bench, uv_loop_t *loop, size_t i);
/* Fills bench->connections with this many, ready. */
void bench_connect_all(struct bench *bench, size_t n_connections);

/* prefix + eight hex digits. Gives its size. */
size_t bench_key(const struct bench *bench, uint64_t index, char room[BENCH_KEY_SIZE_MAX]);
/* The index of such a key; false: it is not one of ours. */
bool bench_key_index(const struct bench *bench, struct bytes key, uint64_t *out_index);
/* The value that puts write, of --value-size bytes. */
struct bytes bench_value(struct bench *bench, size_t size_default);

struct bench_tally *bench_tally_add(struct bench *bench, const char *name);

/* An operation that was due at `due_ns` was answered now: it counts for the rate when the window is
 * open, and its time belongs to the window in which it was due. */
void bench_record(struct bench *bench, struct bench_tally *tally, uint64_t due_ns, uint64_t now_ns);

/* Opens and closes the window in which server and tool are measured. */
void bench_measure_begin(struct bench *bench);
void bench_measure_end(struct bench *bench);
/* The servers' resident memory now. */
uint64_t bench_server_rss_bytes(const struct bench *bench);
double bench_seconds(const struct bench *bench);

/* Run the loop: until `done` gives true (false: the time was up first), and for a time. */
bool bench_wait(struct bench *bench, bool (*done)(void *context), void *context,
                uint64_t timeout_ns);
void bench_sleep(struct bench *bench, uint64_t duration_ns);

/* Adds `value` (taken over) to the JSON; with `title` also a line to the text. */
void bench_fact(struct bench *bench, const char *name, json_t *value, const char *title,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
