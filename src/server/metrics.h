/*
 * The answer of /metrics: our own names, those of the process that every
 * dashboard knows, and those of etcd's that people scrape.
 */
#ifndef LEASED_SERVER_METRICS_H
#define LEASED_SERVER_METRICS_H

#include "base/buffer.h"
#include "core/service.h"
#include "net/net_server.h"
#include "server/health.h"
#include "server/metrics_text.h"
#include "server/open_doors.h"

#include <stdint.h>

/* All borrowed, but for the counters, the question and the text. */
struct metrics_sources {
    struct service *service;
    const struct net_server *net;
    const struct authenticator *authenticator;
    const struct open_doors *doors;
    uint64_t n_healthy; /* answers of /health */
    uint64_t n_unhealthy;
    struct health_question question;
    struct metrics_text text;
};

void metrics_write(const struct metrics_sources *sources, struct buffer *buffer);

#endif
