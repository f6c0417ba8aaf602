/*
 * What the leader does once a second on its own: compacts history as --auto-compaction-… asks, and
 * raises the alarm when the key store is larger than its quota. Both go through the log as any
 * client's command would.
 */
#ifndef LEASED_SERVER_HOUSEKEEPING_H
#define LEASED_SERVER_HOUSEKEEPING_H

#include "core/service.h"
#include "server/compactor.h"
#include "server/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* etcd's default. */
#define HOUSEKEEPING_QUOTA_BYTES_DEFAULT (UINT64_C(2) * 1024 * 1024 * 1024)

struct housekeeping {
    struct service *service;
    uint64_t quota_bytes;
    struct compactor compactor;
    uv_timer_t timer;
    struct service_request compaction;
    int64_t compaction_revision;
    bool is_compacting;
    struct service_request alarm;
    bool is_alarming;
};

void housekeeping_start(struct housekeeping *housekeeping, uv_loop_t *loop, struct service *service,
                        const struct options *options);
/* The service still owes answers to what was submitted: the object lives on until it is closed. */
void housekeeping_stop(struct housekeeping *housekeeping);

#endif
