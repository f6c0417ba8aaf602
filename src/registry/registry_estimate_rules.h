/*
 * How much work a rule of the registry may be that changes an instance: by what is stored of it,
 * which may be a megabyte, while the request has a few bytes. For struct rule's `estimate`.
 */
#ifndef LEASED_REGISTRY_REGISTRY_ESTIMATE_RULES_H
#define LEASED_REGISTRY_REGISTRY_ESTIMATE_RULES_H

#include "core/rule.h"

/* Of requests that begin with the names of the service and the instance: the instance is read with
 * its checks, and written with its mirror. */
size_t registry_estimate_change(const struct key_store *keys, const struct lease_table *leases,
                                struct bytes request);
/* The same, and the checks are written as well. */
size_t registry_estimate_move(const struct key_store *keys, const struct lease_table *leases,
                              struct bytes request);
/* Of registry_reports_encode(). */
size_t registry_estimate_reports(const struct key_store *keys, const struct lease_table *leases,
                                 struct bytes request);

#endif
