/*
 * `lease bench keepalive`: renews leases round robin. Clients are renewals in flight; they share
 * the streams, the streams share the connections. Client c renews the leases c, c + clients, … one
 * at a time, so that an answer belongs to the client of its id.
 */
#include "bench/bench_driver.h"
#include "bench/bench_fill.h"

#include <inttypes.h>
#include <stdlib.h>

struct keepalive {
    struct bench *bench;
    struct bench_driver *driver;
    int64_t first_id;
    uint64_t n_leases;
    struct grpc_client_call **streams;
    size_t n_streams;
    uint64_t *next; /* of each client: the lease it renews next */
    bool stopping;
};

static void on_renewed(void *context, int64_t id, int64_t ttl_seconds) {
    struct keepalive *keepalive = context;
    if (ttl_seconds <= 0) {
        bench_die("lease %" PRIx64 " was not found", (uint64_t)id);
    }
    uint64_t index = (uint64_t)(id - keepalive->first_id);
    if (index >= keepalive->n_leases) {
        bench_die("the server renewed lease %" PRIx64 ", which was not asked for", (uint64_t)id);
    }
    size_t client = (size_t)(index % keepalive->bench->n_clients);
    bench_driver_done(bench_driver_client(keepalive->driver, client));
}

static void on_end(void *context, enum grpc_code code, const char *text) {
    const struct keepalive *keepalive = context;
    if (!keepalive->stopping) {
        bench_die("a renewal stream ended: %s (gRPC status %d)", text, (int)code);
    }
}

static const struct lease_keepalive_events events = {.on_renewed = on_renewed, .on_end = on_end};

static void start(struct bench_client *client) {
    struct keepalive *keepalive = client->context;
    uint64_t index = keepalive->next[client->index];
    uint64_t following = index + keepalive->bench->n_clients;
    keepalive->next[client->index] = following < keepalive->n_leases ? following : client->index;
    lease_client_renew(keepalive->streams[client->index % keepalive->n_streams],
                       keepalive->first_id + (int64_t)index);
}

static void open_streams(struct keepalive *keepalive) {
    struct bench *bench = keepalive->bench;
    keepalive->streams = bench_allocate(keepalive->n_streams, sizeof *keepalive->streams);
    for (size_t i = 0; i < keepalive->n_streams; i++) {
        keepalive->streams[i] = lease_client_keepalive(bench->connections[i % bench->n_connections],
                                                       &events, keepalive);
        if (keepalive->streams[i] == NULL) {
            bench_die("keepalive: the connection is closed");
        }
    }
}

static void run(struct bench *bench) {
    struct keepalive keepalive = {.bench = bench};
    keepalive.n_leases = (uint64_t)bench_option(bench, "--leases", 10000, 1, BENCH_COUNT_MAX);
    keepalive.n_streams = (size_t)bench_option(bench, "--streams", (int64_t)bench->n_connections, 1,
                                               BENCH_CLIENTS_MAX);
    /* A lease is never in flight twice, or one answer would be taken for the other. */
    if (bench->n_clients > keepalive.n_leases) {
        bench->n_clients = (size_t)keepalive.n_leases;
    }
    keepalive.first_id = bench_fill_first_id();
    struct bench_fill fill = {
        .bench = bench,
        .n_leases = keepalive.n_leases,
        .n_keys = (uint64_t)bench_option(bench, "--keys-per-lease", 0, 0, 1000000),
        .value = bytes_from_text("v"),
        .first_id = keepalive.first_id,
        .ttl_seconds = bench_option(bench, "--ttl", 600, 1, INT32_MAX),
    };
    bench_fill_run(&fill);
    bench_fact(bench, "leases", json_integer((json_int_t)keepalive.n_leases), NULL, "%s", "");
    bench_fact(bench, "streams", json_integer((json_int_t)keepalive.n_streams), NULL, "%s", "");
    bench_fact(bench, "keys_per_lease", json_integer((json_int_t)fill.n_keys), "leases",
               "%" PRIu64 " with %" PRIu64 " keys each, on %zu streams", keepalive.n_leases,
               fill.n_keys, keepalive.n_streams);
    open_streams(&keepalive);
    keepalive.next = bench_allocate(bench->n_clients, sizeof *keepalive.next);
    keepalive.driver = bench_driver_create(bench, start, bench_tally_add(bench, "renewals"));
    for (size_t i = 0; i < bench->n_clients; i++) {
        keepalive.next[i] = i;
        bench_driver_client(keepalive.driver, i)->context = &keepalive;
    }
    bench_driver_run(keepalive.driver);
    keepalive.stopping = true;
    for (size_t i = 0; i < keepalive.n_streams; i++) {
        grpc_client_call_cancel(keepalive.streams[i]);
    }
    bench_driver_destroy(keepalive.driver);
    free(keepalive.next);
    free(keepalive.streams);
}

const struct bench_workload bench_keepalive = {
    .name = "keepalive",
    .help = "renew leases round robin; clients are renewals in flight",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--ttl", "--leases", "--streams",
              "--keys-per-lease"},
    .clients_default = 1000,
    .connections_default = 4,
    .run = run,
};
