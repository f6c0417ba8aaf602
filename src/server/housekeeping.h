/*
 * What a node does once a second on its own. Every node gives memory back to the system that many
 * clients needed and no longer do. The leader compacts history as --auto-compaction-… asks, raises
 * the alarm when the key store is larger than its quota, and lets tokens grow older; all of that
 * goes through the log as any client's command would.
 */
#ifndef LEASED_SERVER_HOUSEKEEPING_H
#define LEASED_SERVER_HOUSEKEEPING_H

#include "core/service.h"
#include "server/compactor.h"
#include "server/options.h"
#include "server/spare_memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Tokens are good for a day, or for --auth-token-ttl: 24 of these. */
#define HOUSEKEEPING_TOKEN_EPOCH_MS ((uint64_t)60 * 60 * 1000)

struct net_server;

struct housekeeping {
    struct service *service;
    const struct net_server *net;
    struct spare_memory spare_memory;
    uint64_t quota_bytes;
    bool compacts_history; /* when it takes too much memory: replication does */
    struct compactor compactor;
    uv_timer_t timer;
    struct service_request compaction;
    int64_t compaction_revision;
    bool is_compacting;
    struct service_request alarm;
    bool is_alarming;
    uint64_t token_epoch_length_ms;
    uint64_t token_epoch;    /* as it was last seen */
    uint64_t token_epoch_ms; /* since when it has been that */
    struct service_request aging;
    bool is_aging;
};

void housekeeping_start(struct housekeeping *housekeeping, uv_loop_t *loop, struct service *service,
                        const struct net_server *net, const struct options *options);
/* The service still owes answers to what was submitted: the object lives on until it is closed. */
void housekeeping_stop(struct housekeeping *housekeeping);

#endif
