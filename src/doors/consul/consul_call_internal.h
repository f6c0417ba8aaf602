/* What consul_call.c, consul_query.c and consul_scan.c share. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_CALL_INTERNAL_H
#define LEASED_DOORS_CONSUL_CONSUL_CALL_INTERNAL_H

#include "doors/consul/consul_call.h"

/* Ends its watches; harmless when it does not wait. */
void consul_call_stop_waiting(struct consul_call *call);
/* The index that an answer says; never 0. */
uint64_t consul_call_index(const struct consul_call *call);
/* The service has answered; frees it when the exchange is over. */
void consul_call_unpend(struct consul_call *call);
/* Copies the parameters, so that the exchange is not needed for them any more. */
void consul_call_detach(struct consul_call *call);
/* The head of an answer that comes in parts. */
void consul_call_start(struct consul_call *call, unsigned status);

/* Whether there is news for the client, by own_index and bound_index. If not, `out_revision` is
 * where its watches have to start. */
bool consul_call_is_news(const struct consul_call *call, const struct key_store *keys,
                         int64_t *out_revision);
void consul_call_wait(struct consul_call *call, int64_t start_revision);

/* What show() looked for was found, or not: it runs again. */
void consul_call_look_again(struct consul_call *call);

/* --- consul_search.c: what a worker looks for. --- */

/* False: nothing that was looked for needs a worker. True: the answer is made again later. */
bool consul_search_start(struct consul_call *call);

/* --- consul_scan.c: lists that a worker writes. --- */

/* Refused, the call is answered. */
void consul_call_start_scan(struct consul_call *call, struct service_scan scan);
/* Gives the view back. The call may be gone afterwards. */
void consul_scan_end(struct consul_call *call);

void consul_scan_start(struct consul_call *call);
/* The client can take more. */
void consul_scan_go_on(struct consul_call *call);
/* The exchange is over. */
void consul_scan_stop(struct consul_call *call);

#endif
