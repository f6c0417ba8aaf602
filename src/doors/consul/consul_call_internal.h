/* What consul_call.c and consul_query.c share. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_CALL_INTERNAL_H
#define LEASED_DOORS_CONSUL_CONSUL_CALL_INTERNAL_H

#include "doors/consul/consul_call.h"

/* Ends its watches; harmless when it does not wait. */
void consul_call_stop_waiting(struct consul_call *call);
/* The index that an answer says; never 0. */
int64_t consul_call_index(const struct consul_call *call);
/* The service has answered; frees it when the exchange is over. */
void consul_call_unpend(struct consul_call *call);

#endif
