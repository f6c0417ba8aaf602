/*
 * Resources that follow from the name of a service alone: its cluster, the listener and the route
 * that a gRPC client asks for. Whoever asks for one by name gets it, whether the service has
 * instances or not: its endpoints say that. Pure.
 */
#ifndef LEASED_DOORS_XDS_XDS_RESOURCES_H
#define LEASED_DOORS_XDS_XDS_RESOURCES_H

#include "doors/xds/xds_type.h"
#include "doors/xds/xds_writer.h"

/* The fields of the message; what is around it is the caller's. Not for XDS_ENDPOINTS. */
void xds_resource_write(struct xds_writer *writer, enum xds_type type, struct bytes name);

#endif
