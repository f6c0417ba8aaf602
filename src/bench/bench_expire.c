/*
 * `lease bench expire`: leases with a key each, all due within the same second. A grant sent at
 * time t asks for the whole seconds from t to a common time D, rounded up, so that its deadline
 * falls into [D, D + 1 s) however long the granting takes. The lease that is due last is due at
 * max(answered + TTL). A watch counts the DELETE events, and a second client puts all the time.
 */
#include "base/clock.h"
#include "base/progress.h"
#include "bench/bench_delete_watch.h"
#include "bench/bench_fill.h"
#include "bench/bench_put_probe.h"

#include <inttypes.h>
#include <stdlib.h>

#define PROBE_VALUE_SIZE 256
#define POLL_NS (BENCH_NS_PER_SECOND / 10)

struct expire_run {
    struct bench *bench;
    struct bench_fill fill;
    uint64_t *earliest_ns;
    uint64_t total;
    uint64_t deleted;
    uint64_t early;
    uint64_t first_ns;
    uint64_t last_ns;
    struct bench_tally *lateness;
    struct bench_put_probe *probe;
};

static void on_deleted(void *context, uint64_t index, uint64_t now_ns) {
    struct expire_run *run = context;
    if (index >= run->total || run->earliest_ns[index] == 0) {
        return; /* a key of an earlier run */
    }
    if (now_ns < run->earliest_ns[index]) {
        run->early++;
    } else {
        histogram_add(run->lateness->latency_ns, now_ns - run->earliest_ns[index]);
    }
    run->earliest_ns[index] = 0; /* once only */
    if (run->deleted == 0) {
        run->first_ns = now_ns;
    }
    run->last_ns = now_ns;
    run->deleted++;
    run->lateness->count++;
    if (run->deleted == run->total) {
        uv_stop(run->bench->loop);
    }
}

static bool is_over(void *context) {
    const struct expire_run *run = context;
    return run->deleted == run->total;
}

static void wait_until(struct expire_run *run, uint64_t until_ns) {
    struct progress progress;
    progress_init(&progress, "leases ended");
    uint64_t now_ns = clock_boottime_ns();
    while (!is_over(run) && now_ns < until_ns) {
        uint64_t left_ns = until_ns - now_ns;
        bench_wait(run->bench, is_over, run, left_ns < POLL_NS ? left_ns : POLL_NS);
        progress_update(&progress, run->deleted, run->total);
        now_ns = clock_boottime_ns();
    }
    progress_end(&progress);
}

static void add_puts(struct expire_run *run, const char *name, const char *title,
                     enum bench_put_probe_phase phase) {
    const struct histogram *times = bench_put_probe_times_ns(run->probe, phase);
    double p50 = (double)histogram_quantile(times, 500000) / 1e6;
    double p99 = (double)histogram_quantile(times, 990000) / 1e6;
    double max = (double)times->max / 1e6;
    json_t *json = json_pack("{s:I, s:f, s:f, s:f}", "puts", (json_int_t)times->count, "p50_ms",
                             p50, "p99_ms", p99, "max_ms", max);
    bench_fact(run->bench, name, json, title, "%" PRIu64 ", p50 %.2f  p99 %.2f  max %.2f ms",
               times->count, p50, p99, max);
}

static void add_seconds(struct expire_run *run, const char *name, const char *title,
                        uint64_t from_ns, uint64_t to_ns, const char *of_what) {
    double seconds = ((double)to_ns - (double)from_ns) / 1e9;
    bench_fact(run->bench, name, json_real(seconds), title, "%.3f s %s", seconds, of_what);
}

static void report(struct expire_run *run) {
    struct bench *bench = run->bench;
    uint64_t due_ns = run->fill.due_ns;
    uint64_t latest_ns = run->fill.latest_ns;
    bench_fact(bench, "leases", json_integer((json_int_t)run->total), NULL, "%s", "");
    bench_fact(bench, "deleted", json_integer((json_int_t)run->deleted), "ended",
               "%" PRIu64 " of %" PRIu64, run->deleted, run->total);
    bench_fact(bench, "early", json_integer((json_int_t)run->early), "early", "%" PRIu64,
               run->early);
    add_seconds(run, "due_window_seconds", "due within", due_ns, latest_ns, "");
    add_seconds(run, "first_delete_after_due_seconds", "first", due_ns, run->first_ns,
                "after the first was due");
    add_seconds(run, "last_delete_after_due_seconds", "last", due_ns, run->last_ns,
                "after the first was due");
    add_seconds(run, "last_delete_after_last_due_seconds", "late by", latest_ns, run->last_ns,
                "after the last was due");
    add_puts(run, "puts_before", "puts before", BENCH_PUT_PROBE_BEFORE);
    add_puts(run, "puts_during", "puts during", BENCH_PUT_PROBE_DURING);
    bench->failed = run->deleted < run->total || run->early > 0;
}

static void run_expire(struct bench *bench) {
    struct expire_run run = {.bench = bench};
    run.total = (uint64_t)bench_option(bench, "--leases", 10000, 1, BENCH_COUNT_MAX);
    run.earliest_ns = bench_allocate(run.total, sizeof *run.earliest_ns);
    uint64_t ttl_ns = (uint64_t)bench_option(bench, "--ttl", 30, 3, 86400) * BENCH_NS_PER_SECOND;
    uint64_t give_up_ns = bench_option_ns(bench, "--give-up", 120 * BENCH_NS_PER_SECOND);
    run.lateness = bench_tally_add(bench, "expiries");
    struct bench_delete_watch watch = {.bench = bench, .context = &run, .on_deleted = on_deleted};
    bench_delete_watch_start(&watch, bench->connections[bench->n_connections - 1]);
    run.fill = (struct bench_fill){
        .bench = bench,
        .n_leases = run.total,
        .n_keys = 1,
        .value = bytes_from_text("v"),
        .earliest_ns = run.earliest_ns,
        .due_ns = clock_boottime_ns() + ttl_ns,
    };
    bench_fill_run(&run.fill);
    run.probe = bench_put_probe_start(bench, PROBE_VALUE_SIZE);
    wait_until(&run, run.fill.due_ns);
    bench_measure_begin(bench);
    bench_put_probe_enter(run.probe, BENCH_PUT_PROBE_DURING);
    wait_until(&run, run.fill.latest_ns + give_up_ns);
    bench_measure_end(bench);
    bench_put_probe_stop(run.probe);
    report(&run);
    bench_put_probe_destroy(run.probe);
    free(run.earliest_ns);
}

const struct bench_workload bench_expire = {
    .name = "expire",
    .help = "leases with a key each, all due in the same second, while another client puts",
    .takes = {"--leases", "--ttl", "--give-up"},
    .clients_default = 1,
    .connections_default = 4,
    .run = run_expire,
};
