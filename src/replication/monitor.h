/*
 * Counts what service_monitor() tells. Nothing depends on it.
 */
#ifndef LEASED_REPLICATION_MONITOR_H
#define LEASED_REPLICATION_MONITOR_H

#include "core/service_monitor.h"

#include <stddef.h>
#include <stdint.h>

/* A round of pings was sent at this time, which they carry. */
void monitor_pinged(struct service *service, uint64_t now_ms);
/* A member answered one. */
void monitor_answered(struct service *service, uint64_t from_id, uint64_t sent_ms);
/* 0: there is none. */
void monitor_leader_changed(struct service *service, uint64_t leader_id);
/* An entry was applied; `submitted_us` 0: of another member's. */
void monitor_applied(struct service *service, uint64_t begun_us, uint64_t submitted_us,
                     size_t n_commands);

#endif
