/*
 * Finds instances by what their keys do not tell: their address (PTR), their node, and services
 * whose names have capital letters, which DNS does not tell apart from small ones. Local memory of
 * a door, kept up to date by a watch of all instances and filled bit by bit when it begins: until
 * then some are not found. What it gives is only where to look: the caller compares with the
 * record.
 */
#ifndef LEASED_DOORS_DNS_DNS_INDEX_H
#define LEASED_DOORS_DNS_DNS_INDEX_H

#include "base/arena.h"
#include "base/keyed_hash.h"
#include "core/service.h"

#include <uv.h>

enum dns_index_kind {
    DNS_INDEX_ADDRESS, /* 4 or 16 bytes */
    DNS_INDEX_NODE,    /* in small letters */
    DNS_INDEX_SERVICE  /* in small letters; only those with others in them */
};

struct dns_index;

/* Begins when the loop runs. Aborts when memory is out. */
struct dns_index *dns_index_create(uv_loop_t *loop, struct service *service);
/* When the service is gone already. The memory follows when its handle is closed. Accepts NULL. */
void dns_index_destroy(struct dns_index *index);

/* Whether it knows all instances. */
bool dns_index_is_complete(const struct dns_index *index);
size_t dns_index_count(const struct dns_index *index);

/* Instances that may have this, until `visit` returns false; the texts are borrowed for the call.
 */
void dns_index_visit(const struct dns_index *index, enum dns_index_kind kind, struct bytes value,
                     bool (*visit)(void *context, struct bytes service, struct bytes id),
                     void *context);

#endif
