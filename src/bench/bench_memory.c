/*
 * `lease bench memory`: what a lease weighs, without and with a key. The server's resident memory
 * is read before, after the leases and after their keys, each time as the least seen while it
 * settles: what is held only for a moment (a snapshot being written, garbage being collected) is
 * not the lease's.
 */
#include "base/clock.h"
#include "bench/bench_fill.h"

#include <inttypes.h>

#define POLL_NS (BENCH_NS_PER_SECOND / 4)

static uint64_t settled_rss(struct bench *bench, uint64_t settle_ns) {
    uint64_t end_ns = clock_boottime_ns() + settle_ns;
    uint64_t least = bench_server_rss_bytes(bench);
    while (clock_boottime_ns() < end_ns) {
        bench_sleep(bench, POLL_NS);
        uint64_t now = bench_server_rss_bytes(bench);
        least = now < least ? now : least;
    }
    return least;
}

static void add_rss(struct bench *bench, const char *name, uint64_t bytes, const char *title) {
    bench_fact(bench, name, json_integer((json_int_t)bytes), title, "%.1f MB resident",
               (double)bytes / 1e6);
}

static void run(struct bench *bench) {
    uint64_t n_leases = (uint64_t)bench_option(bench, "--leases", 100000, 1, BENCH_COUNT_MAX);
    uint64_t n_keys = (uint64_t)bench_option(bench, "--keys-per-lease", 1, 0, 1000000);
    uint64_t settle_ns = bench_option_ns(bench, "--settle", 5 * BENCH_NS_PER_SECOND);
    struct bench_fill fill = {
        .bench = bench,
        .n_leases = n_leases,
        .value = bench_value(bench, 16),
        .ttl_seconds = bench_option(bench, "--ttl", 3600, 1, INT32_MAX),
        .first_id = bench_fill_first_id(),
    };
    bench_measure_begin(bench);
    uint64_t idle = settled_rss(bench, BENCH_NS_PER_SECOND / 2);
    bench_fill_run(&fill);
    uint64_t with_leases = settled_rss(bench, settle_ns);
    double lease_bytes = ((double)with_leases - (double)idle) / (double)n_leases;
    bench_fact(bench, "leases", json_integer((json_int_t)n_leases), "leases", "%" PRIu64, n_leases);
    add_rss(bench, "idle_rss_bytes", idle, "idle");
    add_rss(bench, "leases_rss_bytes", with_leases, "with leases");
    bench_fact(bench, "bytes_per_lease", json_real(lease_bytes), "a lease", "%.1f bytes",
               lease_bytes);
    if (n_keys > 0) {
        bench_fill_attach(&fill, n_keys);
        uint64_t with_keys = settled_rss(bench, settle_ns);
        double key_bytes = ((double)with_keys - (double)idle) / (double)n_leases;
        bench_fact(bench, "keys_per_lease", json_integer((json_int_t)n_keys), NULL, "%s", "");
        add_rss(bench, "keys_rss_bytes", with_keys, "with keys");
        bench_fact(bench, "bytes_per_lease_with_keys", json_real(key_bytes), "with keys",
                   "%.1f bytes a lease with %" PRIu64 " keys", key_bytes, n_keys);
    }
    bench_measure_end(bench);
}

const struct bench_workload bench_memory = {
    .name = "memory",
    .help = "bytes that a lease weighs, without and with a key; on a fresh server",
    .takes = {"--leases", "--keys-per-lease", "--value-size", "--ttl", "--settle"},
    .clients_default = 1,
    .connections_default = 4,
    .needs_pid = true,
    .run = run,
};
