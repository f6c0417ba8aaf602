/*
 * What the services of this door share: the door itself, calls that wait for the service, and
 * answers.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_CALL_H
#define LEASED_DOORS_NATIVE_NATIVE_CALL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/latency.h"
#include "base/list.h"
#include "core/service.h"
#include "doors/door.h"
#include "doors/leased_v1/leased_v1_call.h"
#include "doors/native/native_error.h"
#include "net/grpc.h"
#include "net/net_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    /* How often calls that could not go on are looked at. */
    NATIVE_TICK_MS = 100,
    /* Of one answer: a list goes on in the next one. */
    NATIVE_ANSWER_SIZE = 1024 * 1024
};

struct native_clock;
struct native_settler;
struct native_times;
struct native_waits;

struct native_stats {
    uint64_t sessions_created;
    uint64_t acquired;         /* acquisitions that were told to their calls */
    uint64_t acquired_at_once; /* of which without a wait */
    uint64_t released;
    uint64_t left; /* calls that ended before they were told */
    uint64_t renewals;
    size_t renew_streams;
    size_t observers;
    size_t event_streams;
    struct latency wait; /* from the request to the answer, of those that waited */
};

struct native_door {
    struct service *service;
    uv_loop_t *loop;
    struct leased_v1_api api;
    struct arena arena; /* of the request being handled */
    struct service_renewal *spare_renewal;
    struct native_clock *clock;
    struct native_waits *waits;
    struct native_settler *settler;
    struct native_stats stats;
};

static inline struct native_door *native_door_of(const struct grpc_call *call) {
    return grpc_call_context(call);
}

const struct key_store *native_keys(const struct native_door *door);
const struct lease_table *native_leases(const struct native_door *door);

/* --- Answers. --- */

static inline struct buffer *native_answer_begin(struct native_door *door) {
    return leased_v1_answer_begin(&door->api);
}

static inline struct buffer *native_answer_begin_at(struct native_door *door, int64_t revision) {
    return leased_v1_answer_begin_at(&door->api, revision);
}

/* --- Unary calls. --- */

/* Sessions that an answer is about. */
struct native_id_list {
    int64_t *ids;
    size_t n;
    bool has_more;
    int64_t next_id; /* where a list goes on */
};

/* As leased_v1_call_run(). */
static inline struct leased_v1_call *
native_call_run(struct grpc_call *call, uint32_t rule_number, const struct buffer *request,
                void (*reply)(struct leased_v1_call *waiting, const struct outcome *outcome)) {
    return leased_v1_call_run(&native_door_of(call)->api, call, rule_number, request, reply);
}

/* As leased_v1_call_read(). */
void native_call_read(struct grpc_call *call, struct bytes message, const struct key_range *ranges,
                      size_t n_ranges,
                      void (*resume)(struct grpc_call *call, struct bytes message));

/* Calls `resume` with the message and the same list once the time that is left of these sessions is
 * known, in their order; -1: it is not. The list is copied. */
void native_call_ask_times(struct grpc_call *call, struct bytes message,
                           const struct native_id_list *list,
                           void (*resume)(struct grpc_call *call, struct bytes message,
                                          const struct native_id_list *list,
                                          const int64_t *remaining_ms));

/* --- Time that is left. --- */

/* Asks for the time that is left of leases, which only the leader knows. `done` is called once:
 * before this returns when all is known at once, and NULL is returned; else later. The times are
 * those of the ids, in their order; -1: not known. Without memory there are none: n is 0. Whoever
 * loses interest calls native_times_forget(): `done` is not called then. */
struct native_times *
native_times_ask(struct native_door *door, const struct caller *caller, const int64_t *lease_ids,
                 size_t n, void (*done)(void *context, const int64_t *remaining_ms, size_t n),
                 void *context);
void native_times_forget(struct native_times *times);

/* --- The services. --- */

struct native_methods {
    const struct grpc_method *methods;
    size_t n_methods;
};
extern const struct native_methods native_session_methods;
extern const struct native_methods native_renew_methods;
extern const struct native_methods native_resource_methods;
extern const struct native_methods native_acquire_methods;
extern const struct native_methods native_observe_methods;
extern const struct native_methods native_pool_methods;
extern const struct native_methods native_fence_methods;
extern const struct native_methods native_history_methods;
extern const struct native_methods native_event_methods;

/* --- For the registry of doors. --- */

extern const struct door_request native_request_table[];
void native_metrics_write(const struct native_door *door, struct buffer *out);

#endif
