/*
 * What calls of the Lock and Election services share beside the waiting (etcd_queue.h): rules that
 * are answered at once, the order of a queue as this member knows it, answers and errors.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_QUEUE_CALL_H
#define LEASED_DOORS_ETCD_ETCD_QUEUE_CALL_H

#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_error.h"
#include "doors/etcd/etcd_queue_rules.h"

/* Errors of Lock and Election have the code "unknown" in etcd; here, those for which the request is
 * to blame. Others keep their codes, by which clients know whether to ask again. */
const struct etcd_error *etcd_queue_error_of(enum status status);

/* Submits a rule, as etcd_call_submit(). The request is cleared. */
void etcd_queue_run(struct grpc_call *call, uint32_t rule_number, struct buffer *request,
                    void (*reply)(struct etcd_call *waiting, const struct outcome *outcome));
/* Unlock, Resign. The answer is a header. */
void etcd_queue_release(struct grpc_call *call, const struct etcd_release *release);
/* Answers with the header of the outcome. */
void etcd_queue_reply_header(struct etcd_call *waiting, const struct outcome *outcome);

/* Whoever looks for a key in a queue looks at all of them; a queue of more is not looked at. */
enum { ETCD_QUEUE_RECORDS_MAX = 128 * 1024 };
size_t etcd_queue_count(struct etcd_door *door, struct bytes name);
/* False: not in this iteration of the loop, or the queue is too long (STATUS_TOO_MANY_REQUESTS). To
 * be asked before etcd_queue_first(). */
bool etcd_queue_may_look(struct etcd_door *door, struct bytes name);

/* The key with the greatest create revision below `create_revision`, or with the lowest of all;
 * NULL: there is none. */
const struct record *etcd_queue_before(struct etcd_door *door, struct bytes name,
                                       int64_t create_revision);
const struct record *etcd_queue_first(struct etcd_door *door, struct bytes name);

/* Sends a LeaderResponse; the call goes on. */
void etcd_queue_send_leader(struct grpc_call *call, struct etcd_header header,
                            const struct record *record);

#endif
