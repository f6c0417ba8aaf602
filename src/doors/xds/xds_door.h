/* The xDS API (Envoy, gRPC's xds:///): services and their instances as clusters and endpoints. */
#ifndef LEASED_DOORS_XDS_XDS_DOOR_H
#define LEASED_DOORS_XDS_XDS_DOOR_H

#include "doors/door.h"

extern const struct door xds_door;

#endif
