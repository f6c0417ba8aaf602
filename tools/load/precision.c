/*
 * `lease-load precision`: how late a single lease ends. Counted from the grant's answer to the
 * arrival of the DELETE event, less the TTL; one after the other unless --stagger is given. The
 * answer may reach us late, so a figure can be negative; early are only those that ended before
 * sent + TTL.
 */
#include "base/clock.h"
#include "tools/load/delete_watch.h"

#include <inttypes.h>
#include <stdlib.h>

struct precision_run;

struct sample {
    struct precision_run *run;
    uint64_t index;
    uint64_t sent_us;
    uint64_t answered_us;
    int64_t late_us;
    bool is_deleted;
};

struct precision_run {
    struct load *load;
    struct lease_client *client;
    struct sample *samples;
    uint64_t total;
    uint64_t started;
    uint64_t finished;
    uint64_t early; /* ended before sent + TTL: the server's fault, whatever delayed us */
    int64_t ttl_seconds;
    uint64_t stagger_ms;
    uv_timer_t timer;
};

static const struct option_entry options[] = {
    {"--ttl", 0, "S", "seconds (5)"},
    {"--stagger", 0, "MS", "start one every so often instead of one after the other"},
    {NULL, 0, NULL, NULL},
};

static void on_put(void *context, const struct lease_answer *answer) {
    (void)context;
    load_check(answer, "put");
}

static void on_grant(void *context, const struct lease_answer *answer) {
    struct sample *sample = context;
    struct precision_run *run = sample->run;
    sample->answered_us = clock_boottime_us();
    load_check(answer, "grant");
    if (answer->grant->ttl != run->ttl_seconds) {
        load_die("asked for a TTL of %lld s and got %lld s", (long long)run->ttl_seconds,
                 (long long)answer->grant->ttl);
    }
    char key[LOAD_KEY_SIZE_MAX];
    size_t key_size = load_key(run->load, sample->index, key);
    lease_client_put(run->client, bytes_of(key, key_size), bytes_from_text("v"), answer->grant->id,
                     on_put, sample);
}

static void start_sample(struct precision_run *run) {
    if (run->started == run->total) {
        return;
    }
    struct sample *sample = &run->samples[run->started];
    sample->run = run;
    sample->index = run->started++;
    sample->sent_us = clock_boottime_us();
    if (!lease_client_grant(run->client, run->ttl_seconds, 0, on_grant, sample)) {
        load_die("the connection is closed");
    }
}

static void on_deleted(void *context, uint64_t index, uint64_t now_us) {
    struct precision_run *run = context;
    if (index >= run->started || run->samples[index].is_deleted) {
        return; /* a key of an earlier run */
    }
    struct sample *sample = &run->samples[index];
    sample->is_deleted = true;
    sample->late_us = (int64_t)(now_us - sample->answered_us) - run->ttl_seconds * 1000000;
    if (now_us < sample->sent_us + (uint64_t)run->ttl_seconds * 1000000) {
        run->early++;
    }
    run->finished++;
    if (run->stagger_ms == 0) {
        start_sample(run);
    }
}

static void on_timer(uv_timer_t *timer) {
    start_sample(timer->data);
}

static int compare(const void *left, const void *right) {
    int64_t a = ((const struct sample *)left)->late_us;
    int64_t b = ((const struct sample *)right)->late_us;
    return (a > b) - (a < b);
}

static void run_precision(struct load *load, uint64_t count) {
    struct precision_run run = {.load = load, .total = count};
    run.ttl_seconds = load_option(load, "--ttl", 5, 1, 86400);
    run.stagger_ms = (uint64_t)load_option(load, "--stagger", 0, 1, 3600000);
    run.samples = calloc(count, sizeof *run.samples);
    if (run.samples == NULL) {
        load_die("out of memory");
    }
    load_connect_many(load, 2);
    run.client = load->clients[0];
    struct delete_watch watch = {.load = load, .context = &run, .on_deleted = on_deleted};
    delete_watch_start(&watch, load->clients[1]);
    load_measure(load);
    if (run.stagger_ms > 0) {
        uv_timer_init(load->loop, &run.timer);
        run.timer.data = &run;
        uv_timer_start(&run.timer, on_timer, 0, run.stagger_ms);
    } else {
        start_sample(&run);
    }
    while (run.finished < run.total) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
    qsort(run.samples, count, sizeof *run.samples, compare);
    double min = (double)run.samples[0].late_us / 1000.0;
    double median = (double)run.samples[count / 2].late_us / 1000.0;
    double max = (double)run.samples[count - 1].late_us / 1000.0;
    json_t *result = json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f}", "load", "precision", "leases",
                               (json_int_t)count, "ttl_seconds", (json_int_t)run.ttl_seconds,
                               "early", (json_int_t)run.early, "late_min_ms", min, "late_median_ms",
                               median, "late_max_ms", max);
    load_report(load, result,
                "precision: %" PRIu64 " leases of %" PRId64
                " s, DELETE late by %.3f to %.3f ms, median %.3f ms, %" PRIu64 " early",
                count, run.ttl_seconds, min, max, median, run.early);
    free(run.samples);
    if (run.early > 0) {
        exit(1);
    }
}

const struct load_command load_precision = {
    .name = "precision",
    .usage = "N",
    .help = "how late the DELETE of a lease's key comes, N times",
    .options = options,
    .needs_count = true,
    .run = run_precision,
};
