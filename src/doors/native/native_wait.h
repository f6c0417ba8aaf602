/*
 * Calls that acquire, and wait for it on this member. The order is in the keys; a call watches one
 * key, the record of its own acquisition, so a hand-over wakes one call on one member, however many
 * wait. It waits across changes of the leader and installed snapshots. A call that ends before it
 * was told gives its place back.
 *
 * While a call waits, its client renews the session. A session that was created by the call itself
 * is renewed here until the call is answered.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_WAIT_H
#define LEASED_DOORS_NATIVE_NATIVE_WAIT_H

#include "doors/native/native_call.h"

struct native_waits *native_waits_create(struct native_door *door);
/* No call is open, and the service is closed. */
void native_waits_destroy(struct native_waits *waits);
/* Calls that wait, or whose places are being given back. */
size_t native_waits_count(const struct native_waits *waits);

#endif
