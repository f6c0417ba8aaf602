/*
 * `lease bench grant`: leases without keys, as fast as they are answered or at a rate; and `fill`,
 * a fixed number of them. They stay on the server until their TTL ends.
 */
#include "bench/bench_driver.h"
#include "bench/bench_fill.h"
#include "client/lease_hot.h"

#include <inttypes.h>

static int64_t ttl_seconds;

static void on_answer(void *context, enum grpc_code code, const char *text, struct bytes message) {
    (void)message;
    bench_check_code(code, text, "grant");
    bench_driver_done(context);
}

static void start(struct bench_client *client) {
    if (!lease_hot_grant(client->connection, ttl_seconds, 0, on_answer, client)) {
        bench_die("grant: the connection is closed");
    }
}

static void run(struct bench *bench) {
    ttl_seconds = bench_option(bench, "--ttl", 300, 1, INT32_MAX);
    struct bench_driver *driver =
        bench_driver_create(bench, start, bench_tally_add(bench, "grants"));
    bench_driver_run(driver);
    bench_driver_destroy(driver);
}

const struct bench_workload bench_grant = {
    .name = "grant",
    .help = "grant leases",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--ttl"},
    .clients_default = 100,
    .connections_default = 4,
    .run = run,
};

/* ---- fill ---------------------------------------------------------------------------------------
 */

static void run_fill(struct bench *bench) {
    struct bench_fill fill = {
        .bench = bench,
        .n_leases = (uint64_t)bench_option(bench, "--leases", 10000, 1, BENCH_COUNT_MAX),
        .n_keys = (uint64_t)bench_option(bench, "--keys-per-lease", 0, 0, 1000000),
        .value = bench_value(bench, 16),
        .ttl_seconds = bench_option(bench, "--ttl", 600, 1, INT32_MAX),
    };
    bench_measure_begin(bench);
    bench_fill_run(&fill);
    bench_measure_end(bench);
    bench_fact(bench, "leases", json_integer((json_int_t)fill.n_leases), "granted",
               "%" PRIu64 " leases with %" PRIu64 " keys each, %.0f leases/s", fill.n_leases,
               fill.n_keys, (double)fill.n_leases / bench_seconds(bench));
    bench_fact(bench, "keys_per_lease", json_integer((json_int_t)fill.n_keys), NULL, "%s", "");
}

const struct bench_workload bench_fill_workload = {
    .name = "fill",
    .help = "grant a number of leases and leave them: a server to look at",
    .takes = {"--leases", "--keys-per-lease", "--value-size", "--ttl"},
    .clients_default = 1,
    .connections_default = 4,
    .run = run_fill,
};
