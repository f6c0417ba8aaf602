/*
 * leased's own API over gRPC and as JSON (proto/leased_v1.proto, docs/doors/native.md): sessions,
 * resources, pools, fences, history. Translates between the wire and core/service.h; what changes
 * is in the rules (native_rules.h), who waits on this member in native_wait.h.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_DOOR_H
#define LEASED_DOORS_NATIVE_NATIVE_DOOR_H

#include "doors/door.h"

/* The table by which the server knows this door. */
extern const struct door native_door;

#endif
