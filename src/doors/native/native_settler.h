/*
 * Sees to it that what an end left undone is done: an end that concerns more queues than one run
 * may look at leaves keys (native_rules.h), and the member that leads runs the rule "settle" until
 * none is left. Every member looks; the rule may be run by any, any number of times.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_SETTLER_H
#define LEASED_DOORS_NATIVE_NATIVE_SETTLER_H

#include "doors/native/native_call.h"

struct native_settler *native_settler_create(struct native_door *door);
/* The service is closed. */
void native_settler_destroy(struct native_settler *settler);

#endif
