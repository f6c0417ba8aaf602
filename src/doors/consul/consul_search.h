/*
 * What can only be found by going through much of the registry: checks by their id alone, the
 * instances of a node, those of an id in whatever services. Where that is little it is done at
 * once. Else a worker does it, from a view: nothing is found for now, call->is_busy is set, and
 * whatever the handler answers then is dropped. When the worker is done the handler runs again, and
 * finds what it looks for.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_SEARCH_H
#define LEASED_DOORS_CONSUL_CONSUL_SEARCH_H

#include "doors/consul/consul_call.h"

enum consul_search_kind {
    CONSUL_SEARCH_CHECK,     /* of an id and a node: one */
    CONSUL_SEARCH_NODE,      /* instances of a node */
    CONSUL_SEARCH_ID,        /* an instance of an id and a node: one */
    CONSUL_SEARCH_CONSUL_ID, /* instances of an id and a node that came by this API */
};

struct consul_match {
    struct bytes service;
    struct bytes id;
};

struct consul_search {
    struct consul_search *next; /* of the call */
    enum consul_search_kind kind;
    struct bytes node;
    struct bytes id; /* of the instance or the check */
    bool is_done;
    bool is_cut; /* there are more than are kept */
    struct consul_match *matches;
    size_t n_matches;
    size_t capacity;
};

/* What was found, in the call's memory; it may be gone from the store by now. NULL: not yet. */
const struct consul_search *consul_search(struct consul_call *call, const struct key_store *keys,
                                          enum consul_search_kind kind, struct bytes node,
                                          struct bytes id);

#endif
