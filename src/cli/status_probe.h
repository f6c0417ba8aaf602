/*
 * What each endpoint says of itself, asked of all at the same time: one that hangs, or a machine
 * that is gone, delays the others by nothing. A node answers for itself without a quorum; the
 * number of leases is a linearizable read, so it is waited for only where there is a leader, and
 * not for long.
 */
#ifndef LEASED_CLI_STATUS_PROBE_H
#define LEASED_CLI_STATUS_PROBE_H

#include "cli/cli.h"
#include "cli/cli_user.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATUS_PROBE_HEX_SIZE 17

struct endpoint_status {
    char endpoint[ENDPOINT_TEXT_SIZE_MAX];
    char version[64];
    char cluster_version[16]; /* empty: the server does not say */
    char member[STATUS_PROBE_HEX_SIZE];
    char leader[STATUS_PROBE_HEX_SIZE];
    bool has_leader;
    bool has_leases; /* n_leases is known */
    uint64_t term;
    int64_t revision;
    int64_t db_size_bytes;
    size_t n_leases;
    uint64_t latency_us;
};

/* Fills in those that are up, in the order of cli->endpoints, and returns their number. Reports on
 * standard error which endpoint is down or has no leader; `out_is_all_well` is false then. `user`
 * logs in at each endpoint first, unless its name is NULL. */
size_t status_probe_all(struct cli *cli, const struct cli_user *user,
                        struct endpoint_status out_statuses[ENDPOINTS_MAX], bool *out_is_all_well);

#endif
