/*
 * Checks of instances. A TTL check that is not critical has a lease: its end makes it critical. A
 * check that is critical and should not be so for ever has another: its end deregisters the
 * instance. Both are children of the lease of the instance.
 */
#ifndef LEASED_REGISTRY_REGISTRY_CHECK_RULES_H
#define LEASED_REGISTRY_REGISTRY_CHECK_RULES_H

#include "registry/registry_work_rules.h"

/* What a client may say of a check: not its leases, not when it changed. */
bool registry_check_is_acceptable(const struct registry_check *check);
/* Each valid, no id twice. */
bool registry_checks_are_acceptable(const struct registry_check *checks, size_t n);
/* Whether both ask the same in the same way, whatever has come of it. */
bool registry_check_asks_the_same(const struct registry_check *a, const struct registry_check *b);
/* Gives it the leases that its health needs (it has none yet) and writes it. */
void registry_check_start(struct registry_work *work, const struct registry_instance *instance,
                          struct registry_check *check);
void registry_check_put(struct registry_work *work, const struct registry_instance *instance,
                        const struct registry_check *check);

extern const struct rule registry_rule_put_check;
extern const struct rule registry_rule_delete_check;
extern const struct rule registry_rule_report;
extern const struct rule registry_rule_check_silent;
extern const struct rule registry_rule_check_critical;

#endif
