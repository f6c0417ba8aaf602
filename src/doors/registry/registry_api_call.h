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
#include "doors/registry/registry_api_error.h"
#include "net/grpc.h"

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
    struct arena arena;    /* of the request being handled */
    struct buffer scratch; /* of the answer being made */
    struct service_renewal *spare_renewal;
    struct {
        uint64_t cluster_id;
        uint64_t member_id;
        uint64_t term;
        uint64_t asked_ms; /* when they were asked for */
        bool is_known;
    } identity;
    struct registry_api_stats stats;
};

static inline struct registry_api *registry_api_of(const struct grpc_call *call) {
    return grpc_call_context(call);
}

static inline const struct key_store *registry_api_keys(const struct registry_api *door) {
    return state_view_keys(service_view(door->service));
}

/* --- Answers. --- */

/* An empty buffer with the header of an answer in it. It belongs to the door: one answer at a time.
 */
struct buffer *registry_api_answer_begin(struct registry_api *door);
/* Sends it; a stream goes on. */
void registry_api_answer_send(struct grpc_call *call, const struct buffer *answer);
/* Sends it and ends the call. */
void registry_api_answer_finish(struct grpc_call *call, const struct buffer *answer);

/* --- Unary calls. --- */

/* A call that waits for the service. It belongs to the service until its callback: when the client
 * goes away first, only `call` is taken from it. */
struct registry_api_call {
    struct grpc_call *call; /* NULL: the client went away */
    struct registry_api *door;
    union {
        struct service_request request;
        struct service_read read;
    };
    union {
        void (*reply)(struct registry_api_call *waiting, const struct outcome *outcome);
        void (*resume)(struct grpc_call *call, struct bytes message);
    };
    uint8_t *message; /* a copy */
    size_t message_size;
    size_t number; /* whatever the reply needs to know */
};

/* Runs a rule; `reply` is called when it was carried out and the client is still there. NULL: the
 * answer is its header. Errors are answered here. Returns the call's object, for what `reply` needs
 * to know, or NULL. */
struct registry_api_call *registry_api_call_run(struct grpc_call *call, uint32_t rule_number,
                                                const struct buffer *request,
                                                void (*reply)(struct registry_api_call *waiting,
                                                              const struct outcome *outcome));
/* Copies the message into it. False: there is no memory. */
bool registry_api_call_keep(struct registry_api_call *waiting, struct bytes message);
/* In `reply`: gives the call to what goes on with it. */
struct grpc_call *registry_api_call_take(struct registry_api_call *waiting);

/* Calls `resume` with the message once the state may be read, at once when it may be already. The
 * range is that whose right the caller needs. Refusals are answered here. `is_local`: the state of
 * this member will do. */
void registry_api_call_read(struct grpc_call *call, struct bytes message, struct key_range range,
                            bool is_local,
                            void (*resume)(struct grpc_call *call, struct bytes message));

/* For every unary method of those: forgets the call in the object that waits for the service. */
void registry_api_call_closed(struct grpc_call *call);

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
