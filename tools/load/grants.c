/* `lease-load grants`: how many leases a second, and what they weigh. */
#include "tools/load/grant_run.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct option_entry options[] = {
    {"--ttl", 0, "S", "seconds (600)"},
    {"--keys", 0, NULL, "attach one key to each"},
    {"--depth", 'd', "D", "calls in flight on each connection (64)"},
    {NULL, 0, NULL, NULL},
};

static void run_grants(struct load *load, uint64_t count) {
    struct grant_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        load_die("out of memory");
    }
    run->load = load;
    run->total = count;
    run->ttl_seconds = load_option(load, "--ttl", 600, 1, INT32_MAX);
    run->depth = (size_t)load_option(load, "--depth", 64, 1, 10000);
    run->with_keys = arguments_has(&load->arguments, "--keys");
    load_connect_many(load, (size_t)load_option(load, "--connections", 4, 1, LOAD_CONNECTIONS_MAX));
    load_measure(load);
    grant_run(run);
    double seconds = load_elapsed_seconds(load);
    double rate = (double)count / seconds;
    char id_min[32];
    char id_max[32];
    char latency[128];
    snprintf(id_min, sizeof id_min, "%" PRIx64, run->id_min);
    snprintf(id_max, sizeof id_max, "%" PRIx64, run->id_max);
    json_t *result = json_pack("{s:s, s:I, s:b, s:f, s:f, s:s, s:s}", "load", "grants", "leases",
                               (json_int_t)count, "keys", (int)run->with_keys, "seconds", seconds,
                               "grants_per_second", rate, "id_min", id_min, "id_max", id_max);
    load_latency(&run->grant_us, result, latency);
    load_report(load, result,
                "grants: %" PRIu64 " leases%s in %.2f s, %.0f/s, grant %s, ids %s to %s", count,
                run->with_keys ? " with a key each" : "", seconds, rate, latency, id_min, id_max);
    free(run);
}

const struct load_command load_grants = {
    .name = "grants",
    .usage = "N",
    .help = "grant N leases as fast as possible",
    .options = options,
    .needs_count = true,
    .run = run_grants,
};
