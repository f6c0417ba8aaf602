/*
 * Rules of the registry that one request needs: the registration of a service and the end of an
 * older one of the same id under another name, a node with its services and checks. What registers
 * is one revision, up to 64 rules.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_BATCH_H
#define LEASED_DOORS_CONSUL_CONSUL_BATCH_H

#include "doors/consul/consul_call.h"
#include "doors/consul/consul_rules.h"
#include "registry/registry_rules.h"

struct consul_batch;

struct consul_batch *consul_batch_create(struct consul_call *call);
void consul_batch_register(struct consul_batch *batch, const struct registry_register *request);
void consul_batch_deregister(struct consul_batch *batch, struct bytes service, struct bytes id);
void consul_batch_put_check(struct consul_batch *batch, const struct registry_put_check *request);
void consul_batch_delete_check(struct consul_batch *batch, struct bytes service, struct bytes id,
                               struct bytes check);
void consul_batch_report(struct consul_batch *batch, const struct registry_report *report);
/* Shows an instance, or a check of it, in a transaction. */
void consul_batch_show(struct consul_batch *batch, struct bytes service, struct bytes id,
                       struct bytes check);
/* For transactions, which are submitted by others: the last one, to be completed; all of them. */
struct consul_step *consul_batch_last(struct consul_batch *batch);
const struct consul_step *consul_batch_steps(const struct consul_batch *batch, size_t *out_n);
/* Submits them in turn. What is not there any more is no failure; any other ends it. */
void consul_batch_run(struct consul_batch *batch, void (*done)(struct consul_call *call));
/* Answers as most of the agent's requests do: nothing but 200. */
void consul_reply_ok(struct consul_call *call);
void consul_reply_true(struct consul_call *call);

#endif
