/*
 * The endpoints of a service, as a ClusterLoadAssignment: instances by zone, with weight, health
 * and metadata. Pure: entries in, message out.
 *
 * Listed are instances with an IP address and a port whose state is up or draining; clients refuse
 * a whole assignment with anything else in it. Of several with one address and port, which clients
 * refuse as well, the best is listed: one that serves, then the later registration.
 *
 *     up, passing or warning              HEALTHY
 *     up, critical                        UNHEALTHY
 *     draining, or of weight 0            DRAINING
 *     kept by the mass-failure guard      UNKNOWN, which clients use, unless one of the above
 */
#ifndef LEASED_DOORS_XDS_XDS_ENDPOINTS_H
#define LEASED_DOORS_XDS_XDS_ENDPOINTS_H

#include "base/arena.h"
#include "doors/xds/xds_name.h"
#include "doors/xds/xds_writer.h"
#include "registry/registry_view.h"

enum xds_health { XDS_UNKNOWN = 0, XDS_HEALTHY = 1, XDS_UNHEALTHY = 2, XDS_DRAINING = 3 };

/* False: it is not listed. */
bool xds_endpoint_health(const struct registry_entry *entry, enum xds_health *out_health);

struct xds_assignment {
    struct bytes name;      /* of the resource */
    struct bytes near_zone; /* priority 0 is its own, where there is an instance; empty: none */
};

/* The fields of the message; what is around it is the caller's. The array of entries is put in
 * order. Returns how many were left out although they are up or draining. */
size_t xds_endpoints_write(struct xds_writer *writer, const struct xds_assignment *assignment,
                           const struct registry_entry **entries, size_t n_entries);

/* The instances that a name stands for, in arena memory. */
void xds_endpoints_collect(const struct key_store *keys, struct arena *arena,
                           const struct xds_name *name, const struct registry_entry ***out_entries,
                           size_t *out_n);

#endif
