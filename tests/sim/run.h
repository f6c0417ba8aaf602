/* One seed from its beginning to its end. */
#ifndef LEASED_SIM_RUN_H
#define LEASED_SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run_options {
    uint64_t seed;
    size_t n_nodes; /* 0: the seed decides */
    int plan;       /* -1: the seed decides */
    bool is_verbose;
    bool has_registrars;      /* processes that register instances */
    bool has_natives;         /* clients of the native API, whatever the seed says */
    bool has_pipelines;       /* clients that send without waiting, whatever the seed says */
    bool has_doors;           /* clients of Redis, ZooKeeper and Consul, whatever the seed says */
    const char *skipped_sync; /* NULL, or what no disk syncs: see machine_disk.h */
};

/* Ends the process when a check fails. */
void run(const struct run_options *options);

#endif
