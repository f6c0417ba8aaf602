/*
 * `lease-load expire-watch`: N leases with a key each, all due within the same second. A grant sent
 * at time t asks for the whole seconds from t to a common time D, rounded up, so that its deadline
 * falls into [D, D + 1 s) however long the granting takes. The lease that is due last is due at
 * max(answered + TTL). A watch counts the DELETE events, and a second client puts all the time.
 */
#include "base/clock.h"
#include "tools/load/delete_watch.h"
#include "tools/load/grant_run.h"
#include "tools/load/put_probe.h"

#include <inttypes.h>
#include <stdlib.h>

#define PROBE_VALUE_SIZE 256

struct expire_run {
    struct load *load;
    struct grant_run *grants;
    uint64_t *earliest_us;
    uint64_t total;
    uint64_t deleted;
    uint64_t early;
    uint64_t first_us;
    uint64_t last_us;
    bool is_over;
    struct put_probe *probe;
    uv_timer_t phase_timer;
    uv_timer_t end_timer;
};

static const struct option_entry options[] = {
    {"--ttl", 0, "S", "seconds from the first grant until they are due (30)"},
    {"--depth", 'd', "D", "calls in flight on each connection (64)"},
    {"--give-up", 0, "S", "seconds after the last is due (120)"},
    {NULL, 0, NULL, NULL},
};

static void on_deleted(void *context, uint64_t index, uint64_t now_us) {
    struct expire_run *run = context;
    if (index >= run->total || run->earliest_us[index] == 0) {
        return; /* a key of an earlier run */
    }
    if (now_us < run->earliest_us[index]) {
        run->early++;
    }
    run->earliest_us[index] = 0; /* once only */
    if (run->deleted == 0) {
        run->first_us = now_us;
    }
    run->last_us = now_us;
    run->deleted++;
    run->is_over = run->deleted == run->total;
}

static void on_phase(uv_timer_t *timer) {
    struct expire_run *run = timer->data;
    put_probe_enter(run->probe, PUT_PROBE_DURING);
}

static void on_give_up(uv_timer_t *timer) {
    struct expire_run *run = timer->data;
    run->is_over = true;
    uv_stop(timer->loop); /* the sockets may be silent by now */
}

static void start_timer(struct expire_run *run, uv_timer_t *timer, uv_timer_cb callback,
                        uint64_t at_us) {
    uint64_t now_us = clock_boottime_us();
    uv_timer_init(run->load->loop, timer);
    uv_update_time(run->load->loop);
    timer->data = run;
    uv_timer_start(timer, callback, at_us > now_us ? (at_us - now_us) / 1000 : 0, 0);
}

static void report(struct expire_run *run) {
    uint64_t due_us = run->grants->due_us;
    uint64_t latest_us = run->grants->latest_us;
    const struct histogram *before = put_probe_times_us(run->probe, PUT_PROBE_BEFORE);
    const struct histogram *during = put_probe_times_us(run->probe, PUT_PROBE_DURING);
    double first = ((double)run->first_us - (double)due_us) / 1e6;
    double last = ((double)run->last_us - (double)due_us) / 1e6;
    double late = ((double)run->last_us - (double)latest_us) / 1e6;
    json_t *result =
        json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "load", "expire-watch", "leases",
                  (json_int_t)run->total, "deleted", (json_int_t)run->deleted, "early",
                  (json_int_t)run->early, "due_window_seconds", (double)(latest_us - due_us) / 1e6,
                  "first_delete_after_due_seconds", first, "last_delete_after_due_seconds", last,
                  "last_delete_after_last_due_seconds", late);
    json_t *before_json = json_pack("{s:I}", "puts", (json_int_t)before->count);
    json_t *during_json = json_pack("{s:I}", "puts", (json_int_t)during->count);
    char before_text[128];
    char during_text[128];
    load_latency(before, before_json, before_text);
    load_latency(during, during_json, during_text);
    json_object_set_new(result, "puts_before", before_json);
    json_object_set_new(result, "puts_during", during_json);
    load_report(run->load, result,
                "expire-watch: %" PRIu64 " of %" PRIu64 " deleted, %" PRIu64
                " early; first %.3f s, last %.3f s after the due second began, %.3f s after the "
                "last was due; second client's puts: before %s; during (%" PRIu64 ") %s",
                run->deleted, run->total, run->early, first, last, late, before_text, during->count,
                during_text);
}

static void run_expire_watch(struct load *load, uint64_t count) {
    struct expire_run run = {.load = load, .total = count};
    struct grant_run *grants = calloc(1, sizeof *grants);
    run.earliest_us = calloc(count, sizeof *run.earliest_us);
    if (grants == NULL || run.earliest_us == NULL) {
        load_die("out of memory");
    }
    run.grants = grants;
    uint64_t ttl_us = (uint64_t)load_option(load, "--ttl", 30, 3, 86400) * 1000000;
    uint64_t give_up_us = (uint64_t)load_option(load, "--give-up", 120, 1, 86400) * 1000000;
    *grants = (struct grant_run){
        .load = load, .total = count, .with_keys = true, .earliest_us = run.earliest_us};
    grants->depth = (size_t)load_option(load, "--depth", 64, 1, 10000);
    size_t connections = (size_t)load_option(load, "--connections", 4, 1, LOAD_CONNECTIONS_MAX - 1);
    load_connect_many(load, connections);
    struct delete_watch watch = {.load = load, .context = &run, .on_deleted = on_deleted};
    delete_watch_start(&watch, load_connect(load, load->loop));
    grants->due_us = clock_boottime_us() + ttl_us;
    grant_run(grants);
    if (!load->json) {
        fprintf(stderr, "%" PRIu64 " leases granted, due in %.1f s\n", count,
                ((double)grants->due_us - (double)clock_boottime_us()) / 1e6);
    }
    load_measure(load);
    run.probe = put_probe_start(load, PROBE_VALUE_SIZE);
    start_timer(&run, &run.phase_timer, on_phase, grants->due_us);
    start_timer(&run, &run.end_timer, on_give_up, grants->latest_us + give_up_us);
    while (!run.is_over) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
    put_probe_stop(run.probe);
    report(&run);
    put_probe_destroy(run.probe);
    free(run.earliest_us);
    bool is_complete = run.deleted == run.total;
    uint64_t early = run.early;
    free(grants);
    if (!is_complete || early > 0) {
        exit(1);
    }
}

const struct load_command load_expire_watch = {
    .name = "expire-watch",
    .usage = "N",
    .help = "N leases with a key each due in the same second, while another client puts",
    .options = options,
    .needs_count = true,
    .run = run_expire_watch,
};
