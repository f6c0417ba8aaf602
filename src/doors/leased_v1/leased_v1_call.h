/*
 * A unary call that waits for the service. It belongs to the service until its callback: when the
 * client goes away first, only `call` is taken from it.
 */
#ifndef LEASED_DOORS_LEASED_V1_LEASED_V1_CALL_H
#define LEASED_DOORS_LEASED_V1_LEASED_V1_CALL_H

#include "base/list.h"
#include "doors/leased_v1/leased_v1_api.h"

struct leased_v1_call {
    struct grpc_call *call; /* NULL: the client went away */
    struct leased_v1_api *api;
    union {
        struct service_request request;
        struct service_read read;
    };
    union {
        void (*reply)(struct leased_v1_call *waiting, const struct outcome *outcome);
        void (*resume)(struct grpc_call *call, struct bytes message);
    };
    /* NULL: the door's */
    const struct leased_v1_error *(*error_of)(enum status status);
    /* The client went away, and not the service has the object but who set this: who destroys it.
     * NULL: the service has it. */
    void (*abandon)(struct leased_v1_call *waiting);
    int64_t number;   /* whatever the reply needs to know */
    uint8_t *message; /* a copy */
    size_t message_size;
};

/* Runs a rule; `reply` is called when it was carried out and the client is still there. NULL: the
 * answer is its header. Errors are answered here. Returns the call's object, for what `reply` needs
 * to know, or NULL. */
struct leased_v1_call *leased_v1_call_run(struct leased_v1_api *api, struct grpc_call *call,
                                          uint32_t rule_number, const struct buffer *request,
                                          void (*reply)(struct leased_v1_call *waiting,
                                                        const struct outcome *outcome));

struct leased_v1_read {
    struct bytes message;
    size_t message_size_max; /* names are short: unknown fields must not make it large */
    const struct key_range *ranges;
    size_t n_ranges;
    bool is_local; /* the state of this member will do */
};
/* Calls `resume` with the message once the state may be read, at once when it may be already. The
 * ranges are those whose right the caller needs. Refusals are answered here. */
void leased_v1_call_read(struct leased_v1_api *api, struct grpc_call *call,
                         const struct leased_v1_read *read,
                         void (*resume)(struct grpc_call *call, struct bytes message));

/* For every unary method of those: forgets the call in the object that waits for the service. */
void leased_v1_call_closed(struct grpc_call *call);

/* --- For a door that waits for something else. --- */

/* Zeroed, of `size` bytes, of which the first are a struct leased_v1_call. NULL: there is no
 * memory, and that is answered. */
void *leased_v1_call_create(struct leased_v1_api *api, struct grpc_call *call, size_t size);
void leased_v1_call_destroy(struct leased_v1_call *waiting);
/* Copies the message into it. False: there is no memory. */
bool leased_v1_call_keep(struct leased_v1_call *waiting, struct bytes message);
/* Gives the call to what goes on with it. */
struct grpc_call *leased_v1_call_take(struct leased_v1_call *waiting);

#endif
