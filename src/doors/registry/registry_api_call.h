/*
 * What the methods of this door share: the door itself, calls that wait for the service, and
 * answers.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_API_CALL_H
#define LEASED_DOORS_REGISTRY_REGISTRY_API_CALL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/list.h"
#include "core/service.h"
#include "doors/door.h"
#include "doors/leased_v1/leased_v1_call.h"
#include "doors/registry/registry_api_error.h"
#include "net/grpc.h"

#include <uv.h>

enum {
    /* Of one answer: a list goes on in the next one. */
    REGISTRY_API_ANSWER_SIZE = 1024 * 1024
};

struct check_runner;

struct registry_api_stats {
    uint64_t registered;
    uint64_t deregistered;
    uint64_t fenced; /* requests of a process whose successor has registered */
    uint64_t renewals;
    uint64_t reports;
    uint64_t discoveries;
    uint64_t changes_told; /* to watchers */
    size_t renew_streams;
    size_t watchers;
};

struct registry_api {
    struct service *service;
    struct check_runner *checks;
    struct leased_v1_api api;
    struct arena arena; /* of the request being handled */
    struct service_renewal *spare_renewal;
    struct list later; /* what waits for its share of the loop, by registry_api_later.link */
    struct list large; /* what waits for a worker, by the same */
    uv_timer_t timer;  /* goes on with both */
    size_t n_jobs;     /* of workers */
    bool is_stopped;   /* the service closes: nothing more is begun */
    struct registry_api_stats stats;
};

/* An answer that has the instances of a service. Of a small one it is written on the loop, now or
 * in a later iteration, when others have had their share of this one; of a large one by a worker,
 * from a view, a few at a time. */
struct registry_api_later {
    struct list link; /* in a queue of the door */
    struct grpc_call *call;
    struct bytes service;
    struct bytes message; /* what write() has to know */
    /* Writes the answer, without its header. A worker may run it: it uses nothing else. */
    void (*write)(struct bytes message, const struct key_store *keys, struct arena *arena,
                  struct buffer *out);
    /* STATUS_OK: it was written of the state of that revision. Else: refused. */
    void (*done)(struct registry_api_later *later, enum status status, struct bytes body,
                 int64_t revision);
    struct registry_api_job *job; /* a worker writes it; NULL: none does */
};
/* done() follows, now or later, unless it is cancelled. */
void registry_api_later(struct registry_api *door, struct registry_api_later *later);
/* Also of one that is not waiting. */
void registry_api_later_cancel(struct registry_api_later *later);
void registry_api_later_init(struct registry_api *door, uv_loop_t *loop);

static inline struct registry_api *registry_api_of(const struct grpc_call *call) {
    return grpc_call_context(call);
}

static inline const struct key_store *registry_api_keys(const struct registry_api *door) {
    return state_view_keys(service_view(door->service));
}

/* --- Answers and unary calls. --- */

static inline struct buffer *registry_api_answer_begin(struct registry_api *door) {
    return leased_v1_answer_begin(&door->api);
}

/* As leased_v1_call_run(). */
static inline struct leased_v1_call *registry_api_call_run(
    struct grpc_call *call, uint32_t rule_number, const struct buffer *request,
    void (*reply)(struct leased_v1_call *waiting, const struct outcome *outcome)) {
    return leased_v1_call_run(&registry_api_of(call)->api, call, rule_number, request, reply);
}

/* As leased_v1_call_read(). */
void registry_api_call_read(struct grpc_call *call, struct bytes message, struct key_range range,
                            bool is_local,
                            void (*resume)(struct grpc_call *call, struct bytes message));

/* Finishes the call with what `write` writes of the instances of a service, which the message names
 * (see registry_api_later()). */
void registry_api_call_later(struct grpc_call *call, struct bytes message, struct bytes service,
                             void (*write)(struct bytes message, const struct key_store *keys,
                                           struct arena *arena, struct buffer *out));

/* --- The methods. --- */

struct registry_api_methods {
    const struct grpc_method *methods;
    size_t n_methods;
};
extern const struct registry_api_methods registry_api_change_methods;
extern const struct registry_api_methods registry_api_discover_methods;
extern const struct registry_api_methods registry_api_renew_methods;
extern const struct registry_api_methods registry_api_report_methods;
extern const struct registry_api_methods registry_api_watch_methods;

extern const struct door_request registry_api_requests[];
void registry_api_metrics_write(const struct registry_api *door, struct buffer *out);
void registry_api_gateway_register(struct net_scope *scope);

#endif
