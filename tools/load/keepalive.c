/*
 * `lease-load keepalive`: renews N leases round robin, one stream on each connection, each stream
 * with a fixed number of renewals in flight.
 */
#include "base/clock.h"
#include "tools/load/grant_run.h"

#include <inttypes.h>
#include <stdlib.h>

struct stream {
    struct keepalive_run *run;
    struct grpc_client_call *call;
    size_t next; /* index of the next lease to renew */
    /* One renewal at a time is timed; its answer is known by the id. */
    int64_t timed_id;
    uint64_t timed_us; /* 0: none */
};

struct keepalive_run {
    struct load *load;
    int64_t *ids;
    size_t n_ids;
    size_t stride;
    uint64_t duration_us;
    uint64_t renewed;
    uint64_t in_flight;
    bool stopping;
    struct histogram latency_us;
};

static const struct option_entry options[] = {
    {"--seconds", 's', "S", "how long (5)"},
    {"--depth", 'd', "D", "renewals in flight on each stream (256)"},
    {"--ttl", 0, "S", "of the leases, in seconds (600)"},
    {NULL, 0, NULL, NULL},
};

static void renew_next(struct stream *stream) {
    struct keepalive_run *run = stream->run;
    int64_t id = run->ids[stream->next];
    stream->next += run->stride;
    if (stream->next >= run->n_ids) {
        stream->next %= run->stride;
    }
    if (stream->timed_us == 0) {
        stream->timed_us = clock_boottime_us();
        stream->timed_id = id;
    }
    lease_client_renew(stream->call, id);
    run->in_flight++;
}

static void on_renewed(void *context, int64_t id, int64_t ttl_seconds) {
    struct stream *stream = context;
    struct keepalive_run *run = stream->run;
    run->in_flight--;
    if (ttl_seconds <= 0) {
        load_die("lease %" PRIx64 " was not found", (uint64_t)id);
    }
    if (stream->timed_us != 0 && id == stream->timed_id) {
        histogram_add(&run->latency_us, clock_boottime_us() - stream->timed_us);
        stream->timed_us = 0;
    }
    if (!run->stopping) {
        run->renewed++;
        renew_next(stream);
    }
}

static void on_end(void *context, enum grpc_code code, const char *text) {
    (void)context;
    load_die("the renewal stream ended: %s (gRPC status %d)", text, (int)code);
}

static const struct lease_keepalive_events events = {.on_renewed = on_renewed, .on_end = on_end};

static void renew(struct keepalive_run *run, size_t depth) {
    struct load *load = run->load;
    struct stream *streams = calloc(load->n_clients, sizeof *streams);
    if (streams == NULL) {
        load_die("out of memory");
    }
    for (size_t i = 0; i < load->n_clients; i++) {
        struct stream *stream = &streams[i];
        stream->run = run;
        stream->next = i % run->n_ids;
        stream->call = lease_client_keepalive(load->clients[i], &events, stream);
        if (stream->call == NULL) {
            load_die("the connection is closed");
        }
        /* A lease is never in flight twice, or the answer of one renewal would be taken for that of
         * the next. */
        size_t own = (run->n_ids - stream->next + run->stride - 1) / run->stride;
        for (size_t j = 0; j < depth && j < own; j++) {
            renew_next(stream);
        }
    }
    load_run_for(load, run->duration_us);
    run->stopping = true;
    double seconds = load_elapsed_seconds(load);
    double rate = (double)run->renewed / seconds;
    char latency[128];
    json_t *result =
        json_pack("{s:s, s:I, s:I, s:I, s:f, s:f}", "load", "keepalive", "leases",
                  (json_int_t)run->n_ids, "connections", (json_int_t)load->n_clients, "renewals",
                  (json_int_t)run->renewed, "seconds", seconds, "renewals_per_second", rate);
    load_latency(&run->latency_us, result, latency);
    load_report(load, result, "keepalive: %" PRIu64 " renewals of %zu leases in %.2f s, %.0f/s, %s",
                run->renewed, run->n_ids, seconds, rate, latency);
    for (size_t i = 0; i < load->n_clients; i++) {
        grpc_client_call_cancel(streams[i].call);
    }
    free(streams);
}

static void run_keepalive(struct load *load, uint64_t count) {
    struct grant_run *grants = calloc(1, sizeof *grants);
    struct keepalive_run *run = calloc(1, sizeof *run);
    int64_t *ids = calloc(count, sizeof *ids);
    if (grants == NULL || run == NULL || ids == NULL) {
        load_die("out of memory");
    }
    *grants = (struct grant_run){.load = load, .total = count, .depth = 64, .ids = ids};
    grants->ttl_seconds = load_option(load, "--ttl", 600, 1, INT32_MAX);
    load_connect_many(load, (size_t)load_option(load, "--connections", 4, 1, LOAD_CONNECTIONS_MAX));
    grant_run(grants);
    run->load = load;
    run->ids = ids;
    run->n_ids = (size_t)count;
    run->stride = load->n_clients < run->n_ids ? load->n_clients : run->n_ids;
    load_measure(load);
    run->duration_us = (uint64_t)load_option(load, "--seconds", 5, 1, 86400) * 1000000;
    renew(run, (size_t)load_option(load, "--depth", 256, 1, 100000));
    free(ids);
    free(run);
    free(grants);
}

const struct load_command load_keepalive = {
    .name = "keepalive",
    .usage = "N",
    .help = "grant N leases, then renew them round robin on one stream a connection",
    .options = options,
    .needs_count = true,
    .run = run_keepalive,
};
