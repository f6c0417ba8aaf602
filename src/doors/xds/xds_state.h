/*
 * What the parts of this door share: the door itself, its streams that have something to send, and
 * its statistics.
 */
#ifndef LEASED_DOORS_XDS_XDS_STATE_H
#define LEASED_DOORS_XDS_XDS_STATE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/keyed_hash.h"
#include "base/list.h"
#include "core/service.h"
#include "doors/door.h"
#include "doors/xds/xds_type.h"
#include "net/grpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct xds_shared_table;

struct xds_stats {
    size_t streams;
    size_t subscriptions;
    uint64_t requests;
    uint64_t responses;
    uint64_t resources;
    uint64_t acknowledged;
    uint64_t refused; /* NACK */
    uint64_t ignored; /* requests for an older response, or for types that are not served */
    uint64_t fetches;
    uint64_t not_modified;
    size_t waiting;   /* fetches over REST, for a change */
    uint64_t encoded; /* assignments made from the registry */
    uint64_t left_out;
};

struct xds_door {
    struct service *service;
    uv_loop_t *loop;
    struct arena arena;         /* of one read of the registry */
    struct arena request_arena; /* of the request being handled */
    struct buffer scratch;      /* of the response being made */
    struct xds_shared_table *shared;
    uint64_t iteration; /* of the loop, in which endpoints were last read, */
    uint64_t spent_ns;  /* and what that took */
    size_t n_jobs;      /* of workers that read endpoints */
    bool is_stopped;    /* the service closes */
    struct list streams;
    struct list stale;   /* streams that have something to do */
    struct list behind;  /* streams that go on when `retry` fires */
    uv_idle_t idle;      /* runs while there are any */
    uv_timer_t watchdog; /* whether there is a leader */
    uv_timer_t retry;
    uint64_t leaderless_since_ms;
    uint64_t refusal_logged_ms;
    struct xds_stats stats;
};

static inline const struct key_store *xds_keys(const struct xds_door *door) {
    return state_view_keys(service_view(door->service));
}

/* For people, with the code of gRPC. */
struct xds_error {
    enum grpc_code code;
    const char *text;
};
const struct xds_error *xds_error_of(enum status status);

void xds_metrics_write(const struct xds_door *door, struct buffer *out);

/* --- The services. --- */

struct xds_methods {
    const struct grpc_method *methods;
    size_t n_methods;
};
extern const struct xds_methods xds_stream_methods;
extern const struct xds_methods xds_fetch_methods;
struct net_scope;
void xds_fetch_register(struct net_scope *scope, void *door);
extern const struct door_request xds_request_table[];

/* Called by the door: streams that are stale go on, the leader is looked for. */
void xds_stream_run_stale(struct xds_door *door);
/* Those that are behind look again. */
void xds_stream_retry(struct xds_door *door);
void xds_stream_retry_later(struct xds_door *door);
void xds_stream_end_all(struct xds_door *door, const struct xds_error *error);

#endif
