/* What /metrics says of this door. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_METRICS_H
#define LEASED_DOORS_CONSUL_CONSUL_METRICS_H

#include "doors/consul/consul_door_internal.h"

void consul_metrics_write(const void *door, struct buffer *out);

#endif
