/*
 * Lists: of the instances of one service or of all, of keys, of sessions. They may be of any
 * length, so they are written in parts. A short one is written on the loop at once, as far as
 * others leave room for it; a long one by a worker, from a view, part by part as the client takes
 * them. So no list holds the loop up, and none takes more memory than a part of it.
 *
 * The functions of a list use what they are given, the parameters and the memory of the call, and
 * nothing of the service: they run in either place.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_LIST_H
#define LEASED_DOORS_CONSUL_CONSUL_LIST_H

#include "doors/consul/consul_call.h"
#include "registry/registry_view.h"

struct consul_list {
    /* Before the first part, whenever the list is begun; NULL: nothing to do. */
    void (*begin)(struct consul_call *call);
    /* Sets own_index and bound_index. */
    void (*index)(struct consul_call *call, const struct key_store *keys);
    bool is_index_cheap; /* whatever the list's length */
    /* Writes the next part into call->body, until consul_list_is_full(). True: it was the last. */
    bool (*part)(struct consul_call *call, const struct key_store *keys);
    size_t work; /* of a record (see service_allow_work()) */
};

enum {
    /* Of one that is written, parsed again for filters, or has large texts, in looks at a record.
     */
    CONSUL_WORK_AN_INSTANCE = 128,
    CONSUL_WORK_A_KEY = 16
};

/* Begins anew. */
void consul_list_begin(struct consul_call *call);
bool consul_list_is_full(const struct consul_call *call);

/* Shows instances from call->position on, until the part is full. `service` is empty: of all
 * services. True: there are no more. What entries point to is the store's, and scratch memory. */
bool consul_list_instances(struct consul_call *call, const struct key_store *keys,
                           struct bytes service,
                           void (*show)(void *context, const struct registry_entry *entry),
                           void *context);
/* All instances of a service, until `visit` returns false, which is returned. What entries point to
 * is the store's, and memory that is given back by and by: only the former outlives the call of
 * `visit`. */
bool consul_list_visit(const struct key_store *keys, struct bytes service,
                       bool (*visit)(void *context, const struct registry_entry *entry),
                       void *context);
/* Names of services, as consul_list_instances() does. */
bool consul_list_services(struct consul_call *call, const struct key_store *keys,
                          void (*show)(void *context, struct bytes service), void *context);

#endif
