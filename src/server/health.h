/*
 * /health, /livez and /readyz, in etcd's words: which checks there are, what they say, which of
 * them a request leaves out. Whether reads are answered is found out by asking a majority: a leader
 * that is remembered may have been out of reach for a while.
 */
#ifndef LEASED_SERVER_HEALTH_H
#define LEASED_SERVER_HEALTH_H

#include "base/list.h"
#include "core/service.h"
#include "net/http.h"

#include <stdbool.h>

/* One question is under way at a time, and answers all who ask meanwhile. */
struct health_question {
    struct service_read read;
    struct list waiting; /* struct waiting_probe of health.c */
    bool is_asked;
};

void health_question_init(struct health_question *question);

/* Their context is struct metrics_sources. */
void health_serve(struct http_exchange *exchange);       /* /health */
void health_serve_livez(struct http_exchange *exchange); /* /livez and /livez/{check} */
void health_serve_readyz(struct http_exchange *exchange);
void health_on_close(struct http_exchange *exchange);

#endif
