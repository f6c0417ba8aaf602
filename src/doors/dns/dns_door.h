/* The registry as DNS: docs/doors/dns.md. */
#ifndef LEASED_DOORS_DNS_DNS_DOOR_H
#define LEASED_DOORS_DNS_DNS_DOOR_H

#include "doors/door.h"

extern const struct door dns_door;

#endif
