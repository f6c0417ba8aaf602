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
    uv_timer_t timer;  /* goes on with it */
    struct registry_api_stats stats;
};

/* Work on the instances of a service that waits for a later iteration of the loop, because others
 * have had their share of this one. */
struct registry_api_later {
    struct list link;
    struct bytes service;
    void (*run)(struct registry_api_later *later);
};
/* Runs it, now or later; to be cancelled by registry_api_later_cancel(). */
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

/* Calls `resume` with the message when there is room for work on the instances of a service, which
 * the message names. */
void registry_api_call_later(struct grpc_call *call, struct bytes message, struct bytes service,
                             void (*resume)(struct grpc_call *call, struct bytes message));

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
