#include "doors/consul/consul_rules.h"

const struct rule *const consul_rules[] = {
    &consul_rule_kv,
    &consul_rule_session_create,
    &consul_rule_session_destroy,
    &consul_rule_session_ended,
    &consul_rule_event,
    &consul_rule_begin,
    &consul_rule_txn,
};
_Static_assert(sizeof consul_rules / sizeof consul_rules[0] == CONSUL_N_RULES, "all of them");
