/* The list of the registry's rules. */
#include "registry/registry_rules.h"

#include "registry/registry_change_rules.h"
#include "registry/registry_check_rules.h"
#include "registry/registry_guard_rules.h"
#include "registry/registry_register_rules.h"

const struct rule *const registry_rules[REGISTRY_N_RULES] = {
    &registry_rule_register,       &registry_rule_deregister,    &registry_rule_set_state,
    &registry_rule_set_metadata,   &registry_rule_put_check,     &registry_rule_delete_check,
    &registry_rule_report,         &registry_rule_settings,      &registry_rule_runner,
    &registry_rule_instance_ended, &registry_rule_lost_ended,    &registry_rule_guard_ended,
    &registry_rule_check_silent,   &registry_rule_check_critical};
