/* Registering and leaving, and the end of an instance's lease, whatever ends it. */
#ifndef LEASED_REGISTRY_REGISTRY_REGISTER_RULES_H
#define LEASED_REGISTRY_REGISTRY_REGISTER_RULES_H

#include "registry/registry_work_rules.h"

extern const struct rule registry_rule_register;
extern const struct rule registry_rule_deregister;
extern const struct rule registry_rule_instance_ended;

#endif
