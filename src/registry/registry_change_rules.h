/* Changes of an instance that is there, of the settings of a service, and members that run checks.
 */
#ifndef LEASED_REGISTRY_REGISTRY_CHANGE_RULES_H
#define LEASED_REGISTRY_REGISTRY_CHANGE_RULES_H

#include "registry/registry_work_rules.h"

extern const struct rule registry_rule_set_state;
extern const struct rule registry_rule_set_metadata;
extern const struct rule registry_rule_settings;
extern const struct rule registry_rule_runner;

#endif
