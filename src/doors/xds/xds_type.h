/*
 * The types of resources. Their order is that in which they are sent: clusters before their
 * endpoints, listeners before their routes, so that no client is told of something whose parts it
 * does not know ("Eventual consistency considerations" of the xDS protocol).
 */
#ifndef LEASED_DOORS_XDS_XDS_TYPE_H
#define LEASED_DOORS_XDS_XDS_TYPE_H

#include "base/bytes.h"

#include <stdbool.h>

enum xds_type { XDS_CLUSTERS, XDS_ENDPOINTS, XDS_LISTENERS, XDS_ROUTES, XDS_TYPES };

/* "type.googleapis.com/envoy.config.cluster.v3.Cluster" */
const char *xds_type_url(enum xds_type type);
/* False: no such type is served. */
bool xds_type_find(struct bytes url, enum xds_type *out_type);

/* Can be subscribed to without naming them: all there are. A response of state-of-the-world then
 * has all of them, and what it leaves out is gone. */
static inline bool xds_type_is_whole(enum xds_type type) {
    return type == XDS_CLUSTERS || type == XDS_LISTENERS;
}

#endif
