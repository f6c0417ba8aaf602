/*
 * leased's own API of the registry over gRPC and as JSON (leased.v1.Registry of
 * proto/leased_registry_v1.proto, docs/doors/registry.md). Brings the rules of the registry
 * (registry/registry_rules.h), which the doors of Consul, Eureka, DNS and xDS use as well.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_DOOR_H
#define LEASED_DOORS_REGISTRY_REGISTRY_DOOR_H

#include "doors/door.h"

/* The table by which the server knows this door. */
extern const struct door registry_door;

#endif
