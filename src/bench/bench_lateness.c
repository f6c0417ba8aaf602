/*
 * `lease bench lateness`: how late a single lease ends. Counted from the grant's answer to the
 * arrival of the DELETE event, less the TTL; one lease is started every --stagger. The answer may
 * reach us late, so a figure can be negative; early are only those that ended before sent + TTL.
 */
#include "base/clock.h"
#include "base/progress.h"
#include "bench/bench_delete_watch.h"

#include <inttypes.h>
#include <stdlib.h>

#define STAGGER_NS_DEFAULT (BENCH_NS_PER_SECOND / 2)
#define GIVE_UP_NS (60 * BENCH_NS_PER_SECOND)

struct sample {
    struct lateness_run *run;
    uint64_t index;
    uint64_t sent_ns;
    uint64_t answered_ns;
    int64_t late_ns;
    bool is_deleted;
};

struct lateness_run {
    struct bench *bench;
    struct sample *samples;
    uint64_t total;
    uint64_t started;
    uint64_t finished;
    uint64_t early; /* ended before sent + TTL: the server's fault, whatever delayed us */
    int64_t ttl_seconds;
};

static void on_put(void *context, const struct lease_answer *answer) {
    (void)context;
    bench_check(answer, "put");
}

static void on_grant(void *context, const struct lease_answer *answer) {
    struct sample *sample = context;
    struct lateness_run *run = sample->run;
    sample->answered_ns = clock_boottime_ns();
    bench_check(answer, "grant");
    if (answer->grant->ttl != run->ttl_seconds) {
        bench_die("asked for a TTL of %" PRId64 " s and got %" PRId64 " s", run->ttl_seconds,
                  answer->grant->ttl);
    }
    char key[BENCH_KEY_SIZE_MAX];
    size_t key_size = bench_key(run->bench, sample->index, key);
    lease_client_put(run->bench->connections[0], bytes_of(key, key_size), bytes_from_text("v"),
                     answer->grant->id, on_put, sample);
}

static void start_sample(struct lateness_run *run) {
    struct sample *sample = &run->samples[run->started];
    sample->run = run;
    sample->index = run->started++;
    sample->sent_ns = clock_boottime_ns();
    if (!lease_client_grant(run->bench->connections[0], run->ttl_seconds, 0, on_grant, sample)) {
        bench_die("grant: the connection is closed");
    }
}

static void on_deleted(void *context, uint64_t index, uint64_t now_ns) {
    struct lateness_run *run = context;
    if (index >= run->started || run->samples[index].is_deleted) {
        return; /* a key of an earlier run */
    }
    struct sample *sample = &run->samples[index];
    uint64_t ttl_ns = (uint64_t)run->ttl_seconds * BENCH_NS_PER_SECOND;
    sample->is_deleted = true;
    sample->late_ns = (int64_t)(now_ns - sample->answered_ns) - (int64_t)ttl_ns;
    run->early += now_ns < sample->sent_ns + ttl_ns;
    run->finished++;
    if (run->finished == run->total) {
        uv_stop(run->bench->loop);
    }
}

static int compare(const void *left, const void *right) {
    int64_t a = ((const struct sample *)left)->late_ns;
    int64_t b = ((const struct sample *)right)->late_ns;
    return (a > b) - (a < b);
}

static bool is_over(void *context) {
    const struct lateness_run *run = context;
    return run->finished == run->total;
}

static void report(struct lateness_run *run) {
    struct bench *bench = run->bench;
    qsort(run->samples, run->total, sizeof *run->samples, compare);
    double min = (double)run->samples[0].late_ns / 1e6;
    double median = (double)run->samples[run->total / 2].late_ns / 1e6;
    double max = (double)run->samples[run->total - 1].late_ns / 1e6;
    bench_fact(bench, "leases", json_integer((json_int_t)run->total), "leases",
               "%" PRIu64 " of %" PRId64 " s", run->total, run->ttl_seconds);
    bench_fact(bench, "ttl_seconds", json_integer(run->ttl_seconds), NULL, "%s", "");
    bench_fact(bench, "early", json_integer((json_int_t)run->early), "early", "%" PRIu64,
               run->early);
    bench_fact(bench, "late_min_ms", json_real(min), NULL, "%s", "");
    bench_fact(bench, "late_median_ms", json_real(median), "late by",
               "%.3f to %.3f ms, median %.3f", min, max, median);
    bench_fact(bench, "late_max_ms", json_real(max), NULL, "%s", "");
    bench->failed = run->early > 0;
}

static void run_lateness(struct bench *bench) {
    struct lateness_run run = {.bench = bench};
    struct progress progress;
    progress_init(&progress, "leases ended");
    run.total = (uint64_t)bench_option(bench, "--leases", 20, 1, 1000000);
    run.ttl_seconds = bench_option(bench, "--ttl", 5, 1, 86400);
    uint64_t stagger_ns = bench_option_ns(bench, "--stagger", STAGGER_NS_DEFAULT);
    run.samples = bench_allocate(run.total, sizeof *run.samples);
    struct bench_delete_watch watch = {.bench = bench, .context = &run, .on_deleted = on_deleted};
    bench_delete_watch_start(&watch, bench->connections[bench->n_connections - 1]);
    bench_measure_begin(bench);
    while (run.started < run.total) {
        start_sample(&run);
        bench_sleep(bench, stagger_ns);
        progress_update(&progress, run.finished, run.total);
    }
    uint64_t ttl_ns = (uint64_t)run.ttl_seconds * BENCH_NS_PER_SECOND;
    if (!bench_wait(bench, is_over, &run, ttl_ns + GIVE_UP_NS)) {
        bench_die("%" PRIu64 " of %" PRIu64 " leases did not end", run.total - run.finished,
                  run.total);
    }
    bench_measure_end(bench);
    progress_end(&progress);
    report(&run);
    free(run.samples);
}

const struct bench_workload bench_lateness = {
    .name = "lateness",
    .help = "how late the DELETE of a single lease's key comes",
    .takes = {"--leases", "--ttl", "--stagger"},
    .clients_default = 1,
    .connections_default = 2,
    .run = run_lateness,
};
