/* `lease bench grant`: leases without keys. They stay on the server until their TTL ends. */
#include "cli/bench_driver.h"

static int64_t ttl_seconds;

static void on_answer(void *context, const struct lease_answer *answer) {
    bench_check(answer, "grant");
    bench_driver_done(context);
}

static void start(struct bench_client *client) {
    if (!lease_client_grant(client->connection, ttl_seconds, 0, on_answer, client)) {
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
