/*
 * Instances that are lost, and the mass-failure guard. There is no clock in a rule: a window is a
 * lease whose end takes the record of the lost instance away. Counters decide, so that thousands of
 * instances that are lost at once cost each the same.
 *
 * Rounds: while the guard is off, each lost instance has a lease of its own for the window. When it
 * goes on, those stay, and when their windows end they go on to leases that many of them share; so
 * do those that are lost meanwhile. When the guard goes off, the round ends: one write, and nothing
 * of that round is listed or counted any more. Its records go with their leases.
 */
#ifndef LEASED_REGISTRY_REGISTRY_GUARD_RULES_H
#define LEASED_REGISTRY_REGISTRY_GUARD_RULES_H

#include "registry/registry_work_rules.h"

/* An instance whose lease has expired. */
void registry_guard_lose(struct registry_work *work, struct registry_work_service *service,
                         const struct registry_lost *lost);
/* Takes the record of a lost instance away; false: there was none. */
bool registry_guard_forget(struct registry_work *work, struct registry_work_service *service,
                           struct bytes id);
/* Whether the guard keeps it listed. */
bool registry_guard_keeps(struct registry_work *work, struct registry_work_service *service,
                          struct bytes id, int64_t *out_token);
/* After instances came back, or settings were changed: ends the guard when its reason is gone. */
void registry_guard_settle(struct registry_work *work, struct registry_work_service *service);

extern const struct rule registry_rule_lost_ended;
extern const struct rule registry_rule_guard_ended;

#endif
